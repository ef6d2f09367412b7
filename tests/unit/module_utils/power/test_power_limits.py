# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placements within limits in watts, and racks that are too hot."""

from __future__ import annotations

import json
import random
import typing as t
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.domains import Limited
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.options import PowerLimits
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import (
    SPEC,
    STRATEGIES,
    place,
    place_pods,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.sources import read_source
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.brute_force_placement import optimum
from support.examples import examples, generated, nearly_all, seeds
from support.placement_checker import value_of, violations
from support.placement_instances import Feature, parameters
from support.random_placements import random_fleet, random_parameters

Json = dict[str, t.Any]

RACK = "wattwise.github.io/rack"
TYPE = "node.kubernetes.io/instance-type"
PROOF_WATTS = 1e-3


def node(index: int, **fields: t.Any) -> Json:
    """100 W idle, and 10 W a core in rack r0, 12 W elsewhere; two machines a rack."""
    return {
        "name": f"node-{index}",
        "labels": {RACK: f"r{index // 2}", TYPE: "big" if index % 2 else "small"},
        "allocatable": {"cpu": "16", "memory": "64Gi"},
        "curve": {"cpu": [0, 16], "watts": [100, 260 if index < 2 else 292]},
        **fields,
    }


def task(limits: Json, pods: list[Json] | None = None, **more: t.Any) -> Json:
    waiting = [
        {"name": "low", "count": 4, "requests": {"cpu": "4"}},
        {"name": "high", "count": 4, "requests": {"cpu": "4"}, "priority": 10},
    ]
    return {
        "nodes": [node(index) for index in range(4)],
        "pods": waiting if pods is None else pods,
        "pod_usage_assumption": 1.0,
        "limits": limits,
        **more,
    }


def by_rack(result: Json) -> Counter[str]:
    return Counter(f"r{int(one['node'][-1]) // 2}" for one in result["placements"])


def waiting(result: Json) -> dict[str, list[str]]:
    """The messages of the pods without a node, by the first part of their names."""
    found: dict[str, list[str]] = {}
    for one in result["unplaced"]:
        found.setdefault(one["pod"].split("-")[0], []).append(one["message"])
    return found


def place_measured(given_task: Json, limits: Json, **measured: t.Any) -> Json:
    """The plan with fresh readings of machines."""
    completed = SPEC.complete({key: value for key, value in given_task.items() if key != "limits"})
    limited = Limited(PowerLimits.of(limits), **measured)
    source = replace(read_source(completed), limited=limited)
    return place_pods(source, completed, Limits.of(completed), Context()).as_document()


def test_without_limits_the_plan_is_byte_for_byte_the_same() -> None:
    for empty in ({}, {"fleet_watts": 0, "rack_watts": {}, "node_watts": {}}):
        limited = place(task(empty))
        without = place({key: value for key, value in task({}).items() if key != "limits"})
        assert json.dumps(limited) == json.dumps(without)
        assert "limits" not in limited


def test_limits_that_bind_nothing_change_only_what_the_plan_tells_of_them() -> None:
    free, limited = place(task({})), place(task({"fleet_watts": 5000, "rack_watts": {"*": 2000}}))
    told = limited.pop("limits")
    assert limited == free
    assert [(one["kind"], one["name"], one["limit_watts"]) for one in told] == [
        ("rack", "r0", 2000.0),
        ("rack", "r1", 2000.0),
        ("fleet", "", 5000.0),
    ]


def test_pods_go_to_another_rack_where_one_is_full() -> None:
    given_task = task({"rack_watts": {"r0": 280}})
    result = place(given_task)
    assert violations(given_task, result) == []
    assert by_rack(result) == {"r0": 2, "r1": 6}
    assert result["limits"] == [
        {
            "kind": "rack",
            "name": "r0",
            "nodes": ["node-0", "node-1"],
            "not_ready": [],
            "limit_watts": 280.0,
            "beside_watts": 0.0,
            "watts_before": 200.0,
            "watts_after": 280.0,
        }
    ]


def test_the_lowest_priority_waits_with_the_figures_of_the_limit() -> None:
    given_task = task({"fleet_watts": 590})
    result = place(given_task)
    assert violations(given_task, result) == []
    assert waiting(result) == {
        "low": [
            "0/4 nodes are available: 4 node(s) in the fleet (560 W of 590 W; this pod adds at "
            "least 40 W)."
        ]
        * 4
    }


def test_a_limit_of_nodes_goes_by_their_type() -> None:
    given_task = task({"node_watts": {"big": 145, "*": 180}})
    result = place(given_task)
    assert violations(given_task, result) == []
    assert Counter(one["node"] for one in result["placements"]) == {
        "node-0": 2,
        "node-1": 1,
        "node-2": 1,
    }
    (message,) = set(waiting(result)["low"])
    assert message == (
        "0/4 nodes are available: 2 node(s) at their power limit of 145 W, "
        "2 node(s) at their power limit of 180 W."
    )


def test_a_rack_over_its_limit_takes_no_pod_at_all() -> None:
    given_task = task({"rack_watts": {"r0": 150}}, [{"name": "tiny", "count": 2}])
    result = place(given_task)
    assert violations(given_task, result) == []
    assert by_rack(result) == {"r1": 2}


def test_a_node_without_a_curve_takes_no_pod_where_power_is_limited() -> None:
    nodes = [node(0, curve=None), node(2)]
    pods = [{"name": "web", "count": 6, "requests": {"cpu": "4"}}]
    given_task = task({"rack_watts": {"r0": 1000}}, pods, nodes=nodes)
    result = place(given_task)
    assert violations(given_task, result) == []
    assert by_rack(result) == {"r1": 4}
    assert "1 node(s) had no power curve" in waiting(result)["web"][0]


def test_more_than_the_curve_says_counts_where_it_was_measured() -> None:
    """The BMCs say 390 W where the curves say 200 W: one pod of 40 W is too much for 420 W."""
    limits = {"rack_watts": {"r0": 420}}
    assert by_rack(place_measured(task({}), limits)) == {"r0": 5, "r1": 3}
    hot = place_measured(task({}), limits, watts={"node-0": 190.0, "node-1": 200.0})
    assert by_rack(hot) == {"r1": 8}
    # A BMC that reads less than the curve frees nothing.
    cold = place_measured(task({}), limits, watts={"node-0": 20.0, "node-1": 20.0})
    assert by_rack(cold) == {"r0": 5, "r1": 3}


def test_a_machine_that_takes_no_pods_draws_what_was_measured() -> None:
    nodes = [node(0), node(1, ready=False)]
    pods = [{"name": "web", "count": 4, "requests": {"cpu": "4"}}]
    given_task = task({}, pods, nodes=nodes)
    limits = {"rack_watts": {"r0": 230}}
    assert by_rack(place_measured(given_task, limits)) == {"r0": 3}
    result = place_measured(given_task, limits, watts={"node-1": 60.0})
    assert by_rack(result) == {"r0": 1}
    assert [one["not_ready"] for one in result["limits"]] == [["node-1"]]


def test_a_rack_that_is_too_hot_takes_no_new_pod() -> None:
    pods = [{"name": "web", "count": 9, "requests": {"cpu": "4"}}]
    limits = {"inlet_celsius": {"r0": 30, "*": 35}}
    inlets = {"node-0": 24.0, "node-1": 31.2, "node-2": 34.0}
    result = place_measured(task({}, pods), limits, inlets=inlets)
    assert by_rack(result) == {"r1": 8}
    assert waiting(result) == {
        "web": [
            "0/4 nodes are available: 2 Insufficient cpu, "
            "2 node(s) in rack r0 (inlet of 31 °C, limit 30 °C)."
        ]
    }


@pytest.mark.parametrize(
    ("earlier", "reason"),
    [
        ({"reduced": {"r0"}}, "inlet limit of 30 °C, for which its power is still reduced"),
        (
            {"evicted": {"node-1": "inlet"}},
            "inlet limit of 30 °C, for which pods were evicted there",
        ),
    ],
)
def test_a_rack_that_was_too_hot_a_while_ago_takes_no_new_pod(earlier: Json, reason: str) -> None:
    pods = [{"name": "web", "count": 9, "requests": {"cpu": "4"}}]
    limits = {"inlet_celsius": {"r0": 30}}
    result = place_measured(task({}, pods), limits, inlets={"node-0": 29.0}, **earlier)
    assert by_rack(result) == {"r1": 8}
    [message] = waiting(result)["web"]
    assert f"2 node(s) in rack r0 ({reason})" in message


def test_all_strategies_and_comparisons_keep_the_limits() -> None:
    limits = {"rack_watts": {"*": 330}, "fleet_watts": 620}
    for strategy in STRATEGIES:
        given_task = task(limits, strategy=strategy)
        assert violations(given_task, place(given_task), is_complete=False) == [], strategy
    compared = place(task(limits, compare=list(STRATEGIES)))["comparison"]
    assert {one["watts_after"] <= 620 for one in compared} == {True}


def test_moves_take_no_rack_over_its_limit() -> None:
    owner = {"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
    running = [
        {
            "name": f"web-{index}",
            "node_name": "node-2",
            "requests": {"cpu": "4"},
            "scheduler_name": "wattwise",
            "owner_references": [owner],
        }
        for index in range(3)
    ]
    dear = {"cpu": [0, 16], "watts": [100, 580]}
    nodes = [node(0), node(2, curve=dear)]
    given_task = task({}, [], nodes=nodes, running=running, rebalance=True)
    assert sum(len(step["moves"]) for step in place(given_task)["steps"]) == 3
    limited = place({**given_task, "limits": {"rack_watts": {"r0": 190}}})
    assert sum(len(step["moves"]) for step in limited["steps"]) == 2


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"fleet_watts": -1}, "limits.fleet_watts: -1 is no limit"),
        ({"fleet_watts": "nan"}, "limits.fleet_watts: 'nan' is no limit"),
        ({"rack_watts": {"r1": -5}}, "limits.rack_watts.r1: -5 is no limit"),
        ({"rack_watts": {"r1": True}}, "limits.rack_watts.r1: True is no limit"),
        ({"node_watts": {"*": "4 kW"}}, r"limits.node_watts.\*: '4 kW' is no limit"),
        ({"node_watts": {"*": None}}, r"limits.node_watts.\*: None is no limit"),
    ],
)
def test_a_value_that_is_no_limit_is_refused(limits: Json, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        place(task(limits))


def test_limits_that_cannot_be_right_are_findings_and_the_others_hold() -> None:
    limits = {
        "rack_watts": {"r0": 150, "r7": 900},
        "node_watts": {"huge": 50, "big": 90},
        "fleet_watts": 350,
    }
    result = place(task(limits))
    assert [(one["kind"], one["name"], one["field"]) for one in result["findings"]] == [
        ("Rack", "r7", "limits.rack_watts"),
        ("Type", "huge", "limits.node_watts"),
        ("Node", "node-1", "limits.node_watts"),
        ("Node", "node-3", "limits.node_watts"),
        ("Rack", "r0", "limits.rack_watts"),
        ("Fleet", "-", "limits.fleet_watts"),
    ]
    problems = [one["problem"] for one in result["findings"]]
    assert problems[0].endswith("topology.kubernetes.io/rack; the labels have r0, r1")
    assert problems[4] == (
        "the limit of 150 W is below the 200 W that its machines draw idle, so that it takes no "
        "pod; raise the limit"
    )
    assert not result["placements"]


def limits_of(given_task: Json, seed: int) -> Json:
    """Limits of which most bind."""
    source, free = random.Random(seed), place(given_task)["watts"]
    span, found = free["after"] - free["before"], dict[str, t.Any]()
    if source.random() < 0.5:
        found["fleet_watts"] = round(free["before"] + span * source.random() + 1, 1)
    if source.random() < 0.7:
        found["rack_watts"] = {"*": round(free["after"] * source.uniform(0.3, 0.9) + 1, 1)}
    if source.random() < 0.3:
        found["node_watts"] = {"*": round(source.uniform(100, 400), 1)}
    return found


def in_racks(given_task: Json, seed: int) -> Json:
    source = random.Random(seed)
    for one in given_task["nodes"]:
        labels = one.get("labels") or one.get("metadata", {}).get("labels") or {}
        if source.random() < 0.9:
            labels = {**labels, RACK: source.choice(["r1", "r2"])}
        if "metadata" in one:
            one["metadata"]["labels"] = labels
        else:
            one["labels"] = labels
    return given_task


@generated
def test_small_tasks_are_solved_as_well_as_by_trying_every_assignment() -> None:
    equal, tried = 0, seeds(40)
    for seed in tried:
        given_task = in_racks(random_parameters(seed), seed)
        given_task["limits"] = limits_of(given_task, seed)
        result = place(given_task)
        assert violations(given_task, result) == [], seed
        found, best = value_of(given_task, result), optimum(given_task)
        assert found <= (*best[:2], best[2] + PROOF_WATTS), seed
        is_equal = found[:2] == best[:2] and found[2] >= best[2] - PROOF_WATTS
        assert is_equal or not result["proven"], seed
        equal += is_equal
    assert nearly_all(equal, len(tried), 0.97)


@generated
@examples(40, shrinks=False)
@given(
    parameters(frozenset(t.get_args(Feature))),
    st.integers(0, 2**32),
    st.sampled_from(STRATEGIES),
)
def test_every_rule_holds_beside_the_limits(given_task: Json, seed: int, strategy: str) -> None:
    given_task = in_racks({**given_task, "strategy": strategy}, seed)
    given_task["limits"] = limits_of(given_task, seed)
    assert violations(given_task, place(given_task), is_complete=False) == []


@pytest.mark.large
def test_a_larger_fleet_keeps_its_limits_and_fills_them() -> None:
    seed = 1
    given_task = in_racks({**random_fleet(seed, 40, 200, 8), "time_limit": 1.0}, seed)
    free = place(given_task)["watts"]
    limit = free["before"] + 0.7 * (free["after"] - free["before"])
    given_task["limits"] = {"fleet_watts": limit, "rack_watts": {"r1": 0.55 * limit}}
    result = place(given_task)
    assert violations(given_task, result, is_complete=False) == []
    greedy = place({**given_task, "strategy": "greedy"})
    assert value_of(given_task, result) >= value_of(given_task, greedy)
