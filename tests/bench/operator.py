# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the continuous mode, with the real ansible-operator and the watcher."""

from __future__ import annotations

import functools
import random
import re
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from bench.kit import processes
from bench.kit.hall import FLEET, LARGEST_CLUSTER, ROW_OF_RACKS, Size, main_job
from bench.kit.plays import nothing
from bench.kit.rows import Bench, Different, Json, Metric, Row, at_most, metric
from bench.kit.stage import MIB, Stage
from lab import operator, process
from lab.api import Api
from lab.operator import unchanged, writes
from lab.operator.installation import NAMESPACE, RunningInstallation, install, start
from lab.process import wait_until
from lab.workload import NAMESPACE as PODS

NAME = "bench"
FLEETS = f"/apis/wattwise.github.io/v1alpha1/namespaces/{NAMESPACE}/powerfleets"
TEMPLATES = "/apis/wao.bitmedia.co.jp/v1beta1/namespaces/wao-system/nodeconfigtemplates"
_FLEET = writes.key_of("powerfleets", "wattwise.github.io", NAMESPACE, NAME)
LIBRARY = "ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.reconciliation"
# Longer than the interval after which a machine is read again.
STEADY_INTERVAL, INTERVAL, RARE_INTERVAL = "20s", "60s", "10m"
SLOWEST_SECONDS = 240.0
# Pods arrive at any moment of a run; a run of 1,000 nodes takes about this long.
SPREAD_SECONDS = 12.0
# The watcher waits less than this between two requests.
LAST_REQUEST_SECONDS = 6.0
# Memory is sampled, which costs time, in this many of the last steady runs.
OF_MEMORY = 2
_STEP = re.compile(r'^wattwise_power_fleet_step_seconds\{.*step="(\w+)".*\} (\S+)$', re.MULTILINE)
_WHOLE = re.compile(r"^wattwise_power_fleet_last_run_seconds\{.*\} (\S+)$", re.MULTILINE)
_PARTS = {
    "API": ("snapshot", "node_configs", "statuses", "bind"),
    "machines": ("read",),
    "models and placing": ("merge", "predict", "place"),
}


@dataclass(frozen=True)
class Continuous:
    """The operator at work on a hall."""

    api: Api
    running: RunningInstallation

    def set_interval(self, interval: str) -> None:
        """Change the interval, and return when the runs that this triggers are over."""
        ended = unchanged.runs_ended(self.running, NAME)
        changed = self.api.merge(f"{FLEETS}/{NAME}", {"spec": {"interval": interval}})
        generation = changed["metadata"]["generation"]
        wait_until(
            lambda: self.observed() >= generation, SLOWEST_SECONDS, "the new interval", interval=0.5
        )
        self.wait_for_run(ended)

    def observed(self) -> int:
        found = self.api.request("GET", f"{FLEETS}/{NAME}")
        return int(found.get("status", {}).get("observedGeneration", 0))

    def ask_for_run(self, name: str, word: object) -> Json:
        """Begin a run before the interval is over; `word` is another one each time.

        Returns the changed fleet.
        """
        body = {"metadata": {"annotations": {unchanged.ASKED: str(word)}}}
        return self.api.merge(f"{FLEETS}/{name}", body)

    def wait_for_run(self, ended: int, name: str = NAME) -> int:
        return unchanged.wait_for_run(self.running, ended, name, SLOWEST_SECONDS)


@dataclass(frozen=True)
class Steady:
    """One run with nothing to do, in seconds; ``parts`` are the module's steps."""

    whole: float
    module: float
    parts: dict[str, float]


def small_fleet(stage: Stage) -> Row:
    return _row(stage, ROW_OF_RACKS, seconds=5.0)


def whole_fleet(stage: Stage) -> Row:
    return _row(stage, FLEET, seconds=15.0)


def largest_cluster(stage: Stage) -> Row:
    """Steady runs at Kubernetes' own limit."""
    job = main_job(stage, LARGEST_CLUSTER)
    ansible, imports = _starts(stage)
    # A run that takes longer than the interval would tell so in an Event.
    with _at_work(stage, LARGEST_CLUSTER, RARE_INTERVAL) as continuous:
        steady, written = _steady_runs(stage, continuous, asked=True)
    return Row(
        title=f"The operator on {len(job.hall.machines):,} nodes with {job.pods:,} pods",
        work=(
            "Steady runs of one PowerFleet on the largest cluster that Kubernetes supports. Each "
            "reads all machines, which take 50 ms for an answer, and finds nothing to do."
        ),
        command="ansible-operator run --max-concurrent-reconciles=1",
        metrics=[*_times(steady, ansible, imports, 45.0)],
        equal=f"{written} objects that the operator may write: steady runs wrote only heartbeats.",
    )


def _starts(stage: Stage) -> tuple[list[float], list[float]]:
    """Seconds of a playbook that does nothing, and of the library's imports."""
    ansible = [stage.playbook(nothing()).seconds for _run in stage.runs(3)]
    imports = [
        stage.call("bench.kit.plays:import_alone", {}, [LIBRARY]).import_seconds
        for _run in stage.runs(3)
    ]
    return ansible, imports


def _row(stage: Stage, size: Size, seconds: float) -> Row:
    job = main_job(stage, size)
    nodes = len(job.hall.machines)
    ansible, imports = _starts(stage)
    with _at_work(stage, size) as continuous:
        steady, written = _steady_runs(stage, continuous)
        memory = _memory(stage, continuous)
        empty = _empty_fleet(stage, continuous)
        continuous.set_interval(INTERVAL)
        latencies = _latencies(stage, continuous)
        starts = _burst(stage, continuous)
    return Row(
        title=f"The operator on {nodes:,} nodes with {job.pods:,} pods",
        work=(
            "ansible-operator, watcher and metrics endpoint with the permissions of the `default` "
            "overlay, on one PowerFleet. A steady run reads all machines, each of which takes 50 ms for an "
            "answer, and finds nothing to do. Pods come one at a time, at any moment of a run."
        ),
        command="ansible-operator run --max-concurrent-reconciles=1",
        metrics=[
            *_times(steady, ansible, imports, seconds),
            *memory,
            metric("steady run of a fleet without nodes", "s", empty, at_most(4)),
            metric(
                "waiting pod to binding, median", "s", [statistics.median(latencies)], at_most(15)
            ),
            metric("waiting pod to binding, all", "s", latencies, at_most(30, "worst")),
            metric("runs after 200 templates at once", "", [starts], at_most(5)),
        ],
        equal=f"{written} objects that the operator may write: steady runs wrote only heartbeats.",
        notes=[
            "Whole runs are from ansible-operator's `controller_runtime_reconcile_time_seconds`; "
            "parts are from the run's metrics.",
            "*The rest* is ansible-operator and ansible-runner: a whole run without the module, "
            "its imports and a playbook that does nothing.",
        ],
    )


def _times(
    steady: list[Steady], ansible: list[float], imports: list[float], seconds: float
) -> Iterator[Metric]:
    known = statistics.median(ansible) + statistics.median(imports)
    yield metric("steady run", "s", [run.whole for run in steady], at_most(seconds))
    yield metric("of it Ansible's start", "s", ansible)
    yield metric("of it imports", "s", imports)
    for name in _PARTS:
        yield metric(f"of it {name}", "s", [run.parts[name] for run in steady])
    rest = [max(0.0, run.whole - run.module - known) for run in steady]
    yield metric("of it the rest", "s", rest)


@contextmanager
def _at_work(stage: Stage, size: Size, interval: str = STEADY_INTERVAL) -> Iterator[Continuous]:
    room = main_job(stage, size).hall
    stage.say("  installing and starting the operator")
    # Namespaces get their accounts from a controller.
    room.liven()
    installation = install(room.state, "default", _silent)
    room.quieten()
    running = start(installation, _silent)
    stage.resources.callback(running.stop)
    with Api(room.state.kubeconfig) as api:
        continuous = Continuous(api, running)
        _create_fleet(api, NAME, interval, str(room.state.ca_certificate), {})
        wait_until(lambda: continuous.observed() == 1, SLOWEST_SECONDS, "its first run")
        continuous.wait_for_run(0)
        yield continuous
        api.request("DELETE", f"{FLEETS}/{NAME}")
    running.stop()


def _silent(_text: str) -> None:
    """Print no progress of the lab."""


def _create_fleet(api: Api, name: str, interval: str, ca_path: str, selector: Json) -> None:
    spec = {
        "interval": interval,
        "nodeSelector": selector,
        "nodeConfigs": {"enabled": True},
        "observe": {"caPath": ca_path},
    }
    body = {
        "apiVersion": "wattwise.github.io/v1alpha1",
        "kind": "PowerFleet",
        "metadata": {"name": name},
        "spec": spec,
    }
    api.request("POST", FLEETS, body)


def _steady_runs(
    stage: Stage, continuous: Continuous, *, asked: bool = False
) -> tuple[list[Steady], int]:
    """Runs at the interval or asked for, and the number of objects that they could have written."""
    stage.say("  steady runs")
    found = []
    ended = unchanged.wait_until_idle(continuous.running, NAME)
    manifests = continuous.running.installation.manifests
    before = writes.stored(continuous.api, manifests)
    for number in stage.runs(5):
        spent = unchanged.reconcile_seconds(continuous.running)
        if asked:
            before[_FLEET] = continuous.ask_for_run(NAME, number)
        ended = continuous.wait_for_run(ended)
        whole = unchanged.reconcile_seconds(continuous.running) - spent
        found.append(_as_steady(whole, continuous.running.metrics()))
    after = writes.stored(continuous.api, manifests)
    # The lab's readings move as in a real data centre; only notable changes are written.
    others = [one for one in writes.writes(before, after, 0.0) if not one.is_reading]
    if others:
        raise Different(f"steady runs wrote {others[0]}")
    return found, len(after)


def _as_steady(whole: float, metrics: str) -> Steady:
    module = _WHOLE.search(metrics)
    if module is None:
        raise Different("the metrics lack the run")
    steps = {name: float(seconds) for name, seconds in _STEP.findall(metrics)}
    parts = {name: sum(steps.get(step, 0.0) for step in of) for name, of in _PARTS.items()}
    return Steady(whole, float(module[1]), parts)


def _memory(stage: Stage, continuous: Continuous) -> list[Metric]:
    """Memory of the largest process of a run, and of all processes of the pod together."""
    stage.say("  memory")
    state = continuous.running.state
    pids = [process.process_id(state, name) for name in (operator.NAME, *operator.BESIDE)]
    roots = [pid for pid in pids if pid is not None]
    not_runs = {continuous.running.operator.pid, *roots}
    ended = unchanged.wait_until_idle(continuous.running, NAME)
    with processes.watching(roots) as seen:
        for _run in stage.runs(OF_MEMORY):
            ended = continuous.wait_for_run(ended)
    largest = max((size for pid, size in seen.peaks.items() if pid not in not_runs), default=0)
    return [
        metric("memory of the largest process of a run", "MiB", [largest / MIB], at_most(250)),
        metric("memory of the pod's processes at once", "MiB", [seen.together / MIB], at_most(500)),
    ]


def _empty_fleet(stage: Stage, continuous: Continuous) -> list[float]:
    """Runs of a fleet that selects no node, while the other fleet is suspended."""
    name, found = "empty", []
    path = f"{FLEETS}/{NAME}"
    ended = unchanged.runs_ended(continuous.running, NAME)
    continuous.api.merge(path, {"spec": {"suspend": True, "interval": RARE_INTERVAL}})
    continuous.wait_for_run(ended)
    nobody = {"matchLabels": {"none": "such"}}
    _create_fleet(continuous.api, name, RARE_INTERVAL, "/none", nobody)
    ended = continuous.wait_for_run(unchanged.runs_ended(continuous.running, name), name)
    for number in stage.runs(3):
        spent = unchanged.reconcile_seconds(continuous.running)
        continuous.ask_for_run(name, number)
        ended = continuous.wait_for_run(ended, name)
        found.append(unchanged.reconcile_seconds(continuous.running) - spent)
    continuous.api.request("DELETE", f"{FLEETS}/{name}")
    continuous.api.merge(path, {"spec": {"suspend": False}})
    return found


def _latencies(stage: Stage, continuous: Continuous) -> list[float]:
    """Time from the creation of a pod to its binding."""
    stage.say("  pods, one at a time")
    chance, found = random.Random(1), []
    path = f"/api/v1/namespaces/{PODS}/pods"
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "example/none", "resources": resources}
    spec = {"schedulerName": "wattwise", "containers": [container]}
    for number in stage.runs(12):
        name = f"single-{number}"
        began = time.monotonic()
        continuous.api.request("POST", path, {"metadata": {"name": name}, "spec": spec})
        has_node = functools.partial(_has_node, continuous.api, f"{path}/{name}")
        wait_until(has_node, SLOWEST_SECONDS, f"the node of pod {name}", interval=0.1)
        found.append(time.monotonic() - began)
        # A random moment within a run or between two; there is no condition to wait for.
        time.sleep(chance.uniform(0.0, SPREAD_SECONDS))
    for number in stage.runs(12):
        body: Json = {"gracePeriodSeconds": 0}
        continuous.api.request("DELETE", f"{path}/single-{number}", body)
    return found


def _has_node(api: Api, path: str) -> bool:
    return bool(api.request("GET", path)["spec"].get("nodeName"))


def _burst(stage: Stage, continuous: Continuous) -> int:
    """Number of runs triggered by 200 templates that are created at once."""
    count = stage.size(200, 20)
    stage.say(f"  {count} templates at once")
    runs = unchanged.wait_until_idle(continuous.running, NAME)
    spec = {
        "nodeSelector": {"matchLabels": {"none": "such"}},
        "template": {
            "metricsCollector": {
                "inletTemp": {"type": "Fake", "endpoint": ""},
                "deltaP": {"type": "Fake", "endpoint": ""},
            },
            "predictor": {},
        },
    }
    names = [f"burst-{number}" for number in range(count)]

    def create(name: str) -> None:
        body = {
            "apiVersion": "wao.bitmedia.co.jp/v1beta1",
            "kind": "NodeConfigTemplate",
            "metadata": {"name": name},
            "spec": spec,
        }
        continuous.api.request("POST", TEMPLATES, body)

    def delete(name: str) -> None:
        continuous.api.request("DELETE", f"{TEMPLATES}/{name}")

    def are_followed() -> bool:
        items = continuous.api.request("GET", TEMPLATES)["items"]
        done = [item for item in items if item.get("status", {}).get("conditions")]
        return {item["metadata"]["name"] for item in done} >= set(names)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(create, names))
        wait_until(are_followed, SLOWEST_SECONDS, "the templates to be followed", interval=0.5)
        # A request for the last of them may still follow.
        time.sleep(LAST_REQUEST_SECONDS)
        starts = unchanged.wait_until_idle(continuous.running, NAME) - runs
        list(threads.map(delete, names))
    return starts


BENCHES = [
    Bench("operator-50", small_fleet),
    Bench("operator", whole_fleet),
    Bench("operator-5000", largest_cluster),
]
