# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lower bound on the power draw of every placement of the same pods.

Lagrangian duality: for any prices of the pods of each group and of the resources of each node, the
sum of the nodes' cheapest independent loads is a lower bound. So neither the tolerances nor the
limits of a solver can invalidate it; good prices make it tight. See Geoffrion, Lagrangean
relaxation for integer programming (1974).
"""

from __future__ import annotations

from dataclasses import replace

from ...base.libraries import numpy
from ...scheduling.model import MICROCORES_PER_CORE
from ...solving.arrays import Booleans, Floats, Integers
from ..model.node_functions import NodeFunctions, node_functions
from ..model.problem import Problem
from .awake_nodes import fewest_awake
from .lagrangian_subproblem import LagrangianSubproblem, Prices

_PRICE_SEARCH_STEPS = 40
# Effort of the search for prices of nodes' resources.
_ROUNDS = 3
_REPEATS = 2
_HALVINGS = 12
# Parts of pods are sums of floating-point numbers.
_ROUNDING = 1e-9


class LowerBounds:
    """Bounds for one problem, for any set of placed pods and any prices."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.functions: NodeFunctions = node_functions(problem)
        self._subproblem = LagrangianSubproblem(problem, self.functions)
        self._cores: Floats = problem.use / MICROCORES_PER_CORE

    def at(self, prices: Prices, placed: Integers, unpriced_pods: int) -> float:
        """Lower bound on the power draw of priced nodes with ``placed[g]`` pods of each group.

        The given number of pods, of any groups, are on unpriced nodes.
        """
        loads = self._subproblem.solve(prices, placed)
        awake = self._of_nodes(prices, loads.least) - prices.awake * self.problem.costs.sleeper
        least = self._or_asleep(awake, prices.pod, placed)
        needed = prices.awake * fewest_awake(self.problem, placed)
        return self._total(least, prices.pod, placed, unpriced_pods) + needed

    def _total(
        self, of_nodes: Floats, pod_price: Floats, placed: Integers, unpriced_pods: int
    ) -> float:
        """The bound from the reduced cost of each node."""
        elsewhere = self._most_valued_elsewhere(placed, unpriced_pods, pod_price)
        priced = of_nodes[self.problem.costs.priced]
        return float(priced.sum() + pod_price @ placed - elsewhere)

    def _of_nodes(self, prices: Prices, least: Floats) -> Floats:
        """The cheapest piece of each node; infinite if it has none."""
        of_nodes = numpy.full(len(self.problem.instance.nodes), numpy.inf)
        numpy.minimum.at(of_nodes, prices.node, least)
        return of_nodes

    def tighten(self, prices: Prices, placed: Integers) -> Prices:
        """The same prices of pods with better prices of each node's resources.

        Only the cheapest piece of a node counts, so only it is improved, until another is the
        cheapest.
        """
        resource = numpy.maximum(prices.resource, 0.0)
        least = self._subproblem.solve(replace(prices, resource=resource), placed).least
        searched = numpy.zeros(len(least), dtype=bool)
        for _round in range(_ROUNDS):
            pieces = (self._cheapest(prices, least) & ~searched).nonzero()[0]
            if not len(pieces):
                break
            searched[pieces] = True
            some = replace(prices.of(pieces), resource=resource[pieces])
            resource[pieces], least[pieces] = self._search(some, least[pieces], placed)
        return replace(prices, resource=resource)

    def _cheapest(self, prices: Prices, least: Floats) -> Booleans:
        """Mask of the pieces that are the cheapest of their nodes."""
        return least <= self._of_nodes(prices, least)[prices.node]

    def _search(self, prices: Prices, least: Floats, placed: Integers) -> tuple[Floats, Floats]:
        """Prices of resources that maximise the pieces' costs, one resource after the other."""
        resource, dearest = prices.resource.copy(), self._dearest(prices)
        for index in [*dearest.nonzero()[0].tolist()] * _REPEATS:
            trial = resource.copy()
            trial[:, index] = 0.0
            lacking = self._try(prices, trial, placed, index, (resource, least))
            pieces = lacking.nonzero()[0]
            if len(pieces):
                some = replace(prices.of(pieces), resource=resource[pieces])
                resource[pieces], least[pieces] = self._halve(
                    some, least[pieces], placed, index, float(dearest[index])
                )
        return resource, least

    def _halve(
        self, prices: Prices, least: Floats, placed: Integers, index: int, dearest: float
    ) -> tuple[Floats, Floats]:
        """The best price of one resource. The cost of a piece is concave in it, and rises as long
        as the piece exceeds the resource."""
        best, trial = prices.resource.copy(), prices.resource.copy()
        low, high = numpy.zeros(len(best)), numpy.full(len(best), dearest)
        for _halving in range(_HALVINGS):
            lacking = self._try(prices, trial, placed, index, (best, least))
            low = numpy.where(lacking, trial[:, index], low)
            high = numpy.where(lacking, high, trial[:, index])
            trial[:, index] = (low + high) / 2
        return best, least

    def _try(
        self,
        prices: Prices,
        trial: Floats,
        placed: Integers,
        index: int,
        best: tuple[Floats, Floats],
    ) -> Booleans:
        """Keep trial prices that are better; return the pieces that exceed the resource."""
        resource, least = best
        trial_prices = replace(prices, resource=trial)
        loads = self._subproblem.solve(trial_prices, placed)
        better = loads.least >= least
        resource[better], least[better] = trial[better], loads.least[better]
        beyond = self._subproblem.beyond(trial_prices, loads.pods)[:, index]
        found: Booleans = beyond > _ROUNDING * (1.0 + self._subproblem.free[prices.node, index])
        return found

    def _dearest(self, prices: Prices) -> Floats:
        """Upper limit of the price of each resource."""
        request = self.problem.request
        worth = numpy.maximum(prices.pod, 0.0)[:, None]
        ratio = (worth / numpy.maximum(request, 1)) * (request > 0)
        known = 2.0 * prices.resource.max(axis=0, initial=0.0)
        found: Floats = numpy.where(known > 0, known, ratio.max(axis=0, initial=0.0))
        return found

    def _asleep(self, pod_price: Floats, placed: Integers) -> Floats:
        """Cost of each node asleep, with the daemons that pay."""
        problem = self.problem
        daemons = ~problem.is_workload
        most = numpy.minimum(problem.limit, placed[:, None])[daemons]
        nodes = numpy.arange(most.shape[1])
        worth = self._subproblem.worth(pod_price, nodes)[:, daemons].T
        given = (numpy.maximum(worth, 0.0) * most).sum(axis=0)
        found: Floats = problem.costs.standby_watts - given
        return found

    def _or_asleep(self, awake: Floats, pod_price: Floats, placed: Integers) -> Floats:
        sleeper = self.problem.costs.sleeper
        if not sleeper.any():
            return awake
        least = numpy.minimum(awake, self._asleep(pod_price, placed))
        return numpy.where(sleeper, least, awake)

    def with_one_price(self, placed: Integers, unpriced_pods: int) -> float:
        """The best bound with one price for a core on all nodes (water filling).

        The bound is concave in the price, so a ternary search finds its maximum.
        """
        low, high = self._price_range()
        for _step in range(_PRICE_SEARCH_STEPS):
            third = (high - low) / 3
            left = self._at_one_price(low + third, placed, unpriced_pods)
            if left < self._at_one_price(high - third, placed, unpriced_pods):
                low += third
            else:
                high -= third
        return max(self._at_one_price(price, placed, unpriced_pods) for price in (low, 0.0))

    def _at_one_price(self, price: float, placed: Integers, unpriced_pods: int) -> float:
        """Bound if pods have the value of their use, so that only a node's load matters."""
        added, watts = self.functions.added, self.functions.watts
        value = price * self._cores
        least = self._or_asleep((watts - price * added).min(axis=1), value, placed)
        return self._total(least, value, placed, unpriced_pods)

    def _price_range(self) -> tuple[float, float]:
        """Prices at which every node keeps its state, and is as full as possible."""
        costs = self.problem.costs
        added, watts = self.functions.added, self.functions.watts
        widths = numpy.diff(added, axis=1)
        slopes = (numpy.diff(watts, axis=1) / numpy.where(widths > 0, widths, 1.0))[widths > 0]
        waking = ((watts - costs.standby_watts) / numpy.where(added > 0, added, 1.0))[
            costs.sleeper[:, None] & (added > 0)
        ]
        highest = max(float(slopes.max(initial=0.0)), float(waking.max(initial=0.0)))
        return min(0.0, float(slopes.min(initial=0.0))), highest + 1.0

    def _most_valued_elsewhere(
        self, placed: Integers, unpriced_pods: int, pod_price: Floats
    ) -> float:
        """The value of the most valuable pods that could be on unpriced nodes."""
        problem = self.problem
        room = problem.limit[:, ~problem.costs.priced].sum(axis=1)
        candidates = numpy.minimum(room, placed)
        value, remaining = 0.0, unpriced_pods
        for group in numpy.argsort(-pod_price, kind="stable"):
            taken = min(int(candidates[group]), remaining)
            value += taken * float(pod_price[group])
            remaining -= taken
        return value
