# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any prices give a valid bound; so do the models when a limit ends them."""

from __future__ import annotations

import numpy
import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.exact import PlacementModel
from ansible_collections.wattwise.kube.plugins.module_utils.power.greedy import fill
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits import Limits
from ansible_collections.wattwise.kube.plugins.module_utils.power.lower_bound import (
    LowerBounds,
    Prices,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.node_functions import (
    convex_runs,
    lower_hull,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.relaxation import relax
from ansible_collections.wattwise.kube.plugins.module_utils.power.sources import read_instance
from support.brute_force_placement import optimum_of_the_same_pods
from support.placement_checker import Json
from support.random_placements import random_fleet, random_parameters


def problem_of(parameters: Json) -> Problem:
    return build_problem(read_instance(placement.SPEC.complete(parameters)))


def placed_by(assignment: Assignment) -> Json:
    """The part of a result that says which pods are placed; any of equal pods will do."""
    placed = assignment.counts.sum(axis=1)
    return {
        "placements": [
            {"namespace": pod.namespace, "pod": pod.name}
            for group, number in zip(assignment.problem.groups, placed, strict=True)
            for pod in group.pods[:number]
        ]
    }


@pytest.mark.parametrize("first_seed", [0, 40])
def test_random_prices_never_give_a_bound_above_the_optimum(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 40):
        parameters = random_parameters(seed)
        problem = problem_of(parameters)
        assignment = Assignment(problem)
        fill(assignment)
        placed = assignment.counts.sum(axis=1)
        elsewhere = int(assignment.pods[~problem.costs.priced].sum())
        least = -float(optimum_of_the_same_pods(parameters, placed_by(assignment))[2])
        bounds, source = LowerBounds(problem), numpy.random.default_rng(seed)
        for _sample in range(10):
            prices = Prices(
                pod=source.normal(0, 60, len(problem.groups)),
                core=source.normal(20, 40, len(problem.instance.nodes)),
                resource=source.normal(0, 0.01, problem.free.shape),
            )
            assert bounds.at(prices, placed, elsewhere) <= least + 1e-6, seed
        assert bounds.with_one_price(placed, elsewhere) <= least + 1e-6, seed


def test_relaxed_prices_are_at_least_as_good_as_one_price() -> None:
    problem = problem_of(random_fleet(3, 20, 150, 8))
    bounds = LowerBounds(problem)
    relaxation = relax(problem, bounds.functions, problem.count, Limits(10.0))
    assert relaxation is not None
    one_price = bounds.with_one_price(problem.count, 0)
    assert bounds.at(relaxation.prices, problem.count, 0) >= one_price - 1e-3
    assert Assignment(problem, relaxation.counts).is_feasible()


def test_a_model_that_a_limit_ends_still_tells_a_bound_and_an_answer() -> None:
    problem = problem_of(random_fleet(4, 30, 250, 8))
    functions = LowerBounds(problem).functions
    model = PlacementModel(problem, functions, range(30), problem.count)
    for group in range(len(problem.groups)):
        model.model.at_least(model.placed_in([group]), int(problem.count[group]))
    model.minimize_watts()
    solution = model.solve(Limits(10.0), branching_nodes=3)
    found = Assignment(problem, model.counts(solution))
    assert not solution.is_optimal
    assert found.is_feasible()
    assert not found.left().any()
    assert 0 < model.bound_watts(solution) < -found.rank()[2]


def test_without_time_the_relaxation_says_so() -> None:
    problem = problem_of(random_fleet(3, 20, 150, 8))
    clock = iter(range(100))
    limits = Limits(0.5, clock=lambda: float(next(clock)))
    assert limits.expired() and limits.left() == 0.0
    functions = LowerBounds(problem).functions
    assert relax(problem, functions, problem.count, limits) is None


def test_a_curve_is_cut_where_it_stops_being_convex() -> None:
    points = [(0.0, 0.0), (1.0, 5.0), (2.0, 7.0), (3.0, 12.0), (4.0, 13.0)]
    assert convex_runs(points) == [points[:2], points[1:4], points[3:]]
    assert convex_runs(points[:1]) == [points[:1]]
    assert lower_hull(points) == [points[0], points[4]]
    assert lower_hull(points[1:4]) == points[1:4]
