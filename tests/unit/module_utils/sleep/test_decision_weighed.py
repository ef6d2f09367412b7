# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions under prices: deeper sleep in dear hours, and the same as without where all are equal."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.prices.series import PriceSeries
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import Node
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Machine, Switching
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.decided import (
    DecidedPolicy,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.outcome import Outcome
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.scenario import (
    Scenario,
    build_scenario,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.simulation import (
    Simulation,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.rules import SleepRules
from support.sleep_fleets import small_trace

START = 1.7e9 // 86400 * 86400
HOUR = 3600.0
RULES = SleepRules(reserve_share=0.0, interval_seconds=900.0, max_share=1.0, min_awake_seconds=0.0)


def scenario(hours: int = 6) -> Scenario:
    """Three machines, each with a pod of an eighth of it for all hours; others come and go."""
    curve = Curve((0.0, 16.0, 32.0), (90.0, 160.0, 210.0))
    switching = Switching(200.0, 150.0, 60.0, 100.0, 8.0)
    free = {"cpu": 32_000, "memory": 128 << 30, "pods": 110}
    nodes = [Node(f"n{index}", free, curve=curve) for index in range(3)]
    # Full machines at first, so that one long pod is on each.
    pods = [(0.0, hours * HOUR, 4000)] * 3 + [(0.0, 1000.0, 28_000)] * 3
    pods += [(hour * HOUR, hour * HOUR + 1800.0, 20_000) for hour in range(1, hours)]
    trace = dataclasses.replace(small_trace(*pods), start=START)
    return build_scenario(nodes, [Machine(node.name, switching) for node in nodes], trace)


def outcome(weight_at: t.Callable[[float], float], rules: SleepRules = RULES) -> Outcome:
    return Simulation(scenario(), DecidedPolicy(rules, weight_at=weight_at)).run()


def test_a_constant_series_decides_as_none() -> None:
    series = PriceSeries(tuple(START + HOUR * hour for hour in range(5)), (0.1,) * 5)
    without = Simulation(scenario(), DecidedPolicy(RULES)).run()
    constant = outcome(lambda now: series.weight(now, now + RULES.horizon_seconds))
    assert constant.joules.tolist() == without.joules.tolist()
    assert constant.switches_off.tolist() == without.switches_off.tolist()
    assert constant.timeline == without.timeline


def test_dear_hours_pay_for_evictions_that_cheap_ones_do_not() -> None:
    rules = dataclasses.replace(RULES, horizon_seconds=HOUR)
    cheap, dear = outcome(lambda _now: 0.1, rules), outcome(lambda _now: 8.0, rules)
    assert cheap.evictions == 0 < dear.evictions
    assert dear.total_joules < cheap.total_joules


def test_energy_for_nothing_switches_nothing_off_and_wakes_nothing_to_consume() -> None:
    free = outcome(lambda _now: 0.0)
    assert free.switches_off.sum() == 0
    asleep = outcome(lambda now: 1.0 if now < START + 2 * HOUR else 0.0)
    awake = [
        count
        for at, count in zip(asleep.timeline.times, asleep.timeline.awake, strict=True)
        if at >= START + 2 * HOUR
    ]
    assert max(awake) < 3


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, 3.0])
def test_a_weight_changes_the_worth_of_energy_alone(weight: float) -> None:
    weighed = RULES.weighed(weight)
    assert weighed.horizon_seconds == weight * RULES.horizon_seconds
    assert dataclasses.replace(weighed, horizon_seconds=RULES.horizon_seconds) == RULES


def test_energy_is_counted_by_hour() -> None:
    found = outcome(lambda _now: 1.0)
    assert len(found.joules_by_hour) == 6
    assert sum(found.joules_by_hour) == pytest.approx(found.total_joules)
