# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab whose machines sleep under the real operator, with the actions of its users."""

from __future__ import annotations

import contextlib
import json
import signal
import typing as t
from collections.abc import Iterator
from dataclasses import replace

from lab import comparison, faults, lifecycle, operator
from lab.api import Api
from lab.machines import build_machines
from lab.operator.hall import FLEET, FLEETS, PODS, SCHEDULER, Hall
from lab.operator.installation import RunningInstallation, install, start
from lab.state import LabSettings, LabState
from lab.workload import make_namespace

Json = dict[str, t.Any]

ANNOTATION, HOLD = "wattwise.github.io/sleep", "wattwise.github.io/hold"
PARTS = (lifecycle.CONTROL_PLANE, "bmc", "pressure", "predictor")
# What the operator needs beside its default overlay.
_PERMISSIONS = ("eviction", "sleep")
MAX_ATTEMPTS = 2
# The machines boot in one to three seconds with this factor.
POWER_TIME_FACTOR = 0.01
SLEEP: Json = {
    "mode": "on",
    "nodeSelector": "kubernetes.io/os=linux",
    "minAwakeSeconds": 0,
    "maxShare": 1,
    "wearJoules": 0,
    "maxCyclesADay": 1000,
    "bootSeconds": 3,
    "shutdownSeconds": 1,
    "shutdownTimeoutSeconds": 3,
    "bootTimeoutSeconds": 6,
    "maxAttempts": MAX_ATTEMPTS,
}


class SleepingHall(Hall):
    """A hall without devices and cache ways, whose machines may all sleep; ``running`` operates it."""

    def __init__(self, api: Api, state: LabState, running: RunningInstallation) -> None:
        settings = state.read_settings()
        machines = build_machines(settings.nodes, settings.racks, settings.seed)
        super().__init__(api, state, settings, {machine.name: machine for machine in machines})
        self.running = running

    def create_fleet(self, **sleep: t.Any) -> None:
        """The PowerFleet; ``sleep`` replaces fields of spec.sleep."""
        spec = {
            "interval": "15s",
            "nodeConfigs": {"enabled": True},
            "observe": {"caPath": str(self.state.ca_certificate)},
            "placement": {"schedulerName": SCHEDULER, "timeLimitSeconds": 5},
            "sleep": {**SLEEP, **sleep},
        }
        body = {
            "apiVersion": "wattwise.github.io/v1alpha1",
            "kind": "PowerFleet",
            "metadata": {"name": FLEET},
            "spec": spec,
        }
        self.api.request("POST", FLEETS, body)

    # Machines

    def phases(self) -> dict[str, str]:
        return {name: _phase(node) for name, node in self.nodes().items()}

    def in_phase(self, *phases: str) -> set[str]:
        return {name for name, found in self.phases().items() if found in phases}

    def power(self) -> dict[str, Json]:
        """The true power of each machine, and the requests that its BMC accepted."""
        found: dict[str, Json] = faults.call(self.settings, "GET", "/power")
        return found

    def fault(self, kind: str, node: str, seconds: float | None = None) -> None:
        asked = [{"kind": kind, "node": node, "seconds": seconds}]
        faults.call(self.settings, "POST", "/faults", asked)

    def annotate_node(self, name: str, **annotations: str | None) -> None:
        body = {"metadata": {"annotations": annotations}}
        self.api.merge(f"/api/v1/nodes/{name}", body)

    # Pods

    def is_deployed(self, replicas: int) -> bool:
        """Whether so many pods of the Deployment run, and no other is left."""
        found = [pod for name, pod in self.pods().items() if name.startswith("web-")]
        return len(found) == replicas and all(
            pod["status"].get("phase") == "Running" for pod in found
        )

    def state_of_pods(self) -> str:
        """The pods with their nodes and phases, for people."""
        return ", ".join(
            f"{name} {pod['spec'].get('nodeName', '-')} {pod['status'].get('phase')}"
            for name, pod in sorted(self.pods().items())
        )

    def kill_operator(self) -> None:
        """Kill the operator with its runs, and start it again as a kubelet would."""
        self.running.operator.signal(signal.SIGKILL)
        settings = self.running.installation.settings
        self.running = replace(self.running, operator=operator.start(self.state, settings, print))


def _phase(node: Json) -> str:
    annotation = node["metadata"].get("annotations", {}).get(ANNOTATION)
    return "awake" if annotation is None else str(json.loads(annotation)["phase"])


@contextlib.contextmanager
def sleeping_hall(
    state: LabState, settings: LabSettings, heartbeat_seconds: float | None = None
) -> Iterator[SleepingHall]:
    """A new lab with the operator at work, without a PowerFleet."""
    lifecycle.up(state, settings, print)
    try:
        installation = install(state, "default", print, heartbeat_seconds, _PERMISSIONS)
        with Api(state.kubeconfig) as api:
            make_namespace(api, PODS)
            comparison.run_playbook("site", state, "--tags", "node_configs")
            running = start(installation, print)
            try:
                yield SleepingHall(api, state, running)
            finally:
                running.stop()
    finally:
        lifecycle.down(state, print)
