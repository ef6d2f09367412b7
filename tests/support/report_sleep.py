# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a fleet whose machines sleep at night, with the timeline of a week."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Sequence

Json = dict[str, t.Any]

SINCE = "2026-01-24T12:00:00Z"
_HOURS = 7 * 24


def sleep_document(names: Sequence[str], asleep: int, suffix: str = "") -> Json:
    """The first machines sleep, the next one is quarantined, and the others are needed."""
    machines = [
        _machine(name, "asleep", "Awake machines have room for pods and reserve." + suffix)
        for name in names[:asleep]
    ]
    machines += [
        _machine(name, "quarantined", "Its Node was not ready after 3 boots.")
        for name in names[asleep : asleep + 1]
    ]
    machines += [
        _machine(name, "awake", "It carries pods or the reserve.") for name in names[asleep + 1 :]
    ]
    phases = [one["phase"] for one in machines]
    counts = {name: phases.count(name) for name in ("awake", "asleep", "quarantined")}
    return {
        "mode": "on",
        "machines": machines,
        "transitions": [],
        "obstacle": None,
        "notes": [],
        "reserve": {"cpu": 64000.0},
        "findings": [],
        **dict.fromkeys(("draining", "going_off", "waking"), 0),
        **counts,
        "saved_watts": 110.0 * asleep,
        "saved_joules": 6.2e8,
        "cycles": 41,
        "wakes_in_time": 33,
        "wakes_late": 2,
        "timeline": timeline(len(names), counts),
        "dry_run_days": [],
    }


def timeline(machines: int, last: t.Mapping[str, int]) -> Json:
    """Half-hourly counts of a week with days and nights; the fleet was awake at first."""
    columns: dict[str, list[float]] = {
        name: [] for name in ("hours", "awake", "asleep", "waking", "quarantined", "needed")
    }
    for step in range(2 * _HOURS):
        hour = step / 2
        share = 0.32 - 0.22 * math.cos(2 * math.pi * (hour - 16) / 24) * (hour < 108 or hour > 156)
        needed = round(machines * share)
        awake = min(machines, round(1.15 * needed) + 1) if step > 3 else machines
        waking = int(step % 48 == 39 and awake < machines)
        asleep = machines - awake - waking
        for name, value in zip(columns, (hour, awake, asleep, waking, 0, needed), strict=True):
            columns[name].append(value)
    columns["hours"].append(float(_HOURS))
    for name in ("awake", "asleep", "quarantined"):
        columns[name].append(last[name])
    columns["waking"].append(0)
    columns["needed"].append(columns["needed"][-1])
    return {"since": SINCE, **columns}


def _machine(name: str, phase: str, reason: str) -> Json:
    return {
        "name": name,
        "phase": phase,
        "word": "needed" if phase == "awake" else phase,
        "reason": reason,
        "power_state": "Off" if phase == "asleep" else "On",
        "watts": 110.0,
        "is_measured": phase != "quarantined",
    }
