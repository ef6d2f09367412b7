# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs for deleted fleets: which ones begin, and when."""

from __future__ import annotations

import itertools
import sys
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import ownership, telling
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.ending import (
    FIRST_PAUSE_SECONDS,
    MAX_PAUSE_SECONDS,
    EndingRuns,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import RESOURCE_KIND
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.stalling import view_fleet
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.status import ending_status
from lab.process import wait_until
from support.power_fleets import fleet, manifest

# Notes the fleet of its variables in a file.
NOTE = """
import json, pathlib, sys
meta = json.loads(sys.argv[-1])["ansible_operator_meta"]
with pathlib.Path(sys.argv[1]).open("a") as file:
    file.write(f"{meta['namespace']}/{meta['name']}\\n")
"""
HANG = f"{NOTE}\nimport threading; threading.Event().wait()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{HANG}"


class Runs:
    def __init__(self, folder: Path, program: str = NOTE) -> None:
        self.file, self.said = folder / "runs", list[str]()
        command = (sys.executable, "-c", program, str(self.file))
        self.endings, self.now = EndingRuns(command, self.said.append, grace_seconds=0.1), 0.0

    def begun(self) -> list[str]:
        return self.file.read_text().split() if self.file.exists() else []

    def turn_until(self, runs: int) -> None:
        """Let runs end, and the next ones begin; a turn takes a second of simulated time."""

        def has_begun() -> bool:
            self.now += 1.0
            self.endings.turn(self.now)
            return len(self.begun()) == runs

        wait_until(has_begun, 30.0, f"run {runs}")


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    found = Runs(tmp_path)
    yield found
    found.endings.stop()


def test_deleted_fleets_get_one_run_after_the_other_until_they_are_gone(runs: Runs) -> None:
    runs.endings.add("power/a", 1.0)
    runs.endings.add("power/b", 2.0)
    runs.endings.turn(0.5)
    assert runs.said == []
    runs.turn_until(2)
    assert runs.begun() == ["power/a", "power/b"]
    runs.endings.forget("power/a")
    began = runs.now
    runs.turn_until(3)
    assert runs.begun()[2:] == ["power/b"]
    assert runs.now - began > FIRST_PAUSE_SECONDS


def test_runs_that_do_not_help_become_rare(tmp_path: Path) -> None:
    begun: list[float] = []
    endings = EndingRuns(["/does/not/exist"], lambda _text: begun.append(now))
    endings.add("power/a", 0.0)
    for now in map(float, range(1000)):
        endings.turn(now)
    times = begun[::2]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] == FIRST_PAUSE_SECONDS and pauses[-1] == MAX_PAUSE_SECONDS
    assert pauses == sorted(pauses) and len(pauses) < 12


def test_a_run_that_hangs_or_cannot_begin_stops_no_other(tmp_path: Path) -> None:
    runs = Runs(tmp_path, HANG)
    runs.endings.add("power/a", 0.0)
    runs.turn_until(1)
    runs.endings.turn(runs.now + 10.0)
    assert runs.begun() == ["power/a"] and len(runs.said) == 1
    runs.endings.turn(runs.now + 1000.0)
    assert runs.said[1] == "the run of power/a takes too long and is ended"
    missing = EndingRuns(["/does/not/exist"], runs.said.append)
    missing.add("power/a", 0.0)
    missing.turn(0.0)
    assert runs.said[-1].startswith("cannot begin a run of power/a: /does/not/exist")
    missing.turn(1.0)
    assert len(runs.said) == 4


def test_a_run_that_ignores_its_end_is_killed(tmp_path: Path) -> None:
    runs = Runs(tmp_path, STUBBORN)
    runs.endings.add("power/a", 0.0)
    runs.turn_until(1)
    runs.endings.stop()
    runs.turn_until(2)
    runs.endings.stop()


def test_only_a_deleted_fleet_with_the_finalizer_waits_for_a_run() -> None:
    def view(**metadata: t.Any) -> bool | None:
        obj = manifest()
        seen = view_fleet({**obj, "metadata": {**obj["metadata"], **metadata}})
        return None if seen is None else seen.is_ending

    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert view() is False
    assert view(finalizers=[RESOURCE_KIND.finalizer]) is False
    assert view(**deleted, finalizers=["other/one"]) is None
    assert view(**deleted, finalizers=["other/one", RESOURCE_KIND.finalizer]) is True


def test_older_fleets_and_those_that_let_machines_sleep_keep_the_nodes_of_a_deleted_one() -> None:
    times = [f"2026-01-0{day}T00:00:00Z" for day in range(1, 8)]
    on = {"sleep": {"mode": "on", "nodeSelector": "may=sleep"}}
    living = [
        fleet("old", times[0]),
        fleet("young", times[2]),
        fleet("sleeps", times[3], **on),
        fleet("paused", times[4], suspend=True, **on),
        fleet("observes", times[5], placement={"enabled": False}, **on),
        fleet("names-none", times[6], sleep={"mode": "on"}),
    ]
    heirs = ownership.heirs(fleet("deleted", times[1], **on), living)
    assert [one.name for one in heirs] == ["old", "sleeps"]


def test_the_status_of_a_deleted_fleet_names_the_first_machines() -> None:
    [ready] = ending_status(fleet(), [f"n{number}" for number in range(5)], [], "")["conditions"]
    assert ready["reason"] == "WaitingForMachines"
    assert ready["message"].startswith(
        "The fleet is deleted as soon as its machines are awake: n0, n1, n2 and 2 more."
    )
    [capped] = ending_status(fleet(), ["n0"], ["n7"], "")["conditions"]
    assert capped["message"].endswith(
        "The fleet is deleted as soon as the caps are removed of n7. Without a NodeConfig the cap of "
        "a machine stays and is forgotten."
    )
    # The API keeps one Event of a fleet for each reason.
    assert ready["reason"] not in telling.PHASE_REASONS.values()
    [ready] = ending_status(fleet(), [], [], "The API server does not answer")["conditions"]
    assert (ready["reason"], ready["message"]) == (
        "MachinesNotWoken",
        "The API server does not answer",
    )
