# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User-visible output: reasons, warnings, sleeping nodes, empty tasks."""

from __future__ import annotations

import typing as t
from pathlib import Path
from types import MappingProxyType

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import STRATEGIES, place

Json = dict[str, t.Any]
STEEP = MappingProxyType({"cpu": [0, 8], "watts": [50, 210]})
FLAT = {"cpu": [0, 8], "watts": [80, 120]}


def node(
    name: str, curve: t.Mapping[str, t.Any] | None = STEEP, cpu: str = "8", **more: t.Any
) -> Json:
    given = {"name": name, "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "20"}, **more}
    return given if curve is None else {**given, "curve": dict(curve)}


def pod(name: str, cpu: str = "1", **more: t.Any) -> Json:
    return {"name": name, "requests": {"cpu": cpu}, **more}


def where(result: Json) -> dict[str, str]:
    return {entry["pod"]: entry["node"] for entry in result["placements"]}


def test_pods_go_where_they_add_the_fewest_watts() -> None:
    result = place({"nodes": [node("a"), node("b", FLAT)], "pods": [pod("w", count=3)]})
    assert where(result) == {"w-0": "b", "w-1": "b", "w-2": "b"}
    assert result["watts"] == {"before": 130.0, "after": 142.0, "lower_bound": 142.0}
    assert (result["gap"], result["proven"], result["stopped_by"]) == (0.0, True, "proof")
    assert result["nodes"] == [
        {"name": "a", "cpu_before": 0, "cpu_after": 0, "watts_before": 50, "watts_after": 50},
        {"name": "b", "cpu_before": 0, "cpu_after": 2.4, "watts_before": 80, "watts_after": 92},
    ]
    assert not result["changed"]


def test_a_concave_node_is_filled_rather_than_two_started() -> None:
    """Greedy goes wrong here: the first watt of the concave nodes is the most expensive."""
    concave = {"cpu": [0, 2, 8], "watts": [100, 190, 200]}
    straight = {"cpu": [0, 8], "watts": [100, 260]}
    parameters = {
        "nodes": [node("a", concave), node("b", straight)],
        "pods": [pod("w", "2", count=4)],
        "pod_usage_assumption": 1.0,
    }
    assert set(where(place(parameters)).values()) == {"a"}
    greedy = place({**parameters, "strategy": "greedy"})
    assert set(where(greedy).values()) == {"b"}
    assert greedy["watts"]["lower_bound"] <= 300.0 and not greedy["proven"]
    assert (greedy["method"], greedy["stopped_by"]) == ("greedy", "completed")


def test_priority_comes_before_number_and_number_before_watts() -> None:
    pods = [pod("small", "2", count=4), pod("urgent", "5", priority=10)]
    result = place({"nodes": [node("a", cpu="8")], "pods": pods})
    assert list(where(result)) == ["urgent", "small-0"]
    assert [entry["pod"] for entry in result["unplaced"]] == ["small-1", "small-2", "small-3"]


def test_reasons_are_counted_and_worded_like_those_of_kube_scheduler() -> None:
    taint = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
    nodes = [
        *(node(f"small-{index}") for index in range(3)),
        *(node(f"tainted-{index}", taints=[taint]) for index in range(2)),
        node("off", ready=False),
    ]
    result = place({"nodes": nodes, "pods": [pod("huge", "100", uid="u1")]})
    assert result["placements"] == []
    assert result["unplaced"] == [
        {
            "namespace": "default",
            "pod": "huge",
            "uid": "u1",
            "reasons": {
                "Insufficient cpu": 3,
                "node(s) had untolerated taint {gpu: only}": 2,
                "node(s) were not ready": 1,
            },
            "message": "0/6 nodes are available: 3 Insufficient cpu, "
            "2 node(s) had untolerated taint {gpu: only}, 1 node(s) were not ready.",
            "fits_empty_fleet": False,
        }
    ]


def test_reasons_are_those_after_the_plan_is_carried_out() -> None:
    result = place({"nodes": [node("a", cpu="3")], "pods": [pod("w", "2", count=2)]})
    assert where(result) == {"w-0": "a"}
    assert result["unplaced"][0]["reasons"] == {"Insufficient cpu": 1}


def test_an_unsupported_pod_is_named_and_the_others_are_placed() -> None:
    odd = pod("odd", resource_claims=[{"name": "gpu"}])
    result = place({"nodes": [node("a")], "pods": [odd, pod("plain")]})
    assert where(result) == {"plain": "a"}
    (unplaced,) = result["unplaced"]
    assert unplaced["reasons"] == {"unsupported: spec.resourceClaims": 1}
    assert "unsupported: spec.resourceClaims" in unplaced["message"]


def test_a_pod_that_others_leave_no_room_for_would_fit_an_empty_fleet() -> None:
    parameters = {"nodes": [node("a", cpu="2", used={"cpu": "1500m"})], "pods": [pod("w")]}
    assert place(parameters)["unplaced"][0]["fits_empty_fleet"] is True
    odd = pod("odd", resource_claims=[{"name": "gpu"}])
    assert place({**parameters, "pods": [odd]})["unplaced"][0]["fits_empty_fleet"] is None


def test_a_node_without_a_curve_is_the_last_resort() -> None:
    parameters = {"nodes": [node("a", cpu="2"), node("b", None)], "pods": [pod("w", count=3)]}
    result = place(parameters)
    assert where(result) == {"w-0": "a", "w-1": "a", "w-2": "b"}
    assert result["unpriced"] == ["b"]
    assert result["watts"]["after"] == pytest.approx(50 + 1.6 * 20)
    excluded = place({**parameters, "unpriced": "exclude"})
    assert len(excluded["placements"]) == 2
    assert excluded["unplaced"][0]["reasons"] == {
        "Insufficient cpu": 1,
        "node(s) had no power curve": 1,
    }


def test_nodes_without_workload_may_sleep() -> None:
    nodes = [node("a", FLAT), node("b"), node("busy", used={"cpu": "1"})]
    daemon = {
        "name": "agent",
        "node_name": "b",
        "requests": {"cpu": "100m"},
        "owner_references": [{"kind": "DaemonSet"}],
    }
    parameters = {
        "nodes": nodes,
        "pods": [pod("w", count=2)],
        "running": [daemon],
        "allow_power_off": True,
        "standby_watts": 5.0,
    }
    result = place(parameters)
    assert set(where(result).values()) == {"busy"}
    assert result["asleep"] == ["a", "b"]
    assert result["watts"]["before"] == pytest.approx(5 + 5 + 50 + 0.8 * 20)
    assert place({**parameters, "allow_power_off": False})["asleep"] == []


def test_a_daemon_pod_wakes_no_node() -> None:
    agent = pod("agent", "1", node_name="a", owner_references=[{"kind": "DaemonSet"}])
    result = place({"nodes": [node("a")], "pods": [agent], "allow_power_off": True})
    assert where(result) == {"agent": "a"}
    assert (result["asleep"], result["watts"]["after"]) == (["a"], 0.0)


def test_a_short_curve_is_flat_beyond_its_end_and_warns() -> None:
    short = {"cpu": [1, 2], "watts": [60, 90]}
    warnings: list[str] = []
    nodes = [node(name, short, used={"cpu": "2"}) for name in "abcde"]
    result = place({"nodes": nodes, "pods": [pod("w", "4")]}, Context(warn=warnings.append))
    assert result["watts"]["after"] == pytest.approx(4 * 78 + 90)
    assert warnings == [
        "The CPU use of a is beyond the ends of their power curves, which count as flat there; "
        "predict, record or state a wider range"
    ]
    place(
        {"nodes": [node(n, {"cpu": [1, 2], "watts": [1, 2]}) for n in "abcde"], "pods": []},
        Context(warn=warnings.append),
    )
    assert warnings[1].startswith("The CPU use of a, b, c and 2 more nodes is beyond")


@pytest.mark.parametrize(
    ("nodes", "pods"),
    [([], []), ([node("a")], []), ([], [pod("w")]), ([node("a", None)], [pod("w")])],
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_to_do_is_an_answer(nodes: list[Json], pods: list[Json], strategy: str) -> None:
    result = place({"nodes": nodes, "pods": pods, "strategy": strategy})
    assert len(result["placements"]) + len(result["unplaced"]) == len(pods)
    assert (result["gap"], result["proven"], result["stopped_by"]) == (0.0, True, "proof")
    assert result["watts"]["after"] == result["watts"]["before"]


def test_without_nodes_the_message_says_so() -> None:
    result = place({"nodes": [], "pods": [pod("w")]})
    assert result["unplaced"][0]["message"] == "no nodes available to schedule pods"


def test_room_is_made_where_one_pod_can_move_aside() -> None:
    """The tall pod fits only after the wide one has moved, which placers of one pod never do."""
    nodes = [
        {"name": "a", "allocatable": {"cpu": "4", "memory": "8Gi"}, "curve": FLAT},
        {"name": "b", "allocatable": {"cpu": "3", "memory": "1Gi"}, "curve": dict(STEEP)},
    ]
    pods = [
        pod("wide", "3", priority=1),
        {"name": "tall", "requests": {"cpu": "2", "memory": "8Gi"}},
    ]
    assert where(place({"nodes": nodes, "pods": pods})) == {"wide": "b", "tall": "a"}
    assert where(place({"nodes": nodes, "pods": pods, "strategy": "greedy"})) == {"wide": "a"}


COMPARED: Json = {
    "nodes": [node("a"), node("b", FLAT), node("c", None)],
    "pods": [pod("w", "2", count=8), pod("giant", "64")],
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_comparison_says_what_each_strategy_alone_says(strategy: str) -> None:
    result = place({**COMPARED, "strategy": strategy, "compare": list(STRATEGIES)})
    assert [entry["strategy"] for entry in result["comparison"]] == list(STRATEGIES)
    for entry in result["comparison"]:
        alone = place({**COMPARED, "strategy": entry["strategy"]})
        assert "comparison" not in alone
        nodes = [placement["node"] for placement in alone["placements"]]
        assert entry == {
            "strategy": entry["strategy"],
            "watts_after": alone["watts"]["after"],
            "watts_added": pytest.approx(alone["watts"]["after"] - alone["watts"]["before"]),
            "placed": len(nodes),
            "unplaced": len(alone["unplaced"]),
            "placed_unpriced": nodes.count("c"),
        }
    assert result["comparison"][0]["placed"] == 8


def test_a_comparison_stands_in_the_plan_too(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    result = place({**COMPARED, "compare": ["spread"], "path": path})
    assert documents.load(path, "plan")["comparison"] == result["comparison"]


def test_pods_of_higher_priority_have_the_first_choice() -> None:
    """As in kube-scheduler's queue, and by name among equals."""
    nodes = [node("a", cpu="2"), node("b", FLAT, cpu="2")]
    pods = [pod("first", "2"), pod("urgent", "2", priority=1)]
    for strategy in STRATEGIES[1:]:
        result = place({"nodes": nodes, "pods": pods, "strategy": strategy})
        assert set(where(result)) == {"first", "urgent"}
    greedy = place({"nodes": nodes, "pods": pods, "strategy": "greedy"})
    assert where(greedy) == {"urgent": "b", "first": "a"}
