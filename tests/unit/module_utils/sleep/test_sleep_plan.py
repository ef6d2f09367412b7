# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of machines to switch off: their document, and changes that forbid to carry them out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.plan import PlannedMove, Step
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.sleep_plan import (
    MachineNow,
    PlannedMachine,
    SleepPlan,
    refusal,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase

MOVE = PlannedMove("default", "web-1", "n1", "n3", 0.0, "pod-uid")
PLAN = SleepPlan(
    (
        PlannedMachine("n1", "u1", "Why.", 90.0, 100.0, {"pod-uid": "Pod default/web-1"}, (MOVE,)),
        PlannedMachine("n2", "u2", "Why.", 80.0),
    )
)
FIRST = MachineNow("u1", pods={"pod-uid": "Pod default/web-1"}, power_watts=100.0)
NOW = {"n1": FIRST, "n2": MachineNow("u2")}


def test_a_plan_is_the_same_after_its_document(tmp_path: Path) -> None:
    path = str(tmp_path / "sleep_plan.json")
    documents.write(path, "sleep_plan", PLAN.as_document())
    read = SleepPlan.from_document(documents.load(path, "sleep_plan"))
    assert read == PLAN
    assert read.steps == {"n1": Step(1, (MOVE,), asleep=("n1",))}


@pytest.mark.parametrize(
    "first",
    [
        FIRST,
        # Pods may have left, and a meter may be silent.
        replace(FIRST, pods={}, power_watts=None),
        replace(FIRST, power_watts=124.0),
        # A former run of the same plan has got as far as this.
        replace(FIRST, phase=Phase.DRAINING, power_watts=500.0),
        replace(FIRST, phase=Phase.GOING_OFF, obstacle="It is shutting down."),
        replace(FIRST, phase=Phase.ASLEEP, pods={"new": "Pod default/daemon"}),
    ],
)
def test_a_plan_is_carried_out_while_its_machines_are_as_they_were(first: MachineNow) -> None:
    assert refusal(PLAN, {**NOW, "n1": first}) == ""


@pytest.mark.parametrize(
    ("first", "change"),
    [
        (None, "Node n1 was removed or replaced."),
        (replace(FIRST, uid="other"), "Node n1 was removed or replaced."),
        (
            replace(FIRST, pods={"pod-uid": "Pod default/web-1", "a": "Pod default/web-9"}),
            "Pod default/web-9 came to n1.",
        ),
        # A replacement of the same name is another pod.
        (replace(FIRST, pods={"a": "Pod default/web-1"}), "Pod default/web-1 came to n1."),
        (replace(FIRST, power_watts=126.0), "n1 draws 126 W, and drew 100 W."),
        (
            replace(FIRST, obstacle="It carries pods or the reserve."),
            "n1 is not to be switched off now. It carries pods or the reserve.",
        ),
    ],
)
def test_one_change_refuses_the_whole_plan_in_one_sentence(
    first: MachineNow | None, change: str
) -> None:
    now = {**NOW, "n1": first}
    found = refusal(PLAN, {name: one for name, one in now.items() if one is not None})
    assert found == (
        f"The state has moved on since the plan was made: {change} "
        "Plan again, and approve the new plan."
    )
