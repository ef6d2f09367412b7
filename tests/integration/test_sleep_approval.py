# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines are switched off only by a plan that a person approved, on the lab's BMCs."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import HOLD
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.sleep_plan import (
    SleepPlan,
)
from support.sleeping_lab import SleepingLab

Json = dict[str, t.Any]
MODE = "with_approval"


def planned(sleeping: SleepingLab, **more: t.Any) -> tuple[SleepPlan, Json]:
    """The plan of a run that must not switch anything off, through its document."""
    result = sleeping.run(MODE, **more)
    return SleepPlan.from_document(result["plan"]), result


def test_only_the_approved_plan_is_carried_out_and_a_wake_needs_none(
    sleeping: SleepingLab,
) -> None:
    plan, result = planned(sleeping)
    assert (len(plan.names), sleeping.asleep(), result["changed"]) == (2, [], False)
    words = {one["name"]: one["word"] for one in result["machines"]}
    assert {name for name, word in words.items() if word == "approval"} == plan.names
    # A later run without the plan switches nothing off either.
    assert planned(sleeping)[1]["transitions"] == []
    one = SleepPlan(plan.machines[:1])
    done = sleeping.run(MODE, approved=one)
    assert (sleeping.asleep(), done["obstacle"]) == ([one.machines[0].name], None), done
    # Repeating it, as after a killed job, changes nothing and refuses nothing.
    again = sleeping.run(MODE, approved=one)
    assert (again["obstacle"], again["transitions"]) == (None, [])
    size = min(machine.cores for machine in sleeping.machines) * 2 // 3
    awake = sum(each.cores for each in sleeping.machines if each.name != one.machines[0].name)
    for number in range(awake // size + 1):
        sleeping.pod(f"waiting-{number}", str(size))
    woken = sleeping.run(MODE)
    assert sleeping.asleep() == [], woken


def test_a_plan_is_refused_as_a_whole_when_pods_came(sleeping: SleepingLab) -> None:
    plan, _result = planned(sleeping)
    name = plan.machines[1].name
    sleeping.pod("late", "1", name)
    result = sleeping.run(MODE, approved=plan)
    assert sleeping.asleep() == []
    came = f"Pod {sleeping.namespace}/late came to {name}."
    assert result["obstacle"] == (
        f"The state has moved on since the plan was made: {came} "
        "Plan again, and approve the new plan."
    )


def test_a_plan_is_refused_when_its_machines_are_needed(sleeping: SleepingLab) -> None:
    plan, _result = planned(sleeping)
    cores = max(machine.cores for machine in sleeping.machines)
    for number in range(4):
        sleeping.pod(f"waiting-{number}", str(cores * 2 // 3))
    result = sleeping.run(MODE, approved=plan)
    assert sleeping.asleep() == []
    assert "is not to be switched off now." in result["obstacle"]


@pytest.mark.parametrize(("watts", "is_refused"), [(100.0, False), (119.0, False), (180.0, True)])
def test_a_machine_that_draws_more_than_in_the_plan_does_other_work(
    sleeping: SleepingLab, watts: float, is_refused: bool
) -> None:
    plan, _result = planned(sleeping, power_watts=dict.fromkeys(sleeping.names, 100.0))
    now = dict.fromkeys(sleeping.names, watts)
    result = sleeping.run(MODE, approved=plan, power_watts=now, check_mode=True)
    told = f"{plan.machines[0].name} draws 180 W, and drew 100 W."
    assert (told in (result["obstacle"] or "")) == is_refused, result


def test_a_hold_and_old_readings_refuse_the_plan(sleeping: SleepingLab) -> None:
    plan, _result = planned(sleeping)
    old = sleeping.run(MODE, approved=plan, readings_age=5000.0)
    assert "old readings" in old["obstacle"]
    name = plan.machines[0].name
    sleeping.patch_node(name, {"metadata": {"annotations": {HOLD: "true"}}})
    held = sleeping.run(MODE, approved=plan)
    assert held["obstacle"].count("holds it") == 1
    assert sleeping.asleep() == []
