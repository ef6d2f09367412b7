# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of racks above their inlet limits, also over a rack that warms its own inlets."""

from __future__ import annotations

import datetime
import itertools
import math
import random
from dataclasses import dataclass, replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.caps import (
    CapMachine,
    plan_caps,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.domains import Limit
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.reductions import (
    MARGIN_CELSIUS,
    SETTLING,
    STEP,
    RackReading,
    Reduction,
    hottest_inlet,
    next_reduction,
)
from support.examples import each_seed

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
LIMIT = 32.0
MINUTE = datetime.timedelta(minutes=1)


def reading(
    celsius: float, watts: float = 1000.0, minutes: float = 0.0, is_held: bool = True
) -> RackReading:
    return RackReading(celsius, NOW + minutes * MINUTE, watts, 400.0, is_held)


def after(before: Reduction | None, given: RackReading) -> Reduction | None:
    return next_reduction(before, given, LIMIT, given.time)


def begun(watts: float = 950.0) -> Reduction:
    return Reduction(watts, NOW, 1000.0, 34.0)


def test_a_rack_above_its_inlet_limit_may_draw_a_step_less() -> None:
    assert after(None, reading(LIMIT)) is None
    assert after(None, reading(34.0)) == Reduction(950.0, NOW, 1000.0, 34.0)


@pytest.mark.parametrize(
    ("given", "watts"),
    [
        pytest.param(reading(40.0, minutes=4.9), 950.0, id="not-settled"),
        pytest.param(reading(33.0, 931.0, minutes=5), 902.5, id="above"),
        pytest.param(reading(33.0, 951.0, minutes=5), 950.0, id="the-power-does-not-follow"),
        pytest.param(reading(33.0, 784.0, minutes=5), 760.0, id="above-and-below-its-power"),
        pytest.param(reading(33.0, 410.0, minutes=5), 400.0, id="floor"),
        pytest.param(reading(LIMIT, minutes=60), 950.0, id="at-the-limit"),
        pytest.param(reading(LIMIT - MARGIN_CELSIUS, minutes=60), 950.0, id="within-the-band"),
        pytest.param(reading(25.0, minutes=9.9), 950.0, id="raised-not-so-soon"),
        pytest.param(reading(25.0, minutes=10), 997.5, id="raised"),
        pytest.param(reading(25.0, minutes=10, is_held=False), None, id="nothing-is-held"),
    ],
)
def test_a_reduction_changes_by_one_step_after_its_settling(
    given: RackReading, watts: float | None
) -> None:
    found = after(begun(), given)
    assert (found and found.watts) == watts
    assert found is None or (found.changed_at == given.time) == (watts != 950.0)


def test_a_reduction_ends_where_the_power_of_its_beginning_is_back() -> None:
    assert after(begun(1000.0), reading(25.0, minutes=10)) is None


def test_an_old_reading_changes_nothing_again() -> None:
    assert next_reduction(begun(), reading(40.0), LIMIT, NOW + 60 * MINUTE) == begun()


def test_a_reading_of_the_future_is_no_reason_to_hurry() -> None:
    future = reading(40.0, 900.0, minutes=60)
    assert next_reduction(begun(), future, LIMIT, NOW + MINUTE) == begun()


def test_a_reduction_of_the_future_began_now() -> None:
    before = replace(begun(), changed_at=NOW + 600 * MINUTE)
    assert after(before, reading(40.0, 900.0)) == begun()


def test_a_step_is_a_share_of_the_power_of_machines_with_a_reading() -> None:
    """Only these are capped, so that a step of the whole would be a jump for them."""
    given = reading(34.0, 4000.0)._replace(unread_watts=3000.0)
    assert after(None, given) == Reduction(3950.0, NOW, 4000.0, 34.0)
    raised = after(
        Reduction(3500.0, NOW, 4000.0, 34.0),
        given._replace(celsius=25.0, time=NOW + 10 * MINUTE),
    )
    assert raised is not None and raised.watts == 3525.0


def test_power_rises_from_the_floor_at_once() -> None:
    """What is below it, such as 0 W of a hand in the record, is nothing that a rack may draw."""
    raised = after(begun(0.0), reading(25.0, minutes=10))
    assert raised is not None and raised.watts == 400.0


def test_a_floor_above_the_present_power_raises_nothing() -> None:
    assert after(begun(300.0), reading(40.0, minutes=5)) == begun(300.0)


def test_power_helps_until_a_fifth_of_it_left_the_inlet_as_warm_as_before() -> None:
    assert begun(801.0).helps(40.0)
    assert not begun(800.0).helps(32.5)
    assert begun(800.0).helps(32.0)


@pytest.mark.parametrize(
    ("inlets", "hottest", "left_out"),
    [
        ({}, None, set()),
        ({"a": 30.0, "b": 33.0}, "b", set()),
        ({"a": 30.0, "b": 33.0, "c": 60.0}, "b", {"c"}),
        ({"a": 0.0, "b": 255.0, "c": math.nan, "d": -3.0}, None, {"a", "b", "c", "d"}),
        ({"a": 0.0, "b": 31.0}, "b", {"a"}),
        # Either may lie, and heat must not be missed.
        ({"a": 10.0, "b": 34.0}, "b", set()),
        ({"a": 45.0}, "a", set()),
    ],
)
def test_odd_sensors_do_not_count_for_their_rack(
    inlets: dict[str, float], hottest: str | None, left_out: set[str]
) -> None:
    assert hottest_inlet(inlets) == (hottest, frozenset(left_out))


@dataclass
class Room:
    """A rack of which each inlet follows the room and the rack's own power to the first order."""

    room_celsius: float
    # What the whole demand adds to the room's air, and the minutes until 63 % of it is there.
    recirculation_kelvin: float
    minutes: float
    machines: dict[str, CapMachine]
    demand: dict[str, float]
    celsius: float = 0.0
    reduction: Reduction | None = None

    @property
    def watts(self) -> float:
        return sum(one.watts for one in self.machines.values())

    @property
    def floor_watts(self) -> float:
        return sum(one.floor_watts or 0.0 for one in self.machines.values())

    def run(self, now: datetime.datetime) -> None:
        """One run per minute: readings in whole degrees, caps, and what BMCs make of them."""
        held = any(one.is_held for one in self.machines.values())
        given = RackReading(round(self.celsius), now, self.watts, self.floor_watts, held)
        self.reduction = next_reduction(self.reduction, given, LIMIT, now)
        limits = []
        if self.reduction is not None:
            limits = [Limit("inlet", "r1", tuple(self.machines), self.reduction.watts)]
        caps = plan_caps(limits, self.machines).caps
        self.machines = {
            name: replace(
                one,
                cap_watts=caps.get(name),
                watts=min(self.demand[name], caps.get(name, math.inf)),
            )
            for name, one in self.machines.items()
        }
        share = self.watts / sum(self.demand.values())
        steady = self.room_celsius + share * self.recirculation_kelvin
        self.celsius += (steady - self.celsius) * (1 - math.exp(-1 / self.minutes))


def room_of(source: random.Random, room_celsius: float) -> Room:
    demand = {f"node-{index}": source.uniform(200, 500) for index in range(source.randint(1, 6))}
    machines = {
        name: CapMachine(name, watts, 0.3 * watts, source.choice([0, 0, 10]))
        for name, watts in demand.items()
    }
    found = Room(room_celsius, source.uniform(4, 20), source.uniform(1, 10), machines, demand)
    found.celsius = found.room_celsius + found.recirculation_kelvin
    return found


@each_seed(60)
def test_reductions_settle_at_the_limit_and_never_oscillate(seed: int) -> None:
    source = random.Random(seed)
    rack = room_of(source, 20.0)
    # The rack is too hot by a part of what its own power adds.
    rack.room_celsius = LIMIT - rack.recirculation_kelvin * source.uniform(0.5, 1.2)
    rack.celsius = rack.room_celsius + rack.recirculation_kelvin
    watts = []
    for minute in range(12 * 60):
        rack.run(NOW + minute * MINUTE)
        watts.append(None if rack.reduction is None else rack.reduction.watts)
    changes = [
        (a, b) for a, b in itertools.pairwise(watts) if a is not None and b is not None and a != b
    ]
    assert all(1 - STEP - 0.01 <= b / a <= 1 + STEP + 1e-9 for a, b in changes)
    directions = [b > a for a, b in changes]
    assert sum(one != other for one, other in itertools.pairwise(directions)) <= 2, watts
    assert len(set(watts[-4 * 60 :])) == 1, watts[-4 * 60 :]
    assert rack.celsius <= LIMIT + 0.5


@each_seed(20)
def test_a_room_above_the_limit_takes_a_rack_to_its_floor_by_rare_steps(seed: int) -> None:
    source = random.Random(seed)
    rack = room_of(source, LIMIT + source.uniform(1, 10))
    # Its air comes from the room, so that less power cools nothing.
    rack.recirculation_kelvin, rack.celsius = 0.4, rack.room_celsius + 0.4
    since: datetime.datetime | None = None
    before: Reduction | None = None
    for minute in range(6 * 60):
        now = NOW + minute * MINUTE
        rack.run(now)
        found = rack.reduction
        assert found is not None
        assert found.watts >= rack.floor_watts - 0.1
        if before is not None and found.watts != before.watts:
            assert since is None or now - since >= SETTLING
            since = now
        before = found
    assert before is not None
    assert before.watts == pytest.approx(rack.floor_watts, abs=0.1)
    assert not before.helps(round(rack.celsius))


@each_seed(20)
def test_caps_and_reductions_end_after_the_heat(seed: int) -> None:
    rack = room_of(random.Random(seed), LIMIT)
    for minute in range(60):
        rack.run(NOW + minute * MINUTE)
    held, reduced = rack.watts, rack.reduction
    assert reduced is not None
    rack.room_celsius = 10.0
    powers = []
    for minute in range(60, 8 * 60):
        rack.run(NOW + minute * MINUTE)
        powers.append(rack.watts)
    assert rack.reduction is None
    assert rack.watts == pytest.approx(sum(rack.demand.values()))
    assert powers[0] <= (1 + STEP) * held + 1
