# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Age and source of each reading."""

from __future__ import annotations

import functools
import typing as t

from ...base.units import format_duration, format_time, parse_time
from ..fleet import Fleet, Node, source_of, time_of
from ..markup import Child, element, join
from ..numbers import LACKING, counted, moment, number, quantity
from ..section import Column, Data, Detail, Section, folded, lead, note, of

_QUANTITIES = {
    "inlet_celsius": ("Inlet", "°C", 1),
    "delta_p_pascal": ("Pressure", "Pa", 1),
    "power_watts": ("Power", "W", 0),
}
_WORDS = {"read": "read", "last": "last value", "fallback": "fallback"}


def _collect(fleet: Fleet) -> Data | None:
    document = fleet.sources.readings
    if document is None:
        return None
    moment = parse_time(document["time"])
    return {
        "read_at": document["time"],
        "nodes": [
            {
                "node": node.name,
                **{name: _value(node, name, moment) for name in _QUANTITIES},
                **({} if node.expected is None else {"expected": sorted(node.expected)}),
            }
            for node in fleet.nodes
            if node.expected is None or node.expected or node.reading
        ],
    }


def _value(node: Node, quantity_name: str, moment: t.Any) -> dict[str, t.Any] | None:
    """Value, source, time and age in seconds at the last observation; None if missing."""
    value = node.reading.get(quantity_name)
    if value is None:
        return None
    read_at = time_of(node.reading, quantity_name)
    return {
        "value": value,
        "source": source_of(node.reading, quantity_name),
        "time": None if read_at is None else format_time(read_at),
        "age_seconds": None if read_at is None else round((moment - read_at).total_seconds(), 1),
    }


def _is_fresh(entry: Data) -> bool:
    return all(
        entry[name] is not None and entry[name]["source"] == "read" for name in _expected(entry)
    )


def _expected(entry: Data) -> t.Iterable[str]:
    """The quantities that are configured to be read."""
    names: t.Iterable[str] = entry.get("expected", _QUANTITIES)
    return names


def _render(data: Data, detail: Detail) -> Child:
    fresh = [entry for entry in data["nodes"] if _is_fresh(entry)]
    others = [entry for entry in data["nodes"] if not _is_fresh(entry)]
    words = (
        f"{number(len(fresh))} of {counted(len(data['nodes']), 'node')} were read completely at "
    )
    parts: list[Child] = [lead(words, moment(data["read_at"]), ".")]
    if others:
        parts.append(element("h3", "Not read completely"))
        parts.append(detail.table("Incomplete readings", _COLUMNS, others, "nodes"))
    if fresh:
        summary = f"The {counted(len(fresh), 'node')} that were read completely"
        caption = "Readings of nodes that were read completely"
        parts.append(folded(summary, detail.table(caption, _COLUMNS, fresh, "nodes")))
    parts.append(
        note(
            "The last value replaces a missing one for a limited time, then the NodeConfig's "
            "fallback does. Otherwise the value is missing."
        )
    )
    return join(parts)


def _cell(name: str, entry: Data) -> list[Child]:
    value = entry[name]
    if value is None and name not in _expected(entry):
        return ["not configured"]
    if value is None:
        return [element("span", f"{LACKING} no value", class_="lacking")]
    _title, unit, decimals = _QUANTITIES[name]
    words = _WORDS.get(value["source"], str(value["source"]))
    if value["source"] == "last" and value["age_seconds"] is not None:
        words = f"{words}, {format_duration(value['age_seconds'])} old"
    shown = quantity(value["value"], unit, decimals)
    return [shown, " ", element("small", words) if value["source"] != "read" else None]


_COLUMNS = (
    Column("Node", of("node")),
    *(
        Column(title, functools.partial(_cell, name), True)
        for name, (title, *_rest) in _QUANTITIES.items()
    ),
)
SECTION = Section("freshness", "Freshness", _collect, _render)
