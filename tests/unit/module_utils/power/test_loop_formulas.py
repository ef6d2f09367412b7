# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the order of binding: they exclude exactly the assignments that cannot be bound."""

from __future__ import annotations

import random
import typing as t
from collections import Counter
from dataclasses import replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.lower_bound import (
    LowerBounds,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.constraints.instance import (
    Instance,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.exact import mixed_integer_model
from ansible_collections.wattwise.kube.plugins.module_utils.power.exact.mixed_integer_model import (
    PlacementModel,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import (
    Assignment,
    rules_hold,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.repair import can_be_bound
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import (
    Constraints,
    PodAffinity,
    Shape,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.examples import are_many, generated, seeds
from support.placement_checker import violations
from support.placement_rules import Json
from support.related_instances import (
    KEYS,
    Cluster,
    Placed,
    placed_pods,
    random_instance,
    without_starts,
)

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.int64]

BRANCHING_NODES = 1000


class Asked:
    """A model that is queried for allowed placements, and learns on the way."""

    def __init__(self, problem: Problem) -> None:
        nodes = range(len(problem.instance.nodes))
        functions = LowerBounds(problem).functions
        self._placements = PlacementModel(problem, functions, nodes, problem.count)
        self._model = self._placements.model
        self._rows = {
            at: self._model.row([(column, 1.0)], 0.0, 0.0)
            for at, column in self._placements.columns.items()
        }
        self.rows_at_first = self.rows

    @property
    def rows(self) -> int:
        return len(self._model.row_lower)

    def allows(self, counts: Integers) -> bool:
        """Whether there is a solution with these counts after all rows are added."""
        if int(counts.sum()) != sum(int(counts[at]) for at in self._rows):
            return False
        for at, row in self._rows.items():
            self._model.row_lower[row] = self._model.row_upper[row] = float(counts[at])
        limits = Limits(30.0)
        solution = self._placements.solve(limits, BRANCHING_NODES)
        assert not limits.hit
        return solution.is_optimal


def sociable_instance(seed: int) -> Instance:
    """A random instance in which most pods must be near others, few of which run."""
    instance, source = random_instance(seed), random.Random(seed)
    known: dict[Shape, Shape] = {}
    for pod in instance.pods:
        if pod.shape not in known:
            keys = tuple(source.sample(KEYS, source.choice([1, 1, 1, 2])))
            affinity = PodAffinity(source.randrange(2), keys)
            rules = replace(
                pod.shape.relations,
                anti_affinity=(),
                affinity=affinity if source.random() < 0.8 else None,
                member_of=frozenset(source.sample(range(2), source.randint(0, 2)))
                | pod.shape.relations.member_of,
                spreadings=pod.shape.relations.spreadings if source.random() < 0.4 else (),
            )
            known[pod.shape] = replace(pod.shape, constraints=Constraints(), relations=rules)
    pods = tuple(replace(pod, shape=known[pod.shape]) for pod in instance.pods)
    if source.random() < 0.2:
        return replace(instance, pods=pods)
    nobody = dict.fromkeys((node.name for node in instance.nodes), 0)
    return replace(instance, pods=pods, peers=tuple(nobody for _peers in instance.peers))


def careless(problem: Problem, source: random.Random) -> Assignment:
    """Pods on nodes with room, regardless of their rules about each other."""
    assignment = Assignment(problem)
    for _step in range(source.randint(1, 7)):
        group = source.randrange(len(problem.groups))
        places = (problem.limit[group] > assignment.counts[group]).nonzero()[0].tolist()
        if places and assignment.left()[group]:
            assignment.place(group, source.choice(places))
    return assignment


def careful(problem: Problem, source: random.Random) -> Assignment:
    """Pods bound one after another."""
    assignment = Assignment(problem)
    for _step in range(source.randint(1, 12)):
        group = source.randrange(len(problem.groups))
        places = (assignment.room(group) > 0).nonzero()[0].tolist()
        if places:
            assignment.place(group, source.choice(places))
    return assignment


@generated
def test_a_model_allows_what_can_be_bound_and_nothing_else() -> None:
    unordered, tried_seeds = 0, seeds(25)
    for seed in tried_seeds:
        problem = build_problem(sociable_instance(seed))
        asked, source = Asked(problem), random.Random(seed)
        # Assignments without an order come first, so that their rows exist when the rest is tried.
        tried = [careless(problem, source) for _number in range(8)]
        tried += [careful(problem, source) for _number in range(4)]
        for each in tried:
            expected = each.is_feasible() and can_be_bound(each)
            assert asked.allows(each.counts) == expected, (seed, each.counts.tolist())
        unordered += asked.rows > asked.rows_at_first
    assert not are_many(tried_seeds) or unordered > len(tried_seeds) // 20


def has_order(instance: Instance, pods: list[Placed]) -> bool:
    """Whether some order of binding lets each pod come, by brute force."""
    cluster = Cluster(instance)
    heads = [frozenset[int]()]
    tried = set(heads)
    while heads:
        bound = heads.pop()
        if len(bound) == len(pods):
            return True
        before = [pods[index] for index in sorted(bound)]
        for index in set(range(len(pods))) - bound:
            shape, node, _new = pods[index]
            more = bound | {index}
            if more not in tried and cluster.accepts(shape, node, before):
                tried.add(more)
                heads.append(more)
    return False


@generated
def test_an_order_is_found_where_there_is_one() -> None:
    answers: Counter[bool] = Counter()
    tried = seeds(75)
    for seed in tried:
        instance = without_starts(sociable_instance(seed))
        problem, source = build_problem(instance), random.Random(seed)
        for _number in range(20):
            assignment = careless(problem, source)
            if problem.relations is None or not holds_in_the_end(assignment):
                continue
            expected = has_order(instance, placed_pods(assignment))
            assert can_be_bound(assignment) == expected, (seed, assignment.counts.tolist())
            assert not expected or rules_hold(assignment), (seed, assignment.counts.tolist())
            answers[expected] += 1
    assert not are_many(tried) or min(answers[True], answers[False]) > len(tried), answers


def holds_in_the_end(assignment: Assignment) -> bool:
    """Whether all rules hold that do not depend on an order of binding."""
    relations = assignment.problem.relations
    assert relations is not None
    counted = relations.count(assignment.counts)
    return all(rule.holds(counted) is not False for rule in relations.rules)


def node(name: str, zone: str, watts: list[float]) -> Json:
    return {
        "name": name,
        "allocatable": {"cpu": "4"},
        "labels": {"zone": zone},
        "curve": {"cpu": [0, 2, 4], "watts": watts},
    }


def pods_near(kind: str, other: str, count: int) -> Json:
    """Pods that must be in a zone with pods of the other kind."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"kind": other}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {
        "name": kind,
        "count": count,
        "labels": {"kind": kind},
        "requests": {"cpu": "1"},
        "affinity": {"podAffinity": required},
    }


# The first two cores of each node are cheap, so spreading the pods is better.
NODES = [node(name, name[0], [100.0, 101.0, 200.0]) for name in ("a-1", "b-1", "c-1")]


def test_pods_of_which_none_can_be_the_first_are_proven_to_stay() -> None:
    parameters = {"nodes": NODES, "pods": [pods_near("x", "y", 2), pods_near("y", "x", 2)]}
    result = place(parameters)
    assert (result["proven"], result["placements"]) == (True, [])


def test_pods_that_want_their_own_kind_near_are_proven_to_be_best_in_one_zone() -> None:
    nodes = [*NODES, node("c-2", "c", [100.0, 130.0, 200.0])]
    result = place({"nodes": nodes, "pods": [pods_near("x", "x", 3)]})
    assert result["proven"]
    assert {entry["node"] for entry in result["placements"]} == {"c-1", "c-2"}


def test_without_enough_rounds_the_best_that_can_be_bound_stays_unproven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mixed_integer_model, "_ROUNDS_OF_CUTS", 0)
    parameters = {"nodes": NODES, "pods": [pods_near("x", "x", 3)]}
    result = place(parameters)
    assert violations(parameters, result) == []
    assert (result["proven"], result["stopped_by"]) == (False, "work_limit")
    assert len(result["placements"]) == 3
    assert result["watts"]["lower_bound"] < result["watts"]["after"]


def test_pods_that_need_another_kind_follow_its_first_pod_only_there() -> None:
    """Pods with affinity to each other need one pod that comes without."""
    free = {"name": "free", "labels": {"kind": "y"}, "requests": {"cpu": "2"}}
    chain = [pods_near("x", "y", 1), pods_near("y", "x", 1)]
    result = place({"nodes": NODES, "pods": [free, *chain]})
    assert violations({"nodes": NODES, "pods": [free, *chain]}, result) == []
    assert result["proven"]
    assert len({entry["node"][0] for entry in result["placements"]}) == 1
