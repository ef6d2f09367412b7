# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inlet temperatures by rack."""

from __future__ import annotations

import typing as t

from ..fleet import Fleet, Node, grouped, source_of
from ..markup import Child, Markup, element
from ..numbers import LACKING, celsius, counted, number
from ..section import Data, Detail, Section, lead, note

# Upper ends of the classes in °C. 18 to 27 is what ASHRAE TC 9.9 recommends for the inlet, 32 the
# most that it allows for class A1 (Thermal Guidelines for Data Processing Environments, 2021).
_ENDS = (18, 20, 22, 24, 27, 32)


# From this number of nodes on, the map shows only temperatures; names are titles.
_MAX_NAMED = 200


def collect(fleet: Fleet) -> Data | None:
    if not any("inlet_celsius" in node.reading for node in fleet.nodes):
        return None
    known = [node for node in fleet.nodes if node.reading.get("inlet_celsius") is not None]
    hottest = max(known, key=lambda node: float(node.reading["inlet_celsius"]), default=None)
    return {
        "hottest": None
        if hottest is None
        else {"node": hottest.name, "inlet_celsius": hottest.reading["inlet_celsius"]},
        "lacking": len(fleet.nodes) - len(known),
        "racks": [
            {"rack": rack, "nodes": [_cell(node) for node in _from_top(nodes)]}
            for rack, nodes in grouped(fleet.nodes, "rack").items()
        ],
    }


def _from_top(nodes: list[Node]) -> list[Node]:
    """Order by rack unit from the top, else by name."""
    if any(node.position is None for node in nodes):
        return nodes
    return sorted(nodes, key=lambda node: -(node.position or 0))


def _cell(node: Node) -> dict[str, t.Any]:
    return {
        "node": node.name,
        "inlet_celsius": node.reading.get("inlet_celsius"),
        "source": source_of(node.reading, "inlet_celsius"),
        "rack_unit": node.position,
    }


def _render(data: Data, _detail: Detail) -> Child:
    hottest, lacking = data["hottest"], data["lacking"]
    words = []
    if hottest is not None:
        words.append(f"Hottest inlet: {celsius(hottest['inlet_celsius'])} at {hottest['node']}.")
    if lacking:
        words.append(f"{counted(lacking, 'node')} without a temperature.")
    racks = [
        element(
            "div",
            element("h3", rack["rack"]),
            element("ol", map(_item, rack["nodes"])),
            class_="rack",
        )
        for rack in data["racks"]
    ]
    is_dense = sum(len(rack["nodes"]) for rack in data["racks"]) > _MAX_NAMED
    positions = [cell["rack_unit"] for rack in data["racks"] for cell in rack["nodes"]]
    order = "Racks are drawn with the highest unit on top. " if None not in positions else ""
    return [
        lead(" ".join(words)),
        _legend(lacking > 0),
        element("div", racks, class_="racks dense" if is_dense else "racks"),
        note(
            f"{order}18 to 27 °C is the inlet temperature that ASHRAE recommends; 32 °C is the "
            "most for class A1. A value with ≈ is not of this reading but the last one, or the "
            "NodeConfig's fallback."
        ),
    ]


def _item(cell: Data) -> Markup:
    value = cell["inlet_celsius"]
    mark = "" if value is None or cell["source"] == "read" else "≈"
    shown = LACKING if value is None else f"{mark}{number(value, 1)}"
    return element(
        "li",
        element("span", cell["node"]),
        element("b", shown),
        class_="none" if value is None else f"t{sum(value > end for end in _ENDS)}",
        title=cell["node"],
    )


def _legend(has_lacking: bool) -> Markup:
    names = [f"to {_ENDS[0]}"]
    names += [f"{low} to {high}" for low, high in zip(_ENDS, _ENDS[1:])]
    names.append(f"over {_ENDS[-1]}\u202f°C")
    items: list[Child] = [
        element("li", name, class_=f"t{number}") for number, name in enumerate(names)
    ]
    if has_lacking:
        items.append(element("li", "no reading", class_="none"))
    return element("ul", items, class_="legend scale", aria_label="Colours")


SECTION = Section("temperatures", "Inlet temperatures", collect, _render)
