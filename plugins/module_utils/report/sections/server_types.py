# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reason for the placement: watts per core and load by type of server."""

from __future__ import annotations

import typing as t

from ..fleet import Fleet, Node, grouped
from ..markup import Child, Markup
from ..numbers import listed, number, quantity, watts
from ..section import Column, Data, Detail, Section, drawn_bar, lead, note, of

_MIN_CORES = 1e-6


def _collect(fleet: Fleet) -> Data | None:
    if fleet.state == "observed":
        return None
    types = grouped(fleet.nodes, "server_type")
    entries = [_of_type(name, nodes) for name, nodes in types.items()]
    return {"types": sorted(entries, key=_order)}


def _order(entry: Data) -> tuple[bool, float]:
    """Types with load first, then by watts per core, those without a price last."""
    price = entry["watts_per_core"]
    return entry["cores_added"] <= _MIN_CORES, float("inf") if price is None else price


def _of_type(name: str, nodes: list[Node]) -> dict[str, t.Any]:
    cores = sum(node.added_cores for node in nodes)
    priced = [node for node in nodes if None not in (node.predicted_before, node.predicted_after)]
    added = sum((node.predicted_after or 0) - (node.predicted_before or 0) for node in priced)
    paid_for = sum(node.added_cores for node in priced)
    best = [price for price in map(_best_price, nodes) if price is not None]
    price = None
    if paid_for > _MIN_CORES:
        price = added / paid_for
    elif best and cores <= _MIN_CORES:
        price = sum(best) / len(best)
    return {
        "server_type": name,
        "nodes": len(nodes),
        "nodes_used": sum(node.pods > 0 for node in nodes),
        "pods": sum(node.pods for node in nodes),
        "cores": round(sum(node.cores or 0.0 for node in nodes), 3),
        "cores_added": round(cores, 3),
        "watts_added": round(added, 1),
        "watts_per_core": None if price is None else round(price, 3),
    }


def _best_price(node: Node) -> float | None:
    """Fewest watts per core of any additional load on the node."""
    if node.curve is None or node.cpu_before is None:
        return None
    start = node.curve.watts_at(node.cpu_before)
    prices = [
        (watt - start) / (cpu - node.cpu_before)
        for cpu, watt in zip(node.curve.cores, node.curve.watts)
        if cpu - node.cpu_before > _MIN_CORES
    ]
    return min(prices, default=None)


def why(data: Data) -> str:
    """Reason for the placement in one or two sentences; empty without placed pods."""
    used = [entry for entry in data["types"] if entry["cores_added"] > _MIN_CORES]
    spared = [entry for entry in data["types"] if entry not in used and not entry["pods"]]
    if not used:
        return ""
    names = listed([entry["server_type"] for entry in used])
    text = f"The load went to {names}"
    text += f", where a core costs {_range(used)}." if _range(used) else "."
    if spared:
        names = listed([entry["server_type"] for entry in spared], most=2)
        text += f" {names} {'was' if len(spared) == 1 else 'were'} spared"
        price = _range(spared, lowest=True)
        text += f": at best {price} a core." if price else "."
    return text


def _range(entries: t.Sequence[Data], lowest: bool = False) -> str:
    prices = [entry["watts_per_core"] for entry in entries if entry["watts_per_core"] is not None]
    if not prices:
        return ""
    low, high = number(min(prices), 1), number(max(prices), 1)
    return f"{low}\u202fW" if lowest or low == high else f"{low} to {high}\u202fW"


def _render(data: Data, detail: Detail) -> Child:
    entries = data["types"]
    dearest = max((entry["watts_per_core"] or 0 for entry in entries), default=0)
    most = max((entry["cores_added"] for entry in entries), default=0)

    def price(entry: Data) -> Markup:
        per_core, kind = entry["watts_per_core"], "ours" if _is_used(entry) else "base"
        return drawn_bar(per_core or 0, dearest, kind, quantity(per_core, "W", 2))

    def given(entry: Data) -> Markup:
        cores = entry["cores_added"]
        if not _is_used(entry):
            return drawn_bar(cores, most, "base", "spared", "bar wide")
        text = f"{number(cores, 1 if cores < 100 else 0)} of {number(entry['cores'])}"
        return drawn_bar(cores, most, "ours", text, "bar wide")

    columns = [
        Column("Server type", of("server_type")),
        Column("Watts a core", price),
        Column("Cores given", given),
        Column("Pods", lambda one: number(one["pods"]) if _is_used(one) else "", True),
        Column(
            "Nodes used", lambda one: f"{number(one['nodes_used'])} of {number(one['nodes'])}", True
        ),
        Column(
            "Adds", lambda one: watts(one["watts_added"], sign=True) if _is_used(one) else "", True
        ),
    ]
    reason = why(data)
    caption = "What a core costs on each type of server"
    return [
        lead(reason) if reason else None,
        detail.table(caption, columns, entries, "server types"),
        note(
            "Watts a core: the predicted power that the placed pods add per core in use; for a "
            "type without placed pods, the least power per core of any additional load."
        ),
    ]


def _is_used(entry: Data) -> bool:
    return bool(entry["cores_added"] > _MIN_CORES)


SECTION = Section("server_types", "Why these nodes", _collect, _render)
