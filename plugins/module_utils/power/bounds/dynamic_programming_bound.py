# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lower bound over discrete loads: sums of whole pods that add up to the total load.

The pods of a load are relaxed, except for the limits of each single node. The cost of all loads is
then a minimum over sequences of nodes, by Bellman's recursion over the partial sum, for curves of
any shape. Everything is in whole microwatts, rounded down, so the bound is exact. With one price
for a step, loads that cost more than the possible gain are eliminated first.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ...base.libraries import numpy
from ...solving.arrays import Integers
from .loads import Loads
from .subset_sums import set_bits, subset_sums

_MICROWATTS = 1_000_000
# More than any fleet draws.
_NEVER = 1 << 60
# Curves are read with floating-point numbers.
_ROUNDING_MICROWATTS = 1
# Of the recursion: additions, and sums that are kept for all nodes.
_MAX_ADDITIONS = 2_000_000_000
_MAX_KEPT = 6_000_000


@dataclass(frozen=True)
class DynamicProgrammingBound:
    """``watts`` is the lower bound, and ``loads`` are steps for each node at this cost.

    ``loads`` is empty if the recursion would have taken too long.
    """

    watts: float
    loads: tuple[int, ...]


class _Node(t.NamedTuple):
    """Possible loads of a node in steps, ascending, and the cost of each in microwatts."""

    loads: Integers
    cost: Integers


def dynamic_programming_bound(
    loads: Loads, placed: Integers, upper: float
) -> DynamicProgrammingBound | None:
    """The bound for placing ``placed[g]`` pods of each group on priced nodes.

    Loads above ``upper`` watts are skipped. None if there is no solution.
    """
    problem = loads.problem
    total = int(loads.units @ placed)
    nodes = [_node(loads, placed, node) for node in problem.costs.priced.nonzero()[0].tolist()]
    if sum(int(node.loads[-1]) for node in nodes) < total:
        return None
    price = _best_price(nodes, total)
    base, reduced = _reduced(nodes, total, price)
    to_gain = max(math.ceil(upper * _MICROWATTS) + len(nodes) - base, 0)
    within = [node.cost <= to_gain for node in reduced]
    left = [_Node(node.loads[some], node.cost[some]) for node, some in zip(reduced, within)]
    found = _Recursion(left, total).solve()
    if found is None:
        return DynamicProgrammingBound(base / _MICROWATTS, ())
    cost, chosen = found
    steps = numpy.zeros(len(problem.instance.nodes), dtype=numpy.int64)
    steps[problem.costs.priced] = chosen
    return DynamicProgrammingBound((base + min(cost, to_gain)) / _MICROWATTS, tuple(steps.tolist()))


def _node(loads: Loads, placed: Integers, node: int) -> _Node:
    problem = loads.problem
    most = int(loads.most[node])
    counts = numpy.minimum(problem.limit[:, node], placed)
    possible = set_bits(subset_sums(loads.units.tolist(), counts.tolist(), most), 0, most)
    awake = loads.watts(node, 0, most, awake=True)
    if problem.costs.sleeper[node]:
        daemons = numpy.where(problem.is_workload, 0, counts)
        asleep = set_bits(subset_sums(loads.units.tolist(), daemons.tolist(), most), 0, most)
        awake[asleep] = numpy.minimum(awake[asleep], problem.costs.standby_watts)
    cost = numpy.floor(awake[possible] * _MICROWATTS).astype(numpy.int64) - _ROUNDING_MICROWATTS
    return _Node(possible, cost)


def _best_price(nodes: t.Sequence[_Node], total: int) -> int:
    """Price in microwatts for a step at which the nodes independently take about the right load."""
    most = max((int(abs(numpy.diff(node.cost)).max(initial=0)) for node in nodes), default=0)
    low, high = -most - 1, most + 1
    while high - low > 1:
        price = (low + high) // 2
        taken = sum(int(node.loads[(node.cost - price * node.loads).argmin()]) for node in nodes)
        low, high = (price, high) if taken < total else (low, price)
    return max((low, high), key=lambda each: _reduced(nodes, total, each)[0])


def _reduced(nodes: t.Sequence[_Node], total: int, price: int) -> tuple[int, list[_Node]]:
    """The bound at a price, and the reduced cost of each load."""
    base, reduced = price * total, []
    for node in nodes:
        cost = node.cost - price * node.loads
        least = int(cost.min())
        base += least
        reduced.append(_Node(node.loads, cost - least))
    return base, reduced


class _Recursion:
    """The minimum cost of loads, one for each node, that add up to a sum."""

    def __init__(self, nodes: t.Sequence[_Node], total: int) -> None:
        self._nodes = nodes
        self._total = total
        # Few sums so far as long as the nodes had few loads to choose from.
        self._order = sorted(range(len(nodes)), key=lambda node: len(nodes[node].loads))
        self._ranges = self._sums()

    def _sums(self) -> list[tuple[int, int]]:
        """Smallest and largest partial sum after each node from which the total is reachable."""
        first = [int(self._nodes[node].loads[0]) for node in self._order]
        last = [int(self._nodes[node].loads[-1]) for node in self._order]
        low, high, ranges = 0, 0, [(0, 0)]
        to_low, to_high = sum(first), sum(last)
        for least, greatest in zip(first, last):
            low, high = low + least, high + greatest
            to_low, to_high = to_low - least, to_high - greatest
            ranges.append((max(low, self._total - to_high), min(high, self._total - to_low)))
        return ranges

    def solve(self) -> tuple[int, list[int]] | None:
        """The cost and the loads; None if that is too much work.

        The cost is infinite if no loads add up to the total.
        """
        widths = [high - low + 1 for low, high in self._ranges]
        if min(widths) <= 0:
            return _NEVER, [0] * len(self._nodes)
        sizes = [len(self._nodes[node].loads) for node in self._order]
        additions = sum(size * width for size, width in zip(sizes, widths))
        if additions > _MAX_ADDITIONS or sum(widths) > _MAX_KEPT:
            return None
        layers = [numpy.zeros(1, dtype=numpy.int64)]
        for index, node in enumerate(self._order):
            layers.append(self._next(layers[-1], index, self._nodes[node]))
        return int(layers[-1][0]), self._chosen(layers)

    def _next(self, costs: Integers, index: int, node: _Node) -> Integers:
        (low, high), (next_low, next_high) = self._ranges[index : index + 2]
        found = numpy.full(next_high - next_low + 1, _NEVER)
        for load, cost in zip(node.loads.tolist(), node.cost.tolist()):
            # Sums from ``start`` to ``end`` become sums that are still of use.
            start, end = max(low, next_low - load), min(high, next_high - load)
            if start <= end:
                part = found[start + load - next_low : end + load - next_low + 1]
                numpy.minimum(part, costs[start - low : end - low + 1] + cost, out=part)
        return found

    def _chosen(self, layers: t.Sequence[Integers]) -> list[int]:
        chosen = [0] * len(self._nodes)
        left = self._total
        for index in reversed(range(len(self._order))):
            node = self._nodes[self._order[index]]
            low, high = self._ranges[index]
            before = left - node.loads
            inside = (before >= low) & (before <= high)
            cost = node.cost[inside] + layers[index][before[inside] - low]
            if not len(cost):
                return chosen
            chosen[self._order[index]] = int(node.loads[inside][cost.argmin()])
            left -= chosen[self._order[index]]
        return chosen
