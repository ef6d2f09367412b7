# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Node objects of the lab's machines; KWOK simulates their kubelets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from lab.api import CONNECTIONS, Api, ApiError, JsonObject
from lab.hardware import system_uuid
from lab.process import wait_until

PODS_PER_NODE = 110
EPHEMERAL_STORAGE = "400Gi"
OWNER = "wattwise.github.io/lab"
READY_SECONDS, READY_SECONDS_A_NODE = 60.0, 0.2
T = TypeVar("T")


class Machine(Protocol):
    """Fields of a Node that come from its machine."""

    @property
    def name(self) -> str: ...
    @property
    def rack(self) -> object: ...
    @property
    def position(self) -> int: ...
    @property
    def server_type(self) -> str: ...
    @property
    def internal_address(self) -> str: ...
    @property
    def cores(self) -> int: ...
    @property
    def memory_gib(self) -> int: ...
    @property
    def architecture(self) -> str: ...


def create_nodes(api: Api, machines: Sequence[Machine], owner: str, version: str) -> None:
    """Create the machines' Nodes; existing ones are left unchanged.

    `owner` names the lab, so that `delete_nodes` deletes only this lab's Nodes. `version` is the
    kubelets' version.
    """

    def create(machine: Machine) -> None:
        _unless(409, api, "POST", "/api/v1/nodes", node_object(machine, owner, version))

    _in_parallel(create, machines)


def delete_nodes(api: Api, owner: str) -> None:
    """Delete the Nodes that the lab of this owner made."""

    def delete(node: JsonObject) -> None:
        _unless(404, api, "DELETE", f"/api/v1/nodes/{node['metadata']['name']}")

    nodes = list_nodes(api)
    _in_parallel(
        delete,
        [node for node in nodes if node["metadata"].get("annotations", {}).get(OWNER) == owner],
    )


def wait_for_nodes(api: Api, names: Iterable[str], timeout: float | None = None) -> None:
    """Wait until pods can be scheduled to each named Node; the default timeout grows with their
    number.
    """
    wanted = set(names)
    if timeout is None:
        timeout = READY_SECONDS + READY_SECONDS_A_NODE * len(wanted)

    def all_ready() -> bool:
        schedulable = [node["metadata"]["name"] for node in list_nodes(api) if is_schedulable(node)]
        return wanted.issubset(schedulable)

    wait_until(
        all_ready,
        timeout,
        f"{len(wanted)} nodes to become Ready (does KWOK run? see its log)",
        interval=0.1 + len(wanted) / 1000,
    )


def list_nodes(api: Api) -> list[JsonObject]:
    """Every Node, from the API server's cache."""
    items: list[JsonObject] = api.request("GET", "/api/v1/nodes?resourceVersion=0")["items"]
    return items


def is_schedulable(node: Mapping[str, Any]) -> bool:
    """Whether the Node is Ready and the node lifecycle controller has noticed it."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return ready and not node.get("spec", {}).get("taints")


def node_object(machine: Machine, owner: str, version: str) -> JsonObject:
    """The Node as its kubelet would register it."""
    resources = {
        "cpu": str(machine.cores),
        "memory": f"{machine.memory_gib}Gi",
        "pods": str(PODS_PER_NODE),
        "ephemeral-storage": EPHEMERAL_STORAGE,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.name,
            "labels": {
                "kubernetes.io/hostname": machine.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": machine.architecture,
                "node.kubernetes.io/instance-type": machine.server_type,
                "topology.kubernetes.io/zone": str(machine.rack),
                "wattwise.github.io/rack": str(machine.rack),
                "wattwise.github.io/rack-unit": str(machine.position),
            },
            "annotations": {"kwok.x-k8s.io/node": "fake", OWNER: owner},
        },
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": machine.internal_address},
                {"type": "Hostname", "address": machine.name},
            ],
            "nodeInfo": _node_info(machine, version),
        },
    }


def _node_info(machine: Machine, version: str) -> JsonObject:
    identifier = system_uuid(machine.name)
    return {
        "architecture": machine.architecture,
        "operatingSystem": "linux",
        "osImage": "wattwise lab",
        "kernelVersion": "6.12.0",
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "containerRuntimeVersion": "kwok://lab",
        "machineID": identifier.replace("-", ""),
        "systemUUID": identifier,
        "bootID": identifier,
    }


def _in_parallel(function: Callable[[T], None], items: Iterable[T]) -> None:
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        for _result in threads.map(function, items):
            pass


def _unless(status: int, api: Api, method: str, path: str, body: JsonObject | None = None) -> None:
    """Send a request; an error of this status means that nothing is left to do."""
    try:
        api.request(method, path, body)
    except ApiError as error:
        if error.status != status:
            raise
