# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place

Json = dict[str, t.Any]
OWNER = {"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
APART = {
    "pod_anti_affinity": {
        "required_during_scheduling_ignored_during_execution": [
            {"topology_key": "host", "label_selector": {"match_labels": {"app": "web"}}}
        ]
    }
}


def node(name: str, watts: float, cores: int = 10, **fields: t.Any) -> Json:
    """``watts`` more for each core in use."""
    return {
        "name": name,
        "labels": {"host": name},
        "allocatable": {"cpu": str(cores), "pods": "10"},
        "curve": {"cpu": [0, cores], "watts": [100, 100 + watts * cores]},
        **fields,
    }


def running(name: str, on: str, **fields: t.Any) -> Json:
    return {
        "name": name,
        "node_name": on,
        "requests": {"cpu": "1"},
        "labels": {"app": "web"},
        "scheduler_name": "wattwise",
        "owner_references": [OWNER],
        **fields,
    }


def budget(allowed: int, **selector: t.Any) -> Json:
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": selector or {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def moves(*pods: Json, **parameters: t.Any) -> list[tuple[str, str, str, float]]:
    """From ``dear`` with 20 W a core to ``cheap`` with 10: 8 W for a pod of 0.8 cores."""
    given = {
        "nodes": [node("cheap", 10), node("dear", 20)],
        "running": list(pods),
        "rebalance": True,
        **parameters,
    }
    return [
        (entry["pod"], entry["from_node"], entry["to_node"], entry["gain_watts"])
        for step in place(given)["steps"]
        for entry in step["moves"]
    ]


PODS = [running(f"web-{number}", "dear") for number in range(3)]


def test_pods_move_where_they_cost_less() -> None:
    assert moves(*PODS) == [(f"web-{number}", "dear", "cheap", 8.0) for number in range(3)]
    assert moves(running("web", "cheap")) == []


def test_each_move_is_worth_the_least_gain_and_there_are_no_more_than_wanted() -> None:
    assert moves(*PODS, min_gain_watts=8.1) == []
    assert len(moves(*PODS, min_gain_watts=7.9, max_moves=2)) == 2
    assert moves(*PODS, max_moves=0) == []


def test_without_the_option_nothing_is_proposed() -> None:
    assert "moves" not in place({"nodes": [node("a", 1)], "running": []})


@pytest.mark.parametrize(
    "fields",
    [
        {"scheduler_name": "default-scheduler"},
        {"owner_references": []},
        {"owner_references": [{**OWNER, "kind": "DaemonSet"}]},
        {"owner_references": [{**OWNER, "kind": "Job"}]},
        {"deletion_timestamp": "2026-01-01T00:00:00Z"},
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "job"}},
        {"resource_claims": [{"name": "gpu"}]},
        {"node_selector": {"host": "dear"}},
        {"node_name": "elsewhere"},
    ],
)
def test_a_pod_that_would_not_come_back_or_may_not_go_stays(fields: Json) -> None:
    assert moves(running("web", **{"on": "dear"}) | fields) == []


@pytest.mark.parametrize(
    ("budgets", "number"),
    [
        ([], 3),
        ([budget(2)], 2),
        ([budget(0)], 0),
        ([{**budget(2), "status": {}}], 0),
        ([budget(0, app="db")], 3),
        ([budget(5), budget(5)], 0),
        ([{**budget(0), "metadata": {"name": "web", "namespace": "other"}}], 3),
        ([{**budget(0), "spec": {}}], 3),
        ([{**budget(1), "spec": {"selector": {}}}], 1),
    ],
)
def test_budgets_are_kept(budgets: list[Json], number: int) -> None:
    assert len(moves(*PODS, pod_disruption_budgets=budgets)) == number


def test_rules_and_resources_hold_after_each_move() -> None:
    nodes = [node("cheap", 10), node("cheaper", 5, cores=1), node("dear", 20)]
    assert moves(*PODS, nodes=nodes) == [
        ("web-0", "dear", "cheaper", 12.0),
        ("web-1", "dear", "cheap", 8.0),
        ("web-2", "dear", "cheap", 8.0),
    ]
    apart = [
        running(f"web-{number}", on, affinity=APART) for number, on in enumerate(["dear", "x"])
    ]
    others = [node("cheap", 10), node("dear", 20), node("x", 20)]
    assert moves(*apart, nodes=others) == [("web-0", "dear", "cheap", 8.0)]


def test_the_waiting_pods_come_first() -> None:
    waiting = [{"name": "new", "count": 10, "requests": {"cpu": "1"}}]
    assert moves(*PODS, pods=waiting) == []


def test_a_node_that_falls_asleep_saves_its_idle_watts() -> None:
    # 8 W less on the one; the other's 100 W of idling end with its last pod.
    found = moves(PODS[0], running("other", "cheap"), allow_power_off=True)
    assert found == [("web-0", "dear", "cheap", 108.0)]


def test_no_more_is_saved_than_was_measured() -> None:
    nodes = [node("cheap", 10), node("dear", 20, usage_cores=0.5)]
    # 10 W measured on the node; the pods are assumed to use 0.8 cores each on the other.
    assert moves(*PODS, nodes=nodes, min_gain_watts=1) == [("web-0", "dear", "cheap", 2.0)]


def steps(**parameters: t.Any) -> list[Json]:
    """Steps between two machines that draw 100 W when they are awake."""
    given = {"nodes": [node("a", 10), node("b", 12)], "rebalance": True, "allow_power_off": True}
    return list(place({**given, **parameters})["steps"])


def test_a_node_is_emptied_where_only_the_last_of_several_moves_pays() -> None:
    kept = running("kept", "b", owner_references=[])
    pods = [running(f"web-{number}", "a") for number in range(3)]
    (step,) = steps(running=[kept, *pods])
    # 1.6 W more for each pod there, until 100 W and the node's watts for them are saved.
    assert [move["gain_watts"] for move in step["moves"]] == [-1.6, -1.6, 98.4]
    assert (step["gain_watts"], step["cost_if_stopped_watts"]) == (95.2, 3.2)
    assert step["asleep"] == ["a"]


@pytest.mark.parametrize(
    ("parameters", "number"),
    [
        ({"max_moves": 2}, 0),
        ({"max_moves": 3, "min_gain_watts": 31.7}, 3),
        ({"min_gain_watts": 31.8}, 0),
        ({"allow_power_off": False}, 0),
        ({"pod_disruption_budgets": [budget(2)]}, 0),
        ({"pod_disruption_budgets": [budget(3)]}, 3),
        ({"nodes": [node("a", 10), node("b", 12, cores=3)]}, 0),
        ({"nodes": [node("a", 10, unschedulable=True), node("b", 12)]}, 3),
    ],
)
def test_a_node_is_emptied_only_as_a_whole(parameters: Json, number: int) -> None:
    kept = running("kept", "b", owner_references=[])
    pods = [running(f"web-{number}", "a") for number in range(3)]
    found = steps(running=[kept, *pods], **parameters)
    assert [len(step["moves"]) for step in found] == ([number] if number else [])


def test_a_better_machine_is_woken_for_the_pods_of_two() -> None:
    nodes = [node("a", 20), node("b", 20), node("new", 5) | {"curve": curve(105, 5)}]
    pods = [running("one", "a"), running("two", "b")]
    # One of them alone saves 7 W there, and both together the power draw of a whole machine.
    (step,) = steps(nodes=nodes, running=pods, min_gain_watts=10)
    assert {move["to_node"] for move in step["moves"]} == {"new"}
    assert (step["gain_watts"], step["asleep"]) == (119.0, ["a", "b"])


def curve(idle: float, watts: float, cores: int = 10) -> Json:
    return {"cpu": [0, cores], "watts": [idle, idle + watts * cores]}


@pytest.mark.parametrize(("cores", "number"), [(4, 2), (3, 0)])
def test_pods_change_places_where_one_finds_room_beside_the_other(cores: int, number: int) -> None:
    nodes = [node("cheap", 10, cores=3), node("dear", 20, cores=cores)]
    small = running("small", "cheap")
    large = running("large", "dear", requests={"cpu": "3"})
    found = steps(nodes=nodes, running=[small, large], allow_power_off=False)
    assert [move["gain_watts"] for step in found for move in step["moves"]] == (
        [-8.0, 24.0] if number else []
    )
    assert [step["cost_if_stopped_watts"] for step in found] == [8.0][:number]


def test_a_move_that_is_worth_less_than_the_least_gain_is_not_carried_along() -> None:
    nodes = [node("cheap", 10), node("dear", 20), node("dearer", 26)]
    pods = [running("one", "dear"), running("two", "dearer")]
    found = steps(nodes=nodes, running=pods, allow_power_off=False, min_gain_watts=10)
    assert [[move["pod"] for move in step["moves"]] for step in found] == [["two"]]


def test_a_wish_can_only_speak_against_a_move() -> None:
    preferred_term = {
        "node_affinity": {
            "preferred_during_scheduling_ignored_during_execution": [
                {
                    "weight": 100,
                    "preference": {
                        "match_expressions": [{"key": "host", "operator": "In", "values": ["dear"]}]
                    },
                }
            ]
        }
    }
    preferring = running("web", "dear", affinity=preferred_term)
    assert moves(preferring, preference_watts=2) == [("web", "dear", "cheap", 8.0)]
    assert moves(preferring, preference_watts=4) == []
    assert moves({**preferring, "node_name": "cheap"}, preference_watts=100) == []


def test_a_pod_on_a_node_without_a_curve_stays() -> None:
    nodes = [
        node("cheap", 10),
        {key: value for key, value in node("x", 1).items() if key != "curve"},
    ]
    assert moves(running("web", "x"), nodes=nodes) == []


def test_a_snapshot_without_budgets_is_refused(tmp_path: t.Any) -> None:
    snapshot, curves = tmp_path / "snapshot.json", tmp_path / "curves.json"
    documents.write(str(snapshot), "snapshot", {"cluster": {}, "nodes": [], "pods": []})
    documents.write(str(curves), "curves", {"curves": {}})
    given = {"snapshot": str(snapshot), "curves": str(curves)}
    assert place(given)["placements"] == []
    with pytest.raises(InvalidInput, match="the snapshot has no pod_disruption_budgets"):
        place({**given, "rebalance": True})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"min_gain_watts": 0}, "min_gain_watts: 0 is not allowed"),
        ({"max_moves": -1}, "max_moves: -1 is not allowed"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(parameters: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        moves(*PODS, **parameters)


def test_a_budget_that_cannot_be_read_lets_nobody_of_its_namespace_go() -> None:
    """Not moving a pod is the safe mistake; other namespaces do not concern it."""
    odd = {**budget(1), "spec": {"selector": {"app": "web"}}}
    assert moves(*PODS)
    assert moves(*PODS, pod_disruption_budgets=[odd]) == []
    odd["metadata"] = {**odd["metadata"], "namespace": "elsewhere"}
    assert moves(*PODS, pod_disruption_budgets=[odd]) == moves(*PODS)
