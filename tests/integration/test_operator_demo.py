# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make operator-demo`: a day under the operator, and runs of an unchanged cluster after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import lifecycle
from lab.operator import demo
from lab.state import LabSettings, LabState

SETTINGS = LabSettings(nodes=12, racks=2, seed=1, parts=lifecycle.PARTS)
# Short enough for heartbeats during the runs, which take three minutes.
HEARTBEAT_SECONDS = 60.0


@pytest.mark.slow
def test_a_day_ends_as_wanted_and_sixty_runs_after_it_write_heartbeats_alone(
    tmp_path: Path,
) -> None:
    state = LabState(tmp_path / "lab")
    shown = demo.demo(state, SETTINGS, print, 60, HEARTBEAT_SECONDS)
    assert len(shown.unchanged.seconds) == 60
    beating = {one.resource for one in shown.unchanged.heartbeats}
    assert beating == {"nodeconfigs", "powerfleets"}
    assert max(shown.latencies.seconds["pod waits → bound"]) <= 30.0
    assert max(shown.latencies.seconds["node added → NodeConfig"]) <= 30.0
    assert not state.root.exists()
