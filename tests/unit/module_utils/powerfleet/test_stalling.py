# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stalled fleets: when a run is overdue, and what is the sign of one."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.stalling import (
    MARGIN_SECONDS,
    FleetView,
    Stalls,
    view_fleet,
)
from support.power_fleets import manifest

KEY = "power/main"
FIRST, SECOND = "2026-01-31T12:00:00Z", "2026-01-31T12:05:00Z"
NO_RUN = {"type": "Stalled", "status": "True", "reason": "NoRun", "message": "x"}


def seen(
    last_run: str = "", is_told: bool = False, generation: int = 1, **spec: t.Any
) -> FleetView:
    stored = manifest("main", **spec)
    stored["metadata"]["generation"] = generation
    stored["status"] = {
        "conditions": [NO_RUN] if is_told else [],
        **({"lastRun": {"time": last_run}} if last_run else {}),
    }
    found = view_fleet(stored)
    assert found is not None
    return found


@pytest.mark.parametrize("last_run", ["", FIRST])
@pytest.mark.parametrize(("interval", "seconds"), [("15s", 15), ("60s", 60), ("24h", 86400)])
@pytest.mark.parametrize("heartbeat", [0.0, 300.0, 3600.0])
def test_a_run_is_overdue_after_heartbeat_two_intervals_and_the_margin(
    last_run: str, interval: str, seconds: float, heartbeat: float
) -> None:
    stalls = Stalls(heartbeat)
    patience = heartbeat + 2 * seconds + MARGIN_SECONDS
    stalls.see(seen(last_run, interval=interval), 1000.0)
    assert not stalls.is_stalled(KEY, 1000 + patience) and not stalls.take(1000 + patience)
    assert stalls.is_stalled(KEY, 1001 + patience)
    assert [each.fleet.key for each in stalls.take(1001 + patience)] == [KEY]
    assert f'wattwise_power_fleet_stalled{{power_fleet="{KEY}"}} 1\n' in stalls.exposition(
        1001 + patience
    )
    # The next attempt waits for the answer to the first one.
    assert not stalls.take(1002 + patience)
    assert stalls.take(1040 + patience)


@pytest.mark.parametrize(
    ("later", "is_sign"),
    [
        (seen(SECOND), True),
        (seen(FIRST, generation=2, interval="30s"), True),
        (seen(FIRST), False),
        (seen(FIRST, is_told=True), False),
        (seen(FIRST, is_told=True, generation=2), False),
    ],
)
def test_a_stored_run_or_a_new_spec_starts_the_time_anew(later: FleetView, is_sign: bool) -> None:
    stalls = Stalls(300.0)
    stalls.see(seen(FIRST), 0.0)
    stalls.see(later, 700.0)
    assert stalls.is_stalled(KEY, 721.0) is not is_sign
    assert stalls.is_stalled(KEY, 1421.0)


def test_a_suspended_fleet_is_never_stalled_and_a_resumed_one_gets_its_time() -> None:
    stalls = Stalls(300.0)
    stalls.see(seen(FIRST, suspend=True), 0.0)
    assert not stalls.is_stalled(KEY, 1e6)
    assert stalls.exposition(1e6).endswith(f'{{power_fleet="{KEY}"}} 0\n')
    stalls.see(seen(FIRST, generation=2), 1e6)
    assert not stalls.is_stalled(KEY, 1e6 + 720) and stalls.is_stalled(KEY, 1e6 + 721)


def test_a_restarted_watcher_waits_but_takes_nothing_back_without_a_run() -> None:
    stalls = Stalls(300.0)
    # The last run may be of last year, because the whole operator was away.
    stalls.see(seen("2025-01-31T12:00:00Z"), 0.0)
    assert not stalls.is_stalled(KEY, 720.0)
    told = Stalls(300.0)
    told.see(seen(FIRST, is_told=True), 0.0)
    assert told.is_stalled(KEY, 0.0) and not told.take(0.0)
    told.see(seen(SECOND, is_told=True), 1.0)
    assert not told.is_stalled(KEY, 1.0)
    assert [each.is_told for each in told.take(1.0)] == [True]


def test_a_condition_is_taken_back_from_a_suspended_fleet() -> None:
    stalls = Stalls(300.0)
    stalls.see(seen(FIRST, is_told=True), 0.0)
    stalls.see(seen(FIRST, is_told=True, generation=2, suspend=True), 1.0)
    assert [each.fleet.key for each in stalls.take(1.0)] == [KEY]


def test_a_fleet_that_went_or_came_again_has_no_past() -> None:
    stalls = Stalls(300.0)
    stalls.see(seen(FIRST), 0.0)
    stalls.forget(KEY)
    assert not stalls.is_stalled(KEY, 1e6) and not stalls.take(1e6)
    assert "power/main" not in stalls.exposition(1e6)
    stalls.see(seen(FIRST), 1e6)
    assert not stalls.is_stalled(KEY, 1e6 + 1)


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        {"lastRun": []},
        {"lastRun": {"time": 7}},
        {"conditions": "Stalled"},
        {"conditions": [None, {"type": ["Stalled"]}]},
        {"conditions": [{**NO_RUN, "status": "False"}]},
    ],
)
def test_a_broken_status_has_no_run_and_no_condition(status: t.Any) -> None:
    found = view_fleet({**manifest("main"), "status": status})
    assert found is not None and (found.last_run, found.is_told) == ("", False)
