# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the main job as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.kit.hall import MainJob, ModuleRun, main_job
from bench.kit.rows import Bench, Different, Metric, Row, at_most, metric
from bench.kit.stage import MIB, Stage


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
            metric("tasks that the last run changed", "", [job.again.changed], at_most(0)),
            *_seconds(job.placed.modules, "pods waiting"),
        ],
        equal="the last run changes no task, so every object is as the run before wanted it.",
        notes=["One run each: every run finds another cluster."],
    )


def _seconds(modules: Sequence[ModuleRun], run: str) -> Iterator[Metric]:
    """The tasks of ours that take a second or more, in order."""
    for item in modules:
        if item.seconds >= 1.0:
            name = f"{run}: `{item.module}`"
            yield metric(name, "s", [item.seconds])
            yield metric(f"{name}, processor time", "s", [item.cpu_seconds])


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
            if item.module not in ("file", "copy"):
                peaks.setdefault(item.module, []).append(item.peak_bytes)
    return peaks


BENCHES = [Bench("main-job", whole_job), Bench("memory", memory)]
