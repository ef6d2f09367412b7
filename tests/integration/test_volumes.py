# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods with claims from the snapshot to their node, on a real API server and PV controller."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from lab.process import wait_until
from lab.provisioner import SELECTED_NODE, Provisioner
from support.carried_out_plans import bind
from support.cluster_nodes import make_node, remove
from support.volume_objects import claim, csi_node, mounted, reachable, storage_class, volume

Json = dict[str, t.Any]
FLAT = {"cpu": [0, 4], "watts": [50, 90]}
STEEP = {"cpu": [0, 4], "watts": [50, 250]}
Make = Callable[..., None]


@pytest.fixture
def nodes(kube: Kube, namespace: str) -> Iterator[list[str]]:
    """A cheap node and an expensive one, only for this test."""
    names = [f"{namespace}-n1", f"{namespace}-n2"]
    for name in names:
        make_node(kube, name, namespace)
        body = {"metadata": {"labels": {"host": name}}}
        kube.request("PATCH", f"/api/v1/nodes/{name}", body, "application/merge-patch+json")
    yield names
    for name in names:
        remove(kube, f"/api/v1/nodes/{name}")
        remove(kube, f"/apis/storage.k8s.io/v1/csinodes/{name}")


@pytest.fixture
def make(kube: Kube, namespace: str) -> Iterator[Make]:
    """Creates objects of storage, and deletes the cluster-scoped ones after the test."""
    made = []

    def create(*objects: Json) -> None:
        for item in objects:
            metadata = {"name": item["metadata"]["name"]}
            body = {**item, "metadata": metadata}
            collection = {
                "PersistentVolumeClaim": f"/api/v1/namespaces/{namespace}/persistentvolumeclaims",
                "PersistentVolume": "/api/v1/persistentvolumes",
            }.get(item["kind"], f"/apis/storage.k8s.io/v1/{item['kind'].lower()}es")
            if item["kind"] == "CSINode":
                collection = "/apis/storage.k8s.io/v1/csinodes"
            kube.request("POST", collection, body)
            made.append(f"{collection}/{metadata['name']}")

    yield create
    for path in made:
        remove(kube, path)


@pytest.fixture
def make_pod(kube: Kube, namespace: str) -> Callable[..., Json]:
    def create(name: str, *claims: str, **volume_of_pod: t.Any) -> Json:
        resources = {"requests": {"cpu": "100m"}}
        container = {"name": "main", "image": "registry.example/none:1", "resources": resources}
        volumes = mounted(*claims)
        if volume_of_pod:
            volumes.append({"name": "scratch", **volume_of_pod})
        spec = {
            "schedulerName": namespace,
            "containers": [container],
            "nodeSelector": {"test": namespace},
            "tolerations": [{"key": "test", "operator": "Exists"}],
            "volumes": volumes,
        }
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return kube.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    return create


@pytest.fixture
def placed(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str]
) -> Callable[..., tuple[Json, Json]]:
    """Places and binds the namespace's pending pods; returns the plan and the result of binding."""

    def run(**options: t.Any) -> tuple[Json, Json]:
        include = ["pods", "namespaces", "volume_objects"]
        selectors = {"nodes": f"test={namespace}"}
        taken = snapshot.take(
            {"kubeconfig": kubeconfig, "include": include, "selectors": selectors}
        )["snapshot"]
        pods = [pod for pod in taken["pods"] if pod["metadata"]["namespace"] == namespace]
        plan = place(
            {
                "nodes": taken["nodes"],
                "pods": [pod for pod in pods if not pod["spec"].get("nodeName")],
                "running": [pod for pod in pods if pod["spec"].get("nodeName")],
                "src": [],
                "namespaces": taken["namespaces"],
                "volume_objects": taken["volume_objects"],
                "allow_power_off": True,
            }
            | {"nodes": [_with_curve(node, nodes) for node in taken["nodes"]]}
        )
        return plan, bind({"kubeconfig": kubeconfig, **_of_plan(plan), **options})

    return run


def _of_plan(plan: Json) -> Json:
    parts = ("namespace", "pod", "node", "uid")
    return {
        "placements": [{part: each[part] for part in parts} for each in plan["placements"]],
        "unplaced": plan["unplaced"],
    }


def _with_curve(node: Json, nodes: list[str]) -> Json:
    """The short form of a node; the first is the cheaper one."""
    return {
        "name": node["metadata"]["name"],
        "labels": node["metadata"]["labels"],
        "taints": node["spec"].get("taints", []),
        "allocatable": node["status"]["allocatable"],
        "curve": FLAT if node["metadata"]["name"] == nodes[0] else STEEP,
    }


def node_of(kube: Kube, namespace: str, name: str) -> str | None:
    pod = kube.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return t.cast("str | None", pod["spec"].get("nodeName"))


def claim_of(kube: Kube, namespace: str, name: str) -> Json:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
    return kube.get(path)


def test_pods_get_nodes_with_their_volumes(
    kube: Kube,
    kubeconfig: str,
    namespace: str,
    nodes: list[str],
    make: Make,
    make_pod: Callable[..., Json],
    placed: Callable[[], tuple[Json, Json]],
) -> None:
    """A new volume, existing volumes, an ephemeral one; each pod's node reaches its volume."""
    driver, wait, local = f"{namespace}.example.com", f"{namespace}-wait", f"{namespace}-local"
    make(storage_class(wait, driver), storage_class(local, "kubernetes.io/no-provisioner"))
    make(*(csi_node(name, 2, driver) for name in nodes))
    make(claim("new-1", wait), claim("new-2", wait), claim("there", local), claim("never", local))
    make(
        volume(f"{namespace}-v", local, nodeAffinity=reachable("host", nodes[1])),
        volume(f"{namespace}-far", local, zone="mars", size="9Gi"),
    )
    make(claim("only", local, size="2Gi", modes=("ReadWriteOncePod",)))
    template = {"spec": {**claim("x", wait)["spec"]}}
    make_pod("first", "new-1")
    make_pod("second", "new-2")
    make_pod("third", ephemeral={"volumeClaimTemplate": template})
    make_pod("fixed", "there")
    make_pod("left-out", "only")
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/third-scratch"
    wait_until(lambda: kube.find(path) is not None, 30.0, "the claim of the ephemeral volume")
    available = f"/api/v1/persistentvolumes/{namespace}-v"
    wait_until(
        lambda: kube.get(available)["status"].get("phase") == "Available", 30.0, "the volume"
    )
    with Provisioner(Path(kubeconfig), driver, "host"):
        plan, result = placed()
    assert result["errors"] == [] and result["skipped"] == []
    where = [node_of(kube, namespace, name) for name in ("first", "second", "third")]
    assert sorted(str(name) for name in where) == [nodes[0], nodes[0], nodes[1]]
    assert node_of(kube, namespace, "fixed") == nodes[1]
    for name in ("new-1", "new-2", "third-scratch", "there"):
        assert claim_of(kube, namespace, name)["status"]["phase"] == "Bound"
    [unplaced] = plan["unplaced"]
    assert unplaced["message"] == (
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    )


def test_claims_without_a_volume_are_given_back(
    kube: Kube,
    kubeconfig: str,
    namespace: str,
    nodes: list[str],
    make: Make,
    make_pod: Callable[..., Json],
    placed: Callable[..., tuple[Json, Json]],
) -> None:
    """One provisioner never answers, another has no storage for the node; one class is missing."""
    full, absent = f"full.{namespace}.example.com", f"absent.{namespace}.example.com"
    make(storage_class(f"{namespace}-a", absent), storage_class(f"{namespace}-f", full))
    make(claim("absent", f"{namespace}-a"), claim("full", f"{namespace}-f"))
    make(claim("without", ""))
    for name in ("absent", "full", "without"):
        make_pod(name, name)
    with Provisioner(Path(kubeconfig), full, "host", frozenset(nodes)):
        plan, result = placed(volume_timeout=1.5)
    assert {entry["pod"]: entry["reason"] for entry in result["skipped"]} == {
        "absent": f"binding volumes: provisioner {absent} made no volume for claim "
        f"{namespace}/absent on node {nodes[0]} in 2 s",
        "full": f"binding volumes: claim {namespace}/full cannot have its volume on node "
        f"{nodes[0]}",
    }
    for name in ("absent", "full"):
        assert SELECTED_NODE not in claim_of(kube, namespace, name)["metadata"]["annotations"]
    [unplaced] = plan["unplaced"]
    assert unplaced["message"] == (
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    )
    pod = kube.get(f"/api/v1/namespaces/{namespace}/pods/absent")
    [condition] = [each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert "made no volume" in condition["message"]
