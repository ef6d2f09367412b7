# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for the last pods: others move, change places, or stay pending in their stead."""

from __future__ import annotations

import math
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.search import greedy
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.ejection_chain import eject
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_fields import (
    POD_GROUP_LABEL,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from ansible_collections.wattwise.kube.plugins.module_utils.solving.linear import LinearModel, solve
from support.placement_fleets import Json, Size, placement_task
from support.placement_instance import read_instance


def node(name: str, cores: int, slots: int = 110, **labels: str) -> Json:
    return {
        "name": name,
        "allocatable": {"cpu": str(cores), "pods": str(slots)},
        "labels": {"kubernetes.io/hostname": name, **labels},
        "curve": {"cpu": [0, cores], "watts": [10, 20]},
    }


def pod(name: str, cores: int, count: int = 1, **fields: t.Any) -> Json:
    return {"name": name, "requests": {"cpu": str(cores)}, "count": count, **fields}


def started(nodes: list[Json], pods: list[Json], *there: tuple[str, str, int]) -> Assignment:
    """An assignment with this many of a pod on each node."""
    problem: Problem = build_problem(
        read_instance(placement.SPEC.complete({"nodes": nodes, "pods": pods}))
    )
    assignment = Assignment(problem)
    names = [each.name for each in problem.instance.nodes]
    for name, where, number in there:
        assignment.place(group_of(problem, name), names.index(where), number)
    assert assignment.is_feasible()
    return assignment


def group_of(problem: Problem, name: str) -> int:
    [found] = [
        index
        for index, group in enumerate(problem.groups)
        if any(each.name.startswith(name) for each in group.pods)
    ]
    return found


def left(assignment: Assignment) -> dict[str, int]:
    """Pods without a place, by the first letter of their name."""
    numbers = assignment.left().tolist()
    return {
        group.pods[0].name[0]: number
        for group, number in zip(assignment.problem.groups, numbers, strict=True)
        if number
    }


def ejected(assignment: Assignment) -> Assignment:
    """The result of eject, which must not change its input."""
    before = assignment.counts.copy()
    found = eject(assignment, Limits(60.0))
    assert (assignment.counts == before).all()
    assert found.is_feasible()
    assert found.rank() >= assignment.rank()
    return found


def test_small_pods_give_way_to_a_large_one_and_find_another_place() -> None:
    nodes, pods = [node("a", 4), node("b", 3)], [pod("large", 4), pod("small", 1, 3)]
    start = started(nodes, pods, ("small", "a", 2), ("small", "b", 1))
    assert left(start) == {"l": 1}
    assert left(ejected(start)) == {}


def test_pods_change_places_where_one_node_lacks_slots_and_the_other_cores() -> None:
    """No pod can move: the slots of one node and the cores of the other are all in use."""
    nodes = [node("slots", 6, slots=4), node("cores", 9, slots=3)]
    pods = [pod("large", 5), pod("middle", 2, 3), pod("small", 1, 2), pod("waiting", 2)]
    start = started(
        nodes, pods, ("large", "slots", 1), ("small", "slots", 1), ("middle", "cores", 3)
    )
    assert not any(start.room(group).any() for group in range(len(start.problem.groups)))
    found = ejected(start)
    assert found.left().sum() == 0


def test_a_large_pod_waits_for_several_small_ones_of_its_priority() -> None:
    nodes, pods = [node("a", 4)], [pod("large", 4), pod("small", 1, 4)]
    start = started(nodes, pods, ("large", "a", 1))
    assert left(ejected(start)) == {"l": 1}


def test_nothing_waits_for_pods_of_lower_priority() -> None:
    nodes, pods = [node("a", 4)], [pod("large", 4, priority=1), pod("small", 1, 4)]
    start = started(nodes, pods, ("large", "a", 1))
    assert left(ejected(start)) == {"s": 4}


@pytest.mark.parametrize(("cores", "expected"), [(4, {"x": 1}), (3, {"g": 2})])
def test_a_gang_gets_places_for_all_or_none(cores: int, expected: dict[str, int]) -> None:
    """No small pod stays pending for one of the gang, though that would place as many pods."""
    gang = {"labels": {POD_GROUP_LABEL: "gang"}}
    nodes = [node("a", 3), node("b", cores)]
    pods = [pod("gang", 2, 2, **gang), pod("small", 1, 3), pod("x", 4)]
    start = started(nodes, pods, ("small", "a", 2), ("small", "b", 1))
    assert left(ejected(start)) == expected


def test_pods_with_rules_move_aside_where_the_rules_allow_it() -> None:
    """One of each pair with anti-affinity has to go to the third node, not to the other of the
    first two.
    """
    apart = {
        "labels": {"app": "apart"},
        "affinity": {
            "pod_anti_affinity": {
                "required_during_scheduling_ignored_during_execution": [
                    {
                        "topology_key": "kubernetes.io/hostname",
                        "label_selector": {"match_labels": {"app": "apart"}},
                    }
                ]
            }
        },
    }
    nodes = [node("a", 4), node("b", 3), node("c", 3)]
    pods = [pod("apart", 1, 2, **apart), pod("large", 4), pod("small", 2, 2)]
    start = started(nodes, pods, ("apart", "a", 1), ("apart", "b", 1), ("small", "a", 1))
    assert left(ejected(start)) == {}


def fewest_left(problem: Problem) -> int:
    """Number of pods that cannot be placed even if pods were divisible."""
    model = LinearModel()
    shares = [
        [model.column(0.0, most, -1.0) for most in problem.limit[group].tolist()]
        for group in range(len(problem.groups))
    ]
    for columns, number in zip(shares, problem.count.tolist(), strict=True):
        model.at_most([(column, 1.0) for column in columns], number)
    for resource, scale in enumerate(problem.request.max(axis=0).tolist()):
        requests = (problem.request[:, resource] / scale).tolist()
        for at, free in enumerate((problem.free[:, resource] / scale).tolist()):
            terms = [(columns[at], asked) for columns, asked in zip(shares, requests, strict=True)]
            model.at_most(terms, free)
    placed = sum(solve(model, Limits(60.0)).values)
    return math.ceil(int(problem.count.sum()) - placed - 1e-6)


@pytest.mark.parametrize(
    ("seed", "requested"), [(1, 0.85), (2, 0.85), (8, 0.95), (11, 0.95), (13, 0.95)]
)
def test_no_more_pods_are_left_than_if_parts_of_pods_could_be_placed(
    seed: int, requested: float
) -> None:
    """For fleets where slots and cores both run out; placing the largest first leaves more."""
    task = placement_task(seed, Size(24, 240, requested, pattern="slots"))
    problem = build_problem(read_instance(placement.SPEC.complete(task)))
    start = greedy.filled(problem)
    fewest = fewest_left(problem)
    assert start.left().sum() > fewest
    assert ejected(start).left().sum() == fewest
