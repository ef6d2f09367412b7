# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inlet limits: the power that a rack above its inlet limit may still draw.

An inlet follows the power of its rack in minutes, and only by the air that the rack takes in again.
So a step is small, waits until readings show the one before, and a band below the limit, which is
wider than what a step changes, ends the steps: a controller of temperature without these oscillates.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, replace

from .caps import TARGET

# Share of the power by which one step lowers or raises what the rack may draw.
STEP = 0.05
# Time until an inlet shows most of a step. Raising waits twice as long, since it can do harm.
SETTLING = datetime.timedelta(minutes=5)
# Power rises again only below the limit by this; sensors of BMCs have whole degrees.
MARGIN_CELSIUS = 2.0
# Inlets outside of these are no measurements: ASHRAE's widest class ends at 45 °C.
_COLDEST_CELSIUS, _HOTTEST_CELSIUS = 0.0, 70.0
# An inlet that is hotter than all others of its rack by more tells of its machine, not of the rack.
# Of two, either may be wrong.
ODD_CELSIUS = 15.0
# Less power helps if the inlet fell by this, which no rounding makes, until it fell by that share.
_COOLER_CELSIUS, _FAIR_SHARE = 2.0, 0.2


@dataclass(frozen=True)
class Reduction:
    """The power in W that a rack may draw since a time, and its power and inlet at the beginning."""

    watts: float
    changed_at: datetime.datetime
    first_watts: float
    first_celsius: float

    def helps(self, celsius: float) -> bool:
        """Whether the inlet follows the power, or too little was tried to know it."""
        is_tried = self.watts <= (1 - _FAIR_SHARE) * self.first_watts
        return not is_tried or celsius <= self.first_celsius - _COOLER_CELSIUS


class RackReading(t.NamedTuple):
    """The hottest inlet of a rack in °C, the time of its reading, and the power in W.

    Caps cannot bring the rack below ``floor_watts``. ``is_held`` says whether a cap holds a machine.
    ``unread_watts`` are a part of both, assumed of machines without a reading.
    """

    celsius: float
    time: datetime.datetime
    watts: float
    floor_watts: float
    is_held: bool
    unread_watts: float = 0.0


def next_reduction(
    before: Reduction | None, reading: RackReading, limit_celsius: float, now: datetime.datetime
) -> Reduction | None:
    """The reduction after this run; None ends it.

    It ends where no cap holds a machine any more, or the power is back at that of the beginning:
    there the inlet was at its limit, and is cooler now.
    """
    is_above = reading.celsius > limit_celsius
    if before is None:
        if not is_above:
            return None
        first = reading.watts
        return Reduction(_lowered(first, reading), now, first, reading.celsius)
    # Clocks differ between hosts, and jump.
    before = replace(before, changed_at=min(before.changed_at, now))
    waited = min(reading.time, now) - before.changed_at
    # A next step where the power does not follow this one would only leave more to evictions.
    if is_above and waited >= SETTLING and reading.watts <= before.watts:
        # A rack that draws less than it may is not cooled by a step above its power.
        lowered = _lowered(min(before.watts, reading.watts / TARGET), reading)
        return _changed(before, min(before.watts, lowered), now)
    if reading.celsius >= limit_celsius - MARGIN_CELSIUS or waited < 2 * SETTLING:
        return before
    if not reading.is_held or before.watts >= before.first_watts:
        return None
    raised = max(reading.floor_watts, _stepped(before.watts, STEP, reading))
    return _changed(before, round(raised, 1), now)


def hottest_inlet(inlets: t.Mapping[str, float]) -> tuple[str | None, frozenset[str]]:
    """The node with the hottest inlet that counts for its rack, and nodes whose inlets do not."""
    counted = {
        name: celsius
        for name, celsius in inlets.items()
        if _COLDEST_CELSIUS < celsius <= _HOTTEST_CELSIUS
    }
    hottest = sorted(counted, key=lambda name: (-counted[name], name))
    if len(hottest) > 2 and counted[hottest[0]] - counted[hottest[1]] > ODD_CELSIUS:
        del counted[hottest.pop(0)]
    return (hottest[0] if hottest else None), frozenset(inlets.keys() - counted.keys())


def _lowered(watts: float, reading: RackReading) -> float:
    return round(max(reading.floor_watts, _stepped(watts, -STEP, reading)), 1)


def _stepped(watts: float, step: float, reading: RackReading) -> float:
    """The power after a step of the machines with a reading, which alone are capped."""
    return watts + step * max(0.0, watts - reading.unread_watts)


def _changed(before: Reduction, watts: float, now: datetime.datetime) -> Reduction:
    return before if watts == before.watts else replace(before, watts=watts, changed_at=now)
