# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The columns that kubectl shows for a resource."""

from __future__ import annotations

import json
import ssl
import typing as t
import urllib.request

import kubernetes


def row(kubeconfig: str, path: str) -> list[t.Any]:
    """kubectl's cells for the first object, without its name."""
    settings = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(kubeconfig, client_configuration=settings)
    trust = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    headers = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    if settings.cert_file:
        trust.load_cert_chain(settings.cert_file, settings.key_file)
    if token := settings.get_api_key_with_prefix("authorization"):
        headers["Authorization"] = token
    request = urllib.request.Request(settings.host + path, headers=headers)
    with urllib.request.urlopen(request, context=trust) as answer:
        cells: list[t.Any] = json.load(answer)["rows"][0]["cells"]
    return cells[1:]
