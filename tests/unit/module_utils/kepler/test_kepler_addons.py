# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KeplerAddons without a cluster: options, bad values, and objects for the cluster's kinds."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons import files, names
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons.rendering import (
    Part,
    render,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons.spec import (
    ADDONS,
    KIND,
    read_addons,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons.status import (
    CONDITIONS,
    certificate_problem,
)
from support.resource_options import compared
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

DEFINITION = yaml.safe_load(
    (DEFINITIONS / "kepler.system.sustainable.computing.io_kepleraddons.yaml").read_text()
)
SCHEMA = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
EVERYTHING = names.discovered(lambda _version, _kind: True)
IMAGE = "registry.example/agent:1"
LOGS = {"enabled": True, "endpoint": "http://logs.example:3100", "image": IMAGE}


def parts(served: t.Mapping[str, str] = EVERYTHING, **spec: t.Any) -> dict[str, Part]:
    """The add-ons of a spec, by condition."""
    found = render(read_addons("kepler", "kepler", spec), served, {}, {})
    return {part.condition: part for part in found}


def one(kind: str, found: Part) -> Json:
    [manifest] = [each for each in found.manifests if each["kind"] == kind]
    return manifest


def test_options_are_those_of_the_definition() -> None:
    assert DEFINITION["spec"]["names"]["kind"] == KIND
    assert len(list(compared(ADDONS.options, SCHEMA, "spec"))) > 40


def test_nothing_is_on_by_default() -> None:
    found = parts()
    assert ("Reconciled", *found) == CONDITIONS
    assert not any(part.wanted or part.manifests for part in found.values())


BAD: list[tuple[Json, str]] = [
    ({"system": "a.b"}, "system: 'a.b' is not a DNS label"),
    ({"system": "../../secrets"}, "system: .* is not a DNS label"),
    ({"security": {"client_secret": "a/b"}}, "client_secret: 'a/b' cannot be the name"),
    ({"security": {"mode": "ssl"}}, "security.mode: 'ssl' is none of none, tls, mtls"),
    ({"security": {"mode": []}}, "security.mode: .. is none of none, tls, mtls"),
    ({"security": {"mode": ["tls"]}}, "security.mode: .'tls'. is none of none, tls"),
    ({"security": {"client_secret": "kepler-server"}}, "kepler-server is also server_secret"),
    ({"prometheus": {"interval": "often"}}, "prometheus.interval: 'often' is not a duration"),
    ({"prometheus": {"interval": "1.5s"}}, "'1.5s' is not a duration; give a whole number"),
    ({"prometheus": {"interval": "0s"}}, "'0s' is not from 1 s to 1 h"),
    ({"prometheus": {"interval": "5s"}}, "scrape_timeout: 10s is longer than the interval of 5s"),
    ({"prometheus": {"labels": {"a b": "c"}}}, "labels: 'a b': 'c' is not a label"),
    ({"grafana": {"instance_selector": {}}}, "every Grafana of the cluster"),
    ({"grafana": {"datasource": {"url": "file:///etc"}}}, "url: 'file:///etc' is not a URL"),
    ({"grafana": {"datasource": {"token_secret": "t"}}}, "of no use without it"),
    ({"grafana": {"datasource": {"url": "http://p", "token_secret": "t"}}}, "over plain HTTP"),
    ({"tracing": {"endpoint": "https://user:word@h"}}, "endpoint holds a user name or password"),
    ({"tracing": {"backend": "zipkin"}}, "tracing.backend: 'zipkin' is none of otlp, jaeger"),
    ({"tracing": {}}, "tracing.endpoint: the collector needs a receiver"),
    ({"tracing": {"backend": "jaeger", "endpoint": "http://x"}}, "leave it empty"),
    ({"tracing": {"backend": "jaeger", "image": "jaeger"}}, "does not name registry and tag"),
    ({"logging": {**LOGS, "endpoint": ""}}, "logging.endpoint: logs need a receiver"),
    ({"logging": {**LOGS, "endpoint": "https://loki:99999"}}, "logging.endpoint: .* is not a URL"),
    ({"logging": {**LOGS, "endpoint": "https://[x"}}, "logging.endpoint: .* is not a URL"),
    ({"logging": {**LOGS, "endpoint": "https:///path"}}, "lacks http:// or https:// and a"),
    ({"logging": {**LOGS, "image": "fluent-bit"}}, "does not name registry and tag"),
    ({"logging": {**LOGS, "credential_secret": "c"}}, "a password is never sent over plain HTTP"),
    ({"certificates": {"duration": "1m"}}, "certificates.duration: '1m' is not from 3600 s"),
    ({"certificates": {"renew_before": "2160h"}}, "not shorter than the duration 2160h"),
    (
        {"certificates": {"duration": "24h", "renew_before": "12h"}},
        "renew_before: 12h is not a whole number",
    ),
    (
        {"certificates": {"issuer": "library", "duration": "2161h"}},
        "duration: 2161h is not a whole",
    ),
    ({"certificates": {"key_bits": 512}}, "key_bits: 512 is not a whole number from 2048"),
    ({"certificates": {"authority_namespace": "kepler"}}, "give the authority's key its own"),
    ({"service_mesh": {"mode": "ambient", "scrapers": ["a b"]}}, "'a b' is not an account"),
    ({"service_mesh": {"scrapers": ["a/ns/b"]}}, "only mode ambient"),
]


@pytest.mark.parametrize(("spec", "sentence"), BAD, ids=lambda each: str(each)[:50])
def test_a_value_that_is_none_is_named(spec: Json, sentence: str) -> None:
    [(name, part)] = spec.items()
    given = part if name in ("system", "security") else {"enabled": True, **part}
    with pytest.raises(InvalidInput, match=sentence):
        read_addons("kepler", "kepler", {name: given})
    # A disabled add-on cannot have errors.
    if name not in ("system", "security"):
        read_addons("kepler", "kepler", {name: part | {"enabled": False}})


@pytest.mark.parametrize("place", [("kube-system", "kepler"), ("kepler", "a.b"), ("kepler", "")])
def test_add_ons_stand_beside_kepler_with_a_usable_name(place: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput):
        read_addons(*place, {})


def test_an_add_on_without_its_kinds_says_what_to_install_and_stops_no_other() -> None:
    spec = {
        "prometheus": {"enabled": True},
        "tracing": {"enabled": True, "backend": "jaeger"},
        "logging": LOGS,
        "certificates": {"enabled": True, "issuer": "cert-manager"},
        "service_mesh": {"enabled": True},
    }
    found = parts({"ServiceMonitor": "monitoring.coreos.com/v1"}, **spec)
    assert [each["kind"] for each in found["Prometheus"].manifests] == ["ServiceMonitor"]
    for name, sentence in {
        "Tracing": "install the Jaeger operator, or set tracing.image to an image of Jaeger 2.",
        "Logging": "or set logging.agent to fluent-bit, which needs no operator.",
        "Certificates": "install cert-manager, or set certificates.issuer to library.",
        "ServiceMesh": "serves no DestinationRule of networking.istio.io/v1 or networking.istio.io"
        "/v1beta1; install Istio, or switch this add-on off.",
    }.items():
        assert found[name].missing.endswith(sentence)
        assert found[name].manifests == ()


def test_the_version_of_a_kind_is_the_newest_that_the_cluster_serves() -> None:
    manifest = one("OpenTelemetryCollector", parts(logging=LOGS)["Logging"])
    assert manifest["apiVersion"] == "opentelemetry.io/v1beta1"
    served = names.discovered(lambda version, _kind: version != "opentelemetry.io/v1beta1")
    older = one("OpenTelemetryCollector", parts(served, logging=LOGS)["Logging"])
    assert older["apiVersion"] == "opentelemetry.io/v1alpha1"
    # The older version has the same configuration as text.
    assert yaml.safe_load(older["spec"]["config"]) == manifest["spec"]["config"]


@pytest.mark.parametrize(
    ("mode", "keys"),
    [("none", []), ("tls", ["ca"]), ("mtls", ["ca", "cert", "keySecret"])],
)
def test_a_monitor_has_the_certificates_of_its_mode(mode: str, keys: list[str]) -> None:
    for monitor, kind, field in (
        ("service", "ServiceMonitor", "endpoints"),
        ("pod", "PodMonitor", "podMetricsEndpoints"),
    ):
        found = parts(security={"mode": mode}, prometheus={"enabled": True, "monitor": monitor})
        [endpoint] = one(kind, found["Prometheus"])["spec"][field]
        assert endpoint["scheme"] == endpoint["port"] == ("https" if keys else "http")
        tls = endpoint.get("tlsConfig", {})
        assert sorted(tls.keys() - {"serverName"}) == keys
        assert tls.get("serverName", "kepler.kepler.svc") == "kepler.kepler.svc"
        # The model server has the same labels but this one.
        labels = one(kind, found["Prometheus"])["spec"]["selector"]["matchLabels"]
        assert labels["app.kubernetes.io/component"] == "collector"


@pytest.mark.parametrize(("mode", "port"), [("none", "http"), ("mtls", "https")])
def test_the_network_policy_of_ambient_mode_admits_mesh_and_probes(mode: str, port: str) -> None:
    mesh = {"enabled": True, "mode": "ambient"}
    policy = one("NetworkPolicy", parts(security={"mode": mode}, service_mesh=mesh)["ServiceMesh"])
    tunnel, probes = policy["spec"]["ingress"]
    assert tunnel == {"ports": [{"port": 15008, "protocol": "TCP"}]}
    assert probes["ports"] == [{"port": port, "protocol": "TCP"}]
    assert {"ipBlock": {"cidr": "169.254.7.127/32"}} in probes["from"]


def test_cert_manager_takes_parts_of_days() -> None:
    given = {"enabled": True, "issuer": "cert-manager", "duration": "30h", "renew_before": "6h"}
    assert parts(certificates=given)["Certificates"].manifests


@pytest.mark.parametrize("is_own", [True, False])
def test_a_grafana_of_another_namespace_gets_datasource_and_dashboards(is_own: bool) -> None:
    spec = {"grafana": {"enabled": True, "instance": is_own, "datasource": {"url": "http://p"}}}
    shipped = {"nodes": "{}"}
    rendered = render(read_addons("kepler", "kepler", spec), EVERYTHING, {}, shipped)
    [found] = [part for part in rendered if part.condition == "Grafana"]
    for kind in ("GrafanaDatasource", "GrafanaDashboard"):
        assert one(kind, found)["spec"].get("allowCrossNamespaceImport", False) is not is_own


def test_a_grafana_has_the_labels_by_which_it_is_selected() -> None:
    wanted = {"app.kubernetes.io/name": "energy-grafana"}
    spec = {"enabled": True, "instance": True, "instance_selector": wanted}
    labels = one("Grafana", parts(grafana=spec)["Grafana"])["metadata"]["labels"]
    assert wanted.items() <= labels.items()


def test_pods_of_jaeger_have_what_the_policy_of_the_namespace_asks_for() -> None:
    jaeger = one("Jaeger", parts(tracing={"enabled": True, "backend": "jaeger"})["Tracing"])
    security = jaeger["spec"]["containerSecurityContext"]
    assert security == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.parametrize("backend", ["loki", "elasticsearch"])
def test_log_collectors_read_the_logs_of_kepler_alone_and_write_nothing(backend: str) -> None:
    given = {**LOGS, "backend": backend, "endpoint": "https://logs.example/x"}
    given["credential_secret"] = "login"
    fluent = parts(logging={**given, "agent": "fluent-bit"})["Logging"]
    pod = one("DaemonSet", fluent)["spec"]["template"]["spec"]
    text = one("ConfigMap", fluent)["data"]["fluent-bit.yaml"]
    [output] = yaml.safe_load(text)["pipeline"]["outputs"]
    assert (output["host"], output["port"], output["tls"]) == ("logs.example", 443, True)
    collector = one("OpenTelemetryCollector", parts(logging=given)["Logging"])["spec"]
    for each in (pod["containers"][0], collector):
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert all(mount["readOnly"] for mount in each["volumeMounts"])
        assert {item["valueFrom"]["secretKeyRef"]["name"] for item in each["env"]} == {"login"}
    path = "/var/log/pods/kepler_kepler-*/kepler/*.log"
    assert path in text
    assert collector["config"]["receivers"]["filelog"]["include"] == [path]


def test_a_certificate_that_is_not_ready_is_told_in_the_words_of_cert_manager() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    late = {"conditions": [{"type": "Ready", "status": "False", "message": "no such issuer"}]}
    given: list[t.Any] = [
        {"metadata": {"name": "a"}, "status": ready},
        {"metadata": {"name": "b"}, "status": late},
        {"metadata": None, "status": {"conditions": 7}},
    ]
    assert certificate_problem(given, ["a"]) == ""
    assert "Certificate b is not ready: no such issuer" in certificate_problem(given, ["a", "b"])
    assert "cert-manager is silent" in certificate_problem(given, ["c"])


BAD_FILES: list[tuple[str, str, str]] = [
    ("rules.yml", "groups: []", "it has no groups of rules"),
    ("rules.yml", "- a", "is not a mapping"),
    ("rules.yml", "groups: [{name: a, rules: [{expr: 1}]}]", "expr"),
    ("rules.yml", "groups: [{name: a, rules: [{expr: up}]}]", "either alert or record"),
    ("rules.yml", "groups: [{rules: []}]", r"groups\[0\].name"),
    ("d.json", "{", "JSON"),
    ("d.json", "[]", "is not a mapping"),
    ("d.json", '{"title": ""}', "title"),
    ("...json", "{}", "does not name an object"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), BAD_FILES)
def test_a_file_that_is_none_of_rules_or_dashboards_is_named(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    read = files.read_rules if name.endswith(".yml") else files.read_dashboards
    with pytest.raises(InvalidInput, match=sentence):
        read([str(path)])


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "a.b.json", tmp_path / "a-b.json"]
    for path in paths:
        path.write_text('{"title": "t", "panels": []}')
    with pytest.raises(InvalidInput, match="Two files name the object a-b"):
        files.read_dashboards([str(path) for path in paths])
