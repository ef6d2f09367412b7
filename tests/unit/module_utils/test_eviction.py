# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pod_eviction does when things go wrong, on an API over a real socket."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils import documents
from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.eviction import move_pods
from support.binding_api import Cluster, Json, node, pod
from support.scripted_api import Asked, Reply, status_reply

OWNER = {"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
MOVES = [{"namespace": "shop", "pod": "a", "from_node": "n1", "to_node": "n2"}]


def cluster(on_eviction: t.Callable[[Cluster], Reply]) -> Cluster:
    """Pod a runs on n1; the API answers an eviction as it is told."""
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
        return move_pods({"host": api.url, "moves": MOVES, "timeout": 0.2, **parameters})


def test_the_replacement_is_bound_to_the_planned_node() -> None:
    its = cluster(lambda its: evicted(its, replacement()))
    result = run(its)
    assert result["moved"] == [{**MOVES[0], "replacement": "b"}]
    assert its.place_of("b") == "n2"
    assert result["diff"] == {"before": {"shop/a": "n1"}, "after": {"shop/a": "n2"}}


def test_a_pod_that_nobody_makes_anew_ends_the_run_and_is_told() -> None:
    stranger = pod("c")
    result = run(cluster(lambda its: evicted(its, stranger)))
    assert result["changed"] and result["moved"] == [] and result["left"] == 1
    assert "none took its place in 0.2 s" in result["stopped"]["reason"]


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
    assert not result["changed"] and len(asked) == 1
    assert result["stopped"]["reason"].startswith(words)


def test_a_plan_without_moves_has_nothing_to_do(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    watts = {"before": 0, "after": 0, "lower_bound": 0}
    body = {"placements": [], "watts": watts, "unplaced": []}
    documents.write(str(plan), "plan", body)
    result = run(cluster(evicted), moves=None, plan=str(plan))
    assert (result["changed"], result["moved"], result["left"]) == (False, [], 0)


def test_bad_input_is_refused_in_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="give plan"):
        run(cluster(evicted), moves=None)
    with pytest.raises(InvalidInput, match="timeout: 0 is not more than 0 seconds"):
        run(cluster(evicted), timeout=0)
