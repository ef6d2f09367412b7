# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The sources of power curves in their order; a node takes the first curve.

A new source is a function that returns curves by node, and a name in ``SOURCES``.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace
from types import MappingProxyType

from ..base.boundary import Finding, Subject
from ..base.fields.lenient import member
from ..nodeconfig.readings import Readings
from ..published.curves import MATCHES
from .curves import PowerCurve, PowerCurves, SourceCurves

STATED, PREDICTOR, LEARNED, PUBLISHED = "stated", "predictor", "learned", "published"
# Explicit values precede inferred ones, a model of the machine its samples, and samples the
# measurements of other machines.
SOURCES = (STATED, PREDICTOR, LEARNED, PUBLISHED)
TYPE_LABEL = "node.kubernetes.io/instance-type"
# Additional adapters and disks of a machine raise its power by less than this factor.
_MAX_APART = 2.0
# Factor between two sources about the machine itself.
_MAX_APART_OF_ONE_MACHINE = 1.5
# Reference source for the curves of each source, the allowed factor of the power, and the advice
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


BySource = t.Mapping[str, PowerCurves]


def in_order(by_source: BySource) -> dict[str, PowerCurve]:
    """The curve of each node from its first source."""
    found: dict[str, PowerCurve] = {}
    for source in SOURCES:
        for name, curve in by_source.get(source, {}).items():
            found.setdefault(name, replace(curve, source=source))
    return found


def with_predicted(stated: PowerCurves, predicted: PowerCurves) -> dict[str, PowerCurve]:
    """Stated curves, each with the curve of its predictor for comparison."""
    return {name: replace(curve, predicted=predicted.get(name)) for name, curve in stated.items()}


def counted(curves: PowerCurves, nodes: t.Collection[str]) -> dict[str, int]:
    """Number of nodes by the source of their curve; ``none`` counts the other nodes."""
    sources = [curve.source for curve in curves.values()]
    return {
        **{source: sources.count(source) for source in SOURCES},
        "none": sum(name not in curves for name in nodes),
    }


def matches(curves: PowerCurves) -> dict[str, int]:
    """Number of nodes by the match of their published curve, without matches of no node."""
    found = [
        member(curve.evidence.get(PUBLISHED), "match")
        for curve in curves.values()
        if curve.source == PUBLISHED
    ]
    return {match: found.count(match) for match in MATCHES if match in found}


def contradictions(
    curves: PowerCurves, readings: Readings, by_source: BySource = MappingProxyType({})
) -> list[Finding]:
    """Findings of nodes whose curve is far from their BMC's power draw, or from another source.

    One finding for each node. Other sources are compared if ``by_source`` has their curves.
    """
    found = (
        _contradicted_by_meter(name, curve, readings)
        or _contradicted_by_source(name, curve, by_source)
        for name, curve in curves.items()
    )
    return [finding for finding in found if finding is not None]


def _contradicted_by_meter(name: str, curve: PowerCurve, readings: Readings) -> Finding | None:
    measured = readings[name].fresh("power_watts") if name in readings else None
    low, high = min(curve.curve.watts), max(curve.curve.watts)
    if not measured or low / _MAX_APART <= measured <= high * _MAX_APART:
        return None
    return Finding(
        Subject("Node", name),
        "power_watts",
        f"the BMC measures {measured:.0f} W, but the {curve.source} power curve spans "
        f"{low:.0f} to {high:.0f} W; check the source of the curve and the BMC's unit",
    )


def _contradicted_by_source(name: str, curve: PowerCurve, by_source: BySource) -> Finding | None:
    source = curve.source
    if source not in _COMPARED:
        return None
    other_source, most_apart, remedy = _COMPARED[source]
    other = by_source.get(other_source, {}).get(name)
    if other is None:
        return None
    for cores in _ends_of_both(curve, other):
        watts, others = curve.curve.watts_at(cores), other.curve.watts_at(cores)
        if max(watts, others) > most_apart * min(watts, others):
            return Finding(
                Subject("Node", name),
                "power_curve",
                f"at {cores:g} cores the {source} power curve has {watts:.0f} W and the "
                f"{other_source} curve {others:.0f} W; the {source} curve applies; {remedy}",
            )
    return None


def _ends_of_both(curve: PowerCurve, other: PowerCurve) -> tuple[float, ...]:
    """The lowest and the highest common load of both curves; nothing without one."""
    low = max(curve.curve.cores[0], other.curve.cores[0])
    high = min(curve.curve.cores[-1], other.curve.cores[-1])
    return (low, high) if low <= high else ()


def lacking(learned: SourceCurves, published: SourceCurves) -> dict[str, str]:
    """Reasons of the nodes without a learned or a published curve."""
    reasons = {
        name: [reason] for name, reason in learned.lacking.items() if name not in published.curves
    }
    for name, reason in published.lacking.items():
        if name not in learned.curves:
            reasons.setdefault(name, []).append(reason)
    return {name: "; ".join(each) for name, each in reasons.items()}
