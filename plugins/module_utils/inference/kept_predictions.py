# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Predictions of the last run with unmoved inputs, whose models are not queried again.

A curve stores the inputs of its query as long as it is kept, so that slowly drifting values are
compared with these, not with the run before.
"""

from __future__ import annotations

import datetime
import typing as t

from ..base.context import Result
from ..base.errors import InvalidInput, TargetFailure
from ..base.fields.lenient import member, number
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..nodeconfig.freshness import NOTABLE
from .queries import V2, Query
from .sources import Subject

_SAME = ("endpoint", "cpu_usage_format", "cpu_capacity")


def divide(
    subjects: t.Sequence[Subject], last: Object, now: datetime.datetime, keep_seconds: float
) -> tuple[list[Subject], dict[str, Object]]:
    """The subjects to query, and the valid curves of ``last`` by node for the others.

    ``last`` is the content of ``curves`` in the last curves document.
    """
    due: list[Subject] = []
    kept: dict[str, Object] = {}
    for subject in subjects:
        curve = last.get(subject.query.name)
        if subject.problem is None and _holds(curve, subject.query, now, keep_seconds):
            kept[subject.query.name] = t.cast("Object", curve)
        else:
            due.append(subject)
    return due, kept


def with_inputs(
    curves: t.Mapping[str, Object], subjects: t.Sequence[Subject], now: datetime.datetime
) -> dict[str, Result]:
    """New curves with the inputs of their query."""
    queries = {subject.query.name: subject.query for subject in subjects}
    return {
        name: {**curve, "inputs": {**_inputs(queries[name]), "time": format_time(now)}}
        for name, curve in curves.items()
    }


def _inputs(query: Query) -> Result:
    return {
        "endpoint": query.endpoint,
        "cpu_usage_format": query.cpu_usage_format,
        "cpu_capacity": query.cpu_capacity,
        "inlet_celsius": query.inlet_celsius,
        "delta_p_pascal": query.delta_p_pascal,
    }


def _holds(curve: t.Any, query: Query, now: datetime.datetime, keep_seconds: float) -> bool:
    inputs = member(curve, "inputs")
    if query.type != V2 or not isinstance(inputs, dict):
        return False
    wanted = _inputs(query)
    if any(inputs.get(name) != wanted[name] for name in _SAME):
        return False
    try:
        age = (now - parse_time(inputs.get("time") or "")).total_seconds()
        grid = sorted(set(query.cpu()))
    except (InvalidInput, TargetFailure):
        return False
    if not 0 <= age < keep_seconds or list(member(curve, "cpu") or ()) != grid:
        return False
    return all(_is_near(inputs.get(name), wanted[name], NOTABLE[name]) for name in NOTABLE)


def _is_near(before: t.Any, value: float | None, threshold: float) -> bool:
    known = number(before)
    return known is not None and value is not None and abs(value - known) < threshold
