# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Most valuable whole pods of nodes at given prices, for many nodes at once.

One resource is scarce, such as binding memory, and a pattern fills it as a knapsack. The cost of a
core depends on the load of the node, so the knapsack is solved for many prices of a core at once;
one table serves nodes of any size (Gilmore and Gomory, A linear programming approach to the
cutting-stock problem, part II, 1963). A node takes the patterns of the prices at which its
Lagrangian bound is the highest. Other resources and limits are checked afterwards. Axes: N nodes, G
groups, K prices of a core, C cells of the scarce resource.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...scheduling.model import MICROCORES_PER_CORE
from ...solving.arrays import Booleans, Floats, Integers
from ..model.node_functions import NodeFunctions

# The largest node's scarce resource is cut into at most so many cells.
_MAX_CELLS = 8192
# Prices of a core that are looked at, and how many of them a node tries.
_CORE_PRICES = 40
_WIDE_PRICES = 8
_TRIED_PRICES = 4


class Fleet(t.NamedTuple):
    """Capacity of the nodes for the pods: ``free`` (N, R), ``limit`` (G, N), ``request`` (G, R).

    ``use`` are the microcores of a pod of each group.
    """

    free: Integers
    limit: Integers
    request: Integers
    use: Integers


class PatternKnapsack:
    """The tables of one fleet; ``scarce`` is the index of the scarce resource."""

    def __init__(self, fleet: Fleet, functions: NodeFunctions, scarce: int) -> None:
        self._fleet = fleet
        self._nodes: Integers = numpy.arange(len(fleet.free))
        request = fleet.request[:, scarce]
        free = numpy.maximum(fleet.free[:, scarce], 0)
        cell = max(int(numpy.gcd.reduce(request)), -(-int(free.max(initial=0)) // _MAX_CELLS), 1)
        # A pod that asks for nothing takes a cell: otherwise a pattern could have any number.
        self._size: Integers = numpy.maximum(-(-request // cell), 1)
        self._room: Integers = free // cell
        self._cores: Floats = fleet.use / MICROCORES_PER_CORE
        self._functions = functions
        self._slopes = _slopes(functions)
        self._core_prices = _quantiles(self._slopes, _CORE_PRICES)
        self._bundles = list(self._all_bundles())

    def patterns(self, pod_price: Floats) -> tuple[Integers, Integers]:
        """Nodes, and for each of them counts (G) of pods that fit there; a node may have several.

        ``pod_price`` are watts for a pod of each group.
        """
        earned, taken = self._table(pod_price)
        lacking = earned[self._room] - self._least_watts()
        tried = numpy.argsort(lacking, axis=1, kind="stable")[:, :_TRIED_PRICES]
        nodes = numpy.repeat(self._nodes, tried.shape[1])
        counts = self._trace(taken, self._room[nodes], tried.ravel())
        self._look_closer(tried[:, 0])
        counts = numpy.minimum(counts, self._fleet.limit[:, nodes].T)
        fits = self._fits(nodes, counts)
        return nodes[fits], counts[fits]

    def _least_watts(self) -> Floats:
        """Minimum of each node's power draw less the price of its cores (N, K)."""
        added, watts = self._functions.added, self._functions.watts
        least = [(watts - price * added).min(axis=1) for price in self._core_prices]
        return numpy.stack(least, axis=1)

    def _look_closer(self, chosen: Integers) -> None:
        """Concentrate the prices around the chosen ones, which are similar."""
        last = len(self._core_prices) - 1
        low = self._core_prices[numpy.maximum(chosen - 1, 0)]
        high = self._core_prices[numpy.minimum(chosen + 1, last)]
        near = _quantiles(numpy.linspace(low, high, _CORE_PRICES).ravel(), _CORE_PRICES)
        wide = _quantiles(self._slopes, _WIDE_PRICES)
        self._core_prices = numpy.unique(numpy.concatenate([near, wide]))

    def _table(self, pod_price: Floats) -> tuple[Floats, list[Booleans]]:
        """Largest value of pods for each number of cells and price of a core (C, K), and the
        knapsacks that contain each bundle."""
        worth = pod_price[:, None] - self._cores[:, None] * self._core_prices
        earned: Floats = numpy.zeros(
            (int(self._room.max(initial=0)) + 1, worth.shape[1]), numpy.float32
        )
        taken: list[Booleans] = []
        for group, number in self._bundles:
            with_it = earned[: -number * self._size[group]] + (number * worth[group]).astype(
                numpy.float32
            )
            rest = earned[number * self._size[group] :]
            taken.append(with_it > rest)
            numpy.maximum(rest, with_it, out=rest)
        return earned, taken

    def _trace(self, taken: list[Booleans], cells: Integers, price: Integers) -> Integers:
        """The pods of knapsacks, from the bundles in the reverse order of the table."""
        counts = numpy.zeros((len(cells), len(self._size)), dtype=numpy.int64)
        for (group, number), table in zip(reversed(self._bundles), reversed(taken)):
            row = cells - number * self._size[group]
            found = (row >= 0).nonzero()[0]
            found = found[table[row[found], price[found]]]
            counts[found, group] += number
            cells[found] = row[found]
        return counts

    def _all_bundles(self) -> t.Iterator[tuple[int, int]]:
        """Bundles of pods by group in binary splitting: 1, 2, 4, … pods of each."""
        most_cells = int(self._room.max(initial=0))
        for group, size in enumerate(self._size.tolist()):
            left = min(int(self._fleet.limit[group].max(initial=0)), most_cells // size)
            number = 1
            while left > 0:
                yield group, min(number, left)
                left -= number
                number *= 2

    def _fits(self, nodes: Integers, counts: Integers) -> Booleans:
        """Whether each requested resource of a pattern suffices."""
        taken = counts @ self._fleet.request
        asked = counts @ (self._fleet.request > 0).astype(numpy.int64) > 0
        found: Booleans = numpy.all((taken <= self._fleet.free[nodes]) | ~asked, axis=1)
        return found


def _slopes(functions: NodeFunctions) -> Floats:
    """Watts for a core on every segment of the nodes' curves."""
    lengths = numpy.diff(functions.added, axis=1)
    rises = numpy.diff(functions.watts, axis=1)
    return rises[lengths > 0] / lengths[lengths > 0]


def _quantiles(values: Floats, number: int) -> Floats:
    if not len(values):
        return numpy.zeros(1)
    found: Floats = numpy.unique(numpy.quantile(values, numpy.linspace(0, 1, number)))
    return found
