# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The sources of power curves in their order; a node takes the first curve.

A new source is a function that returns curves by node, and a name in ``SOURCES``.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass
from types import MappingProxyType

from ..base.boundary import Finding, Subject
from ..base.context import Result
from ..base.errors import InvalidInput
from ..base.fields.lenient import member, number
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..nodeconfig.freshness import FRESH_SOURCES, NOTABLE
from ..published.curves import MATCHES
from ..scheduling.curve import Curve
from .learning import Axis, Learning, Wanted, learn
from .nodes import NodeFacts
from .published_curves import PublishedCurves
from .samples import Samples

STATED, PREDICTOR, LEARNED, PUBLISHED = "stated", "predictor", "learned", "published"
# Explicit values precede inferred ones, a model of the machine its samples, and samples the
# measurements of other machines.
SOURCES = (STATED, PREDICTOR, LEARNED, PUBLISHED)
TYPE_LABEL = "node.kubernetes.io/instance-type"
# Additional adapters and disks of a machine raise its watts by less than this factor.
_MAX_APART = 2.0
# Factor between two sources about the machine itself.
_MAX_APART_OF_ONE_MACHINE = 1.5
# Reference source for the curves of each source, the allowed factor of the watts, and the advice
# beyond it. Measurements of other machines do not contradict a statement of the user.
_COMPARED: t.Mapping[str, tuple[str, float, str]] = {
    STATED: (PREDICTOR, _MAX_APART_OF_ONE_MACHINE, "correct the stated curve or the power model"),
    LEARNED: (
        PUBLISHED,
        _MAX_APART,
        "check the BMC's unit and whether it meters only one machine, and state the curve if both "
        "are right",
    ),
}
# Inputs of a learned curve besides temperature and pressure.
_SAME = ("cpu_capacity", "server_type", "axis", "pod_usage_assumption")


def in_order(by_source: t.Mapping[str, t.Mapping[str, Object]]) -> dict[str, Result]:
    """The curve of each node from its first source, whose name is in the curve."""
    found: dict[str, Result] = {}
    for source in SOURCES:
        for name, curve in (by_source.get(source) or {}).items():
            found.setdefault(name, {**curve, "source": source})
    return found


def with_predicted(
    said: t.Mapping[str, Object], predicted: t.Mapping[str, Object]
) -> dict[str, Result]:
    """Stated curves, each with the curve of its predictor for comparison."""
    return {
        name: {**curve, **({"predicted": dict(predicted[name])} if name in predicted else {})}
        for name, curve in said.items()
    }


def predicted_before(last: Object) -> dict[str, t.Any]:
    """The curves of the last run, with the predictors' curves in place of stated ones."""
    return {name: member(curve, "predicted") or curve for name, curve in last.items()}


def counted(curves: t.Mapping[str, Object], nodes: t.Collection[str]) -> dict[str, int]:
    """Number of nodes by the source of their curve; ``none`` counts the other nodes."""
    sources = [curve["source"] for curve in curves.values()]
    return {
        **{source: sources.count(source) for source in SOURCES},
        "none": sum(name not in curves for name in nodes),
    }


def matches(curves: t.Mapping[str, Object]) -> dict[str, int]:
    """Number of nodes by the match of their published curve, without matches of no node."""
    found = [
        member(curve, PUBLISHED, "match")
        for curve in curves.values()
        if curve["source"] == PUBLISHED
    ]
    return {match: found.count(match) for match in MATCHES if match in found}


def contradictions(
    curves: t.Mapping[str, Object],
    readings: Object,
    by_source: t.Mapping[str, t.Mapping[str, Object]] = MappingProxyType({}),
) -> list[Finding]:
    """Findings of nodes whose curve is far from their BMC's watts, or from another source.

    One finding for each node. Other sources are compared if ``by_source`` has their curves.
    """
    found = (
        _contradicted_by_meter(name, curve, readings)
        or _contradicted_by_source(name, curve, by_source)
        for name, curve in curves.items()
    )
    return [finding for finding in found if finding is not None]


def _contradicted_by_meter(name: str, curve: Object, readings: Object) -> Finding | None:
    measured = number(member(readings, name, "power_watts"))
    is_read = member(readings, name, "source", "power_watts") in FRESH_SOURCES
    low, high = min(curve["watts"]), max(curve["watts"])
    if not measured or not is_read or low / _MAX_APART <= measured <= high * _MAX_APART:
        return None
    return Finding(
        Subject("Node", name),
        "power_watts",
        f"the BMC measures {measured:.0f} W, but the {curve['source']} power curve spans "
        f"{low:.0f} to {high:.0f} W; check the source of the curve and the BMC's unit",
    )


def _contradicted_by_source(
    name: str, curve: Object, by_source: t.Mapping[str, t.Mapping[str, Object]]
) -> Finding | None:
    source = curve["source"]
    if source not in _COMPARED:
        return None
    other_source, most_apart, remedy = _COMPARED[source]
    other = (by_source.get(other_source) or {}).get(name)
    if other is None:
        return None
    for cores in _ends_of_both(curve, other):
        watts, others = _at(cores, curve), _at(cores, other)
        if max(watts, others) > most_apart * min(watts, others):
            return Finding(
                Subject("Node", name),
                "power_curve",
                f"at {cores:g} cores the {source} power curve has {watts:.0f} W and the "
                f"{other_source} curve {others:.0f} W; the {source} curve applies; {remedy}",
            )
    return None


def _ends_of_both(curve: Object, other: Object) -> tuple[float, ...]:
    """The lowest and the highest common load of both curves; nothing without one."""
    low = max(min(curve["cpu"]), min(other["cpu"]))
    high = min(max(curve["cpu"]), max(other["cpu"]))
    return (low, high) if low <= high else ()


def _at(cores: float, curve: Object) -> float:
    return Curve(tuple(curve["cpu"]), tuple(curve["watts"])).watts_at(cores)


@dataclass(frozen=True)
class Inferred:
    """Curves of nodes by source, and the reasons of nodes without one."""

    curves: t.Mapping[str, t.Mapping[str, Result]]
    lacking: t.Mapping[str, str]
    findings: t.Sequence[Finding]

    @classmethod
    def of(cls, learned: Learning, published: PublishedCurves) -> Inferred:
        without = [name for name in learned.lacking if name not in published.curves]
        reasons = {name: [learned.lacking[name]] for name in without}
        for name, reason in published.lacking.items():
            if name not in learned.curves:
                reasons.setdefault(name, []).append(reason)
        return cls(
            {LEARNED: learned.curves, PUBLISHED: published.curves},
            {name: "; ".join(told) for name, told in reasons.items()},
            [*learned.findings, *published.findings],
        )


@dataclass(frozen=True)
class Present:
    """Present state of the nodes: readings by node, and the source of their load.

    ``metered`` are the nodes in metrics.k8s.io. ``usage_source`` is the placement's.
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
    """The curves of the last run; a learned one with unmoved inputs stays valid for a while."""

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
    """Learned curves of all nodes with samples of themselves or their type, except ``without``."""
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
