# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator: energy, capacity, and what happens to each pod."""

from __future__ import annotations

import dataclasses
import random

import numpy
import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.policies import (
    DelayedOff,
    FewestWatts,
    Spread,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.scenario import (
    Scenario,
    build_scenario,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.simulation import (
    Simulation,
)
from support.examples import each_seed
from support.sleep_fleets import (
    BOOT_SECONDS,
    SHUTDOWN_SECONDS,
    STANDBY_WATTS,
    sleeping_machine,
    small_trace,
)

# Idle 100 W, 200 W at full use; a pod uses 0.8 of its request.
LINE = (100.0, 200.0)


class Meddler(FewestWatts):
    """Switches, moves and evicts at random each second, and measures in the middle of seconds.

    All events are at whole seconds, so nothing changes within a second.
    """

    name = "meddler"
    interval_seconds = 0.5

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.joules = 0.0
        self.awake_seconds = 0

    def tick(self, simulation: Simulation) -> None:
        check(simulation)
        if simulation.now % 1.0 == 0.0:
            self._meddle(simulation)
            return
        self.joules += sum(drawn(simulation, node) for node in range(len(simulation.machines)))
        self.awake_seconds += int(simulation.awake.sum())

    def _meddle(self, simulation: Simulation) -> None:
        node = self._chance.randrange(len(simulation.machines))
        groups = simulation.assignment.counts[:, node].nonzero()[0].tolist()
        match self._chance.randrange(12):
            case 0 if simulation.awake[node] and not groups:
                simulation.switch_off(node)
            case 1 | 2:
                simulation.wake(node)
            case 3 if groups:
                simulation.evict(groups[0], node)
            case 4 if groups:
                open_nodes = simulation.open_nodes(groups[0])
                if len(open_nodes):
                    simulation.move(groups[0], node, int(open_nodes[-1]))


def drawn(simulation: Simulation, node: int) -> float:
    """Watts by the machine's phase and its curve at the use of its pods."""
    machine, problem = simulation.machines[node], simulation.problem
    match machine.phase:
        case Phase.ASLEEP:
            return machine.switching.standby_watts
        case Phase.WAKING:
            return machine.switching.boot_watts
        case Phase.GOING_OFF:
            return machine.switching.shutdown_watts
    curve = problem.instance.nodes[node].curve
    assert curve is not None
    return curve.watts_at(float(simulation.assignment.counts[:, node] @ problem.use) / 1e6)


def check(simulation: Simulation) -> None:
    assert simulation.assignment.is_feasible()
    assert not simulation.assignment.counts[:, ~simulation.awake].any()
    passed = simulation.now - simulation.scenario.start
    pods = simulation.scenario.trace.pods
    came = sum(pod.arrival <= passed for pod in pods)
    must_be_there = sum(pod.arrival <= passed < pod.departure for pod in pods)
    there = int(simulation.assignment.counts.sum()) + len(simulation.waiting)
    assert must_be_there <= there <= came


def random_scenario(seed: int) -> Scenario:
    chance = random.Random(seed)
    pairs = [
        sleeping_machine(
            f"node-{index}",
            chance.choice([2, 4, 8]) if index else 4,
            sorted(chance.sample(range(50, 400), 4)),
        )
        for index in range(4)
    ]
    pods = []
    for _pod in range(40):
        arrival = chance.randrange(700)
        pods.append(
            (
                float(arrival),
                float(arrival + chance.randrange(1, 400)),
                chance.choice([500, 1000, 2000, 3000]),
            )
        )
    return build_scenario(
        [node for node, _ in pairs], [machine for _, machine in pairs], small_trace(*pods)
    )


@each_seed(12)
def test_energy_is_the_sum_over_seconds(seed: int) -> None:
    meddler = Meddler(seed)
    outcome = Simulation(random_scenario(seed), meddler).run()
    assert outcome.total_joules == pytest.approx(meddler.joules)
    assert outcome.awake_seconds.sum() == pytest.approx(meddler.awake_seconds)


@each_seed(12)
def test_work_is_conserved(seed: int) -> None:
    scenario = random_scenario(seed)
    trace = scenario.trace
    asked = sum(
        0.8 * pod.requested("cpu") / 1000 * (pod.departure - pod.arrival) for pod in trace.pods
    )
    awake = Simulation(scenario, FewestWatts()).run()
    if not awake.waited.any():
        assert awake.core_seconds.sum() == pytest.approx(asked)
    for policy in (Spread(), FewestWatts(), DelayedOff(60), Meddler(seed)):
        outcome = Simulation(scenario, policy).run()
        assert outcome.core_seconds.sum() <= asked + 1e-6
        assert len(outcome.waited) == len(trace.pods)
        assert (outcome.waited >= 0).all()
        assert (outcome.joules >= 0).all()


def test_one_machine_that_is_always_awake() -> None:
    node, machine = sleeping_machine("a", 10, LINE)
    scenario = build_scenario([node], [machine], small_trace((100, 300, 5000), (0, 1000, 1000)))
    outcome = Simulation(scenario, Spread()).run()
    # 10 W for each core in use: 0.8 for 1000 s, and 4 for 200 s.
    assert outcome.total_joules == pytest.approx(1000 * 108 + 200 * 40)
    assert outcome.cycles_a_machine_and_day == 0
    assert outcome.timeline.cores == [1.0, 1.0, 1.0, 1.0]


def test_a_machine_that_sleeps_and_is_woken() -> None:
    node, machine = sleeping_machine("a", 10, LINE)
    scenario = build_scenario([node], [machine], small_trace((0, 100, 1000), (5000, 5100, 1000)))
    outcome = Simulation(scenario, DelayedOff(600)).run()
    # The first tick at which it was idle is at 120 s, so its shutdown begins at 720 s.
    awake = 100 * 108 + 620 * 100
    asleep = (5000 - 720 - SHUTDOWN_SECONDS) * STANDBY_WATTS
    boot = 100 * machine.switching.boot_watts  # the other half is after the end
    assert outcome.total_joules == pytest.approx(awake + SHUTDOWN_SECONDS * 100 + asleep + boot)
    assert outcome.switches_off.tolist() == [1]
    assert outcome.most_cycles_a_day == 1
    assert outcome.boot_waits.tolist() == [0.0, 100.0]
    assert outcome.unplaced == 1


def test_a_pod_that_waited_keeps_its_duration() -> None:
    node, machine = sleeping_machine("a", 10, LINE)
    asleep = dataclasses.replace(machine, phase=Phase.ASLEEP)
    scenario = build_scenario([node], [asleep], small_trace((10, 60, 1000), (0, 1000, 1000)))
    outcome = Simulation(scenario, DelayedOff(600)).run()
    assert outcome.boot_waits.tolist() == [BOOT_SECONDS, BOOT_SECONDS - 10]
    assert outcome.share_waiting == 1.0
    assert outcome.longest_wait == BOOT_SECONDS
    assert outcome.core_seconds[0] == pytest.approx(0.8 * (800 + 50))


def test_one_boot_is_room_for_several_pods_once() -> None:
    pairs = [sleeping_machine(name, 10, LINE) for name in "abc"]
    asleep = [dataclasses.replace(machine, phase=Phase.ASLEEP) for _, machine in pairs]
    trace = small_trace(*[(0, 900, 4000)] * 3, (900, 1000, 4000))
    simulation = Simulation(
        build_scenario([node for node, _ in pairs], asleep, trace), DelayedOff()
    )
    simulation.run()
    phases = [machine.phase for machine in simulation.machines]
    assert phases.count(Phase.ASLEEP) == 1


def test_a_machine_that_shuts_down_boots_afterwards() -> None:
    node, machine = sleeping_machine("a", 10, LINE)
    trace = small_trace((0, 60, 1000), (690, 1500, 1000))
    outcome = Simulation(build_scenario([node], [machine], trace), DelayedOff(600)).run()
    # Its shutdown lasts from 660 s to 720 s.
    assert outcome.boot_waits.tolist() == [0.0, 30 + BOOT_SECONDS]


def test_pods_wait_for_room_and_not_for_a_boot_when_all_are_awake() -> None:
    node, machine = sleeping_machine("a", 2, LINE)
    trace = small_trace((0, 100, 2000), (10, 100, 2000), (0, 500, 100))
    outcome = Simulation(build_scenario([node], [machine], trace), DelayedOff(600)).run()
    assert outcome.waited.max() > 0
    assert outcome.share_waiting == 0.0


def test_a_pod_larger_than_every_machine_never_runs() -> None:
    node, machine = sleeping_machine("a", 2, LINE)
    scenario = build_scenario([node], [machine], small_trace((0, 100, 4000), (0, 100, 1000)))
    assert scenario.oversized == 1
    assert Simulation(scenario, Spread()).run().unplaced == 1


def test_machines_with_pods_are_not_switched_off() -> None:
    node, machine = sleeping_machine("a", 2, LINE)
    simulation = Simulation(
        build_scenario([node], [machine], small_trace((0, 100, 1000))), Spread()
    )
    simulation.assignment.place(0, 0)
    with pytest.raises(ValueError, match="a is awake and has 1 pods"):
        simulation.switch_off(0)


def test_the_same_scenario_gives_the_same_outcome() -> None:
    first, second = (Simulation(random_scenario(3), DelayedOff(60)).run() for _run in range(2))
    assert first.total_joules == second.total_joules
    assert numpy.array_equal(first.waited, second.waited)


def test_cycles_are_counted_within_any_day() -> None:
    node, machine = sleeping_machine("a", 10, LINE)
    pods = [(hour * 3600.0, hour * 3600.0 + 60, 1000) for hour in range(30)]
    outcome = Simulation(build_scenario([node], [machine], small_trace(*pods)), DelayedOff()).run()
    assert outcome.switches_off.tolist() == [29]
    assert outcome.most_cycles_a_day == 24
