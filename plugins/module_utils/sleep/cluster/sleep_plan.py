# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A plan of machines to switch off, as a person approves it, and changes since that forbid it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.json_types import Object
from ...scheduling.plan import PlannedMove, Step
from ..machine import Phase

# A machine that draws so much more does work that the plan did not know, inside or outside of pods.
_MAX_FACTOR, _MAX_MORE_WATTS = 1.25, 20.0
_UNDERWAY = (Phase.GOING_OFF, Phase.ASLEEP)


@dataclass(frozen=True)
class PlannedMachine:
    """A machine to switch off, as it was when the plan was made.

    ``uid`` is that of its Node. ``pods`` must leave it, by uid, and ``moves`` are how.
    ``power_watts`` was read from its BMC, None if it was not.
    """

    name: str
    uid: str
    reason: str
    saved_watts: float
    power_watts: float | None = None
    pods: t.Mapping[str, str] = field(default_factory=dict)
    moves: tuple[PlannedMove, ...] = ()

    def as_document(self) -> dict[str, t.Any]:
        return {
            **vars(self),
            "pods": [{"uid": uid, "pod": pod} for uid, pod in self.pods.items()],
            "moves": [move.as_document() for move in self.moves],
        }


@dataclass(frozen=True)
class SleepPlan:
    """The machines that one plan switches off."""

    machines: tuple[PlannedMachine, ...] = ()

    @classmethod
    def from_document(cls, body: Object) -> SleepPlan:
        """The plan of a checked document."""
        return cls(tuple(map(_machine, body["machines"])))

    def as_document(self) -> dict[str, t.Any]:
        """The body of the document."""
        return {"machines": [one.as_document() for one in self.machines]}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.machines)

    @property
    def steps(self) -> dict[str, Step]:
        """The moves that empty each machine."""
        return {
            one.name: Step(number, one.moves, asleep=(one.name,))
            for number, one in enumerate(self.machines, 1)
            if one.moves
        }


@dataclass(frozen=True)
class MachineNow:
    """A machine of a plan at the time when the plan is to be carried out.

    ``obstacle`` is a sentence why it would not be switched off now, empty if it would.
    """

    uid: str
    phase: Phase = Phase.AWAKE
    pods: t.Mapping[str, str] = field(default_factory=dict)
    power_watts: float | None = None
    obstacle: str = ""


def refusal(plan: SleepPlan, now: t.Mapping[str, MachineNow]) -> str:
    """Why the plan is not carried out any more, in one sentence; empty if it may be.

    The plan is carried out as a whole or not at all. Machines that it has already switched off do
    not hinder it, so that a run that was killed can be repeated.
    """
    for machine in plan.machines:
        change = _change(machine, now.get(machine.name))
        if change:
            return (
                f"The state has moved on since the plan was made: {change} "
                "Plan again, and approve the new plan."
            )
    return ""


def _change(planned: PlannedMachine, now: MachineNow | None) -> str:
    name = planned.name
    if now is None or now.uid != planned.uid:
        return f"Node {name} was removed or replaced."
    if now.phase in _UNDERWAY:
        return ""
    came = sorted(now.pods[uid] for uid in now.pods.keys() - planned.pods.keys())
    if came:
        return f"{came[0]} came to {name}."
    then = planned.power_watts
    if now.power_watts is not None and then is not None and now.phase is Phase.AWAKE:
        most = max(_MAX_FACTOR * then, then + _MAX_MORE_WATTS)
        if now.power_watts > most:
            return f"{name} draws {now.power_watts:.0f} W, and drew {then:.0f} W."
    return f"{name} is not to be switched off now. {now.obstacle}" if now.obstacle else ""


def _machine(body: Object) -> PlannedMachine:
    return PlannedMachine(
        *(body["name"], body["uid"], body["reason"], body["saved_watts"], body["power_watts"]),
        {one["uid"]: one["pod"] for one in body["pods"]},
        tuple(map(PlannedMove.from_document, body["moves"])),
    )
