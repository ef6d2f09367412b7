# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Tabu search over overfull assignments, minimising total excess demand.

A pod of an overfull node goes to another node, or changes places with a pod there or with a waiting
pod. The excess may only move to another node, so a change is tabu for a while, and the weight of
persistent excess grows. So the search leaves every local minimum.
"""

from __future__ import annotations

import random
import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Booleans, Floats, Integers
from ..model.assignment import Assignment, Change
from .move_gains import related_groups

# Of more nodes a random part is looked at in each step.
_MAX_NODES = 60
# To ask all rules between pods in each step takes long: in larger fleets pods with rules stay.
_MAX_NODES_WITH_RULES = 150
# What is still lacking where no change helps weighs so many times as much from then on.
_HEAVIER = 1.3
# A pod does not come back for so many steps, at the least and at the most.
_AWAY = (3, 10)
# Differences below this come from rounding.
_EQUAL = 1e-9


class _Partners(t.NamedTuple):
    """Exchange partners of a pod: one of ``entering`` from ``nodes[at]``.

    The position after the last node stands for waiting pods, and the group after the last one for
    no partner.
    """

    nodes: Integers
    at: Integers
    entering: Integers


class InfeasibleSpaceTabuSearch:
    """``assignment`` with overfull nodes, changed only through this class.

    Pods of ``gangs`` do not wait for others.
    """

    def __init__(self, assignment: Assignment, gangs: t.Collection[int], seed: int) -> None:
        self._assignment = assignment
        self._random = random.Random(seed)
        problem = assignment.problem
        groups, resources = problem.request.shape
        self._nothing = groups
        self._request: Integers = numpy.vstack([problem.request, numpy.zeros((1, resources), int)])
        # What is lacking of any resource counts in pods of average size.
        mean = (problem.request * problem.count[:, None]).sum(axis=0) / max(problem.count.sum(), 1)
        self._unit: Floats = numpy.where(mean > 0, 1.0 / numpy.maximum(mean, 1e-9), 0.0)
        # What running pods take beyond what there is lacks nobody here.
        self._overdrawn: Integers = numpy.maximum(-problem.free, 0)
        self._may_wait = numpy.ones(groups, dtype=bool)
        self._may_wait[list(gangs)] = False
        self._priority = numpy.array([group.shape.priority for group in problem.groups])
        self._ruled: list[int] = related_groups(assignment).nonzero()[0].tolist()
        self._left: Integers = assignment.left()
        self._weight: Floats = numpy.tile(self._unit, (len(problem.free), 1))
        self._barred: Integers = numpy.zeros(problem.limit.shape, dtype=numpy.int64)
        self._step = 0
        self._heavier: set[int] = set()
        self._overfull: set[int] = set()

    def forget(self) -> None:
        """Restart: no change is tabu, and all weights are equal."""
        self._weight[list(self._heavier)] = self._unit
        self._heavier.clear()
        self._step += _AWAY[1]

    def size_of(self, groups: t.Sequence[int]) -> float:
        """Request of one pod of each of these groups, in pods of average size."""
        return float((self._request[list(groups)] * self._unit).max(axis=1, initial=0.0).sum())

    def left(self, group: int) -> int:
        """Number of unplaced pods of the group."""
        return int(self._left[group])

    def overfull(self) -> list[int]:
        """The overfull nodes."""
        return sorted(self._overfull)

    def place(self, changes: t.Iterable[Change]) -> None:
        """Make changes, unchecked."""
        for group, node, number in changes:
            self._assignment.place(group, node, number)
            self._left[group] -= number
            is_overfull = bool((self._room(node) < 0).any())
            (self._overfull.add if is_overfull else self._overfull.discard)(node)

    def take_back(self, changes: t.Sequence[Change]) -> None:
        """Undo changes."""
        self.place((group, node, -number) for group, node, number in reversed(changes))

    def add(self, group: int) -> list[Change]:
        """Place a pod of the group with the smallest excess; nothing if no node is open.

        Rules between pods hold.
        """
        assignment = self._assignment
        is_open = assignment.problem.limit[group] > assignment.counts[group]
        if assignment.related is not None:
            is_open &= assignment.related.room(group) > 0
        nodes = is_open.nonzero()[0]
        if not len(nodes):
            return []
        lacking = self._lack(self._room(nodes) - self._request[group], self._weight[nodes])
        least = nodes[lacking <= lacking.min() + _EQUAL]
        node = int(least[assignment.added_cost(group, least).argmin()])
        changes = [(group, node, 1)]
        self.place(changes)
        return changes

    def relieve(self, node: int) -> list[Change]:
        """Make the change of one of the node's pods that reduces the excess most.

        Returns nothing if no change is allowed, or none keeps the rules between pods.
        """
        self._step += 1
        nodes = self._some_nodes(node)
        enter, leave = self._open(numpy.append(nodes, node))
        leaving = leave[:, -1].nonzero()[0]
        partners = self._partners(nodes, enter[:, -1], leave[:, :-1])
        if not len(leaving) or not len(partners.at):
            return []
        possible = self._possible(leaving, enter[:, :-1], partners)
        cost = numpy.where(possible, self._added(node, leaving, partners), numpy.inf)
        least = float(cost.min())
        if least == numpy.inf:
            return []
        if least >= -_EQUAL:
            self._make_heavier()
        equal = numpy.flatnonzero(cost <= least + _EQUAL)
        row, column = divmod(int(equal[self._random.randrange(len(equal))]), len(partners.at))
        changes = self._changes(node, int(leaving[row]), partners, column)
        for group, source, number in changes:
            if number < 0:
                self._barred[group, source] = self._step + self._random.randint(*_AWAY)
        self.place(changes)
        if self._rules_hold(changes):
            return changes
        self.take_back(changes)
        return []

    def _make_heavier(self) -> None:
        nodes = self.overfull()
        self._weight[nodes] = numpy.where(
            self._room(nodes) < 0, self._weight[nodes] * _HEAVIER, self._weight[nodes]
        )
        self._heavier |= self._overfull

    def _rules_hold(self, changes: t.Iterable[Change]) -> bool:
        state = self._assignment.related
        groups = {group for group, _node, _number in changes}
        return state is None or state.hold(groups, self._assignment.counts)

    def _some_nodes(self, node: int) -> Integers:
        every = self._assignment.all_nodes
        if len(every) > _MAX_NODES:
            every = numpy.array(self._random.sample(range(len(every)), _MAX_NODES))
        found: Integers = every[every != node]
        return found

    def _open(self, nodes: Integers) -> tuple[Booleans, Booleans]:
        """Nodes that one more pod of each group may enter, and nodes that one may leave (G, N)."""
        assignment, state = self._assignment, self._assignment.related
        counts = assignment.counts[:, nodes]
        enter = assignment.problem.limit[:, nodes] > counts
        enter &= self._barred[:, nodes] <= self._step
        leave = counts > 0
        if state is None or len(assignment.all_nodes) > _MAX_NODES_WITH_RULES:
            enter[self._ruled] = leave[self._ruled] = False
            return enter, leave
        for group in self._ruled:
            enter[group] &= state.room(group)[nodes] > 0
            leave[group] &= state.may_leave(group)[nodes]
        return enter, leave

    def _partners(self, nodes: Integers, enter: Booleans, leave: Booleans) -> _Partners:
        """``enter`` are the groups that may enter; ``leave`` those that may leave the nodes."""
        there = numpy.column_stack([leave, (self._left > 0) & self._may_wait])
        entering, at = (there & enter[:, None]).nonzero()
        alone = numpy.full(len(nodes), self._nothing)
        return _Partners(
            nodes,
            numpy.concatenate([numpy.arange(len(nodes)), at]),
            numpy.concatenate([alone, entering]),
        )

    def _possible(self, leaving: Integers, enter: Booleans, partners: _Partners) -> Booleans:
        """Whether a pod of each group that leaves may go where each partner is."""
        is_open = numpy.column_stack([enter[leaving], self._may_wait[leaving]])
        possible: Booleans = is_open[:, partners.at] & (leaving[:, None] != partners.entering)
        # It waits only for one that is as important.
        out = partners.at == len(partners.nodes)
        comes = self._priority[partners.entering[out]]
        possible[:, out] &= self._priority[leaving][:, None] <= comes
        return possible

    def _added(self, node: int, leaving: Integers, partners: _Partners) -> Floats:
        """Increase of the excess by each change, on both nodes."""
        real = partners.at < len(partners.nodes)
        more = self._request[leaving][:, None] - self._request[partners.entering]
        here, weight = self._room(node), self._weight[node]
        added = self._lack(here + more, weight) - self._lack(here, weight)
        others = partners.nodes[partners.at[real]]
        there, weights = self._room(others), self._weight[others]
        added[:, real] += self._lack(there - more[:, real], weights) - self._lack(there, weights)
        return added

    def _room(self, nodes: t.Any) -> Integers:
        found: Integers = self._assignment.free[nodes] + self._overdrawn[nodes]
        return found

    def _lack(self, room: Integers, weight: Floats) -> Floats:
        found: Floats = (numpy.maximum(-room, 0) * weight).sum(axis=-1)
        return found

    def _changes(self, node: int, group: int, partners: _Partners, column: int) -> list[Change]:
        other, at = int(partners.entering[column]), int(partners.at[column])
        changes: list[Change] = [(group, node, -1)]
        if at < len(partners.nodes):
            target = int(partners.nodes[at])
            if other < self._nothing:
                changes.append((other, target, -1))
            changes.append((group, target, 1))
        if other < self._nothing:
            changes.append((other, node, 1))
        return changes
