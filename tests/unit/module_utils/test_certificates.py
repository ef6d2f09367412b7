# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates of the library without a cluster."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.kube import certificates


class NoSecrets:
    """An API server without Secrets."""

    def read_secret(self, _namespace: str, _name: str) -> None:
        return None


def test_a_host_name_longer_than_a_common_name_gets_its_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(certificates, "apply", lambda *_: {"changed": True})
    long_name = f"{'k' * 40}.{'n' * 60}.svc"
    asked = {
        "namespace": "kepler",
        "authority_namespace": "kepler-authority",
        "authority_secret": "authority",
        "server_secret": "server",
        "client_secret": "client",
        "server_names": [long_name],
        "key_bits": 2048,
    }
    made = certificates.keep_certificates(asked, Context(), t.cast("t.Any", NoSecrets()))
    assert [each["action"] for each in made["certificates"]] == ["made"] * 3
