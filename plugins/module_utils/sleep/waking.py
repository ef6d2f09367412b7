# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Machines to wake for shapes that have no room: the set that costs the least energy.

Greedy by joules for each share of the missing room, then without machines that the others make
superfluous. Where a pod has waited long, a shorter boot comes first.
"""

from __future__ import annotations

import typing as t

from ..base.libraries import numpy
from .economics import price_of_wake
from .room import Room, Shape
from .state import Transition

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats
    from .fleet import Fleet
    from .protection import Floors


def machines_to_wake(
    fleet: Fleet, room: Room, shapes: list[Shape], preferred: Booleans, is_urgent: bool = False
) -> list[int]:
    """Nodes to wake so that as many of the shapes as possible fit.

    ``room`` is that of the machines that may be woken, after their boots. ``preferred`` ones come
    first: they should be awake in any case.
    """
    candidates = numpy.ones_like(fleet.wakeable)
    cost = _joules(fleet)
    cost = cost - numpy.where(preferred, 0.999 * cost, 0.0)
    boots = numpy.array([machine.switching.boot_seconds for machine in fleet.machines])
    chosen: list[int] = []
    left = [shape for shape in shapes if shape.count]
    while left and candidates.any():
        helped = _helped(fleet, room, left)
        useful = candidates & (helped > 0)
        if not useful.any():
            break
        if is_urgent and not chosen:
            useful &= boots == boots[useful].min()
        price = numpy.where(useful, cost / numpy.maximum(helped, 1e-12), numpy.inf)
        node = int(price.argmin())
        candidates[node] = False
        chosen.append(node)
        left = _packed(room, left, [node])
    return _needed(room, shapes, chosen)


def _joules(fleet: Fleet) -> Floats:
    """Energy of each machine awake and idle over the horizon, with its boot."""
    idle = (fleet.idle_watts - fleet.standby_watts).clip(1.0)
    joules: Floats = idle * fleet.rules.horizon_seconds + price_of_wake(fleet).clip(0.0)
    return joules


def _helped(fleet: Fleet, room: Room, shapes: list[Shape]) -> Floats:
    """Share of the shapes' requests that each node could take, the shapes one after the other."""
    largest = numpy.maximum(fleet.amounts.capacity.max(axis=0, initial=0.0), 1e-9)
    helped = numpy.zeros(len(room.free))
    trial = room.copy()
    for shape in shapes:
        number = trial.capacity(shape)
        trial.free -= number[:, None] * shape.requests
        helped += number * max(float((shape.requests / largest).max(initial=0.0)), 1e-9)
    return helped


def _packed(room: Room, shapes: list[Shape], nodes: list[int]) -> list[Shape]:
    """The shapes without room on these nodes."""
    return room.only(nodes).pack_all(shapes)


def _needed(room: Room, shapes: list[Shape], chosen: list[int]) -> list[int]:
    """The chosen nodes without those that the later ones make superfluous."""
    left = sum(shape.count for shape in _packed(room, shapes, chosen))
    for node in list(chosen):
        others = [each for each in chosen if each != node]
        if sum(shape.count for shape in _packed(room, shapes, others)) <= left:
            chosen = others
    return chosen


def waiting_shapes(fleet: Fleet) -> list[Shape]:
    """The waiting pods, the largest first."""
    state = fleet.state
    takes_more = fleet.problem.limit > state.assignment.counts
    shapes = [
        Shape(
            fleet.amounts.of_group(state, group),
            int(state.waiting[group]),
            takes_more[group],
            group,
        )
        for group in state.waiting.nonzero()[0].tolist()
    ]
    largest = numpy.maximum(fleet.amounts.capacity.max(axis=0, initial=0.0), 1e-9)
    return sorted(shapes, key=lambda shape: -float((shape.requests / largest).max(initial=0.0)))


def wakes(
    fleet: Fleet, unplaced: list[Shape], lacking: list[Shape], target: Booleans
) -> list[Transition]:
    """Wakes for waiting pods and for the reserve, of machines in the target set first."""
    room = Room(fleet.amounts.capacity, fleet.wakeable)
    wanted = target & fleet.wakeable
    waited = float(fleet.state.waited[fleet.state.waiting > 0].max(initial=0.0))
    is_urgent = waited >= fleet.rules.urgent_seconds
    first = machines_to_wake(fleet, room, unplaced, wanted, is_urgent) if unplaced else []
    first += _last_resort(fleet, unplaced)
    both = list(first)
    if lacking:
        rest = Room(fleet.amounts.capacity, fleet.wakeable & _mask(first, len(wanted)))
        rest.pack_all(unplaced)
        lacking = rest.pack_all(lacking)
        # The first have given their room already.
        asleep = Room(fleet.amounts.capacity, fleet.wakeable & ~_mask(first, len(wanted)))
        both += machines_to_wake(fleet, asleep, lacking, wanted)
    return [
        Transition(node, "waiting_pods", "Waiting pods have no room on awake machines.")
        if node in first
        else Transition(node, "reserve", "The reserve has no room on awake machines.")
        for node in both
    ]


def _last_resort(fleet: Fleet, unplaced: list[Shape]) -> list[int]:
    """Machines without a power curve, for pods that have room on no other sleeping machine."""
    if not unplaced or not fleet.unpriced.any():
        return []
    left = Room(fleet.amounts.capacity, fleet.wakeable).pack_all(unplaced)
    room = Room(fleet.amounts.capacity, fleet.unpriced)
    return machines_to_wake(fleet, room, left, fleet.unpriced)


def wakes_for_floors(fleet: Fleet, floors: Floors, woken: list[int]) -> list[Transition]:
    """Wakes because too few machines are awake, those that idle for the fewest watts first."""
    up = fleet.open | fleet.coming | _mask(woken, len(fleet.machines))
    wakes: list[Transition] = []
    for where, members, least in floors.all():
        missing = least - int((members & up).sum())
        asleep = (members & fleet.wakeable & ~up).nonzero()[0]
        cheapest = asleep[numpy.argsort(fleet.idle_watts[asleep], kind="stable")]
        for node in cheapest[: max(0, missing)].tolist():
            up[node] = True
            reason = f"At least {least} machines of {where} stay awake."
            wakes.append(Transition(node, "floor", reason))
    return wakes


def _mask(nodes: list[int], size: int) -> Booleans:
    mask = numpy.zeros(size, dtype=bool)
    mask[nodes] = True
    return mask
