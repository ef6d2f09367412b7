# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods placed on each node, and its power."""

from __future__ import annotations

from ..fleet import Fleet, natural
from ..markup import Child
from ..numbers import counted, number, watts
from ..section import Column, Data, Detail, Section, lead, note, of

# A node that the snapshot lacks.
_UNREADABLE: Data = dict.fromkeys(
    (
        *("server_type", "cores", "cpu_before", "cpu_after"),
        *("watts_before", "watts_after", "measured_after"),
    )
)


def _collect(fleet: Fleet) -> Data | None:
    if fleet.state == "observed" or fleet.plan is None:
        return None
    pods: dict[str, list[str]] = {}
    for entry in fleet.placements:
        pods.setdefault(entry["node"], []).append(f"{entry['namespace']}/{entry['pod']}")
    known = {node.name: node for node in fleet.nodes}
    entries = []
    for name in sorted(pods, key=lambda name: (-len(pods[name]), natural(name))):
        node, own = known.get(name), _UNREADABLE
        if node is not None:
            own = {"server_type": node.server_type, "cores": node.cores, **node.figures}
        entries.append({"node": name, "pods": pods[name], **own})
    return {"nodes": entries, "placed": len(fleet.placements)}


def _render(data: Data, detail: Detail) -> Child:
    is_measured = any(entry["measured_after"] is not None for entry in data["nodes"])
    columns = [
        Column("Node", of("node")),
        Column("Server type", of("server_type", lambda name: name or "unknown")),
        Column(
            "Pods", of("pods", lambda pods: detail.names(pods, counted(len(pods), "pod"), "pods"))
        ),
        Column(
            "Cores in use",
            lambda one: f"{number(one['cpu_before'], 1)} → {number(one['cpu_after'], 1)}",
            True,
        ),
        Column(
            "Predicted",
            lambda one: f"{number(one['watts_before'])} → {watts(one['watts_after'])}",
            True,
        ),
        *([Column("Measured", of("measured_after", watts), True)] if is_measured else []),
    ]
    placed = counted(data["placed"], "pod")
    nodes = counted(len(data["nodes"]), "node")
    return [
        lead(f"{placed} on {nodes}."),
        detail.table("Placements by node", columns, data["nodes"], "nodes with their pods"),
        note("Open a number of pods to see their names; report.json has them all."),
    ]


SECTION = Section("placements", "Placements", _collect, _render)
