# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers for larger fleets against an independent checker; equal input, equal output."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from support.placement_checker import value_of, violations
from support.placement_fleets import Pattern, Size, Temperature, placement_task
from support.placement_rules import Json
from support.random_placements import random_fleet

PROOF_WATTS = 1e-3


FLEETS: list[Json] = [
    {"seed": 1, "nodes": 12, "pods": 60, "groups": 6},
    {"seed": 3, "nodes": 12, "pods": 100, "groups": 10, "allow_power_off": True},
    {"seed": 4, "nodes": 80, "pods": 1500, "groups": 25, "time_limit": 5.0},
]


def fleet(*, seed: int, nodes: int, pods: int, groups: int, **options: t.Any) -> Json:
    return {**random_fleet(seed, nodes, pods, groups), **options}


@pytest.mark.parametrize("size", FLEETS, ids=lambda size: f"{size['nodes']}x{size['pods']}")
@pytest.mark.large
def test_larger_answers_are_feasible_near_the_bound_and_no_worse_than_greedy(size: Json) -> None:
    parameters = fleet(**size)
    result, greedy = place(parameters), place({**parameters, "strategy": "greedy"})
    assert violations(parameters, result) == []
    assert value_of(parameters, result) >= value_of(parameters, greedy)
    assert result["gap"] <= 0.01
    assert result["proven"] == (size["nodes"] == 12)


TASKS = {
    "proven by loads": fleet(**FLEETS[1]),
    "local search": fleet(**FLEETS[2]),
    # Their usage has no common step in which loads could be counted.
    "mip": fleet(seed=1, nodes=6, pods=18, groups=6, pod_usage_assumption=0.8123457),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.large
def test_the_same_input_gives_the_same_output_in_any_order(name: str) -> None:
    parameters = TASKS[name]
    source = random.Random(0)
    shuffled = {**parameters, **{key: parameters[key][:] for key in ("nodes", "pods")}}
    source.shuffle(shuffled["nodes"])
    source.shuffle(shuffled["pods"])
    answers = [json.dumps(place(each)) for each in (parameters, parameters, shuffled)]
    assert answers[0] == answers[1] == answers[2]
    result = json.loads(answers[0])
    assert result["stopped_by"] != "wall_clock"
    assert (result["method"] == "mip") == (name == "mip")


@pytest.mark.parametrize("size", FLEETS[1:], ids=["mip", "local search"])
@pytest.mark.large
def test_the_same_input_gives_the_same_bytes_beside_other_work(size: Json, tmp_path: Path) -> None:
    """In concurrent processes with different hash seeds, on fewer processors than processes."""
    source = tmp_path / "fleet.json"
    source.write_text(json.dumps(fleet(**size)), encoding="utf-8")
    script = (
        "import json, pathlib, sys\n"
        "from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place\n"
        "result = place(json.load(open(sys.argv[1])))\n"
        "pathlib.Path(sys.argv[2]).write_text(json.dumps(result))"
    )
    processors = len(os.sched_getaffinity(0))
    plans = [tmp_path / f"{number}.json" for number in range(processors + 1)]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(source), str(plan)],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
        )
        for number, plan in enumerate(plans)
    ]
    assert [process.wait(timeout=120) for process in running] == [0] * len(running)
    assert len({plan.read_bytes() for plan in plans}) == 1
    assert json.loads(plans[0].read_text())["stopped_by"] != "wall_clock"


def test_an_answer_that_the_clock_ended_is_feasible_and_says_so() -> None:
    parameters = fleet(seed=1, nodes=12, pods=60, groups=6, time_limit=1e-6)
    result = place(parameters)
    assert violations(parameters, result) == []
    assert (result["stopped_by"], result["proven"]) == ("wall_clock", False)


def test_splitting_a_group_into_two_entries_changes_no_watts() -> None:
    parameters = fleet(seed=5, nodes=8, pods=20, groups=3)
    entry = parameters["pods"][0]
    half = entry["count"] // 2
    split = [
        {**entry, "name": "first", "count": half},
        {**entry, "name": "second", "count": entry["count"] - half},
        *parameters["pods"][1:],
    ]
    whole, parted = place(parameters), place({**parameters, "pods": split})
    assert whole["proven"] and parted["proven"]
    assert whole["watts"]["after"] == pytest.approx(parted["watts"]["after"], abs=PROOF_WATTS)


def test_one_node_more_never_costs_more_added_watts() -> None:
    parameters = fleet(seed=6, nodes=7, pods=20, groups=3)
    fewer = {**parameters, "nodes": parameters["nodes"][1:]}
    added = [
        result["watts"]["after"] - result["watts"]["before"]
        for result in (place(parameters), place(fewer))
    ]
    assert added[0] <= added[1] + PROOF_WATTS


def in_mass(*values: object) -> ParameterSet:
    """A case only for `make test-deep`."""
    return pytest.param(*values, marks=pytest.mark.slow)


PATTERNS = ["plain", "memory", "affinity", "power_off"]


@pytest.mark.parametrize(
    ("pattern", "requested"),
    [
        *itertools.product(PATTERNS, [0.7, 0.85]),
        # With fewer slots than pods need, even the relaxation leaves some out at 85 %.
        ("slots", 0.7),
        *itertools.starmap(in_mass, itertools.product([*PATTERNS, "slots"], [0.2, 0.5])),
    ],
)
@pytest.mark.large
def test_up_to_85_percent_every_pod_has_a_node(pattern: Pattern, requested: float) -> None:
    """On fleets like the benches', also with almost all memory or slots requested."""
    parameters = placement_task(2, Size(30, 240, requested, pattern=pattern))
    result = place(parameters | {"time_limit": 2.0})
    assert violations(parameters, result) == []
    assert not result["unplaced"]


@pytest.mark.parametrize(
    ("pattern", "temperature"),
    [
        ("plain", "rows"),
        ("affinity", "scattered"),
        ("power_off", "scattered"),
        ("uneven", "rows"),
        in_mass("plain", "scattered"),
        in_mass("affinity", "rows"),
        in_mass("power_off", "rows"),
        in_mass("uneven", "scattered"),
    ],
)
@pytest.mark.large
def test_at_85_percent_every_pod_has_a_node_at_no_more_watts_than_schedulers_take(
    pattern: Pattern, temperature: Temperature
) -> None:
    size = Size(nodes=40, pods=400, requested=0.85, temperature=temperature, pattern=pattern)
    parameters = placement_task(1, size)
    result = place({**parameters, "compare": ["greedy", "minimize_power", "peaks", "spread"]})
    assert violations(parameters, result) == []
    assert not result["unplaced"]
    for other in result["comparison"]:
        if not other["unplaced"]:
            assert result["watts"]["after"] <= other["watts_after"], other
