# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision over days of random demand: its bounds, and the worth of a reserve."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

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
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.trace import (
    TracePod,
    sorted_trace,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.rules import SleepRules

RULES = SleepRules(interval_seconds=900.0)
SWITCHING = Switching(200.0, 150.0, 0.0, 100.0, 8.0)
CURVE = Curve((0.0, 16.0, 32.0), (90.0, 160.0, 210.0))


def scenario(seed: int, days: float = 1.0, protected: int = 0) -> Scenario:
    """Bursts of pods on six machines of 32 cores."""
    draw = random.Random(seed)
    pods = []
    time = 0.0
    while time < days * 86400:
        time += draw.expovariate(1 / 1800)
        for _pod in range(draw.choice([1, 1, 1, 2, 6])):
            cores = draw.choice([1, 1, 2, 4, 8])
            requests = (("cpu", 1000 * cores), ("memory", cores << 30))
            pods.append(TracePod(time, time + draw.expovariate(1 / 4000), requests))
    nodes = [
        Node(f"n{index}", {"cpu": 32_000, "memory": 128 << 30, "pods": 110}, curve=CURVE)
        for index in range(6)
    ]
    machines = [
        Machine(node.name, SWITCHING, protection="It is kept." if index < protected else "")
        for index, node in enumerate(nodes)
    ]
    return build_scenario(nodes, machines, sorted_trace(pods, start=1.7e9))


def replayed(task: Scenario, rules: SleepRules) -> Outcome:
    return Simulation(task, DecidedPolicy(rules)).run()


@pytest.mark.parametrize("cycles", [0, 1, 3])
def test_no_machine_is_switched_more_often_than_its_bound(cycles: int) -> None:
    eager = replace(RULES, max_cycles_a_day=cycles, min_awake_seconds=0.0, wear_joules=0.0)
    outcome = replayed(scenario(5, protected=1), replace(eager, reserve_share=0.0))
    assert outcome.most_cycles_a_day <= cycles
    assert outcome.switches_off[0] == 0
    assert outcome.unplaced == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_more_reserve_never_makes_more_pods_wait(seed: int) -> None:
    task = scenario(seed)
    shares = [0.0, 1.0, 1000.0]
    waits = [replayed(task, replace(RULES, reserve_share=share)).share_waiting for share in shares]
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] == 0.0
