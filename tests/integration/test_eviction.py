# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rebalancing on a real API server: real controllers, and a budget that refuses."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils import snapshot
from ansible_collections.wattwise.kube.plugins.module_utils.binding import bind
from ansible_collections.wattwise.kube.plugins.module_utils.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.eviction import move_pods
from ansible_collections.wattwise.kube.plugins.module_utils.kube import MERGE_CONTENT_TYPE, Kube
from ansible_collections.wattwise.kube.plugins.module_utils.power import place
from lab.process import wait_until
from support.playbook import run_playbook

Json = dict[str, t.Any]
CHEAP = {"cpu": [0, 4], "watts": [50, 90]}
DEAR = {"cpu": [0, 4], "watts": [50, 250]}
APP = {"app": "web"}


@pytest.fixture
def nodes(kube: Kube, namespace: str) -> Iterator[list[str]]:
    """A cheap and a dear node for this test alone: others do not tolerate their taint."""
    names = [f"{namespace}-cheap", f"{namespace}-dear"]
    resources = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    for name in names:
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"test": namespace}},
            "spec": {"taints": [{"key": "test", "value": namespace, "effect": "NoSchedule"}]},
            "status": {"allocatable": resources, "capacity": resources},
        }
        kube.request("POST", "/api/v1/nodes", body)
    wait_until(lambda: all(is_ready(kube, name) for name in names), 30.0, "the nodes to be ready")
    yield names
    for name in names:
        kube.request("DELETE", f"/api/v1/nodes/{name}")


def is_ready(kube: Kube, name: str) -> bool:
    node = kube.get(f"/api/v1/nodes/{name}")
    conditions = {item["type"]: item["status"] for item in node["status"].get("conditions", [])}
    keys = [taint["key"] for taint in node["spec"].get("taints", [])]
    return conditions.get("Ready") == "True" and keys == ["test"]


def pods(kube: Kube, namespace: str) -> list[Json]:
    listed = kube.list(f"/api/v1/namespaces/{namespace}/pods")
    return [pod for pod in listed if not pod["metadata"].get("deletionTimestamp")]


def where(kube: Kube, namespace: str) -> Counter[str]:
    return Counter(pod["spec"].get("nodeName", "") for pod in pods(kube, namespace))


@pytest.fixture
def deployed(kube: Kube, kubeconfig: str, namespace: str, nodes: list[str]) -> None:
    """Three ready pods of a Deployment on the dear node, and a budget for one at a time."""
    container = {
        "name": "main",
        "image": "registry.example/none:1",
        "resources": {"requests": {"cpu": "500m"}},
    }
    spec = {
        "schedulerName": namespace,
        "containers": [container],
        "nodeSelector": {"test": namespace},
        "tolerations": [{"key": "test", "operator": "Exists"}],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": APP},
            "template": {"metadata": {"labels": APP}, "spec": spec},
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": APP}},
    }
    kube.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
    kube.request("POST", budget_path(namespace).rpartition("/")[0], budget)
    wait_until(lambda: len(pods(kube, namespace)) == 3, 30.0, "the Deployment's pods")
    names = [pod["metadata"]["name"] for pod in pods(kube, namespace)]
    placements = [{"namespace": namespace, "pod": name, "node": nodes[1]} for name in names]
    bind({"kubeconfig": kubeconfig, "placements": placements})
    wait_until(lambda: allowed(kube, namespace) == 1, 60.0, "the pods to be ready")


def budget_path(namespace: str) -> str:
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web"


def allowed(kube: Kube, namespace: str) -> int:
    status = kube.get(budget_path(namespace)).get("status", {})
    return int(status.get("disruptionsAllowed", 0))


def planned(kubeconfig: str, namespace: str, nodes: list[str], folder: Path) -> Json:
    """The plan of a rebalancing of this test's nodes; it stands in the folder too."""
    options = {"kubeconfig": kubeconfig, "selectors": {"nodes": f"test={namespace}"}}
    taken = snapshot.take({**options, "include": ["pods", "namespaces", "pod_disruption_budgets"]})[
        "snapshot"
    ]
    fleet = {
        "nodes": taken["nodes"],
        "running": [pod for pod in taken["pods"] if pod["metadata"]["namespace"] == namespace],
        "pod_disruption_budgets": taken["pod_disruption_budgets"],
        "curves": dict(zip(nodes, (CHEAP, DEAR), strict=True)),
    }
    source = folder / "fleet.yml"
    source.write_text(yaml.safe_dump(fleet))
    return place(
        {
            "src": str(source),
            "scheduler_name": namespace,
            "rebalance": True,
            "path": str(folder / "plan.json"),
        }
    )


@pytest.mark.usefixtures("deployed")
def test_a_pod_moves_by_eviction_and_its_replacement_is_bound_to_the_planned_node(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    cheap, dear = nodes
    (move,) = planned(kubeconfig, namespace, nodes, tmp_path)["moves"]
    # The budget lets one go; 0.4 cores at 10 instead of 50 W each.
    assert (move["from_node"], move["to_node"], move["gain_watts"]) == (dear, cheap, 16.0)
    options = {
        "kubeconfig": kubeconfig,
        "plan": str(tmp_path / "plan.json"),
        "scheduler_name": namespace,
    }
    checked = move_pods(options, Context(check_mode=True))
    assert checked["changed"] and checked["moved"][0]["replacement"] is None
    assert where(kube, namespace) == {dear: 3}
    result = move_pods(options)
    assert (result["stopped"], result["skipped"], result["left"]) == (None, [], 0)
    (moved,) = result["moved"]
    assert moved["pod"] == move["pod"] != moved["replacement"]
    assert where(kube, namespace) == {cheap: 1, dear: 2}
    again = move_pods(options)
    assert not again["changed"] and again["skipped"][0]["reason"] == "the pod is gone"


@pytest.mark.usefixtures("deployed")
def test_the_first_refusal_of_a_budget_ends_the_run(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    cheap, dear = nodes
    forbid = {"spec": {"maxUnavailable": 0}}
    kube.request("PATCH", budget_path(namespace), forbid, MERGE_CONTENT_TYPE)
    wait_until(lambda: allowed(kube, namespace) == 0, 30.0, "the budget to forbid evictions")
    assert planned(kubeconfig, namespace, nodes, tmp_path)["moves"] == []
    moves = [
        {
            "namespace": namespace,
            "pod": pod["metadata"]["name"],
            "from_node": dear,
            "to_node": cheap,
        }
        for pod in pods(kube, namespace)
    ]
    for context in (Context(check_mode=True), Context()):
        result = move_pods(
            {"kubeconfig": kubeconfig, "moves": moves, "scheduler_name": namespace}, context
        )
        assert (result["changed"], result["moved"], result["left"]) == (False, [], 3)
        assert result["stopped"]["pod"] == moves[0]["pod"]
        assert "a PodDisruptionBudget forbids the eviction" in result["stopped"]["reason"]
        assert where(kube, namespace) == {dear: 3}


@pytest.mark.usefixtures("deployed")
def test_moves_that_are_no_longer_the_planned_ones_are_skipped(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str]
) -> None:
    cheap, dear = nodes
    first, second, third = (pod["metadata"] for pod in pods(kube, namespace))
    cordon = {"spec": {"unschedulable": True}}
    kube.request("PATCH", f"/api/v1/nodes/{cheap}", cordon, MERGE_CONTENT_TYPE)
    moves = [
        {"pod": first["name"], "from_node": dear, "to_node": cheap},
        {"pod": second["name"], "from_node": cheap, "to_node": dear},
        {"pod": third["name"], "from_node": dear, "to_node": cheap, "uid": "another"},
    ]
    listed = [{"namespace": namespace, **move} for move in moves]
    options = {"kubeconfig": kubeconfig, "moves": listed}
    result = move_pods({**options, "scheduler_name": namespace})
    assert [entry["reason"] for entry in result["skipped"]] == [
        f"node {cheap} is cordoned",
        f"the pod is not on node {cheap} any more",
        "the pod was replaced by another of the same name",
    ]
    foreign = move_pods({**options, "moves": listed[:1]})
    assert "would not come back to this scheduler" in foreign["skipped"][0]["reason"]
    assert where(kube, namespace) == {dear: 3}


@pytest.mark.usefixtures("deployed")
def test_proposing_and_moving_work_as_tasks(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    cheap, dear = nodes
    planned(kubeconfig, namespace, nodes, tmp_path)
    plan = str(tmp_path / "plan.json")
    placing = {
        "src": str(tmp_path / "fleet.yml"),
        "scheduler_name": namespace,
        "rebalance": True,
        "min_gain_watts": 15,
        "max_moves": 1,
        "path": plan,
    }
    moving = {"plan": plan, "scheduler_name": namespace, "kubeconfig": kubeconfig}
    tasks = [
        {"name": "place", "wattwise.kube.power_placement": placing},
        {"name": "look", "wattwise.kube.pod_eviction": moving, "check_mode": True},
        {"name": "move", "wattwise.kube.pod_eviction": moving},
        {"name": "move again", "wattwise.kube.pod_eviction": moving},
    ]
    play = {"hosts": "c", "connection": "local", "gather_facts": False, "tasks": tasks}
    run = run_playbook([play], tmp_path, "-i", "c,", as_json=True)
    assert run.returncode == 0, run.output
    (proposed,) = run.results("place")[0]["moves"]
    for name in ("look", "move"):
        assert run.results(name)[0]["moved"][0]["pod"] == proposed["pod"]
    assert not run.results("move again")[0]["changed"]
    assert where(kube, namespace) == {cheap: 1, dear: 2}
