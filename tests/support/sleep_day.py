# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab whose machines sleep under the real operator, with the actions of its users."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
import typing as t
from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.ownership import OWNER
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record_store import (
    RecordStore,
)
from lab import comparison, controlplane, faults, lifecycle, operator
from lab.api import Api
from lab.errors import LabError
from lab.machines import build_machines
from lab.operator.hall import DEPLOYMENT, FLEET, FLEETS, PODS, SCHEDULER, Hall
from lab.operator.installation import NAMESPACE, RunningInstallation, install, start
from lab.process import wait_until
from lab.state import LabSettings, LabState
from lab.workload import make_namespace

Json = dict[str, t.Any]

ANNOTATION, HOLD = "wattwise.github.io/sleep", "wattwise.github.io/hold"
TAINT = "wattwise.github.io/asleep"
PARTS = (lifecycle.CONTROL_PLANE, "bmc", "pressure", "predictor")
# What the operator needs beside its default overlay.
_PERMISSIONS = ("eviction", "sleep")
MAX_ATTEMPTS = 2
MAX_CYCLES = 8
# The machines boot in one to three seconds with this factor.
POWER_TIME_FACTOR = 0.01
# The API allows intervals from 15 s, which is 25 minutes at this factor; the day asks for its runs.
INTERVAL_SECONDS = 5.0
# Of two operators one leads. A lower limit would be missed by a busy computer.
LEASE_SECONDS = 8
ELECTION = (
    f"--leader-elect-lease-duration={LEASE_SECONDS}s",
    f"--leader-elect-renew-deadline={LEASE_SECONDS - 2}s",
)
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/wattwise-operator"
_ASKED = "lab.wattwise.github.io/interval"
SLEEP: Json = {
    "mode": "on",
    "nodeSelector": "kubernetes.io/os=linux",
    "minAwakeSeconds": 0,
    "maxShare": 1,
    "wearJoules": 0,
    "maxCyclesADay": MAX_CYCLES,
    "bootSeconds": 3,
    "shutdownSeconds": 1,
    "shutdownTimeoutSeconds": 3,
    "bootTimeoutSeconds": 6,
    "maxAttempts": MAX_ATTEMPTS,
}


class SleepingHall(Hall):
    """A hall without devices and cache ways, whose machines may all sleep.

    ``running`` operates it, and ``second`` is another whole operator.
    """

    def __init__(self, api: Api, state: LabState, running: RunningInstallation) -> None:
        settings = state.read_settings()
        machines = build_machines(settings.nodes, settings.racks, settings.seed)
        super().__init__(api, state, settings, {machine.name: machine for machine in machines})
        self.running = running
        self.second: RunningInstallation | None = None

    def create_fleet(self, interval: str = "15s", **sleep: t.Any) -> None:
        """The PowerFleet; ``sleep`` replaces fields of spec.sleep."""
        spec = {
            "interval": interval,
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

    def remove_fleet(self) -> None:
        self.api.request("DELETE", f"{FLEETS}/{FLEET}")
        wait_until(
            lambda: self.api.find(f"{FLEETS}/{FLEET}") is None, 60.0, "the PowerFleet to be gone"
        )

    @contextlib.contextmanager
    def with_short_interval(self) -> Iterator[None]:
        """Ask for a run every INTERVAL_SECONDS, as the operator does every interval."""
        stop = threading.Event()

        def ask() -> None:
            number = 0
            while not stop.wait(INTERVAL_SECONDS):
                number += 1
                # The API server may be away, and the PowerFleet may not be there yet.
                with contextlib.suppress(LabError, OSError):
                    self.change_fleet({"metadata": {"annotations": {_ASKED: str(number)}}})

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    # Machines

    def phases(self) -> dict[str, str]:
        return {name: _phase(node) for name, node in self.nodes().items()}

    def in_phase(self, *phases: str) -> set[str]:
        return {name for name, found in self.phases().items() if found in phases}

    def power(self) -> dict[str, Json]:
        """The true power of each machine, and the requests that its BMC accepted."""
        found: dict[str, Json] = faults.call(self.settings, "GET", "/power")
        return found

    def watts(self) -> float:
        """The power draw of all machines at this moment."""
        found = faults.call(self.settings, "GET", "/truth")
        return sum(float(one["power_watts"]) for one in found.values())

    def fault(self, kind: str, node: str, seconds: float | None = None) -> None:
        asked = [{"kind": kind, "node": node, "seconds": seconds}]
        faults.call(self.settings, "POST", "/faults", asked)

    def annotate_node(self, name: str, **annotations: str | None) -> None:
        body = {"metadata": {"annotations": annotations}}
        self.api.merge(f"/api/v1/nodes/{name}", body)

    def press_button(self, name: str) -> None:
        """Switch the machine on as a person at its front does, whom no run knows."""
        faults.call(self.settings, "POST", "/power", [name])

    def cycles(self) -> dict[str, int]:
        """Switches to off by machine, as the record of the PowerFleet counts them."""
        kube = Kube.connect({"kubeconfig": str(self.state.kubeconfig)})
        store = RecordStore(kube, "kube-system", f"{OWNER}{NAMESPACE}/{FLEET}")
        record, findings = store.read(time.time())
        assert not findings
        return {name: one.cycles for name, one in record.machines.items() if one.cycles}

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

    def remove_deployment(self) -> None:
        self.api.request("DELETE", DEPLOYMENT, {"propagationPolicy": "Background"})
        wait_until(lambda: not self.pods(), 60.0, "the pods to be gone")

    # Controllers

    def kill_operator(self) -> None:
        """Kill the operator with its runs, and start it again as a kubelet would."""
        self.running.operator.signal(signal.SIGKILL)
        settings = self.running.installation.settings
        self.running = replace(self.running, operator=operator.start(self.state, settings, print))

    def start_second(self, waits: bool = True) -> None:
        """Start a second operator, as another replica of the Deployment.

        One that does not wait for the first elects no leader, as in another namespace.
        """
        installation = self.running.installation
        given = installation.settings.options
        options = [one for one in given if waits or not one.startswith("--leader-elect")]
        settings = replace(installation.settings, options=options, replica=2)
        self.second = start(replace(installation, settings=settings), print)

    def leader(self) -> str:
        """The identity of the operator that leads."""
        return str(self.api.request("GET", _LEASE)["spec"]["holderIdentity"])

    def replace_leader(self) -> float:
        """Kill the operator that leads; the seconds until the second one leads in its place."""
        assert self.second is not None
        before = self.leader()
        self.running.operator.signal(signal.SIGKILL)
        began = time.monotonic()
        wait_until(lambda: self.leader() != before, 60.0, "another leader", interval=0.2)
        self.running, self.second = self.second, self.running
        return time.monotonic() - began

    def stop(self) -> None:
        """Stop all operators, of which some may have ended."""
        for one in filter(None, (self.running, self.second)):
            one.stop()

    def restart_apiserver(self) -> None:
        controlplane.restart_apiserver(self.state)

    def play_sleep(self) -> None:
        """Run the `sleep` playbook with the rules of the PowerFleet. Raises LabError."""
        variables = {
            "placement_scheduler_name": SCHEDULER,
            "sleep_mode": "on",
            "sleep_select": SLEEP["nodeSelector"],
            "sleep_min_awake_seconds": 0,
            "sleep_max_share": self.fleet()["spec"]["sleep"]["maxShare"],
            "sleep_wear_joules": 0,
            "sleep_max_cycles_a_day": MAX_CYCLES,
            "sleep_boot_seconds": SLEEP["bootSeconds"],
            "sleep_shutdown_seconds": SLEEP["shutdownSeconds"],
            "sleep_boot_timeout": SLEEP["bootTimeoutSeconds"],
            "sleep_shutdown_timeout": SLEEP["shutdownTimeoutSeconds"],
            "sleep_max_attempts": MAX_ATTEMPTS,
        }
        comparison.run_playbook("sleep", self.state, "-e", json.dumps(variables))


def _phase(node: Json) -> str:
    """The phase as the taint says it, which no kubelet may write."""
    taints = node["spec"].get("taints", ())
    return next((str(one.get("value")) for one in taints if one["key"] == TAINT), "awake")


@contextlib.contextmanager
def sleeping_hall(
    state: LabState, settings: LabSettings, options: t.Sequence[str] = ()
) -> Iterator[SleepingHall]:
    """A new lab with the operator at work, without a PowerFleet; ``options`` are more of its own."""
    lifecycle.up(state, settings, print)
    try:
        installation = install(state, "default", print, permissions=_PERMISSIONS)
        given = (*installation.settings.options, *options)
        more = replace(installation.settings, options=given)
        installation = replace(installation, settings=more)
        with Api(state.kubeconfig) as api:
            make_namespace(api, PODS)
            comparison.run_playbook("site", state, "--tags", "node_configs")
            hall = SleepingHall(api, state, start(installation, print))
            try:
                yield hall
            finally:
                hall.stop()
    finally:
        lifecycle.down(state, print)
