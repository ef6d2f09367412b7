# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes without workload that may sleep, and the power draw that this saves."""

from __future__ import annotations

import typing as t

from ..fleet import Fleet, Node, grouped
from ..markup import Child
from ..numbers import counted, number, watts
from ..section import Column, Data, Detail, Section, lead, note, of


def _collect(fleet: Fleet) -> Data | None:
    """Nodes with a curve that the plan lets sleep, by server type."""
    plan = fleet.plan or {}
    names = set(plan.get("asleep") or ())
    nodes = [
        node
        for node in fleet.nodes
        if node.name in names and node.curve and node.predicted_after is not None
    ]
    if not nodes:
        return None
    entries = [_of_type(name, alike) for name, alike in grouped(nodes, "server_type").items()]
    return {
        "nodes": sum(entry["nodes"] for entry in entries),
        "saved_watts": round(sum(entry["saved_watts"] for entry in entries), 1),
        "types": entries,
    }


def _of_type(name: str, nodes: list[Node]) -> dict[str, t.Any]:
    """Idle power comes from the BMC where it was read, else from the curve."""
    idle = sum(_idle(node) for node in nodes)
    asleep = sum(node.predicted_after or 0.0 for node in nodes)
    return {
        "server_type": name,
        "nodes": len(nodes),
        "idle_watts": round(idle, 1),
        "saved_watts": round(idle - asleep, 1),
    }


def _idle(node: Node) -> float:
    if node.measured_before is not None:
        return node.measured_before
    return 0.0 if node.curve is None else node.curve.watts_at(node.cpu_before or 0.0)


_COLUMNS = (
    Column("Server type", of("server_type")),
    Column("Nodes", of("nodes", number), True),
    Column("Draw now", of("idle_watts", watts), True),
    Column("Sleep saves", of("saved_watts", watts), True),
)


def _render(data: Data, detail: Detail) -> Child:
    told = f"{counted(data['nodes'], 'node')} without workload would save "
    return [
        lead(told, watts(data["saved_watts"]), " asleep."),
        detail.table("Nodes that may sleep", _COLUMNS, data["types"], "server types"),
        note("These nodes run only pods of DaemonSets. Nothing here puts a node to sleep."),
    ]


SECTION = Section("sleep", "Nodes that may sleep", _collect, _render)
