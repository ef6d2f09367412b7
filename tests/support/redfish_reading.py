# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading of one BMC on loopback by the function behind redfish_thermal_info."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer

PIN = [SHARED_CERTIFICATE.fingerprint]
Result = dict[str, t.Any]


def read(
    documents: dict[str, Document], gather: str = "inlet", **parameters: t.Any
) -> tuple[Result, HttpsServer]:
    """The result for one BMC with these documents, and its server."""
    target = parameters.pop("target", {})
    server_options = parameters.pop("server", {})
    with HttpsServer(documents, **server_options) as server:
        one = {"name": "node-1", "endpoint": server.endpoint, **target}
        given = {"targets": [one], "gather": gather.split(), "tls_fingerprint": PIN, **parameters}
        return read_thermal(given, Context()), server


def inlet(documents: dict[str, Document], **parameters: t.Any) -> tuple[t.Any, t.Any]:
    """Value and name of the selected sensor."""
    reading = read(documents, **parameters)[0]["readings"][0]
    return reading["inlet_celsius"], reading["sensor_name"]


def only_error(result: Result) -> dict[str, str]:
    assert len(result["errors"]) == 1
    return t.cast("dict[str, str]", result["errors"][0])
