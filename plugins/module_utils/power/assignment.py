# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""How many pods of each group are on each node, with what follows from it kept up to date."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.power.problem import Problem

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]
    Integers = NDArray[numpy.int64]
    Booleans = NDArray[numpy.bool_]

# (placed by priority, highest first; minus pods on unpriced nodes; minus watts): more is better.
Rank = tuple[tuple[int, ...], int, float]


class Assignment:
    """Counts of pods, group by node; never more than fits."""

    def __init__(self, problem: Problem, counts: Integers | None = None) -> None:
        self._numpy = numpy = require("numpy")
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
        self.workload: Integers = counts.T @ problem.is_workload.astype(self._numpy.int64)
        self.cost: Floats = problem.costs.of(self.all_nodes, self.use, self.pods, self.workload)

    def place(self, group: int, node: int, number: int = 1) -> None:
        """Put so many pods of the group on the node; a negative number takes them away."""
        problem = self.problem
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

    def fits(self, group: int, nodes: Integers) -> Booleans:
        """Whether one more pod of the group fits on each of these nodes."""
        request = self.problem.request[group]
        asked = request > 0
        enough = (self.free[nodes][:, asked] >= request[asked]).all(axis=1)
        return t.cast("Booleans", enough & (self.problem.limit[group, nodes] > 0))

    def fits_instead(self, group: int, other: int) -> Booleans:
        """Nodes where one pod of ``group`` fits once one of ``other`` has left."""
        problem = self.problem
        request = problem.request[group]
        asked = request > 0
        enough = (self.free + problem.request[other] >= request)[:, asked].all(axis=1)
        return t.cast("Booleans", enough & (self.counts[other] > 0) & (problem.limit[group] > 0))

    def added_cost(self, group: int, nodes: Integers, number: int = 1) -> Floats:
        """What each of these nodes costs more with so many more pods of the group."""
        problem = self.problem
        return self.change(
            nodes,
            number * problem.use[group],
            number,
            number * int(problem.is_workload[group]),
        )

    def change(self, nodes: Integers, use: t.Any, pods: t.Any, workload: t.Any) -> Floats:
        """What nodes cost more with that many more microcores, pods and workload pods.

        The arguments broadcast against each other.
        """
        after = self.problem.costs.of(
            nodes, self.use[nodes] + use, self.pods[nodes] + pods, self.workload[nodes] + workload
        )
        return after - self.cost[nodes]

    def rank(self) -> Rank:
        """How good the assignment is; names, the last criterion, are not decided here."""
        problem = self.problem
        placed = self.counts.sum(axis=1)
        by_priority = tuple(int(placed[level].sum()) for level in problem.levels)
        priced = problem.costs.priced
        return by_priority, -int(self.pods[~priced].sum()), -float(self.cost[priced].sum())

    def is_feasible(self) -> bool:
        """Whether everything fits and nothing is placed twice, counted anew."""
        problem = self.problem
        asked = (problem.request > 0).astype(self._numpy.int64)
        taken = self.counts.T @ asked > 0
        free = problem.free - self.counts.T @ problem.request
        return bool(
            (self.counts >= 0).all()
            and (self.counts <= problem.limit).all()
            and (self.left() >= 0).all()
            and (free[taken] >= 0).all()
        )
