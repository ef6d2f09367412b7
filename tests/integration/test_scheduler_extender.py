# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-scheduler with the extender, as installed by the operator's manifests."""

from __future__ import annotations

import dataclasses
import itertools
import signal
import subprocess
import time
import typing as t
import uuid
from collections.abc import Iterator

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.extender_record import (
    publish,
    record_of,
)
from lab.api import Api
from lab.cluster import node_object, wait_for_nodes
from lab.controlplane.programs import find_programs
from lab.process import wait_until
from support.dockerfile import ROOT
from support.extender import Json, arguments, pod, published
from support.extender_program import ExtenderProgram, kube_scheduler, plain_kubeconfig
from support.lab import RunningLab

CONFIG = ROOT / "operator" / "config"
PROFILE = "watts"
PRIORITY = "system-cluster-critical"
CORES = 4


@dataclasses.dataclass(frozen=True)
class Machine:
    """As in lab.cluster's Nodes of machines."""

    name: str
    rack: object = "extender"
    position: int = 1
    server_type: str = "linear"
    internal_address: str = "127.9.9.9"
    cores: int = CORES
    memory_gib: int = 64
    architecture: str = "amd64"


@dataclasses.dataclass
class Cluster:
    """Four nodes for this test, in order of their watts, and the scheduler that uses only these."""

    kube: Kube
    namespace: str
    nodes: list[str]
    program: ExtenderProgram
    numbers: t.Iterator[int] = dataclasses.field(default_factory=itertools.count)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def bound(self, cpu: str = "1", seconds: float = 30.0) -> str:
        """Create one pod, and wait for its node."""
        name = self.create(cpu)

        def node() -> str:
            return str(self.kube.get(f"{self.pods}/{name}")["spec"].get("nodeName") or "")

        wait_until(lambda: bool(node()), seconds, f"a node for {name}", interval=0.01)
        return node()

    def create(self, cpu: str, **spec: str) -> str:
        """Create one pod."""
        name = f"pod-{next(self.numbers)}"
        container = {
            "name": "main",
            "image": "none",
            "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
        }
        given = {
            "schedulerName": PROFILE,
            "containers": [container],
            "nodeSelector": {"topology.kubernetes.io/zone": "extender"},
            **spec,
        }
        self.kube.request("POST", self.pods, {"metadata": {"name": name}, "spec": given})
        return name


@pytest.fixture(scope="module")
def cluster(lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if lab.settings.existing_cluster:
        pytest.skip("an existing cluster (LAB_KUBECONFIG) keeps the kube-scheduler that it has")
    kube, folder = Kube.connect({"kubeconfig": lab.kubeconfig}), tmp_path_factory.mktemp("extender")
    name = f"extender-{uuid.uuid4().hex[:8]}"
    nodes = [f"{name}-{number}" for number in range(4)]
    permissions = component(name, "rights.yaml")
    with Api(lab.state.kubeconfig) as api:
        version = api.request("GET", "/version")["gitVersion"]
        for node in nodes:
            api.request("POST", "/api/v1/nodes", node_object(Machine(node), "extender", version))
        wait_for_nodes(api, nodes)
    kube.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        apply(lab.kubeconfig, permissions)
        publish_curves(kube, name, nodes)
        kubeconfig = account_kubeconfig(kube, lab, name)
        with ExtenderProgram(folder, kubeconfig, f"--namespace={name}") as program:
            program.wait_ready()
            with kube_scheduler(lab.state, folder, program, PROFILE):
                yield Cluster(kube, name, nodes, program)
        assert "Traceback" not in program.said
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            path = f"/apis/rbac.authorization.k8s.io/v1/{kind}/{name}"
            kube.request("DELETE", path)
        for path in (f"/api/v1/namespaces/{name}", *(f"/api/v1/nodes/{node}" for node in nodes)):
            kube.request("DELETE", path)


def test_the_overlay_is_the_default_one_with_the_component() -> None:
    """One image, set in one place, and an operator that publishes."""

    def built(overlay: str) -> list[Json]:
        command = [str(find_programs(print)["kubectl"]), "kustomize", str(CONFIG / overlay)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return list(yaml.safe_load_all(text))

    def named(items: list[Json]) -> set[tuple[str, str]]:
        return {(one["kind"], one["metadata"]["name"]) for one in items}

    given = built("overlays/extender")
    files = sorted((CONFIG / "extender").glob("*.yaml"))
    own = [
        one
        for path in files
        if path.stem not in ("kustomization", "publish")
        for one in yaml.safe_load_all(path.read_text())
    ]
    assert named(given) == named(built("overlays/default")) | named(own)
    pods = [one["spec"]["template"]["spec"] for one in given if one["kind"] == "Deployment"]
    assert len(pods) == 2
    assert len({one["image"] for pod in pods for one in pod["containers"]}) == 1
    [operator] = [one for pod in pods for one in pod["containers"] if one["name"] == "operator"]
    published_by = {"name": "WATTWISE_PUBLISH_NAMESPACES", "value": "wattwise-system"}
    assert published_by in operator["env"]
    [image] = {one["image"] for pod in pods for one in pod["containers"]}
    assert image != "wattwise-operator"


def component(name: str, *files: str) -> list[Json]:
    """Objects of the component, in another namespace and under another name."""
    texts = [(CONFIG / "extender" / file).read_text() for file in files]
    found = [one for text in texts for one in yaml.safe_load_all(text)]
    for one in found:
        if one["kind"].startswith("ClusterRole"):
            one["metadata"]["name"] = name
            if "roleRef" in one:
                one["roleRef"]["name"] = name
        for subject in one.get("subjects", ()):
            subject["namespace"] = name
        if "namespace" in one["metadata"]:
            one["metadata"]["namespace"] = name
    return found


def apply(kubeconfig: str, items: list[Json], *options: str) -> None:
    """As a user would; an unknown field is an error."""
    command = [
        *(str(find_programs(print)["kubectl"]), f"--kubeconfig={kubeconfig}", "apply"),
        *("--server-side", "--validate=strict", "--filename=-", *options),
    ]
    text = yaml.safe_dump_all(items)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def publish_curves(kube: Kube, namespace: str, nodes: list[str], **plan: t.Any) -> None:
    """The first core is cheap, slightly cheaper on each node than on the next; others are
    expensive.
    """
    curves = {
        node: {"cpu": [0.0, 0.8, 4.0], "watts": [100.0, 105.0 + number, 500.0]}
        for number, node in enumerate(nodes)
    }
    assert publish(kube, record_of(namespace), published(curves, plan))


def account_kubeconfig(kube: Kube, lab: RunningLab, namespace: str) -> str:
    """A kubeconfig of the extender's own account, with only the permissions of its component."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/wattwise-extender/token"
    token = kube.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    authority = lab.state.pki / "ca.pem"
    return plain_kubeconfig(kube.host, {"token": token}, authority)


def test_pods_one_by_one_land_where_they_cost_least(cluster: Cluster) -> None:
    """Each pod makes its node expensive, so the extender must have seen the previous one."""
    assert [cluster.bound() for _pod in cluster.nodes] == cluster.nodes
    text = cluster.program.get("/metrics")[1]
    assert 'calls_total{verb="prioritize",outcome="answered"} 4' in text
    assert 'calls_total{verb="filter",outcome="answered"} 4' in text
    assert 'outcome="refused"} 0' in text
    assert 'wattwise_extender_objects{kind="priced_nodes"} 4' in text


def test_a_burst_keeps_to_a_limit_and_the_others_wait_with_the_reason(cluster: Cluster) -> None:
    """Each node has one pod. A second one adds 98 to 99 W there."""
    kube, nodes = cluster.kube, cluster.nodes
    power = sum(105.0 + number for number in range(len(nodes)))
    fleet = {"kind": "fleet", "name": "", "nodes": nodes, "not_ready": []}
    limit = {**fleet, "beside_watts": 0.0, "limit_watts": power + 2 * 99.0}
    publish_curves(kube, cluster.namespace, nodes, limits=[limit])
    # Too large for every node, so that it is not counted as one that passed.
    probe = arguments(pod("probe", "100"), nodes)
    wait_until(
        lambda: cluster.program.post("/filter", probe)[1]["NodeNames"] == [],
        30.0,
        "the limit",
        interval=0.05,
    )
    names = [cluster.create("1", priorityClassName=PRIORITY) for _pod in range(6)]

    def listed() -> dict[str, Json]:
        found = {one["metadata"]["name"]: one for one in kube.list(cluster.pods)}
        return {name: found[name] for name in names if name in found}

    def placed() -> list[str]:
        return [name for name, one in listed().items() if one["spec"].get("nodeName")]

    def reasons() -> list[str]:
        conditions = [
            condition
            for one in listed().values()
            for condition in one["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        return [one["message"] for one in conditions]

    wait_until(lambda: (len(placed()), len(reasons())) == (2, 4), 60.0, "the burst")
    assert all("4 node(s) in the fleet (" in text for text in reasons()), reasons()
    assert all("this pod adds at least 98 W)" in text for text in reasons()), reasons()
    # An eviction of the pods with less priority would make room, but leave the power as it is.
    assert all("Preemption is not helpful" in text for text in reasons()), reasons()
    # The nodes may pass later: kube-scheduler asks again when a pod goes.
    gone = placed()[0]
    kube.request("DELETE", f"{cluster.pods}/{gone}", {"gracePeriodSeconds": 0})
    wait_until(lambda: len(placed()) == 2 and gone not in listed(), 60.0, "the next pod")
    for name in listed():
        kube.request("DELETE", f"{cluster.pods}/{name}", {"gracePeriodSeconds": 0})
    publish_curves(kube, cluster.namespace, nodes)


def test_an_api_server_takes_every_object_of_the_component(
    cluster: Cluster, lab: RunningLab
) -> None:
    files = ("deployment.yaml", "service.yaml", "network-policy.yaml", "kube-scheduler.yaml")
    apply(lab.kubeconfig, component(cluster.namespace, *files), "--dry-run=server")


def test_pods_are_scheduled_without_the_extender(cluster: Cluster) -> None:
    """Also while it hangs, which costs each call the httpTimeout."""
    cluster.program.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert cluster.bound("100m") in cluster.nodes
    assert time.monotonic() - began < 10.0
    cluster.program.end()
    assert {cluster.bound("100m") for _pod in range(3)} <= set(cluster.nodes)
