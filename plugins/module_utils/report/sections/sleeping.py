# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Machines that sleep and why, machines that stay awake and why, and the energy that sleep saved."""

from __future__ import annotations

import typing as t

from ..fleet import Fleet, natural
from ..markup import Markup, element
from ..numbers import counted, moment, number, quantity, watts
from ..section import Column, Data, Detail, Section, note, table

_PHASES = ("asleep", "waking", "going_off", "draining", "quarantined", "awake")
_JOULES_PER_KILOWATT_HOUR = 3.6e6
_NOT_SWITCHED = {
    "dry_run": "This is a dry run: no machine is switched.",
    "off": "Sleep is off: every machine is brought back.",
}


def _collect(fleet: Fleet) -> Data | None:
    document = fleet.sources.sleep
    if document is None:
        return None
    machines = [
        {name: one[name] for name in ("name", "phase", "word", "reason", "watts")}
        for one in document["machines"]
    ]
    same = ("time", "mode", "obstacle", "saved_watts", "cycles", "wakes_in_time", "wakes_late")
    return {
        **{name: document[name] for name in same},
        "phases": {name: document[name] for name in _PHASES},
        "saved_kilowatt_hours": round(document["saved_joules"] / _JOULES_PER_KILOWATT_HOUR, 2),
        "machines": sorted(machines, key=_order),
        "would_sleep": [one["name"] for one in machines if _would_sleep(document, one)],
        "dry_run_days": [
            {
                "day": one["day"],
                "most_asleep": one["most_asleep"],
                "saved_watts": one["watts"],
                "saved_kilowatt_hours": round(one["saved_joules"] / _JOULES_PER_KILOWATT_HOUR, 2),
            }
            for one in document["dry_run_days"]
        ],
    }


def _would_sleep(document: Data, machine: Data) -> bool:
    is_next = machine["phase"] == "awake" and machine["word"] == "off"
    return bool(document["mode"] == "dry_run" and is_next)


def _order(machine: Data) -> tuple[int, list[t.Any]]:
    return _PHASES.index(machine["phase"]), list(natural(machine["name"]))


def _render(data: Data, detail: Detail) -> Markup:
    phases, saved = data["phases"], data["saved_kilowatt_hours"]
    lead = (
        f"{counted(phases['asleep'], 'machine')} asleep, {number(phases['awake'])} awake; sleep saves ",
        watts(data["saved_watts"]),
        " now, and saved ",
        quantity(saved, "kWh", 2),
        " so far.",
    )
    parts = [element("p", *lead, class_="lead")]
    told = [_NOT_SWITCHED.get(data["mode"]), data["obstacle"]]
    if data["would_sleep"]:
        told.append(f"{counted(len(data['would_sleep']), 'machine')} would be switched off.")
    parts += [element("p", sentence) for sentence in told if sentence]
    columns = [
        *(Column("Machine"), Column("State"), Column("Word"), Column("Why")),
        Column("Sleep saves", True),
    ]
    rows = [
        [one["name"], _words(one["phase"]), _words(one["word"]), one["reason"], watts(one["watts"])]
        for one in detail.cut(data["machines"])
    ]
    parts.append(table("Machines that sleep or stay awake, and why", columns, rows))
    parts += filter(None, [detail.rest(data["machines"], "machines"), _days(data)])
    wakes = f"{number(data['wakes_in_time'])} in time and {number(data['wakes_late'])} late"
    cycles = counted(data["cycles"], "switch", "switches")
    parts.append(note(f"{cycles} to off and wakes {wakes} so far. Run of {moment(data['time'])}."))
    return element("div", parts)


def _days(data: Data) -> Markup | None:
    if not data["dry_run_days"]:
        return None
    columns = [
        Column("Day of dry runs"),
        *(Column(title, True) for title in ("Most asleep", "Would save", "Energy")),
    ]
    rows = [
        [
            one["day"],
            number(one["most_asleep"]),
            watts(one["saved_watts"]),
            quantity(one["saved_kilowatt_hours"], "kWh", 2),
        ]
        for one in data["dry_run_days"]
    ]
    return table("Dry runs by day", columns, rows)


def _words(name: str) -> str:
    return name.replace("_", " ")


SECTION = Section("sleeping", "Sleep", _collect, _render)
