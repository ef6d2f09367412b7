# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the main job as a whole."""

from __future__ import annotations

import re
import time

from bench.kit import scale
from bench.kit.hall import FLEET, LARGEST_CLUSTER, ROW_OF_RACKS, Hall, MainJob, Size, main_job, play
from bench.kit.rows import Bench, Different, Peer, Row, at_least, at_most, metric, ratio
from bench.kit.stage import MIB, Stage, Usage
from lab.api import Api

IDLE_SECONDS = 5.0
_WRITING = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
_COUNTED = re.compile(
    r"(?P<name>apiserver_request_total|apiserver_response_sizes_sum)"
    r'\{.*\bverb="(?P<verb>\w+)".*\} (?P<value>\S+)$'
)


def small_fleet(stage: Stage) -> Row:
    return _whole_job(stage, ROW_OF_RACKS, place_seconds=5.0, site_seconds=12.0)


def whole_fleet(stage: Stage) -> Row:
    return _whole_job(stage, FLEET, place_seconds=14.0, site_seconds=30.0, binding_seconds=35.0)


def _whole_job(
    stage: Stage,
    size: Size,
    place_seconds: float,
    site_seconds: float,
    binding_seconds: float | None = None,
) -> Row:
    """With `binding_seconds`, bindings have that target and kube-scheduler's time as another."""
    job = main_job(stage, size)
    site = [play(stage, job.hall, "site", job.run_dir) for _run in stage.runs(2)]
    place = [play(stage, job.hall, "place", job.run_dir) for _run in stage.runs(3)]
    changed = [run.changed for run in (*site, *place)]
    if any(changed):
        raise Different(f"runs with nothing to do changed {sum(changed)} tasks")
    nodes = len(job.hall.machines)
    place_cpu = [run.usage.cpu_seconds for run in place]
    every = (job.installed, job.placed, *site, *place)
    peer = "kube-scheduler binds the same pods"
    within = None if binding_seconds is None else at_most(binding_seconds)
    return Row(
        title=f"The main job on {nodes:,} nodes with {job.pods:,} pods",
        work=(
            "The `site` playbook on an empty cluster, then with pods that wait, then `site` and "
            "`place` with nothing left to do. BMCs take 50 ms for an answer. The API server, the "
            "machines and the power models run on the same processors."
        ),
        command="ansible-playbook wattwise.kube.site",
        peers=[Peer("kube-scheduler", "first to last binding of the same pods, in the same lab")],
        metrics=[
            metric("`site`, empty cluster", "s", [job.installed.usage.seconds]),
            metric("`site`, pods waiting", "s", [job.placed.usage.seconds]),
            metric("binding the pods", "s", [job.binding_seconds], within),
            metric(peer, "s", [job.scheduler_seconds]),
            ratio(
                "kube-scheduler's time to ours",
                [job.scheduler_seconds],
                [job.binding_seconds],
                within and at_least(1),
            ),
            metric(
                "`site`, nothing to do",
                "s",
                [run.usage.seconds for run in site],
                at_most(site_seconds),
            ),
            metric(
                "`place`, nothing to do",
                "s",
                [run.usage.seconds for run in place],
                at_most(place_seconds),
            ),
            metric("`place`, nothing to do: processor time", "s", place_cpu, at_most(13)),
            metric(
                "one `place` a minute, of one core",
                "%",
                [100 * seconds / 60 for seconds in place_cpu],
                at_most(30),
            ),
            metric(
                "memory of the largest process",
                "MiB",
                [run.usage.peak_bytes / MIB for run in every],
                at_most(250, "worst"),
            ),
        ],
        equal="runs with nothing to do change no task, so every object has its desired state.",
        notes=[
            "The first two figures are from one run each, because their clusters exist once.",
            "The API server stamps bindings to the second.",
        ],
    )


def largest_cluster(stage: Stage) -> Row:
    """Kubernetes' own limit beside a fifth of it, with nothing to do."""
    _news, small = _steady_runs(stage, main_job(stage, FLEET))
    job = main_job(stage, LARGEST_CLUSTER)
    news, place = _steady_runs(stage, job)
    nodes = len(job.hall.machines)
    seconds = [run.seconds for run in place]
    memory = [run.peak_bytes / MIB for run in (news, *place)]
    return Row(
        title=f"The main job on {nodes:,} nodes with {job.pods:,} pods",
        work=(
            "The `place` playbook with nothing to place, on the largest cluster that Kubernetes "
            "supports and on one of a fifth of its size. BMCs take 50 ms for an answer."
        ),
        command="ansible-playbook wattwise.kube.place",
        metrics=[
            metric("`site`, pods waiting", "s", [job.placed.usage.seconds]),
            metric("binding the pods", "s", [job.binding_seconds]),
            metric("`place`, each power draw is news", "s", [news.seconds]),
            metric("`place`, nothing to do", "s", seconds, at_most(40)),
            metric(
                "`place`, nothing to do: processor time",
                "s",
                [run.cpu_seconds for run in place],
            ),
            metric("memory of the largest process", "MiB", memory, at_most(700, "worst")),
            ratio(
                "time for five times the nodes and pods",
                seconds,
                [run.seconds for run in small],
                at_most(5),
            ),
        ],
        equal="runs with nothing to do change no task, so every object has its desired state.",
        notes=[
            "A run to which each power draw is news writes the status of each NodeConfig, which "
            "costs the API server more than everything else in the run."
        ],
    )


def _steady_runs(stage: Stage, job: MainJob) -> tuple[Usage, list[Usage]]:
    """The first run after the pods began, to which each power draw is news, and those after it."""
    news, *steady = [
        play(stage, job.hall, "place", job.run_dir) for _run in range(1 + len(stage.runs(3)))
    ]
    if news.changed or any(run.changed for run in steady):
        raise Different("runs with nothing to do changed tasks")
    return news.usage, [run.usage for run in steady]


def costs(stage: Stage) -> Row:
    job = main_job(stage)
    nodes = len(job.hall.machines)
    runs = [_steady(stage, job, minute) for minute in stage.runs(2)]
    job.hall.admin("POST", "/clock", {})
    return Row(
        title=f"Cost of a steady run at {nodes:,} nodes and {job.pods:,} pods",
        work=(
            "The `place` playbook with nothing to place, a minute after the previous run: the readings "
            "have moved a little. [Scale](../operate/scale.md) extrapolates from these figures."
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
    """One run, after the simulated clock advances by a minute."""
    job.hall.admin("POST", "/clock", {"offset_seconds": 60.0 * (minute + 1)})
    job.hall.admin("DELETE", "/requests")
    idle = served(job.hall)
    # The API server's own requests in a known time; there is no condition to wait for.
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
    """Totals of the API server since its start."""
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


BENCHES = [
    Bench("main-job-50", small_fleet),
    Bench("main-job", whole_fleet),
    Bench("main-job-5000", largest_cluster),
    Bench("costs", costs),
]
