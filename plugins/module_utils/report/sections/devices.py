# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Devices of each node, their holders, and the shared resources of partitions."""

from __future__ import annotations

import dataclasses
import typing as t

from ...devices.inventory import NETWORK, Inventory, NodeDevices, inventory
from ...devices.model.findings import ApiObject
from ..fleet import Fleet, natural
from ..markup import Child, Markup, element
from ..numbers import counted, listed, moment, number
from ..parts import Part, card, figure, holder, letter, picture
from ..section import Column, Data, Detail, Section, folded, lead, note, of, table

_MAX_DRAWN = 24
_MAX_BOXES, _BOXES_IN_A_ROW, _BOX = 64, 16, 1.25
# Width of a divided device, in units.
_WIDTH = 16.0
_SEVERAL_NODES = "devices that several nodes reach"


def _collect(fleet: Fleet) -> Data | None:
    document = fleet.sources.device_document
    if document is None:
        return None
    found = inventory(
        [
            ApiObject(item)
            for part in ("nodes", "device_objects")
            for item in document.get(part) or []
        ]
    )
    if not found.nodes:
        return None
    nodes = [_node(name, found.nodes[name], found) for name in sorted(found.nodes, key=natural)]
    used = [node for node in nodes if node["holders"]]
    return {
        "time": document["time"],
        "drivers": _drivers(nodes),
        "nodes": sorted(used, key=_is_less_telling),
        "problems": found.problems,
    }


def _node(name: str, devices: NodeDevices, found: Inventory) -> dict[str, t.Any]:
    """One node with its holders, by position in the inventory."""
    ids = {one for whole in devices.whole for one in whole.holders}
    ids |= {part.holder for divided in devices.divided for part in divided.parts}
    return {
        "node": name,
        "whole": [dataclasses.asdict(one) for one in devices.whole],
        "divided": [dataclasses.asdict(one) for one in devices.divided],
        "holders": {str(one): dataclasses.asdict(found.holders[one]) for one in sorted(ids)},
    }


def _drivers(nodes: t.Sequence[Data]) -> list[dict[str, t.Any]]:
    """Numbers of devices by driver; a divided device counts once."""
    entries: dict[str, dict[str, t.Any]] = {}
    for node in nodes:
        for one in [*node["whole"], *node["divided"]]:
            empty = {"devices": 0, "used": 0, "unusable": 0, "parts": 0, "names": set()}
            entry = entries.setdefault(one["driver"], {"driver": one["driver"], **empty})
            entry["devices"] += 1
            entry["used"] += bool(one.get("holders") or one.get("parts"))
            entry["unusable"] += bool(one.get("unusable"))
            entry["parts"] += len({part["device"] for part in one.get("parts") or ()})
            entry["names"].add(node["node"])
    return [
        {
            **{key: value for key, value in entry.items() if key != "names"},
            "nodes": len(entry["names"] - {NETWORK}),
        }
        for _driver, entry in sorted(entries.items())
    ]


def _is_less_telling(node: Data) -> tuple[bool, bool]:
    """Nodes with partly used devices first, then those with free devices."""
    divided = any(_is_partly_used(one) for one in node["divided"])
    return not divided, all(one["holders"] for one in node["whole"])


def _is_partly_used(divided: Data) -> bool:
    used: float = sum(part["size"] for part in divided["parts"])
    return bool(0 < used < divided["units"])


def _render(data: Data, detail: Detail) -> Child:
    nodes = data["nodes"]
    drawn = nodes[:_MAX_DRAWN]
    parts: list[Child] = [lead(_words(data)), table("Devices by driver", _DRIVERS, data["drivers"])]
    if drawn:
        parts += [_legend(drawn), element("div", map(_card, drawn), class_="cards")]
        parts.append(_node_table(nodes, detail))
    said = f"State of the cluster at {moment(data['time'])}."
    told = f"{said} Devices with shared counters count as one."
    if data["problems"]:
        told += f" Left out as unreadable: {listed(data['problems'], 3)}."
    return [*parts, note(told)]


def _words(data: Data) -> str:
    there = sum(entry["devices"] for entry in data["drivers"])
    used = sum(entry["used"] for entry in data["drivers"])
    words = f"{number(used)} of {counted(there, 'device')} in use."
    if not used:
        words = f"{counted(there, 'device')}, none of them in use."
    if len(data["nodes"]) > _MAX_DRAWN:
        words += f" {number(_MAX_DRAWN)} nodes are drawn, the table has all that are in use."
    return words


def _legend(nodes: t.Sequence[Data]) -> Markup:
    items = [element("li", element("b", "A", class_="holder h0"), "held for claim A")]
    items.append(element("li", picture(1, [Part(0, 1, "free")], ""), "free"))
    if any(one["unusable"] for node in nodes for one in node["whole"]):
        drawn = picture(1, [Part(0, 1, "unused")], "")
        items.append(element("li", drawn, "unavailable: its pool is incomplete or invalid"))
    return element("ul", items, class_="legend")


def _card(node: Data) -> Markup:
    letters = {int(one): letter(place) for place, one in enumerate(node["holders"])}
    pools: dict[tuple[str, str], list[Data]] = {}
    for one in node["whole"]:
        pools.setdefault((one["driver"], one["pool"]), []).append(one)
    used = sorted(pools, key=lambda pool: not any(one["holders"] for one in pools[pool]))
    figures = [_whole_figure(driver, pools[driver, pool], letters) for driver, pool in used]
    divided = [one for one in node["divided"] if one["parts"]]
    figures += [_divided_figure(one, letters) for one in divided]
    more, rest = len(node["divided"]) - len(divided), None
    if more:
        rest = note(f"{number(more)} more that can be divided {'is' if more == 1 else 'are'} free.")
    holders = [
        holder(letters[int(one)], _whose(held), _what(node, int(one)))
        for one, held in node["holders"].items()
    ]
    return card(node["node"] or _SEVERAL_NODES, figures, holders, rest)


def _whole_figure(driver: str, devices: t.Sequence[Data], letters: t.Mapping[int, str]) -> Markup:
    shown = devices[:_MAX_BOXES]
    rows = [
        shown[first : first + _BOXES_IN_A_ROW] for first in range(0, len(shown), _BOXES_IN_A_ROW)
    ]
    free = sum(not one["holders"] and not one["unusable"] for one in devices)
    words = f"{devices[0]['pool']}: {number(free)} of {number(len(devices))} free"
    if len(shown) < len(devices):
        words += f", {number(len(devices) - len(shown))} are not drawn"
    return figure([_boxes(row, letters) for row in rows], driver, words)


def _boxes(devices: t.Sequence[Data], letters: t.Mapping[int, str]) -> Markup:
    parts, words = [], []
    for place, one in enumerate(devices):
        holders = tuple(letters[holder] for holder in one["holders"])
        kind: t.Any = "held" if holders else "unused" if one["unusable"] else "free"
        parts.append(Part(place * _BOX, _BOX, kind, holders))
        words.append(f"{one['name']}: {listed(list(holders), 9) or one['unusable'] or 'free'}")
    return picture(len(devices) * _BOX, parts, "; ".join(words))


def _divided_figure(one: Data, letters: t.Mapping[int, str]) -> Markup:
    scale = _WIDTH / (one["units"] or 1)
    parts = [Part(0, _WIDTH, "free")]
    words = [one["name"]]
    for part in one["parts"]:
        holder = letters[part["holder"]]
        parts.append(Part(part["first"] * scale, part["size"] * scale, "held", (holder,)))
        where = f" in slices from {number(part['first'])}" if one["slices"] else ""
        words.append(f"{part['device']}{where}: {holder}")
    steps = round(one["units"]) if one["slices"] else 0
    told = f"{one['used']} of {one['capacity']} {one['amount']} in use"
    drawn = picture(_WIDTH, parts, "; ".join(words), steps=steps)
    return figure(drawn, f"{one['driver']}, {one['name']}", told)


def _whose(holder: Data) -> str:
    """Pods of a claim, else the claim."""
    return listed(list(holder["pods"])) or f"claim {holder['claim']}"


def _what(node: Data, holder: int) -> str:
    names = [one["name"] for one in node["whole"] if holder in one["holders"]]
    names += [
        part["device"]
        for one in node["divided"]
        for part in one["parts"]
        if part["holder"] == holder
    ]
    return listed(list(dict.fromkeys(names)), 4)


def _node_table(nodes: t.Sequence[Data], detail: Detail) -> Markup:
    body = detail.table("Devices by node", _NODES, nodes, "nodes with devices in use")
    return folded(f"Table of {counted(len(nodes), 'node')} with devices in use", body)


def _in_use(node: Data) -> str:
    devices = [*node["whole"], *node["divided"]]
    used = sum(bool(one.get("holders") or one.get("parts")) for one in devices)
    return f"{number(used)} of {number(len(devices))}"


def _held(node: Data) -> str:
    holders = node["holders"].items()
    return listed([f"{_whose(one)} ({_what(node, int(key))})" for key, one in holders], 8)


_NODES = (
    Column("Node", of("node", lambda name: name or _SEVERAL_NODES)),
    Column("In use", _in_use, True),
    Column("Held by", _held),
)
_DRIVERS = (
    Column("Driver", of("driver")),
    Column("Nodes", of("nodes", lambda count: number(count) if count else "by network"), True),
    Column("Devices", of("devices", number), True),
    Column("In use", of("used", number), True),
    Column("Free", lambda one: number(one["devices"] - one["used"] - one["unusable"]), True),
    Column("Parts in use", of("parts", lambda count: number(count) if count else ""), True),
)


SECTION = Section("devices", "Devices", _collect, _render)
