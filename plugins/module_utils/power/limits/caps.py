# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Caps: which machines of a domain above its limit may draw how much.

Machines of the lowest priority give first; those of equal priority share by their power above the
floor, which is the idle power with a margin, or the least limit that the BMC allows. Caps end once
their domains are well below their limits: at once for machines that do not reach theirs, else one
machine of the highest priority a run, so that the power does not jump back. Under an inlet limit
they rise with the power that the rack may draw, the highest priority first.
"""

from __future__ import annotations

import itertools
import math
import typing as t
from dataclasses import dataclass, field

from .domains import RELEASE, Limit

# Share of the limit that caps aim at, since BMCs control within a percent or two.
TARGET = 0.98
# Least power of a capped machine, as a multiple of its idle power.
IDLE_MARGIN = 1.1
# A machine below this share of its cap is not held back by it.
_HELD = 0.95
# Caps of a rack rise by this share of its power at least, so that noise changes no limit.
_NOTABLE_SHARE = 0.03


@dataclass(frozen=True)
class CapMachine:
    """One machine: its fresh power draw, the least cap, its highest priority, and our cap, in W.

    ``floor_watts`` None: it cannot be capped. ``max_watts`` is the highest limit of its BMC, or the
    one that it had before our cap, if any.
    """

    name: str
    watts: float
    floor_watts: float | None = None
    priority: int = 0
    cap_watts: float | None = None
    max_watts: float | None = None

    @property
    def is_held(self) -> bool:
        return self.cap_watts is not None and self.watts >= _HELD * self.cap_watts


@dataclass(frozen=True)
class CapPlan:
    """The cap of each machine that is to have one, the domains above their limits with their power
    draw, and the watts that no cap covers, by the place in the list of limits."""

    caps: t.Mapping[str, float] = field(default_factory=dict)
    above: t.Mapping[int, float] = field(default_factory=dict)
    uncovered: t.Mapping[int, float] = field(default_factory=dict)


def plan_caps(limits: t.Sequence[Limit], machines: t.Mapping[str, CapMachine]) -> CapPlan:
    """The caps of the machines, of which those without a fresh reading are left out."""
    caps = {name: one.cap_watts for name, one in machines.items() if one.cap_watts is not None}
    above: dict[int, float] = {}
    uncovered: dict[int, float] = {}
    kept: set[str] = set()
    for index, limit in enumerate(limits):
        there = [machines[name] for name in limit.nodes if name in machines]
        drawn = sum(one.watts for one in there)
        if drawn > limit.watts:
            above[index] = drawn
            left = _lower(there, caps, TARGET * limit.watts)
            if left > 0:
                uncovered[index] = left
        is_near = drawn > RELEASE * limit.watts or len(there) < len(limit.nodes)
        if limit.kind != "inlet" and is_near:
            kept.update(limit.nodes)
    for limit in limits:
        if limit.kind == "inlet":
            there = [machines[name] for name in limit.nodes if name in machines]
            _raise(there, caps, kept, TARGET * limit.watts)
            kept.update(limit.nodes)
    for name in _released(machines, kept):
        del caps[name]
    return CapPlan(caps, above, uncovered)


def _lower(machines: t.Sequence[CapMachine], caps: dict[str, float], target: float) -> float:
    """Lower caps until the machines draw the target; the watts that are left above it."""
    drawn = {one.name: one.watts for one in machines}
    excess = sum(drawn.values()) - target
    floors = {
        one.name: math.ceil(one.floor_watts) for one in machines if one.floor_watts is not None
    }
    room = {name: max(0.0, drawn[name] - floor) for name, floor in floors.items()}
    giving = sorted((one for one in machines if room.get(one.name)), key=_by_priority)
    for _priority, group in itertools.groupby(giving, key=_by_priority):
        names = [one.name for one in group]
        whole = sum(room[name] for name in names)
        share = min(1.0, excess / whole) if excess > 0 else 0.0
        for name in names if share else ():
            cap = float(max(floors[name], math.floor(drawn[name] - share * room[name])))
            caps[name] = min(cap, caps.get(name, cap))
        excess -= share * whole
    return max(0.0, excess)


def _raise(
    machines: t.Sequence[CapMachine],
    caps: dict[str, float],
    kept: t.Collection[str],
    target: float,
) -> None:
    """Raise caps that hold machines by what is left below the target, but for those to keep."""
    drawn = sum(one.watts for one in machines)
    held = [one for one in machines if one.is_held and one.name not in kept and one.floor_watts]
    if not held or target - drawn < _NOTABLE_SHARE * target:
        return
    highest = max(map(_by_priority, held))
    group = [one for one in held if one.priority == highest]
    whole = sum(one.watts for one in group)
    for one in group:
        cap = math.floor(one.watts * (1 + (target - drawn) / whole))
        most = math.inf if one.max_watts is None else one.max_watts
        caps[one.name] = max(caps[one.name], min(float(cap), most))


def _by_priority(machine: CapMachine) -> int:
    return machine.priority


def _released(machines: t.Mapping[str, CapMachine], kept: t.Collection[str]) -> set[str]:
    """Machines outside of these whose caps end now."""
    ready = [
        one for name, one in machines.items() if one.cap_watts is not None and name not in kept
    ]
    held = sorted((one for one in ready if one.is_held), key=lambda one: (-one.priority, one.name))
    return {one.name for one in ready if not one.is_held} | {one.name for one in held[:1]}
