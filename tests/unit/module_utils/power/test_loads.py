# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subset sums, the bound by loads, and the walks that divide the pods of two nodes anew."""

from __future__ import annotations

import itertools
import random

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.baselines.placers import spread
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.dynamic_programming_bound import (
    dynamic_programming_bound,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.loads import loads_of
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.subset_sums import (
    set_bits,
    subset_sums,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.greedy import filled
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.two_node_reoptimization import (
    TwoNodeReoptimization,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.brute_force_placement import optimum_of_the_same_pods
from support.examples import are_many, generated, seeds
from support.placement_checker import violations
from support.placement_fleets import Pattern, Size, placement_task
from support.placement_instance import read_instance
from support.placement_rules import Json
from support.random_placements import random_parameters


def problem_of(parameters: Json) -> Problem:
    return build_problem(read_instance(placement.SPEC.complete(parameters)))


def test_subset_sums_are_those_of_all_subsets() -> None:
    source = random.Random(1)
    for _case in range(50):
        sizes = [source.randint(0, 12) for _index in range(4)]
        counts = [source.randint(0, 5) for _index in range(4)]
        most = source.randint(0, 60)
        chosen = itertools.product(*(range(count + 1) for count in counts))
        known = {sum(map(int.__mul__, sizes, numbers)) for numbers in chosen}
        bits = subset_sums(sizes, counts, most)
        assert set_bits(bits, 0, most).tolist() == sorted(x for x in known if x <= most)
        assert set_bits(bits, 3, 7).tolist() == sorted(x for x in known if 3 <= x <= min(7, most))


@generated
def test_the_bound_by_loads_is_never_above_the_optimum() -> None:
    compared, tried = 0, seeds(30)
    for seed in tried:
        parameters = {**random_parameters(seed), "unpriced": "exclude"}
        problem = problem_of(parameters)
        assignment, loads = filled(problem), loads_of(problem)
        if loads is None or assignment.unpriced_pods():
            continue
        placed = assignment.counts.sum(axis=1)
        listed = [
            {"namespace": pod.namespace, "pod": pod.name}
            for group, number in zip(problem.groups, placed, strict=True)
            for pod in group.pods[:number]
        ]
        optimum = -float(optimum_of_the_same_pods(parameters, {"placements": listed})[2])
        for upper in (optimum, assignment.total_cost(), 1e6):
            found = dynamic_programming_bound(loads, placed, upper)
            assert found is not None
            assert found.watts <= optimum + 1e-6, seed
            assert int(sum(found.loads)) == int(loads.units @ placed), seed
        compared += 1
    assert not are_many(tried) or compared > len(tried) * 5 // 8


@pytest.mark.parametrize("pattern", ["plain", "affinity", "memory", "power_off"])
def test_a_walk_moves_pods_and_never_adds_watts(pattern: Pattern) -> None:
    problem = problem_of(placement_task(2, Size(10, 60, pattern=pattern)))
    start, loads = spread(problem), loads_of(problem)
    assert loads is not None
    walk = TwoNodeReoptimization(loads, start, Limits(10.0))
    walk.save(300, 1e6)
    found = Assignment(problem, walk.counts())
    assert found.is_feasible()
    assert (found.counts.sum(axis=1) == start.counts.sum(axis=1)).all()
    assert found.total_cost() < start.total_cost() - 1.0
    wanted = (start.counts.T @ loads.units).tolist()
    walk.approach(wanted, 3000)
    back = Assignment(problem, walk.counts())
    assert back.is_feasible()
    assert (
        abs(back.counts.T @ loads.units - wanted).sum()
        < abs(found.counts.T @ loads.units - wanted).sum()
    )


@pytest.mark.parametrize(
    ("seed", "size"),
    [
        (11, Size(10, 50, 0.88, types=10)),
        (11, Size(30, 200, 0.88, types=10, temperature="scattered")),
    ],
    ids=lambda value: value.title if isinstance(value, Size) else str(value),
)
def test_small_fleets_are_proven(seed: int, size: Size) -> None:
    parameters = placement_task(seed, size)
    result = place(parameters)
    assert violations(parameters, result) == []
    assert result["proven"], result["gap"]


def test_uses_without_a_common_step_are_left_to_other_methods() -> None:
    parameters = placement_task(1, Size(6, 12))
    for index, pod in enumerate(parameters["pods"]):
        pod["requests"]["cpu"] = f"{1001 + 2 * index}m"
    parameters["pod_usage_assumption"] = 0.123457
    problem = problem_of(parameters)
    assert loads_of(problem) is None
    assert violations(parameters, place(parameters)) == []
