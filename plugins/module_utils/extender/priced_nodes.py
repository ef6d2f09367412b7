# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes of one publication with their curves, as arrays for the cost of one more pod."""

from __future__ import annotations

import typing as t

from ..base.libraries import numpy
from ..power.constraints.instance import Rules
from ..power.model.costs import NodeCosts
from ..scheduling.curve import Curve
from ..scheduling.model import Node
from ..scheduling.node_reader import Loads
from ..scheduling.pod_reader import assumed_use
from .headroom import Headroom
from .publication import Publication
from .scores import Prices
from .views import AskingPod, Measured, NodeView, PodLoad, occupancy_of


class PricedNodes:
    """Costs of the nodes with a curve, by the placement's cost function.

    A node has no price before ``refresh`` has set its pods.
    """

    def __init__(self, publication: Publication) -> None:
        self.publication = publication
        self.names = sorted(publication.curves)
        self.index = {name: index for index, name in enumerate(self.names)}
        self._costs = NodeCosts(
            [Node(name, free={}, curve=publication.curves[name]) for name in self.names],
            publication.rules,
        )
        self._costs.priced[:] = False
        self._forfeited = numpy.array(
            [publication.emptied.get(name, 0.0) for name in self.names], dtype=float
        )
        self._per_core = numpy.array(
            [_best_load(publication.curves[name], publication.rules) for name in self.names],
            dtype=float,
        )
        self.headroom: Headroom | None = None
        if publication.domains or publication.closed:
            self.headroom = Headroom(publication, self.index, self._costs)

    def refresh(
        self,
        name: str,
        view: NodeView | None,
        loads: t.Iterable[PodLoad],
        measured: Measured | None,
    ) -> None:
        """Set the pods of a node; a machine that sleeps costs its wake."""
        index = self.index[name]
        if view is None:
            self._costs.priced[index] = False
            if self.headroom is not None:
                self.headroom.refresh(index, None, None)
            return
        given = self.publication
        use = {} if measured is None else {name: measured.microcores}
        occupancy = occupancy_of(loads, 0.0 if measured is None else measured.since)
        of_nodes = Loads(given.usage_source, given.assumption, use)
        in_use = of_nodes.of(name, None, occupancy)
        self._costs.update(index, in_use, occupancy.hosts_workload)
        if self.headroom is not None:
            self.headroom.refresh(index, in_use, view)
        if view.is_asleep:
            self._costs.sleeper[index] = self._costs.priced[index]

    def prices(self, pod: AskingPod, names: t.Sequence[str], now: float) -> Prices:
        """Cost of the pod on each of these nodes.

        A pod on a node that the plan empties also costs the saving of the emptying.
        """
        costs = self._costs
        nodes = numpy.array([self.index[name] for name in names], dtype=numpy.int64)
        use = assumed_use(pod.load.millicores, self.publication.assumption)
        before = costs.of(nodes, 0, 0, 0)
        added = costs.of(nodes, use, 1, int(pod.load.is_workload)) - before
        if now < self.publication.intends_until and pod.load.is_workload:
            added = added + self._forfeited[nodes]
        added = numpy.where(costs.priced[nodes], added, numpy.nan)
        wakes = costs.sleeper[nodes] & pod.load.is_workload
        return Prices(added, wakes, self._per_core[nodes])


def _best_load(curve: Curve, rules: Rules) -> float:
    """The smallest possible watts per core of the node beyond standby."""
    return min(
        (watts - rules.standby_watts) / cores
        for cores, watts in zip(curve.cores, curve.watts)
        if cores
    )
