# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of an unchanged cluster, back to back: they may write only heartbeats, which are listed."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from dataclasses import dataclass
from typing import Any

from lab.errors import LabError
from lab.operator.hall import FLEET, Hall
from lab.operator.installation import NAMESPACE, RunningInstallation
from lab.operator.writes import Write, key_of, requests, stored, writes
from lab.process import wait_until

ASKED = "lab.wattwise.github.io/run"
_ENDED = '"msg":"Ansible-runner exited successfully"'
_RUN_SECONDS = 60.0
_SPENT = re.compile(
    r'^controller_runtime_reconcile_time_seconds_sum\{controller="powerfleet[^}]*\} (\S+)', re.M
)


@dataclass(frozen=True)
class Unchanged:
    """A series of runs: their durations, their heartbeats, and their writing requests."""

    seconds: tuple[float, ...]
    heartbeats: tuple[Write, ...]
    objects: int
    requests: dict[str, float]

    @property
    def lines(self) -> list[str]:
        beats = Counter(one.resource for one in self.heartbeats)
        told = ", ".join(f"{count} of {kind}" for kind, count in beats.items()) or "none"
        sent = ", ".join(f"{count:g} {name}" for name, count in self.requests.items()) or "none"
        return [
            f"{len(self.seconds)} runs of the unchanged cluster, median"
            f" {statistics.median(self.seconds):.1f} s: of {self.objects} objects that the"
            " operator may write, none was written",
            f"heartbeats: {told}; requests that could write: {sent}",
        ]


def watch(
    hall: Hall, running: RunningInstallation, runs: int, heartbeat_seconds: float
) -> Unchanged:
    """Run one after the other. Raises LabError if a run writes more than heartbeats."""
    manifests = running.installation.manifests
    ended = _settled(hall, running)
    fleet = key_of("powerfleets", "wattwise.github.io", NAMESPACE, FLEET)
    known = stored(hall.api, manifests)
    before = requests(hall.api, manifests)
    seconds, heartbeats = [], []
    for number in range(runs):
        spent = reconcile_seconds(running)
        known[fleet] = _ask(hall, str(number))
        ended = wait_for_run(running, ended)
        seconds.append(reconcile_seconds(running) - spent)
        now = stored(hall.api, manifests)
        for one in writes(known, now, heartbeat_seconds):
            if not one.is_heartbeat:
                raise LabError(f"Run {number + 1} of an unchanged cluster wrote {one}.")
            heartbeats.append(one)
        known = now
    after = requests(hall.api, manifests)
    sent = {
        f"{verb} {resource}": after[verb, resource] - before.get((verb, resource), 0.0)
        for verb, resource in sorted(after)
        if verb in ("POST", "PUT", "PATCH", "APPLY", "DELETE")
    }
    # Each run is requested by a patch of this module.
    sent["PATCH powerfleets"] = sent.get("PATCH powerfleets", 0.0) - runs
    counted = {name: count for name, count in sent.items() if count}
    return Unchanged(tuple(seconds), tuple(heartbeats), len(known), counted)


def _ask(hall: Hall, number: str) -> dict[str, Any]:
    """Request a run; return the changed PowerFleet."""
    return hall.change_fleet({"metadata": {"annotations": {ASKED: number}}})


def _settled(hall: Hall, running: RunningInstallation) -> int:
    """Run until each machine was read since its clock stopped; return the number of runs so far."""
    hall.forget_requests()
    ended = wait_until_idle(running)
    while not hall.were_asked():
        _ask(hall, f"settling-{ended}")
        ended = wait_for_run(running, ended)
    return ended


def runs_ended(running: RunningInstallation, fleet: str = FLEET) -> int:
    """Number of the fleet's runs that have ended."""
    name = f'"name":"{fleet}","namespace":"{NAMESPACE}"'
    lines = running.operator.log.splitlines()
    return sum(_ENDED in line and name in line for line in lines)


def wait_for_run(
    running: RunningInstallation, ended: int, fleet: str = FLEET, seconds: float = _RUN_SECONDS
) -> int:
    """Return when one more run has ended and none is queued; the number of ended runs."""
    what = f"the end of a run of PowerFleet {fleet}"
    wait_until(lambda: runs_ended(running, fleet) > ended, seconds, what, interval=0.1)
    return wait_until_idle(running, fleet, seconds)


def wait_until_idle(
    running: RunningInstallation, fleet: str = FLEET, seconds: float = _RUN_SECONDS
) -> int:
    """Return the number of runs so far when none is running or queued."""
    wait_until(lambda: running.operator.is_idle, seconds, "an idle operator", interval=0.1)
    return runs_ended(running, fleet)


def reconcile_seconds(running: RunningInstallation) -> float:
    """Seconds of all runs so far, as the operator counts them."""
    found = _SPENT.search(running.operator.metrics())
    if found is None:
        raise LabError("The operator's metrics name no time of its runs.")
    return float(found[1])
