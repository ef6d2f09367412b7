# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power curves that a user states by a few points, in an annotation or in an option.

A point is a CPU use in percent of the node's capacity, and watts.
"""

from __future__ import annotations

import functools
import typing as t

from ..base import strict_json
from ..base.boundary import Finding, InvalidField, Subject, guarded, read_noting, shown
from ..base.errors import InvalidInput
from ..base.fields.lenient import number
from ..base.label_selector import LabelSelector, parse_selector_text
from ..nodeconfig.targets import CURVE_ANNOTATION, NodeTarget
from ..scheduling.curve import Curve
from .curves import PowerCurve, SourceCurves
from .nodes import NodeFacts
from .wire import MAXIMUM_WATTS

_MAX_POINTS = 101
_MAX_ANNOTATION_LENGTH = 4096

Points = tuple[tuple[float, float], ...]


class Statement(t.NamedTuple):
    """The points of one entry of the option, and the nodes to which they apply."""

    selector: LabelSelector | None
    points: Points


def statements(given: t.Sequence[t.Mapping[str, t.Any]]) -> list[Statement]:
    """The entries of the option ``power_curves``. Raises InvalidInput."""
    found = []
    for index, entry in enumerate(given):
        where = f"power_curves[{index}]"
        selector = None
        if entry.get("node_selector"):
            selector = parse_selector_text(entry["node_selector"], f"{where}.node_selector")
        stated = {name: entry[name] for name in ("idle", "max") if entry.get(name) is not None}
        points = entry.get("points")
        if bool(stated) == bool(points):
            raise InvalidInput(f"{where}: give either idle and max, or points")
        found.append(Statement(selector, read_points(points or stated, where)))
    return found


def stated_curves(
    nodes: t.Iterable[NodeFacts], targets: t.Mapping[str, NodeTarget], given: t.Sequence[Statement]
) -> SourceCurves:
    """Curves by node; the annotation of a NodeConfig precedes the first matching entry.

    An unreadable annotation is a finding, and the next source counts. A curve over a capacity too
    small for its points is a finding too.
    """
    found = SourceCurves()
    for node in nodes:
        target = targets.get(node.name)
        if target is not None and target.power_curve is not None:
            annotated = functools.partial(_annotated, target.power_curve)
            read = read_noting(target.subject, annotated, found.findings)
            if read is not None:
                found.add(node.name, _curve(node, read))
                continue
        for one in given:
            if one.selector is None or one.selector.matches(node.labels):
                found.add(node.name, _curve(node, one.points))
                break
    return found


def _annotated(text: str) -> Points:
    field = f"metadata.annotations[{CURVE_ANNOTATION}]"
    if len(text) > _MAX_ANNOTATION_LENGTH:
        raise InvalidField(field, f"it is longer than {_MAX_ANNOTATION_LENGTH} characters")
    try:
        value = strict_json.parse(text.encode())
    except ValueError as error:
        raise InvalidField(
            field, f'{shown(text)} is not JSON such as {{"idle": 120, "max": 480}}'
        ) from error
    return read_points(value, field)


def read_points(value: t.Any, field: str) -> Points:
    """Points from ``{"idle": W, "max": W}`` or ``[[percent, W], …]``. Raises InvalidField."""
    if isinstance(value, dict) and value.keys() == {"idle", "max"}:
        value = [[0, value["idle"]], [100, value["max"]]]
    if not isinstance(value, list) or not 2 <= len(value) <= _MAX_POINTS:
        raise InvalidField(
            field,
            f"it must be idle and max in W, or a list of 2 to {_MAX_POINTS} points of percent "
            "and W",
        )
    points = tuple(_point(item, field) for item in value)
    for (left, low), (right, high) in zip(points, points[1:]):
        if right <= left:
            raise InvalidField(field, f"the loads must ascend, but {right:g} follows {left:g}")
        if high < low:
            raise InvalidField(
                field, f"{high:g} W at {right:g} % are fewer than {low:g} W at {left:g} %"
            )
    return points


def _point(given: t.Any, field: str) -> tuple[float, float]:
    pair = [number(item) for item in given] if isinstance(given, list) else []
    if len(pair) != 2 or pair[0] is None or pair[1] is None:
        raise InvalidField(field, f"{shown(given)} is not a point such as [50, 310]")
    if not 0 <= pair[0] <= 100 or not 0 <= pair[1] <= MAXIMUM_WATTS:
        raise InvalidField(
            field, f"{shown(given)} is not from 0 to 100 % and from 0 to {MAXIMUM_WATTS:g} W"
        )
    return pair[0], pair[1]


def _curve(node: NodeFacts, points: Points) -> PowerCurve | Finding:
    cores = [round(percent * node.cpu_capacity / 100, 6) for percent, _watts in points]
    watts = [watts for _percent, watts in points]
    return guarded(Subject("Node", node.name), lambda: PowerCurve(Curve.of(cores, watts)))
