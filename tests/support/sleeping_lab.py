# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of the lab that sleep: runs of the step over real Nodes and simulated BMCs."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.eviction import eviction
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.redfish import thermal
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curves
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.scope import Scope
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster import step
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.node_changes import (
    EXCLUDED,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.options import (
    OPTIONS,
    SleepOptions,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.planner import FleetInputs
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import (
    ANNOTATION,
    HOLD,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record_store import NAME
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.step import (
    SleepInputs,
    run_sleep,
)
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from lab import faults
from lab.machines import Machine, build_machines
from lab.process import wait_until
from support.lab import RunningLab
from support.power_switching import accounts
from support.snapshots import with_targets
from support.wao import node_config

Json = dict[str, t.Any]
LABEL = "test.example.org/sleeps"
_RECORD = f"/api/v1/namespaces/kube-system/configmaps/{NAME}"
CURVE = {"cpu": [0.0, 16.0, 64.0], "watts": [100.0, 150.0, 250.0]}
LEASE = {"lease_namespace": "kube-system", "lease_timeout": 3.0}
# The machines switch in these times, and a run that waits for them looks as often. A kubelet tells
# whole seconds, so that a shorter boot would seem to end before it began.
QUICK = {"boot": 1.2, "power_on": 0.1, "shutdown": 0.2, "force_off": 0.1}
_PAUSE_SECONDS = 0.2


@dataclass
class SleepingLab:
    """Some machines of one rack, whose Nodes have a label that the rules select."""

    kube: Kube
    lab: RunningLab
    machines: list[Machine]
    namespace: str
    warnings: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [machine.name for machine in self.machines]

    def node(self, name: str) -> Json:
        return self.kube.get(f"/api/v1/nodes/{name}")

    def patch_node(self, name: str, body: Json) -> None:
        self.kube.request("PATCH", f"/api/v1/nodes/{name}", body, MERGE_CONTENT_TYPE)

    def record(self, name: str) -> Json | None:
        annotation = self.node(name)["metadata"].get("annotations", {}).get(ANNOTATION)
        return None if annotation is None else json.loads(annotation)

    def phase(self, name: str) -> str:
        found = self.record(name)
        return "awake" if found is None else str(found["phase"])

    def phases(self) -> dict[str, str]:
        return {name: self.phase(name) for name in self.names}

    def asleep(self) -> list[str]:
        return [name for name, phase in self.phases().items() if phase == "asleep"]

    def is_ready(self, name: str) -> bool:
        conditions = self.node(name)["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def is_on(self, name: str) -> bool:
        return bool(self.admin("GET", "/power")[name]["is_on"])

    def resets(self, name: str) -> list[str]:
        """Requests to switch that the BMC accepted."""
        return list(self.admin("GET", "/power")[name]["resets"])

    def admin(self, method: str, path: str, body: t.Any = None) -> t.Any:
        return faults.call(self.lab.settings, method, path, body)

    def snapshot(self) -> Json:
        """The cluster, with NodeConfigs that only this test knows."""
        options = {"include": ["pods", "pod_disruption_budgets", "namespaces", "bare_metal_hosts"]}
        taken = snapshot.take(options, kube=self.kube)["snapshot"]
        port = self.lab.settings.ports["bmc"]
        configs = []
        for machine in self.machines:
            config = node_config(machine.name, machine.name)
            endpoint = f"https://{machine.bmc_address}:{port}"
            config["spec"]["metricsCollector"]["inletTemp"] = {
                "type": "Redfish",
                "endpoint": endpoint,
            }
            configs.append(config)
        return with_targets({**taken, "node_configs": configs})

    def inputs(self, **more: t.Any) -> SleepInputs:
        found = self.snapshot()
        own = {
            (pod["metadata"]["namespace"], pod["metadata"]["name"])
            for pod in found["pods"]
            if pod["metadata"]["namespace"] == self.namespace
        }
        scope = Scope(frozenset(self.names), frozenset(own))
        of_rack = accounts(self.machines[0])
        asking = {
            "targets": [],
            "credentials": {"default": of_rack["reader"], "power": of_rack["switcher"]},
            "default_credential_namespaces": ["wao-system"],
            "ca_path": str(self.lab.state.ca_certificate),
            "kubeconfig": self.lab.kubeconfig,
        }
        shared = {"kubeconfig": self.lab.kubeconfig, **LEASE}
        given: Json = {
            "fleet": FleetInputs(
                found,
                Curves.from_document(dict.fromkeys(self.names, CURVE)),
                placement.SPEC.complete({}),
                scope,
            ),
            "bmc": thermal.SPEC.complete(asking),
            "evict": eviction.SPEC.complete({**shared, "timeout": 20.0}),
            "owner": "test",
            "fresh": frozenset(self.names),
            "readings_age": 1.0,
            **more,
        }
        return SleepInputs(**given)

    def options(self, mode: str = "on", **more: t.Any) -> SleepOptions:
        given = {
            "mode": mode,
            "select": f"{LABEL}={self.namespace}",
            "min_awake_seconds": 0.0,
            "max_share": 1.0,
            "wear_joules": 0.0,
            "max_cycles_a_day": 100,
            "wait_timeout": 60.0,
            **more,
        }
        return SleepOptions.of(OPTIONS.complete(given))

    def run(self, mode: str = "on", check_mode: bool = False, **more: t.Any) -> Json:
        of_inputs = {
            name: more.pop(name)
            for name in ("fresh", "readings_age", "idle_watts", "power_watts", "approved", "owner")
            if name in more
        }
        context = Context(check_mode=check_mode, warn=self.warnings.append)
        options = self.options(mode, **more)
        return run_sleep(self.kube, self.inputs(**of_inputs), options, LEASE, context)

    def pod(self, name: str, cpu: str, node: str | None = None) -> None:
        """A pod of a ReplicaSet that does not exist, waiting or bound."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "schedulerName": "wattwise",
                "nodeSelector": {LABEL: self.namespace},
                "containers": [
                    {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
                ],
            },
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.kube.request("POST", path, body)
        if node:
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": target,
            }
            self.kube.request("POST", f"{path}/{name}/binding", binding)


@pytest.fixture
def sleeping(
    kube: Kube, whole_lab: RunningLab, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SleepingLab]:
    """Three machines of one rack that may sleep; all awake afterwards."""
    settings = whole_lab.settings
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    good = [each for each in machines if each.certificate == "lab-ca"]
    chosen = [each for each in good if each.rack == good[0].rack][:3]
    found = SleepingLab(kube, whole_lab, chosen, namespace)
    for name in found.names:
        found.patch_node(name, {"metadata": {"labels": {LABEL: namespace}}})
    found.admin("PUT", "/power", dict.fromkeys(found.names, QUICK))
    monkeypatch.setattr(step, "_PAUSE_SECONDS", _PAUSE_SECONDS)
    yield found
    found.admin("DELETE", "/faults")
    for name in found.names:
        annotations = {ANNOTATION: None, HOLD: None}
        labels = {LABEL: None, EXCLUDED: None, "policy-test": None}
        body = {
            "metadata": {"annotations": annotations, "labels": labels},
            "spec": {"unschedulable": None, "taints": None},
        }
        found.patch_node(name, body)
    found.admin("DELETE", "/power")
    wait_until(lambda: all(map(found.is_ready, found.names)), 60.0, "all Nodes to be ready")
    if kube.find(_RECORD):
        kube.request("DELETE", _RECORD)
