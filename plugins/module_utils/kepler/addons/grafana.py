# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Add-on grafana: an instance, a datasource and dashboards."""

from __future__ import annotations

import typing as t

from ...base.manifests import Manifest
from . import kinds, names
from .files import DashboardFile
from .spec import Addons, Grafana

_COMPONENT = "grafana"
_FOLDER = "Energy"


def manifests(
    addons: Addons, wanted: Grafana, served: kinds.Served, files: t.Sequence[DashboardFile]
) -> t.Iterator[Manifest]:
    """All objects of the add-on. Raises NotServed."""
    place: dict[str, t.Any] = {
        "instanceSelector": {"matchLabels": dict(wanted.instance_selector)},
        # An existing Grafana usually has a separate namespace.
        **({} if wanted.instance else {"allowCrossNamespaceImport": True}),
    }
    if wanted.instance:
        instance = kinds.of(served, "Grafana")
        labels = wanted.instance_selector
        yield names.manifest(
            addons, instance, "grafana", _COMPONENT, labels, spec={"config": _CONFIGURATION}
        )
    if wanted.url:
        datasource = kinds.of(served, "GrafanaDatasource")
        spec = {**place, **_datasource(addons, wanted)}
        yield names.manifest(addons, datasource, "prometheus", _COMPONENT, spec=spec)
    for each in files if wanted.dashboards else ():
        dashboard = kinds.of(served, "GrafanaDashboard")
        spec = {**place, "folder": _FOLDER, "json": each.text}
        yield names.manifest(addons, dashboard, each.name, _COMPONENT, spec=spec)


# The operator generates the administrator's password in a separate Secret.
_CONFIGURATION = {
    "analytics": {"check_for_updates": "false", "reporting_enabled": "false"},
    "auth.anonymous": {"enabled": "false"},
    "log": {"mode": "console"},
    "users": {"allow_sign_up": "false"},
}


def _datasource(addons: Addons, wanted: Grafana) -> dict[str, t.Any]:
    public: dict[str, t.Any] = {"httpMethod": "POST"}
    secret: dict[str, str] = {}
    values = []
    if wanted.token_secret:
        public["httpHeaderName1"] = "Authorization"
        secret["httpHeaderValue1"] = "Bearer ${token}"
        values.append(_value("httpHeaderValue1", wanted.token_secret, "token"))
    if wanted.authority_secret:
        public["tlsAuthWithCACert"] = True
        secret["tlsCACert"] = "${ca.crt}"
        values.append(_value("tlsCACert", wanted.authority_secret, "ca.crt"))
    datasource: dict[str, t.Any] = {
        "name": names.object_name(addons, "prometheus"),
        "type": "prometheus",
        "access": "proxy",
        "url": wanted.url,
        "jsonData": public,
    }
    if not secret:
        return {"datasource": datasource}
    return {"datasource": {**datasource, "secureJsonData": secret}, "valuesFrom": values}


def _value(target: str, name: str, key: str) -> dict[str, t.Any]:
    reference = {"secretKeyRef": {"name": name, "key": key}}
    return {"targetPath": f"secureJsonData.{target}", "valueFrom": reference}
