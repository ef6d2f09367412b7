# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Prediction error against BMC readings, by type of server."""

from __future__ import annotations

import typing as t

from ..fleet import Fleet, Node, natural
from ..markup import Child
from ..numbers import number, percent, watts
from ..section import Column, Data, Detail, Section, drawn_bar, lead, note, of, table


def _collect(fleet: Fleet) -> Data | None:
    is_after = fleet.state == "measured"
    pairs: dict[str, list[tuple[float, float]]] = {}
    for node in fleet.nodes:
        predicted, measured = pair(node, is_after)
        if predicted is not None and measured:
            pairs.setdefault(node.server_type, []).append((predicted, measured))
    if not pairs:
        return None
    everything = [pair for of_type in pairs.values() for pair in of_type]
    return {
        "of": "after" if is_after else "before",
        "types": [{"server_type": n, **errors_of(pairs[n])} for n in sorted(pairs, key=natural)],
        "fleet": errors_of(everything),
    }


def pair(node: Node, is_after: bool) -> tuple[float | None, float | None]:
    """Predicted and measured power of a node, of the same moment."""
    if is_after:
        return node.predicted_after, node.measured_after
    predicted, measured = node.predicted_before, node.measured_before
    if predicted is None or measured is None or node.curve is None:
        return predicted, measured
    # The plan counts a node without workload as asleep, which it may not be.
    by_curve = node.curve.watts_at(node.cpu_before or 0.0)
    is_awake = predicted < by_curve and measured >= by_curve / 2
    return by_curve if is_awake else predicted, measured


def errors_of(pairs: list[tuple[float, float]]) -> dict[str, t.Any]:
    """``bias`` of the sum and ``node_error``, the mean absolute error of a node, in percent."""
    predicted, measured = (sum(side) for side in zip(*pairs))
    errors = [abs(one / other - 1) for one, other in pairs]
    return {
        "nodes": len(pairs),
        "predicted_watts": round(predicted, 1),
        "measured_watts": round(measured, 1),
        "bias_percent": round(100 * (predicted / measured - 1), 2),
        "node_error_percent": round(100 * sum(errors) / len(errors), 2),
        "worst_error_percent": round(100 * max(errors), 2),
    }


def _render(data: Data, detail: Detail) -> Child:
    types, fleet = data["types"], {**data["fleet"], "server_type": "all"}
    most = max(entry["node_error_percent"] for entry in types)
    columns = [
        Column("Server type", of("server_type")),
        Column("Nodes", of("nodes", number), True),
        Column("Predicted", of("predicted_watts", watts), True),
        Column("Measured", of("measured_watts", watts), True),
        Column("Sum off by", lambda one: percent(one["bias_percent"], sign=True), True),
        Column(
            "A node is off by",
            of("node_error_percent", lambda error: drawn_bar(error, most, "base", percent(error))),
        ),
        Column("Worst", of("worst_error_percent", percent), True),
    ]
    when = "after" if data["of"] == "after" else "before"
    return [
        lead(
            f"The fleet's sum was off by {percent(fleet['bias_percent'], sign=True)}, "
            f"a node by {percent(fleet['node_error_percent'])} on average, "
            f"{when} the placement."
        ),
        table("Prediction error by server type", columns, [*detail.cut(types), fleet]),
        detail.rest(types, "server types"),
        note(
            "Off by: predicted minus measured. Retrain the model of a type whose error is "
            "large and grows."
        ),
    ]


SECTION = Section("prediction_error", "Prediction error", _collect, _render)
