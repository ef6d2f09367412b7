# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The decision: which machines to wake, which to empty and switch off, and why.

``decide`` is pure: it has no clock and no I/O, and the same arguments give the same decision.

Theory. Right-sizing online with lookahead zero is 3-competitive by lazy provisioning (Lin, Wierman,
Andrew, Thereska, INFOCOM 2011) and 2d-competitive for d types of machines (Albers and Quedenfeld,
SPAA 2021). Both follow the optimum of the past, and pay for the worst case. This decision follows
the set that is optimal if the present demand and the reserve last for the horizon, with the prices
of changes as hysteresis: on traces it does better, without a competitive bound. The delayed off of
AutoScale (Gandhi, Harchol-Balter et al., TOCS 2012) is contained: room that the reserve needs is
not switched off, and a machine that pays only after its break-even time stays.
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
from .reserve import reserve_of
from .room import Room, Shape
from .state import Decision, FleetState, PlannedMove, Transition
from .target_set import FRAGMENTATION, Task, segments_of, target_set
from .waking import machines_to_wake, waiting_shapes

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats
    from .demand import Demand
    from .rules import SleepRules

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
    return _Deciding(Fleet(state, demand, rules, now), demand).decision()


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
        self.notes: list[str] = []
        self.stay: dict[int, tuple[str, str]] = {}

    def decision(self) -> Decision:
        fleet = self.fleet
        self.emptying = Emptying(fleet.state)
        moves = self._room_for_waiting()
        room = Room(self._free(), fleet.open | fleet.coming)
        unplaced = room.pack_all(self.waiting)
        before = room.free.copy()
        lacking = room.pack_all(self.reserve[:1])
        slot = (room.free != before).any(axis=1)
        lacking += room.pack_all(self.reserve[1:])
        task = self._task(not unplaced and not lacking)
        target = target_set(task)
        lean = self._lean_set(task, target)
        wake = self._wakes(unplaced, lacking, target)
        off: list[Transition] = []
        if not unplaced and not lacking and not moves:
            off, moves = self._offs(lean)
        gone = {transition.node for transition in (*off, *wake)}
        avoid = [
            Transition(node, *self.stay[node])
            for node in (fleet.open & ~lean & ~fleet.protected).nonzero()[0].tolist()
            if node not in gone and node in self.stay
        ]
        avoid += [
            Transition(node, "slot", "Its room is kept whole for the largest recurring pod.")
            for node in (fleet.open & slot).nonzero()[0].tolist()
            if node not in gone and node not in {each.node for each in avoid}
        ]
        left = {transition.node for transition in avoid} | gone
        stay = [self._staying(node) for node in range(len(fleet.machines)) if node not in left]
        return Decision(
            tuple(wake), tuple(off), tuple(moves), tuple(avoid), tuple(stay), tuple(self.notes)
        )

    def _free(self) -> Floats:
        """Free amounts after the moves, beside the waiting pods that these seat."""
        free = self.fleet.amounts.free.copy()
        free[:, : self.emptying.assignment.free.shape[1]] = self.emptying.assignment.free
        return free

    def _room_for_waiting(self) -> list[PlannedMove]:
        """Moves that seat waiting pods where room is scattered, if they cost less than a boot."""
        fleet = self.fleet
        if not fleet.state.waiting.any():
            return []
        prices = price_of_wake(fleet)[fleet.wakeable]
        most = float(prices.min()) if len(prices) else math.inf
        room = Room(fleet.amounts.free, fleet.open)
        moves: list[PlannedMove] = []
        waiting: list[Shape] = []
        for shape in self.waiting:
            rest = room.pack(shape)
            seated = 0
            while seated < rest.count and shape.group is not None:
                made = self.emptying.make_room(shape.group, fleet.open, most)
                if made is None:
                    break
                self.emptying.accept(made)
                moves += made.moves
                seated += 1
                room = Room(self._free(), fleet.open)
            waiting.append(replace(shape, count=shape.count - seated))
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

    def _lean_set(self, task: Task, target: Booleans) -> Booleans:
        """The machines of the target set that new pods should use.

        Evictions have no price here: departures empty the other machines for nothing.
        """
        locked_out = task.locked_out | ~target
        return target_set(
            replace(
                task,
                locked_out=locked_out,
                locked_in=task.locked_in & target,
                # One joule a pod: of equal machines, the one with fewer pods is emptied.
                price_out=price_of_sleep(self.fleet) + self.fleet.state.assignment.pods,
            )
        )

    def _wakes(
        self, unplaced: list[Shape], lacking: list[Shape], target: Booleans
    ) -> list[Transition]:
        """For waiting pods, for the reserve, and instead of machines that cost more."""
        fleet = self.fleet
        room = Room(fleet.amounts.capacity, fleet.wakeable)
        wanted = target & fleet.wakeable
        waited = float(fleet.state.waited[fleet.state.waiting > 0].max(initial=0.0))
        is_urgent = waited >= self.rules.urgent_seconds
        first = machines_to_wake(fleet, room, unplaced, wanted, is_urgent) if unplaced else []
        for node in first:
            room.free[node] = fleet.amounts.capacity[node]
        both = list(first)
        if lacking:
            rest = Room(fleet.amounts.capacity, fleet.wakeable & _mask(first, len(wanted)))
            rest.pack_all(unplaced)
            lacking = rest.pack_all(lacking)
            both += [
                node for node in machines_to_wake(fleet, room, lacking, wanted) if node not in first
            ]
        wakes = [
            Transition(node, "waiting_pods", "Waiting pods have no room on awake machines.")
            if node in first
            else Transition(node, "reserve", "The reserve has no room on awake machines.")
            for node in both
        ]
        if not wakes:
            wakes += [
                Transition(node, "exchange", "It does the same work for less energy than others.")
                for node in wanted.nonzero()[0].tolist()
            ]
        return wakes + self._wakes_for_floors([transition.node for transition in wakes])

    def _wakes_for_floors(self, woken: list[int]) -> list[Transition]:
        """Machines to wake because too few are awake, those that idle for the fewest watts first."""
        fleet = self.fleet
        up = fleet.awake | fleet.coming | _mask(woken, len(fleet.machines))
        wakes: list[Transition] = []
        for where, members, least in self.floors.all():
            missing = least - int((members & up).sum())
            asleep = (members & fleet.wakeable & ~up).nonzero()[0]
            cheapest = asleep[numpy.argsort(fleet.idle_watts[asleep], kind="stable")]
            for node in cheapest[: max(0, missing)].tolist():
                up[node] = True
                reason = f"At least {least} machines of {where} stay awake."
                wakes.append(Transition(node, "floor", reason))
            if least > members.sum():
                self.notes.append(
                    f"{where} has {int(members.sum())} machines, but the rules keep {least} awake; "
                    "lower the floor."
                )
        return wakes

    def _offs(self, target: Booleans) -> tuple[list[Transition], list[PlannedMove]]:
        """Machines outside of the target set that can be emptied at a price that sleep repays."""
        fleet, rules = self.fleet, self.rules
        emptying = self.emptying
        floors = self.floors
        leaving = (fleet.open & ~target).nonzero()[0].tolist()
        leaving.sort(key=lambda node: (float(fleet.eviction_joules[node]), node))
        most = max(1, math.floor(rules.max_share * len(fleet.machines)))
        remaining = fleet.open & target
        still_open = fleet.open.copy()
        cycle = price_of_sleep(fleet)
        off: list[Transition] = []
        moves: list[PlannedMove] = []
        for node in leaving:
            reason = obstacle(fleet, node) or floors.obstacle(node)
            if not reason and len(off) >= most:
                reason = ("share", f"One decision switches at most {most} machines off.")
            why = emptying.obstacle(node)
            if not reason and why:
                reason = ("pods", f"It is not needed, but {why}.")
            if reason:
                self.stay[node] = reason
                continue
            targets = still_open.copy()
            targets[node] = False
            drawn = float(emptying.assignment.cost[node])
            emptied = emptying.empty(node, targets & remaining) or emptying.empty(node, targets)
            if emptied is None:
                self.stay[node] = ("no_room", "It is not needed, but its pods fit nowhere else.")
                continue
            saved = drawn - float(fleet.standby_watts[node]) - emptied.added_watts
            price = emptied.joules + float(cycle[node])
            room = Room(self._free(), targets)
            lacks = bool(room.pack_all(self.waiting)) or bool(room.pack_all(self.reserve))
            if lacks or saved * rules.horizon_seconds < price:
                emptying.refuse(emptied)
                self.stay[node] = (
                    ("reserve", "Without it the reserve has no room.")
                    if lacks
                    else ("price", "Its sleep would not repay its evictions and the cycle.")
                )
                continue
            emptying.accept(emptied)
            floors.switched_off(node)
            still_open[node] = False
            moves += emptied.moves
            off.append(
                Transition(
                    node,
                    "not_needed",
                    f"The others carry its {len(emptied.moves)} pods and the reserve;"
                    f" its sleep saves {saved:.0f} W.",
                )
            )
        return off, moves

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


def _mask(nodes: list[int], size: int) -> Booleans:
    mask = numpy.zeros(size, dtype=bool)
    mask[nodes] = True
    return mask
