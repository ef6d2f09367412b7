# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that request cache ways on a real API server, on a node that only the test simulates."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import (
    CONDITION,
    configure_pods,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pods import CACHE_WAYS
from support.node_trees import CONTAINER_ID

MERGE = "application/merge-patch+json"


class Pods:
    """Pods in their own namespace, on a node that does not exist, with a kubelet's statuses."""

    def __init__(self, kube: Kube, kubeconfig: str, namespace: str) -> None:
        self.kube, self.kubeconfig, self.namespace = kube, kubeconfig, namespace
        self.node = f"node-of-{namespace}"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.workloads = f"/apis/intel.com/v1alpha1/namespaces/{namespace}/rmdworkloads"

    def add(self, name: str, **annotations: str) -> str:
        """A running pod with a container nginx1 of two CPUs and two ways; returns its UID."""
        resources = {"cpu": "2", "memory": "64Mi", CACHE_WAYS: "2"}
        container = {
            "name": "nginx1",
            "image": "nginx",
            "resources": {"requests": resources, "limits": resources},
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": self.node, "containers": [container]},
        }
        created = self.kube.request("POST", self.pods, pod)
        status = {"phase": "Running", "containerStatuses": [_container_status()]}
        body = {"status": status}
        self.kube.request("PATCH", f"{self.pods}/{name}/status", body, MERGE)
        uid: str = created["metadata"]["uid"]
        return uid

    def annotate(self, name: str, **annotations: str) -> None:
        body = {"metadata": {"annotations": annotations}}
        self.kube.request("PATCH", f"{self.pods}/{name}", body, MERGE)

    def configure(
        self, cpus: t.Mapping[str, list[int]], check: bool = False, **parameters: t.Any
    ) -> MutableObject:
        cpusets = [
            {"pod_uid": uid, "container": "nginx1", "cpus": given} for uid, given in cpus.items()
        ]
        asked = {"kubeconfig": self.kubeconfig, "node_names": [self.node], "cpusets": cpusets}
        return configure_pods({**asked, **parameters}, Context(check_mode=check))

    def answer(self, workload: str, response: str) -> None:
        """Write the status that the ``rmd_workloads`` role would write from the daemon's answer."""
        generation = self.kube.get(f"{self.workloads}/{workload}")["metadata"]["generation"]
        states = {self.node: {"response": response}}
        body = {"status": {"observedGeneration": generation, "workloadStates": states}}
        self.kube.request("PATCH", f"{self.workloads}/{workload}/status", body, MERGE)

    def end(self, name: str, phase: str) -> None:
        """Report the containers as ended, as a kubelet does."""
        self.kube.request(
            "PATCH", f"{self.pods}/{name}/status", {"status": {"phase": phase}}, MERGE
        )

    def condition(self, name: str) -> MutableObject | None:
        conditions = self.kube.get(f"{self.pods}/{name}")["status"].get("conditions") or []
        return next((each for each in conditions if each["type"] == CONDITION), None)

    def events(self, name: str) -> list[tuple[str, str]]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return [
            (each["reason"], each["note"])
            for each in self.kube.list(path)
            if each["regarding"]["name"] == name and each["reason"].startswith("CacheWays")
        ]

    def spec(self, workload: str) -> MutableObject:
        spec: MutableObject = self.kube.get(f"{self.workloads}/{workload}")["spec"]
        return spec

    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.kube.list(self.pods)]


def _container_status() -> MutableObject:
    return {
        "name": "nginx1",
        "containerID": f"containerd://{CONTAINER_ID}",
        "image": "nginx",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {}},
    }
