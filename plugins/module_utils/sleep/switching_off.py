# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Machines to switch off: those outside of the target set whose sleep repays its price."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field

from ..base.libraries import numpy
from .economics import break_even_seconds, price_of_sleep
from .emptying import Emptied, Emptying
from .protection import Floors, Reason, obstacle
from .room import Room, Shape
from .state import PlannedMove, Transition

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats
    from .fleet import Fleet

_RESERVE: Reason = ("reserve", "Without it the reserve has no room.")
_DEPARTURES: Reason = ("departures", "It is not needed once its pods have ended.")


def free_after(fleet: Fleet, emptying: Emptying) -> Floats:
    """Free amounts after the moves, beside the waiting pods that these seat."""
    free = fleet.amounts.free.copy()
    free[:, : emptying.assignment.free.shape[1]] = emptying.assignment.free
    return free


class Blocked(t.NamedTuple):
    """Shapes without room if a machine sleeps, the watts that its sleep saves, and its price."""

    lacking: list[Shape]
    saved_watts: float
    joules: float


@dataclass
class SwitchingOff:
    """``shapes`` are waiting pods and the reserve, which must fit on the machines that stay.

    ``stay`` says of the other machines why they stay awake.
    """

    fleet: Fleet
    emptying: Emptying
    floors: Floors
    shapes: list[Shape]
    off: list[Transition] = field(default_factory=list)
    moves: list[PlannedMove] = field(default_factory=list)
    stay: dict[int, Reason] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fleet = self.fleet
        self._most = max(1, math.floor(fleet.rules.max_share * len(fleet.machines)))
        self._cycle = price_of_sleep(fleet)
        self._open = fleet.open.copy()
        #: Machines that the reserve needs in whole pods, as amounts alone would do without them.
        self.kept: Booleans = numpy.zeros_like(fleet.open)
        #: Of each of these: what has no room without it, and the worth of its sleep.
        self.blocked: dict[int, Blocked] = {}

    def beyond(self, target: Booleans) -> None:
        """Switch off awake machines outside of the target set, the cheapest to empty first.

        Of equal ones, that which idles for the most watts comes first.
        """
        fleet = self.fleet
        leaving = (fleet.open & ~target).nonzero()[0].tolist()
        idle = fleet.idle_watts
        leaving.sort(
            key=lambda node: (float(fleet.eviction_joules[node]), -float(idle[node]), node)
        )
        for node in leaving:
            reason = self._obstacle(node) or self._try(node, target)
            if reason is not None:
                self.stay[node] = reason
                self.kept[node] = reason == _RESERVE

    def emptied_beyond(self, target: Booleans) -> None:
        """Switch off further awake machines outside of the target set if they are empty.

        The target set of ``beyond`` did without the room of the kept machines. With it others are
        not needed, and departures empty these for nothing.
        """
        for node in (self._open & ~target).nonzero()[0].tolist():
            if node in self.stay:
                continue
            has_pods = bool(self.emptying.assignment.pods[node])
            reason = _DEPARTURES if has_pods else self._obstacle(node) or self._try(node, target)
            if reason is not None:
                self.stay[node] = reason

    def _obstacle(self, node: int) -> Reason | None:
        reason = obstacle(self.fleet, node) or self.floors.obstacle(node)
        if reason is None and len(self.off) >= self._most:
            reason = ("share", f"One decision switches at most {self._most} machines off.")
        fixed = self.emptying.obstacle(node)
        if reason is None and fixed:
            reason = ("pods", f"It is not needed, but {fixed}.")
        return reason

    def _try(self, node: int, target: Booleans) -> Reason | None:
        """Empty and switch off a machine; the reason, if it stays after all."""
        fleet, emptying = self.fleet, self.emptying
        others = self._open.copy()
        others[node] = False
        drawn = float(emptying.assignment.cost[node])
        emptied = emptying.empty(node, others & target) or emptying.empty(node, others)
        if emptied is None:
            return "no_room", "It is not needed, but its pods fit nowhere else."
        room = Room(free_after(fleet, emptying), others)
        saved = drawn - float(fleet.standby_watts[node]) - emptied.added_watts
        price = emptied.joules + float(self._cycle[node])
        lacking = room.pack_all(self.shapes)
        if lacking:
            emptying.refuse(emptied)
            self.blocked[node] = Blocked(lacking, saved, price)
            return _RESERVE
        if saved * fleet.rules.horizon_seconds < price:
            emptying.refuse(emptied)
            return "price", "Its sleep would not repay its evictions and the cycle."
        self._accept(node, emptied, saved, price)
        return None

    def _accept(self, node: int, emptied: Emptied, saved_watts: float, joules: float) -> None:
        self.emptying.accept(emptied)
        self.floors.switched_off(node)
        self._open[node] = False
        self.moves += emptied.moves
        switching = self.fleet.machines[node].switching
        beyond = joules - switching.cycle_joules
        minutes = break_even_seconds(saved_watts, switching, beyond) / 60
        reason = (
            f"The others carry its {len(emptied.moves)} pods and the reserve; its sleep saves "
            f"{saved_watts:.0f} W and repays its price after {minutes:.0f} min."
        )
        self.off.append(Transition(node, "not_needed", reason))
