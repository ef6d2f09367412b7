# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rack of the lab whose runs keep limits."""

from __future__ import annotations

import datetime
import json
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import (
    Reading,
    Value,
)
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.reconciliation import (
    FleetRun,
    reconcile_fleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.run import Run
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.limiting import (
    limit_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.scope import Scope
from lab.embedded import EmbeddedLab
from lab.hardware import system_uuid
from lab.machines import Machine
from support.binding_api import pod
from support.limited_cluster import LimitedCluster
from support.power_switching import accounts
from support.snapshots import write_snapshot
from support.wao import node_config

Json = dict[str, t.Any]
VENDORS = ("hpe", "lenovo", "openbmc")
RACK = {"wattwise.github.io/rack": "r1"}


@dataclass
class Rack:
    """Three machines of one rack in the lab, and runs that read and limit them.

    Each run has a new folder, as if it were that of another host. With ``inlets``, in °C by machine, a
    run finds these in its folder, beside the power draw of the present, at the time ``now``.
    """

    lab: EmbeddedLab
    folder: Path
    cluster: LimitedCluster
    host: str
    idle_watts: float = 60.0
    have_uuids: bool = True
    own: frozenset[str] | None = None
    taints: list[Json] = field(default_factory=list)
    tainted: t.Collection[str] = ()
    warnings: list[str] = field(default_factory=list)
    inlets: dict[str, float] | None = None
    # Machines without a fresh power reading in these runs.
    unread: frozenset[str] = frozenset()
    now: datetime.datetime = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def __post_init__(self) -> None:
        self.machines = [self.lab.machine(vendor) for vendor in VENDORS]
        self.names = [machine.name for machine in self.machines]
        self.tainted = self.names[:1]
        self.load(1.0)
        # The second machine has the pod of the highest priority.
        for index, name in enumerate(self.names):
            running = pod(name, nodeName=name, priority=100 if index == 1 else 0)
            self.cluster.add({**running, "status": {"phase": "Running"}})

    @property
    def recorded(self) -> dict[str, Json]:
        """The entries of the record by node."""
        data = (self.cluster.record or {}).get("data") or {}
        return {name: json.loads(value) for name, value in data.items()}

    def load(self, share: float) -> None:
        """Use a share of the cores of each machine."""
        self.lab.admin("PUT", "/loads", {one.name: share * one.cores for one in self.machines})

    @property
    def watts(self) -> dict[str, float]:
        shown = self.lab.admin("GET", "/truth")
        return {name: float(shown[name]["shown"]["power_watts"]) for name in self.names}

    @property
    def total(self) -> float:
        return sum(self.watts.values())

    @property
    def caps(self) -> dict[str, float]:
        """The limits that the BMCs have."""
        power = self.lab.admin("GET", "/power")
        found = {name: power[name]["cap_watts"] for name in self.names}
        return {name: watts for name, watts in found.items() if watts is not None}

    def limit_by_hand(self, *machines: Machine, **limit: t.Any) -> None:
        targets = [
            {
                "name": machine.name,
                "endpoint": self.lab.endpoint(machine),
                "credential": "reader",
                "power_credential": "switcher",
            }
            for machine in machines
        ]
        given = {
            "targets": targets,
            "credentials": accounts(machines[0]),
            "ca_path": str(self.lab.ca_path),
        }
        assert limit_power({**given, **limit})["errors"] == []

    def _write_documents(self) -> None:
        configs = []
        for machine in self.machines:
            config = node_config(machine.name, machine.name)
            config["spec"]["metricsCollector"]["inletTemp"] = {
                "type": "Redfish",
                "endpoint": self.lab.endpoint(machine),
            }
            configs.append(config)
        nodes = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {**RACK, "node.kubernetes.io/instance-type": name},
                },
                "spec": {"taints": self.taints if name in self.tainted else []},
                "status": {
                    "allocatable": {"cpu": "64", "pods": "110"},
                    "nodeInfo": {"systemUUID": system_uuid(name) if self.have_uuids else ""},
                },
            }
            for name in self.names
        ]
        write_snapshot(
            self.folder, nodes=nodes, node_configs=configs, pods=list(self.cluster.pods.values())
        )
        curve = {"cpu": [0.0, 64.0], "watts": [self.idle_watts, 700.0]}
        body = {"curves": dict.fromkeys(self.names, curve)}
        documents.write(str(self.folder / "curves.json"), "curves", body)
        if self.inlets is not None:
            self._write_readings(self.inlets)

    def _write_readings(self, inlets: Json) -> None:
        watts = {name: one for name, one in self.watts.items() if name not in self.unread}
        found = {
            name: {
                quantity: Value(value, self.now)
                for quantity, values in (("power_watts", watts), ("inlet_celsius", inlets))
                for value in [values.get(name)]
                if value is not None
            }
            for name in self.own or self.names
        }
        readings = {name: Reading(one).as_document(self.now) for name, one in found.items()}
        documents.write(str(self.folder / "readings.json"), "readings", {"readings": readings})

    def run(
        self,
        limits: Json,
        steps: t.Sequence[str] = ("read", "merge", "limits"),
        **context: t.Any,
    ) -> Json:
        self.folder = self.folder.with_name(f"{self.folder.name}-")
        self.folder.mkdir()
        self._write_documents()
        self.warnings.clear()
        of_rack = accounts(self.machines[0])
        read = {
            "credentials": {"default": of_rack["reader"], "power": of_rack["switcher"]},
            "default_credential_namespaces": ["wao-system"],
            "ca_path": str(self.lab.ca_path),
            "refresh": True,
        }
        if self.inlets is not None:
            steps = ("limits",)
            context = {"now": lambda: self.now, **context}
        given = {
            "steps": list(steps),
            "run_dir": str(self.folder),
            "host": self.host,
            "place": {"scheduler_name": "wattwise"},
            "read": read,
            "limits": limits,
        }
        context_of_run = Context(warn=self.warnings.append, **context)
        if self.own is None:
            return reconcile_fleet(given, context_of_run)
        scope = Scope(self.own, frozenset())
        found = FleetRun(Run(given, context_of_run, lambda _snapshot: scope))
        found.make()
        return found.result()

    def settle(self, limits: Json, runs: int) -> None:
        for _run in range(runs):
            self.run(limits)


@contextmanager
def limited_rack(lab: EmbeddedLab, folder: Path) -> Iterator[Rack]:
    """A rack whose limits are removed in the end."""
    cluster = LimitedCluster()
    with cluster.serve() as api:
        found = Rack(lab, folder, cluster, api.url)
        yield found
        found.run({"cap": "off"})
        found.limit_by_hand(*found.machines, state="absent")


def with_pods(rack: Rack, **priorities: int) -> None:
    """Pods that use 8 of 10 CPUs on the first machine, and save 80 W each by its curve."""
    owner = {"kind": "ReplicaSet", "name": "batch", "uid": "rs", "controller": True}
    for name, priority in priorities.items():
        running = pod(name, cpu="10", nodeName=rack.names[0], priority=priority)
        running["metadata"]["ownerReferences"] = [owner]
        rack.cluster.add({**running, "status": {"phase": "Running"}})
