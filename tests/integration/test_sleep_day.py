# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A day of machines that sleep, with the real operator and BMCs that switch KWOK's nodes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.operator import unchanged
from lab.state import LabSettings, LabState
from support.sleep_day import PARTS, POWER_TIME_FACTOR, sleeping_hall
from support.sleep_scenes import day

SETTINGS = LabSettings(nodes=10, racks=2, seed=1, parts=PARTS, power_time_factor=POWER_TIME_FACTOR)
SEED = 1
# The decision keeps another machine awake.
LYING = "r2-n05"
HEARTBEAT_SECONDS = 300.0


def test_a_day_with_faults_ends_as_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sleeping_hall(LabState(tmp_path / "lab"), SETTINGS) as hall, day(hall, SEED) as now:
        hall.create_fleet()
        now.pods_arrive(6)
        now.bmc_lies(LYING)
        now.demand_falls(6)
        late, failing, *_others = sorted(hall.in_phase("asleep"))
        now.boot_fails(failing)
        now.boot_is_late(late)
        now.demand_rises(now.at_a_moment(("waking",), now.operator_is_killed))
        now.demand_falls(2)
        hall.mend_machines()
        with hall.still():
            quiet = unchanged.watch(hall, hall.running, 2, HEARTBEAT_SECONDS)
        now.sleep_is_turned_off()
        assert hall.is_deployed(2)
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *now.latencies.table(), *quiet.lines, ""]))
