# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of whole pods, the program that chooses among them, and its savings."""

from __future__ import annotations

import itertools
import math
import random

import numpy
import numpy.typing as npt
import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power import optimal, placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.node_classes import (
    find_node_classes,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.relaxation import relax
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.node_functions import (
    NodeFunctions,
    node_functions,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.greedy import filled
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.pattern_generation import (
    deal_out_anew,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.pattern_knapsack import (
    Fleet,
    PatternKnapsack,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.growing_model import (
    GrowingModel,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.placement_checker import violations
from support.placement_fleets import Size, placement_task
from support.placement_instance import read_instance
from support.placement_rules import Json

MEMORY_BINDS = Size(24, 200, 0.5, 6, "rows", "memory")


def problem_of(parameters: Json) -> Problem:
    return build_problem(read_instance(placement.SPEC.complete(parameters)))


def start_of(problem: Problem) -> Assignment:
    found = filled(problem, numpy.zeros_like(problem.limit))
    assert not found.left().any()
    return found


def relaxed_prices(problem: Problem) -> npt.NDArray[numpy.float64]:
    node_classes = find_node_classes(problem, node_functions(problem), 100)
    relaxation = relax(problem, node_classes, problem.count, Limits(10.0))
    assert relaxation is not None
    return relaxation.pod


def test_a_pattern_is_worth_the_most_that_a_node_can_earn() -> None:
    """With a single price of a core, the knapsack leaves nothing open: all numbers are tried."""
    source = random.Random(7)
    for _case in range(40):
        groups, watts_per_core = source.randint(1, 3), source.uniform(1.0, 5.0)
        request = numpy.array([[source.randint(1, 9), 1] for _group in range(groups)])
        use = numpy.array([source.randint(1, 4) * 1_000_000 for _group in range(groups)])
        free = numpy.array([[source.randint(0, 40), 5], [source.randint(0, 40), 100]])
        limit = numpy.minimum(source.randint(1, 5), free[:, 0] // request[:, :1])
        added = numpy.array([[0.0, 200.0]] * 2)
        functions = NodeFunctions(added, added * watts_per_core)
        prices = numpy.array([source.uniform(-2.0, 20.0) for _group in range(groups)])
        knapsack = PatternKnapsack(Fleet(free, limit, request, use), functions, scarce=0)
        nodes, counts = knapsack.patterns(prices)
        taken = counts @ request
        assert (taken <= free[nodes]).all()
        assert (counts <= limit[:, nodes].T).all()
        earned = counts @ prices - watts_per_core * (counts @ use) / 1e6
        ours = max(earned[nodes == 1], default=0.0)
        possible = itertools.product(*(range(each + 1) for each in limit.max(axis=1)))
        most = max(
            float(numpy.dot(one, prices) - watts_per_core * numpy.dot(one, use) / 1e6)
            for one in possible
            if numpy.dot(one, request[:, 0]) <= free[1, 0]
        )
        if (limit[:, 1] == limit.max(axis=1)).all():
            assert ours == pytest.approx(most, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_pods_are_dealt_out_for_fewer_watts(seed: int) -> None:
    parameters = placement_task(seed, MEMORY_BINDS)
    problem = problem_of(parameters)
    start = start_of(problem)
    prices = relaxed_prices(problem)
    counts = deal_out_anew(start, node_functions(problem), prices, Limits(20.0))
    assert counts is not None
    found = Assignment(problem, counts)
    assert found.is_feasible()
    assert filled(problem, counts).rank() > start.rank()


def test_pods_with_rules_and_pods_on_unpriced_nodes_stay_where_they_are() -> None:
    parameters = placement_task(1, MEMORY_BINDS)
    parameters["pods"][0]["labels"] = {"app": "apart"}
    parameters["pods"][0]["affinity"] = {
        "pod_anti_affinity": {
            "required_during_scheduling_ignored_during_execution": [
                {
                    "label_selector": {"match_labels": {"app": "apart"}},
                    "topology_key": "kubernetes.io/hostname",
                }
            ]
        }
    }
    parameters["pods"][0]["count"] = 5
    unpriced = parameters["nodes"][-1]
    del unpriced["curve"]
    problem = problem_of(parameters)
    start = start_of(problem)
    [apart] = [index for index in range(len(problem.groups)) if not problem.freely_movable[index]]
    start.place(0 if apart else 1, len(problem.instance.nodes) - 1)
    group = next(
        index for index in range(len(problem.groups)) if index != apart and start.counts[index, -1]
    )
    node = int(start.counts[group, :-1].nonzero()[0][0])
    start.place(group, node, -1)
    prices = relaxed_prices(problem)
    counts = deal_out_anew(start, node_functions(problem), prices, Limits(20.0))
    assert counts is not None
    assert (counts[apart] == start.counts[apart]).all()
    assert (counts[:, -1] == start.counts[:, -1]).all()


def test_nothing_is_tried_where_no_resource_is_scarce() -> None:
    problem = problem_of(placement_task(1, Size(10, 50, 0.2)))
    start = start_of(problem)
    prices = numpy.ones(len(problem.groups))
    assert deal_out_anew(start, node_functions(problem), prices, Limits(20.0)) is None


def test_nothing_is_tried_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(placement_task(1, MEMORY_BINDS))
    start = start_of(problem)
    limits = Limits(20.0)
    monkeypatch.setattr(Limits, "expired", lambda _self: True)
    prices = numpy.ones(len(problem.groups))
    assert deal_out_anew(start, node_functions(problem), prices, limits) is None


@pytest.mark.large
def test_an_answer_where_memory_binds_is_better_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # HiGHS gets no fleet of this size, which would take longer.
    parameters = placement_task(0, Size(110, 1100, 0.5, 12, "rows", "memory"))
    parameters["time_limit"] = 4
    monkeypatch.setattr(optimal._Incumbent, "start_again", lambda *_given: None)
    with_it = place(parameters)
    assert violations(parameters, with_it) == []
    monkeypatch.setattr(optimal, "deal_out_anew", lambda *_given: None)
    without = place(parameters)
    assert len(with_it["placements"]) == len(without["placements"])
    assert with_it["watts"]["after"] < without["watts"]["after"]


def test_a_model_that_grows_goes_on_from_its_last_optimum() -> None:
    model = GrowingModel()
    needed = model.row(2.0, math.inf)
    room = model.row(-math.inf, 3.0)
    model.column(5.0, [(needed, 1.0)])
    first = model.solve(Limits(10.0))
    assert first is not None
    assert first.values == pytest.approx((2.0,))
    assert first.duals == pytest.approx((5.0, 0.0))
    model.column(1.0, [(needed, 1.0), (room, 2.0)])
    second = model.solve(Limits(10.0))
    assert second is not None
    assert second.values == pytest.approx((0.5, 1.5))
    assert second.duals == pytest.approx((5.0, -2.0))


def test_a_model_without_a_solution_or_without_time_has_no_optimum() -> None:
    model = GrowingModel()
    row = model.row(1.0, 1.0)
    assert model.solve(Limits(10.0)) is None
    model.column(1.0, [(row, 1.0)])
    assert model.solve(Limits(1e-9)) is None
