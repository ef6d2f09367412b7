# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Exchanges that meet preferred terms between pods, if there are too many groups for tables of all
pairs.

A pod with an unmet preferred term goes to a node where it is met, in exchange for a pod of similar
use, which costs little power or none.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Floats, Integers
from ..model.assignment import Assignment
from .move_gains import MIN_GAIN_WATTS, Step
from .preference_gains import PreferredTermGains

# So many groups are looked at as partners of one, those of the most similar use.
_PARTNERS = 24
# So many nodes on either side, drawn anew each time.
_NODES = 32
# So many steps are proposed with each of so many partners.
_STEPS = 3


class AffinitySwaps:
    """One pod of a group with unmet preferred terms for one pod of another group."""

    def __init__(self, assignment: Assignment, seed: int) -> None:
        self._assignment = assignment
        self._random = numpy.random.default_rng(seed)
        relations, groups = assignment.problem.relations, range(len(assignment.counts))
        self._preferring = [group for group in groups if relations and relations.caps_of(group)]
        self._preferred = PreferredTermGains(assignment, self._preferring)
        self._row = numpy.full(len(groups), -1)
        self._row[self._preferring] = numpy.arange(len(self._preferring))

    def steps(self) -> list[Step]:
        """The best exchanges of each group that has a preferred term unmet."""
        self._preferred.refresh()
        return [
            step
            for row, group in enumerate(self._preferring)
            for step in self._steps_of(row, group)
        ]

    def _steps_of(self, row: int, group: int) -> t.Iterator[Step]:
        assignment = self._assignment
        leaving, entering = self._preferred.departure[row], self._preferred.arrival[row]
        unmet = (assignment.counts[group] > 0) & (leaving < -MIN_GAIN_WATTS)
        if not unmet.any():
            return
        better = entering < -float(leaving[unmet].min()) - MIN_GAIN_WATTS
        sources = self._some(unmet.nonzero()[0])
        targets = self._some(better.nonzero()[0])
        partners = self._partners(group, targets)
        if not len(partners):
            return
        alike = numpy.full(len(partners), group)
        leave = self._costs(partners, alike, sources)
        enter = self._costs(alike, partners, targets)
        total = leave.min(axis=1) + enter.min(axis=1)
        for index in numpy.argsort(total, kind="stable")[:_STEPS].tolist():
            if total[index] < -MIN_GAIN_WATTS:
                order = [
                    nodes[numpy.argsort(costs[index], kind="stable")[:_STEPS]].tolist()
                    for nodes, costs in ((sources, leave), (targets, enter))
                ]
                for source, target in zip(*order):
                    if source != target:
                        partner = int(partners[index])
                        yield Step(float(total[index]), group, source, target, partner, 1)

    def _some(self, nodes: Integers) -> Integers:
        if len(nodes) <= _NODES:
            return nodes
        drawn = self._random.choice(nodes, size=_NODES, replace=False)
        return numpy.sort(drawn)

    def _partners(self, group: int, targets: Integers) -> Integers:
        """Other groups with pods on the targets."""
        use = self._assignment.problem.use
        there: Integers = self._assignment.counts[:, targets].sum(axis=1)
        there[group] = 0
        others = there.nonzero()[0]
        order = numpy.argsort(abs(use[others] - use[group]), kind="stable")
        return others[order[:_PARTNERS]]

    def _costs(self, entering: Integers, leaving: Integers, nodes: Integers) -> Floats:
        """Cost by pair of groups and node; infinite if one cannot replace the other."""
        assignment = self._assignment
        problem = assignment.problem
        enters, leaves = numpy.ix_(entering, nodes), numpy.ix_(leaving, nodes)
        possible = (assignment.counts[leaves] > 0) & (
            assignment.counts[enters] < problem.limit[enters]
        )
        for resource in range(problem.request.shape[1]):
            more = problem.request[entering, resource] - problem.request[leaving, resource]
            enough = assignment.free[nodes, resource] >= more[:, None]
            possible &= enough | (more <= 0)[:, None]
        workload = problem.is_workload.astype(numpy.int64)
        costs = assignment.change(
            nodes,
            (problem.use[entering] - problem.use[leaving])[:, None],
            0,
            (workload[entering] - workload[leaving])[:, None],
        )
        if problem.preference is not None:
            costs += problem.preference[enters] - problem.preference[leaves]
        costs += self._of_preferred(self._preferred.arrival, entering, nodes)
        costs += self._of_preferred(self._preferred.departure, leaving, nodes)
        return numpy.where(possible, costs, numpy.inf)

    def _of_preferred(self, table: Floats, groups: Integers, nodes: Integers) -> Floats:
        """Rows of a table of preferred terms; zero for groups that have none."""
        rows = self._row[groups]
        found = table[numpy.ix_(rows, nodes)]
        return numpy.where((rows >= 0)[:, None], found, 0.0)
