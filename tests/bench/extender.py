# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the extender of kube-scheduler: its latency and its savings."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import re
import statistics
import time
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base.units import cpu_millicores
from ansible_collections.wattwise.kube.plugins.module_utils.extender import feed, publication
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.extender_record import (
    publish,
    record_of,
)
from bench.kit import arrivals
from bench.kit.rows import (
    Bench,
    Json,
    Metric,
    Peer,
    Row,
    Target,
    at_least,
    at_most,
    exactly,
    metric,
)
from bench.kit.stage import MIB, Stage
from lab import lifecycle
from lab.machines import build_machines
from lab.physics import curve
from lab.process import wait_until
from lab.state import LabSettings, LabState
from lab.workload import SHAPES
from support.extender_program import ExtenderProgram, kube_scheduler, plain_kubeconfig
from support.placement_fleets import Pattern, Size, placement_task
from support.watch_api import WatchApi

PODS_A_SECOND = 50
NAMESPACE = "wattwise-system"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PEERS = {
    "default scheduler": "spread",
    "WAO's rule": "minimize_power",
    "PEAKS' rule": "peaks",
}
BATCH = "optimal"
MOVES_A_RUN, RUNS = 100, 2
PROFILE = "watts"


# Latency


@dataclass(frozen=True)
class Load:
    """Milliseconds of each call, and of both calls of each pod."""

    filter: list[float]
    prioritize: list[float]
    both: list[float]
    late: float


def answer_kube_scheduler(stage: Stage) -> Row:
    """Act as kube-scheduler does: two calls a pod on one connection, and a binding."""
    nodes, there = stage.size(1000, 20), stage.size(10_000, 50)
    seconds = stage.size(20, 1)
    task = placement_task(1, Size(nodes, there, 0.3))
    task = arrivals.shuffled(task, 1)
    with contextlib.ExitStack() as resources:
        api = resources.enter_context(WatchApi())
        _serve(api, task)
        kubeconfig = plain_kubeconfig(api.url)
        program = resources.enter_context(ExtenderProgram(stage.folder(), kubeconfig))
        program.wait_ready()
        _wait_priced(program, nodes)
        loads = [_load(api, program, task, run, seconds) for run in stage.runs(3)]
        peak = _peak_bytes(program.process.pid) / MIB
    return Row(
        title=f"Answering kube-scheduler for {nodes:,} nodes at {PODS_A_SECOND} pods a second",
        work=(
            f"The program `scheduler-extender` over TLS: filter and prioritize for each pod with "
            f"all {nodes:,} names, then a watch event with its binding; {there:,} existing pods, "
            f"{seconds} s a run."
        ),
        command="operator/entrypoints/scheduler-extender",
        metrics=[
            _percentile(
                "both calls, 99th percentile",
                [one.both for one in loads],
                at_most(20.0, "worst"),
            ),
            metric("both calls, median", "ms", [statistics.median(one.both) for one in loads]),
            _percentile("filter, 99th percentile", [one.filter for one in loads]),
            _percentile("prioritize, 99th percentile", [one.prioritize for one in loads]),
            metric("memory, highest", "MiB", [peak], at_most(300)),
            metric("latest pod behind its time", "ms", [one.late for one in loads]),
        ],
        equal="each pod is bound to a node with the most points, and the scores are integers.",
    )


def _peak_bytes(pid: int) -> int:
    """The peak, read once, because repeated looks at a process's memory delay it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def _percentile(name: str, runs: Sequence[Sequence[float]], target: Target | None = None) -> Metric:
    """The 99th percentile of each run."""
    return metric(name, "ms", [statistics.quantiles(one, n=100)[98] for one in runs], target)


def _serve(api: WatchApi, task: Json) -> None:
    """Serve a cluster that has the task's pods on random nodes."""
    api.serve(feed.NODES, *map(arrivals.kubernetes_node, task["nodes"]))
    names = [node["name"] for node in task["nodes"]]
    chance = random.Random(1)
    pods = [arrivals.kubernetes_pod(one, chance.choice(names)) for one in task["pods"]]
    api.serve(feed.PODS, *pods)
    record = record_of(NAMESPACE)
    body = publication.packed(arrivals.published(task))
    api.serve(CONFIG_MAPS, record.manifest(body))


def _wait_priced(program: ExtenderProgram, nodes: int) -> None:
    text = f'wattwise_extender_objects{{kind="priced_nodes"}} {nodes}\n'
    wait_until(lambda: text in program.get("/metrics")[1], 60.0, "the curves")
    # An extender at rest, as in a cluster that existed before.
    wait_until(lambda: program.get("/readyz")[0] == http.client.OK, 60.0, "the extender")


def _load(api: WatchApi, program: ExtenderProgram, task: Json, run: int, seconds: int) -> Load:
    names = [node["name"] for node in task["nodes"]]
    load = Load([], [], [], 0.0)
    late = 0.0
    with contextlib.closing(program.connection()) as connection:
        begin = time.monotonic()
        for number in range(seconds * PODS_A_SECOND):
            due = begin + number / PODS_A_SECOND
            # Pods arrive on a schedule, whether or not the previous one is done.
            time.sleep(max(0.0, due - time.monotonic()))
            late = max(late, time.monotonic() - due)
            short = {**task["pods"][number % len(task["pods"])], "name": f"new-{run}-{number}"}
            pod = arrivals.kubernetes_pod(short)
            body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()
            first, filtered = _timed(connection, "/filter", body)
            second, scores = _timed(connection, "/prioritize", body)
            load.filter.append(first)
            load.prioritize.append(second)
            load.both.append(first + second)
            _bind(api, short, filtered, scores)
    return Load(load.filter, load.prioritize, load.both, 1000 * late)


def _timed(connection: http.client.HTTPSConnection, path: str, body: bytes) -> tuple[float, t.Any]:
    began = time.monotonic()
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    passed = 1000 * (time.monotonic() - began)
    assert answer.status == http.client.OK, content
    return passed, json.loads(content)


def _bind(api: WatchApi, short: Json, filtered: Json, scores: list[Json]) -> None:
    assert all(type(one["Score"]) is int and 0 <= one["Score"] <= 10 for one in scores)
    best = max(scores, key=lambda one: int(one["Score"]))
    assert best["Score"] == 10 and best["Host"] in filtered["NodeNames"]
    pod = arrivals.kubernetes_pod(short, best["Host"])
    pod["metadata"]["resourceVersion"] = "7"
    event = {"type": "ADDED", "object": pod}
    api.send_bytes(feed.PODS, json.dumps(event).encode() + b"\n")


# Savings


def one_by_one(stage: Stage) -> Row:
    nodes, pods = stage.size(500, 20), stage.size(5_000, 100)
    patterns: tuple[Pattern, ...] = ("plain", "power_off")
    fleets = {
        pattern: _outcomes(stage, Size(nodes, pods, 0.5, pattern=pattern)) for pattern in patterns
    }
    metrics = [
        figure
        for pattern, found in fleets.items()
        for figure in _figures(found, ", nodes may sleep" if pattern == "power_off" else "")
    ]
    return Row(
        title=f"Power draw of {pods:,} pods that arrive one by one on {nodes:,} nodes",
        work=(
            "Added power of the same pods in the same order of arrival, with half of the CPU "
            "requested. The extender answers a played kube-scheduler: resources, the extender "
            "at the shipped weight, kube-scheduler's scores for resources among equals."
        ),
        command="extender.answering.Extender.prioritize(body) for each pod",
        metrics=metrics,
        peers=[
            Peer(name, f"power.placement.place(nodes, pods, strategy={strategy})")
            for name, strategy in {**PEERS, "batch": BATCH}.items()
        ],
        equal="one calculation prices the nodes of all placers; each placed every pod.",
        notes=[
            f"rebalancing: at most {RUNS} runs after the last pod, each with {MOVES_A_RUN} moves "
            "at most that save 1 W or more."
        ],
        details=[{"pattern": pattern, "added": found} for pattern, found in fleets.items()],
    )


def _outcomes(stage: Stage, size: Size) -> Json:
    """Added power by placer, and moves of the rebalancing."""
    stage.say(f"  {size.title}")
    task = arrivals.shuffled(placement_task(1, size), 1)
    before = arrivals.watts(task, {})
    found: Json = {}
    for name, strategy in {**PEERS, "batch": BATCH}.items():
        found[name] = stage.call(
            "bench.kit.arrivals:by_strategy", {"task": task, "strategy": strategy}
        )
    found["extender"] = stage.call("bench.kit.arrivals:by_extender", {"task": task, "seed": 1})
    given = {
        "task": task,
        "placements": found["extender"].result["placements"],
        "runs": RUNS,
        "moves": MOVES_A_RUN,
    }
    found["extender and rebalancing"] = stage.call("bench.kit.arrivals:rebalanced", given)
    for name, call in found.items():
        assert call.result["placed"] == size.pods, f"{name} placed {call.result['placed']}"
    moves = found["extender and rebalancing"].result["moves"]
    return {
        **{name: round(call.result["watts"] - before, 1) for name, call in found.items()},
        "moves": moves,
    }


def _figures(found: Json, of: str) -> list[Metric]:
    order = [*PEERS, "extender", "extender and rebalancing", "batch"]
    figures = [metric(f"{name}{of}", "W", [found[name]]) for name in order]
    saved = found["default scheduler"] - found["batch"]
    for name in ("extender", "extender and rebalancing"):
        share = 100 * (found["default scheduler"] - found[name]) / saved
        target = at_least(90.0) if name != "extender" or not of else None
        figures.append(metric(f"{name}, of the batch's saving{of}", "%", [share], target))
    figures.append(metric(f"moves of the rebalancing{of}", "", [found["moves"]]))
    return figures


# The real kube-scheduler


def real_scheduler(stage: Stage) -> Row:
    nodes, pods = stage.size(50, 8), stage.size(400, 24)
    state, folder = LabState(stage.folder()), stage.folder()
    asked = LabSettings(nodes, max(1, nodes // 25), seed=1, parts=(lifecycle.CONTROL_PLANE,))
    stage.resources.callback(lifecycle.down, state, _silent)
    lifecycle.up(state, asked, _silent)
    task = _lab_task(state.read_settings(), pods)
    kube = Kube.connect({"kubeconfig": str(state.kubeconfig)})
    for name in ("bench", NAMESPACE):
        kube.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    publish(kube, record_of(NAMESPACE), arrivals.published(task))
    by_default = _scheduled(kube, task, "default-scheduler")
    _delete(kube)
    kubeconfig = state.kubeconfig.read_text()
    with ExtenderProgram(folder, kubeconfig) as program:
        program.wait_ready()
        _wait_priced(program, nodes)
        with kube_scheduler(state, folder, program, PROFILE):
            by_extender = _scheduled(kube, task, PROFILE)
        said = program.get("/metrics")[1]
    assert said.count('outcome="refused"} 0') == 2, said
    return _real_row(stage, task, by_default, by_extender)


class _Scheduled(t.NamedTuple):
    placements: dict[str, str]
    seconds: float


def _real_row(stage: Stage, task: Json, by_default: _Scheduled, by_extender: _Scheduled) -> Row:
    before = arrivals.watts(task, {})
    played = stage.call("bench.kit.arrivals:by_extender", {"task": task, "seed": 1}).result
    batch = stage.call("bench.kit.arrivals:by_strategy", {"task": task, "strategy": BATCH}).result
    watts = {
        "default scheduler": arrivals.watts(task, by_default.placements) - before,
        "extender": arrivals.watts(task, by_extender.placements) - before,
        "extender, played": played["watts"] - before,
        "batch": batch["watts"] - before,
    }
    nodes, pods = len(task["nodes"]), len(task["pods"])
    saved = watts["default scheduler"] - watts["batch"]
    share = 100 * (watts["default scheduler"] - watts["extender"]) / saved
    return Row(
        title=f"{pods} pods by the real kube-scheduler with the extender on {nodes} nodes",
        work=(
            "The lab's kube-scheduler with the shipped configuration, one pod after the other, and "
            "the lab's default scheduler with the same pods."
        ),
        command="kube-scheduler --config=…",
        metrics=[
            *(metric(f"{name}, added", "W", [value]) for name, value in watts.items()),
            metric("extender, of the batch's saving", "%", [share], at_least(90.0)),
            metric("pods left", "", [pods - len(by_extender.placements)], exactly(0)),
            metric("default scheduler, a pod", "ms", [1000 * by_default.seconds / pods]),
            metric("extender, a pod", "ms", [1000 * by_extender.seconds / pods]),
        ],
        equal="one calculation prices the nodes of all placers; each placed every pod.",
    )


def _lab_task(settings: LabSettings, pods: int) -> Json:
    """The lab's machines with their published curves, and pods that can run on all of them."""
    shapes = [
        shape for shape in SHAPES if not shape.architecture and cpu_millicores(shape.cpu) <= 4000
    ]
    chance = random.Random(1)
    weights = [shape.share for shape in shapes]
    chosen = chance.choices(shapes, weights, k=pods)
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    return arrivals.shuffled(
        {
            "nodes": [
                {
                    "name": machine.name,
                    "allocatable": {
                        "cpu": str(machine.cores),
                        "memory": f"{machine.memory_gib}Gi",
                        "pods": "110",
                    },
                    "curve": {
                        "cpu": [machine.cores * step / 10 for step in range(11)],
                        "watts": list(curve(machine.server_type)),
                    },
                }
                for machine in machines
            ],
            "pods": [
                {"name": shape.name, "requests": {"cpu": shape.cpu, "memory": shape.memory}}
                for shape in chosen
            ],
        },
        1,
    )


def _scheduled(kube: Kube, task: Json, scheduler: str) -> _Scheduled:
    """Node of each pod; each pod is created after the previous one has its node."""
    path, began = "/api/v1/namespaces/bench/pods", time.monotonic()
    found: dict[str, str] = {}
    for short in task["pods"]:
        pod = arrivals.kubernetes_pod(short)
        spec = {**pod["spec"], "schedulerName": scheduler}
        spec["containers"] = [{**one, "image": "none"} for one in spec["containers"]]
        kube.request("POST", path, {"metadata": {"name": short["name"]}, "spec": spec})
        name = short["name"]

        def has_node(name: str = name) -> bool:
            found[name] = kube.get(f"{path}/{name}")["spec"].get("nodeName") or ""
            return bool(found[name])

        wait_until(has_node, 60.0, f"a node for {name}", interval=0.005)
    return _Scheduled(found, time.monotonic() - began)


def _delete(kube: Kube) -> None:
    path = "/api/v1/namespaces/bench/pods"
    kube.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    wait_until(lambda: not kube.list(path), 120.0, "the end of the pods")


def _silent(_text: str) -> None:
    """Print no progress of the lab."""


BENCHES = [
    Bench("extender", answer_kube_scheduler),
    Bench("extender-one-by-one", one_by_one),
    Bench("extender-real-scheduler", real_scheduler),
]
