# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caps by priority above a limit, and their end below it."""

from __future__ import annotations

import random
from dataclasses import replace

from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.caps import (
    TARGET,
    CapMachine,
    plan_caps,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.domains import (
    RELEASE,
    Limit,
)
from support.examples import each_seed


def rack(watts: float, *machines: CapMachine) -> list[Limit]:
    return [Limit("rack", "r1", tuple(one.name for one in machines), watts)]


def by_name(*machines: CapMachine) -> dict[str, CapMachine]:
    return {one.name: one for one in machines}


def test_the_lowest_priority_gives_first_and_equals_share_by_their_room() -> None:
    machines = (
        CapMachine("batch-1", 300.0, 100.0, 0),
        CapMachine("batch-2", 200.0, 100.0, 0),
        CapMachine("shop", 400.0, 100.0, 100),
    )
    plan = plan_caps(rack(800.0, *machines), by_name(*machines))
    # 900 W less 784 W are 116 W, of which the rooms of 200 W and 100 W share two to one.
    assert plan.caps == {"batch-1": 222.0, "batch-2": 161.0}
    assert (dict(plan.above), dict(plan.uncovered)) == ({0: 900.0}, {})


def test_what_no_floor_allows_is_left_uncovered() -> None:
    machines = (CapMachine("one", 300.0, 250.0), CapMachine("two", 300.0))
    plan = plan_caps(rack(500.0, *machines), by_name(*machines))
    assert plan.caps == {"one": 250.0}
    assert dict(plan.uncovered) == {0: 60.0}


def test_caps_stay_between_the_thresholds_and_end_one_by_one_below() -> None:
    held = [
        CapMachine("low", 200.0, 100.0, 0, cap_watts=200.0),
        CapMachine("high", 200.0, 100.0, 9, cap_watts=200.0),
        CapMachine("idle", 120.0, 100.0, 0, cap_watts=200.0),
    ]
    near = plan_caps(rack(540.0, *held), by_name(*held))
    assert near.caps == {"low": 200.0, "high": 200.0, "idle": 200.0}
    below = plan_caps(rack(600.0, *held), by_name(*held))
    assert below.caps == {"low": 200.0}


def test_caps_for_an_inlet_rise_with_what_the_rack_may_draw_and_the_highest_priority_first() -> (
    None
):
    low = CapMachine("low", 200.0, 100.0, 0, cap_watts=200.0)
    high = CapMachine("high", 200.0, 100.0, 9, cap_watts=200.0, max_watts=230.0)
    idle = CapMachine("idle", 120.0, 100.0, 9, cap_watts=200.0)
    machines = by_name(low, high, idle)

    def caps(watts: float, *more: Limit) -> dict[str, float]:
        inlet = Limit("inlet", "r1", tuple(machines), watts)
        return dict(plan_caps([inlet, *more], machines).caps)

    same = {"low": 200.0, "high": 200.0, "idle": 200.0}
    assert caps(540.0) == same, "a step of the noise is none"
    assert caps(550.0) == {**same, "high": 219.0}
    assert caps(600.0) == {**same, "high": 230.0}, "no BMC gets more than it allows"
    assert caps(550.0, Limit("rack", "r1", tuple(machines), 540.0)) == same


def test_a_machine_without_a_reading_keeps_the_caps_of_its_rack() -> None:
    there = CapMachine("there", 100.0, 50.0, cap_watts=300.0)
    silent = CapMachine("silent", 0.0)
    plan = plan_caps(rack(1000.0, there, silent), by_name(there))
    assert plan.caps == {"there": 300.0}


@each_seed(100)
def test_every_plan_keeps_its_promises(seed: int) -> None:
    source = random.Random(seed)
    machines = by_name(
        *(
            CapMachine(
                f"node-{index}",
                source.uniform(80, 500),
                source.choice([None, source.uniform(60, 200)]),
                source.choice([0, 10, 1000]),
            )
            for index in range(source.randint(1, 8))
        )
    )
    drawn = sum(one.watts for one in machines.values())
    limits = rack(source.uniform(0.4, 1.3) * drawn, *machines.values())
    plan = plan_caps(limits, machines)
    assert bool(plan.caps) <= (drawn > limits[0].watts) == bool(plan.above)
    for name, cap in plan.caps.items():
        floor = machines[name].floor_watts
        assert floor is not None and floor <= cap <= max(floor + 1, machines[name].watts)
    after = sum(min(one.watts, plan.caps.get(name, one.watts)) for name, one in machines.items())
    left = plan.uncovered.get(0, 0.0)
    assert not plan.above or after <= TARGET * limits[0].watts + left + 1e-6
    # As long as the power is that of the caps, the same caps hold.
    capped = {
        name: replace(
            one,
            watts=min(one.watts, plan.caps.get(name, one.watts)),
            cap_watts=plan.caps.get(name),
        )
        for name, one in machines.items()
    }
    if plan.above and not left and after > RELEASE * limits[0].watts:
        assert plan_caps(limits, capped).caps == plan.caps
