# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Costs of nodes at given loads, vectorised over nodes."""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...scheduling.model import MICROCORES_PER_CORE, Node
from ...solving.arrays import Booleans, Floats, Integers
from ..constraints.instance import Rules

# More than any fleet draws: one pod fewer on an unpriced node is worth any number of watts.
UNPRICED_POD_WATTS = 1e9


class NodeCosts:
    """Power draw of each node over its CPU use, plus the price of pods on unpriced nodes.

    A *sleeper* costs its standby watts while no workload is on it, regardless of its curve.
    """

    def __init__(self, nodes: t.Sequence[Node], rules: Rules) -> None:
        self.base: Integers = numpy.array([n.use_microcores for n in nodes], dtype=numpy.int64)
        self.priced: Booleans = numpy.array([n.curve is not None for n in nodes], dtype=bool)
        self.sleeper: Booleans = self.priced & numpy.array(
            [rules.allow_power_off and not n.hosts_workload for n in nodes], dtype=bool
        )
        self.standby_watts = rules.standby_watts
        self._may_sleep = rules.allow_power_off
        self._read_curves(nodes)

    def update(self, index: int, use_microcores: int | None, hosts_workload: bool) -> None:
        """Note the pods on a node with a curve; a node with unknown use is unpriced."""
        is_priced = use_microcores is not None
        self.base[index] = use_microcores or 0
        self.priced[index] = is_priced
        self.sleeper[index] = self._may_sleep and is_priced and not hosts_workload

    def _read_curves(self, nodes: t.Sequence[Node]) -> None:
        flat = ((0.0, 1.0), (0.0, 0.0))
        curves = [(n.curve.cores, n.curve.watts) if n.curve else flat for n in nodes]
        points = max((len(cores) for cores, _watts in curves), default=2)
        # Short curves are padded with their last point: the added segments have no length.
        self.knots: Floats = MICROCORES_PER_CORE * numpy.array(
            [cores + cores[-1:] * (points - len(cores)) for cores, _watts in curves], dtype=float
        ).reshape(len(curves), points)
        self.heights: Floats = numpy.array(
            [watts + watts[-1:] * (points - len(watts)) for _cores, watts in curves], dtype=float
        ).reshape(len(curves), points)
        self._first, self._last = self.knots[:, 0], self.knots[:, -1]
        lengths = numpy.diff(self.knots, axis=1)
        rises = numpy.diff(self.heights, axis=1)
        self._slopes = numpy.divide(rises, lengths, out=numpy.zeros_like(rises), where=lengths > 0)
        # One sorted array for the segments of all nodes: node n's lie between n and n + 1 spans.
        self._span = float(self._last.max(initial=0.0)) + 1.0
        starts = self.knots[:, :-1] + self._span * numpy.arange(len(curves))[:, None]
        self._starts = starts.ravel()
        self._segments = points - 1

    def watts(self, nodes: Integers, use: t.Any) -> Floats:
        """Power of ``nodes`` at ``use`` microcores by their curves, clamped; shapes broadcast."""
        use = numpy.clip(use, self._first[nodes], self._last[nodes])
        position = numpy.searchsorted(self._starts, use + self._span * nodes, side="right") - 1
        segment = position - self._segments * nodes
        segment = numpy.clip(segment, 0, self._segments - 1)
        found: Floats = self.heights[nodes, segment] + self._slopes[nodes, segment] * (
            use - self.knots[nodes, segment]
        )
        return found

    def of(self, nodes: Integers, added_use: t.Any, pods: t.Any, workload: t.Any) -> Floats:
        """Cost of ``nodes`` with added microcores, pods, and workload pods among them."""
        watts = self.watts(nodes, self.base[nodes] + added_use)
        watts = numpy.where(self.sleeper[nodes] & (workload == 0), self.standby_watts, watts)
        return numpy.where(self.priced[nodes], watts, pods * UNPRICED_POD_WATTS)
