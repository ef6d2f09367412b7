# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster in memory: objects of RMD and their nodes, and statuses as kube_apply writes them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.cluster import (
    Reconciled,
    reconcile_objects,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pods import CACHE_WAYS
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.reconciliation import SPEC
from support.rmd import RmdDaemons


def options_of(
    daemons: RmdDaemons, *, client: MutableObject | None = None, **given: t.Any
) -> MutableObject:
    """Options of rmd_cluster_reconciliation for these daemons; `client` has those of requests."""
    options = {"endpoints": daemons.endpoints, "run_dir": "unused", **given}
    return SPEC.complete({**options, "daemons": {**daemons.tls, **(client or {})}})


@dataclass
class RmdCluster:
    """Nodes and RmdWorkloads with daemons; `run` is one run of the role, without the API server."""

    daemons: RmdDaemons
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    workloads: dict[str, MutableObject] = field(default_factory=dict)
    states: dict[str, MutableObject] = field(default_factory=dict)
    configs: list[MutableObject] = field(default_factory=list)
    ways: dict[str, str] = field(default_factory=dict)

    def give_to_pod(self, name: str) -> None:
        """Let a pod own the RmdWorkload, as rmd_pod_workload does."""
        owner = {"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
        self.workloads[f"default/{name}"]["metadata"]["ownerReferences"] = [owner]

    def put(self, name: str, namespace: str = "default", **spec: t.Any) -> None:
        """Create an RmdWorkload, or replace its spec."""
        key = f"{namespace}/{name}"
        before = self.workloads.get(key, {"metadata": {"generation": 0}})
        generation = before["metadata"]["generation"] + 1
        metadata = {"name": name, "namespace": namespace, "generation": generation}
        self.workloads[key] = {**before, "metadata": metadata, "spec": spec}

    def delete(self, name: str, namespace: str = "default") -> None:
        del self.workloads[f"{namespace}/{name}"]

    def run(self, check: bool = False, **options: t.Any) -> MutableObject:
        """The result of a run, with its manifests. Raises the error of too few daemons."""
        found = self.reconcile(check, **options)
        if found.failure is not None:
            raise found.failure
        return {**found.document, **found.result}

    def reconcile(self, check: bool = False, **options: t.Any) -> Reconciled:
        given = options_of(self.daemons, **options)
        found = reconcile_objects(self.objects(), given, Context(check_mode=check))
        if not check and found.failure is None:
            for manifest in found.document["node_states"]:
                known = self.states.get(manifest["metadata"]["name"], {})
                self.states[manifest["metadata"]["name"]] = {**known, **manifest}
            for manifest in found.document["statuses"]:
                self._store(manifest)
        return found

    def objects(self) -> MutableObject:
        nodes = [
            {
                "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
                "status": dict.fromkeys(("capacity", "allocatable"), self._resources(name)),
            }
            for name, labels in self.nodes.items()
        ]
        return {
            "nodes": nodes,
            "rmd_workloads": list(self.workloads.values()),
            "rmd_node_states": list(self.states.values()),
            "rmd_configs": self.configs,
            "rmd_pods": [],
        }

    def status(self, name: str, namespace: str = "default") -> MutableObject:
        found: MutableObject = self.workloads[f"{namespace}/{name}"]["status"]
        return found

    def condition(self, name: str, kind: str = "Ready") -> tuple[str, str]:
        [found] = [item for item in self.status(name)["conditions"] if item["type"] == kind]
        return found["status"], found["reason"]

    def state(self, node: str) -> MutableObject:
        found: MutableObject = self.states[f"rmd-node-state-{node}"]["status"]
        return found

    def _resources(self, node: str) -> dict[str, str]:
        return {CACHE_WAYS: self.ways[node]} if node in self.ways else {}

    def _store(self, manifest: MutableObject) -> None:
        metadata = manifest["metadata"]
        if manifest["kind"] == "Node":
            self.ways[metadata["name"]] = manifest["status"]["capacity"][CACHE_WAYS]
        elif manifest["kind"] == "RmdNodeState":
            self.states[metadata["name"]]["status"] = manifest["status"]
        elif manifest["kind"] == "RmdConfig":
            [config] = [
                each for each in self.configs if each["metadata"]["name"] == metadata["name"]
            ]
            config["status"] = manifest["status"]
        else:
            key = f"{metadata['namespace']}/{metadata['name']}"
            self.workloads[key]["status"] = manifest["status"]
