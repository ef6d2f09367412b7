# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Gains of moves and exchanges in watts, updated incrementally.

Nodes' costs are independent, so the best move of a group is the best departure plus the best
arrival, and an exchange likewise. Only entries of changed nodes are recomputed.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Booleans, Floats, Integers
from ..model.assignment import Assignment
from .preference_gains import PreferredTermGains

MIN_GAIN_WATTS = 1e-6
# Exchanges are told apart less finely, since their tables are large.
_MIN_EXCHANGE_GAIN_WATTS = 1e-3
# So many departures of a group are paired with as many arrivals.
_MOVES_OF_A_GROUP = 16
# Entries that are computed at once.
_CHUNK = 250_000


class Step(t.NamedTuple):
    """One pod of ``group`` goes from ``source`` to ``target``, ``number`` of ``back`` return."""

    cost: float
    group: int
    source: int
    target: int
    back: int = -1
    number: int = 0


def related_groups(assignment: Assignment) -> Booleans:
    """Groups whose places affect other pods, so that tables are soon outdated."""
    relations = assignment.problem.relations
    related = numpy.zeros(len(assignment.problem.groups), dtype=bool)
    if relations is not None:
        for topology_count in relations.topology_counts:
            related |= topology_count.members
        for rule in relations.rules:
            related[list(rule.groups)] = True
    return related


class Moves:
    """Cost change of every node with one pod of each group more, or one fewer (G, N).

    Infinite if infeasible.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        related: list[int] = related_groups(assignment).nonzero()[0].tolist()
        state = assignment.related
        self._ruled = [group for group in related if state and not state.is_free(group)]
        self._arrival: Floats = numpy.full(assignment.counts.shape, numpy.inf)
        self._departure: Floats = numpy.full(assignment.counts.shape, numpy.inf)
        # Groups with preferred terms but no rules: without these they cost what the node says.
        self._preferring = [group for group in related if state and state.is_free(group)]
        self._preferred = PreferredTermGains(assignment, self._preferring)
        self._plain_arrival: Floats = self._arrival[self._preferring]
        self._plain_departure: Floats = self._departure[self._preferring]
        self._stale: set[int] = set(assignment.all_nodes.tolist())

    def forget(self, nodes: t.Iterable[int]) -> None:
        """The costs of these nodes have changed."""
        self._stale.update(nodes)

    def steps(self) -> list[Step]:
        """The best moves of each group that has any."""
        self._refresh()
        sources, leaving = self._cheapest(self._departure)
        targets, entering = self._cheapest(self._arrival)
        # The second pairing serves groups of which the best source is the best target too.
        return [
            *self._pairs(sources, leaving, targets, entering),
            *self._pairs(sources[:, 1:], leaving[:, 1:], targets, entering),
            *self._pairs(sources, leaving, targets[:, 1:], entering[:, 1:]),
        ]

    def _pairs(
        self, sources: Integers, leaving: Floats, targets: Integers, entering: Floats
    ) -> list[Step]:
        width = min(sources.shape[1], targets.shape[1])
        sources, targets = sources[:, :width], targets[:, :width]
        cost = leaving[:, :width] + entering[:, :width]
        groups, ranks = ((cost < -MIN_GAIN_WATTS) & (sources != targets)).nonzero()
        return [
            Step(*each)
            for each in zip(
                cost[groups, ranks].tolist(),
                groups.tolist(),
                sources[groups, ranks].tolist(),
                targets[groups, ranks].tolist(),
            )
        ]

    def _cheapest(self, table: Floats) -> tuple[Integers, Floats]:
        number = min(_MOVES_OF_A_GROUP, table.shape[1])
        nodes = numpy.argpartition(table, number - 1, axis=1)[:, :number]
        costs = numpy.take_along_axis(table, nodes, axis=1)
        # Equal costs in the order of nodes: the answer must not depend on how they were found.
        order = numpy.lexsort((nodes, costs), axis=1)
        return (
            numpy.take_along_axis(nodes, order, axis=1),
            numpy.take_along_axis(costs, order, axis=1),
        )

    def _refresh(self) -> None:
        assignment = self._assignment
        problem = assignment.problem
        nodes = numpy.array(sorted(self._stale), dtype=numpy.int64)
        self._stale.clear()
        size = max(1, _CHUNK // max(1, len(problem.groups)))
        for start in range(0, len(nodes), size):
            self._refresh_nodes(nodes[start : start + size])
        self._add_preferred(nodes)
        for group in self._ruled:
            everywhere = assignment.all_nodes
            self._arrival[group] = numpy.where(
                assignment.fits(group, everywhere, moving=True),
                assignment.added_cost(group, everywhere),
                numpy.inf,
            )
            self._departure[group] = numpy.where(
                assignment.may_leave(group), assignment.added_cost(group, everywhere, -1), numpy.inf
            )

    def _add_preferred(self, nodes: Integers) -> None:
        """Add the preferred terms to the costs of these nodes."""
        preferred = self._preferred
        at = numpy.ix_(numpy.array(self._preferring, dtype=numpy.int64), nodes)
        self._plain_arrival[:, nodes] = self._arrival[at]
        self._plain_departure[:, nodes] = self._departure[at]
        preferred.refresh()
        self._arrival[self._preferring] = self._plain_arrival + preferred.arrival
        self._departure[self._preferring] = self._plain_departure + preferred.departure

    def _refresh_nodes(self, nodes: Integers) -> None:
        assignment = self._assignment
        problem = assignment.problem
        use, workload = problem.use[:, None], problem.is_workload.astype(numpy.int64)[:, None]
        fits = problem.limit[:, nodes] > assignment.counts[:, nodes]
        for resource in range(problem.request.shape[1]):
            asked = problem.request[:, resource, None]
            fits &= (assignment.free[nodes, resource] >= asked) | (asked == 0)
        arrival = assignment.change(nodes, use, 1, workload)
        departure = assignment.change(nodes, -use, -1, -workload)
        if problem.preference is not None:
            arrival = arrival + problem.preference[:, nodes]
            departure = departure - problem.preference[:, nodes]
        there = assignment.counts[:, nodes] > 0
        self._arrival[:, nodes] = numpy.where(fits, arrival, numpy.inf)
        self._departure[:, nodes] = numpy.where(there, departure, numpy.inf)


class Exchanges:
    """Cost change of every node if one pod replaces ``number`` pods of another group.

    ``_leave[i, j, n]``: one of ``i`` leaves node ``n`` and ``number`` of ``j`` enter it;
    ``_enter[i, j, n]``: one of ``i`` enters and ``number`` of ``j`` leave. Infinite if infeasible.
    For groups with rules between pods they are only estimates.
    """

    def __init__(self, assignment: Assignment, groups: Integers, number: int) -> None:
        self._assignment = assignment
        self._groups = groups
        self._number = number
        shape = (len(groups), len(groups), len(assignment.all_nodes))
        self._leave: Floats = numpy.full(shape, numpy.inf, dtype=numpy.float32)
        self._enter: Floats = numpy.full(shape, numpy.inf, dtype=numpy.float32)
        self._preferred = PreferredTermGains(assignment, groups.tolist())
        self._stale: set[int] = set(assignment.all_nodes.tolist())

    def forget(self, nodes: t.Iterable[int]) -> None:
        """The costs of these nodes have changed."""
        self._stale.update(nodes)

    def steps(self) -> list[Step]:
        """The best exchanges of each pair of groups that has any."""
        self._refresh()
        if len(self._groups) < 2:
            return []
        cheapest = self._leave.min(axis=2) + self._enter.min(axis=2)
        promising = cheapest < -_MIN_EXCHANGE_GAIN_WATTS
        if self._number == 1:
            promising = numpy.triu(promising, k=1)
        groups, others = promising.nonzero()
        return [
            step for pair in zip(groups.tolist(), others.tolist()) for step in self._pairs(*pair)
        ]

    def _pairs(self, row: int, column: int) -> list[Step]:
        """The cheapest pairs of different nodes, if they save power."""
        leave, enter = self._leave[row, column], self._enter[row, column]
        group, other = int(self._groups[row]), int(self._groups[column])
        steps = []
        for source in self._two_cheapest(leave):
            for target in self._two_cheapest(enter):
                cost = float(leave[source]) + float(enter[target])
                if source != target and cost < -_MIN_EXCHANGE_GAIN_WATTS:
                    steps.append(Step(cost, group, source, target, other, self._number))
        return steps

    def _two_cheapest(self, costs: Floats) -> list[int]:
        first = int(costs.argmin())
        if len(costs) == 1:
            return [first]
        others = costs.copy()
        others[first] = numpy.inf
        return [first, int(others.argmin())]

    def _refresh(self) -> None:
        self._stale.update(self._preferred.refresh().tolist())
        stale = numpy.array(sorted(self._stale), dtype=numpy.int64)
        size = max(1, _CHUNK // max(1, len(self._groups) ** 2))
        for start in range(0, len(stale), size):
            nodes = stale[start : start + size]
            self._leave[:, :, nodes] = self._replace(nodes, 1, self._number)
            if self._number == 1:
                self._enter[:, :, nodes] = self._leave[:, :, nodes].transpose(1, 0, 2)
            else:
                back = self._replace(nodes, self._number, 1)
                self._enter[:, :, nodes] = back.transpose(1, 0, 2)
        self._stale.clear()

    def _replace(self, nodes: Integers, leaving: int, entering: int) -> Floats:
        """Cost change of ``nodes`` if pods of one group leave and pods of another enter.

        By the group that leaves, the group that enters, and node.
        """
        assignment, groups = self._assignment, self._groups
        problem = assignment.problem
        counts, limit = assignment.counts[groups][:, nodes], problem.limit[groups][:, nodes]
        # Few groups have pods on a node: one row for each that has.
        rows, columns = (counts >= leaving).nonzero()
        at, gone = nodes[columns], groups[rows]
        possible = (counts + entering <= limit)[:, columns].T
        request = problem.request[groups]
        for resource in range(request.shape[1]):
            more = entering * request[:, resource] - leaving * request[rows, resource][:, None]
            possible &= (assignment.free[at, resource][:, None] >= more) | (more <= 0)
        use, workload = problem.use, problem.is_workload.astype(numpy.int64)
        costs = assignment.change(
            at[:, None],
            entering * use[groups] - leaving * use[gone][:, None],
            entering - leaving,
            entering * workload[groups] - leaving * workload[gone][:, None],
        )
        if problem.preference is not None:
            costs += entering * problem.preference[groups][:, at].T
            costs -= leaving * problem.preference[gone, at][:, None]
        if self._preferred.matter:
            costs += entering * self._preferred.arrival[:, at].T
            costs += leaving * self._preferred.departure[rows, at][:, None]
        table = numpy.full((len(groups), len(groups), len(nodes)), numpy.inf)
        table[rows, :, columns] = numpy.where(possible, costs, numpy.inf)
        return table
