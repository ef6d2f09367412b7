# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of greedy placing, local search and ejection on an assignment."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.search import local_search
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.ejection_chain import eject
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.greedy import filled
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.placement_fleets import PATTERNS, Json, Pattern, Size, placement_task
from support.placement_instance import read_instance


def problem_of(parameters: Json) -> Problem:
    return build_problem(read_instance(placement.SPEC.complete({**parameters})))


def node(name: str, cores: int, watts_per_core: float) -> Json:
    curve = {"cpu": [0, cores], "watts": [10, 10 + watts_per_core * cores]}
    return {"name": name, "allocatable": {"cpu": str(cores)}, "curve": curve}


def test_greedy_placing_asks_for_room_once_for_each_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """With devices, each question can be a task for a solver."""
    pods = [{"name": "web", "count": 3, "requests": {"cpu": "1"}}]
    problem = problem_of({"nodes": [node("a", 4, 5), node("b", 4, 5)], "pods": pods})
    asked, fits = [], Assignment.fits

    def counted(self: Assignment, group: int, *rest: t.Any, **more: t.Any) -> t.Any:
        asked.append(group)
        return fits(self, group, *rest, **more)

    monkeypatch.setattr(Assignment, "fits", counted)
    assert filled(problem).counts.sum() == 3
    assert asked == [0, 0, 0]


def test_a_large_pod_changes_places_with_three_small_ones() -> None:
    """Neither a move nor an exchange of two pods is possible: both nodes are full."""
    problem = problem_of(
        {
            "nodes": [node("cheap", 3, 1.0), node("dear", 3, 5.0)],
            "pods": [
                {"name": "large", "requests": {"cpu": "3"}},
                {"name": "small", "requests": {"cpu": "900m"}, "count": 3},
            ],
        }
    )
    large, small = (0, 1) if problem.count[0] == 1 else (1, 0)
    assignment = Assignment(problem)
    assignment.place(large, 1)
    assignment.place(small, 0, 3)
    assert local_search.improve(assignment, Limits(10.0), rounds=10)
    assert assignment.counts[large].tolist() == [1, 0]
    assert assignment.counts[small].tolist() == [0, 3]
    assert assignment.is_feasible()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_search_keeps_placements_feasible_and_never_adds_watts(pattern: Pattern) -> None:
    problem = problem_of(placement_task(2, Size(40, 400, pattern=pattern)))
    assignment = Assignment(problem)
    for group in range(len(problem.groups)):
        for _pod in range(int(problem.count[group])):
            fitting = assignment.fits(group, assignment.all_nodes).nonzero()[0]
            if len(fitting):
                assignment.place(group, int(fitting[0]))
    start = eject(assignment, Limits(60.0))
    before = start.rank()
    assert start.is_feasible() and before >= assignment.rank()
    local_search.improve(start, Limits(60.0), rounds=200)
    assert start.is_feasible()
    assert start.rank() > before
    assert start.cost.tolist() == Assignment(problem, start.counts).cost.tolist()
