# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m lab operator-demo`: a lab, the real operator on it, and a scripted day."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import comparison, lifecycle, process
from lab.api import Api
from lab.errors import LabError
from lab.gotools import Say
from lab.machines import build_machines
from lab.operator import day, unchanged
from lab.operator.day import Day, Plan
from lab.operator.hall import PODS, Hall
from lab.operator.installation import RunningInstallation, install, start
from lab.operator.latencies import Latencies
from lab.rmd import machine_configuration
from lab.state import LabSettings, LabState
from lab.workload import make_namespace

# Separate from the lab of `make demo`, which may continue.
ROOT = Path(lifecycle.__file__).resolve().parent / ".state-operator"
MIN_NODES, MIN_RACKS = 12, 2
NODES, RACKS = 24, 4
UNCHANGED_RUNS = 5
HEARTBEAT_SECONDS = 300.0
_LATE, _FAILING = 2, 2


@dataclass(frozen=True)
class Shown:
    """The result of the demo: the table of latencies, and the writes of unchanged runs."""

    latencies: Latencies
    unchanged: unchanged.Unchanged

    @property
    def lines(self) -> list[str]:
        return [*self.latencies.table(), "", *self.unchanged.lines]


def demo(
    state: LabState,
    asked: LabSettings,
    say: Say,
    unchanged_runs: int = UNCHANGED_RUNS,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> Shown:
    """The whole demo; all started parts are stopped. Raises LabError, and keeps the logs then."""
    _refuse(state, asked)
    try:
        lifecycle.up(state, asked, say)
        with Api(state.kubeconfig) as api:
            shown = _shown(api, state, say, unchanged_runs, heartbeat_seconds)
    except (LabError, OSError) as error:
        process.stop(state)
        raise LabError(f"{str(error).rstrip('.')}; the logs are in {state.logs}.") from error
    except BaseException:
        process.stop(state)
        raise
    lifecycle.down(state, say)
    return shown


def _refuse(state: LabState, asked: LabSettings) -> None:
    if asked.nodes < MIN_NODES or asked.racks < MIN_RACKS:
        raise LabError(
            f"The demo needs {MIN_NODES} nodes in {MIN_RACKS} racks; give it more than"
            f" {asked.nodes} in {asked.racks}."
        )
    if os.environ.get("LAB_KUBECONFIG"):
        raise LabError(
            "The demo installs an operator and removes nodes, so it takes no existing cluster;"
            " unset LAB_KUBECONFIG."
        )
    if any(process.running(state).values()):
        raise LabError(
            f"A lab runs in {state.root}; stop it with `python -m lab down --state {state.root}`,"
            " or choose another folder with --state."
        )


def _shown(
    api: Api, state: LabState, say: Say, unchanged_runs: int, heartbeat_seconds: float
) -> Shown:
    settings = state.read_settings()
    machines = {
        machine.name: machine
        for machine in build_machines(settings.nodes, settings.racks, settings.seed)
    }
    hall = Hall(api, state, settings, machines)
    latencies = Latencies(say)
    running = _installed(hall, say, heartbeat_seconds)
    try:
        say("a PowerFleet is created")
        hall.create_fleet()
        day.wait_for_first_run(hall)
        Day(hall, latencies, say, plan_of(hall)).play()
        say(f"{unchanged_runs} runs back to back, with nothing to do")
        with hall.still():
            quiet = unchanged.watch(hall, running, unchanged_runs, heartbeat_seconds)
        say("the day is over; every resource is checked")
        day.verify(hall, running, say)
    except LabError as error:
        if told := running.last_error:
            sentence = str(error).rstrip(".")
            raise LabError(f"{sentence}; the operator's last error is: {told}") from error
        raise
    finally:
        running.stop()
    return Shown(latencies, quiet)


def _installed(hall: Hall, say: Say, heartbeat_seconds: float) -> RunningInstallation:
    """The operator at work, without a PowerFleet."""
    installation = install(hall.state, "full", say, heartbeat_seconds)
    make_namespace(hall.api, PODS)
    for node in plan_of(hall).late:
        hall.remove_node(node)
    say("ansible-playbook wattwise.kube.site --tags node_configs: Secrets and templates")
    comparison.run_playbook("site", hall.state, "--tags", "node_configs")
    say("starting the operator, the watcher and the metrics endpoint")
    return start(installation, say)


def plan_of(hall: Hall) -> Plan:
    """Nodes for the events of the day; machines with self-signed certificates have none."""
    signed = [name for name, machine in hall.machines.items() if machine.certificate == "lab-ca"]
    plain = [name for name in signed if not machine_configuration(hall.machines[name]).debug]
    return Plan(
        late=plain[:_LATE],
        failing=plain[_LATE : _LATE + _FAILING],
        with_devices=plain[-day.DEVICES :],
        racks=list(dict.fromkeys(machine.rack for machine in hall.machines.values()))[:2],
    )


def ending(shown: Shown) -> Sequence[str]:
    """The demo's final output."""
    return ["every resource has its required state", "", *shown.lines]
