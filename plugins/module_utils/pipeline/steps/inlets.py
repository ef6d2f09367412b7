# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inlet limits of one run: racks above them, and the power that these may still draw.

A machine that sleeps has no fan that moves air past its sensor, so that its inlet does not count.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base.context import Parameters
from ...nodeconfig.readings import Reading, Readings, fresh_values
from ...power.limits.domains import Limit, by_rack
from ...power.limits.options import PowerLimits, limit_of
from ...power.limits.reductions import (
    ODD_CELSIUS,
    RackReading,
    Reduction,
    hottest_inlet,
    next_reduction,
)
from ...scheduling.curve import Curves
from ..limits_record import Entries, Entry, RackReduction, rack_key
from .capping import Capping

_MAX_NAMED = 3


@dataclass(frozen=True)
class RackInlet:
    """A rack with an inlet limit, its hottest inlet that counts, and its reduction after this run.

    ``odd`` are nodes whose inlets do not count. ``watts`` is the power of its machines with a reading.
    ``is_awake`` says whether a machine of it is awake. ``unread_watts`` is assumed of the others.
    """

    name: str
    nodes: tuple[str, ...]
    limit_celsius: float
    hottest: str | None
    celsius: float | None
    odd: frozenset[str]
    watts: float
    is_awake: bool
    reduction: Reduction | None = None
    unread_watts: float = 0.0

    @property
    def state(self) -> str:
        """``above`` its limit; ``reduced`` until the inlet is below it by the margin."""
        if self.celsius is None:
            return "unknown"
        if self.celsius > self.limit_celsius:
            return "above"
        return "within" if self.reduction is None else "reduced"

    @property
    def limit(self) -> Limit | None:
        """What the machines with a reading may draw."""
        if self.reduction is None:
            return None
        left = max(0.0, self.reduction.watts - self.unread_watts)
        return Limit("inlet", self.name, self.nodes, left)

    @property
    def helps(self) -> bool:
        """Whether the inlet follows the power of the rack, as far as is known."""
        return self.reduction is None or self.celsius is None or self.reduction.helps(self.celsius)

    def problems(self) -> t.Iterator[str]:
        """Sentences about sensors, and about a rack whose inlet does not follow its power."""
        title = f"inlet limit of rack {self.name}"
        if self.odd:
            yield (
                f"The {title} does not count the inlets of {', '.join(sorted(self.odd)[:_MAX_NAMED])}, "
                f"which are no temperature of air, or hotter by more than {ODD_CELSIUS:g} °C than all "
                "others of the rack; look at the sensors, and at what blocks the air there"
            )
        if self.celsius is None and self.is_awake:
            yield f"The {title} cannot be judged, because no machine of it has a fresh inlet that counts"
        if self.state == "above" and not self.watts:
            yield f"The {title} has no remedy, because no machine of it has a fresh power reading"
        if self.state == "above" and self.reduction is not None and not self.helps:
            first, now = self.reduction.first_watts, self.reduction.watts
            yield (
                f"The inlet of rack {self.name} has {self.celsius:.3g} °C at {self.hottest} after its "
                f"power was reduced from {first:,.0f} W to {now:,.0f} W, and "
                f"{self.reduction.first_celsius:.3g} °C before: its air comes warm from the room, so "
                "that no pod is evicted for it; look at the cooling and the sensor, or raise the limit"
            )


def rack_inlets(
    capping: Capping,
    limits: PowerLimits,
    entries: Entries,
    readings: Readings,
    curves: t.Callable[[], Curves],
    is_active: bool,
) -> list[RackInlet]:
    """The racks with an inlet limit, of the run's own machines.

    Without ``is_active`` no power is reduced. ``curves`` are asked for only where a rack is too hot.
    """
    own = [place for place in capping.places if place.is_ours]
    found = []
    for rack, names in sorted(by_rack(own).items()):
        limit = limit_of(limits.inlet_celsius, rack)
        if limit is None:
            continue
        one = _rack_inlet(capping, rack, tuple(names), limit, readings)
        entry = entries.get(rack_key(rack, capping.owner), Entry())
        if is_active:
            before = None if entry.reduced is None else entry.reduced.reduction
            one = _reduced(capping, one, before, readings, curves)
        found.append(one)
    return found


def _rack_inlet(
    capping: Capping, rack: str, names: tuple[str, ...], limit: float, readings: Readings
) -> RackInlet:
    awake = [name for name in names if name not in capping.asleep]
    inlets = fresh_values(
        {name: readings[name] for name in awake if name in readings}, "inlet_celsius"
    )
    hottest, odd = hottest_inlet(inlets)
    watts = sum(capping.watts.get(name, 0.0) for name in names)
    celsius = None if hottest is None else inlets[hottest]
    return RackInlet(rack, names, limit, hottest, celsius, odd, watts, bool(awake))


def _reduced(
    capping: Capping,
    rack: RackInlet,
    before: Reduction | None,
    readings: Readings,
    curves: t.Callable[[], Curves],
) -> RackInlet:
    """The rack with its reduction after this run; that of before where nothing can be judged.

    A rack whose machines all sleep has none: it would never be woken.
    """
    is_hot = rack.celsius is not None and rack.celsius > rack.limit_celsius
    if not rack.is_awake or (before is None and not (is_hot and rack.watts)):
        return rack
    unread = _unread_watts(capping, rack.nodes, readings, curves())
    rack = replace(rack, reduction=before, unread_watts=unread)
    if rack.hottest is None or rack.celsius is None or (is_hot and not rack.watts):
        return rack
    reading = RackReading(
        rack.celsius,
        readings[rack.hottest].values["inlet_celsius"].time,
        rack.watts + unread,
        capping.least_watts(rack.nodes, curves()) + unread,
        capping.is_held(rack.nodes),
        unread,
    )
    now = capping.context.now().replace(microsecond=0)
    return replace(rack, reduction=next_reduction(before, reading, rack.limit_celsius, now))


def _unread_watts(
    capping: Capping, names: t.Iterable[str], readings: Readings, curves: Curves
) -> float:
    """The power of awake machines whose BMCs do not answer: the last one, or that of the cap if it
    is less, else all that the curve allows."""
    found = 0.0
    for name in capping.machines.keys() & set(names) - capping.watts.keys() - capping.asleep:
        last = readings.get(name, Reading()).value("power_watts")
        cap, curve = capping.caps.get(name), curves.by_node.get(name)
        known = [one for one in (last, cap and cap.watts) if one is not None]
        found += min(known, default=0.0 if curve is None else max(curve.watts))
    return found


def reductions(
    racks: t.Iterable[RackInlet], entries: Entries, owner: str, options: Parameters
) -> Entries:
    """The entries of the owner's racks, empty ones for those that are reduced no more."""
    ended = {key: Entry() for key, one in entries.items() if one.reduced is not None}
    carries_out = "on" in (options["cap"], options["evict"])
    reduced = [
        RackReduction(one.name, owner, one.reduction)
        for one in racks
        if carries_out and one.reduction is not None
    ]
    return {**ended, **{one.key: Entry(reduced=one) for one in reduced}}


def evictable(limits: t.Sequence[Limit], racks: t.Iterable[RackInlet]) -> list[Limit]:
    """The limits for which pods may leave: fewer pods have to be able to cool an inlet."""
    hot = {one.name for one in racks if one.state == "above" and one.helps}
    return [one for one in limits if one.kind != "inlet" or one.name in hot]
