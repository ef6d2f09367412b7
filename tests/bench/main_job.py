# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the main job as a whole."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from bench.kit import scale
from bench.kit.hall import Hall, MainJob, SiteRun, main_job, play
from bench.kit.rows import Bench, Different, Metric, Row, at_most, exactly, metric
from bench.kit.stage import MIB, Stage
from lab.api import Api

IDLE_SECONDS = 5.0
OURS = {
    path.stem for path in (Path(__file__).resolve().parents[2] / "plugins/modules").glob("*.py")
}
_WRITING = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
_COUNTED = re.compile(
    r"(?P<name>apiserver_request_total|apiserver_response_sizes_sum)"
    r'\{.*\bverb="(?P<verb>\w+)".*\} (?P<value>\S+)$'
)


def whole_job(stage: Stage) -> Row:
    job = main_job(stage)
    if job.again.changed:
        raise Different(f"the second run changed {job.again.changed} tasks")
    nodes = len(job.hall.machines)
    return Row(
        title=f"The main job on {nodes:,} nodes with {job.pods:,} waiting pods",
        work=(
            "Playbook `site` on an empty cluster, then with pods that wait, then with nothing left "
            "to do. BMCs take 50 ms for an answer. The API server, the machines and the power "
            "models run on the same processors."
        ),
        command="ansible-playbook wattwise.kube.site",
        metrics=[
            metric("empty cluster, whole run", "s", [job.installed.usage.seconds]),
            metric("pods waiting, whole run", "s", [job.placed.usage.seconds]),
            metric("nothing to do, whole run", "s", [job.again.usage.seconds]),
            metric("tasks that the last run changed", "", [job.again.changed], exactly(0)),
            *_seconds(job.placed, "pods waiting"),
            *_seconds(job.again, "nothing to do"),
        ],
        equal="the last run changes no task, so every object is as the run before wanted it.",
        notes=["One run each: every run finds another cluster."],
    )


def _seconds(run: SiteRun, name: str) -> Iterator[Metric]:
    """Where the time of a run goes: our modules, those of a second or more, and all the rest."""
    spent: dict[str, float] = {}
    for item in run.modules:
        spent[item.module] = spent.get(item.module, 0.0) + item.seconds
    for module, seconds in sorted(spent.items(), key=lambda pair: -pair[1]):
        if module in OURS and seconds >= 1.0:
            yield metric(f"{name}: `{module}`", "s", [seconds])
    yield metric(f"{name}: Ansible itself", "s", [run.usage.seconds - sum(spent.values())])
    yield metric(f"{name}: processor time of all", "s", [run.usage.cpu_seconds])


def memory(stage: Stage) -> Row:
    job = main_job(stage)
    nodes = len(job.hall.machines)
    return Row(
        title=f"Memory of the modules at {nodes:,} nodes and {job.pods:,} pods",
        work="The highest resident memory of each module's process over the three runs of `site`.",
        command="ansible-playbook wattwise.kube.site",
        metrics=[
            metric(f"`{name}`", "MiB", [value / MIB for value in values], at_most(300, "worst"))
            for name, values in sorted(_peaks(job).items())
        ],
        notes=[
            "As the kernel counts it for the process (`ru_maxrss`), libraries and the interpreter "
            "included."
        ],
    )


def _peaks(job: MainJob) -> dict[str, list[int]]:
    peaks: dict[str, list[int]] = {}
    for run in (job.installed, job.placed, job.again):
        for item in run.modules:
            if item.module in OURS:
                peaks.setdefault(item.module, []).append(item.peak_bytes)
    return peaks


def costs(stage: Stage) -> Row:
    job = main_job(stage)
    nodes = len(job.hall.machines)
    runs = [_steady(stage, job, minute) for minute in stage.runs(2)]
    job.hall.admin("POST", "/clock", {})
    return Row(
        title=f"What a steady run costs at {nodes:,} nodes and {job.pods:,} pods",
        work=(
            "Playbook `place` with nothing to place, a minute after the run before: the readings "
            "have moved a little. [Scale](scale.md) reckons with these figures."
        ),
        command="ansible-playbook wattwise.kube.place",
        metrics=[
            metric(scale.NODES, "", [nodes]),
            metric(scale.PODS, "", [job.pods]),
            *(metric(*key, [run[key[0]] for run in runs]) for key in scale.UNIT_COSTS),
        ],
        notes=[
            "Requests and bytes as the API server counts them, less what it serves by itself in "
            "the same time."
        ],
    )


def _steady(stage: Stage, job: MainJob, minute: int) -> dict[str, float]:
    """One run; the simulated clock goes on by a minute before it."""
    job.hall.admin("POST", "/clock", {"offset_seconds": 60.0 * (minute + 1)})
    job.hall.admin("DELETE", "/requests")
    idle = served(job.hall)
    # What the API server does for itself in a known time; there is no condition to wait for.
    time.sleep(IDLE_SECONDS)
    before = served(job.hall)
    run = play(stage, job.hall, "place", job.run_dir)
    after = served(job.hall)
    lasted = run.usage.seconds / IDLE_SECONDS
    api = {key: after[key] - before[key] - lasted * (before[key] - idle[key]) for key in after}
    return {
        scale.SECONDS: run.usage.seconds,
        scale.CPU: run.usage.cpu_seconds,
        scale.MEMORY: run.usage.peak_bytes / MIB,
        scale.READS: max(0.0, api["reads"]),
        scale.WRITES: max(0.0, api["writes"]),
        scale.BYTES: max(0.0, api["bytes"]) / MIB,
        scale.BMC_REQUESTS: job.hall.admin("GET", "/requests")["total"],
        scale.SNAPSHOT: job.document("snapshot").stat().st_size / MIB,
    }


def served(room: Hall) -> dict[str, float]:
    """What the API server has served since it started."""
    with Api(room.state.kubeconfig) as api:
        text = api.text("/metrics")
    counts = {"reads": 0.0, "writes": 0.0, "bytes": 0.0}
    for line in text.splitlines():
        if found := _COUNTED.match(line):
            verb = found["verb"]
            kind = "reads" if verb in ("GET", "LIST") else "writes" if verb in _WRITING else ""
            if found["name"] == "apiserver_response_sizes_sum":
                counts["bytes"] += float(found["value"])
            elif kind:
                counts[kind] += float(found["value"])
    return counts


BENCHES = [Bench("main-job", whole_job), Bench("memory", memory), Bench("costs", costs)]
