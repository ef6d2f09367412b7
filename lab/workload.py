# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods that the demo and its test place, the same under either scheduler."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from lab import faults
from lab.api import CONNECTIONS, Api, ApiError
from lab.bmc.pods import FINISHED_PHASES
from lab.process import wait_until
from lab.state import LabSettings

JsonObject = dict[str, Any]
T = TypeVar("T")

NAMESPACE = "demo"


@dataclass(frozen=True)
class Shape:
    """Pods with the same requests; `share` is their part of all pods."""

    name: str
    cpu: str
    memory: str
    share: int
    architecture: str | None = None


# From many small services to a few large jobs, as clusters have them.
SHAPES = (
    Shape("web", "500m", "1Gi", 8),
    Shape("api", "1", "2Gi", 8),
    Shape("cache", "1", "8Gi", 4),
    Shape("worker", "2", "4Gi", 8),
    Shape("queue", "3", "6Gi", 4),
    Shape("stream", "4", "8Gi", 6),
    Shape("database", "6", "24Gi", 3),
    Shape("analytics", "8", "16Gi", 4, "amd64"),
    Shape("batch", "12", "24Gi", 3),
    Shape("training", "16", "48Gi", 2, "amd64"),
)


def demo_pods(count: int, seed: int) -> list[JsonObject]:
    """This many pods of the shapes, without scheduler; equal arguments give equal pods."""
    chance = random.Random(f"{seed} workload")
    weights = [shape.share for shape in SHAPES]
    chosen = chance.choices(SHAPES, weights, k=count)
    return [_pod(f"{shape.name}-{number:03d}", shape) for number, shape in enumerate(chosen)]


def _pod(name: str, shape: Shape) -> JsonObject:
    requests = {"cpu": shape.cpu, "memory": shape.memory}
    container = {"name": "main", "image": "example/none", "resources": {"requests": requests}}
    spec: JsonObject = {"containers": [container]}
    if shape.architecture:
        spec["nodeSelector"] = {"kubernetes.io/arch": shape.architecture}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": shape.name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def make_namespace(api: Api, name: str = NAMESPACE) -> None:
    """Create a namespace if it does not exist, and wait until pods can be created in it."""
    try:
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    except ApiError as error:
        if error.status != 409:
            raise
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: api.find(account) is not None, 20.0, f"the namespace {name}")


def create_pods(api: Api, pods: Sequence[JsonObject], scheduler: str) -> None:
    """Create the pods, for this scheduler to place."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def create(pod: JsonObject) -> None:
        spec = {**pod["spec"], "schedulerName": scheduler}
        api.request("POST", path, {**pod, "spec": spec})

    _in_parallel(create, pods)


def delete_pods(api: Api, settings: LabSettings, seconds: float = 60.0) -> None:
    """Delete the demo's pods; return when they are gone and no machine has their load."""
    names = [pod["metadata"]["name"] for pod in list_pods(api)]

    def delete(name: str) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}?gracePeriodSeconds=0"
        api.request("DELETE", path)

    _in_parallel(delete, names)
    wait_until(lambda: not list_pods(api), seconds, "the demo's pods to go", interval=0.2)
    wait_for_load(api, settings)


def list_pods(api: Api) -> list[JsonObject]:
    """The demo's pods."""
    pods: list[JsonObject] = api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return pods


def wait_until_bound(api: Api, count: int, settings: LabSettings, seconds: float = 60.0) -> None:
    """Return when this many pods have a node and the machines draw the power for them."""

    def all_bound() -> bool:
        return sum(bool(pod["spec"].get("nodeName")) for pod in list_pods(api)) == count

    wait_until(all_bound, seconds, f"{count} pods to be bound", interval=0.2)
    wait_for_load(api, settings)


def wait_for_load(api: Api, settings: LabSettings) -> None:
    """Return when the machines carry exactly the pods that the cluster has bound to them."""

    def carried() -> bool:
        loads = faults.call(settings, "GET", "/loads")
        return bool(loads["synchronised"] and loads["pods"] == _bound(api))

    wait_until(carried, 60.0, "the machines to carry what the cluster bound to them", interval=0.2)


def _bound(api: Api) -> int:
    """Number of pods in the whole cluster that have a node and are not finished."""
    pods: list[JsonObject] = api.request("GET", "/api/v1/pods")["items"]
    return sum(
        bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in FINISHED_PHASES
        for pod in pods
    )


def _in_parallel(work: Callable[[T], None], items: Sequence[T]) -> None:
    with ThreadPoolExecutor(CONNECTIONS) as executor:
        list(executor.map(work, items))
