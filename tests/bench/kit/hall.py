# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labs that benches share, with a thousand and with fifty machines, and the main job there."""

from __future__ import annotations

import copy
import datetime
import re
import typing as t
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bench.kit.rows import Json
from bench.kit.stage import Stage, Usage
from lab import faults, lifecycle, process, workload
from lab.api import Api
from lab.inventory import CLUSTER
from lab.machines import Machine, build_machines
from lab.state import LabSettings, LabState

NODES_PER_RACK = 50
PARTS = (lifecycle.CONTROL_PLANE, "bmc", "pressure", "predictor")
BMC_SECONDS = 0.05
SLOWEST_SECONDS = 900.0
# These programs list, watch and write by themselves; no later measurement needs them.
SCHEDULER = "kube-scheduler"
BUSY_BODIES = ("kwok", "kube-controller-manager", SCHEDULER)
_CHANGED = re.compile(r"^\S+\s+: ok=\d+\s+changed=(\d+)", re.MULTILINE)


class Size(t.NamedTuple):
    """Numbers of machines and of pending pods, and whether kube-scheduler binds these pods too."""

    nodes: int
    pods: int
    compared: bool = True


FLEET = Size(1000, 5000)
# The largest cluster that Kubernetes supports.
LARGEST_CLUSTER = Size(5000, 25000, compared=False)
ROW_OF_RACKS = Size(50, 500)
SMOKE = Size(24, 100)


@dataclass(frozen=True)
class Hall:
    """A running lab whose BMCs take 50 ms for an answer."""

    state: LabState
    settings: LabSettings
    machines: tuple[Machine, ...]

    @property
    def kubeconfig(self) -> str:
        return str(self.state.kubeconfig)

    def admin(self, method: str, path: str, body: t.Any = None) -> t.Any:
        """Request to the BMC simulator; lab/bmc/admin.py lists the paths."""
        return faults.call(self.settings, method, path, body)

    def quieten(self) -> None:
        """Stop the programs that would load the API server during benches."""
        process.stop(self.state, BUSY_BODIES)

    def liven(self) -> None:
        """Restart the programs that `quieten` stopped."""
        if not set(BUSY_BODIES) <= process.running(self.state).keys():
            lifecycle.up(self.state, self.settings, _silent)


@dataclass(frozen=True)
class SiteRun:
    """A playbook run on the hall; `changed` counts the tasks that changed something."""

    usage: Usage
    changed: int


@dataclass(frozen=True)
class Installed:
    """The hall with everything installed, and the folder of the main job's documents."""

    hall: Hall
    run: SiteRun
    run_dir: Path


@dataclass(frozen=True)
class MainJob:
    """The main job's runs on the hall: an empty cluster, then pending pods, then nothing new.

    `scheduler_seconds` and `binding_seconds` are the time from the first to the last binding of the
    same pods, by kube-scheduler (0 if it binds none) and by the main job.
    """

    hall: Hall
    pods: int
    installed: SiteRun
    scheduler_seconds: float
    placed: SiteRun
    binding_seconds: float
    run_dir: Path

    def document(self, kind: str) -> Path:
        return self.run_dir / CLUSTER / f"{kind}.json"


def hall(stage: Stage, size: Size = FLEET) -> Hall:
    """The running lab; started by the first bench that asks for it."""
    return stage.shared(f"hall of {size.nodes}", lambda stage: _start(stage, size))


def installed(stage: Stage, size: Size = FLEET) -> Installed:
    """The hall after the main job ran on its empty cluster: every BMC was read once."""
    return stage.shared(f"installed hall of {size.nodes}", lambda stage: _install(stage, size))


def main_job(stage: Stage, size: Size = FLEET) -> MainJob:
    """The hall after the main job ran on it."""
    return stage.shared(f"main job on {size.nodes}", lambda stage: _run(stage, size))


def _start(stage: Stage, size: Size) -> Hall:
    nodes = SMOKE.nodes if stage.smoke else size.nodes
    asked = LabSettings(nodes, max(1, nodes // NODES_PER_RACK), seed=1, parts=PARTS)
    state = LabState(stage.folder())
    stage.say(f"  starting a lab of {nodes:,} machines")
    stage.resources.callback(lifecycle.down, state, _silent)
    lifecycle.up(state, asked, _silent)
    settings = state.read_settings()
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    started = Hall(state, settings, tuple(machines))
    started.admin("POST", "/latency", {"seconds": [BMC_SECONDS, BMC_SECONDS]})
    return started


def _silent(_text: str) -> None:
    """Print no progress of the lab."""


def _install(stage: Stage, size: Size) -> Installed:
    room, run_dir = hall(stage, size), stage.folder()
    stage.say("  installing on the empty cluster")
    return Installed(room, play(stage, room, "site", run_dir), run_dir)


def _run(stage: Stage, size: Size) -> MainJob:
    before = installed(stage, size)
    room, run_dir = before.hall, before.run_dir
    room.liven()
    count = SMOKE.pods if stage.smoke else size.pods
    pods = workload.demo_pods(count, seed=1)
    with Api(room.state.kubeconfig) as api:
        workload.make_namespace(api)
        scheduler_seconds = _bound_by_scheduler(stage, room, api, pods) if size.compared else 0.0
        stage.say(f"  {count:,} pods for us")
        workload.create_pods(api, pods, "wattwise")
        placed = play(stage, room, "site", run_dir)
        binding_seconds = _binding_seconds(api)
    _wait_until_running(room)
    room.quieten()
    return MainJob(room, count, before.run, scheduler_seconds, placed, binding_seconds, run_dir)


def _bound_by_scheduler(stage: Stage, room: Hall, api: Api, pods: list[Json]) -> float:
    """Time that kube-scheduler takes for the pods, which are gone afterwards."""
    stage.say(f"  {len(pods):,} pods for kube-scheduler")
    process.stop(room.state, [SCHEDULER])
    workload.create_pods(api, pods, "default-scheduler")
    room.liven()
    workload.wait_until_bound(api, len(pods), room.settings, SLOWEST_SECONDS)
    seconds = _binding_seconds(api)
    _wait_until_running(room)
    workload.delete_pods(api, room.settings, SLOWEST_SECONDS)
    return seconds


def _binding_seconds(api: Api) -> float:
    """Time from the first to the last binding, by the API server's timestamps in seconds."""
    stamps = [
        datetime.datetime.fromisoformat(condition["lastTransitionTime"])
        for pod in workload.list_pods(api)
        for condition in pod["status"]["conditions"]
        if condition["type"] == "PodScheduled" and condition["status"] == "True"
    ]
    return (max(stamps) - min(stamps)).total_seconds() + 1.0


def _wait_until_running(room: Hall) -> None:
    """Wait until every pod with a node runs."""
    starting = "status.phase=Pending,spec.nodeName!="
    path = f"/api/v1/pods?limit=1&fieldSelector={quote(starting)}"
    with Api(room.state.kubeconfig) as api:
        process.wait_until(
            lambda: not api.request("GET", path)["items"],
            SLOWEST_SECONDS,
            "all bound pods to run",
            interval=1.0,
        )


def play(stage: Stage, room: Hall, playbook: str, run_dir: Path, *arguments: str) -> SiteRun:
    """Run a playbook of the collection on the hall."""
    usage = stage.playbook(
        f"wattwise.kube.{playbook}",
        *("-i", str(room.state.inventory), "-e", f"wattwise_run_dir={run_dir}", *arguments),
    )
    changed = sum(int(count) for count in _CHANGED.findall(usage.output))
    return SiteRun(usage, changed)


def without_sensors(snapshot: Json) -> Json:
    """The snapshot before any BMC was read, without the NodeConfigs' statuses."""
    forgetful = copy.deepcopy(snapshot)
    for node_config in forgetful["node_configs"]:
        node_config.pop("status", None)
    return forgetful
