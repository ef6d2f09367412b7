# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The sources of power curves in their one order; a node takes the first that has a curve for it.

A new source is a function that returns curves by node, and a name in ``SOURCES``.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Result
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.loose_json import member, number
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import (
    format_time,
    parse_time,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference.learning import (
    Axis,
    Learning,
    Wanted,
    learn,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference.nodes import NodeFacts
from ansible_collections.wattwise.kube.plugins.module_utils.inference.samples import Samples
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.freshness import NOTABLE

Object = t.Mapping[str, t.Any]

STATED, PREDICTOR, LEARNED = "stated", "predictor", "learned"
# Explicit goes before inferred, and a model of the machine before samples of it.
SOURCES = (STATED, PREDICTOR, LEARNED)
TYPE_LABEL = "node.kubernetes.io/instance-type"
# Inputs of a learned curve besides temperature and pressure.
_SAME = ("cpu_capacity", "server_type", "axis", "pod_usage_assumption")


def in_order(by_source: t.Mapping[str, t.Mapping[str, Object]]) -> dict[str, Result]:
    """The curve of each node from its first source, which the curve names."""
    found: dict[str, Result] = {}
    for source in SOURCES:
        for name, curve in (by_source.get(source) or {}).items():
            found.setdefault(name, {**curve, "source": source})
    return found


def counted(curves: t.Mapping[str, Object], nodes: t.Collection[str]) -> dict[str, int]:
    """Number of nodes by the source of their curve; ``none`` are the others of ``nodes``."""
    sources = [curve["source"] for curve in curves.values()]
    return {
        **{source: sources.count(source) for source in SOURCES},
        "none": sum(name not in curves for name in nodes),
    }


@dataclass(frozen=True)
class Present:
    """The present of the nodes: readings by node, and where their load comes from.

    ``metered`` are the nodes in metrics.k8s.io. ``usage_source`` is that of the placement.
    """

    readings: Object
    metered: t.Container[str]
    usage_source: str
    pod_usage_assumption: float

    def wanted(self, node: NodeFacts, type_label: str) -> Wanted:
        reading = self.readings.get(node.name)
        return Wanted(
            node.name,
            node.cpu_capacity,
            node.labels.get(type_label, ""),
            number(member(reading, "inlet_celsius")),
            number(member(reading, "delta_p_pascal")),
            self._axis(node.name),
        )

    def _axis(self, node: str) -> Axis:
        if self.usage_source == "auto":
            return "metered" if node in self.metered else "requested"
        return "metered" if self.usage_source == "metrics" else "requested"


@dataclass(frozen=True)
class Keeping:
    """The curves of the last run; a learned one whose inputs did not move holds for a while."""

    last: Object
    now: datetime.datetime
    seconds: float
    pod_usage_assumption: float

    def held(self, node: Wanted) -> Result | None:
        curve = member(self.last, node.name)
        inputs = member(curve, "inputs")
        if member(curve, "source") != LEARNED or not isinstance(inputs, dict):
            return None
        wanted = self.inputs(node)
        try:
            age = (self.now - parse_time(inputs.get("time") or "")).total_seconds()
        except InvalidInput:
            return None
        if not 0 <= age < self.seconds or any(inputs.get(key) != wanted[key] for key in _SAME):
            return None
        near = (_is_near(inputs.get(key), wanted[key], NOTABLE[key]) for key in NOTABLE)
        return dict(curve) if all(near) else None

    def inputs(self, node: Wanted) -> Result:
        return {
            "cpu_capacity": node.cpu_capacity,
            "server_type": node.server_type,
            "axis": node.axis,
            "pod_usage_assumption": self.pod_usage_assumption,
            "inlet_celsius": node.inlet_celsius,
            "delta_p_pascal": node.delta_p_pascal,
            "time": format_time(self.now),
        }


def _is_near(before: t.Any, value: float | None, threshold: float) -> bool:
    known = number(before)
    if known is None or value is None:
        return known is value
    return abs(value - known) < threshold


def learned_curves(
    nodes: t.Mapping[str, NodeFacts],
    without: t.Container[str],
    samples: Samples,
    present: Present,
    keeping: Keeping,
    type_label: str = TYPE_LABEL,
) -> Learning:
    """Learned curves of all nodes with samples of themselves or their type, less ``without``."""
    if not samples.nodes:
        return Learning()
    types = {name: node.labels.get(type_label, "") for name, node in nodes.items()}
    wanted = [
        present.wanted(node, type_label) for name, node in nodes.items() if name not in without
    ]
    held = {node.name: keeping.held(node) for node in wanted}
    due = [node for node in wanted if held[node.name] is None]
    found = learn(due, samples, types, present.pod_usage_assumption)
    inputs = {node.name: keeping.inputs(node) for node in due}
    found.curves = {
        **{name: {**curve, "inputs": inputs[name]} for name, curve in found.curves.items()},
        **{name: curve for name, curve in held.items() if curve is not None},
    }
    return found
