# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Scores of kube-scheduler's extenders, 0 to 10, from the added power of nodes.

Only the cheapest nodes have 10, so that they win if the extender's weight outvotes the plugins of
kube-scheduler. All others have 9 to 0, linear in watts. The scale ends at the most expensive node
in use, because a sleeping node would make all of these equal.

If all nodes sleep, added power favours the node with the lowest idle power, although the next pods
come there too. Then watts per core at a node's best load decide.
"""

from __future__ import annotations

import typing as t

from ..base.libraries import numpy

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats

HIGHEST = 10
# Below the resolution of curves, and above rounding errors of sums.
_SAME_WATTS = 1e-6


class Prices(t.NamedTuple):
    """Added power by node, NaN if unknown; ``wakes`` marks nodes whose sleep the pod ends.

    ``watts_per_core`` are counted for the awake node at its best load, beyond standby.
    """

    watts: Floats
    wakes: Booleans
    watts_per_core: Floats

    @classmethod
    def unknown(cls, number: int) -> Prices:
        """Prices of ``number`` unknown nodes."""
        nothing = numpy.full(number, numpy.nan)
        return cls(nothing, numpy.zeros(number, dtype=bool), nothing.copy())

    def put(self, positions: t.Sequence[int], others: Prices) -> None:
        """Fill in the prices of some nodes."""
        for own, other in zip(self, others):
            own[positions] = other


def scores_of(prices: Prices, planned: int | None = None) -> list[int]:
    """The score of each node; 0 if its price is unknown.

    ``planned`` is the position of the pod's planned node: it has 10, regardless of its cost, and
    the others at most 9.
    """
    known = ~numpy.isnan(prices.watts)
    running = known & ~prices.wakes
    costs = prices.watts if running.any() else prices.watts_per_core
    found = numpy.zeros(len(costs), dtype=numpy.int64)
    if known.any():
        least = costs[known].min()
        most = costs[running if running.any() else known].max()
        # Equal nodes give no scale, and all are best.
        scale = max(most - least, _SAME_WATTS)
        points = (HIGHEST - 1) * (most - costs[known]) / scale
        points = numpy.where(costs[known] <= least + _SAME_WATTS, HIGHEST, points)
        found[known] = numpy.clip(points, 0, HIGHEST)
    if planned is not None:
        found = numpy.minimum(found, HIGHEST - 1)
        found[planned] = HIGHEST
    return found.tolist()
