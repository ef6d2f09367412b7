# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices, claims and pods of one test on a real API server that serves resource.k8s.io/v1."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.devices.reconciliation import reconcile
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot.snapshot import (
    TAINT_RULE_VERSIONS,
)
from lab.process import wait_until
from support import dra_checker
from support.cluster_nodes import make_node, remove
from support.device_objects import DRA, dra_class, dra_device, exactly, manifest, resource_slice
from support.recording_proxy import Permission

Json = dict[str, t.Any]
ROOT = "/apis/resource.k8s.io/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class DraLab:
    """A namespace, with nodes, a driver and a class of the same name."""

    kube: Kube
    kubeconfig: str
    namespace: str

    @property
    def driver(self) -> str:
        return f"{self.namespace}.example.com"

    @property
    def claims_path(self) -> str:
        return f"{ROOT}/namespaces/{self.namespace}/resourceclaims"

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def node(self, number: int) -> str:
        return f"{self.namespace}-n{number}"

    def set_up(self, devices_of_nodes: t.Sequence[int]) -> None:
        """Nodes with this many devices each, the class, and a template for one device."""
        for number, devices in enumerate(devices_of_nodes, 1):
            make_node(self.kube, self.node(number), self.namespace)
            self.publish(number, [dra_device(f"d{index}") for index in range(devices)])
        of_driver = dra_class(self.namespace, f"device.driver == '{self.driver}'")
        self.kube.request("POST", f"{ROOT}/deviceclasses", of_driver)
        template = manifest(DRA, "ResourceClaimTemplate", "one", {"spec": self._spec(1)})
        path = f"{ROOT}/namespaces/{self.namespace}/resourceclaimtemplates"
        self.kube.request("POST", path, template)

    def publish(
        self, node: int, devices: list[Json], counters: list[Json] | None = None, **spec: t.Any
    ) -> None:
        """A pool of a node, named after it, with shared counters; no pool without devices.

        Since Kubernetes 1.35 counters have a slice of their own; before, they share the devices'
        slice.
        """
        apart = counters is not None and self.minor >= 35
        pool = {"name": self.node(node), "generation": 1, "resourceSliceCount": 1 + apart}
        more = {"driver": self.driver, "pool": pool, **spec}
        shared = None if apart else counters
        if devices:
            self._post_slice(
                resource_slice(self.node(node), devices, sharedCounters=shared, **more)
            )
        if apart:
            name = {"name": f"{self.node(node)}-counters"}
            one = resource_slice(self.node(node), None, sharedCounters=counters, **more)
            self._post_slice({**one, "metadata": name})

    def _post_slice(self, one: Json) -> None:
        path = f"{ROOT}/resourceslices"
        self.kube.request("POST", path, one, query={"fieldValidation": "Strict"})

    @property
    def minor(self) -> int:
        """Minor version of the API server: 37 of 1.37."""
        return int(self.kube.get("/version")["minor"])

    @property
    def taint_rules(self) -> tuple[str, str]:
        """The newest version in which the server has DeviceTaintRules, and their path."""
        served = {one["version"] for one in self.kube.get("/apis/resource.k8s.io")["versions"]}
        for version in TAINT_RULE_VERSIONS:
            path = f"/apis/resource.k8s.io/{version}"
            kinds = self.kube.get(path)["resources"] if version in served else []
            if any(kind["name"] == "devicetaintrules" for kind in kinds):
                return f"resource.k8s.io/{version}", f"{path}/devicetaintrules"
        raise AssertionError("the API server has no DeviceTaintRules")

    def tear_down(self) -> None:
        """Remove the cluster-scoped objects."""
        remove(self.kube, f"{ROOT}/deviceclasses/{self.namespace}")
        for plural in ("clusterrolebindings", "clusterroles"):
            remove(self.kube, f"{_RBAC}/{plural}/{self.namespace}")
        for one in self.kube.list(f"{ROOT}/resourceslices"):
            if one["spec"]["driver"] == self.driver:
                remove(self.kube, f"{ROOT}/resourceslices/{one['metadata']['name']}")
        for node in self.kube.list("/api/v1/nodes"):
            if node["metadata"].get("labels", {}).get("test") == self.namespace:
                remove(self.kube, f"/api/v1/nodes/{node['metadata']['name']}")

    def _spec(self, count: int, **more: t.Any) -> Json:
        return {"devices": {"requests": [exactly("r", self.namespace, count=count, **more)]}}

    def add_claim(self, name: str, count: int = 1, **more: t.Any) -> Json:
        """A claim for this many devices; ``more`` are fields of its request."""
        claim = manifest(DRA, "ResourceClaim", name, self._spec(count, **more))
        return self.kube.request("POST", self.claims_path, claim)

    def report(self, claim: str, *conditions: str) -> None:
        """Write the status that a driver reports for the claim's devices, with these conditions
        true.
        """
        told = [
            {
                "type": name,
                "status": "True",
                "reason": "Test",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for name in conditions
        ]
        results = self.claim(claim)["status"]["allocation"]["devices"]["results"]
        devices = [
            {**{key: one[key] for key in ("driver", "pool", "device")}, "conditions": told}
            for one in results
        ]
        body = {"status": {"devices": devices}}
        path = f"{self.claims_path}/{claim}/status"
        self.kube.request("PATCH", path, body, MERGE_CONTENT_TYPE)

    def add_pod(self, name: str, *claims: str, cpu: str = "100m", **spec: t.Any) -> Json:
        """A pending pod of this test with these claims, or with one from the template."""
        named = [{"name": f"c{n}", "resourceClaimName": one} for n, one in enumerate(claims)]
        made = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        container = {
            "name": "main",
            "image": "registry.example/none:1",
            "resources": {
                "requests": {"cpu": cpu},
                "claims": [{"name": item["name"]} for item in named or made],
            },
        }
        body = {
            "schedulerName": self.namespace,
            "containers": [container],
            "resourceClaims": named or made,
            "tolerations": [{"key": "test", "operator": "Exists"}],
            **spec,
        }
        return self.kube.request("POST", self.pods_path, manifest("v1", "Pod", name, body))

    def fill(self, node: int, cpu: str) -> None:
        """Use CPU of a node, by a pod without claims."""
        container = {
            "name": "main",
            "image": "registry.example/none:1",
            "resources": {"requests": {"cpu": cpu}},
        }
        body = {
            "containers": [container],
            "nodeName": self.node(node),
            "tolerations": [{"key": "test", "operator": "Exists"}],
        }
        self.kube.request("POST", self.pods_path, manifest("v1", "Pod", f"filler-{node}", body))

    def remove_pod(self, name: str) -> None:
        remove(self.kube, f"{self.pods_path}/{name}")

    def node_of(self, pod: str) -> str | None:
        found = self.kube.get(f"{self.pods_path}/{pod}")
        return t.cast("str | None", found["spec"].get("nodeName"))

    def claim(self, name: str) -> Json:
        return self.kube.get(f"{self.claims_path}/{name}")

    def devices(self, claim: str) -> list[tuple[str, str]]:
        """Pool and device of each result of a claim."""
        allocation = self.claim(claim).get("status", {}).get("allocation") or {}
        results = allocation.get("devices", {}).get("results", [])
        return [(one["pool"], one["device"]) for one in results]

    def allocate(self, claim: str, node: int, device: str, **status: t.Any) -> None:
        """Write an allocation as another allocator would."""
        result = {
            "request": "r",
            "driver": self.driver,
            "pool": self.node(node),
            "device": device,
        }
        field = {"key": "metadata.name", "operator": "In", "values": [self.node(node)]}
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
        path = f"{self.claims_path}/{claim}"
        finalizers = {"metadata": {"finalizers": [dra_checker.FINALIZER]}}
        self.kube.request("PATCH", path, finalizers, MERGE_CONTENT_TYPE)
        body = {"status": {"allocation": allocation, **status}}
        self.kube.request("PATCH", f"{path}/status", body, MERGE_CONTENT_TYPE)

    def reconcile(self, check_mode: bool = False, **options: t.Any) -> Json:
        """A run for the pods of this test, with a Lease of its own."""
        parameters = {
            "kubeconfig": self.kubeconfig,
            "api_group": "resource.k8s.io",
            "scheduler_name": self.namespace,
            "lease_namespace": self.namespace,
            **options,
        }
        return reconcile(parameters, Context(check_mode=check_mode))

    def grant(self, manifests: Path) -> set[Permission]:
        """Grant a page's permissions to the namespace's default account, with Leases here."""
        permissions: set[Permission] = set()
        for item in yaml.safe_load(manifests.read_text())["items"]:
            item["metadata"]["name"] = self.namespace
            here = "namespace" in item["metadata"]
            if here:
                item["metadata"]["namespace"] = self.namespace
            if "roleRef" in item:
                item["roleRef"]["name"] = self.namespace
                item["subjects"] = [
                    {"kind": "ServiceAccount", "name": "default", "namespace": self.namespace}
                ]
            permissions.update(
                Permission(group, resource, verb)
                for rule in item.get("rules", [])
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            )
            plural = f"{item['kind'].lower()}s"
            scope = f"namespaces/{self.namespace}/{plural}" if here else plural
            self.kube.request("POST", f"{_RBAC}/{scope}", item)
        return permissions

    def token(self) -> str:
        """A token of the namespace's default account."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default/token"
        asked = {"spec": {"expirationSeconds": 600}}
        return str(self.kube.request("POST", path, asked)["status"]["token"])

    def versions(self) -> dict[str, str]:
        """Resource versions of all claims and pods of the test."""
        found = [*self.kube.list(self.claims_path), *self.kube.list(self.pods_path)]
        return {
            f"{one['kind']} {one['metadata']['name']}": one["metadata"]["resourceVersion"]
            for one in found
        }

    def bound(self) -> list[str]:
        """The names of the pods that have a node."""
        pods = self.kube.list(self.pods_path)
        return sorted(one["metadata"]["name"] for one in pods if one["spec"].get("nodeName"))

    def problems(self) -> list[str]:
        """Errors that the independent checker finds."""
        slices = [
            one
            for one in self.kube.list(f"{ROOT}/resourceslices")
            if one["spec"]["driver"] == self.driver
        ]
        pods, claims = self.kube.list(self.pods_path), self.kube.list(self.claims_path)
        return dra_checker.problems(slices, claims, pods)

    def wait_for_free(self, count: int) -> None:
        """Wait until Kubernetes' controller has released all but this many devices of claims."""
        wait_until(
            lambda: len(dra_checker.holders(self.kube.list(self.claims_path))) == count,
            30.0,
            f"all but {count} devices of {self.namespace} to be free",
        )
