# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""power_placement and the bindings of its plan on a real API server with nodes of the test's own."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from lab.process import wait_until
from support.carried_out_plans import bind
from support.cluster_nodes import make_node, remove
from support.playbook import run_playbook

Json = dict[str, t.Any]
CURVE = {"cpu": [0, 4], "watts": [50, 90]}
STEEP = {"cpu": [0, 4], "watts": [50, 250]}


@pytest.fixture
def nodes(kube: Kube, namespace: str) -> Iterator[list[str]]:
    """Two nodes for this test, with a taint that other pods do not tolerate."""
    names = [f"{namespace}-n1", f"{namespace}-n2"]
    for name in names:
        make_node(kube, name, namespace)
    yield names
    for name in names:
        remove(kube, f"/api/v1/nodes/{name}")


@pytest.fixture
def make_pod(kube: Kube, namespace: str) -> Callable[..., Json]:
    """Creates a pending pod of this test's scheduler."""

    def make(name: str, cpu: str = "1") -> Json:
        container = {
            "name": "main",
            "image": "registry.example/none:1",
            "resources": {"requests": {"cpu": cpu}},
        }
        spec = {
            "schedulerName": namespace,
            "containers": [container],
            "nodeSelector": {"test": namespace},
            "tolerations": [{"key": "test", "operator": "Exists"}],
        }
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return kube.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    return make


def node_of(kube: Kube, namespace: str, name: str) -> str | None:
    pod = kube.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return t.cast("str | None", pod["spec"].get("nodeName"))


def planned(kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], folder: Path) -> str:
    """The plan for the pending pods; the first node is the cheaper one."""
    taken = snapshot.take(
        {
            "kubeconfig": kubeconfig,
            "include": ["pods", "namespaces", "replica_sets"],
            "selectors": {"nodes": f"test={namespace}"},
        }
    )["snapshot"]
    pods = [pod for pod in taken["pods"] if pod["metadata"]["namespace"] == namespace]
    fleet = {
        "nodes": taken["nodes"],
        "pods": [pod for pod in pods if not pod["spec"].get("nodeName")],
        "running": [pod for pod in pods if pod["spec"].get("nodeName")],
        "curves": {nodes[0]: CURVE, nodes[1]: STEEP},
        "namespaces": taken["namespaces"],
        "replica_sets": taken["replica_sets"],
    }
    source, plan = folder / "fleet.yml", folder / "plan.json"
    source.write_text(yaml.safe_dump(fleet))
    place({"src": [str(source)], "path": str(plan)})
    return str(plan)


def reasons(result: Json) -> dict[str, str]:
    return {entry["pod"]: entry["reason"] for entry in result["skipped"]}


def test_pods_are_bound_where_they_cost_least_and_a_second_run_changes_nothing(
    kube: Kube,
    kubeconfig: str,
    namespace: str,
    nodes: list[str],
    make_pod: Callable[..., Json],
    tmp_path: Path,
) -> None:
    for number in range(5):
        make_pod(f"web-{number}")
    make_pod("huge", "64")
    plan = planned(kube, kubeconfig, namespace, nodes, tmp_path)
    options = {"kubeconfig": kubeconfig, "plan": plan}
    checked = bind(options, Context(check_mode=True))
    assert node_of(kube, namespace, "web-0") is None
    first, second = bind(options), bind(options)
    assert checked["bound"] == first["bound"] and checked["diff"] == first["diff"]
    where = [node_of(kube, namespace, f"web-{number}") for number in range(5)]
    assert sorted(str(name) for name in where) == [nodes[0]] * 4 + [nodes[1]]
    assert first["changed"] and not second["changed"]
    assert len(second["unchanged"]) == 5 and second["marked"] == []
    huge = kube.get(f"/api/v1/namespaces/{namespace}/pods/huge")
    conditions = {item["type"]: item for item in huge["status"]["conditions"]}
    assert conditions["PodScheduled"]["reason"] == "Unschedulable"
    assert "Insufficient cpu" in conditions["PodScheduled"]["message"]
    events = kube.list(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    ours = [item for item in events if item["regarding"]["uid"] == huge["metadata"]["uid"]]
    assert [item["reason"] for item in ours] == ["FailedScheduling"]


def test_rules_of_deployments_and_namespaces_reach_the_plan(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    """The real controller copies the annotation of a Deployment to its ReplicaSet."""
    labels = {"app": "web"}
    apart = {
        "labelSelector": {"matchLabels": {"app": "keeper"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "topologyKey": "test",
    }
    spec = {
        "schedulerName": namespace,
        "containers": [
            {
                "name": "main",
                "image": "registry.example/none:1",
                "resources": {"requests": {"cpu": "500m"}},
            }
        ],
        "nodeSelector": {"test": namespace},
        "tolerations": [{"key": "test", "operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
        },
    }
    metadata = {"name": "web", "annotations": {"waok8s.github.io/podspread-rate": "1.0"}}
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": 4, "selector": {"matchLabels": labels}, "template": template},
    }
    kube.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    wait_until(lambda: len(kube.list(pods)) == 4, 30.0, "the Deployment's pods")
    result = bind(
        {"kubeconfig": kubeconfig, "plan": planned(kube, kubeconfig, namespace, nodes, tmp_path)}
    )
    assert sorted(entry["node"] for entry in result["bound"]) == [nodes[0]] * 2 + [nodes[1]] * 2


def test_nodes_that_changed_since_the_plan_get_no_pod(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], make_pod: Callable[..., Json]
) -> None:
    """The API server itself would bind to both: a cordoned node and a missing one."""
    for name in ("a", "b", "c"):
        make_pod(name)
    cordon = {"spec": {"unschedulable": True}}
    kube.request("PATCH", f"/api/v1/nodes/{nodes[0]}", cordon, MERGE_CONTENT_TYPE)
    placements = [
        {"namespace": namespace, "pod": "a", "node": nodes[0]},
        {"namespace": namespace, "pod": "b", "node": f"{namespace}-gone"},
        {"namespace": namespace, "pod": "c", "node": nodes[1]},
    ]
    result = bind({"kubeconfig": kubeconfig, "placements": placements})
    assert reasons(result) == {
        "a": f"node {nodes[0]} is cordoned",
        "b": f"node {namespace}-gone is gone",
    }
    assert [node_of(kube, namespace, name) for name in "abc"] == [None, None, nodes[1]]


def test_a_pod_that_took_the_name_of_another_is_skipped(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], make_pod: Callable[..., Json]
) -> None:
    uid = make_pod("web")["metadata"]["uid"]
    remove(kube, f"/api/v1/namespaces/{namespace}/pods/web")
    make_pod("web")
    placements = [{"namespace": namespace, "pod": "web", "node": nodes[0], "uid": uid}]
    result = bind({"kubeconfig": kubeconfig, "placements": placements})
    assert reasons(result) == {"web": "the pod was replaced by another of the same name"}
    assert node_of(kube, namespace, "web") is None


def test_placing_and_binding_work_as_tasks(
    kube: Kube,
    kubeconfig: str,
    namespace: str,
    nodes: list[str],
    make_pod: Callable[..., Json],
    tmp_path: Path,
) -> None:
    make_pod("web")
    fleet = [{"name": name, "allocatable": {"cpu": 4}, "curve": CURVE} for name in nodes]
    plan = tmp_path / "plan.json"
    placing = {
        "nodes": fleet,
        "pods": [{"name": "web", "namespace": namespace, "requests": {"cpu": 1}}],
        "path": str(plan),
    }
    binding = {"steps": ["bind"], "run_dir": str(tmp_path), "kubeconfig": kubeconfig}
    tasks = [
        {"name": "place", "wattwise.kube.power_placement": placing},
        {"name": "bind", "wattwise.kube.fleet_reconciliation": binding},
    ]
    play = {"hosts": "c", "connection": "local", "gather_facts": False, "tasks": tasks}
    run = run_playbook([play], tmp_path, "-i", "c,", as_json=True)
    assert run.returncode == 0, run.output
    bound = documents.load(str(tmp_path / "bound" / "bindings.json"), "bindings")["bound"]
    assert bound[0]["node"] == nodes[0]
    assert node_of(kube, namespace, "web") == nodes[0]
    again = run_playbook([play], tmp_path, "-i", "c,", as_json=True)
    assert again.stats()["c"]["changed"] == 0
