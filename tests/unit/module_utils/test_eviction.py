# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Behaviour of the ``evict`` step under errors, on an API over a real socket."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from support.binding_api import Cluster, Json, node, pod
from support.carried_out_plans import move_pods
from support.scripted_api import Asked, Reply, status_reply

OWNER = {"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
MOVE = {"namespace": "shop", "pod": "a", "from_node": "n1", "to_node": "n2"}


def cluster(on_eviction: t.Callable[[Cluster], Reply]) -> Cluster:
    """Pod a runs on n1; the API's answer to an eviction is configurable."""
    running = pod("a", nodeName="n1")
    running["metadata"]["ownerReferences"] = [OWNER]
    running["status"] = {"phase": "Running"}

    def hook(asked: Asked, its: Cluster) -> Reply | None:
        if asked.path.endswith("/eviction"):
            return on_eviction(its)
        if asked.path.startswith("/api/v1/namespaces/shop/pods?"):
            waiting = [item for item in its.pods.values() if not item["spec"].get("nodeName")]
            return Reply({"kind": "PodList", "metadata": {}, "items": waiting})
        return None

    return Cluster(hook=hook).add(node("n1"), node("n2"), running)


def evicted(its: Cluster, *others: Json) -> Reply:
    del its.pods["shop", "a"]
    its.add(*others)
    return Reply({"kind": "Status", "status": "Success"}, 201)


def replacement(**spec: t.Any) -> Json:
    new = pod("b", **spec)
    new["metadata"]["ownerReferences"] = [OWNER]
    return new


def run(its: Cluster, **parameters: t.Any) -> Json:
    with its.serve() as api:
        steps = [{"moves": [MOVE]}]
        return move_pods({"host": api.url, "steps": steps, "timeout": 0.2, **parameters})


def fates(result: Json) -> list[str]:
    return [move["outcome"] for move in result["moves"]]


def test_the_replacement_is_bound_to_the_planned_node() -> None:
    its = cluster(lambda its: evicted(its, replacement()))
    result = run(its)
    assert result["moves"] == [
        {**MOVE, "step": 1, "outcome": "moved", "replacement": "b", "reason": None}
    ]
    assert its.place_of("b") == "n2"
    [diff] = result["diff"]
    assert (diff["before"], diff["after"]) == ({"shop/a": "n1"}, {"shop/a": "n2"})


def test_a_pod_that_nobody_makes_anew_ends_the_run_and_is_told() -> None:
    stranger = pod("c")
    result = run(cluster(lambda its: evicted(its, stranger)))
    assert result["changed"] and fates(result) == ["evicted"]
    assert "no replacement appeared in 0.2 s" in result["stopped"]["reason"]


def test_a_replacement_that_does_not_fit_waits_for_the_next_plan() -> None:
    its = cluster(lambda its: evicted(its, replacement(nodeSelector={"disk": "ssd"})))
    result = run(its)
    assert result["changed"] and its.place_of("b") is None
    assert "b waits: node n2 didn't match" in result["stopped"]["reason"]


@pytest.mark.parametrize(
    ("status", "words"),
    [(429, "a PodDisruptionBudget forbids the eviction"), (500, "the eviction failed")],
)
def test_what_the_api_refuses_changes_nothing_and_is_asked_once(status: int, words: str) -> None:
    asked: list[int] = []

    def refuse(_its: Cluster) -> Reply:
        asked.append(status)
        return status_reply(status, "Cannot evict pod")

    result = run(cluster(refuse))
    assert not result["changed"] and len(asked) == 1 and fates(result) == ["refused"]
    assert result["stopped"]["reason"].startswith(words)


BUDGETS = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"


class Emptying:
    """Pods a and b on n1, each on half of a node; evicted pods are recreated as a-2 and b-2."""

    def __init__(self, refused: t.Collection[str] = (), stays: int = 0) -> None:
        self.evictions: list[tuple[str, bool]] = []
        self._refused = refused
        # Number of reads in which an evicted pod still exists.
        self._stays = stays
        self._leaving: dict[tuple[str, str], int] = {}
        self.cluster = Cluster(hook=self._answer).add(node("n1"), node("n2"))
        for name in ("a", "b"):
            self.cluster.add(self.pod(name, nodeName="n1"))

    def pod(self, name: str, cpu: str = "2", **spec: t.Any) -> Json:
        made = pod(name, cpu=cpu, **spec)
        made["metadata"]["ownerReferences"] = [{**OWNER, "uid": f"rs-{name[0]}"}]
        made["status"] = {"phase": "Running" if spec else "Pending"}
        return made

    def _answer(self, asked: Asked, its: Cluster) -> Reply | None:
        path = asked.path.partition("?")[0]
        if path.endswith("/eviction"):
            return self._evict(path.split("/")[-2], asked, its)
        if path == BUDGETS:
            return Reply({"kind": "PodDisruptionBudgetList", "metadata": {}, "items": []})
        if path == "/api/v1/namespaces/shop/pods":
            waiting = [item for item in its.pods.values() if not item["spec"].get("nodeName")]
            return Reply({"kind": "PodList", "metadata": {}, "items": waiting})
        if path == "/api/v1/pods":
            self._let_go(its)
        return None

    def _let_go(self, its: Cluster) -> None:
        for key, left in list(self._leaving.items()):
            self._leaving[key] = left - 1
            if left <= 0:
                its.pods.pop(key, None)

    def _evict(self, name: str, asked: Asked, its: Cluster) -> Reply:
        dry_run = "dryRun" in asked.body["deleteOptions"]
        self.evictions.append((name, dry_run))
        if name in self._refused and not dry_run:
            return status_reply(429, "Cannot evict pod")
        if not dry_run:
            self._leaving["shop", name] = self._stays
            if not self._stays:
                del its.pods["shop", name]
            its.add(self.pod(f"{name}-2"))
        return Reply({"kind": "Status", "status": "Success"}, 201)

    def run(self, *moves: Json, **parameters: t.Any) -> Json:
        steps = [{"moves": [{"namespace": "shop", **move} for move in moves]}]
        return run(self.cluster, steps=steps, **parameters)


AWAY = [
    {"pod": "a", "from_node": "n1", "to_node": "n2", "gain_watts": -4.0},
    {"pod": "b", "from_node": "n1", "to_node": "n2", "gain_watts": 60.0},
]


def test_all_evictions_of_a_step_are_asked_for_before_the_first() -> None:
    emptying = Emptying()
    result = emptying.run(*AWAY)
    assert emptying.evictions == [("a", True), ("b", True), ("a", False), ("b", False)]
    assert (fates(result), result["gain_watts"]) == (["moved", "moved"], 56.0)
    assert {emptying.cluster.place_of(name) for name in ("a-2", "b-2")} == {"n2"}


def test_what_a_step_costs_that_ends_half_way_is_told() -> None:
    result = Emptying(refused=["b"]).run(*AWAY, AWAY[1] | {"pod": "c"})
    assert fates(result) == ["skipped"] * 3
    assert result["moves"][0]["reason"] == "pod c: the pod is gone"
    result = Emptying(refused=["b"]).run(*AWAY)
    assert (fates(result), result["gain_watts"]) == (["moved", "refused"], -4.0)
    assert result["changed"] and result["stopped"]["pod"] == "b"


def test_a_step_for_which_there_is_no_room_as_a_whole_does_not_begin() -> None:
    emptying = Emptying()
    emptying.cluster.add(emptying.pod("other", cpu="1", nodeName="n2"))
    result = emptying.run(*AWAY)
    # Each of them alone would fit.
    assert fates(result) == ["skipped", "skipped"] and not result["changed"]
    assert result["moves"][1]["reason"] == "node n2 is full: Insufficient cpu"
    assert not [name for name, dry_run in emptying.evictions if not dry_run]


def test_pods_that_change_places_wait_until_the_other_is_gone() -> None:
    emptying = Emptying(stays=2)
    emptying.cluster.add(emptying.pod("c", cpu="1", nodeName="n2"))
    there = {"pod": "a", "from_node": "n1", "to_node": "n2", "gain_watts": 3.0}
    back = {"pod": "c", "from_node": "n2", "to_node": "n1", "gain_watts": -1.0}
    result = emptying.run(there, back, timeout=30)
    assert (fates(result), result["gain_watts"]) == (["moved", "moved"], 2.0)
    assert emptying.cluster.place_of("c-2") == "n1"
    assert emptying.evictions[-2:] == [("a", False), ("c", False)]


def test_budgets_are_counted_together_before_a_step() -> None:
    emptying = Emptying()
    budget = {
        "metadata": {"name": "all", "namespace": "shop"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 1},
    }
    listed = Reply({"kind": "PodDisruptionBudgetList", "metadata": {}, "items": [budget]})
    answer = emptying.cluster.hook
    emptying.cluster.hook = lambda asked, its: (
        listed if asked.path.startswith(BUDGETS) else answer(asked, its)
    )
    result = emptying.run(*AWAY)
    assert fates(result) == ["left", "refused"] and emptying.evictions == [("a", True)]
    assert "PodDisruptionBudget shop/all allows no more" in result["stopped"]["reason"]


def test_a_plan_without_moves_has_nothing_to_do(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    watts = {"before": 0, "after": 0, "lower_bound": 0}
    body = {"placements": [], "watts": watts, "unplaced": []}
    documents.write(str(plan), "plan", body)
    result = run(cluster(evicted), steps=None, plan=str(plan))
    assert (result["changed"], result["moves"], result["gain_watts"]) == (False, [], 0)


def test_bad_input_is_refused_in_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="timeout: 0 is not more than 0 seconds"):
        run(cluster(evicted), timeout=0)
