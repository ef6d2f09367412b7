# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Watts below which no placement of the same pods can be.

Lagrangian duality: with any price for a pod of each group, for CPU use and for the resources of
each node, the cheapest thing each node could do on its own adds up to a lower bound. So neither a
solver's tolerances nor its limits can make a false one; good prices only make it tight. See
Geoffrion, Lagrangean relaxation for integer programming (1974).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    MICROCORES_PER_CORE,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.node_functions import (
    NodeFunctions,
    node_functions,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.problem import Problem

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]
    Integers = NDArray[numpy.int64]

_PRICE_SEARCH_STEPS = 100


@dataclass(frozen=True)
class Prices:
    """Watts for a pod of each group, for a core of use on each node, and for a unit of each
    resource of each node, which is never negative."""

    pod: Floats
    core: Floats
    resource: Floats


class LowerBounds:
    """Bounds for one problem, for any set of placed pods and any prices."""

    def __init__(self, problem: Problem) -> None:
        self._numpy = require("numpy")
        self.problem = problem
        self.functions: NodeFunctions = node_functions(problem)
        self._cores: Floats = problem.use / MICROCORES_PER_CORE

    def at(self, prices: Prices, placed: Integers, unpriced_pods: int) -> float:
        """Watts of priced nodes that placing ``placed[g]`` pods of each group needs at the least.

        So many of the pods, whichever, stand on unpriced nodes.
        """
        numpy, problem = self._numpy, self.problem
        priced = problem.costs.priced
        most = numpy.minimum(problem.limit, placed[:, None])[:, priced]
        core_price = prices.core[priced]
        resource_price = numpy.maximum(prices.resource[priced], 0.0)
        pod_price = prices.pod[:, None]
        margin = self._cores[:, None] * core_price + problem.request @ resource_price.T - pod_price
        held = (numpy.maximum(problem.free[priced], 0) * resource_price).sum(axis=1)
        awake = (
            self._least_running(core_price) + (numpy.minimum(margin, 0.0) * most).sum(axis=0) - held
        )
        daemons = ~problem.is_workload
        free_daemons = numpy.minimum(-pod_price[daemons], 0.0) * most[daemons]
        asleep = problem.costs.standby_watts + free_daemons.sum(axis=0)
        sleeper = problem.costs.sleeper[priced]
        least = numpy.where(sleeper, numpy.minimum(awake, asleep), awake)
        elsewhere = self._most_valued_elsewhere(placed, unpriced_pods, prices.pod)
        return float(least.sum() + prices.pod @ placed - elsewhere)

    def with_one_price(self, placed: Integers, unpriced_pods: int) -> float:
        """The best bound with one price for a core anywhere: filling the fleet as with water.

        The bound is concave in the price, so a search by thirds finds its top.
        """
        low, high = self._price_range()
        for _step in range(_PRICE_SEARCH_STEPS):
            third = (high - low) / 3
            left = self.at(self._one_price(low + third), placed, unpriced_pods)
            if left < self.at(self._one_price(high - third), placed, unpriced_pods):
                low += third
            else:
                high -= third
        return max(self.at(self._one_price(price), placed, unpriced_pods) for price in (low, 0.0))

    def _one_price(self, price: float) -> Prices:
        numpy = self._numpy
        return Prices(
            pod=price * self._cores,
            core=numpy.full(len(self.problem.instance.nodes), price),
            resource=numpy.zeros(self.problem.free.shape),
        )

    def _price_range(self) -> tuple[float, float]:
        """Prices at which every node would stay as it is, and be as full as can be."""
        numpy, costs = self._numpy, self.problem.costs
        added, watts = self.functions.added, self.functions.watts
        widths = numpy.diff(added, axis=1)
        slopes = (numpy.diff(watts, axis=1) / numpy.where(widths > 0, widths, 1.0))[widths > 0]
        waking = ((watts - costs.standby_watts) / numpy.where(added > 0, added, 1.0))[
            costs.sleeper[:, None] & (added > 0)
        ]
        highest = max(float(slopes.max(initial=0.0)), float(waking.max(initial=0.0)))
        return min(0.0, float(slopes.min(initial=0.0))), highest + 1.0

    def _least_running(self, core_price: Floats) -> Floats:
        """The least of watts minus the price of the added use, which is at a breakpoint."""
        priced = self.problem.costs.priced
        added, watts = self.functions.added[priced], self.functions.watts[priced]
        return t.cast("Floats", (watts - core_price[:, None] * added).min(axis=1))

    def _most_valued_elsewhere(
        self, placed: Integers, unpriced_pods: int, pod_price: Floats
    ) -> float:
        """The value of the dearest pods that could stand on unpriced nodes."""
        numpy, problem = self._numpy, self.problem
        room = problem.limit[:, ~problem.costs.priced].sum(axis=1)
        candidates = numpy.minimum(room, placed)
        value, remaining = 0.0, unpriced_pods
        for group in numpy.argsort(-pod_price, kind="stable"):
            taken = min(int(candidates[group]), remaining)
            value += taken * float(pod_price[group])
            remaining -= taken
        return value
