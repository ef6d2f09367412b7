# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any prices give a valid bound; so do the models when a limit ends them."""

from __future__ import annotations

import dataclasses

import numpy
import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.awake_nodes import (
    fewest_awake,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.lagrangian_subproblem import (
    Prices,
    prices_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.lower_bound import (
    LowerBounds,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.node_classes import (
    find_node_classes,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.relaxation import (
    Relaxation,
    relax,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.exact.mixed_integer_model import (
    PlacementModel,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.node_functions import (
    convex_runs,
    lower_hull,
    nearly_convex_runs,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.construction import (
    construct,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.greedy import fill
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.brute_force_placement import optimum_of_the_same_pods
from support.examples import generated, seeds
from support.placement_fleets import PATTERNS, Pattern, Size, placement_task
from support.placement_instance import read_instance
from support.placement_rules import Json
from support.random_placements import random_fleet, random_parameters


def problem_of(parameters: Json) -> Problem:
    return build_problem(read_instance(placement.SPEC.complete(parameters)))


def placed_by(assignment: Assignment) -> Json:
    """The part of a result that identifies placed pods, without distinguishing equal ones."""
    placed = assignment.counts.sum(axis=1)
    return {
        "placements": [
            {"namespace": pod.namespace, "pod": pod.name}
            for group, number in zip(assignment.problem.groups, placed, strict=True)
            for pod in group.pods[:number]
        ]
    }


@generated
def test_random_prices_never_give_a_bound_above_the_optimum() -> None:
    for seed in seeds(25):
        parameters = random_parameters(seed)
        problem = problem_of(parameters)
        assignment = Assignment(problem)
        fill(assignment)
        placed = assignment.counts.sum(axis=1)
        elsewhere = int(assignment.pods[~problem.costs.priced].sum())
        least = -float(optimum_of_the_same_pods(parameters, placed_by(assignment))[2])
        bounds, source = LowerBounds(problem), numpy.random.default_rng(seed)
        for _sample in range(10):
            prices = random_prices(problem, source)
            assert bounds.at(prices, placed, elsewhere) <= least + 1e-6, seed
            tightened = bounds.tighten(prices, placed)
            assert bounds.at(prices, placed, elsewhere) <= bounds.at(tightened, placed, elsewhere)
            assert bounds.at(tightened, placed, elsewhere) <= least + 1e-6, seed
        assert bounds.with_one_price(placed, elsewhere) <= least + 1e-6, seed


def random_prices(problem: Problem, source: numpy.random.Generator) -> Prices:
    """Each node's curve is cut anywhere into up to three pieces."""
    nodes = len(problem.instance.nodes)
    cuts = numpy.sort(source.uniform(0, 8e6, (nodes, 2)), axis=1)
    ends = numpy.concatenate(
        [numpy.full((nodes, 1), -numpy.inf), cuts, numpy.full((nodes, 1), numpy.inf)], axis=1
    )
    return Prices(
        pod=source.normal(0, 60, len(problem.groups)),
        node=numpy.repeat(numpy.arange(nodes), 3),
        low=ends[:, :-1].ravel(),
        high=ends[:, 1:].ravel(),
        resource=numpy.maximum(source.normal(0, 1e-7, (3 * nodes, problem.free.shape[1])), 0),
        awake=max(0.0, source.normal(0, 40)),
    )


def relaxed(problem: Problem, wanted: int) -> Relaxation:
    functions = LowerBounds(problem).functions
    node_classes = find_node_classes(problem, functions, wanted)
    relaxation = relax(problem, node_classes, problem.count, Limits(10.0))
    assert relaxation is not None
    return relaxation


@pytest.mark.parametrize("pattern", PATTERNS)
def test_relaxed_prices_make_a_better_bound_than_one_price(pattern: Pattern) -> None:
    problem = problem_of(placement_task(3, Size(60, 600, pattern=pattern)))
    bounds = LowerBounds(problem)
    prices = bounds.tighten(prices_of(problem, relaxed(problem, 100)), problem.count)
    one_price = bounds.with_one_price(problem.count, 0)
    assert bounds.at(prices, problem.count, 0) >= one_price - 1e-3


def test_whole_nodes_that_must_be_awake_lift_the_bound() -> None:
    """With 1,000 pods and 110 slots a node, ten nodes are awake; the relaxation wakes 9.1."""
    problem = problem_of(placement_task(1, Size(100, 1000, 0.2, pattern="power_off")))
    assert fewest_awake(problem, problem.count) == 10
    bounds, relaxation = LowerBounds(problem), relaxed(problem, 100)
    awake = sum(share.nodes for share in relaxation.shares if share.run is not None)
    assert awake == pytest.approx(10)
    prices = bounds.tighten(prices_of(problem, relaxation), problem.count)
    without = dataclasses.replace(prices, awake=0.0)
    idle = Assignment(problem).watts()
    added = bounds.at(prices, problem.count, 0) - idle
    assert added > 1.01 * (bounds.at(without, problem.count, 0) - idle)


def test_nodes_that_never_sleep_hold_pods_first() -> None:
    task = placement_task(1, Size(12, 60, 0.2, pattern="power_off"))
    problem = problem_of(task)
    assert fewest_awake(problem, problem.count) == 1
    assert fewest_awake(problem, 0 * problem.count) == 0
    assert fewest_awake(problem, 10_000 * problem.count) == 12
    problem = problem_of({**task, "allow_power_off": False})
    assert fewest_awake(problem, 10_000 * problem.count) == 0


def test_fewer_clusters_than_nodes_still_make_a_good_bound_and_a_feasible_start() -> None:
    problem = problem_of(placement_task(4, Size(120, 1200, pattern="memory")))
    bounds = LowerBounds(problem)
    coarse, fine = relaxed(problem, 20), relaxed(problem, 120)
    at_prices = [
        bounds.at(bounds.tighten(prices_of(problem, each), problem.count), problem.count, 0)
        for each in (coarse, fine)
    ]
    idle = Assignment(problem).watts()
    assert at_prices[0] - idle >= 0.98 * (at_prices[1] - idle)
    for each in (coarse, fine):
        start = construct(problem, each)
        assert start.is_feasible()
        assert start.left().sum() <= 0.15 * problem.count.sum()


def test_a_model_that_a_limit_ends_still_tells_a_bound_and_an_answer() -> None:
    problem = problem_of(random_fleet(4, 30, 250, 8))
    functions = LowerBounds(problem).functions
    model = PlacementModel(problem, functions, range(30), problem.count)
    for group in range(len(problem.groups)):
        model.model.at_least(model.placed_in([group]), int(problem.count[group]))
    model.minimize_cost()
    solution = model.solve(Limits(10.0), branching_nodes=3)
    found = Assignment(problem, model.counts(solution))
    assert not solution.is_optimal
    assert found.is_feasible()
    assert not found.left().any()
    assert 0 < model.bound(solution) < -found.rank()[2]


def test_without_time_the_relaxation_says_so() -> None:
    problem = problem_of(random_fleet(3, 20, 150, 8))
    clock = iter(range(100))
    limits = Limits(0.5, processor=lambda: float(next(clock)))
    assert limits.expired() and limits.left() == 0.0
    node_classes = find_node_classes(problem, LowerBounds(problem).functions, 20)
    assert relax(problem, node_classes, problem.count, limits) is None


def test_a_curve_is_cut_where_it_stops_being_convex() -> None:
    points = [(0.0, 0.0), (1.0, 5.0), (2.0, 7.0), (3.0, 12.0), (4.0, 13.0)]
    assert convex_runs(points) == [points[:2], points[1:4], points[3:]]
    assert convex_runs(points[:1]) == [points[:1]]
    assert nearly_convex_runs(points, 0.0) == [points[:2], points[1:4], points[3:]]
    assert nearly_convex_runs(points, 1.0) == [points[:2], points[1:4], points[3:]]
    assert nearly_convex_runs(points, 1.6) == [[points[0], *points[2:4]], points[3:]]
    assert nearly_convex_runs(points, 100.0) == [[points[0], points[4]]]
    assert nearly_convex_runs(points[:1], 1.0) == [points[:1]]
    assert lower_hull(points) == [points[0], points[4]]
    assert lower_hull(points[1:4]) == points[1:4]
