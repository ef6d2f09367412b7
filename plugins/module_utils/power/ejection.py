# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Room for pods that fit nowhere: smaller ones give way, and look for another place in turn."""

from __future__ import annotations

import heapq
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.power.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.difference_tables import (
    related_groups,
)

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]
    Integers = NDArray[numpy.int64]

# Steps for each pod without a place, and at the most for all together.
_STEPS_FOR_A_POD = 40
_MOST_STEPS = 4000


def eject(assignment: Assignment) -> Assignment:
    """The better of the assignment and of one in which more of its pods have a place."""
    left = assignment.left()
    if not left.any():
        return assignment
    trial = Assignment(assignment.problem, assignment.counts)
    _Ejection(trial).run(min(_STEPS_FOR_A_POD * int(left.sum()), _MOST_STEPS))
    return max(assignment, trial, key=Assignment.rank)


class _Ejection:
    """Pods without a place, the largest first. Pods with rules about others stay where they are."""

    def __init__(self, assignment: Assignment) -> None:
        self._numpy = numpy = require("numpy")
        self._assignment = assignment
        problem = assignment.problem
        total = numpy.maximum(problem.free, 0).sum(axis=0)
        self._sizes: Floats = (problem.request / numpy.maximum(total, 1)).max(axis=1, initial=0.0)
        self._movable = ~related_groups(assignment)
        self._waiting: list[tuple[int, float, int]] = []
        # Where pods gave way before, others do so less readily: no two keep on changing places.
        self._visits: Integers = numpy.zeros(len(problem.instance.nodes), dtype=numpy.int64)
        for group, number in enumerate(assignment.left().tolist()):
            if self._movable[group] and (problem.limit[group] > 0).any():
                self._wait(group, number)

    def run(self, steps: int) -> None:
        for _step in range(steps):
            if not self._waiting:
                return
            group = heapq.heappop(self._waiting)[2]
            self._place(group)

    def _wait(self, group: int, number: int) -> None:
        priority = self._assignment.problem.groups[group].shape.priority
        for _pod in range(number):
            heapq.heappush(self._waiting, (-priority, -float(self._sizes[group]), group))

    def _place(self, group: int) -> None:
        assignment = self._assignment
        nodes = assignment.fits(group, assignment.all_nodes).nonzero()[0]
        if len(nodes):
            costs = assignment.added_cost(group, nodes)
            assignment.place(group, int(nodes[costs.argmin()]))
            return
        found = self._cheapest_ejection(group)
        if found is not None:
            other, node, number = found
            assignment.place(other, node, -number)
            assignment.place(group, node)
            self._visits[node] += 1
            self._wait(other, number)

    def _cheapest_ejection(self, group: int) -> tuple[int, int, int] | None:
        """Group, node and number of the pods that take least when they give way."""
        numpy, assignment, problem = self._numpy, self._assignment, self._assignment.problem
        request = problem.request[group]
        smaller = self._movable & (self._sizes < self._sizes[group])
        others = (smaller & assignment.counts.any(axis=1)).nonzero()[0]
        nodes = (problem.limit[group] > assignment.counts[group]).nonzero()[0]
        if not len(others) or not len(nodes):
            return None
        number = numpy.ones((len(others), len(nodes)), dtype=numpy.int64)
        for resource in request.nonzero()[0].tolist():
            lacking = numpy.maximum(request[resource] - assignment.free[nodes, resource], 0)
            given = problem.request[others, resource][:, None]
            needed = -(-lacking // numpy.maximum(given, 1))
            never = numpy.iinfo(numpy.int64).max // 2
            needed = numpy.where((given == 0) & (lacking > 0), never, needed)
            number = numpy.maximum(number, needed)
        possible = number <= assignment.counts[others][:, nodes]
        if not possible.any():
            return None
        size = number * self._sizes[others][:, None] * (1 + self._visits[nodes])
        best = int(numpy.where(possible, size, numpy.inf).argmin())
        other, node = divmod(best, len(nodes))
        return int(others[other]), int(nodes[node]), int(number[other, node])
