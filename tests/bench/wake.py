# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The row about a wake under the operator: from a waiting pod to the request at the BMC."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.kit.hall import FLEET, Hall, Size, installed
from bench.kit.rows import Bench, Different, Json, Row, at_most, metric
from bench.kit.stage import Stage
from lab.api import Api
from lab.operator import unchanged
from lab.operator.installation import NAMESPACE, RunningInstallation, install, start
from lab.process import wait_until
from lab.workload import NAMESPACE as PODS
from lab.workload import make_namespace

NAME = "bench"
FLEETS = f"/apis/wattwise.github.io/v1alpha1/namespaces/{NAMESPACE}/powerfleets"
LABEL = "bench.example.org/sleeps"
SERVER_TYPE = "epyc-7702p-64c"
SLEEPERS, WAKES = 30, 12
SLOWEST_SECONDS = 300.0
POLL_SECONDS = 0.1
# Pods come at any moment of a run.
SPREAD_SECONDS = 12.0
# Without a reserve, each pod needs a wake.
SLEEP: Json = {
    "mode": "on",
    "nodeSelector": f"{LABEL}=yes",
    "maxShare": 1,
    "minAwakeSeconds": 0,
    "wearJoules": 0,
    "reserveShare": 0,
    "reserveQuantile": 0,
    "largestQuantile": 0,
    "maxCyclesADay": 1000,
}


@dataclass(frozen=True)
class Sleepers:
    """Machines of one type, each of which one pod of the bench fills."""

    api: Api
    hall: Hall
    running: RunningInstallation
    names: tuple[str, ...]
    cores: int

    def are_asleep(self) -> bool:
        power = self.hall.admin("GET", "/power")
        return not any(power[name]["is_on"] for name in self.names)

    def starts(self) -> int:
        """The number of requests to start that the BMCs accepted."""
        power = self.hall.admin("GET", "/power")
        return sum(power[name]["resets"].count("On") for name in self.names)

    def wake_seconds(self, number: int) -> float:
        """Time from the creation of a pod to the request that wakes a machine for it."""
        before, path = self.starts(), f"/api/v1/namespaces/{PODS}/pods"
        resources = {"requests": {"cpu": str(self.cores - 1)}}
        spec = {
            "schedulerName": "wattwise",
            "nodeSelector": {LABEL: "yes"},
            "containers": [{"name": "main", "image": "example/none", "resources": resources}],
        }
        name = f"wake-{number}"
        began = time.monotonic()
        self.api.request("POST", path, {"metadata": {"name": name}, "spec": spec})
        wait_until(lambda: self.starts() > before, SLOWEST_SECONDS, "a wake", interval=POLL_SECONDS)
        seconds = time.monotonic() - began
        wait_until(
            lambda: bool(self.api.request("GET", f"{path}/{name}")["spec"].get("nodeName")),
            SLOWEST_SECONDS,
            f"the node of {name}",
            interval=0.5,
        )
        if self.starts() != before + 1:
            raise Different(f"{self.starts() - before} machines were woken for one pod")
        return seconds


def whole_fleet(stage: Stage) -> Row:
    with _at_work(stage, FLEET) as sleepers:
        nodes, chance, seconds = len(sleepers.hall.machines), random.Random(1), []
        stage.say("  wakes, one at a time")
        for number in stage.runs(WAKES):
            seconds.append(sleepers.wake_seconds(number))
            stage.say(f"    {seconds[-1]:.1f} s")
            # A random moment within a run or between two; there is no condition to wait for.
            time.sleep(chance.uniform(0.0, SPREAD_SECONDS))
        ended = unchanged.wait_until_idle(sleepers.running, NAME)
        spent = unchanged.reconcile_seconds(sleepers.running)
        unchanged.wait_for_run(sleepers.running, ended, NAME, SLOWEST_SECONDS)
        run = unchanged.reconcile_seconds(sleepers.running) - spent
    return Row(
        title=f"A wake on {nodes:,} nodes",
        work=(
            "ansible-operator and watcher with the `default` overlay and the permissions of `sleep`, on one "
            f"PowerFleet, of which {len(sleepers.names)} machines sleep. Pods come one at a time, at any "
            "moment of a run, and no machine that is awake has room for them."
        ),
        command="ansible-operator run --max-concurrent-reconciles=1",
        metrics=[
            metric(
                "waiting pod to request at the BMC, median",
                "s",
                [statistics.median(seconds)],
                at_most(15),
            ),
            metric("waiting pod to request at the BMC, all", "s", seconds),
            metric("run of the unchanged fleet", "s", [run]),
        ],
        equal="Each pod woke one machine, and was bound to it.",
    )


@contextmanager
def _at_work(stage: Stage, size: Size) -> Iterator[Sleepers]:
    room = installed(stage, size).hall
    stage.say("  installing and starting the operator")
    room.liven()
    installation = install(room.state, "default", _silent, permissions=("eviction", "sleep"))
    running = start(installation, _silent)
    stage.resources.callback(running.stop)
    with Api(room.state.kubeconfig) as api:
        make_namespace(api, PODS)
        sleepers = _chosen(api, room, running)
        spec = {
            "nodeConfigs": {"enabled": True},
            "observe": {"caPath": str(room.state.ca_certificate)},
            "sleep": SLEEP,
        }
        body = {
            "apiVersion": "wattwise.github.io/v1alpha1",
            "kind": "PowerFleet",
            "metadata": {"name": NAME},
            "spec": spec,
        }
        api.request("POST", FLEETS, body)
        stage.say("  machines fall asleep")
        wait_until(sleepers.are_asleep, SLOWEST_SECONDS, "the machines to sleep", interval=0.5)
        unchanged.wait_until_idle(running, NAME, SLOWEST_SECONDS)
        yield sleepers
        api.request("DELETE", f"{FLEETS}/{NAME}")
    running.stop()


def _chosen(api: Api, room: Hall, running: RunningInstallation) -> Sleepers:
    alike = [one for one in room.machines if one.server_type == SERVER_TYPE]
    signed = [one for one in alike if one.certificate == "lab-ca"][:SLEEPERS]
    for machine in signed:
        body: Json = {"metadata": {"labels": {LABEL: "yes"}}}
        api.merge(f"/api/v1/nodes/{machine.name}", body)
    return Sleepers(api, room, running, tuple(machine.name for machine in signed), signed[0].cores)


def _silent(_text: str) -> None:
    """Print no progress of the lab."""


BENCHES = [Bench("wake", whole_fleet)]
