# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Large neighbourhood search: less power for the same pods, within all rules and limits."""

from __future__ import annotations

import numpy
import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power import optimal, placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import (
    Assignment,
    rules_hold,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.node_functions import (
    node_functions,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.greedy import filled
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.large_neighbourhood_search import (
    search_neighbourhoods,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.examples import generated, seeds
from support.placement_checker import violations
from support.placement_fleets import Pattern, Size, placement_task
from support.placement_instance import read_instance
from support.placement_rules import Json
from support.random_placements import random_parameters


def problem_of(parameters: Json) -> Problem:
    return build_problem(read_instance(placement.SPEC.complete(parameters)))


def start_of(problem: Problem) -> Assignment:
    return filled(problem, numpy.zeros_like(problem.limit))


def searched(start: Assignment, enough: float = 0.0, seconds: float = 5.0) -> Assignment:
    functions = node_functions(start.problem)
    return search_neighbourhoods(start, functions, enough, Limits(seconds))


@pytest.mark.parametrize("pattern", ["memory", "power_off"])
def test_the_same_pods_need_fewer_watts(pattern: Pattern) -> None:
    start = start_of(problem_of(placement_task(1, Size(20, 150, pattern=pattern))))
    found = searched(start)
    assert found.is_feasible()
    assert (found.counts.sum(axis=1) == start.counts.sum(axis=1)).all()
    added = start.total_cost() - Assignment(start.problem).watts()
    assert found.total_cost() < start.total_cost() - 0.001 * added


@generated
def test_no_instance_gets_worse_and_pods_with_rules_stay() -> None:
    for seed in seeds(40):
        problem = problem_of(random_parameters(seed))
        start = start_of(problem)
        found = searched(start, seconds=1.0)
        assert rules_hold(found) or not rules_hold(start), seed
        assert (found.counts.sum(axis=1) == start.counts.sum(axis=1)).all(), seed
        ruled = ~problem.freely_movable
        assert (found.counts[ruled] == start.counts[ruled]).all(), seed
        assert found.total_cost() <= start.total_cost(), seed


def test_the_search_ends_at_enough_watts_and_at_the_time_limit() -> None:
    start = start_of(problem_of(placement_task(1, Size(20, 150, pattern="memory"))))
    assert searched(start, enough=start.total_cost()) is start
    limits = Limits(5.0, processor=iter([0.0, *[9.0] * 9]).__next__)
    assert search_neighbourhoods(start, node_functions(start.problem), 0.0, limits) is start
    assert limits.hit


def test_one_node_has_no_neighbourhood() -> None:
    start = start_of(problem_of(placement_task(1, Size(1, 5, types=1))))
    assert searched(start) is start


@pytest.mark.large
def test_an_answer_with_sleeping_nodes_is_better_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = placement_task(1, Size(100, 1000, 0.2, pattern="power_off"))
    with_it = place(parameters)
    assert violations(parameters, with_it) == []
    monkeypatch.setattr(optimal, "search_neighbourhoods", lambda start, *_given: start)
    without = place(parameters)
    assert len(with_it["placements"]) == len(without["placements"])
    assert with_it["watts"]["after"] < without["watts"]["after"]
