# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kepler_addons_reconciliation on an API server with the CRDs of other projects."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons.names import (
    KINDS,
    OWN_KINDS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons.reconciliation import (
    reconcile,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons.spec import (
    ADDONS,
    read_addons,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.spec_options import (
    of_manifest,
)
from lab.process import wait_until
from support.dockerfile import ROOT
from support.foreign_definitions import foreign_definitions
from support.lab import RunningLab
from support.playbook import run_playbook
from support.recording_proxy import Permission, recording_proxy
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

GROUP = "/apis/kepler.system.sustainable.computing.io/v1alpha1"
DEFINITION = DEFINITIONS / "kepler.system.sustainable.computing.io_kepleraddons.yaml"
RIGHTS_FILE = ROOT / "operator" / "config" / "rbac" / "kepler-addons" / "rights.yaml"
SHIPPED = {
    "rule_files": [str(path) for path in sorted(ROOT.glob("roles/observe/files/*rules*.yml"))],
    "dashboard_files": [
        str(path) for path in sorted(ROOT.glob("roles/observe/files/*dashboard*.json"))
    ],
}
IMAGE = "registry.example/agent:1"
# Every add-on, with all objects that it can have at the same time.
FULL: Json = {
    "security": {"mode": "mtls"},
    "prometheus": {"enabled": True, "labels": {"release": "stack"}},
    "grafana": {
        "enabled": True,
        "instance": True,
        "datasource": {"url": "https://prometheus.example", "token_secret": "reader"},
    },
    "tracing": {"enabled": True, "backend": "jaeger", "image": IMAGE},
    "logging": {"enabled": True, "endpoint": "http://loki.example:3100", "image": IMAGE},
    "certificates": {"enabled": True},
    "service_mesh": {"enabled": True, "mode": "ambient", "scrapers": ["a/ns/b/sa/c"]},
}


@dataclasses.dataclass(frozen=True)
class Site:
    """The namespace of Kepler and its add-ons."""

    kube: Kube
    kubeconfig: str
    namespace: str

    def run(
        self,
        spec: Json | None = None,
        *,
        check: bool = False,
        warn: t.Callable[[str], None] = print,
        **given: t.Any,
    ) -> Json:
        options = {"kubeconfig": self.kubeconfig, "namespace": self.namespace, **SHIPPED, **given}
        return reconcile({**options, "spec": spec}, Context(check_mode=check, warn=warn))

    def path(self, kind: str, root: str = "/api/v1") -> str:
        return f"{root}/namespaces/{self.namespace}/{kind}"

    def objects(self) -> set[tuple[str, str]]:
        """Kind and name of all objects of the add-ons."""
        selector = {"labelSelector": "app.kubernetes.io/name=kepler-addons"}
        kinds = [(version, kind) for kind, versions in KINDS.items() for version in versions]
        return {
            (kind, each["metadata"]["name"].removeprefix("kepler-addons-"))
            for version, kind in (*kinds, *((one, kind) for kind, one in OWN_KINDS.items()))
            if self.kube.serves(version, kind)
            for each in self.kube.list(
                self.kube.resource(version, kind).collection(self.namespace), selector
            )
        }

    def secret(self, name: str, *keys: str) -> None:
        manifest = {"metadata": {"name": name}, "data": dict.fromkeys(keys, "YQ==")}
        self.kube.request("POST", self.path("secrets"), manifest)


@pytest.fixture
def site(kube: Kube, kubeconfig: str, namespace: str) -> Iterator[Site]:
    found = Site(kube, kubeconfig, namespace)
    yield found
    resources = found.path("kepleraddons", GROUP)
    for each in kube.list(resources) if has_kind(kube) else ():
        kube.request("DELETE", f"{resources}/{each['metadata']['name']}")
    found.run(state="absent")
    authority = f"/api/v1/namespaces/{namespace}-authority"
    if kube.find(authority) is not None:
        kube.request("DELETE", authority)


def has_kind(kube: Kube) -> bool:
    return kube.serves(GROUP.removeprefix("/apis/"), "KeplerAddons")


@pytest.fixture(scope="module")
def foreign(kubeconfig: str) -> Iterator[None]:
    """The CRDs of other projects, deleted afterwards."""
    given = {"kubeconfig": kubeconfig, "manifests": foreign_definitions()}
    apply({**given, "wait": True})
    yield
    apply({**given, "state": "absent"})


@pytest.fixture
def resources(site: Site, foreign: None) -> str:
    """The path of KeplerAddons of the namespace."""
    apply({"kubeconfig": site.kubeconfig, "src": [str(DEFINITION)], "wait": True})
    site.kube.forget_resources()
    return site.path("kepleraddons", GROUP)


def manifest_of(site: Site, name: str = "kepler", **spec: t.Any) -> Json:
    return {
        "apiVersion": GROUP.removeprefix("/apis/"),
        "kind": "KeplerAddons",
        "metadata": {"name": name, "namespace": site.namespace},
        "spec": spec,
    }


def told(result: Json) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {
        each["type"]: (each["status"], each["reason"]) for each in result["status"]["conditions"]
    }


def message(result: Json, name: str) -> str:
    [one] = [each for each in result["status"]["conditions"] if each["type"] == name]
    return str(one["message"])


def test_a_cluster_without_other_projects_has_what_needs_none(site: Site) -> None:
    """First in this file, because no CRD exists yet."""
    assert not site.kube.serves("monitoring.coreos.com/v1", "ServiceMonitor")
    authority = f"{site.namespace}-authority"
    certificates = {"enabled": True, "authority_namespace": authority, "key_bits": 2048}
    wanted = {
        **FULL,
        "logging": {**FULL["logging"], "agent": "fluent-bit"},
        "certificates": certificates,
    }
    planned = site.run(wanted, check=True)
    assert planned["changed"] and site.objects() == set()
    made = site.run(wanted)
    unserved = ("False", "KindNotServed")
    assert told(made) == {
        "Reconciled": ("True", "ReconcileSuccess"),
        **dict.fromkeys(("Prometheus", "Grafana", "Tracing", "ServiceMesh"), unserved),
        **dict.fromkeys(("Logging", "Certificates"), ("True", "Applied")),
    }
    assert message(made, "Prometheus").endswith("install the Prometheus operator, or switch this "
                                                "add-on off.")  # fmt: skip
    assert site.objects() == {("DaemonSet", "logs"), ("ConfigMap", "logs")}
    # The library issued it, and Kepler's authority has no key in Kepler's namespace.
    for name, keys in {
        "kepler-server": {"tls.crt", "tls.key", "ca.crt"},
        "kepler-client": {"tls.crt", "tls.key", "ca.crt"},
        "kepler-client-authority": {"ca.crt"},
    }.items():
        found = site.kube.read_secret(site.namespace, name)
        assert found is not None and found[0].keys() == keys
    again = site.run(wanted)
    assert (again["changed"], again["diff"]) == (False, [])
    assert names_of_server(site) == names_of_service(site, "kepler")
    # For another system it is that system's Service.
    assert site.run({**wanted, "system": "energy"})["changed"]
    assert names_of_server(site) == names_of_service(site, "energy")

    gone: Json = {"state": "absent", "spec": {"certificates": certificates}}
    kepler = collector(site)
    warnings: list[str] = []
    assert site.run(warn=warnings.append, **gone)["changed"]
    assert f"because the DaemonSet {site.namespace}/kepler-amd64-rapl mounts one" in warnings[0]
    assert secrets(site) == {"kepler-server", "kepler-client", "kepler-client-authority"}
    site.kube.request("DELETE", kepler)
    # A user's Secret and one of cert-manager are kept.
    site.kube.request("DELETE", f"{site.path('secrets')}/kepler-client")
    site.secret("kepler-client", "tls.crt")
    annotation = {"cert-manager.io/certificate-name": "other"}
    path = f"{site.path('secrets')}/kepler-client-authority"
    site.kube.request("PATCH", path, {"metadata": {"annotations": annotation}}, MERGE_CONTENT_TYPE)
    wait_until(lambda: site.kube.find(kepler) is None, 60.0, "the end of the DaemonSet")
    assert site.run(**gone)["changed"]
    assert secrets(site) == {"kepler-client", "kepler-client-authority"}
    assert site.kube.find(f"/api/v1/namespaces/{authority}/secrets/kepler-addons-authority") is None
    assert not site.run(**gone)["changed"]
    wait_until(lambda: not site.objects(), 60.0, "the end of the add-ons")


def names_of_server(site: Site) -> set[str]:
    """Host names in the certificate of Kepler."""
    found = site.kube.read_secret(site.namespace, "kepler-server")
    assert found is not None
    certificate = x509.load_pem_x509_certificate(found[0]["tls.crt"].encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return set(names.value.get_values_for_type(x509.DNSName))


def names_of_service(site: Site, name: str) -> set[str]:
    place = f"{name}.{site.namespace}"
    return {name, place, f"{place}.svc", f"{place}.svc.cluster.local"}


def secrets(site: Site) -> set[str]:
    return {each["metadata"]["name"] for each in site.kube.list(site.path("secrets"))}


def collector(site: Site) -> str:
    """The path of a DaemonSet that mounts a certificate, in the ``kepler`` role's form."""
    labels = {"app.kubernetes.io/name": "kepler"}
    volume = {"name": "tls", "secret": {"secretName": "kepler-server"}}
    pod = {"containers": [{"name": "k", "image": IMAGE}], "volumes": [volume]}
    template = {"metadata": {"labels": labels}, "spec": {**pod, "nodeSelector": {"no": "node"}}}
    metadata = {"name": "kepler-amd64-rapl", "labels": labels}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    path = site.path("daemonsets", "/apis/apps/v1")
    site.kube.request("POST", path, {"metadata": metadata, "spec": spec})
    return f"{path}/kepler-amd64-rapl"


def test_all_add_ons_are_taken_by_the_schemas_of_their_projects(site: Site, foreign: None) -> None:
    site.secret("reader", "token")
    planned = site.run(FULL, check=True)
    assert planned["changed"] and site.objects() == set()
    made = site.run(FULL)
    assert not [each for each in made["results"] if each["action"] == "failed"]
    assert told(made) == {
        "Reconciled": ("True", "ReconcileSuccess"),
        "Prometheus": ("Unknown", "CertificatesPending"),
        "Grafana": ("True", "Applied"),
        "Tracing": ("True", "KeplerEmitsNoTraces"),
        "Logging": ("True", "Applied"),
        # No cert-manager runs here.
        "Certificates": ("False", "CertificatesNotReady"),
        "ServiceMesh": ("True", "Applied"),
    }
    assert "Kepler itself emits none" in message(made, "Tracing")
    rules = {("PrometheusRule", Path(path).stem) for path in SHIPPED["rule_files"]}
    dashboards = {("GrafanaDashboard", Path(path).stem) for path in SHIPPED["dashboard_files"]}
    assert rules and dashboards
    assert site.objects() == {
        *rules,
        *dashboards,
        ("ServiceMonitor", "metrics"),
        ("Grafana", "grafana"),
        ("GrafanaDatasource", "prometheus"),
        ("OpenTelemetryCollector", "traces"),
        ("OpenTelemetryCollector", "logs"),
        ("Issuer", "root"),
        ("Issuer", "authority"),
        *(("Certificate", name) for name in ("authority", "server", "client")),
        ("PeerAuthentication", "strict"),
        ("AuthorizationPolicy", "scrapers"),
        ("NetworkPolicy", "mesh"),
        ("NetworkPolicy", "mesh"),
    }
    place = f"/api/v1/namespaces/{site.namespace}"
    labels = site.kube.get(place)["metadata"]["labels"]
    assert labels["istio.io/dataplane-mode"] == "ambient"
    again = site.run(FULL)
    assert (again["changed"], again["diff"]) == (False, [])

    # Everything else is pruned, and the other kinds of the requested add-ons are accepted.
    site.secret("kepler-client", "ca.crt", "tls.crt")
    fewer = {
        "security": {"mode": "mtls"},
        "prometheus": {"enabled": True, "monitor": "pod", "rules": False},
        "tracing": {"enabled": True, "backend": "jaeger"},
        "service_mesh": {"enabled": True},
    }
    narrowed = site.run(fewer)
    assert site.objects() == {
        ("PodMonitor", "metrics"),
        ("Jaeger", "jaeger"),
        ("DestinationRule", "unmeshed"),
    }
    assert len(narrowed["pruned"]) > 10
    assert told(narrowed)["Prometheus"] == ("False", "SecretNotFound")
    assert "/kepler-client must have tls.key, and it has not" in message(narrowed, "Prometheus")
    assert "istio.io/dataplane-mode" not in site.kube.get(place)["metadata"]["labels"]
    site.run(state="absent")
    assert "istio-injection" not in site.kube.get(place)["metadata"]["labels"]


def test_kepler_addons_are_carried_out_and_told(site: Site, resources: str) -> None:
    assert not site.run()["found"]
    wanted = manifest_of(site, prometheus={"enabled": True})
    stored = site.kube.request("POST", resources, wanted)
    site.kube.request(
        "POST",
        site.path("services"),
        {"metadata": {"name": "kepler"}, "spec": {"ports": [{"name": "https", "port": 28282}]}},
    )
    made = site.run()
    assert made["found"] and told(made)["Prometheus"] == ("False", "SecurityMismatch")
    [monitor] = site.kube.list(site.path("servicemonitors", "/apis/monitoring.coreos.com/v1"))
    [owner] = monitor["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("KeplerAddons", stored["metadata"]["uid"])
    body = {"spec": {"security": {"mode": "tls"}}}
    site.kube.request("PATCH", f"{resources}/kepler", body, MERGE_CONTENT_TYPE)
    assert told(site.run())["Prometheus"] == ("False", "SecretNotFound")
    site.secret("kepler-client", "ca.crt")
    site.run()
    status = site.kube.get(f"{resources}/kepler")["status"]
    assert told({"status": status})["Prometheus"] == ("True", "Applied")
    assert (status["wanted"], status["applied"]) == (1, 1)
    before = site.kube.get(f"{resources}/kepler")["metadata"]["resourceVersion"]
    assert not site.run()["changed"]
    assert site.kube.get(f"{resources}/kepler")["metadata"]["resourceVersion"] == before

    # A value that only the library refuses: reported in the manifest's words, without any change.
    body = {"spec": {"prometheus": {"interval": "2h"}}}
    site.kube.request("PATCH", f"{resources}/kepler", body, MERGE_CONTENT_TYPE)
    broken = site.run(on_error="report")
    assert broken["failure"] == "prometheus.interval: '2h' is not from 1 s to 1 h"
    status = site.kube.get(f"{resources}/kepler")["status"]
    assert told({"status": status})["Reconciled"] == ("False", "InvalidKeplerAddons")
    assert told({"status": status})["Prometheus"] == ("True", "Applied")
    with pytest.raises(WattwiseError, match="'2h' is not from"):
        site.run()


def test_an_object_that_is_refused_stops_no_other(
    site: Site, resources: str, tmp_path: Path
) -> None:
    rules = tmp_path / "bad.yml"
    group = {"name": "g", "rules": [{"alert": "A", "expr": "up", "for": "soon"}]}
    rules.write_text(yaml.safe_dump({"groups": [group]}))
    site.kube.request("POST", resources, manifest_of(site, prometheus={"enabled": True}))
    found = site.run(on_error="report", rule_files=[str(rules)])
    assert "1 objects were refused" in found["failure"]
    assert told(found)["Prometheus"] == ("False", "ObjectsRefused")
    assert told(found)["Reconciled"] == ("False", "ObjectsRefused")
    assert site.objects() == {("ServiceMonitor", "metrics")}


REFUSED: list[tuple[Json, str]] = [
    ({"prometheus": {"interval": "often"}}, "should match"),
    ({"prometheus": {"enabled": True, "interval": "5s"}}, "must not be longer than prometheus"),
    ({"certificates": {"enabled": True, "renewBefore": "9000h"}}, "must be shorter than"),
    ({"certificates": {"keyBits": 1024}}, "greater than or equal to 2048"),
    ({"logging": {"enabled": True}}, "logging needs an endpoint and an image"),
    ({"tracing": {"enabled": True}}, "tracing.endpoint is needed for the backend otlp"),
    ({"security": {"clientSecret": "../x"}}, "should match"),
    ({"security": {"clientSecret": "kepler-server"}}, "Secrets of security must differ"),
    ({"certificates": {"enabled": True, "renewBefore": "12h"}}, "must be whole days"),
    (
        {"grafana": {"enabled": True, "datasource": {"url": "http://p", "tokenSecret": "t"}}},
        "a token needs a datasource whose url begins with https",
    ),
    ({"system": "a.b"}, "should match"),
    ({"grafana": {"instanceSelector": {}}}, "should have at least 1 properties"),
    ({"metadata": {"name": "a.b"}}, "no dot"),
]


def test_the_api_server_refuses_a_spec_that_is_none_and_has_the_defaults_of_the_library(
    site: Site, resources: str
) -> None:
    for spec, sentence in REFUSED:
        given = dict(spec)
        manifest = manifest_of(site, given.pop("metadata", {}).get("name", "kepler"), **given)
        with pytest.raises(ApiError, match=sentence):
            site.kube.request("POST", f"{resources}?dryRun=All", manifest)
    bare = site.kube.request("POST", f"{resources}?dryRun=All", manifest_of(site))
    assert read_addons("kepler", "kepler", of_manifest(ADDONS, bare["spec"])) == read_addons(
        "kepler", "kepler", {}
    )


def test_the_operator_has_the_permissions_that_its_runs_use(
    site: Site, resources: str, lab: RunningLab
) -> None:
    """The permissions of operator/config, with the test's namespaces in place of Kepler's."""
    account, authority = f"{site.namespace}-operator", f"{site.namespace}-authority"
    text = RIGHTS_FILE.read_text()
    for before, after in (
        ("namespace: kepler-authority", f"namespace: {authority}"),
        ("namespace: kepler", f"namespace: {site.namespace}"),
        ("resourceNames: [kepler, kepler-authority]", f"resourceNames: [{site.namespace}, {authority}]"),
        ("namespace: wattwise-system", f"namespace: {site.namespace}"),
        ("wattwise-operator", account),
    ):  # fmt: skip
        text = text.replace(before, after)
    given = [
        *yaml.safe_load_all(text),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": authority}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": site.namespace},
        },
    ]
    apply({"kubeconfig": site.kubeconfig, "manifests": given})
    path = f"{site.path('serviceaccounts')}/{account}/token"
    token = site.kube.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"][
        "token"
    ]
    pod = {"enabled": True, "monitor": "pod"}
    logs = {**FULL["logging"], "agent": "fluent-bit"}
    own = {"enabled": True, "issuer": "library", "authorityNamespace": authority, "keyBits": 2048}
    mesh = FULL["service_mesh"]
    specs: list[Json] = [
        {
            **{name: FULL[name] for name in ("security", "tracing", "logging", "certificates")},
            "prometheus": FULL["prometheus"],
            "grafana": {"enabled": True, "instance": True, "datasource": {"url": "http://p"}},
            "serviceMesh": mesh,
        },
        {
            "prometheus": pod,
            "tracing": {"enabled": True, "backend": "jaeger"},
            "logging": logs,
            "certificates": own,
            "serviceMesh": {"enabled": True},
        },
        {},
    ]
    with recording_proxy(site.kube.host, str(lab.state.ca_certificate)) as proxy:
        options = {"kubeconfig": None, "host": proxy.server, "api_key": token}
        for spec in specs:
            if site.kube.find(f"{resources}/kepler") is None:
                site.kube.request("POST", resources, manifest_of(site, **spec))
            else:
                site.kube.request(
                    "PUT",
                    f"{resources}/kepler",
                    {**manifest_of(site, **spec), "metadata": metadata_of(site, resources)},
                )
            assert told(site.run(**options))["Reconciled"][0] == "True"
        assert proxy.refused == []
        allowed = {
            Permission(group, resource, verb)
            for item in given
            for rule in item.get("rules", [])
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert proxy.used <= allowed
        # ansible-operator watches the resource, and its namespace exists.
        assert allowed - proxy.used == {
            *(Permission("kepler.system.sustainable.computing.io", "kepleraddons", verb)
              for verb in ("list", "watch")),
            Permission("", "namespaces", "create"),
        }  # fmt: skip
    apply({"kubeconfig": site.kubeconfig, "manifests": given, "state": "absent"})


def metadata_of(site: Site, resources: str) -> Json:
    metadata = site.kube.get(f"{resources}/kepler")["metadata"]
    return {key: metadata[key] for key in ("name", "namespace", "resourceVersion")}


def test_the_role_ships_the_files_of_the_collection_and_takes_all_back(
    site: Site, foreign: None, tmp_path: Path
) -> None:
    variables = {
        "wattwise_kubeconfig": site.kubeconfig,
        "kepler_addons_namespace": site.namespace,
        "kepler_addons_prometheus": {"enabled": True},
        "kepler_addons_grafana": {"enabled": True},
    }
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps({"clusters": {"hosts": {"here": variables}}}))

    def play(*tasks: Json) -> int:
        defaults = {"group/wattwise.kube.wattwise": {"kubeconfig": site.kubeconfig}}
        head = {"hosts": "clusters", "connection": "local", "gather_facts": False}
        content = [{**head, "module_defaults": defaults, "tasks": list(tasks)}]
        run = run_playbook(content, tmp_path, "-i", str(inventory), as_json=True)
        assert run.returncode == 0, run.failures()
        return run.stats()["here"]["changed"]

    role = {"ansible.builtin.include_role": {"name": "wattwise.kube.kepler_addons"}}
    # The owner, a monitor, rules and dashboards.
    shipped = len(SHIPPED["rule_files"]) + len(SHIPPED["dashboard_files"])
    made = (
        "kepler_addons_applied.results | selectattr('action', 'eq', 'created') | length"
        f" == {2 + shipped}"
    )
    none = {**role, "vars": {"kepler_addons_prometheus": {}, "kepler_addons_grafana": {}}}
    teardown = {"name": "wattwise.kube.kepler_addons", "tasks_from": "teardown"}
    # Without any add-on all are removed, and the teardown finds nothing.
    tasks = (
        role,
        {"ansible.builtin.assert": {"that": made}},
        none,
        {"ansible.builtin.include_role": teardown},
    )
    assert play(*tasks) == 2
    wait_until(lambda: not site.objects(), 60.0, "the end of the add-ons")
