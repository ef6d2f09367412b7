# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of demand, and the reserve that it asks for."""

from __future__ import annotations

import typing as t

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.demand import (
    DAY,
    HOUR,
    WEEK,
    Demand,
    Growth,
    Quantiles,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.reserve import reserve_of
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.room import Amounts
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.rules import SleepRules

START = 1_700_006_400.0  # a full hour
Q = Quantiles(0.99, 0.99, (("cpu", 64000.0), ("memory", 256.0), ("nvidia.com/gpu", 8.0)))


def growth(demand: Demand, now: float, window: float = 500.0) -> list[Growth]:
    return demand.growth(now, window, Q)


def every_ten_minutes(days: int, cpu: float = 1000.0) -> Demand:
    demand = Demand(START)
    for index in range(1, days * 144):
        at = START + index * 600.0
        demand.arrived(at, {"cpu": cpu})
        demand.departed(at + 300.0, {"cpu": cpu})
    return demand


def test_events_beyond_the_memory_are_forgotten() -> None:
    demand = Demand(START)
    for index in range(1, 400):
        demand.arrived(START + index * DAY, {"cpu": 1000})
        demand.departed(START + index * DAY + 1, {"cpu": 1000})
    assert len(demand) < 2 * 2 * 8 * 7 + 4
    assert growth(demand, START + 400 * DAY)[0].total == {"cpu": 1000}


def test_departures_within_the_window_leave_room_for_arrivals() -> None:
    demand = Demand(START)
    for index in range(1, 100):
        demand.arrived(START + index * 600.0, {"cpu": 1000})
    assert growth(demand, START + DAY, 1300.0)[0].total == {"cpu": 3000}
    assert growth(every_ten_minutes(1), START + DAY, 1300.0)[0].total == {"cpu": 1000}


def test_pods_from_before_the_record_are_no_arrivals() -> None:
    demand = Demand(START)
    demand.arrived(START - 10, {"cpu": 90_000})
    demand.arrived(START, {"cpu": 90_000})
    assert growth(demand, START + DAY) == []


def test_windows_with_a_hole_do_not_count() -> None:
    demand = every_ten_minutes(1)
    burst = START + 6 * HOUR
    for _pod in range(50):
        demand.arrived(burst + 1, {"cpu": 1000})
    assert growth(demand, START + DAY)[0].total["cpu"] > 20_000
    demand.unobserved(burst - 400, burst)
    assert growth(demand, START + DAY)[0].total["cpu"] < 3000
    assert demand.seconds_before(START + DAY) == DAY - 400


def test_an_hour_of_the_week_counts_alone_when_it_has_samples_of_three_weeks() -> None:
    demand = Demand(START)
    for day in range(28):
        for index in range(1, 300):
            at = START + day * DAY + index * 280.0
            busy = 8 * HOUR <= at - START - day * DAY <= 9 * HOUR
            demand.arrived(at, {"cpu": 9000.0 if busy else 1000.0})
            demand.departed(at + 200, {"cpu": 9000.0 if busy else 1000.0})
    for hour, cpu in ((8, 9000.0), (20, 1000.0)):
        found = growth(demand, START + 28 * DAY + hour * HOUR)
        assert max(found[0].total["cpu"], 0) >= cpu
    night = demand.growth(START + 28 * DAY + 20 * HOUR, 500.0, Quantiles(0.9, 0.5, Q.machine))
    assert night[0].total["cpu"] < 9000


def test_devices_have_growth_of_their_own_if_recent_pods_request_them() -> None:
    demand = every_ten_minutes(2)
    demand.arrived(START + DAY, {"cpu": 1000, "nvidia.com/gpu": 1})
    assert [each.devices for each in growth(demand, START + 2 * DAY)] == [frozenset()]
    for index in range(20):
        demand.arrived(START + DAY + index * HOUR / 2, {"cpu": 1000, "nvidia.com/gpu": 1})
    found = growth(demand, START + 2 * DAY)
    assert [each.devices for each in found] == [frozenset(), frozenset({"nvidia.com/gpu"})]


def test_the_largest_recurring_pod_is_a_recent_one() -> None:
    demand = every_ten_minutes(6)
    for index in range(20):
        demand.arrived(START + DAY + index * HOUR, {"cpu": 64_000})
    assert growth(demand, START + 2 * DAY)[0].largest == {"cpu": 64_000}
    late = demand.growth(START + 6 * DAY, 500.0, Quantiles(0.5, 0.97, Q.machine))
    assert late[0].largest == {"cpu": 1000}


def shapes(demand: Demand, rules: SleepRules, now: float, present: float) -> list[t.Any]:
    capacity = numpy.full((3, 1), 64_000.0)
    amounts = Amounts(("cpu",), capacity, capacity)
    return reserve_of(amounts, numpy.array([present]), demand, rules, now, 200.0)


def test_a_stated_share_holds_until_there_is_a_week() -> None:
    rules = SleepRules(reserve_share=0.2)
    early = shapes(Demand(START), rules, START + DAY, 50_000.0)
    assert sum(each.total[0] for each in early) == pytest.approx(10_000)
    assert shapes(Demand(START), rules, START + WEEK + 1, 50_000.0) == []


TIMES = st.floats(-2 * DAY, 10 * DAY)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(TIMES, st.floats(0, 1e5), TIMES), max_size=40),
    st.lists(st.tuples(TIMES, TIMES), max_size=4),
    TIMES,
    st.floats(0, 1),
)
def test_any_record_gives_a_finite_reserve(
    pods: list[tuple[float, float, float]],
    holes: list[tuple[float, float]],
    now: float,
    quantile: float,
) -> None:
    """Departures before arrivals, holes and clocks that jump included."""
    demand = Demand(START)
    for arrival, cpu, departure in pods:
        demand.arrived(START + arrival, {"cpu": cpu})
        demand.departed(START + departure, {"cpu": cpu})
        growth(demand, START + now)
    for start, end in holes:
        demand.unobserved(START + start, START + end)
    rules = SleepRules(reserve_quantile=quantile)
    for shape in shapes(demand, rules, START + now, 1000.0):
        assert shape.count > 0 and numpy.isfinite(shape.requests).all()
        assert (shape.requests >= 0).all()


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.floats(0, 5 * DAY), st.floats(1, 1e5)), min_size=1, max_size=30))
def test_a_statistic_is_the_same_however_the_record_grew(pods: list[t.Any]) -> None:
    grown, whole = Demand(START), Demand(START)
    for arrival, cpu in pods:
        grown.arrived(START + arrival, {"cpu": cpu})
        growth(grown, START + 5 * DAY)
    for arrival, cpu in reversed(pods):
        whole.arrived(START + arrival, {"cpu": cpu})
    assert growth(grown, START + 5 * DAY) == growth(whole, START + 5 * DAY)
