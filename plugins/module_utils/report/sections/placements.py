# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods placed on each node, and its power."""

from __future__ import annotations

from ..fleet import Fleet, natural
from ..markup import Markup, element, join
from ..numbers import counted, number, watts
from ..section import Column, Data, Detail, Section, note, numeric, table


def _collect(fleet: Fleet) -> Data | None:
    if fleet.state == "observed" or fleet.plan is None:
        return None
    pods: dict[str, list[str]] = {}
    for entry in fleet.placements:
        pods.setdefault(entry["node"], []).append(f"{entry['namespace']}/{entry['pod']}")
    known = {node.name: node for node in fleet.nodes}
    entries = []
    for name in sorted(pods, key=lambda name: (-len(pods[name]), natural(name))):
        node = known.get(name)
        entries.append(
            {
                "node": name,
                "server_type": node.server_type if node else None,
                "pods": pods[name],
                "cpu_before": node.cpu_before if node else None,
                "cpu_after": node.cpu_after if node else None,
                "cores": node.cores if node else None,
                "watts_before": node.predicted_before if node else None,
                "watts_after": node.predicted_after if node else None,
                "measured_after": node.measured_after if node else None,
            }
        )
    return {"nodes": entries, "placed": len(fleet.placements)}


def _render(data: Data, detail: Detail) -> Markup:
    is_measured = any(entry["measured_after"] is not None for entry in data["nodes"])
    columns = [
        Column("Node"),
        Column("Server type"),
        Column("Pods"),
        *numeric("Cores in use", "Predicted"),
        *([Column("Measured", True)] if is_measured else []),
    ]
    rows = []
    for entry in detail.cut(data["nodes"]):
        row = [
            entry["node"],
            entry["server_type"] or "unknown",
            _pods(entry["pods"], detail),
            f"{number(entry['cpu_before'], 1)} → {number(entry['cpu_after'], 1)}",
            f"{number(entry['watts_before'])} → {watts(entry['watts_after'])}",
        ]
        rows.append(row + ([watts(entry["measured_after"])] if is_measured else []))
    placed = counted(data["placed"], "pod")
    nodes = counted(len(data["nodes"]), "node")
    return join(
        [
            element("p", f"{placed} on {nodes}.", class_="lead"),
            table("Placements by node", columns, rows),
            detail.rest(data["nodes"], "nodes with their pods"),
            note("Open a number of pods to see their names; report.json has them all."),
        ]
    )


def _pods(names: list[str], detail: Detail) -> Markup:
    shown = [element("li", name) for name in detail.cut(names)]
    return element(
        "details",
        element("summary", counted(len(names), "pod")),
        element("ul", shown, class_="names"),
        detail.rest(names, "pods"),
    )


SECTION = Section("placements", "Placements", _collect, _render)
