# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Machines that sleep and why, machines that stay awake and why, and the energy that sleep saved."""

from __future__ import annotations

import typing as t

from ...base.units import parse_time
from ..fleet import Fleet, natural
from ..markup import Child, Markup, element
from ..numbers import counted, moment, money, number, quantity, watts
from ..section import Column, Data, Detail, Section, facts, lead, note, of, table
from ..timeline import Line, timeline

_COLUMNS = ("awake", "asleep", "waking", "quarantined", "needed")
_PHASES = ("asleep", "waking", "going_off", "draining", "quarantined", "awake")
_JOULES_PER_KILOWATT_HOUR = 3.6e6
_OF_MACHINES = ("name", "phase", "word", "reason", "watts", "is_measured")
_NOT_SWITCHED = {
    "dry_run": "This is a dry run: no machine is switched.",
    "with_approval": "Machines are switched off only by a plan that a person approved.",
    "off": "Sleep is off: every machine is brought back.",
}


def _collect(fleet: Fleet) -> Data | None:
    document = fleet.sources.sleep
    if document is None:
        return None
    machines = [{name: one[name] for name in _OF_MACHINES} for one in document["machines"]]
    same = (
        *("time", "mode", "obstacle", "notes"),
        *("saved_watts", "cycles", "wakes_in_time", "wakes_late"),
    )
    kilowatt_hours = document["saved_joules"] / _JOULES_PER_KILOWATT_HOUR
    options = fleet.sources.options
    price = options.price_per_kwh
    return {
        **{name: document[name] for name in same},
        "phases": {name: document[name] for name in _PHASES},
        "saved_kilowatt_hours": round(kilowatt_hours, 2),
        "saved_cost": None if price is None else round(kilowatt_hours * price, 4),
        "currency": options.currency,
        "timeline": _timeline(document),
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


def _timeline(document: Data) -> Data | None:
    """The recorded timeline until the time of the run; None if it has no extent."""
    given = document["timeline"]
    ended = parse_time(document["time"]) - parse_time(given["since"])
    hours = [*given["hours"], round(ended.total_seconds() / 3600, 2)]
    if len(hours) < 3 or hours[-1] <= hours[-2]:
        return None
    columns = {name: [*given[name], given[name][-1]] for name in _COLUMNS}
    return {"since": given["since"], "hours": hours, **columns}


def _would_sleep(document: Data, machine: Data) -> bool:
    """Whether a dry run, or one without an approval, left it awake that could sleep."""
    word = {"dry_run": "off", "with_approval": "approval"}.get(document["mode"])
    return bool(machine["phase"] == "awake" and machine["word"] == word)


def _order(machine: Data) -> tuple[int, list[t.Any]]:
    return _PHASES.index(machine["phase"]), list(natural(machine["name"]))


def _render(data: Data, detail: Detail) -> Child:
    phases, price = data["phases"], data["saved_cost"]
    first = (
        f"{counted(phases['asleep'], 'machine')} asleep, {number(phases['awake'])} awake; sleep saves ",
        watts(data["saved_watts"]),
        " now, and saved ",
        quantity(data["saved_kilowatt_hours"], "kWh", 2),
        "" if price is None else f", worth {money(price, data['currency'])},",
        " so far.",
    )
    parts = [lead(*first)]
    told = [_NOT_SWITCHED.get(data["mode"]), data["obstacle"], *data["notes"]]
    if data["would_sleep"]:
        told.append(f"{counted(len(data['would_sleep']), 'machine')} would be switched off.")
    parts += [element("p", sentence) for sentence in told if sentence]
    parts += [_facts(data), *_over_time(data["timeline"])]
    caption = "Machines that sleep or stay awake, and why"
    parts.append(detail.table(caption, _MACHINES, data["machines"], "machines"))
    if data["dry_run_days"]:
        parts.append(table("Dry runs by day", _DAYS, data["dry_run_days"]))
    measured = sum(one["is_measured"] for one in data["machines"])
    parts.append(
        note(
            f"What sleep saves is the idle power draw of the machine less its standby. The idle draw "
            f"was measured for {number(measured)} of {counted(len(data['machines']), 'machine')}, "
            f"and is that of the power curve for the others. Run of {moment(data['time'])}."
        )
    )
    return element("div", parts)


def _facts(data: Data) -> Markup:
    """Switches and wakes so far."""
    cycles, late = data["cycles"], data["wakes_late"]
    return facts(
        [
            (number(cycles), "switch to off" if cycles == 1 else "switches to off", False),
            (number(data["wakes_in_time"]), "woken in time", False),
            (number(late), "woken late", bool(late)),
        ]
    )


def _over_time(line: Data | None) -> list[Markup]:
    """Awake machines over what the pods needed."""
    if line is None:
        return []
    every = [sum(counts) for counts in zip(*(line[name] for name in _COLUMNS[:-1]))]
    most = max(*every, *line["needed"], 1)
    awake, needed = line["awake"], line["needed"]
    words = (
        f"Since {moment(line['since'])}, {number(min(awake))} to {number(max(awake))} machines of "
        f"the fleet were awake. The requests of the pods needed at least "
        f"{number(min(needed))} to {number(max(needed))}, with the largest machines first."
    )
    lines = (Line("needed machines", needed, most), Line("awake machines", awake, most, bold=True))
    picture = timeline(line["hours"], lines, "Awake and needed machines over time")
    return [element("h3", "Awake machines over time"), element("p", words), *picture]


def _words(name: str) -> str:
    return name.replace("_", " ")


_MACHINES = (
    Column("Machine", of("name")),
    Column("State", of("phase", _words)),
    Column("Word", of("word", _words)),
    Column("Why", of("reason")),
    Column("Sleep saves", of("watts", watts), True),
)
_DAYS = (
    Column("Day of dry runs", of("day")),
    Column("Most asleep", of("most_asleep", number), True),
    Column("Would save", of("saved_watts", watts), True),
    Column("Energy", lambda one: quantity(one["saved_kilowatt_hours"], "kWh", 2), True),
)
SECTION = Section("sleeping", "Sleep", _collect, _render)
