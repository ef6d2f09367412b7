# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Learned curves of this run: kept from the last one while their inputs hold, else learned anew."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, replace

from ..nodeconfig.readings import Reading, Readings
from .curve_sources import LEARNED
from .curves import Inputs, PowerCurves, SourceCurves
from .learning import Axis, NodeState, learn
from .nodes import NodeFacts
from .samples import Samples


@dataclass(frozen=True)
class Present:
    """Present state of the nodes: readings, and the source of their load.

    ``metered`` are the nodes in metrics.k8s.io. ``usage_source`` and ``pod_usage_assumption`` are
    those of the placement. ``type_label`` names the label with the server type.
    """

    readings: Readings
    metered: t.Container[str]
    usage_source: str
    pod_usage_assumption: float
    type_label: str
    now: datetime.datetime

    def state(self, node: NodeFacts) -> NodeState:
        reading = self.readings.get(node.name, Reading())
        return NodeState(
            node.name,
            node.cpu_capacity,
            node.labels.get(self.type_label, ""),
            reading.value("inlet_celsius"),
            reading.value("delta_p_pascal"),
            self._axis(node.name),
        )

    def _axis(self, node: str) -> Axis:
        if self.usage_source == "auto":
            return "metered" if node in self.metered else "requested"
        return "metered" if self.usage_source == "metrics" else "requested"

    def inputs(self, node: NodeState) -> Inputs:
        exact = {
            "cpu_capacity": node.cpu_capacity,
            "server_type": node.server_type,
            "axis": node.axis,
            "pod_usage_assumption": self.pod_usage_assumption,
        }
        return Inputs(exact, node.inlet_celsius, node.delta_p_pascal, self.now)


def learned_curves(
    nodes: t.Mapping[str, NodeFacts],
    without: t.Container[str],
    samples: Samples,
    present: Present,
    last: PowerCurves,
    keep_seconds: float,
) -> SourceCurves:
    """Learned curves of all nodes with samples of themselves or their type, except ``without``."""
    if not samples.nodes:
        return SourceCurves()
    types = {name: node.labels.get(present.type_label, "") for name, node in nodes.items()}
    states = [present.state(node) for name, node in nodes.items() if name not in without]
    inputs = {node.name: present.inputs(node) for node in states}
    kept = {
        name: last[name]
        for name in inputs
        if name in last and last[name].source == LEARNED
        for before in [last[name].inputs]
        if before is not None and before.still_hold(inputs[name], keep_seconds)
    }
    due = [node for node in states if node.name not in kept]
    found = learn(due, samples, types, present.pod_usage_assumption)
    new = {name: replace(curve, inputs=inputs[name]) for name, curve in found.curves.items()}
    found.curves = {**new, **kept}
    return found
