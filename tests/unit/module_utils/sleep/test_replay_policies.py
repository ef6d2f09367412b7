# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies beside ours, on demand with an answer that is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.decided import (
    DecidedPolicy,
)
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
    Policy,
    Simulation,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.rules import SleepRules
from bench.kit.sleep_peers import ClusterBareAutoscaler, DistributedPowerManagement, ThresholdRule
from support.sleep_fleets import sleeping_machine, small_trace

HOUR = 3600.0
# From the most efficient one to the least.
WATTS = {"a": (50.0, 100.0), "b": (100.0, 200.0), "c": (150.0, 300.0)}


def scenario(
    *pods: tuple[float, float, int],
    names: str = "abc",
    protected: str = "",
    use_of_requests: float = 0.8,
) -> Scenario:
    pairs = [sleeping_machine(name, 10, WATTS[name]) for name in names]
    machines = [
        replace(machine, protection="control plane" if machine.name == protected else "")
        for _, machine in pairs
    ]
    nodes = [node for node, _ in pairs]
    return build_scenario(nodes, machines, small_trace(*pods), use_of_requests)


class MovingForWaiting(FewestWatts):
    """Moves one pod from the first machine to the second when pods wait."""

    def unplaced(self, simulation: Simulation) -> None:
        groups = simulation.assignment.counts[:, 0].nonzero()[0].tolist()
        simulation.move(groups[0], 0, 1)


def test_room_that_a_move_makes_is_taken_at_once() -> None:
    # The second pod is on b, the third on a; the fourth has room if the third moves to b.
    pods = (0, 10, 8000), (1, HOUR, 5000), (20, HOUR, 4000), (60, HOUR, 7000)
    outcome = Simulation(scenario(*pods, names="ab"), MovingForWaiting()).run()
    assert outcome.evictions == 1
    assert outcome.waited.tolist() == [0.0] * 4


def awake_after(policy: Policy, given: Scenario) -> str:
    simulation = Simulation(given, policy)
    simulation.run()
    return "".join(machine.name for machine in simulation.machines if machine.phase is Phase.AWAKE)


def test_the_default_scheduler_spreads_and_fewest_watts_fills_the_best() -> None:
    given = scenario((0, HOUR, 2000), (0, HOUR, 2000), (0, HOUR, 2000))
    for policy, counts in ((Spread(), [1, 1, 1]), (FewestWatts(), [3, 0, 0])):
        used = Simulation(given, policy).run().core_seconds / (0.8 * 2 * HOUR)
        assert used.tolist() == pytest.approx(counts)


def test_delayed_off_waits_for_its_delay() -> None:
    given = scenario((0, 599, 1000))
    assert awake_after(DelayedOff(600), given) == "abc"
    assert awake_after(DelayedOff(400), given) == "a"


def test_protected_machines_stay_awake_under_every_policy() -> None:
    pods = (0.0, 10 * HOUR, 1000)
    for policy in (
        DelayedOff(),
        ThresholdRule(),
        ClusterBareAutoscaler(),
        DistributedPowerManagement(),
        DecidedPolicy(SleepRules()),
    ):
        simulation = Simulation(scenario(pods, protected="c"), policy)
        outcome = simulation.run()
        assert outcome.switches_off[2] == 0, policy.name


def test_the_threshold_rule_packs_onto_the_most_efficient() -> None:
    # The first pod fills a, so the second starts on b; when the first has left, b is emptied.
    given = scenario((0, HOUR / 2, 10000), (1, 4 * HOUR, 2000))
    simulation = Simulation(given, ThresholdRule(spare=0.1, packing_seconds=HOUR))
    outcome = simulation.run()
    assert outcome.evictions == 1
    assert outcome.switches_off.tolist() == [0, 1, 1]
    assert outcome.share_waiting == 0


def test_the_threshold_rule_wakes_for_its_spare_room() -> None:
    given = scenario((0, 8 * HOUR, 2000), (4 * HOUR, 8 * HOUR, 7500))
    simulation = Simulation(given, ThresholdRule(spare=0.1))
    outcome = simulation.run()
    assert simulation.awake.tolist() == [True, True, False]
    assert outcome.share_waiting == 0


def test_cluster_bare_autoscaler_takes_the_last_and_then_cools_down() -> None:
    given = scenario((0, 1.5 * HOUR, 1000))
    # At 300 s c goes, an hour later b, and then the trace is over.
    outcome = Simulation(given, ClusterBareAutoscaler()).run()
    assert outcome.switches_off.tolist() == [0, 1, 1]
    short = Simulation(scenario((0, HOUR, 1000)), ClusterBareAutoscaler()).run()
    assert short.switches_off.tolist() == [0, 0, 1]


def test_cluster_bare_autoscaler_wakes_nothing_for_waiting_pods() -> None:
    given = scenario((0, 9 * HOUR, 1000), (5 * HOUR, 9 * HOUR, 9500))
    outcome = Simulation(given, ClusterBareAutoscaler()).run()
    assert outcome.longest_wait == 4 * HOUR


def test_dpm_switches_off_after_forty_minutes_below_its_range() -> None:
    early = Simulation(scenario((0, 2300, 1000)), DistributedPowerManagement()).run()
    assert early.switches_off.sum() == 0
    late = Simulation(scenario((0, 2500, 1000)), DistributedPowerManagement()).run()
    assert late.switches_off.sum() == 2


@pytest.mark.parametrize(("use_of_requests", "evictions"), [(0.8, 1), (1.0, 0)])
def test_dpm_loads_no_machine_beyond_its_range(use_of_requests: float, evictions: int) -> None:
    # Two pods on one machine use 67 % of it, or 84 %.
    pods = (0.0, 4 * HOUR, 4200), (0.0, 4 * HOUR, 4200)
    given = scenario(*pods, names="ab", use_of_requests=use_of_requests)
    assert Simulation(given, DistributedPowerManagement()).run().evictions == evictions


def test_the_decision_is_carried_out() -> None:
    given = scenario((0, 12 * HOUR, 2000), (0, 12 * HOUR, 1000))
    baseline = Simulation(given, Spread()).run()
    outcome = Simulation(given, DecidedPolicy(SleepRules(), "ours")).run()
    assert outcome.policy == "ours"
    assert outcome.unplaced == 0
    assert outcome.saving(baseline) > 0.4
    assert outcome.most_cycles_a_day <= SleepRules().max_cycles_a_day
