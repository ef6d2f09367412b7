# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster of the operator's demo, with the actions of its users and other programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from lab import faults, releases
from lab.api import Api, JsonObject
from lab.cluster import node_object
from lab.conditions import DEAD_BMC
from lab.inventory import NAMESPACE as CONFIGS_NAMESPACE
from lab.machines import Machine
from lab.operator.installation import NAMESPACE
from lab.process import wait_until
from lab.rmd import address, machine_configuration
from lab.state import LabSettings, LabState

FLEET = "hall"
PODS = "hall"
SCHEDULER = "wattwise"
INTERVAL_SECONDS = 15
DRIVER = "gpu.example.com"
CACHE_WAYS = "intel.com/l3_cache_ways"
RMD_NAMESPACE = "rmd-system"
WAO = "/apis/wao.bitmedia.co.jp/v1beta1"
DRA = "/apis/resource.k8s.io/v1"
FLEETS = f"/apis/wattwise.github.io/v1alpha1/namespaces/{NAMESPACE}/powerfleets"
TEMPLATES = f"{WAO}/namespaces/{CONFIGS_NAMESPACE}/nodeconfigtemplates"
WORKLOADS = f"/apis/intel.com/v1alpha1/namespaces/{PODS}/rmdworkloads"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{PODS}/deployments/web"
_PODS = f"/api/v1/namespaces/{PODS}/pods"
_IMAGE = "example/none"
_NOW: JsonObject = {"gracePeriodSeconds": 0}


class Hall:
    """Nodes, machines and pods of one lab, its ``devices`` and the daemons of its ``rmd``."""

    def __init__(
        self, api: Api, state: LabState, settings: LabSettings, machines: dict[str, Machine]
    ) -> None:
        self.api, self.state, self.settings, self.machines = api, state, settings, machines
        self.devices, self.rmd = Devices(self), Daemons(self)

    # The fleet

    def create_fleet(self) -> None:
        enabled = {"enabled": True}
        spec = {
            "interval": f"{INTERVAL_SECONDS}s",
            "nodeConfigs": enabled,
            "observe": {"caPath": str(self.state.ca_certificate)},
            "placement": {"schedulerName": SCHEDULER, "timeLimitSeconds": 5},
            "devices": enabled,
            "rmd": enabled,
        }
        body = {
            "apiVersion": "wattwise.github.io/v1alpha1",
            "kind": "PowerFleet",
            "metadata": {"name": FLEET},
            "spec": spec,
        }
        self.api.request("POST", FLEETS, body)

    def fleet(self) -> JsonObject:
        return self.api.request("GET", f"{FLEETS}/{FLEET}")

    def change_fleet(self, body: JsonObject) -> JsonObject:
        return self.api.merge(f"{FLEETS}/{FLEET}", body)

    def status(self) -> JsonObject:
        found: JsonObject = self.fleet().get("status", {})
        return found

    def conditions(self) -> dict[str, str]:
        return {one["type"]: one["status"] for one in self.status().get("conditions", [])}

    def failing(self) -> set[str]:
        """Nodes that the status names as failing."""
        return {one["node"] for one in self.status().get("failing", [])}

    # Nodes and their NodeConfigs

    def nodes(self) -> dict[str, JsonObject]:
        items = self.api.request("GET", "/api/v1/nodes")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def add_node(self, name: str) -> None:
        version = releases.release_of(self.settings.kubernetes).version
        node = node_object(self.machines[name], str(self.state.root), version)
        self.api.request("POST", "/api/v1/nodes", node)

    def remove_node(self, name: str) -> None:
        self.api.request("DELETE", f"/api/v1/nodes/{name}")

    def cordon(self, name: str, closed: bool = True) -> None:
        self.api.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": closed}})

    def configs(self) -> dict[str, JsonObject]:
        """NodeConfigs by their nodes."""
        items = self.api.request("GET", f"{WAO}/nodeconfigs")["items"]
        return {item["spec"]["nodeName"]: item for item in items}

    def is_read(self, node: str) -> bool:
        """Whether the machine of the node was read."""
        conditions = self.configs().get(node, {}).get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def edit_template(self, rack: str, interval: str) -> None:
        """Change the reading interval of a rack's machines."""
        collector = {"inletTemp": {"fetchInterval": interval}}
        body = {"spec": {"template": {"metricsCollector": collector}}}
        self.api.merge(f"{TEMPLATES}/rack-{rack}", body)

    def intervals(self, rack: str) -> set[str]:
        """The intervals in the NodeConfigs of a rack."""
        return {
            config["spec"]["metricsCollector"]["inletTemp"].get("fetchInterval", "")
            for node, config in self.configs().items()
            if self.machines[node].rack == rack
        }

    def break_machines(self, nodes: list[str]) -> None:
        asked = [{"kind": DEAD_BMC, "node": node} for node in nodes]
        faults.call(self.settings, "POST", "/faults", asked)

    def mend_machines(self) -> None:
        faults.call(self.settings, "DELETE", "/faults")

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Stop the clock of the machines, so that no reading moves."""
        faults.call(self.settings, "POST", "/clock", {"frozen": True})
        try:
            yield
        finally:
            faults.call(self.settings, "POST", "/clock", {"frozen": False})

    def forget_requests(self) -> None:
        """Reset the counts of requests to machines."""
        faults.call(self.settings, "DELETE", "/requests")

    def were_asked(self) -> bool:
        """Whether each machine with a node got requests since the reset."""
        counted = faults.call(self.settings, "GET", "/requests")["nodes"]
        return all(counted[node]["requests"] > 0 for node in self.nodes())

    # Pods

    def pods(self) -> dict[str, JsonObject]:
        items = self.api.request("GET", _PODS)["items"]
        return {item["metadata"]["name"]: item for item in items}

    def create_pod(self, name: str, cpu: str = "1", **more: Any) -> JsonObject:
        return self.api.request("POST", _PODS, _pod(name, cpu, **more))

    def delete_pod(self, name: str) -> None:
        self.api.request("DELETE", f"{_PODS}/{name}", _NOW)

    def node_of(self, pod: str) -> str | None:
        found: str | None = self.api.request("GET", f"{_PODS}/{pod}")["spec"].get("nodeName")
        return found

    def create_deployment(self, replicas: int, cpu: str = "500m", **more: Any) -> None:
        labels = {"app": "web"}
        template = _pod("", cpu, **more)
        body = {
            "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            },
        }
        self.api.request("POST", DEPLOYMENT.rpartition("/")[0], body)

    def scale(self, replicas: int) -> None:
        self.api.merge(DEPLOYMENT, {"spec": {"replicas": replicas}})

    def bound_of_deployment(self) -> list[JsonObject]:
        """Pods of the Deployment with a node that are not being deleted."""
        return [
            pod
            for pod in self.pods().values()
            if pod["metadata"].get("labels", {}).get("app") == "web"
            and pod["spec"].get("nodeName")
            and not pod["metadata"].get("deletionTimestamp")
        ]

    def drain(self, node: str) -> int:
        """Cordon a node and evict its movable pods; return their number."""
        self.cordon(node)
        evicted = [
            pod
            for pod in self.pods().values()
            if pod["spec"].get("nodeName") == node
            and "resourceClaims" not in pod["spec"]
            and CACHE_WAYS not in pod["spec"]["containers"][0]["resources"]["requests"]
        ]
        for pod in evicted:
            metadata = {"name": pod["metadata"]["name"], "namespace": PODS}
            body: JsonObject = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            path = f"{_PODS}/{metadata['name']}/eviction"
            self.api.request("POST", path, {**body, "deleteOptions": _NOW})
        return len(evicted)


class Devices:
    """Devices of a driver of resource.k8s.io, and pods that claim them."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def publish(self, nodes: list[str]) -> None:
        """Publish one device on each node, a class and a template, as a driver of resource.k8s.io."""
        for node in nodes:
            spec = {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            }
            body = {"metadata": {"name": f"{node}-gpu"}, "spec": spec}
            self._hall.api.request("POST", f"{DRA}/resourceslices", body)
        selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        of_class = {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
        self._hall.api.request("POST", f"{DRA}/deviceclasses", of_class)
        asked = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
        template = {
            "metadata": {"name": "one-gpu"},
            "spec": {"spec": {"devices": {"requests": [asked]}}},
        }
        path = f"{DRA}/namespaces/{PODS}/resourceclaimtemplates"
        self._hall.api.request("POST", path, template)

    def create_pod(self, name: str) -> None:
        claim = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
        resources = {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}
        container = {"name": "main", "image": _IMAGE, "resources": resources}
        self._hall.create_pod(name, resourceClaims=[claim], containers=[container])

    def claimed(self) -> dict[str, tuple[str, list[str]]]:
        """Claim → pool of its device, and the pods that it is reserved for."""
        items = self._hall.api.request("GET", f"{DRA}/namespaces/{PODS}/resourceclaims")["items"]
        found = {}
        for item in items:
            status = item.get("status", {})
            for result in status.get("allocation", {}).get("devices", {}).get("results", []):
                pods = [one["name"] for one in status.get("reservedFor", [])]
                found[item["metadata"]["name"]] = (result["pool"], pods)
        return found


class Daemons:
    """RMD daemons, with pods and RmdWorkloads for cache ways."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def install(self, count: int) -> list[str]:
        """Create pods of RMD daemons over plain HTTP, as a DaemonSet would; return their nodes."""
        chosen = [
            machine
            for name, machine in self._hall.machines.items()
            if name in self._hall.nodes() and machine_configuration(machine).debug
        ][:count]
        for machine in chosen:
            self._install(machine)
        return [machine.name for machine in chosen]

    def _install(self, machine: Machine) -> None:
        path = f"/api/v1/namespaces/{RMD_NAMESPACE}/pods"
        name = f"rmd-{machine.name}"
        port = {"containerPort": self._hall.settings.ports["rmd"]}
        container = {"name": "rmd", "image": _IMAGE, "ports": [port]}
        body = {
            "metadata": {"name": name, "labels": {"name": "rmd-pod"}},
            "spec": {"nodeName": machine.name, "containers": [container]},
        }
        self._hall.api.request("POST", path, body)

        def is_running() -> bool:
            return bool(
                self._hall.api.request("GET", f"{path}/{name}")["status"].get("phase") == "Running"
            )

        wait_until(is_running, 30.0, f"the pod {name} to run", interval=0.1)
        # A kubelet would report the address of the pod; each daemon of the lab has its own.
        status = {"podIP": address(machine), "podIPs": [{"ip": address(machine)}]}
        self._hall.api.merge(f"{path}/{name}/status", {"status": status})

    def cache_ways(self, node: str) -> int:
        """Number of ways that the operator offers on the node."""
        status = self._hall.api.request("GET", f"/api/v1/nodes/{node}")["status"]
        return int(status["allocatable"].get(CACHE_WAYS, "0"))

    def create_pod(self, name: str) -> None:
        resources = {"cpu": "2", "memory": "1Gi", CACHE_WAYS: "2"}
        container = {
            "name": "main",
            "image": _IMAGE,
            "resources": {"requests": resources, "limits": resources},
        }
        self._hall.create_pod(name, containers=[container])

    def create_workload(self, pod: str, cores: list[str]) -> None:
        """Create an RmdWorkload that the running pod owns, as the node agent does."""
        found = self._hall.api.request("GET", f"{_PODS}/{pod}")
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod,
            "uid": found["metadata"]["uid"],
            "controller": True,
        }
        body = {
            "apiVersion": "intel.com/v1alpha1",
            "kind": "RmdWorkload",
            "metadata": {"name": f"rmd-workload-{pod}", "ownerReferences": [owner]},
            "spec": {
                "coreIds": cores,
                "cache": {"max": 2, "min": 2},
                "nodes": [found["spec"]["nodeName"]],
            },
        }
        self._hall.api.request("POST", WORKLOADS, body)

    def workload_counts(self) -> dict[str, int]:
        """Number of workloads of each daemon."""
        daemons = faults.call(self._hall.settings, "GET", "/daemons", port=faults.RMD_ADMIN)
        return {node: len(daemon["workloads"]) for node, daemon in daemons.items()}

    def workloads(self) -> list[JsonObject]:
        found: list[JsonObject] = self._hall.api.request("GET", WORKLOADS)["items"]
        return found


def _pod(name: str, cpu: str, **more: Any) -> JsonObject:
    resources = {"requests": {"cpu": cpu, "memory": "256Mi"}}
    container = {"name": "main", "image": _IMAGE, "resources": resources}
    spec = {"schedulerName": SCHEDULER, "containers": [container], **more}
    return {"metadata": {"name": name}, "spec": spec}
