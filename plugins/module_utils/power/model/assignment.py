# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Assignment: pod counts by group and node, with derived quantities updated incrementally.

``room``, ``fits`` and ``may_leave`` look one step ahead. A change of several steps at once is tried
by ``try_changes``, which alone decides where pods have rules about each other.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Booleans, Floats, Integers
from ..constraints.relations import RelationState
from .problem import Problem

# (placed by priority, highest first; minus pods on unpriced nodes; minus watts and the cost of
# unmet preferences): more is better.
Rank = tuple[tuple[int, ...], int, float]
# Group, node, and change of the pod count.
Change = tuple[int, int, int]


class Assignment:
    """Counts of pods by group and node; never more than fits."""

    def __init__(self, problem: Problem, counts: Integers | None = None) -> None:
        self.problem = problem
        groups, nodes = problem.limit.shape
        self.all_nodes: Integers = numpy.arange(nodes)
        self.counts: Integers = numpy.zeros((groups, nodes), dtype=numpy.int64)
        if counts is not None:
            self.counts += counts
        self._recompute()

    def _recompute(self) -> None:
        problem, counts = self.problem, self.counts
        self.free: Integers = problem.free - counts.T @ problem.request
        self.use: Integers = counts.T @ problem.use
        self.pods: Integers = counts.sum(axis=0)
        self.workload: Integers = counts.T @ problem.is_workload.astype(numpy.int64)
        self.cost: Floats = problem.costs.of(self.all_nodes, self.use, self.pods, self.workload)
        self.related: RelationState | None = (
            None if problem.relations is None else RelationState(problem.relations, counts)
        )

    def place(self, group: int, node: int, number: int = 1) -> None:
        """Put pods of the group on the node, unchecked; a negative number removes pods."""
        problem = self.problem
        if self.related is not None:
            self.related.place(group, node, number)
        self.counts[group, node] += number
        self.free[node] -= number * problem.request[group]
        self.use[node] += number * problem.use[group]
        self.pods[node] += number
        self.workload[node] += number * int(problem.is_workload[group])
        at = slice(node, node + 1)
        self.cost[at] = problem.costs.of(
            self.all_nodes[at], self.use[at], self.pods[at], self.workload[at]
        )

    def left(self) -> Integers:
        """Pods of each group without a node."""
        found: Integers = self.problem.count - self.counts.sum(axis=1)
        return found

    def room(self, group: int) -> Integers:
        """Number of further pods of the group on each node now, if no other node takes any."""
        problem = self.problem
        request = problem.request[group]
        asked = request > 0
        left = int(problem.count[group] - self.counts[group].sum())
        room = numpy.where(problem.limit[group] > 0, left, 0)
        if asked.any():
            fitting = (self.free[:, asked] // request[asked]).min(axis=1)
            room = numpy.minimum(room, numpy.maximum(fitting, 0))
        if self.related is not None and not self.related.is_free(group):
            room = numpy.minimum(room, self.related.room(group))
        return room

    def fits(self, group: int, nodes: Integers, *, moving: bool = False) -> Booleans:
        """Whether one more pod of the group fits on each of these nodes.

        For a pod ``moving`` from another node, try_changes is more exact.
        """
        request = self.problem.request[group]
        asked = request > 0
        enough: Booleans = (self.free[nodes][:, asked] >= request[asked]).all(axis=1)
        enough &= self.problem.limit[group, nodes] > 0
        if self.related is not None and not self.related.is_free(group):
            enough &= self.related.room(group, moving=moving)[nodes] > 0
        return enough

    def fits_instead(self, group: int, other: int) -> Booleans:
        """Nodes where one pod of ``group`` fits after one of ``other`` has left.

        If one of the two has rules between pods, try_changes decides.
        """
        problem = self.problem
        request = problem.request[group]
        asked = request > 0
        enough: Booleans = (self.free + problem.request[other] >= request)[:, asked].all(axis=1)
        enough &= (self.counts[other] > 0) & (problem.limit[group] > 0)
        if self.related is not None:
            enough &= self.related.room(group, moving=True) > 0
            enough &= self.related.may_leave(other)
        return enough

    def may_leave(self, group: int) -> Booleans:
        """Nodes that one pod of the group may leave; conservative with required affinity."""
        there: Booleans = self.counts[group] > 0
        if self.related is not None:
            there = there & self.related.may_leave(group)
        return there

    def try_changes(self, changes: t.Sequence[Change], least_gain: float | None = None) -> bool:
        """Make all changes if the result is feasible, else none.

        With ``least_gain`` also only if watts and unmet preferences fall by that amount. Incomplete
        gangs are allowed: see repair.py.
        """
        before = _cost_of(self, changes)
        for change in changes:
            self.place(*change)
        if _is_feasible_at(self, changes):
            gain = before - _cost_of(self, changes) - _added_preferences(self, changes)
            if least_gain is None or gain >= least_gain:
                return True
        for group, node, number in reversed(changes):
            self.place(group, node, -number)
        return False

    def added_cost(self, group: int, nodes: Integers, number: int = 1) -> Floats:
        """Cost change of each of these nodes with a number of further pods of the group.

        In watts, with unmet preferences.
        """
        problem = self.problem
        added = self.change(
            nodes, number * problem.use[group], number, number * int(problem.is_workload[group])
        )
        return added + self.added_preference(group, nodes, number)

    def added_preference(self, group: int, nodes: Integers, number: int = 1) -> Floats | float:
        """Cost change of unmet preferences by further pods on each of these nodes alone."""
        added: Floats | float = 0.0
        if self.problem.preference is not None:
            added = number * self.problem.preference[group, nodes]
        if self.related is not None:
            state = self.related
            added = added + state.relations.added_cost(state.counted, group, nodes, number)
        return added

    def change(self, nodes: Integers, use: t.Any, pods: t.Any, workload: t.Any) -> Floats:
        """Cost change of nodes with further microcores, pods and workload pods.

        The arguments broadcast against each other.
        """
        after = self.problem.costs.of(
            nodes, self.use[nodes] + use, self.pods[nodes] + pods, self.workload[nodes] + workload
        )
        return after - self.cost[nodes]

    def watts(self) -> float:
        """Power draw of all priced nodes, with that of their devices."""
        return float(self.cost[self.problem.costs.priced].sum()) + self._all_device_watts()

    def _all_device_watts(self) -> float:
        """Power draw of newly used devices, including devices of several nodes."""
        fleets = () if self.related is None else self.related.relations.fleets
        together = sum(rule.watts(self.related.counted) for rule in fleets if self.related)
        return float(self.device_watts().sum()) + together

    def device_watts(self) -> Floats:
        """Power draw of newly used devices on each node, without devices of several nodes."""
        watts = numpy.zeros(len(self.all_nodes))
        if self.related is not None:
            for rule in self.related.relations.contents:
                watts = watts + rule.watts(self.related.counted)
        return watts

    def preference_watts(self) -> float:
        """Cost of all unmet preferences."""
        problem = self.problem
        total = 0.0
        if problem.preference is not None:
            total += float((self.counts * problem.preference).sum())
        if self.related is not None:
            total += self.related.relations.preference_watts(self.related.counted)
        # Both parts contain the power draw of devices.
        return total - self._all_device_watts()

    def total_cost(self) -> float:
        """Power draw of all priced nodes, and the cost of unmet preferences in watts."""
        return self.watts() + self.preference_watts()

    def unpriced_pods(self) -> int:
        """Number of pods on unpriced nodes."""
        return int(self.pods[~self.problem.costs.priced].sum())

    def rank(self) -> Rank:
        """Quality of the assignment; names, the last criterion, are not decided here."""
        problem = self.problem
        placed = self.counts.sum(axis=1)
        by_priority = tuple(int(placed[level].sum()) for level in problem.levels)
        return by_priority, -self.unpriced_pods(), -self.total_cost()

    def is_feasible(self) -> bool:
        """Whether everything fits, holds and is placed only once, computed from scratch."""
        problem = self.problem
        asked = (problem.request > 0).astype(numpy.int64)
        taken = self.counts.T @ asked > 0
        free = problem.free - self.counts.T @ problem.request
        return bool(
            (self.counts >= 0).all()
            and (self.counts <= problem.limit).all()
            and (self.left() >= 0).all()
            and (free[taken] >= 0).all()
            and not incomplete_gangs(self)
            and rules_hold(self)
        )


def incomplete_gangs(assignment: Assignment) -> list[tuple[int, ...]]:
    """Gangs with some but not all pods placed."""
    relations = assignment.problem.relations
    if relations is None or not relations.gangs:
        return []
    left, counts = assignment.left(), assignment.counts
    return [gang for gang in relations.gangs if left[list(gang)].any() and counts[list(gang)].any()]


def rules_hold(assignment: Assignment) -> bool:
    """Whether all rules between pods hold, computed from scratch."""
    relations, counts = assignment.problem.relations, assignment.counts
    return relations is None or relations.hold(relations.rules, relations.count(counts), counts)


def _cost_of(assignment: Assignment, changes: t.Sequence[Change]) -> float:
    """Cost of the nodes and the soft caps that these changes touch."""
    nodes = sorted({node for _group, node, _number in changes})
    caps = 0.0
    state = assignment.related
    if state is not None:
        groups = {group for group, _node, _number in changes}
        caps = state.relations.preference_watts(state.counted, groups)
    return float(assignment.cost[nodes].sum()) + caps


def _added_preferences(assignment: Assignment, changes: t.Sequence[Change]) -> float:
    """Unmet preferences added by the changes, without soft caps."""
    preference = assignment.problem.preference
    if preference is None:
        return 0.0
    return sum(number * float(preference[group, node]) for group, node, number in changes)


def _is_feasible_at(assignment: Assignment, changes: t.Sequence[Change]) -> bool:
    """Whether all constraints that these changes may touch hold."""
    problem, counts = assignment.problem, assignment.counts
    for group, node, _number in changes:
        if not 0 <= counts[group, node] <= problem.limit[group, node]:
            return False
        asked = problem.request[group] > 0
        if counts[group, node] and (assignment.free[node][asked] < 0).any():
            return False
    if assignment.related is None:
        return True
    return assignment.related.hold({group for group, _node, _number in changes}, counts)
