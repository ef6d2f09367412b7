# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab of a thousand machines that benches share, and the main job as it ran there."""

from __future__ import annotations

import copy
import re
import stat
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bench.kit import launcher
from bench.kit.rows import Json
from bench.kit.stage import Stage, Usage, usages
from lab import faults, lifecycle, process, workload
from lab.api import Api
from lab.inventory import CLUSTER
from lab.machines import Machine, build_machines
from lab.state import LabSettings, LabState

NODES, SMOKE_NODES = 1000, 24
PODS, SMOKE_PODS = 10_000, 100
NODES_PER_RACK = 50
PARTS = (lifecycle.CONTROL_PLANE, "bmc", "pressure", "predictor")
BMC_SECONDS = 0.05
SLOWEST_START_SECONDS = 300.0
# What lists, watches and writes by itself; nothing that is measured later needs it.
BUSY_BODIES = ("kwok", "kube-controller-manager", "kube-scheduler")
_CHANGED = re.compile(r"^\S+\s+: ok=\d+\s+changed=(\d+)", re.MULTILINE)
_MODULE = re.compile(r"AnsiballZ_(\w+)\.py$")


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
        """Ask the simulator of the BMCs; lab/bmc/admin.py says what there is."""
        return faults.call(self.settings, method, path, body)

    def quieten(self) -> None:
        """Stop what keeps the API server busy beside the benches."""
        process.stop(self.state, BUSY_BODIES)

    def liven(self) -> None:
        """Start again what was stopped for quiet."""
        if not set(BUSY_BODIES) <= process.running(self.state).keys():
            lifecycle.up(self.state, self.settings, _silent)


@dataclass(frozen=True)
class ModuleRun:
    """One task of a playbook: its module's process from start to end."""

    module: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class SiteRun:
    """A run of a playbook on the hall; `changed` counts the tasks that changed something."""

    usage: Usage
    changed: int
    modules: tuple[ModuleRun, ...]


@dataclass(frozen=True)
class Installed:
    """The hall with everything installed, and the folder of the main job's documents."""

    hall: Hall
    run: SiteRun
    run_dir: Path


@dataclass(frozen=True)
class MainJob:
    """What the main job did on the hall: an empty cluster, then waiting pods, then nothing new."""

    hall: Hall
    pods: int
    installed: SiteRun
    placed: SiteRun
    again: SiteRun
    run_dir: Path

    def document(self, kind: str) -> Path:
        return self.run_dir / CLUSTER / f"{kind}.json"


def hall(stage: Stage) -> Hall:
    """The running lab; started by the first bench that asks for it."""
    return stage.shared("hall", _start)


def installed(stage: Stage) -> Installed:
    """The hall after the main job ran on its empty cluster: every BMC was read once."""
    return stage.shared("installed hall", _install)


def main_job(stage: Stage) -> MainJob:
    """The hall after the main job ran on it."""
    return stage.shared("main job", _run)


def _start(stage: Stage) -> Hall:
    nodes = stage.size(NODES, SMOKE_NODES)
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
    """The lab's own progress is not that of the benches."""


def _install(stage: Stage) -> Installed:
    room, run_dir = hall(stage), stage.folder()
    stage.say("  installing on the empty cluster")
    return Installed(room, play(stage, room, "site", run_dir), run_dir)


def _run(stage: Stage) -> MainJob:
    before = installed(stage)
    room, run_dir = before.hall, before.run_dir
    room.liven()
    count = stage.size(PODS, SMOKE_PODS)
    stage.say(f"  making {count:,} pods")
    with Api(room.state.kubeconfig) as api:
        workload.make_namespace(api)
        workload.create_pods(api, workload.demo_pods(count, seed=1), "wattwise")
    stage.say("  placing them")
    placed = play(stage, room, "site", run_dir)
    _wait_until_running(room)
    room.quieten()
    stage.say("  once more, with nothing to do")
    again = play(stage, room, "site", run_dir)
    return MainJob(room, count, before.run, placed, again, run_dir)


def _wait_until_running(room: Hall) -> None:
    """Return when no pod that has a node still waits for its kubelet."""
    starting = "status.phase=Pending,spec.nodeName!="
    path = f"/api/v1/pods?limit=1&fieldSelector={quote(starting)}"
    with Api(room.state.kubeconfig) as api:
        process.wait_until(
            lambda: not api.request("GET", path)["items"],
            SLOWEST_START_SECONDS,
            "all bound pods to run",
            interval=1.0,
        )


def play(stage: Stage, room: Hall, playbook: str, run_dir: Path, *arguments: str) -> SiteRun:
    """Run a playbook of the collection on the hall, with a look at each module's process."""
    folder = stage.folder()
    report = folder / "modules.json"
    report.touch()
    python = _measuring_python(folder / "python", report)
    usage = stage.playbook(
        f"wattwise.kube.{playbook}",
        *("-i", str(room.state.inventory), "-e", f"wattwise_run_dir={run_dir}"),
        *("-e", f"ansible_python_interpreter={python}", *arguments),
    )
    changed = sum(int(count) for count in _CHANGED.findall(usage.output))
    return SiteRun(usage, changed, tuple(_modules(report)))


def _measuring_python(path: Path, report: Path) -> Path:
    """An interpreter that appends what each of its processes used to the report."""
    path.write_text(
        "#!/bin/sh\n"
        f'exec "{sys.executable}" -I -S "{launcher.__file__}" "{report}" "{sys.executable}" "$@"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _modules(report: Path) -> t.Iterator[ModuleRun]:
    for used in usages(report):
        for argument in used["command"]:
            if found := _MODULE.search(argument):
                figures = (used["seconds"], used["cpu_seconds"], used["peak_bytes"])
                yield ModuleRun(found.group(1), *figures)


def without_sensors(snapshot: Json) -> Json:
    """The snapshot as it is before any BMC was read: what the NodeConfigs remember is gone."""
    forgetful = copy.deepcopy(snapshot)
    for node_config in forgetful["node_configs"]:
        node_config.pop("status", None)
    return forgetful
