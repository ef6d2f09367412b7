# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""All objects of KeplerAddons by add-on, with the requirements of each.

Kepler's pods never get a sidecar of a mesh: its init container needs capabilities that the policy
of their namespace refuses.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.json_types import MutableObject, Object
from ...base.manifests import Manifest
from . import certificates, names, telemetry
from .files import DashboardFiles, RuleFiles
from .spec import Addons, Grafana, Mesh, Prometheus

# Secret, and its keys that an add-on reads.
NeededSecret = tuple[str, tuple[str, ...]]
# The instance of a series is its node; metrics of Kepler 0.9 and earlier have no other name of it.
_NODE = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"}
# The Grafana operator generates the administrator's password in a separate Secret.
_GRAFANA = {
    "analytics": {"check_for_updates": "false", "reporting_enabled": "false"},
    "auth.anonymous": {"enabled": "false"},
    "log": {"mode": "console"},
    "users": {"allow_sign_up": "false"},
}
_FOLDER = "Energy"
# Port on which ztunnel accepts the traffic of the mesh for a pod.
_MESH_PORT = 15008
# Source addresses of the kubelet's probes in ambient mode.
_KUBELET = ("169.254.7.127/32", "fd16:9254:7127:1337:ffff:ffff:ffff:ffff/128")


@dataclass(frozen=True)
class Part:
    """One add-on. ``missing`` is the reason why a wanted one has no objects."""

    condition: str
    wanted: bool
    manifests: tuple[Manifest, ...] = ()
    secrets: tuple[NeededSecret, ...] = ()
    missing: str = ""


def render(
    addons: Addons, served: names.Served, rules: RuleFiles, dashboards: DashboardFiles
) -> list[Part]:
    """Every add-on with the shipped rules and dashboards, in the order of their conditions."""
    security = addons.security
    of_prometheus = ((security.client_secret, security.needed_keys),)
    return [
        _part("Prometheus", addons.prometheus, of_prometheus, lambda wanted: (
            _prometheus(addons, wanted, served, rules)
        )),
        _part("Grafana", addons.grafana, _grafana_secrets(addons), lambda wanted: (
            _grafana(addons, wanted, served, dashboards)
        )),
        _part("Tracing", addons.tracing, (), lambda wanted: (
            telemetry.traces(addons, wanted, served)
        )),
        _part("Logging", addons.logging, _logging_secrets(addons), lambda wanted: (
            telemetry.logs(addons, wanted, served)
        )),
        _part("Certificates", addons.certificates, (), lambda wanted: (
            certificates.manifests(addons, wanted, served)
        )),
        _part("ServiceMesh", addons.mesh, (), lambda wanted: (
            _mesh(addons, wanted, served)
        )),
    ]  # fmt: skip


Options = t.TypeVar("Options")


def _part(
    condition: str,
    wanted: Options | None,
    secrets: tuple[NeededSecret, ...],
    manifests: t.Callable[[Options], t.Iterator[Manifest]],
) -> Part:
    if wanted is None:
        return Part(condition, False)
    needed = tuple((name, keys) for name, keys in secrets if name and keys)
    try:
        return Part(condition, True, tuple(manifests(wanted)), needed)
    except names.NotServed as error:
        return Part(condition, True, missing=str(error))


def _grafana_secrets(addons: Addons) -> tuple[NeededSecret, ...]:
    if addons.grafana is None:
        return ()
    return (addons.grafana.token_secret, ("token",)), (addons.grafana.authority_secret, ("ca.crt",))


def _logging_secrets(addons: Addons) -> tuple[NeededSecret, ...]:
    if addons.logging is None:
        return ()
    return ((addons.logging.credential_secret, ("username", "password")),)


def _prometheus(
    addons: Addons, wanted: Prometheus, served: names.Served, rules: RuleFiles
) -> t.Iterator[Manifest]:
    """A monitor of Kepler, and one PrometheusRule for each file. Raises NotServed."""
    spec: MutableObject = {
        "jobLabel": "app.kubernetes.io/name",
        "namespaceSelector": {"matchNames": [addons.namespace]},
        "selector": {"matchLabels": names.system_labels(addons)},
    }
    endpoints = [_endpoint(addons, wanted)]
    if wanted.monitor == "pod":
        kind, spec["podMetricsEndpoints"] = "PodMonitor", endpoints
    else:
        kind, spec["endpoints"] = "ServiceMonitor", endpoints
    how = ("prometheus", wanted.labels)
    yield names.manifest(addons, served, kind, "metrics", *how, spec=spec)
    for name, groups in rules.items() if wanted.rules else ():
        content = {"groups": list(groups)}
        yield names.manifest(addons, served, "PrometheusRule", name, *how, spec=content)


def _endpoint(addons: Addons, wanted: Prometheus) -> MutableObject:
    security, scheme = addons.security, addons.port_name
    found: MutableObject = {
        "port": scheme,
        "scheme": scheme,
        "path": "/metrics",
        "interval": wanted.interval,
        "scrapeTimeout": wanted.scrape_timeout,
        "relabelings": [_NODE],
    }
    if scheme == "https":
        found["tlsConfig"] = {
            # Endpoints are addresses of pods, and the certificate has names.
            "serverName": addons.host_name,
            "ca": {"secret": {"name": security.client_secret, "key": "ca.crt"}},
        }
    if security.mode == "mtls":
        found["tlsConfig"]["cert"] = {"secret": {"name": security.client_secret, "key": "tls.crt"}}
        found["tlsConfig"]["keySecret"] = {"name": security.client_secret, "key": "tls.key"}
    return found


def _grafana(
    addons: Addons, wanted: Grafana, served: names.Served, dashboards: DashboardFiles
) -> t.Iterator[Manifest]:
    """An instance, a datasource and dashboards. Raises NotServed."""
    place: MutableObject = {
        "instanceSelector": {"matchLabels": dict(wanted.instance_selector)},
        # An existing Grafana usually has a separate namespace.
        **({} if wanted.instance else {"allowCrossNamespaceImport": True}),
    }
    made: list[tuple[str, str, MutableObject]] = []
    if wanted.instance:
        made.append(("Grafana", "grafana", {"config": _GRAFANA}))
    if wanted.url:
        made.append(("GrafanaDatasource", "prometheus", {**place, **_datasource(addons, wanted)}))
    for name, text in dashboards.items() if wanted.dashboards else ():
        made.append(("GrafanaDashboard", name, {**place, "folder": _FOLDER, "json": text}))
    for kind, name, spec in made:
        labels = wanted.instance_selector if kind == "Grafana" else None
        yield names.manifest(addons, served, kind, name, "grafana", labels, spec=spec)


def _datasource(addons: Addons, wanted: Grafana) -> MutableObject:
    public: MutableObject = {"httpMethod": "POST"}
    secret: MutableObject = {}
    values = []

    def take(target: str, value: str, name: str, key: str) -> None:
        secret[target] = value
        reference = {"secretKeyRef": {"name": name, "key": key}}
        values.append({"targetPath": f"secureJsonData.{target}", "valueFrom": reference})

    if wanted.token_secret:
        public["httpHeaderName1"] = "Authorization"
        take("httpHeaderValue1", "Bearer ${token}", wanted.token_secret, "token")
    if wanted.authority_secret:
        public["tlsAuthWithCACert"] = True
        take("tlsCACert", "${ca.crt}", wanted.authority_secret, "ca.crt")
    datasource: MutableObject = {
        "name": names.object_name(addons, "prometheus"),
        "type": "prometheus",
        "access": "proxy",
        "url": wanted.url,
        "jsonData": public,
    }
    if not secret:
        return {"datasource": datasource}
    return {"datasource": {**datasource, "secureJsonData": secret}, "valuesFrom": values}


def namespace_labels(wanted: Mesh | None) -> dict[str, str]:
    """Istio's labels for the pods of the namespace."""
    if wanted is None:
        return {}
    found = {"istio-injection": "disabled"}
    return {**found, "istio.io/dataplane-mode": "ambient"} if wanted.mode == "ambient" else found


def _mesh(addons: Addons, wanted: Mesh, served: names.Served) -> t.Iterator[Manifest]:
    """The rule for clients in an Istio mesh, or those for Kepler in it. Raises NotServed."""

    def made(kind: str, part: str, spec: Object) -> Manifest:
        return names.manifest(addons, served, kind, part, "service-mesh", spec=spec)

    if wanted.mode == "exclude":
        # Clients in the mesh would expect its certificate; Kepler's TLS passes unchanged.
        disabled = {"tls": {"mode": "DISABLE"}}
        host = f"{addons.host_name}.cluster.local"
        yield made("DestinationRule", "unmeshed", {"host": host, "trafficPolicy": disabled})
        return
    selector = {"matchLabels": names.system_labels(addons)}
    yield made("PeerAuthentication", "strict", {"selector": selector, "mtls": {"mode": "STRICT"}})
    if wanted.scrapers:
        source = {"source": {"principals": list(wanted.scrapers)}}
        allowed = {"selector": selector, "action": "ALLOW", "rules": [{"from": [source]}]}
        yield made("AuthorizationPolicy", "scrapers", allowed)
    # Connections to Kepler that its own NetworkPolicy does not allow.
    kubelet = [{"ipBlock": {"cidr": cidr}} for cidr in _KUBELET]
    ingress = [
        {"ports": [{"port": _MESH_PORT, "protocol": "TCP"}]},
        {"from": kubelet, "ports": [{"port": addons.port_name, "protocol": "TCP"}]},
    ]
    policy = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": ingress}
    yield made("NetworkPolicy", "mesh", policy)
