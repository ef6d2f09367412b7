# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The decision: which machines to wake, which to empty and switch off, and why.

``decide`` is pure: it has no clock and no I/O, and the same arguments give the same decision.

Theory. Right-sizing online with lookahead zero is 3-competitive by lazy provisioning (Lin, Wierman,
Andrew, Thereska, INFOCOM 2011) and 2d-competitive for d types of machines (Albers and Quedenfeld,
SPAA 2021). Both follow the optimum of the past. This decision seeks the set that is optimal if the
present demand and the reserve last for the horizon, with the prices of changes as hysteresis. It
has no competitive bound; the bound on cycles limits what wrong guesses cost. Its reserve takes the
place of the idle time of AutoScale's delayed off (Gandhi, Harchol-Balter et al., TOCS 2012).
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import replace

from ..base.errors import InvalidInput
from ..base.libraries import numpy
from .economics import price_of_sleep, price_of_wake
from .emptying import Emptying
from .fleet import Fleet
from .machine import Phase
from .protection import Floors, obstacle
from .reserve import amounts_of, reserve_of
from .room import Room, Shape
from .state import Decision, FleetState, PlannedMove, Transition
from .switching_off import SwitchingOff, free_after
from .target_set import FRAGMENTATION, Task, segments_of, target_set
from .waking import machines_to_wake, waiting_shapes, wakes, wakes_for_floors

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats
    from .demand import Demand
    from .rules import SleepRules

# A wake without need must repay its prices so many times: the demand may change within the horizon.
_EXCHANGE = 3.0
_WORDS_OF_PHASES = {
    Phase.DRAINING: ("draining", "Its pods are being moved before it is switched off."),
    Phase.GOING_OFF: ("going_off", "It is shutting down."),
    Phase.WAKING: ("waking", "It is booting."),
    Phase.QUARANTINED: ("quarantined", "It failed a switch and is left to the operator."),
}


def decide(state: FleetState, demand: Demand, rules: SleepRules, now: float) -> Decision:
    """What to do now. Raises InvalidInput if the time is not a number."""
    if not math.isfinite(now):
        raise InvalidInput(f"The time of the decision is {now}; give seconds since the epoch")
    if not state.machines:
        return Decision()
    deciding = _Deciding(Fleet(state, demand, rules, now), demand)
    reserve = amounts_of(deciding.reserve, deciding.fleet.amounts)
    return replace(deciding.decision(), reserve=reserve)


class _Deciding:
    """One decision in the making."""

    def __init__(self, fleet: Fleet, demand: Demand) -> None:
        self.fleet, self.rules = fleet, fleet.rules
        self.waiting = waiting_shapes(fleet)
        state, amounts = fleet.state, fleet.amounts
        requests = numpy.zeros((len(fleet.problem.groups), len(amounts.names)))
        requests[:, : fleet.problem.request.shape[1]] = fleet.problem.request
        there = state.assignment.counts[:, fleet.awake].sum(axis=1) + state.waiting
        self.load: Floats = there @ requests
        self.use = float(there @ fleet.problem.use)
        self.reserve = reserve_of(
            amounts, self.load, demand, self.rules, fleet.now, fleet.boot_seconds
        )
        self.floors = Floors(fleet)
        self.notes = [*self.floors.contradictions(), *_of_unpriced(fleet)]
        self.stay: dict[int, tuple[str, str]] = {}

    def decision(self) -> Decision:
        fleet = self.fleet
        self.emptying = Emptying(fleet.state)
        moves = self._room_for_waiting()
        room = Room(free_after(fleet, self.emptying), fleet.open | fleet.coming)
        unplaced = room.pack_all(self.waiting)
        before = room.free.copy()
        lacking = room.pack_all(self.reserve[:1])
        slot = (room.free != before).any(axis=1)
        lacking += room.pack_all(self.reserve[1:])
        task = self._task(not unplaced and not lacking)
        target = target_set(task)
        lean = self._lean_set(task, target, numpy.zeros_like(target))
        wake = wakes(fleet, unplaced, lacking, target)
        if not wake and not unplaced and not lacking and not fleet.coming.any():
            wake += self._exchange(task)
        wake += wakes_for_floors(fleet, self.floors, [transition.node for transition in wake])
        switching = SwitchingOff(
            fleet, self.emptying, self.floors, [*self.waiting, *self.reserve], stay=self.stay
        )
        if not unplaced and not lacking and not moves:
            switching.beyond(lean)
            moves = switching.moves
            if switching.kept.any():
                wake += [] if wake else self._exchange_for_reserve(switching)
                lean = self._lean_set(task, target, switching.kept)
                switching.emptied_beyond(lean)
        off = switching.off
        gone = {transition.node for transition in (*off, *wake)}
        avoid = self._avoided(lean, slot, gone)
        left = {transition.node for transition in avoid} | gone
        stay = [self._staying(node) for node in range(len(fleet.machines)) if node not in left]
        return Decision(
            tuple(wake), tuple(off), tuple(moves), tuple(avoid), tuple(stay), tuple(self.notes)
        )

    def _avoided(self, lean: Booleans, slot: Booleans, gone: set[int]) -> list[Transition]:
        """Machines outside of the lean set, and those that hold the largest reserved pod."""
        may_empty = self.fleet.open & ~self.fleet.protected
        superfluous = [
            Transition(node, *self.stay[node])
            for node in (may_empty & ~lean).nonzero()[0].tolist()
            if node not in gone and node in self.stay
        ]
        gone = gone.union(transition.node for transition in superfluous)
        return superfluous + [
            Transition(node, "slot", "Its room is kept whole for the largest recurring pod.")
            for node in (may_empty & slot).nonzero()[0].tolist()
            if node not in gone
        ]

    def _room_for_waiting(self) -> list[PlannedMove]:
        """Moves that seat waiting pods where room is scattered.

        They may cost as much as the boot that they spare, and one eviction of such a pod. With any
        move all pods that have room are seated, the largest first, so that no room counts twice.
        """
        fleet = self.fleet
        if not Room(fleet.amounts.free, fleet.open).pack_all(self.waiting):
            return []
        prices = price_of_wake(fleet)[fleet.wakeable]
        most = float(prices.min()) if len(prices) else math.inf
        emptying = Emptying(fleet.state)
        moves: list[PlannedMove] = []
        waiting: list[Shape] = []
        for shape in self.waiting:
            group = t.cast("int", shape.group)
            price = most + float(fleet.state.eviction_joules[group])
            seated = 0
            while seated < shape.count:
                made = emptying.make_room(group, fleet.open, price)
                if made is None:
                    break
                emptying.accept(made)
                moves += made.moves
                seated += 1
            waiting.append(replace(shape, count=shape.count - seated))
        if moves:
            self.emptying = emptying
            self.waiting = [shape for shape in waiting if shape.count]
        return moves

    def _task(self, is_enough: bool) -> Task:
        """The search for the target set; a set that holds all shapes has enough room."""
        fleet = self.fleet
        amounts = fleet.amounts
        present = fleet.open | fleet.coming
        extra = sum((shape.total for shape in self.reserve), numpy.zeros(len(amounts.names)))
        need = (self.load + extra) * (1 + FRAGMENTATION)
        everything = amounts.capacity[present | fleet.wakeable].clip(0.0).sum(axis=0)
        if (self.load + extra > everything).any():
            self.notes.append(
                "Pods and reserve together are larger than the fleet; all machines that help are "
                "awake. Lower the reserve, or let more machines take part."
            )
        need = numpy.minimum(need, everything)
        if is_enough:
            need = numpy.minimum(need, amounts.capacity[present].clip(0.0).sum(axis=0))
        fixed = numpy.array(
            [
                bool(obstacle(fleet, node)) or bool(fleet.coming[node])
                for node in range(len(fleet.machines))
            ]
        )
        cpu = amounts.names.index("cpu") if "cpu" in amounts.names else None
        use_per_cpu = self.use / self.load[cpu] if cpu is not None and self.load[cpu] > 0 else 0.0
        return Task(
            fleet,
            segments_of(fleet, use_per_cpu),
            self.use,
            need,
            self.rules.horizon_seconds,
            present,
            present & fixed,
            ~(present | fleet.wakeable),
            price_of_sleep(fleet) + fleet.eviction_joules,
            price_of_wake(fleet),
        )

    def _exchange(self, task: Task) -> list[Transition]:
        """Wakes of machines that do the work for so much less that it repays all prices thrice."""
        strict = replace(
            task,
            price_in=_EXCHANGE * task.price_in,
            price_out=_EXCHANGE * task.price_out,
        )
        better = target_set(strict) & self.fleet.wakeable
        return [
            Transition(node, "exchange", "It does the same work for much less energy.")
            for node in better.nonzero()[0].tolist()
        ]

    def _exchange_for_reserve(self, switching: SwitchingOff) -> list[Transition]:
        """Wakes of machines that hold the reserve for much less than the worst that it keeps awake.

        The target set counts amounts, so it does not know which machine holds the largest pod.
        """
        fleet = self.fleet
        if fleet.coming.any():
            return []
        worst = max(switching.blocked.values(), key=lambda blocked: blocked.saved_watts)
        room = Room(fleet.amounts.capacity, fleet.wakeable)
        nodes = machines_to_wake(fleet, room, worst.lacking, numpy.zeros_like(fleet.open))
        added = float((fleet.idle_watts - fleet.standby_watts)[nodes].sum())
        saved = (worst.saved_watts - added) * self.rules.horizon_seconds
        price = worst.joules + float(price_of_wake(fleet)[nodes].sum())
        if saved <= _EXCHANGE * price or room.only(nodes).pack_all(worst.lacking):
            return []
        reason = "It holds the reserve for much less energy than a machine that is awake."
        return [Transition(node, "exchange", reason) for node in nodes]

    def _lean_set(self, task: Task, target: Booleans, kept: Booleans) -> Booleans:
        """The machines of the target set that new pods should use, and those that are ``kept``.

        Evictions have no price here: departures empty the other machines for nothing.
        """
        return target_set(
            replace(
                task,
                locked_out=(task.locked_out | ~target) & ~kept,
                locked_in=(task.locked_in & target) | kept,
                # One joule a pod: of equal machines, the one with fewer pods is emptied.
                price_out=price_of_sleep(self.fleet) + self.fleet.state.assignment.pods,
            )
        )

    def _staying(self, node: int) -> Transition:
        fleet = self.fleet
        machine = fleet.machines[node]
        if machine.phase in _WORDS_OF_PHASES:
            return Transition(node, *_WORDS_OF_PHASES[machine.phase])
        if machine.phase is Phase.ASLEEP:
            return Transition(node, "asleep", "Awake machines have room for pods and reserve.")
        if node in self.stay:
            return Transition(node, *self.stay[node])
        reason = obstacle(fleet, node)
        if reason:
            return Transition(node, *reason)
        return Transition(node, "needed", "It carries pods or the reserve.")


def _of_unpriced(fleet: Fleet) -> list[str]:
    """One sentence about the sleeping machines without a power curve."""
    names = [fleet.machines[node].name for node in fleet.unpriced.nonzero()[0].tolist()]
    if not names:
        return []
    return [
        f"Sleeping machines without a power curve in this run: {len(names)}, such as {names[0]}. "
        "Only pods that have room nowhere else wake them."
    ]
