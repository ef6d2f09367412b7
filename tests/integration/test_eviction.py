# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rebalancing on a real API server: real controllers, and a budget that refuses."""

from __future__ import annotations

import json
import sys
import typing as t
from collections import Counter
from collections.abc import Iterator
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
from support.carried_out_plans import bind, move_pods
from support.inference_server import InferenceServer, Model
from support.playbook import PlaybookRun, run_playbook
from support.snapshots import with_targets

Json = dict[str, t.Any]
CHEAP = {"cpu": [0, 4], "watts": [50, 90]}
DEAR = {"cpu": [0, 4], "watts": [50, 250]}
PLACING = "Place the waiting pods"
TIME = "2026-01-31T12:00:00Z"


class App(t.NamedTuple):
    """A Deployment."""

    name: str
    replicas: int
    cpu: str = "500m"


@pytest.fixture
def nodes(kube: Kube, namespace: str) -> Iterator[list[str]]:
    """A cheap and an expensive node for this test, with a taint that other pods do not tolerate."""
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


def deploy(kube: Kube, kubeconfig: str, namespace: str, node: str, app: App, budget: Json) -> None:
    """Ready pods of a Deployment on the node, and a budget for them."""
    container = {
        "name": "main",
        "image": "registry.example/none:1",
        "resources": {"requests": {"cpu": app.cpu}},
    }
    spec = {
        "schedulerName": namespace,
        "containers": [container],
        "nodeSelector": {"test": namespace},
        "tolerations": [{"key": "test", "operator": "Exists"}],
    }
    labels = {"app": app.name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app.name},
        "spec": {
            "replicas": app.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app.name},
        "spec": {**budget, "selector": {"matchLabels": labels}},
    }
    kube.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
    kube.request("POST", budget_path(namespace, app.name).rpartition("/")[0], body)

    def of_the_app() -> list[str]:
        found = (pod["metadata"] for pod in pods(kube, namespace))
        return [pod["name"] for pod in found if pod["labels"]["app"] == app.name]

    wait_until(lambda: len(of_the_app()) == app.replicas, 30.0, "the Deployment's pods")
    placements = [{"namespace": namespace, "pod": name, "node": node} for name in of_the_app()]
    bind({"kubeconfig": kubeconfig, "placements": placements})
    wait_until(
        lambda: healthy(kube, namespace, app.name) == app.replicas, 60.0, "the pods to be ready"
    )


@pytest.fixture
def deployed(kube: Kube, kubeconfig: str, namespace: str, nodes: list[str]) -> None:
    """Three ready pods of a Deployment on the expensive node, and a budget for one at a time."""
    deploy(kube, kubeconfig, namespace, nodes[1], App("web", 3), {"maxUnavailable": 1})


def budget_path(namespace: str, name: str = "web") -> str:
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}"


def healthy(kube: Kube, namespace: str, name: str) -> int:
    """The number of pods that a budget considers ready, after it has observed its current spec."""
    budget = kube.get(budget_path(namespace, name))
    status = budget.get("status", {})
    seen = status.get("observedGeneration") == budget["metadata"].get("generation")
    return int(status.get("currentHealthy", 0)) if seen else 0


def allowed(kube: Kube, namespace: str) -> int:
    status = kube.get(budget_path(namespace)).get("status", {})
    return int(status.get("disruptionsAllowed", 0))


def planned(
    kubeconfig: str,
    namespace: str,
    nodes: list[str],
    folder: Path,
    curves: tuple[Json, Json] = (CHEAP, DEAR),
    **parameters: t.Any,
) -> Json:
    """The plan of a rebalancing of this test's nodes; it is also in the folder."""
    options = {"kubeconfig": kubeconfig, "selectors": {"nodes": f"test={namespace}"}}
    taken = snapshot.take({**options, "include": ["pods", "namespaces", "pod_disruption_budgets"]})[
        "snapshot"
    ]
    fleet = {
        "nodes": taken["nodes"],
        "running": [pod for pod in taken["pods"] if pod["metadata"]["namespace"] == namespace],
        "pod_disruption_budgets": taken["pod_disruption_budgets"],
        "curves": dict(zip(nodes, curves, strict=True)),
    }
    source = folder / "fleet.yml"
    source.write_text(yaml.safe_dump(fleet))
    return place(
        {
            "src": [str(source)],
            "scheduler_name": namespace,
            "rebalance": True,
            "path": str(folder / "plan.json"),
            **parameters,
        }
    )


def moves_of(plan: Json) -> list[Json]:
    return [move for step in plan["steps"] for move in step["moves"]]


def fates(result: Json) -> list[str]:
    return [move["outcome"] for move in result["moves"]]


@pytest.mark.usefixtures("deployed")
def test_a_pod_moves_by_eviction_and_its_replacement_is_bound_to_the_planned_node(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    cheap, dear = nodes
    (move,) = moves_of(planned(kubeconfig, namespace, nodes, tmp_path))
    # The budget permits one eviction; 0.4 cores at 10 instead of 50 W each.
    assert (move["from_node"], move["to_node"], move["gain_watts"]) == (dear, cheap, 16.0)
    options = {
        "kubeconfig": kubeconfig,
        "plan": str(tmp_path / "plan.json"),
        "scheduler_name": namespace,
    }
    checked = move_pods(options, Context(check_mode=True))
    assert checked["changed"] and checked["moves"][0]["replacement"] is None
    assert where(kube, namespace) == {dear: 3}
    result = move_pods(options)
    assert (result["stopped"], fates(result), result["gain_watts"]) == (None, ["moved"], 16.0)
    (moved,) = result["moves"]
    assert moved["pod"] == move["pod"] != moved["replacement"]
    assert where(kube, namespace) == {cheap: 1, dear: 2}
    again = move_pods(options)
    assert not again["changed"] and again["moves"][0]["reason"] == "the pod is gone"


@pytest.mark.usefixtures("deployed")
def test_the_first_refusal_of_a_budget_ends_the_run(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    cheap, dear = nodes
    forbid = {"spec": {"maxUnavailable": 0}}
    kube.request("PATCH", budget_path(namespace), forbid, MERGE_CONTENT_TYPE)
    wait_until(lambda: allowed(kube, namespace) == 0, 30.0, "the budget to forbid evictions")
    assert planned(kubeconfig, namespace, nodes, tmp_path)["steps"] == []
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
        steps = [{"moves": [move]} for move in moves]
        result = move_pods(
            {"kubeconfig": kubeconfig, "steps": steps, "scheduler_name": namespace}, context
        )
        assert (result["changed"], fates(result)) == (False, ["refused", "left", "left"])
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
    reasons = [
        f"node {cheap} is cordoned",
        f"the pod is no longer on node {cheap}",
        "the pod was replaced by another of the same name",
    ]
    options = {"kubeconfig": kubeconfig, "scheduler_name": namespace}
    for move, reason in zip(listed, reasons, strict=True):
        result = move_pods({**options, "steps": [{"moves": [move]}]})
        assert [entry["reason"] for entry in result["moves"]] == [reason]
    together = move_pods({**options, "steps": [{"moves": listed[:2]}, {"moves": listed[2:]}]})
    assert [entry["reason"] for entry in together["moves"]] == [
        reasons[0],
        f"pod {first['name']}: {reasons[0]}",
        f"step 1 on the same node {cheap} was skipped",
    ]
    foreign = move_pods({"kubeconfig": kubeconfig, "steps": [{"moves": listed[:1]}]})
    assert "would not come back to this scheduler" in foreign["moves"][0]["reason"]
    assert where(kube, namespace) == {dear: 3}


def allow(kube: Kube, namespace: str, number: int) -> None:
    """Let the budget of the Deployment web allow this many evictions."""
    unavailable = {"spec": {"maxUnavailable": number}}
    kube.request("PATCH", budget_path(namespace), unavailable, MERGE_CONTENT_TYPE)
    wait_until(lambda: allowed(kube, namespace) == number, 60.0, f"{number} allowed evictions")


@pytest.mark.usefixtures("deployed")
def test_the_api_evicts_an_unready_pod_as_its_budget_says(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    """No disruption is allowed. Only AlwaysAllow lets the pod go that is not ready."""
    cheap, dear = nodes
    forbid = {"spec": {"maxUnavailable": 0}}
    kube.request("PATCH", budget_path(namespace), forbid, MERGE_CONTENT_TYPE)
    name = pods(kube, namespace)[0]["metadata"]["name"]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    kube.request("PATCH", f"{path}/status", unready, MERGE_CONTENT_TYPE)
    wait_until(lambda: healthy(kube, namespace, "web") == 2, 30.0, "the budget to see the pod")
    move = {"namespace": namespace, "pod": name, "from_node": dear, "to_node": cheap}
    options = {
        "kubeconfig": kubeconfig,
        "steps": [{"moves": [move]}],
        "scheduler_name": namespace,
    }
    assert planned(kubeconfig, namespace, nodes, tmp_path)["steps"] == []
    assert fates(move_pods(options, Context(check_mode=True))) == ["refused"]
    always = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    kube.request("PATCH", budget_path(namespace), always, MERGE_CONTENT_TYPE)
    (proposed,) = moves_of(planned(kubeconfig, namespace, nodes, tmp_path))
    assert proposed["pod"] == name
    assert fates(move_pods(options, Context(check_mode=True))) == ["moved"]
    assert fates(move_pods(options)) == ["moved"]
    assert where(kube, namespace) == {cheap: 1, dear: 2}


def test_a_node_is_emptied_only_if_all_evictions_of_the_step_would_be_allowed(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    full, emptied = nodes
    deploy(kube, kubeconfig, namespace, full, App("base", 1), {"maxUnavailable": 0})
    deploy(kube, kubeconfig, namespace, emptied, App("web", 2), {"maxUnavailable": 2})
    wait_until(lambda: allowed(kube, namespace) == 2, 30.0, "the budget to allow two evictions")
    # 3.6 W more for each pod on the other node, until the 50 W of an idle machine are saved.
    curves = CHEAP, {"cpu": [0, 4], "watts": [50, 54]}
    plan = planned(kubeconfig, namespace, nodes, tmp_path, curves, allow_power_off=True)
    (step,) = plan["steps"]
    assert [move["gain_watts"] for move in step["moves"]] == [-3.6, 46.4]
    assert (step["cost_if_stopped_watts"], step["asleep"]) == (3.6, [emptied])
    options = {
        "kubeconfig": kubeconfig,
        "plan": str(tmp_path / "plan.json"),
        "scheduler_name": namespace,
    }
    before = {pod["metadata"]["uid"] for pod in pods(kube, namespace)}
    # The API would allow each of the two evictions by itself.
    allow(kube, namespace, 1)
    for context in (Context(check_mode=True), Context()):
        refused = move_pods(options, context)
        assert (refused["changed"], fates(refused)) == (False, ["left", "refused"])
        assert "web allows no more evictions now" in refused["stopped"]["reason"]
    allow(kube, namespace, 0)
    assert fates(move_pods(options)) == ["refused", "left"]
    assert {pod["metadata"]["uid"] for pod in pods(kube, namespace)} == before
    allow(kube, namespace, 2)
    assert fates(move_pods(options, Context(check_mode=True))) == ["moved", "moved"]
    result = move_pods(options)
    assert (fates(result), result["gain_watts"]) == (["moved", "moved"], 42.8)
    assert where(kube, namespace) == {full: 3}


@pytest.mark.usefixtures("deployed")
def test_proposing_and_moving_work_as_tasks(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    cheap, dear = nodes
    planned(kubeconfig, namespace, nodes, tmp_path)
    plan = str(tmp_path / "plan.json")
    placing = {
        "src": [str(tmp_path / "fleet.yml")],
        "scheduler_name": namespace,
        "rebalance": True,
        "min_gain_watts": 15,
        "max_moves": 1,
        "path": plan,
    }
    moving = {
        "steps": ["evict"],
        "run_dir": str(tmp_path),
        "place": {"scheduler_name": namespace},
        "kubeconfig": kubeconfig,
    }
    tasks = [
        {"name": "place", "wattwise.kube.power_placement": placing},
        {"name": "look", "wattwise.kube.fleet_reconciliation": moving, "check_mode": True},
        {"name": "move", "wattwise.kube.fleet_reconciliation": moving},
        {"name": "move again", "wattwise.kube.fleet_reconciliation": moving},
    ]
    play = {"hosts": "c", "connection": "local", "gather_facts": False, "tasks": tasks}
    run = run_playbook([play], tmp_path, "-i", "c,", as_json=True)
    assert run.returncode == 0, run.output
    (proposed,) = moves_of(run.results("place")[0])
    for name in ("look", "move"):
        assert run.results(name)[0]["evict"]["moves"][0]["pod"] == proposed["pod"]
    assert not run.results("move again")[0]["changed"]
    assert where(kube, namespace) == {cheap: 1, dear: 2}


def write_documents(
    kubeconfig: str, namespace: str, nodes: list[str], models: InferenceServer, folder: Path
) -> Json:
    """Documents of the ``observe`` role: the current cluster without NodeConfigs, and readings."""
    options = {"kubeconfig": kubeconfig, "selectors": {"nodes": f"test={namespace}"}}
    include = ["pods", "namespaces", "pod_disruption_budgets"]
    taken: Json = snapshot.take({**options, "include": include})["snapshot"]
    taken["node_configs"] = [
        {
            "metadata": {"name": node, "namespace": namespace},
            "spec": {
                "nodeName": node,
                "predictor": {
                    "powerConsumption": {
                        "type": "V2InferenceProtocol",
                        "endpoint": models.endpoint(model),
                    }
                },
            },
        }
        for node, model in zip(nodes, models.models, strict=True)
    ]
    reading = {"inlet_celsius": 22.0, "delta_p_pascal": 5.0, "power_watts": None}
    documents.write(str(folder / "snapshot.json"), "snapshot", with_targets(taken))
    documents.write(
        str(folder / "readings.json"),
        "readings",
        {"time": TIME, "readings": dict.fromkeys(nodes, reading), "errors": []},
    )
    documents.write(str(folder / "models.json"), "models", {"time": TIME, "models": []})
    return taken


def run_role(kubeconfig: str, namespace: str, folder: Path, *arguments: str) -> PlaybookRun:
    play = {
        "hosts": "c",
        "connection": "local",
        "gather_facts": False,
        "module_defaults": {"group/wattwise.kube.wattwise": {"kubeconfig": kubeconfig}},
        "vars": {
            "ansible_python_interpreter": sys.executable,
            "placement_scheduler_name": namespace,
            "placement_run_dir": str(folder),
            "placement_rebalance": True,
            "placement_allow_evict": True,
        },
        "roles": ["wattwise.kube.placement"],
    }
    run = run_playbook([play], folder, "-i", "c,", *arguments, as_json=True)
    assert run.returncode == 0, run.output
    return run


def test_the_role_moves_one_pod_after_another_until_the_first_refusal(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    """The budget of the second pod to move was changed after the cluster was read."""
    cheap, dear = nodes
    deploy(kube, kubeconfig, namespace, dear, App("web", 1, "1"), {"maxUnavailable": 1})
    deploy(kube, kubeconfig, namespace, dear, App("store", 1), {"maxUnavailable": 1})
    wait_until(lambda: allowed(kube, namespace) == 1, 30.0, "the budget to allow an eviction")
    # In per cent of four cores: 10 and 50 W for each core.
    lines = {
        "cheap": Model(lambda cpu, _inlet, _pressure: 50 + 0.4 * cpu),
        "dear": Model(lambda cpu, _inlet, _pressure: 50 + 2.0 * cpu),
    }
    with InferenceServer(lines) as models:
        write_documents(kubeconfig, namespace, nodes, models, tmp_path)
        store = budget_path(namespace, "store")
        kube.request("PATCH", store, {"spec": {"maxUnavailable": 0}}, MERGE_CONTENT_TYPE)
        wait_until(
            lambda: kube.get(store)["status"]["disruptionsAllowed"] == 0, 30.0, "no eviction"
        )
        before = {pod["metadata"]["uid"] for pod in pods(kube, namespace)}
        checked = run_role(kubeconfig, namespace, tmp_path, "--check").results(PLACING)[0]["evict"]
        assert {pod["metadata"]["uid"] for pod in pods(kube, namespace)} == before
        assert [move["gain_watts"] for move in planned_moves(tmp_path)] == [32.0, 16.0]
        done = run_role(kubeconfig, namespace, tmp_path).results(PLACING)[0]["evict"]
        for result in (checked, done):
            assert fates(result) == ["moved", "refused"]
            assert result["moves"][0]["pod"].startswith("web-")
            assert result["stopped"]["pod"].startswith("store-")
            assert "a PodDisruptionBudget forbids the eviction" in result["stopped"]["reason"]
        assert where(kube, namespace) == {cheap: 1, dear: 1}
        wait_until(lambda: allowed(kube, namespace) == 1, 60.0, "the new pod to be ready")
        write_documents(kubeconfig, namespace, nodes, models, tmp_path)
        settled = {pod["metadata"]["uid"] for pod in pods(kube, namespace)}
        again = run_role(kubeconfig, namespace, tmp_path)
    assert planned_moves(tmp_path) == []
    assert again.stats()["c"]["changed"] == 0
    assert {pod["metadata"]["uid"] for pod in pods(kube, namespace)} == settled


def planned_moves(folder: Path) -> list[Json]:
    return moves_of(json.loads((folder / "plan.json").read_text()))
