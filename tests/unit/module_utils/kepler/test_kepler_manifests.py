# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of a KeplerSystem, by their key facts: pods, configuration, permissions, networks."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment import (
    configuration,
    manifests,
    names,
    policy,
    rivals,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.keys import KEYS
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import System
from support.kepler_systems import IMAGE, judged, labels_of, node, system

Json = dict[str, t.Any]

NODES = [node("a", labels=labels_of("rapl")), node("b", "arm64", labels=labels_of("hwmon"))]
# Reference: config/config.go of the tags, every leaf of its structures.
V0_10 = {
    *("log.level", "log.format", "host.sysfs", "host.procfs", "rapl.zones"),
    *(f"monitor.{key}" for key in ("interval", "staleness", "maxTerminated")),
    *("monitor.minTerminatedEnergyThreshold", "exporter.stdout.enabled"),
    *(f"exporter.prometheus.{key}" for key in ("enabled", "debugCollectors", "metricsLevel")),
    *("debug.pprof.enabled", "web.configFile", "web.listenAddresses"),
    *("kube.enabled", "kube.config", "kube.nodeName"),
    *("dev.fake-cpu-meter.enabled", "dev.fake-cpu-meter.zones"),
}
REDFISH = {
    f"experimental.platform.redfish.{key}"
    for key in ("enabled", "configFile", "nodeName", "httpTimeout")
}
V0_11_4 = {
    *V0_10,
    *REDFISH,
    *("kube.podInformer.mode", "kube.podInformer.pollInterval"),
    *(f"experimental.hwmon.{key}" for key in ("enabled", "zones", "chipRules")),
    *("experimental.gpu.enabled", "experimental.gpu.idlePower"),
}
LATER = V0_11_4 - {"experimental.hwmon.enabled"} | {
    "experimental.hwmon.forceEnabled",
    "experimental.gpu.dcgmEndpoint",
    "cpu.preferredMeters",
}


def leaves(value: t.Any, path: str = "") -> dict[str, t.Any]:
    if not isinstance(value, dict):
        return {path[1:]: value}
    return {
        key: leaf for name in value for key, leaf in leaves(value[name], f"{path}.{name}").items()
    }


def installed(wanted: System, nodes: list[Json] | None = None) -> dict[tuple[str, str], Json]:
    """All objects in the namespace, by kind and name."""
    _nodes, groups = judged(wanted, nodes or NODES)
    found = manifests.in_namespace(wanted, groups)
    assert all(each["metadata"]["namespace"] == "kepler" for each in found)
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod_of(wanted: System, name: str = "kepler-amd64-rapl") -> Json:
    template = installed(wanted)["DaemonSet", name]["spec"]["template"]
    return t.cast("Json", template["spec"])


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        ("0.10.0", V0_10),
        ("0.11.0", V0_10 | REDFISH),
        ("0.11.4", V0_11_4),
        ("0.11.5", LATER),
    ],
)
def test_a_configuration_has_every_key_of_its_version_and_no_other(
    version: str, keys: set[str]
) -> None:
    wanted = system(version=version)
    assert leaves(configuration.tree(wanted, wanted.rest, "rapl")).keys() == keys
    assert keys <= KEYS.keys()


def test_a_configuration_says_what_the_spec_says() -> None:
    collector = {
        "sample_rate": "2s",
        "metric_levels": ["pod", "node"],
        "max_terminated": 0,
        "log_level": "debug",
        "port": 9999,
        "additional_config": {"log": {"format": "json"}, "debug": {"pprof": {"enabled": True}}},
    }
    wanted = system(collector=collector, scope="cluster", security={"mode": "mtls"})
    text = installed(wanted)["ConfigMap", "kepler-amd64-rapl"]["data"]
    found = leaves(yaml.safe_load(text["config.yaml"]))
    assert {
        "monitor.interval": "2s",
        "monitor.maxTerminated": 0,
        "exporter.prometheus.metricsLevel": ["node", "pod"],
        "log.level": "debug",
        "log.format": "json",
        "debug.pprof.enabled": True,
        "web.listenAddresses": [":9999"],
        "web.configFile": "/etc/kepler/configuration/web.yaml",
        # A flag enables it.
        "kube.enabled": False,
        "kube.podInformer.mode": "apiserver",
        "host.procfs": "/host/proc",
    }.items() <= found.items()
    web = yaml.safe_load(text["web.yaml"])["tls_server_config"]
    assert web["client_auth_type"] == "RequireAndVerifyClientCert"
    assert web["client_ca_file"] == "/etc/kepler/client-authority/ca.crt"


@pytest.mark.parametrize(
    ("version", "meter", "wanted"),
    [
        ("0.11.4", "rapl", {"experimental.hwmon.enabled": False}),
        ("0.11.4", "hwmon", {"experimental.hwmon.enabled": True}),
        ("0.11.4", "redfish", {"dev.fake-cpu-meter.enabled": True}),
        ("0.11.5", "hwmon", {"cpu.preferredMeters": ["hwmon"]}),
        ("0.11.5", "redfish", {"cpu.preferredMeters": ["fake"]}),
        ("0.11.5", "redfish", {"dev.fake-cpu-meter.enabled": False}),
    ],
)
def test_a_group_is_configured_for_its_meter(version: str, meter: str, wanted: Json) -> None:
    given = system(version=version)
    assert wanted.items() <= leaves(configuration.tree(given, given.rest, meter)).items()


def test_a_pod_has_what_kepler_needs_of_its_host_and_no_more() -> None:
    pod = pod_of(system())
    [container] = pod["containers"]
    assert pod["hostPID"] and not pod["automountServiceAccountToken"]
    # Only the affinity selects nodes: a node without a label of its system has a collector, too.
    assert "nodeSelector" not in pod
    assert not {"hostNetwork", "hostIPC"} & pod.keys()
    paths = {each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    assert paths == {"/proc", "/sys"}
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    security = container["securityContext"]
    assert not security["privileged"] and not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    assert container["image"] == "registry.example/kepler:v0.11.4"
    assert "--kube.node-name=$(NODE_NAME)" in container["args"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_group_has_the_image_of_its_architecture() -> None:
    image = {**IMAGE, "tag": "v1", "by_architecture": [{"architecture": "arm64", "tag": "v1-arm"}]}
    wanted = system(image=image)
    for name, tag in (("kepler-amd64-rapl", "v1"), ("kepler-arm64-hwmon", "v1-arm")):
        [container] = pod_of(wanted, name)["containers"]
        assert container["image"] == f"registry.example/kepler:{tag}"


def test_a_digest_is_an_image() -> None:
    wanted = system(image={**IMAGE, "tag": f"sha256:{'0' * 64}"})
    assert wanted.default_image == f"registry.example/kepler@sha256:{'0' * 64}"


def hash_of(wanted: System, name: str) -> str:
    template = installed(wanted)["DaemonSet", name]["spec"]["template"]
    return str(template["metadata"]["annotations"][names.HASH_ANNOTATION])


def test_a_change_of_a_pool_restarts_its_collectors_alone() -> None:
    def with_rate(rate: str) -> System:
        selector = {"kubernetes.io/arch": "arm64"}
        pool = {"name": "arm", "node_selector": selector, "collector": {"sample_rate": rate}}
        return system(pools=[pool])

    before, after = with_rate("1s"), with_rate("2s")
    assert hash_of(before, "kepler-amd64-rapl") == hash_of(after, "kepler-amd64-rapl")
    assert hash_of(before, "kepler-arm64-hwmon-arm") != hash_of(after, "kepler-arm64-hwmon-arm")


def test_the_minimum_scope_has_no_permissions_and_no_way_out() -> None:
    wanted = system(scrape_namespaces=["monitoring"])
    assert manifests.of_cluster(wanted, is_openshift=False) == []
    assert {each["kind"] for each in manifests.obsolete_permissions(wanted)} == {
        "ClusterRole",
        "ClusterRoleBinding",
    }
    spec = installed(wanted)["NetworkPolicy", "kepler"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"] and "egress" not in spec
    [rule] = spec["ingress"]
    assert rule["ports"] == [{"port": 28282, "protocol": "TCP"}]
    [source] = rule["from"]
    [expression] = source["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["monitoring"]


@pytest.mark.parametrize("scope", ["minimum", "cluster"])
def test_a_flag_lets_kepler_read_pods_and_probes_ask_for_the_metrics(scope: str) -> None:
    [container] = pod_of(system(scope=scope))["containers"]
    assert ("--kube.enable" in container["args"]) == (scope == "cluster")
    probes = [container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")]
    assert probes == ["/metrics", "/metrics"]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (" 2s ", "2s"),
        ("+1500ms", "1500ms"),
        ("1m30s", "90s"),
        (".5s", "500ms"),
        ("120m", "2h"),
        ("1s1ns", "1000000001ns"),
        ("2.5ms", "2500us"),
    ],
)
def test_durations_are_written_as_they_were_read(given: str, written: str) -> None:
    more = {"kube": {"podInformer": {"pollInterval": given}}}
    wanted = system(collector={"staleness": given, "additional_config": more})
    found = leaves(configuration.tree(wanted, wanted.rest, "rapl"))
    assert found["monitor.staleness"] == found["kube.podInformer.pollInterval"] == written


@pytest.mark.parametrize(
    ("informer", "resources", "verbs"),
    [
        ("apiserver", ["pods"], ["get", "list", "watch"]),
        ("kubelet", ["nodes", "nodes/proxy"], ["get"]),
    ],
)
def test_the_cluster_scope_has_the_permissions_of_its_informer(
    informer: str, resources: list[str], verbs: list[str]
) -> None:
    wanted = system(scope="cluster", collector={"pod_informer": informer})
    role, binding = manifests.of_cluster(wanted, is_openshift=False)
    assert role["rules"] == [{"apiGroups": [""], "resources": resources, "verbs": verbs}]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "kepler", "namespace": "kepler"}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert manifests.obsolete_permissions(wanted) == []
    assert "Egress" not in installed(wanted)["NetworkPolicy", "kepler"]["spec"]["policyTypes"]
    assert pod_of(wanted)["automountServiceAccountToken"]


@pytest.mark.parametrize(
    ("mode", "volumes", "scheme"),
    [("none", set(), "HTTP"), ("tls", {"tls"}, "HTTPS"), ("mtls", {"tls", "client-authority"}, "")],
)
def test_security_mounts_the_secrets_that_it_needs(
    mode: str, volumes: set[str], scheme: str
) -> None:
    wanted = system(security={"mode": mode})
    pod = pod_of(wanted)
    assert {each["name"] for each in pod["volumes"] if "secret" in each} == volumes
    probe = pod["containers"][0]["livenessProbe"]
    assert probe.get("httpGet", {}).get("scheme", "") == scheme
    assert ("tcpSocket" in probe) == (mode == "mtls")
    [port] = installed(wanted)["Service", "kepler"]["spec"]["ports"]
    assert port["name"] == ("http" if mode == "none" else "https")
    assert len(wanted.needed_secrets) == len(volumes)


def test_redfish_is_read_from_its_secret() -> None:
    wanted = system(redfish={"enabled": True})
    assert wanted.needed_secrets == (("kepler-redfish", ("redfish.yaml",)),)
    data = installed(wanted)["ConfigMap", "kepler-amd64-rapl"]["data"]
    found = leaves(yaml.safe_load(data["config.yaml"]))
    assert found["experimental.platform.redfish.configFile"] == "/etc/kepler/redfish/redfish.yaml"
    assert "Egress" not in installed(wanted)["NetworkPolicy", "kepler"]["spec"]["policyTypes"]


def test_kepler_0_7_has_variables_a_privileged_pod_and_the_parts_of_its_model() -> None:
    wanted = system(
        version="0.7.12",
        scope="cluster",
        estimator={"enabled": True, "image": "registry.example/model:v0.7"},
        model_server={"enabled": True, "image": "registry.example/model:v0.7"},
        collector={"additional_config": {"ENABLE_GPU": "true"}},
    )
    found = installed(wanted)
    data = found["ConfigMap", "kepler-amd64-rapl"]["data"]
    assert {
        "BIND_ADDRESS": "0.0.0.0:9102",
        "ENABLE_API_SERVER": "true",
        "ENABLE_GPU": "true",
        "SAMPLE_PERIOD_SEC": "5",
        "MODEL_SERVER_URL": "http://kepler-model-server.kepler.svc:8100",
    }.items() <= data.items()
    assert "NODE_TOTAL_ESTIMATOR=true" in data["MODEL_CONFIG"]
    assert ("Deployment", "kepler-model-server") in found
    pod = pod_of(wanted)
    assert [each["name"] for each in pod["containers"]] == ["kepler", "estimator"]
    assert pod["containers"][0]["securityContext"]["privileged"]
    assert pod["containers"][0]["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert all(isinstance(value, str) for value in data.values())


def test_estimator_and_model_server_are_off_by_default() -> None:
    found = installed(system(version="0.7.12"))
    assert "MODEL_SERVER_URL" not in found["ConfigMap", "kepler-amd64-rapl"]["data"]
    assert not [kind for kind, _name in found if kind == "Deployment"]
    assert len(pod_of(system(version="0.7.12"))["containers"]) == 1


def test_openshift_gets_constraints_for_the_account_alone() -> None:
    [constraints] = manifests.of_cluster(system(), is_openshift=True)
    assert constraints["kind"] == "SecurityContextConstraints"
    assert constraints["users"] == ["system:serviceaccount:kepler:kepler"]
    assert not constraints["allowPrivilegedContainer"] and constraints["allowHostPID"]
    label = "security.openshift.io/scc.podSecurityLabelSync"
    for is_openshift in (True, False):
        labels = manifests.namespace(system(), is_openshift)["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
        assert (label in labels) == is_openshift


def test_teardown_knows_everything_outside_of_the_namespace() -> None:
    wanted = system(scope="cluster")
    made = [*manifests.of_cluster(wanted, is_openshift=True), *policy.manifests(wanted)]
    known = manifests.all_of_cluster("kepler", "kepler", is_openshift=True)
    assert sorted((each["kind"], each["metadata"]["name"]) for each in made) == sorted(
        (each["kind"], each["metadata"]["name"]) for each in known
    )


def workload(image: str, name: str = "w", **labels: str) -> Json:
    spec: Json = {"containers": [{"name": "c", "image": image}]}
    return {
        "metadata": {"name": name, "namespace": "other", "labels": labels},
        "spec": {"template": {"spec": spec}},
    }


def test_another_kepler_is_recognised_and_others_are_not() -> None:
    wanted = system()
    own = installed(wanted)["DaemonSet", "kepler-amd64-rapl"]
    others = [
        workload("quay.example/sustainable_computing_io/kepler:v0.10", "foreign"),
        workload("registry.example/kepler-exporter@sha256:00", "old"),
        workload("registry.example/not-kepler:1", "no"),
        {"metadata": None, "spec": [1]},
        own,
    ]
    operators = [workload("registry.example/x/kepler-operator:0.24", "operator"), workload("a:1")]
    resources = [{"kind": "PowerMonitor", "metadata": {"name": "power-monitor"}}]
    found = rivals.rivals(wanted, others, operators, resources)
    assert found == [
        "DaemonSet other/foreign",
        "DaemonSet other/old",
        "Deployment other/operator",
        "PowerMonitor power-monitor",
    ]
    sentence = rivals.sentence(found, takes_force=True)
    assert (
        "(DaemonSet other/foreign, DaemonSet other/old, Deployment other/operator and 1 more)"
        in (sentence)
    )


def test_systems_with_other_nodes_stand_beside_each_other() -> None:
    hall = system(collector={"node_selector": {"hall": "1"}})
    theirs = workload("registry.example/kepler:v1")
    for selector, is_rival in (({"hall": "2"}, False), ({"hall": "1"}, True), ({"row": "1"}, True)):
        theirs["spec"]["template"]["spec"]["nodeSelector"] = selector
        assert bool(rivals.rivals(hall, [theirs], [], [])) == is_rival
