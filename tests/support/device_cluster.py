# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes, pools, claims and pods of one test on the lab's API server, and their final state."""

from __future__ import annotations

import collections
import contextlib
import json
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from lab.process import wait_until
from support.device_objects import PROTOTYPE, device_class, device_pool, manifest
from support.recording_proxy import Permission

Json = dict[str, t.Any]

ANNOTATION = "wattwise.github.io/device-claims"
GROUP = f"/apis/{PROTOTYPE}"
_AT_ONCE = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}


@dataclass
class DeviceCluster:
    """All names begin with the namespace; driver, scheduler and gate are named after it."""

    kube: Kube
    kubeconfig: str
    namespace: str
    paths: list[str] = field(default_factory=list)

    @property
    def gate(self) -> str:
        return f"{self.namespace}/devices"

    def options(self, **more: t.Any) -> Json:
        """Parameters of device_reconciliation for only this test's pods."""
        return {
            "kubeconfig": self.kubeconfig,
            "api_group": "devmgmtproto.k8s.io",
            "scheduler_name": self.namespace,
            "gate": self.gate,
            "lease_namespace": self.namespace,
            **more,
        }

    def _create(self, path: str, body: Json) -> Json:
        made = self.kube.request("POST", path, body, query={"fieldValidation": "Strict"})
        self.paths.append(f"{path}/{body['metadata']['name']}")
        return made

    def node(self, name: str, cpu: str = "16") -> str:
        """A ready node that no pod of another test tolerates."""
        name = f"{self.namespace}-{name}"
        taint = {"key": "test", "value": self.namespace, "effect": "NoSchedule"}
        resources = {"cpu": cpu, "memory": "64Gi", "pods": "100"}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"test": self.namespace}},
            "spec": {"taints": [taint]},
            "status": {"allocatable": resources, "capacity": resources},
        }
        self._create("/api/v1/nodes", body)
        wait_until(lambda: self._is_ready(name), 30.0, f"node {name} to be ready")
        return name

    def _is_ready(self, name: str) -> bool:
        """Whether the node is ready and has lost its initial taint, which a controller removes."""
        node = self.kube.get(f"/api/v1/nodes/{name}")
        conditions = {item["type"]: item["status"] for item in node["status"].get("conditions", [])}
        keys = [taint["key"] for taint in node["spec"].get("taints", [])]
        return conditions.get("Ready") == "True" and keys == ["test"]

    def pool(self, name: str, node: str | None, **spec: t.Any) -> str:
        name = f"{self.namespace}-{name}"
        self._create(f"{GROUP}/devicepools", device_pool(name, node, self.namespace, **spec))
        return name

    def device_class(self, name: str, **spec: t.Any) -> str:
        name = f"{self.namespace}-{name}"
        body = device_class(name, driver=self.namespace, **spec)
        self._create(f"{GROUP}/deviceclasses", body)
        return name

    def claim(self, name: str, **spec: t.Any) -> str:
        body = manifest(PROTOTYPE, "DeviceClaim", name, spec or {"driver": self.namespace})
        self._create(f"{GROUP}/namespaces/{self.namespace}/deviceclaims", body)
        return name

    def privileged_claim(self, name: str) -> str:
        """A privileged claim for all devices of this test."""
        body = manifest(PROTOTYPE, "DevicePrivilegedClaim", name, {"driver": self.namespace})
        self._create(f"{GROUP}/namespaces/{self.namespace}/deviceprivilegedclaims", body)
        return name

    def grant(self, manifests: Path) -> tuple[set[Permission], str]:
        """Grant a page's permissions to the namespace's default account, with Leases here.

        Returns them with a token of the account.
        """
        account = {"kind": "ServiceAccount", "name": "default", "namespace": self.namespace}
        rules: list[Json] = []
        for item in yaml.safe_load(manifests.read_text(encoding="utf-8"))["items"]:
            item["metadata"]["name"] = self.namespace
            scope = ""
            if "namespace" in item["metadata"]:
                item["metadata"]["namespace"] = self.namespace
                scope = f"namespaces/{self.namespace}/"
            if "roleRef" in item:
                item["roleRef"]["name"] = self.namespace
                item["subjects"] = [account]
            rules += item.get("rules", [])
            plural = f"{item['kind'].lower()}s"
            self._create(f"/apis/rbac.authorization.k8s.io/v1/{scope}{plural}", item)
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default/token"
        answer = self.kube.request("POST", path, {"spec": {"expirationSeconds": 600}})
        permissions = {
            Permission(group, resource, verb)
            for rule in rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        return permissions, str(answer["status"]["token"])

    def pod(
        self,
        name: str,
        claims: list[str] | list[Json] | str,
        *,
        gated: bool = False,
        cpu: str = "1",
    ) -> str:
        """A pending pod with claims: names, items, or the whole text of the annotation."""
        items = [{"name": one, "claimName": one} if isinstance(one, str) else one for one in claims]
        text = claims if isinstance(claims, str) else json.dumps(items)
        container = {
            "name": "main",
            "image": "registry.example/none:1",
            "resources": {"requests": {"cpu": cpu}},
        }
        spec: Json = {
            "containers": [container],
            "tolerations": [{"key": "test", "operator": "Exists"}],
            "nodeSelector": {"test": self.namespace},
        }
        if gated:
            spec["schedulingGates"] = [{"name": self.gate}]
        else:
            spec["schedulerName"] = self.namespace
        metadata = {"name": name, "annotations": {ANNOTATION: text}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self._create(f"/api/v1/namespaces/{self.namespace}/pods", body)
        return name

    def waiting(self, count: int) -> None:
        """This many pods, each with a claim for one device."""
        for number in range(count):
            self.pod(f"pod-{number}", [self.claim(f"claim-{number}")])

    def delete(self, kind: str, name: str) -> None:
        """Delete at once; ``kind`` is the plural of a pod or a claim."""
        root = "/api/v1" if kind == "pods" else GROUP
        self._delete(f"{root}/namespaces/{self.namespace}/{kind}/{name}")

    def _delete(self, path: str) -> None:
        with contextlib.suppress(ApiError):
            self.kube.request("DELETE", path, _AT_ONCE)

    def finish(self, pod: str) -> None:
        """Let the pod end by itself."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/status"
        self.kube.request("PATCH", path, {"status": {"phase": "Succeeded"}}, MERGE_CONTENT_TYPE)

    def clean(self) -> None:
        for path in reversed(self.paths):
            self._delete(path)

    # Current state

    def read_pod(self, name: str) -> Json:
        return self.kube.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def node_of(self, pod: str) -> str | None:
        return t.cast("str | None", self.read_pod(pod)["spec"].get("nodeName"))

    def read_claim(self, name: str) -> Json:
        return self.kube.get(f"{GROUP}/namespaces/{self.namespace}/deviceclaims/{name}")

    def status_of(self, claim: str) -> Json:
        status: Json = self.read_claim(claim).get("status") or {}
        return status

    def allocated(self, claim: str) -> Json:
        """The condition Allocated."""
        return next(
            item for item in self.status_of(claim)["conditions"] if item["type"] == "Allocated"
        )

    def pools(self) -> dict[str, Json]:
        """The pools of this test, by name."""
        return {
            pool["metadata"]["name"]: pool
            for pool in self.kube.list(f"{GROUP}/devicepools")
            if pool["spec"]["driver"] == self.namespace
        }

    def claims(self) -> list[Json]:
        return self.kube.list(f"{GROUP}/namespaces/{self.namespace}/deviceclaims")

    def versions(self) -> dict[str, str]:
        """The resource versions of all objects of this test."""
        pods = self.kube.list(f"/api/v1/namespaces/{self.namespace}/pods")
        objects = [*self.pools().values(), *self.claims(), *pods]
        return {
            f"{obj['kind']} {obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
            for obj in objects
        }

    def mine(self, result: Json, part: str) -> list[Json]:
        """Changes or errors of this test's objects; other tests may have left objects."""
        names = {self.namespace, *self.pools()}
        return [one for one in result[part] if {one["namespace"], one["name"]} & names]


def taken_devices(cluster: DeviceCluster) -> dict[str, collections.Counter[str]]:
    """Number of claims on each device, by pool; devices of counting pools have the name ""."""
    found: dict[str, collections.Counter[str]] = {}
    for claim in cluster.claims():
        for item in (claim.get("status") or {}).get("allocations") or ():
            counts = found.setdefault(item["devicePoolName"], collections.Counter())
            counts[item.get("deviceName", "")] += item.get("deviceCount", 1)
    return found


def problems(cluster: DeviceCluster) -> Iterator[str]:
    """Errors in the cluster's final state, found without any code of the library.

    No device is allocated twice, no resource of a pool overdrawn; pools agree with claims, and pods
    are on the node of their devices.
    """
    taken = taken_devices(cluster)
    for name, pool in cluster.pools().items():
        counts, spec = taken.get(name, collections.Counter()), pool["spec"]
        if counts[""] > spec.get("count", 0):
            yield f"{name}: {counts['']} devices of {spec.get('count', 0)} were given"
        yield from (
            f"{name}: {device} was given {count} times"
            for device, count in counts.items()
            if device and count > 1
        )
        yield from _overdrawn(name, spec, counts)
        reserved = {
            entry["claimUID"] for entry in (pool.get("status") or {}).get("reservations", ())
        }
        having = {
            claim["metadata"]["uid"]
            for claim in cluster.claims()
            for item in (claim.get("status") or {}).get("allocations") or ()
            if item["devicePoolName"] == name
        }
        if reserved != having:
            yield f"{name}: the ledger has {reserved}, claims have {having}"
    for claim in cluster.claims():
        status = claim.get("status") or {}
        for pod in status.get("podNames") or ():
            if cluster.node_of(pod) != status["nodeName"]:
                yield f"{pod} is on {cluster.node_of(pod)}, its devices on {status['nodeName']}"


def _overdrawn(name: str, spec: Json, counts: t.Mapping[str, int]) -> Iterator[str]:
    for resource in spec.get("resources") or ():
        drawn = sum(
            device.get("requests", {}).get(resource["name"], 0)
            for device in spec["devices"]
            if counts.get(device["name"])
        )
        if drawn > resource["capacity"]:
            yield f"{name}: {drawn} of {resource['capacity']} {resource['name']} are drawn"
