# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bound on schedules that know the future, against all schedules of tiny fleets."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy
import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Switching
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.policies import (
    DelayedOff,
    FewestWatts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.scenario import (
    Scenario,
    build_scenario,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.simulation import (
    Simulation,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from bench.kit import sleep_optimum as optimum
from support.examples import each_seed
from support.sleep_fleets import sleeping_machine, small_trace

HOUR = 3600.0


def tiny_scenario(seed: int) -> Scenario:
    """Two machines, four pods, and six hours at whose ends alone something changes."""
    chance = random.Random(seed)
    pairs = []
    for name in "ab":
        watts = sorted(chance.sample(range(20, 300), chance.choice([2, 3])))
        node, machine = sleeping_machine(name, chance.choice([4, 8]), watts)
        switching = replace(machine.switching, boot_seconds=chance.choice([100, 1000, 3000]))
        pairs.append((node, replace(machine, switching=switching)))
    pods = []
    for _pod in range(4):
        first = chance.randrange(6)
        last = chance.randrange(first + 1, 7)
        pods.append((first * HOUR, last * HOUR, chance.choice([1000, 2000, 4000])))
    trace = small_trace(*pods, (0, 6 * HOUR, 100))
    return build_scenario([node for node, _ in pairs], [machine for _, machine in pairs], trace)


def least_energy(scenario: Scenario) -> float:
    """The cheapest of all schedules that place every pod in every hour, boots without delay."""
    hours = round(scenario.trace.seconds / HOUR)
    machines = len(scenario.machines)
    masks = list(itertools.product((False, True), repeat=machines))
    best = {(True,) * machines: 0.0}
    for hour in range(hours):
        costs = {mask: cheapest_hour(scenario, hour, mask) for mask in masks}
        best = {
            mask: min(joules + switched(scenario, before, mask) for before, joules in best.items())
            + costs[mask]
            for mask in masks
        }
    return min(best.values())


def switched(scenario: Scenario, before: tuple[bool, ...], after: tuple[bool, ...]) -> float:
    total = 0.0
    for machine, was, is_now in zip(scenario.machines, before, after, strict=True):
        given = machine.switching
        if is_now and not was:
            total += given.boot_seconds * (given.boot_watts - given.standby_watts)
        elif was and not is_now:
            total += given.shutdown_seconds * (given.shutdown_watts - given.standby_watts)
    return total


def cheapest_hour(scenario: Scenario, hour: int, awake: tuple[bool, ...]) -> float:
    """Joules of the best of all placements in an hour; infinite if there is none."""
    running = [pod for pod in scenario.trace.pods if pod.arrival <= hour * HOUR < pod.departure]
    nodes = scenario.problem.instance.nodes
    best = math.inf
    for targets in itertools.product(range(len(nodes)), repeat=len(running)):
        loads = [0] * len(nodes)
        for pod, target in zip(running, targets, strict=True):
            loads[target] += pod.requested("cpu")
        if any(
            load > (node.free["cpu"] if is_awake else 0)
            for load, node, is_awake in zip(loads, nodes, awake, strict=True)
        ):
            continue
        watts = 0.0
        for load, node, is_awake, machine in zip(
            loads, nodes, awake, scenario.machines, strict=True
        ):
            assert node.curve is not None
            watts += (
                node.curve.watts_at(0.8 * load / 1000)
                if is_awake
                else machine.switching.standby_watts
            )
        best = min(best, watts * HOUR)
    return best


@each_seed(25)
def test_no_schedule_is_below_the_bound(seed: int) -> None:
    scenario = tiny_scenario(seed)
    least = least_energy(scenario)
    for slot in (HOUR, 2 * HOUR, 3.5 * HOUR, 24 * HOUR):
        bound = optimum.lower_bound(scenario, slot)
        assert 0 < bound.joules <= least * (1 + 1e-9)


@each_seed(10)
def test_any_prices_give_a_bound(seed: int) -> None:
    scenario = tiny_scenario(seed)
    relaxation = optimum.relaxed(scenario, HOUR)
    chance = numpy.random.default_rng(seed)
    shape = (relaxation.demand.shape[0], 1 + relaxation.demand.shape[1])
    scale = 1e6 / numpy.maximum(
        numpy.concatenate([relaxation.use[:, None], relaxation.demand], axis=1), 1.0
    )
    for _try in range(20):
        prices = chance.normal(0.3, 0.5, shape) * scale
        assert optimum.certified(relaxation, prices) <= least_energy(scenario) * (1 + 1e-9)


@pytest.mark.parametrize("millicores", [5000, 10000])
def test_the_bound_is_met_where_one_machine_must_do_everything(millicores: int) -> None:
    node, machine = sleeping_machine("a", 10, (100.0, 200.0))
    scenario = build_scenario([node], [machine], small_trace((0, 10 * HOUR, millicores)))
    awake = Simulation(scenario, FewestWatts()).run()
    assert optimum.lower_bound(scenario).joules == pytest.approx(awake.total_joules)


def test_a_protected_machine_is_awake_in_the_bound() -> None:
    node, machine = sleeping_machine("a", 10, (100.0, 200.0))
    trace = small_trace((0, HOUR, 10), (9 * HOUR, 10 * HOUR, 10))
    protected = replace(machine, protection="control plane")
    bound = optimum.lower_bound(build_scenario([node], [protected], trace))
    assert bound.joules == pytest.approx(10 * HOUR * 100 + 2 * HOUR * 0.08, rel=1e-6)


def test_boots_are_paid_for() -> None:
    node, machine = sleeping_machine("a", 10, (100.0, 200.0))
    trace = small_trace((0, HOUR, 10000), (9 * HOUR, 10 * HOUR, 10000))
    cheap, dear = (
        optimum.lower_bound(
            build_scenario(
                [node],
                [replace(machine, switching=replace(machine.switching, boot_seconds=seconds))],
                trace,
            ),
            HOUR,
        )
        for seconds in (0.0, 1000.0)
    )
    beyond_standby = machine.switching.boot_watts - machine.switching.standby_watts
    assert dear.joules - cheap.joules == pytest.approx(1000 * beyond_standby)


def test_without_time_the_bound_is_weak_and_valid() -> None:
    scenario = tiny_scenario(1)
    bound = optimum.lower_bound(scenario, limits=Limits(0.0))
    assert bound.awake == ()
    assert 0 < bound.joules <= optimum.lower_bound(scenario).joules


def test_a_fleet_that_is_full_has_a_bound() -> None:
    node, machine = sleeping_machine("a", 2, (100.0, 200.0))
    scenario = build_scenario(
        [node], [machine], small_trace(*[(0.0, HOUR, 2000)] * 3, (0, 2 * HOUR, 100))
    )
    outcome = Simulation(scenario, DelayedOff()).run()
    assert 0 < optimum.lower_bound(scenario).joules <= outcome.total_joules


def test_negative_switching_energy_does_not_lower_the_bound_below_zero() -> None:
    node, machine = sleeping_machine("a", 2, (100.0, 200.0))
    odd = replace(machine, switching=Switching(300, 0.0, 60, 0.0, 50.0))
    scenario = build_scenario([node], [odd], small_trace((0, HOUR, 1000)))
    assert optimum.lower_bound(scenario).joules > 0
