# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of a living cluster as the decision gets them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.guards import Peers
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.options import (
    OPTIONS,
    SleepOptions,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.planner import (
    FleetInputs,
    Planner,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import NodeRecord
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase

NOW = 1.8e9


def node(ready: str) -> dict[str, t.Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": "n"}, "spec": {}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(("ready", "deadline"), [("Unknown", NOW - 1), ("True", None)])
def test_a_late_machine_is_no_room_until_its_node_is_ready(
    ready: str, deadline: float | None
) -> None:
    options = SleepOptions.of(OPTIONS.complete({"mode": "on"}))
    planner = Planner(FleetInputs({}, {}, {}), options, Peers(), lambda _name: True, NOW)
    record = NodeRecord(Phase.WAKING, NOW - 600, "test", deadline=NOW - 1)
    machine = planner._machine(node(ready), Phase.WAKING, record, None)
    assert (machine.phase, machine.deadline) == (Phase.WAKING, deadline)
