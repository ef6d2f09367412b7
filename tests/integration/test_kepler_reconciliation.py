# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kepler on a test's nodes: installation, policy, status and removal, on an API server."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons import (
    reconciliation as kepler_addons,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment import names
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.options import SYSTEM
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.reconciliation import (
    reconcile,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import (
    read_system,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import label_nodes
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
from support.kepler_systems import labels_of, node
from support.lab import RunningLab
from support.playbook import run_playbook
from support.recording_proxy import Permission, Proxy, recording_proxy
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

NODES = "/api/v1/nodes"
DEFINITION = DEFINITIONS / "kepler.system.sustainable.computing.io_keplersystems.yaml"
GROUP = "/apis/kepler.system.sustainable.computing.io/v1alpha1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RIGHTS_FILE = ROOT / "operator" / "config" / "rbac" / "kepler" / "rights.yaml"
IMAGE = {"repository": "registry.example/kepler"}

OF_CLUSTER = (
    (RBAC, "clusterroles"),
    (RBAC, "clusterrolebindings"),
    (ADMISSION, "validatingadmissionpolicies"),
    (ADMISSION, "validatingadmissionpolicybindings"),
)


@dataclasses.dataclass(frozen=True)
class Site:
    """Four nodes of a test, and the namespace of their collectors."""

    kube: Kube
    kubeconfig: str
    namespace: str
    authority: str

    @property
    def selector(self) -> dict[str, str]:
        return {"site": self.namespace}

    def run(self, *, check: bool = False, given: Json | None = None, **spec: t.Any) -> Json:
        """One run with a spec, on only the test's nodes."""
        collector = {"node_selector": self.selector, **spec.pop("collector", {})}
        wanted = {"image": IMAGE, "collector": collector, **spec}
        return self.call(check=check, spec=wanted, **(given or {}))

    def call(
        self, *, check: bool = False, warn: t.Callable[[str], None] = print, **given: t.Any
    ) -> Json:
        options = {"kubeconfig": self.kubeconfig, "namespace": self.namespace, **given}
        return reconcile(options, Context(check_mode=check, warn=warn))

    def path(self, kind: str, root: str = "/api/v1") -> str:
        return f"{root}/namespaces/{self.namespace}/{kind}"

    def daemon_sets(self) -> dict[str, Json]:
        found = self.kube.list(self.path("daemonsets", "/apis/apps/v1"))
        return {each["metadata"]["name"]: each for each in found}

    def pods(self) -> list[Json]:
        return self.kube.list(self.path("pods"))

    def of_cluster(self) -> set[str]:
        """Kinds of the objects outside of the namespace."""
        name = names.cluster_name(self.namespace, "kepler")
        return {kind for root, kind in OF_CLUSTER if self.kube.find(f"{root}/{kind}/{name}")}


# Kinds that the lab does not serve, and the resource that ansible-operator watches.
ABSENT = {
    *("security.openshift.io", "kepler.system.sustainable.computing.io", "metal3.io"),
    *("wao.bitmedia.co.jp", "node.waok8s.github.io"),
}
UNUSED = {
    # Permissions of the collectors; an account cannot grant more than it has.
    Permission("", "pods", "get"),
    Permission("", "pods", "watch"),
    # The namespace of a KeplerSystem already exists.
    Permission("", "namespaces", "create"),
}
POLICY = {"validatingadmissionpolicies", "validatingadmissionpolicybindings"}
PERMISSIONS = {"clusterroles", "clusterrolebindings"}


@pytest.fixture(scope="module")
def definition(kubeconfig: str) -> None:
    apply({"kubeconfig": kubeconfig, "src": [str(DEFINITION)], "wait": True})


@pytest.fixture
def site(kube: Kube, lab: RunningLab, namespace: str, definition: None) -> Iterator[Site]:
    """Nodes by kind: labelled by the probe, known by their provider, and one virtual machine."""
    place = f"{namespace}-kepler"
    mark = {"site": place}
    made = [
        node(f"labelled-{place}", labels={**mark, **labels_of("rapl")}),
        node(f"metal-{place}", labels=mark),
        node(f"arm-{place}", "arm64", labels={**mark, **labels_of("hwmon")}),
        node(f"virtual-{place}", metal=False, labels=mark),
    ]
    for each in made:
        stored = kube.request("POST", NODES, each)
        info = {**stored["status"]["nodeInfo"], **each["status"]["nodeInfo"]}
        # Each kubelet reports its disk, of which the pods request a part.
        room = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        body = {"status": {"nodeInfo": info, "capacity": room, "allocatable": room}}
        path = f"{NODES}/{each['metadata']['name']}/status"
        kube.request("PATCH", path, body, MERGE_CONTENT_TYPE)
    found = Site(kube, lab.kubeconfig, place, str(lab.state.ca_certificate))
    yield found
    found.call(state="absent")
    with contextlib.suppress(ApiError):
        kube.request("DELETE", f"/api/v1/namespaces/{place}")
    for each in made:
        kube.request("DELETE", f"{NODES}/{each['metadata']['name']}")
    for pod in found.pods():
        # No kubelet ends the pods of these nodes.
        options = {"gracePeriodSeconds": 0}
        with contextlib.suppress(ApiError):
            kube.request("DELETE", f"{found.path('pods')}/{pod['metadata']['name']}", options)


def failed(result: Json) -> list[Json]:
    return [each for each in result["results"] if each["action"] == "failed"]


def test_kepler_is_installed_by_groups_widened_narrowed_and_removed(site: Site) -> None:
    planned = site.run(check=True)
    assert planned["changed"] and not failed(planned)
    assert site.kube.find(f"/api/v1/namespaces/{site.namespace}") is None

    made = site.run()
    assert made["changed"] and made["found"] and not failed(made)
    assert {each["node"] for each in made["left_out"]} == {f"virtual-{site.namespace}"}
    assert site.of_cluster() == POLICY
    metadata = site.kube.get(f"/api/v1/namespaces/{site.namespace}")["metadata"]
    assert metadata["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    again = site.run()
    assert (again["changed"], again["diff"], again["pruned"]) == (False, [], [])

    # The DaemonSet controller reads the affinities, and the policy admits its pods.
    wanted = {"kepler-amd64-rapl": 1, "kepler-amd64-rapl.named": 1, "kepler-arm64-hwmon": 1}
    assert site.daemon_sets().keys() == wanted.keys()
    wait_until(lambda: len(site.pods()) == 3, 120.0, "the pods of Kepler")
    wait_until(lambda: counts(site) == wanted, 120.0, "the counts of the DaemonSets")

    wide = site.run(scope="cluster")
    assert wide["changed"] and site.of_cluster() == POLICY | PERMISSIONS
    assert not site.run(scope="cluster")["changed"]
    narrow = site.run()
    assert narrow["changed"] and site.of_cluster() == POLICY
    # Without Arm, its DaemonSet and ConfigMap are removed.
    label = {"metadata": {"labels": labels_of("hwmon", supported=False)}}
    site.kube.request("PATCH", f"{NODES}/arm-{site.namespace}", label, MERGE_CONTENT_TYPE)
    pruned = site.run(given={"prune_max": 1.0})["pruned"]
    assert {(each["kind"], each["name"]) for each in pruned} == {
        ("DaemonSet", "kepler-arm64-hwmon"),
        ("ConfigMap", "kepler-arm64-hwmon"),
    }

    removed = site.call(state="absent")
    assert removed["changed"] and site.of_cluster() == set()
    wait_until(lambda: not site.daemon_sets(), 120.0, "the end of the DaemonSets")
    assert not site.call(state="absent")["changed"]
    assert site.kube.find(f"/api/v1/namespaces/{site.namespace}") is not None


def test_the_playbook_runs_the_role_and_its_teardown_takes_all_back(
    site: Site, tmp_path: Path
) -> None:
    variables = {
        "wattwise_kubeconfig": site.kubeconfig,
        "kepler_namespace": site.namespace,
        "kepler_image": IMAGE,
        "kepler_scope": "cluster",
        "kepler_collector": {"node_selector": site.selector, "sample_rate": "2s"},
        "kepler_pools": [
            {"name": "arm", "node_selector": {"kubernetes.io/arch": "arm64"}, "collector": {}}
        ],
    }
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps({"clusters": {"hosts": {"here": variables}}}))

    defaults = {
        "group/wattwise.kube.wattwise": {"kubeconfig": site.kubeconfig},
        "group/kubernetes.core.k8s": {"kubeconfig": site.kubeconfig},
    }
    find = {"kind": "ConfigMap", "namespace": site.namespace, "name": "kepler-amd64-rapl"}
    teardown = {"name": "wattwise.kube.kepler", "tasks_from": "teardown"}
    play = {
        "hosts": "clusters",
        "connection": "local",
        "gather_facts": False,
        "module_defaults": defaults,
        "tasks": [
            {"name": "Find the configuration", "kubernetes.core.k8s_info": find},
            {"ansible.builtin.include_role": teardown},
        ],
    }
    # The first test shows that a second run changes nothing, and so does molecule's stage.
    given = [{"import_playbook": "wattwise.kube.kepler"}, play]
    run = run_playbook(given, tmp_path, "-i", str(inventory), as_json=True)
    assert run.returncode == 0, run.failures()
    # Labels and collectors, and the removal of both.
    assert run.stats()["here"]["changed"] == 4
    assert site.of_cluster() == set()
    installed = run.results("Run Kepler on the nodes that it can meter")
    created = {(one["kind"], one["name"]) for each in installed for one in each["results"]}
    assert {name for kind, name in created if kind == "DaemonSet"} == {
        "kepler-amd64-rapl",
        "kepler-arm64-hwmon-arm",
    }
    assert {"ClusterRole", "ClusterRoleBinding"} <= {kind for kind, _name in created}
    [found] = run.results("Find the configuration")
    [configuration] = found["resources"]
    assert yaml.safe_load(configuration["data"]["config.yaml"])["monitor"]["interval"] == "2s"


def counts(site: Site) -> dict[str, int]:
    return {
        name: each.get("status", {}).get("desiredNumberScheduled", 0)
        for name, each in site.daemon_sets().items()
    }


def changed(pod: Json, path: str, value: t.Any) -> Json:
    """The pod with a value at a path of names and numbers."""
    found = copy.deepcopy(pod)
    place: t.Any = found["spec"]
    *parents, last = [int(name) if name.isdecimal() else name for name in path.split(".")]
    for parent in parents:
        place = place[parent]
    place[last] = [*place[last], value] if isinstance(place.get(last), list) else value
    return found


HOSTILE = {
    "hostNetwork": True,
    "hostIPC": True,
    "containers.0.securityContext": {"privileged": True},
    "containers.0.securityContext.allowPrivilegeEscalation": True,
    "containers.0.securityContext.capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
    "containers.0.volumeMounts.0.readOnly": False,
    "volumes.0.hostPath": {"path": "/etc"},
    "volumes.1.hostPath": {"path": "/proc/1/root"},
    "volumes": {"name": "n", "nfs": {"server": "s", "path": "/"}},
    "containers": {"name": "second", "image": "i:1"},
    "initContainers": [{"name": "first", "image": "i:1", "securityContext": {"privileged": True}}],
}


def test_the_policy_admits_pods_of_kepler_and_refuses_more(site: Site) -> None:
    site.run()
    template = site.daemon_sets()["kepler-amd64-rapl"]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": template["spec"]}

    def is_refused(manifest: Json) -> bool:
        try:
            site.kube.request("POST", f"{site.path('pods')}?dryRun=All", manifest)
        except ApiError as error:
            assert error.status in (403, 422) and "of Kepler" in str(error), error
            return True
        return False

    hostile = changed(pod, "hostNetwork", True)
    wait_until(functools.partial(is_refused, hostile), 120.0, "the policy")
    assert not is_refused(pod)
    for path, value in HOSTILE.items():
        assert is_refused(changed(pod, path, value)), path
    wait_until(lambda: len(site.pods()) == 3, 120.0, "the pods of Kepler")
    name = site.pods()[0]["metadata"]["name"]
    container = {"name": "debug", "image": "i:1", "securityContext": {"privileged": True}}
    with pytest.raises(ApiError, match="a container of Kepler is not privileged"):
        site.kube.request(
            "PATCH",
            f"{site.path('pods')}/{name}/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [container]}},
            "application/strategic-merge-patch+json",
        )
    # Collectors may mount the node's logs only once an add-on needs them.
    logs = {"name": "logs", "hostPath": {"path": "/var/log/pods"}}
    collector = changed(pod, "volumes", logs)
    assert is_refused(collector)
    addons: Json = {"kubeconfig": site.kubeconfig, "namespace": site.namespace}
    receiver = {"backend": "loki", "endpoint": "https://logs.example"}
    agent = {"enabled": True, "agent": "fluent-bit", "image": "registry.example/fluent-bit:4"}
    kepler_addons.reconcile({**addons, "spec": {"logging": {**agent, **receiver}}})
    wait_until(lambda: not is_refused(collector), 60.0, "the policy to admit collectors")
    assert is_refused(changed(pod, "volumes", {**logs, "hostPath": {"path": "/var/log"}}))
    kepler_addons.reconcile({**addons, "state": "absent"})
    wait_until(lambda: is_refused(collector), 60.0, "the policy to refuse collectors")
    # None of this applies in another namespace.
    site.kube.request(
        "POST",
        "/api/v1/namespaces/kube-system/pods?dryRun=All",
        {**pod, "spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "i:1"}]}},
    )


@pytest.fixture
def systems(site: Site) -> Iterator[str]:
    """The path of KeplerSystems of the namespace."""
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": site.namespace}}
    apply({"kubeconfig": site.kubeconfig, "manifests": [manifest]})
    path = site.path("keplersystems", GROUP)
    yield path
    for each in site.kube.list(path):
        site.kube.request("DELETE", f"{path}/{each['metadata']['name']}")


def kepler_system(site: Site, name: str = "kepler", **spec: t.Any) -> Json:
    collector = {"nodeSelector": site.selector, **spec.pop("collector", {})}
    return {
        "apiVersion": GROUP.replace("/apis/", ""),
        "kind": "KeplerSystem",
        "metadata": {"name": name, "namespace": site.namespace},
        "spec": {"image": IMAGE, "collector": collector, **spec},
    }


def condition(status: Json, name: str) -> tuple[str, str, str]:
    [one] = [each for each in status["conditions"] if each["type"] == name]
    return one["status"], one["reason"], one["message"]


@contextlib.contextmanager
def account_with(site: Site, text: str, *replaced: tuple[str, str]) -> Iterator[Trial]:
    """An account with the permissions of a file, with the test's namespace in place of kepler."""
    name = f"{site.namespace}-account"
    for before, after in (
        ("wattwise-kepler.kepler.kepler", names.cluster_name(site.namespace, "kepler")),
        ("namespace: kepler", f"namespace: {site.namespace}"),
        ("resourceNames: [kepler]", f"resourceNames: [{site.namespace}]"),
        *replaced,
    ):
        text = text.replace(before, after.replace("ACCOUNT", name))
    owned = {"name": name, "namespace": site.namespace}
    given = [*_items(text), {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": owned}]
    apply({"kubeconfig": site.kubeconfig, "manifests": given})
    path = f"{site.path('serviceaccounts')}/{name}/token"
    asked = {"spec": {"expirationSeconds": 3600}}
    token = site.kube.request("POST", path, asked)["status"]["token"]
    keys = {"redfish.csv": "YQ==", "redfish.yaml": "YQ=="}
    secret = {"metadata": {"name": "kepler-redfish"}, "data": keys}
    site.kube.request("POST", site.path("secrets"), secret)
    try:
        with recording_proxy(site.kube.host, site.authority) as proxy:
            yield Trial(given, proxy, {"kubeconfig": None, "host": proxy.server, "api_key": token})
    finally:
        apply({"kubeconfig": site.kubeconfig, "manifests": given, "state": "absent"})


def _items(text: str) -> list[Json]:
    """Manifests of a file with several documents or one List."""
    found = list(yaml.safe_load_all(text))
    return [item for each in found for item in each.get("items", [each])]


@dataclasses.dataclass
class Trial:
    """Granted permissions, and the requests made with them; ``options`` are those of modules."""

    given: list[Json]
    proxy: Proxy
    options: Json

    def assert_exactly(self, unused: t.Collection[Permission]) -> None:
        """No request was refused, and no permission is unused."""
        allowed = {
            Permission(group, resource, verb)
            for item in self.given
            for rule in item.get("rules", [])
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert self.proxy.refused == []
        assert self.proxy.used <= allowed
        left = {right for right in allowed - self.proxy.used if right.group not in ABSENT}
        assert left == set(unused)


MODEL_SERVER = {"enabled": True, "image": "registry.example/model:v0.7"}


def test_the_role_has_the_permissions_that_its_documentation_gives(site: Site) -> None:
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": site.namespace}}
    apply({"kubeconfig": site.kubeconfig, "manifests": [manifest]})
    mine = [
        each["metadata"]["name"]
        for each in site.kube.list(NODES, {"labelSelector": f"site={site.namespace}"})
    ]
    replaced = (
        ("namespace: wao-system", f"namespace: {site.namespace}"),
        ("name: wattwise\n", "name: ACCOUNT\n"),
        ("name: wattwise-kepler\n", "name: ACCOUNT\n"),
    )
    text = (ROOT / "docs" / "rbac" / "kepler.yaml").read_text()
    with account_with(site, text, *replaced) as trial:
        label_nodes({**trial.options, "node_names": mine})
        made = site.run(
            given=trial.options,
            scope="cluster",
            version="0.7.12",
            redfish={"enabled": True},
            model_server=MODEL_SERVER,
        )
        assert not failed(made)
        assert site.of_cluster() == POLICY | PERMISSIONS
        given = {**trial.options, "prune_max": 1.0}
        assert not failed(site.run(version="0.10.2", given=given))
        assert site.of_cluster() == POLICY
        trial.assert_exactly(UNUSED)


def test_the_operator_has_the_permissions_that_its_runs_use(site: Site, systems: str) -> None:
    wanted = kepler_system(
        site, scope="cluster", version="0.7.12", redfish={"enabled": True}, modelServer=MODEL_SERVER
    )
    site.kube.request("POST", systems, wanted)
    replaced = (
        ("namespace: wattwise-system", f"namespace: {site.namespace}"),
        ("wattwise-operator", "ACCOUNT"),
    )
    with account_with(site, RIGHTS_FILE.read_text(), *replaced) as trial:
        options = trial.options
        assert not failed(site.call(**options))
        # The collectors may read pods, so only an account with that permission may grant it.
        assert site.of_cluster() == POLICY | PERMISSIONS
        spec = {"scope": "minimum", "version": "0.10.2", "redfish": None, "modelServer": None}
        site.kube.request("PATCH", f"{systems}/kepler", {"spec": spec}, MERGE_CONTENT_TYPE)
        site.call(**options)
        assert site.of_cluster() == POLICY
        trial.assert_exactly(UNUSED)


BOMB = "\ufeffa0: &a0 {x: 1}\n" + "".join(
    f"a{level}: &a{level} {{<<: [*a{level - 1}, *a{level - 1}]}}\n" for level in range(1, 28)
)


def test_a_kepler_system_elsewhere_is_told_and_reaches_nothing(site: Site, systems: str) -> None:
    """The operator watches all namespaces, and may write in one of them."""
    elsewhere = f"{site.namespace}-other"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}}
    apply({"kubeconfig": site.kubeconfig, "manifests": [manifest]})
    path = f"{GROUP}/namespaces/{elsewhere}/keplersystems"
    for name, spec in {"kepler": {}, "bomb": {"collector": {"additionalConfig": BOMB}}}.items():
        wanted = kepler_system(site, name, **spec)
        wanted["metadata"]["namespace"] = elsewhere
        site.kube.request("POST", path, wanted)
    replaced = (
        ("namespace: wattwise-system", f"namespace: {site.namespace}"),
        ("wattwise-operator", "ACCOUNT"),
    )
    try:
        with account_with(site, RIGHTS_FILE.read_text(), *replaced) as trial:
            for name, problem in (("kepler", "forbidden"), ("bomb", "anchors, aliases and tags")):
                told = site.call(**trial.options, namespace=elsewhere, name=name, on_error="report")
                assert problem in told["failure"]
                changed = {one["kind"] for one in told["results"] if one["action"] != "failed"}
                assert changed <= {"KeplerSystem"}
                status = site.kube.get(f"{path}/{name}")["status"]
                assert condition(status, "Reconciled")[0] == "False"
                name_there = names.cluster_name(elsewhere, name)
                for root, kind in OF_CLUSTER:
                    assert site.kube.find(f"{root}/{kind}/{name_there}") is None
        assert site.kube.list(f"/apis/apps/v1/namespaces/{elsewhere}/daemonsets") == []
    finally:
        apply({"kubeconfig": site.kubeconfig, "manifests": [manifest], "state": "absent"})


def test_a_foreign_kepler_is_named_and_stays_alone(site: Site, systems: str) -> None:
    labels = {"app": "foreign"}
    spec = {
        "nodeSelector": site.selector,
        "containers": [{"name": "k", "image": "r.example/kepler:1"}],
    }
    foreign = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "foreign", "namespace": site.namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    apply({"kubeconfig": site.kubeconfig, "manifests": [foreign]})
    site.kube.request("POST", systems, kepler_system(site))
    told = site.call(on_error="report")
    assert f"DaemonSet {site.namespace}/foreign" in told["failure"]
    # A KeplerSystem has no such option.
    assert "force" not in told["failure"]
    status = site.kube.get(f"{systems}/kepler")["status"]
    assert condition(status, "Reconciled")[1] == "AnotherKepler"
    assert site.daemon_sets().keys() == {"foreign"}
    with pytest.raises(WattwiseError, match="Kepler runs in this cluster already"):
        site.run()
    assert not failed(site.call(force=True))
    # Once it is installed, a DaemonSet of the same name cannot stop it.
    warnings: list[str] = []
    assert not failed(site.call(warn=warnings.append))
    assert "Kepler runs in this cluster already" in warnings[0]


REFUSED: list[tuple[Json, str]] = [
    ({"version": "0.7.12", "security": {"mode": "tls"}}, "serves only plain HTTP"),
    ({"estimator": {"enabled": True}}, "only Kepler 0.9 and earlier has an estimator"),
    ({"redfish": {"fakeCpuMeter": True}}, "fakeCpuMeter needs redfish.enabled"),
    ({"collector": {"sampleRate": "1ms"}}, "sampleRate must be from 100ms to 24h"),
    ({"collector": {"sampleRate": "often"}}, "should match"),
    ({"collector": {"metricLevels": ["pods"]}}, "Unsupported value"),
    ({"image": {"repository": "kepler"}}, "should match"),
    ({"image": {"repository": "library/kepler"}}, "must begin with a registry"),
    ({"pools": [{"name": "a", "nodeSelector": {}}]}, "should have at least 1 properties"),
    ({"pools": [{"name": "a", "nodeSelector": {"a": "b"}}] * 2}, "Duplicate value"),
    ({"metadata": {"name": "a.b"}}, "no dot"),
]


def test_the_api_server_refuses_a_spec_that_is_none_and_has_the_defaults_of_the_library(
    kube: Kube, lab: RunningLab, namespace: str, definition: None
) -> None:
    """Nothing is stored, so no node is needed."""
    site = Site(kube, lab.kubeconfig, namespace, "")
    path = f"{site.path('keplersystems', GROUP)}?dryRun=All"
    for spec, sentence in REFUSED:
        given = dict(spec)
        name = given.pop("metadata", {}).get("name", "kepler")
        with pytest.raises(ApiError, match=sentence):
            kube.request("POST", path, kepler_system(site, name, **given))
    bare = kepler_system(site)
    stored = kube.request("POST", path, bare)
    assert read_system("kepler", "kepler", of_manifest(SYSTEM, stored["spec"])) == read_system(
        "kepler", "kepler", of_manifest(SYSTEM, bare["spec"])
    )


def test_a_kepler_system_is_carried_out_and_told(site: Site, systems: str) -> None:
    assert not site.call()["found"]
    site.kube.request("POST", systems, kepler_system(site, security={"mode": "tls"}))
    with pytest.raises(WattwiseError, match="must have tls.crt, tls.key, and there is no such"):
        site.call()
    stored = site.kube.get(f"{systems}/kepler")
    assert condition(stored["status"], "Reconciled")[:2] == ("False", "SecretNotFound")
    assert not site.daemon_sets()

    plain = {"spec": {"security": {"mode": "none"}}}
    site.kube.request("PATCH", f"{systems}/kepler", plain, MERGE_CONTENT_TYPE)
    made = site.call()
    assert made["changed"] and not failed(made)
    wait_until(lambda: len(site.pods()) == 3, 120.0, "the pods of Kepler")
    # The lab simulates the kubelet of these pods.
    wait_until(lambda: is_available(site), 120.0, "collectors that are available")
    [owner] = site.daemon_sets()["kepler-amd64-rapl"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("KeplerSystem", stored["metadata"]["uid"])

    end(site)
    site.call()
    status = site.kube.get(f"{systems}/kepler")["status"]
    assert condition(status, "Reconciled")[0] == "True"
    told, reason, message = condition(status, "Available")
    assert (told, reason) == ("False", "PodsCrashing")
    assert message.endswith("exit code 1: no RAPL zones found")
    counted = {"selected": 4, "metered": 3, "leftOut": 1, "crashing": 1}
    assert counted.items() <= status["nodes"].items()
    assert condition(status, "PodNames")[:2] == ("False", "MinimumScope")
    before = site.kube.get(f"{systems}/kepler")["metadata"]["resourceVersion"]
    assert not site.call()["changed"]
    assert site.kube.get(f"{systems}/kepler")["metadata"]["resourceVersion"] == before

    # Objects are deleted with their owner. The garbage collector looks for new kinds twice a
    # minute, which is why this test is the last one.
    site.kube.request("DELETE", f"{systems}/kepler")
    wait_until(lambda: not site.daemon_sets(), 120.0, "the end of the DaemonSets")


def is_available(site: Site) -> bool:
    return condition(site.call()["status"], "Available")[:2] == ("True", "DaemonSetReady")


def end(site: Site) -> None:
    """Let the collector of the node with the probe's label crash, as reported by a kubelet."""
    name = f"labelled-{site.namespace}"

    def bound() -> list[Json]:
        return [pod for pod in site.pods() if pod["spec"].get("nodeName") == name]

    wait_until(lambda: bool(bound()), 120.0, "a pod on the labelled node")
    [pod] = bound()
    ended = {"terminated": {"exitCode": 1, "message": "no RAPL zones found\n"}}
    container = {
        "name": "kepler",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 5,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": ended,
    }
    path = f"{site.path('pods')}/{pod['metadata']['name']}/status"
    body = {"status": {"phase": "Running", "containerStatuses": [container]}}
    site.kube.request("PATCH", path, body, MERGE_CONTENT_TYPE)
