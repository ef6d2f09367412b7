# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The histories of machines: what runs did, and what they were killed before they could note."""

from __future__ import annotations

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.demand_record import (
    SleepRecord,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.histories import Histories
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import NodeRecord
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase

NOW = 1_800_000_000.0


def followed(record: NodeRecord) -> SleepRecord:
    """The record of a fleet after a run that found this record on the Node n1."""
    found = SleepRecord(NOW, NOW)
    Histories(found, {"n1": 100.0}, 10.0).follow(["n1"], {"n1": record}, NOW)
    return found


def test_a_sleep_that_a_killed_run_began_is_noted() -> None:
    [history] = followed(NodeRecord(Phase.ASLEEP, NOW - 60, "playbook")).machines.values()
    assert (history.cycles, history.joules(NOW)) == (1, 60 * 90.0)


def test_a_record_that_no_run_wrote_is_no_sleep_and_saves_nothing() -> None:
    assert followed(NodeRecord(Phase.ASLEEP, NOW - 60, "")).machines == {}
