# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""How many pods of each group are on each node, with what follows from it kept up to date.

``room``, ``fits`` and ``may_leave`` look one step ahead. A change of several steps at once is tried
by ``try_changes``, which alone decides where pods have rules about each other.
"""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import numpy
from ansible_collections.wattwise.kube.plugins.module_utils.power.constraints.relations import (
    RelationState,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import Problem

if t.TYPE_CHECKING:
    from ansible_collections.wattwise.kube.plugins.module_utils.solving.arrays import (
        Booleans,
        Floats,
        Integers,
    )


# (placed by priority, highest first; minus pods on unpriced nodes; minus watts with what unmet
# preferences are worth): more is better.
Rank = tuple[tuple[int, ...], int, float]
# Group, node, and how many pods more or (negative) fewer.
Change = tuple[int, int, int]


class Assignment:
    """Counts of pods, group by node; never more than fits."""

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
        """Put so many pods of the group on the node, unchecked; a negative number takes away."""
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
        return t.cast("Integers", self.problem.count - self.counts.sum(axis=1))

    def room(self, group: int) -> Integers:
        """How many more pods of the group each node can take now, if no other node took any."""
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

        Of one that is ``moving`` from another node try_changes may know better.
        """
        request = self.problem.request[group]
        asked = request > 0
        enough = (self.free[nodes][:, asked] >= request[asked]).all(axis=1)
        enough &= self.problem.limit[group, nodes] > 0
        if self.related is not None and not self.related.is_free(group):
            enough &= self.related.room(group, moving=moving)[nodes] > 0
        return t.cast("Booleans", enough)

    def fits_instead(self, group: int, other: int) -> Booleans:
        """Nodes where one pod of ``group`` fits once one of ``other`` has left.

        Where rules between pods concern one of the two, try_changes has the last word.
        """
        problem = self.problem
        request = problem.request[group]
        asked = request > 0
        enough = (self.free + problem.request[other] >= request)[:, asked].all(axis=1)
        enough &= (self.counts[other] > 0) & (problem.limit[group] > 0)
        if self.related is not None:
            enough &= self.related.room(group, moving=True) > 0
            enough &= self.related.may_leave(other)
        return t.cast("Booleans", enough)

    def may_leave(self, group: int) -> Booleans:
        """Nodes that one pod of the group may leave; overly careful with required affinity."""
        there = self.counts[group] > 0
        if self.related is not None:
            there = there & self.related.may_leave(group)
        return t.cast("Booleans", there)

    def try_changes(self, changes: t.Sequence[Change], least_gain: float | None = None) -> bool:
        """Carry out all changes if the result is feasible, else none.

        With ``least_gain`` also only if watts and unmet preferences fall by as much. Incomplete
        gangs are no obstacle: see repair.py.
        """
        before = self._cost_of(changes)
        for change in changes:
            self.place(*change)
        if self._is_feasible_at(changes):
            gain = before - self._cost_of(changes) - self._added_wishes(changes)
            if least_gain is None or gain >= least_gain:
                return True
        for group, node, number in reversed(changes):
            self.place(group, node, -number)
        return False

    def _cost_of(self, changes: t.Sequence[Change]) -> float:
        """What the nodes and the soft caps cost that these changes touch."""
        nodes = sorted({node for _group, node, _number in changes})
        caps = 0.0
        if self.related is not None:
            groups = {group for group, _node, _number in changes}
            caps = self.related.relations.preference_watts(self.related.counted, groups)
        return float(self.cost[nodes].sum()) + caps

    def _added_wishes(self, changes: t.Sequence[Change]) -> float:
        """What the changes added in unmet preferences, those of soft caps aside."""
        preference = self.problem.preference
        if preference is None:
            return 0.0
        return sum(number * float(preference[group, node]) for group, node, number in changes)

    def _is_feasible_at(self, changes: t.Sequence[Change]) -> bool:
        """Whether everything holds that these changes can have touched."""
        problem = self.problem
        for group, node, _number in changes:
            if not 0 <= self.counts[group, node] <= problem.limit[group, node]:
                return False
            asked = problem.request[group] > 0
            if self.counts[group, node] and (self.free[node][asked] < 0).any():
                return False
        if self.related is None:
            return True
        return self.related.hold({group for group, _node, _number in changes}, self.counts)

    def incomplete_gangs(self) -> list[tuple[int, ...]]:
        """Gangs of which some pods are placed but not all."""
        relations = self.problem.relations
        if relations is None:
            return []
        left = self.left()
        return [
            gang
            for gang in relations.gangs
            if left[list(gang)].any() and self.counts[list(gang)].any()
        ]

    def added_cost(self, group: int, nodes: Integers, number: int = 1) -> Floats:
        """What each of these nodes costs more with so many more pods of the group.

        In watts, with unmet preferences.
        """
        problem = self.problem
        added = self.change(
            nodes,
            number * problem.use[group],
            number,
            number * int(problem.is_workload[group]),
        )
        return added + self.added_preference(group, nodes, number)

    def added_preference(self, group: int, nodes: Integers, number: int = 1) -> Floats | float:
        """What unmet preferences cost more with so many more pods on each of these nodes alone."""
        added: t.Any = 0.0
        if self.problem.preference is not None:
            added = number * self.problem.preference[group, nodes]
        if self.related is not None:
            state = self.related
            added = added + state.relations.added_cost(state.counted, group, nodes, number)
        return t.cast("Floats | float", added)

    def added_by_caps(self, group: int, number: int) -> Floats | float:
        """The part of added_preference that depends on other waiting pods, on all nodes."""
        state = self.related
        if state is None:
            return 0.0
        return state.relations.added_by_caps(state.counted, group, self.all_nodes, number)

    def change(self, nodes: Integers, use: t.Any, pods: t.Any, workload: t.Any) -> Floats:
        """What nodes cost more with that many more microcores, pods and workload pods.

        The arguments broadcast against each other.
        """
        after = self.problem.costs.of(
            nodes, self.use[nodes] + use, self.pods[nodes] + pods, self.workload[nodes] + workload
        )
        return after - self.cost[nodes]

    def watts(self) -> float:
        """Watts of all priced nodes, with those of their devices."""
        return float(self.cost[self.problem.costs.priced].sum()) + self._all_device_watts()

    def _all_device_watts(self) -> float:
        """What devices in new use draw, those that several nodes can use among them."""
        fleets = () if self.related is None else self.related.relations.fleets
        together = sum(rule.watts(self.related.counted) for rule in fleets if self.related)
        return float(self.device_watts().sum()) + together

    def device_watts(self) -> Floats:
        """What devices in new use draw on each node, but for those that several nodes can use."""
        watts = numpy.zeros(len(self.all_nodes))
        if self.related is not None:
            for rule in self.related.relations.contents:
                watts = watts + rule.watts(self.related.counted)
        return watts

    def preference_watts(self) -> float:
        """What all unmet preferences are worth."""
        return self._linear_watts() - self._all_device_watts()

    def _linear_watts(self) -> float:
        """What pods cost beside their CPU use: unmet preferences, and devices."""
        problem = self.problem
        total = 0.0
        if problem.preference is not None:
            total += float((self.counts * problem.preference).sum())
        if self.related is not None:
            total += self.related.relations.preference_watts(self.related.counted)
        return total

    def rank(self) -> Rank:
        """How good the assignment is; names, the last criterion, are not decided here."""
        problem = self.problem
        placed = self.counts.sum(axis=1)
        by_priority = tuple(int(placed[level].sum()) for level in problem.levels)
        elsewhere = int(self.pods[~problem.costs.priced].sum())
        return by_priority, -elsewhere, -(self.watts() + self.preference_watts())

    def is_feasible(self) -> bool:
        """Whether everything fits and holds and nothing is placed twice, counted anew."""
        problem = self.problem
        asked = (problem.request > 0).astype(numpy.int64)
        taken = self.counts.T @ asked > 0
        free = problem.free - self.counts.T @ problem.request
        return bool(
            (self.counts >= 0).all()
            and (self.counts <= problem.limit).all()
            and (self.left() >= 0).all()
            and (free[taken] >= 0).all()
            and not self.incomplete_gangs()
            and self.rules_hold()
        )

    def rules_hold(self) -> bool:
        """Whether all rules between pods hold, counted anew."""
        relations = self.problem.relations
        if relations is None:
            return True
        return relations.hold(relations.rules, relations.count(self.counts), self.counts)
