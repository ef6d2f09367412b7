# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Predictions of the last run with unmoved inputs, whose models are not queried again."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import replace

from ..base.errors import TargetFailure
from .curves import Inputs, PowerCurve, PowerCurves
from .queries import V2, Query
from .sources import NodeQuery


def divide(
    queries: t.Sequence[NodeQuery], last: PowerCurves, now: datetime.datetime, keep_seconds: float
) -> tuple[list[NodeQuery], dict[str, PowerCurve]]:
    """The queries to send, and the valid curves of the last run for the others."""
    before = {name: curve.predicted or curve for name, curve in last.items()}
    kept = {
        node.query.name: before[node.query.name]
        for node in queries
        if node.query.name in before
        and node.problem is None
        and _holds(before[node.query.name], node.query, now, keep_seconds)
    }
    return [node for node in queries if node.query.name not in kept], kept


def with_inputs(
    curves: PowerCurves, queries: t.Sequence[NodeQuery], now: datetime.datetime
) -> dict[str, PowerCurve]:
    """New curves with the inputs of their query."""
    by_name = {node.query.name: node.query for node in queries}
    return {
        name: replace(curve, inputs=_inputs(by_name[name], now)) for name, curve in curves.items()
    }


def _inputs(query: Query, now: datetime.datetime) -> Inputs:
    exact = {
        "endpoint": query.endpoint,
        "cpu_usage_format": query.cpu_usage_format,
        "cpu_capacity": query.cpu_capacity,
    }
    return Inputs(exact, query.inlet_celsius, query.delta_p_pascal, now)


def _holds(curve: PowerCurve, query: Query, now: datetime.datetime, keep_seconds: float) -> bool:
    if query.type != V2 or curve.inputs is None:
        return False
    try:
        grid = query.cpu()
    except TargetFailure:
        return False
    return curve.curve.cores == grid and curve.inputs.still_hold(_inputs(query, now), keep_seconds)
