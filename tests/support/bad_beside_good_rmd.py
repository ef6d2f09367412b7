# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An RMD cluster for tests of boundaries: a bad object must not change the results of good ones."""

from __future__ import annotations

import copy
import random
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.manifests import read_manifests
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.cluster import reconcile_objects
from support.odd_values import bounded, spoilt
from support.rmd import RmdDaemons
from support.rmd_cluster import options_of

Json = dict[str, t.Any]

NAMESPACE = "rmd"
BAD = "bad"
WAYS = {"max": 2, "min": 2}


def workload(name: str, cpus: t.Sequence[str], *nodes: str, **spec: t.Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"coreIds": list(cpus), "cache": WAYS, "nodes": list(nodes), **spec},
    }


def state(node: str) -> Json:
    """A node state that records a workload of ours in its daemon."""
    held = {"ID": "9", "Core IDs": "30,31", "Cache Max": "2", "Cache Min": "2"}
    condition = {"type": "Reachable", "status": "True", "reason": "Read", "message": ""}
    return {
        "metadata": {"name": f"rmd-node-state-{node}", "namespace": NAMESPACE},
        "spec": {"node": node, "nodeUid": f"uid-{node}"},
        "status": {"workloads": {"old": held}, "managed": ["old"], "conditions": [condition]},
    }


def config(name: str, value: str) -> Json:
    metadata = {"name": name, "namespace": NAMESPACE, "generation": 1}
    return {"metadata": metadata, "spec": {"rmdNodeSelector": {"rack": value}}}


def daemon_pod(node: str, address: str, port: int) -> Json:
    """A daemon's pod, as a kubelet reports it."""
    return {
        "metadata": {"name": f"rmd-{node}", "namespace": NAMESPACE},
        "spec": {"nodeName": node, "containers": [{"ports": [{"containerPort": port}]}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "podIP": address},
    }


class Before:
    """Runs of the daemons' reconciliation in check mode; `without` is the result without a bad object."""

    def __init__(self, daemons: RmdDaemons) -> None:
        self.daemons = daemons
        nodes = [
            {
                "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"rack": "a"}},
                "status": {"capacity": {}},
            }
            for name in daemons.endpoints
        ]
        self.good: Json = {
            "nodes": nodes,
            "rmd_workloads": [
                workload("one", ["10", "11"], "n1", "n2"),
                workload("two", ["12"], "n1", nodeSelector={"rack": "a"}),
                workload("invalid", ["abc"], "n1"),
            ],
            "rmd_node_states": [state("n1"), state("n2")],
            "rmd_configs": [config("good", "a")],
            "rmd_pods": [],
        }
        self.without = self.run(self.good)

    def run(self, objects: Json) -> Json:
        with bounded():
            options = options_of(self.daemons, namespace=NAMESPACE)
            found = reconcile_objects(objects, options, Context(check_mode=True))
        assert found.failure is None
        result = {**found.document, **found.result}
        for manifests in (result["node_states"], result["statuses"]):
            read_manifests(manifests)  # kube_apply writes none of them if it refuses one
        return result

    def beside(self, part: str, bad: t.Any) -> Json:
        """The result with this object among the good ones of a part."""
        objects = copy.deepcopy(self.good)
        objects[part].insert(1, bad)
        return self.run(objects)


def bad_object(seed: int, good: Json, *, finite: bool = True) -> Json:
    """A spoilt copy that is still an object with metadata, as the snapshot's schema demands."""
    bad: Json = spoilt(random.Random(seed), good, finite=finite)
    if not isinstance(bad.get("metadata"), dict):
        bad["metadata"] = {}
    return bad


def named(entry: Json) -> str:
    found: str = entry["metadata"]["name"]
    return found


def of_others(result: Json) -> Json:
    """The part of a run's result that concerns the good objects."""
    good = ("one", "two", "invalid")
    return {
        "results": [each for each in result["results"] if each["workload"] in (*good, "old")],
        "states": result["node_states"],
        "statuses": [
            each
            for each in result["statuses"]
            if each["kind"] != "RmdWorkload" or named(each) in good
            if each["kind"] != "RmdConfig" or named(each) == "good"
        ],
        "errors": [each for each in result["errors"] if BAD not in each["detail"]],
        "findings": [each for each in result["findings"] if each["name"] == "invalid"],
        "daemons": result["daemons"],
    }
