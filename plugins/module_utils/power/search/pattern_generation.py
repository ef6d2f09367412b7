# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Redistribution of all pods if a resource binds, by column generation over nodes' contents.

A pattern is a possible content of one node. A linear program chooses among the known patterns, and
its prices of pods are the input of the knapsack for better ones. Each node has one row and each
group another, so hardly more nodes than groups get fractions of several patterns; nearly all get a
whole one. If memory binds, that leaves far less of it unused than moves and exchanges of single
pods.
"""

from __future__ import annotations

import math

from ...base.libraries import numpy
from ...solving.arrays import Floats, Integers
from ...solving.growing_model import GrowingModel, Optimum
from ...solving.limits import Limits
from ..model.assignment import Assignment
from ..model.node_functions import NodeFunctions
from .pattern_knapsack import Fleet, PatternKnapsack

_MAX_ROUNDS = 10
# The first patterns are the best ones at the given prices, and at some prices around them.
_FIRST_PRICES = 4
_SPREAD_OF_PRICES = 0.02
# Prices of the program stay within this share of the given ones.
_PRICE_BOX = 0.05
# Less than this share of a resource never binds.
_SCARCE = 0.8
_PART = 1e-9


def deal_out_anew(
    start: Assignment, functions: NodeFunctions, pod_price: Floats, limits: Limits
) -> Integers | None:
    """Counts (G, N) that place the pods of ``start``, or nearly all of them, for less power.

    ``pod_price`` are good prices of a pod of each group in watts: a relaxation's. None if no
    resource is scarce, or too few pods may move freely. Pods with rules keep their nodes.
    """
    pool = _Pool.of(start, functions, pod_price)
    if pool is None:
        return None
    random = numpy.random.default_rng(limits.seed)
    for number in range(_FIRST_PRICES):
        if limits.expired():
            return None
        noise = random.normal(0.0, _SPREAD_OF_PRICES if number else 0.0, len(pod_price))
        pool.add_best(pod_price * (1.0 + noise))
    found = None
    for _round in range(_MAX_ROUNDS):
        optimum = pool.model.solve(limits)
        if optimum is None:
            break
        found = optimum
        if not pool.add_best(pool.pod_prices(optimum)):
            break
    return None if found is None else pool.rounded(found)


class _Pool:
    """The patterns known so far, each a column of the program."""

    def __init__(
        self, start: Assignment, knapsack: PatternKnapsack, fixed: Integers, pod_price: Floats
    ) -> None:
        self._start, self._knapsack, self._fixed = start, knapsack, fixed
        problem = start.problem
        self._fixed_use: Integers = fixed.T @ problem.use
        self._fixed_pods: Integers = fixed.sum(axis=0)
        self._fixed_workload: Integers = fixed.T @ problem.is_workload.astype(numpy.int64)
        self._wanted: Integers = (start.counts - fixed).sum(axis=1)
        self.model = GrowingModel()
        nodes = range(problem.limit.shape[1])
        self._node_rows = [self.model.row(1.0, 1.0) for _node in nodes]
        self._group_rows = [self.model.row(float(each), math.inf) for each in self._wanted]
        self._box_columns = self._add_box(pod_price)
        self._known: set[tuple[int, bytes]] = set()
        self._columns: list[tuple[int, Integers]] = []
        everywhere = start.all_nodes
        self._add(everywhere, numpy.ascontiguousarray((start.counts - fixed).T))
        self._add(everywhere, numpy.zeros_like(start.counts.T))

    def _add_box(self, pod_price: Floats) -> int:
        """Let the program buy and sell single pods near the given prices; return the columns.

        Its prices of pods then stay in a box around the given ones. Without the box they jump, and
        most patterns for them are useless (Marsten, Hogan and Blankenship, The Boxstep method for
        large-scale optimization, 1975).
        """
        for row, price in zip(self._group_rows, pod_price.tolist()):
            width = _PRICE_BOX * abs(price)
            self.model.column(price + width, [(row, 1.0)])
            self.model.column(width - price, [(row, -1.0)])
        return 2 * len(self._group_rows)

    @classmethod
    def of(cls, start: Assignment, functions: NodeFunctions, pod_price: Floats) -> _Pool | None:
        problem = start.problem
        movable = problem.freely_movable
        # A pod on an unpriced node would cost too much for any program to be accurate.
        on_priced = start.counts * problem.costs.priced
        fixed: Integers = numpy.where(movable[:, None], start.counts - on_priced, start.counts)
        free: Integers = problem.free - fixed.T @ problem.request
        asked = (start.counts - fixed).sum(axis=1) @ problem.request
        there = numpy.maximum(free[problem.costs.priced], 0).sum(axis=0)
        shares = asked / numpy.maximum(there, 1)
        if shares.max(initial=0.0) < _SCARCE:
            return None
        limit = numpy.where(movable[:, None] & problem.costs.priced, problem.limit, 0)
        fleet = Fleet(free, limit, problem.request, problem.use)
        knapsack = PatternKnapsack(fleet, functions, int(shares.argmax()))
        return cls(start, knapsack, fixed, pod_price)

    def pod_prices(self, optimum: Optimum) -> Floats:
        return numpy.array(optimum.duals)[self._group_rows]

    def add_best(self, pod_price: Floats) -> int:
        """Add the best pattern of each node at these prices; return the number of new ones."""
        nodes, counts = self._knapsack.patterns(pod_price)
        least = self._watts(nodes, counts) - counts @ pod_price
        order = numpy.lexsort((least, nodes))
        _each, first = numpy.unique(nodes[order], return_index=True)
        best = order[first]
        return self._add(nodes[best], counts[best])

    def _watts(self, nodes: Integers, counts: Integers) -> Floats:
        """Cost change of nodes with the fixed pods and these, relative to the present cost."""
        problem = self._start.problem
        costs = problem.costs.of(
            nodes,
            self._fixed_use[nodes] + counts @ problem.use,
            self._fixed_pods[nodes] + counts.sum(axis=1),
            self._fixed_workload[nodes] + counts @ problem.is_workload.astype(numpy.int64),
        )
        return costs - self._start.cost[nodes]

    def _add(self, nodes: Integers, counts: Integers) -> int:
        before = len(self._columns)
        for node, pattern, watts in zip(
            nodes.tolist(), counts, self._watts(nodes, counts).tolist()
        ):
            key = (node, pattern.tobytes())
            if key in self._known:
                continue
            self._known.add(key)
            self._columns.append((node, pattern))
            groups = pattern.nonzero()[0].tolist()
            terms = [(self._group_rows[group], float(pattern[group])) for group in groups]
            self.model.column(watts, [(self._node_rows[node], 1.0), *terms])
        return len(self._columns) - before

    def rounded(self, optimum: Optimum) -> Integers:
        """The pattern of the largest fraction on each node, largest first, while pods are left."""
        patterns = optimum.values[self._box_columns :]
        parts = sorted(
            ((part, column) for column, part in enumerate(patterns) if part > _PART), reverse=True
        )
        counts, left = self._fixed.copy(), self._wanted.copy()
        done: set[int] = set()
        for _part, column in parts:
            node, pattern = self._columns[column]
            if node not in done:
                done.add(node)
                taken = numpy.minimum(pattern, left)
                counts[:, node] += taken
                left -= taken
        return counts
