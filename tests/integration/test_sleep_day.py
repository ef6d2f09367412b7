# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A day of machines that sleep, with the real operator and BMCs that switch KWOK's nodes."""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.operator import unchanged
from lab.state import LabSettings, LabState
from support.sleep_day import ELECTION, PARTS, POWER_TIME_FACTOR, SleepingHall, sleeping_hall
from support.sleep_energy import measured_power, table_of_energy, tables
from support.sleep_scenes import Day, day

SETTINGS = LabSettings(nodes=10, racks=2, seed=1, parts=PARTS, power_time_factor=POWER_TIME_FACTOR)
SEED = 1
# The decision keeps another machine awake.
LYING = "r2-n05"
HEARTBEAT_SECONDS = 300.0
# Longer than a run on a busy computer, whose operator would never be idle otherwise.
INTERVAL = "60s"

# Days with other machines and other moments.
SEEDS = tuple(map(int, os.environ.get("WATTWISE_SLEEP_SEEDS", "1 2 3").split()))
NODES, MAX_SHARE = 14, 0.5
# Pods of 10 cores by night, and by day where energy is measured; 110 have room.
LOW, HIGH = 4, 52


def test_a_day_with_faults_ends_as_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = LabState(tmp_path / "lab")
    with sleeping_hall(state, SETTINGS, ELECTION) as hall, day(hall, SEED) as now:
        with hall.with_short_interval():
            hall.create_fleet(INTERVAL)
            now.pods_arrive(6)
            hall.start_second()
            late, failing, *_others = now.first_sleepers(6, LYING)
            now.boot_fails(failing)
            now.boot_is_late(late)
            now.demand_rises(now.at_a_moment(("waking",), now.operator_is_replaced))
            now.demand_falls(2)
        hall.mend_machines()
        with hall.still():
            quiet = _quiet(hall)
        with hall.with_short_interval():
            now.sleep_is_turned_off()
        assert hall.is_deployed(2)
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *now.latencies.table(), *quiet.lines, ""]))


def _quiet(hall: SleepingHall) -> unchanged.Unchanged:
    """Runs that write nothing, after those that write the record once more.

    The standby of each machine is measured a minute after its shutdown, and each quarter of an hour
    has counts of its own.
    """
    for _number in range(2):
        try:
            return unchanged.watch(hall, hall.running, 2, HEARTBEAT_SECONDS)
        except LabError as error:
            if "configmaps/kube-system/wattwise-sleep" not in str(error):
                raise
    return unchanged.watch(hall, hall.running, 2, HEARTBEAT_SECONDS)


@pytest.mark.slow
def test_days_with_every_fault_end_as_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds: dict[str, list[float]] = {}
    survived: Counter[str] = Counter()
    longest_wait = 0.0
    for seed in SEEDS:
        settings = replace(SETTINGS, nodes=NODES, seed=seed)
        with (
            sleeping_hall(LabState(tmp_path / f"lab-{seed}"), settings) as hall,
            day(hall, seed, MAX_SHARE) as now,
            hall.with_short_interval(),
        ):
            _whole_day(now, seed)
        for kind, values in now.latencies.seconds.items():
            seconds.setdefault(kind, []).extend(values)
        survived += now.survived
        longest_wait = max(longest_wait, now.watcher.longest_wait)
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *tables(seconds, survived, longest_wait), ""]))


@pytest.mark.slow
def test_two_operators_at_once_send_one_request_for_each_decision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No machine has a fault and no operator is killed, so that no request is repeated."""
    settings = replace(SETTINGS, nodes=NODES)
    with (
        sleeping_hall(LabState(tmp_path / "lab"), settings) as hall,
        day(hall, SEED) as now,
        hall.with_short_interval(),
    ):
        hall.start_second(waits=False)
        # A busy computer is no reason to ask again.
        hall.create_fleet(INTERVAL, shutdownTimeoutSeconds=120, bootTimeoutSeconds=120)
        now.pods_arrive(LOW)
        now.demand_falls(LOW)
        now.demand_rises()
        now.demand_falls(LOW)
        now.sleep_is_turned_off()
        # The end of the last boots is written by one more run.
        now.both_operators_run(1)
        resets: dict[str, Counter[str]] = {
            name: Counter(one["resets"]) for name, one in hall.power().items()
        }
        assert now.watcher.sleeps
        assert hall.cycles() == now.watcher.sleeps
        for name, requests in resets.items():
            sleeps = now.watcher.sleeps[name]
            assert requests["GracefulShutdown"] == requests.total() - sleeps == sleeps, name
        runs = [unchanged.runs_ended(one) for one in (hall.running, hall.second) if one]
    sleeps, sent = now.watcher.sleeps.total(), sum(one.total() for one in resets.values())
    told = f"{sleeps} sleeps with {sent} requests in {runs} runs of the two operators"
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *now.latencies.table(), told, ""]))


@pytest.mark.slow
def test_sleep_saves_energy_for_the_same_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(SETTINGS, nodes=NODES)
    with sleeping_hall(LabState(tmp_path / "lab"), settings) as hall, hall.with_short_interval():
        power = measured_power(hall, LOW, HIGH)
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *table_of_energy(power), ""]))
    default, awake, asleep = (one.kilowatt_hours for one in power.values())
    assert asleep < awake < default


def _whole_day(now: Day, seed: int) -> None:
    """Two nights and a morning with every fault, and kills of the operator in each."""
    deeds = (
        now.a_playbook_runs_beside,
        now.apiserver_is_restarted,
        now.a_second_operator_runs,
    )
    morning, night = (now.then_kill(deeds[(seed + number) % len(deeds)]) for number in range(2))
    now.hall.create_fleet(maxShare=MAX_SHARE)
    now.pods_arrive(LOW)
    sleepers = now.night(LOW, now.operator_is_killed)
    now.morning(morning)
    now.night_with_faults(LOW, sleepers, night)
    now.sleep_is_turned_off()
    now.cycles_are_used_up()
    now.sleep_is_turned_off()
    assert now.hall.is_deployed(LOW)
