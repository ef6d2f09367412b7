# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lagrangian subproblem: cheapest loads of many nodes at given prices of pods and resources.

It is a fractional knapsack: pods are taken in descending order of value for a core, as long as the
next core costs less. It is exact in the added use, for a curve of any shape. Axes: P pieces, G
groups, R resources, S points of a curve.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base.libraries import numpy
from ...scheduling.model import MICROCORES_PER_CORE
from ...solving.arrays import Floats, Integers
from ..model.node_functions import NodeFunctions
from ..model.problem import Problem
from .node_classes import run_limits
from .relaxation import Relaxation

# Pieces that are looked at together: arrays have this × groups × points entries.
_CHUNK = 500


@dataclass(frozen=True)
class Prices:
    """Watts for a pod of each group, and for a unit of each resource in each piece.

    A piece is a node with a part of its curve: from ``low`` to ``high`` microcores of its whole
    use. The pieces of a node together cover its range; they are in the order of the nodes. Prices
    of resources are never negative. ``awake`` are watts for each node that could sleep and does not;
    this price is never negative either.
    """

    pod: Floats
    node: Integers
    low: Floats
    high: Floats
    resource: Floats
    awake: float = 0.0

    def of(self, pieces: Integers) -> Prices:
        """The prices of some pieces."""
        return replace(
            self,
            node=self.node[pieces],
            low=self.low[pieces],
            high=self.high[pieces],
            resource=self.resource[pieces],
        )


class CheapestLoads(t.NamedTuple):
    """``least[p]`` is the reduced cost of each piece, its power draw less the value of its pods and
    resources; ``pods[p, g]`` are its fractional pods."""

    least: Floats
    pods: Floats


class LagrangianSubproblem:
    """The subproblems of all pieces for one problem."""

    def __init__(self, problem: Problem, functions: NodeFunctions) -> None:
        self.problem = problem
        self._added: Floats = functions.added * MICROCORES_PER_CORE
        self._watts: Floats = functions.watts
        self._most_added: Floats = self._added[:, -1]
        self._cores: Floats = problem.use / MICROCORES_PER_CORE
        self._with_use: Integers = (problem.use > 0).nonzero()[0]
        self._without_use: Integers = (problem.use == 0).nonzero()[0]
        self._request: Floats = problem.request.astype(float)
        self.free: Floats = numpy.maximum(problem.free, 0).astype(float)

    def solve(self, prices: Prices, placed: Integers) -> CheapestLoads:
        """The cheapest load of each piece, of at most ``placed[g]`` pods of each group.

        A piece that ends below the present use of its node costs infinitely much.
        """
        chunks = [
            self._solve_chunk(
                prices.of(numpy.arange(start, min(start + _CHUNK, len(prices.node)))), placed
            )
            for start in range(0, len(prices.node), _CHUNK)
        ]
        if not chunks:
            return CheapestLoads(numpy.zeros(0), numpy.zeros((0, len(placed))))
        return CheapestLoads(
            numpy.concatenate([chunk.least for chunk in chunks]),
            numpy.concatenate([chunk.pods for chunk in chunks]),
        )

    def beyond(self, prices: Prices, pods: Floats) -> Floats:
        """Excess of each resource (P, R) over the free amount for these loads."""
        return pods @ self._request - self.free[prices.node]

    def worth(self, pod_price: Floats, node: Integers) -> Floats:
        """Value of a pod of each group on each of these nodes (P, G)."""
        worth = numpy.tile(pod_price, (len(node), 1))
        if self.problem.preference is not None:
            worth -= self.problem.preference[:, node].T
        return worth

    def _solve_chunk(self, prices: Prices, placed: Integers) -> CheapestLoads:
        most = numpy.minimum(self.problem.limit[:, prices.node].T, placed)
        worth = self.worth(prices.pod, prices.node) - prices.resource @ self._request.T
        impossible = self.problem.costs.base[prices.node] > prices.high
        pods = numpy.zeros(most.shape)
        free_of_use = self._without_use
        pods[:, free_of_use] = numpy.where(worth > 0, most, 0)[:, free_of_use]
        given = (worth * pods).sum(axis=1)
        added, watts = self._points(prices)
        least, pods[:, self._with_use] = self._fill(
            worth[:, self._with_use], most[:, self._with_use], added, watts
        )
        held = (self.free[prices.node] * prices.resource).sum(axis=1)
        return CheapestLoads(numpy.where(impossible, numpy.inf, least - given - held), pods)

    def _fill(
        self, worth: Floats, most: Integers, added: Floats, watts: Floats
    ) -> tuple[Floats, Floats]:
        """The minimum of watts minus value, and the pods, for groups that use CPU."""
        cores = self._cores[self._with_use]
        order = numpy.argsort(-worth / cores, axis=1, kind="stable")
        ratio = numpy.take_along_axis(worth / cores, order, axis=1)
        width = numpy.take_along_axis(most * cores, order, axis=1)
        nothing = numpy.zeros((len(worth), 1))
        use = numpy.concatenate([nothing, numpy.cumsum(width, axis=1)], axis=1)
        value = numpy.concatenate([nothing, numpy.cumsum(width * ratio, axis=1)], axis=1)
        # On each segment it pays to take pods that are worth more for a core than it costs.
        lengths = numpy.diff(added, axis=1)
        slopes = numpy.diff(watts, axis=1) / numpy.where(lengths > 0, lengths, 1.0)
        taken = (ratio[:, None, :] > slopes[:, :, None]).sum(axis=2)
        load = numpy.take_along_axis(use, taken, axis=1)
        load = numpy.clip(load, added[:, :-1], added[:, 1:])
        cost = watts[:, :-1] + slopes * (load - added[:, :-1])
        cost -= _interpolate(load, use, value)
        best = cost.argmin(axis=1)[:, None]
        load = numpy.take_along_axis(load, best, axis=1)
        pods = numpy.empty_like(width)
        part = numpy.clip(load - use[:, :-1], 0.0, width)
        numpy.put_along_axis(pods, order, part, axis=1)
        return numpy.take_along_axis(cost, best, axis=1)[:, 0], pods / cores

    def _points(self, prices: Prices) -> tuple[Floats, Floats]:
        """Added cores and watts at the breakpoints (P, S).

        Equal neighbours are padding.
        """
        node = prices.node
        base = self.problem.costs.base[node]
        most = self._most_added[node]
        low = numpy.clip(prices.low - base, 0.0, most)[:, None]
        high = numpy.clip(prices.high - base, 0.0, most)[:, None]
        known = self._added[node]
        inner = numpy.clip(known, low, high)
        added = numpy.sort(numpy.concatenate([low, inner, high], axis=1), axis=1)
        watts = _interpolate(added, known, self._watts[node])
        return added / MICROCORES_PER_CORE, watts


def _interpolate(at: Floats, use: Floats, value: Floats) -> Floats:
    """Row by row, the value at a use, clamped to the last value."""
    if use.shape[1] == 1:
        return value.repeat(at.shape[1], axis=1)
    right = (use[:, None, :] < at[:, :, None]).sum(axis=2).clip(1, use.shape[1] - 1)
    left_use = numpy.take_along_axis(use, right - 1, axis=1)
    left_value = numpy.take_along_axis(value, right - 1, axis=1)
    width = numpy.take_along_axis(use, right, axis=1) - left_use
    height = numpy.take_along_axis(value, right, axis=1) - left_value
    share = (at - left_use) / numpy.where(width > 0, width, 1.0)
    found: Floats = left_value + height * numpy.minimum(share, 1.0)
    return found


def prices_of(problem: Problem, relaxation: Relaxation) -> Prices:
    """Prices of the relaxation: each node has the runs of its class, and their prices."""
    awake = [share for share in relaxation.shares if share.run is not None]
    nodes = [relaxation.node_classes[share.node_class].nodes for share in awake]
    ends = [
        run_limits(problem, relaxation.node_classes[share.node_class])[share.run]
        for share in awake
        if share.run is not None
    ]
    sizes = [len(each) for each in nodes]
    node = numpy.concatenate([numpy.zeros(0, dtype=numpy.int64), *nodes])
    order = numpy.argsort(node, kind="stable")
    resource = numpy.array([share.resource for share in awake], dtype=float)
    return Prices(
        relaxation.pod,
        node[order],
        numpy.repeat([low for low, _high in ends], sizes)[order],
        numpy.repeat([high for _low, high in ends], sizes)[order],
        numpy.repeat(resource.reshape(len(awake), len(problem.resources)), sizes, axis=0)[order],
        relaxation.awake,
    )
