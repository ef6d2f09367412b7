# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Placements within the limits of power domains.

A strategy places without regard to racks and the fleet. Where a domain would draw more than its
limit, pods of the lowest priority leave it, its nodes keep at most the load that is left, and the
strategy places all pods again. Whatever still fits is added, and at the end the placed pods are
placed once more by themselves, for fewer watts. Limits of single nodes are exact from the start:
they are a resource of the node (see model/problem.py).
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ...base.libraries import numpy
from ...solving.arrays import Booleans, Floats, Integers
from ..model.assignment import Assignment
from ..model.problem import Problem, narrowed
from ..model.repair import settled
from .domains import at_limit, is_metered

# Further placements after the first one; each closes at least one domain.
_MAX_ROUNDS = 4
_TOLERANCE_WATTS = 1e-6

Place = t.Callable[[Problem], Assignment]


def within(start: Assignment, place: Place, is_over: t.Callable[[], bool]) -> Assignment:
    """The start if it keeps all limits, else the best placement found that does.

    ``place`` is the strategy, ``is_over`` whether its time is over.
    """
    problem = start.problem
    if not problem.instance.domains:
        return start
    power = DomainPower(problem)
    if not power.excess(start).any():
        return start
    found, best = start, None
    most: Floats = numpy.full(len(start.all_nodes), numpy.inf)
    for rounds in range(_MAX_ROUNDS + 1):
        exceeded = power.excess(found) > 0
        kept = power.trimmed(found)
        best = kept if best is None else max(best, kept, key=Assignment.rank)
        if not exceeded.any() or rounds == _MAX_ROUNDS or is_over():
            break
        for domain in exceeded.nonzero()[0].tolist():
            nodes = power.nodes[domain]
            most[nodes] = numpy.minimum(most[nodes], kept.use[nodes])
        found = Assignment(problem, place(narrowed(problem, most)).counts)
    if best is None:
        raise AssertionError
    best = max(best, power.filled(best), key=Assignment.rank)
    # The same pods may draw less elsewhere, which makes room for others.
    for wider in (problem, narrowed(problem, most)):
        if is_over():
            break
        same = replace(wider, count=best.counts.sum(axis=1))
        found = power.filled(power.trimmed(Assignment(problem, place(same).counts)))
        best = max(best, found, key=Assignment.rank)
    return best


class DomainPower:
    """Power draw of the domains of a problem under an assignment. Axes: D domains, N nodes."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        instance = problem.instance
        self.domains = instance.domains
        index_of = {node.name: index for index, node in enumerate(instance.nodes)}
        self.nodes: list[Integers] = [
            numpy.array([index_of[name] for name in domain.nodes], dtype=numpy.int64)
            for domain in self.domains
        ]
        self._limit: Floats = numpy.array([one.limit_watts for one in self.domains])
        self._beside: Floats = numpy.array([one.beside_watts for one in self.domains])
        self._metered: Booleans = numpy.array(
            [is_metered(node) for node in instance.nodes], dtype=bool
        )
        self._priority: Integers = numpy.array(
            [group.shape.priority for group in problem.groups], dtype=numpy.int64
        )
        self._is_fleet: Booleans = numpy.array([one.kind == "fleet" for one in self.domains])
        # One pair for each node of each domain.
        self._pair_node: Integers = numpy.concatenate([*self.nodes, numpy.zeros(0, numpy.int64)])
        self._pair_domain: Integers = numpy.repeat(
            numpy.arange(len(self.domains)), [len(one) for one in self.nodes]
        )
        relations = problem.relations
        self._with_devices = (
            {group for rule in relations.drawing for group in rule.check.groups}
            if relations is not None
            else set()
        )

    def draw(self, assignment: Assignment) -> Floats:
        """Power draw of each domain in W; a machine that may sleep counts as awake."""
        problem, costs = self._problem, self._problem.costs
        by_node = numpy.where(
            self._metered, costs.watts(assignment.all_nodes, costs.base + assignment.use), 0.0
        )
        by_node = by_node + assignment.device_watts()
        found: Floats = self._beside.copy()
        numpy.add.at(found, self._pair_domain, by_node[self._pair_node])
        if self._with_devices and problem.relations is not None:
            fleets, counted = problem.relations.fleets, assignment.related
            shared = sum(rule.watts(counted.counted) for rule in fleets) if counted else 0.0
            found[self._is_fleet] += shared
        return found

    def excess(self, assignment: Assignment) -> Floats:
        """Power draw of each domain above its limit; 0 within."""
        above = self.draw(assignment) - self._limit
        found: Floats = numpy.where(above > _TOLERANCE_WATTS, above, 0.0)
        return found

    def headroom(self, assignment: Assignment) -> Floats:
        """Watts that each node may draw more; infinite without a limit."""
        left = self._limit - self.draw(assignment) + _TOLERANCE_WATTS
        found: Floats = numpy.full(len(assignment.all_nodes), numpy.inf)
        numpy.minimum.at(found, self._pair_node, left[self._pair_domain])
        return found

    def added(self, assignment: Assignment, use: t.Any, nodes: Integers) -> Floats:
        """Change of the power draw of nodes by further microcores, without devices."""
        costs = self._problem.costs
        now = costs.base[nodes] + assignment.use[nodes]
        change = costs.watts(nodes, now + use) - costs.watts(nodes, now)
        found: Floats = numpy.where(self._metered[nodes], change, 0.0)
        return found

    def trimmed(self, found: Assignment) -> Assignment:
        """The part of an assignment that keeps all limits: pods of the lowest priority leave."""
        assignment = settled(found.problem, found.counts)
        while True:
            excess = self.excess(assignment)
            exceeded = excess.nonzero()[0].tolist()
            # Nodes of a domain that is over its limit without any pod are closed, and have none.
            steps = (self._leaving(assignment, one, float(excess[one])) for one in exceeded)
            step = next(filter(None, steps), None)
            if step is None:
                return assignment
            assignment.place(*step, -1)
            if not any(self.excess(assignment)[exceeded]):
                # Pods whose rules do not hold any more leave, too.
                assignment = settled(found.problem, assignment.counts)

    def _leaving(
        self, assignment: Assignment, domain: int, excess: float
    ) -> tuple[int, int] | None:
        """Group and node of the next pod to leave: of the lowest priority the smallest that is
        enough, else the largest. A pod that draws nothing leaves last."""
        nodes, problem = self.nodes[domain], self._problem
        groups: Integers = numpy.arange(len(problem.groups))
        there = assignment.counts[:, nodes] > 0
        saved = -self.added(assignment, -problem.use[:, None], nodes)
        draws = numpy.isin(groups, list(self._with_devices))[:, None]
        paying = there & ((saved > 0) | draws)
        candidates = paying if paying.any() else there
        if not candidates.any():
            return None
        lowest = self._priority[candidates.any(axis=1)].min()
        candidates &= (self._priority == lowest)[:, None]
        enough = candidates & (saved >= excess)
        worth = (
            numpy.where(enough, -saved, -numpy.inf)
            if enough.any()
            else numpy.where(candidates, saved, -numpy.inf)
        )
        group, column = numpy.unravel_index(int(worth.argmax()), worth.shape)
        return int(group), int(nodes[column])

    def filled(self, start: Assignment) -> Assignment:
        """The assignment with all further pods that fit within the limits, gangs aside."""
        assignment = Assignment(start.problem, start.counts)
        problem = assignment.problem
        for level in problem.levels:
            for group in level:
                if not problem.groups[group].shape.relations.gang:
                    self._fill(assignment, group)
        return self.trimmed(assignment)

    def _fill(self, assignment: Assignment, group: int) -> None:
        nodes, use = assignment.all_nodes, int(self._problem.use[group])
        barred: Booleans = numpy.zeros(len(nodes), dtype=bool)
        while assignment.left()[group] > 0:
            is_open = assignment.fits(group, nodes) & ~barred
            is_open &= self.added(assignment, use, nodes) <= self.headroom(assignment)
            if not is_open.any():
                return
            cost = numpy.where(is_open, assignment.added_cost(group, nodes), numpy.inf)
            node = int(cost.argmin())
            assignment.place(group, node)
            if self.excess(assignment).any():
                # Its devices draw too much.
                assignment.place(group, node, -1)
                barred[node] = True

    def reason(self, assignment: Assignment, group: int, node: int) -> str | None:
        """Why a pod that else fits on the node may not add its power draw there; None if it may."""
        use = int(self._problem.use[group])
        here: Integers = numpy.array([node], dtype=numpy.int64)
        added, draw = float(self.added(assignment, use, here)[0]), self.draw(assignment)
        for domain in self._pair_domain[self._pair_node == node].tolist():
            limit, now = float(self._limit[domain]), float(draw[domain])
            if now + added <= limit + _TOLERANCE_WATTS:
                continue
            least = float(self.added(assignment, use, self.nodes[domain]).min())
            return at_limit(self.domains[domain], now, least)
        return None
