# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods with devices and volumes on a real API server, with its PV controller and a provisioner."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from lab.process import wait_until
from lab.provisioner import SELECTED_NODE, Provisioner
from support.cluster_nodes import remove
from support.dra_lab import DraLab
from support.volume_objects import claim, csi_node, mounted, storage_class

Json = dict[str, t.Any]
# The cheapest node has no storage, the next one no devices.
WATTS = {1: 60, 2: 250, 3: 90}
DEVICES = [1, 1, 0]
STORED = (2, 3)


@pytest.fixture
def dra(kube: Kube, kubeconfig: str, namespace: str) -> Iterator[DraLab]:
    """Nodes with a device each on the first two, and storage on the last two."""
    found = DraLab(kube, kubeconfig, namespace)
    names = [found.node(number) for number in WATTS]
    try:
        found.set_up(DEVICES)
        for name in names:
            labels = {"metadata": {"labels": {"host": name}}}
            kube.request("PATCH", f"/api/v1/nodes/{name}", labels, MERGE_CONTENT_TYPE)
            kube.request("POST", "/apis/storage.k8s.io/v1/csinodes", csi_node(name, 4, namespace))
        stored = {"key": "host", "values": [found.node(number) for number in STORED]}
        topologies = [{"matchLabelExpressions": [stored]}]
        of_stored = storage_class(namespace, found.driver, allowedTopologies=topologies)
        kube.request("POST", "/apis/storage.k8s.io/v1/storageclasses", of_stored)
        yield found
    finally:
        found.tear_down()
        remove(kube, f"/apis/storage.k8s.io/v1/storageclasses/{namespace}")
        for name in names:
            remove(kube, f"/apis/storage.k8s.io/v1/csinodes/{name}")


@pytest.fixture
def plan(dra: DraLab, tmp_path: Path) -> str:
    """The plan for a pod with one device and one volume."""
    wanted = claim("disk", dra.namespace, namespace=dra.namespace)
    del wanted["metadata"]["uid"]
    dra.kube.request("POST", claims_path(dra), wanted)
    dra.add_claim("gpu")
    dra.add_pod("a", "gpu", volumes=mounted("disk"))
    taken = snapshot.take(
        {
            "kubeconfig": dra.kubeconfig,
            "include": ["pods", "device_objects", "volume_objects"],
            "selectors": {"nodes": f"test={dra.namespace}"},
        }
    )["snapshot"]
    fleet = {
        "nodes": taken["nodes"],
        "pods": [pod for pod in taken["pods"] if pod["metadata"]["namespace"] == dra.namespace],
        "device_objects": [one for one in taken["device_objects"] if is_of_test(dra, one)],
        "volume_objects": taken["volume_objects"],
        "curves": {
            dra.node(number): {"cpu": [0, 4], "watts": [50, watts]}
            for number, watts in WATTS.items()
        },
    }
    source, path = tmp_path / "fleet.yml", tmp_path / "plan.json"
    source.write_text(yaml.safe_dump(fleet))
    result = place({"src": [str(source)], "path": str(path)})
    assert [one["node"] for one in result["placements"]] == [dra.node(2)]
    return str(path)


def is_of_test(dra: DraLab, one: Json) -> bool:
    name, namespace = one["metadata"]["name"], one["metadata"].get("namespace", dra.namespace)
    return namespace == dra.namespace and (
        one["kind"] in ("ResourceClaim", "ResourceClaimTemplate") or name.startswith(dra.namespace)
    )


def claims_path(dra: DraLab) -> str:
    return f"/api/v1/namespaces/{dra.namespace}/persistentvolumeclaims"


def disk(dra: DraLab) -> Json:
    return dra.kube.get(f"{claims_path(dra)}/disk")


def condition(dra: DraLab) -> str:
    conditions = dra.kube.get(f"{dra.pods_path}/a")["status"].get("conditions", [])
    [found] = [one for one in conditions if one["type"] == "PodScheduled"]
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    return str(found["message"])


def assert_given_back(dra: DraLab) -> None:
    """The pod loses the device and the volume's node, and waits."""
    assert dra.node_of("a") is None
    assert dra.devices("gpu") == []
    assert not dra.claim("gpu").get("status", {}).get("reservedFor")
    assert SELECTED_NODE not in disk(dra)["metadata"]["annotations"]
    assert not disk(dra)["spec"].get("volumeName")
    assert dra.problems() == []


def test_a_pod_gets_a_node_with_its_device_and_its_volume(dra: DraLab, plan: str) -> None:
    with Provisioner(Path(dra.kubeconfig), dra.driver, "host"):
        result = dra.reconcile(plan=plan)
    actions = [(one["action"], one["kind"]) for one in result["changes"]]
    assert actions == [("allocated", "ResourceClaim"), ("bound", "Pod")]
    assert dra.node_of("a") == dra.node(2)
    assert dra.devices("gpu") == [(dra.node(2), "d0")]
    assert disk(dra)["metadata"]["annotations"][SELECTED_NODE] == dra.node(2)
    assert disk(dra)["status"]["phase"] == "Bound"
    assert dra.problems() == []
    wait_until(
        lambda: dra.kube.get(f"{dra.pods_path}/a")["status"]["phase"] == "Running", 30.0, "pod a"
    )
    before = dra.versions()
    assert dra.reconcile(plan=plan)["changed"] is False
    assert dra.versions() == before


def test_a_provisioner_without_storage_takes_the_device_back_too(dra: DraLab, plan: str) -> None:
    """The next run gives the pod both when there is storage."""
    full = frozenset({dra.node(2)})
    with Provisioner(Path(dra.kubeconfig), dra.driver, "host", full):
        result = dra.reconcile(plan=plan)
    reason = (
        f"binding volumes: claim {dra.namespace}/disk cannot have its volume on node {dra.node(2)}"
    )
    assert [one["detail"] for one in result["errors"] if one["name"] == "a"] == [reason]
    assert condition(dra) == reason
    assert_given_back(dra)
    with Provisioner(Path(dra.kubeconfig), dra.driver, "host"):
        dra.reconcile(plan=plan)
    assert (dra.node_of("a"), dra.devices("gpu")) == (dra.node(2), [(dra.node(2), "d0")])
    assert disk(dra)["status"]["phase"] == "Bound"


def test_a_provisioner_that_never_answers_is_awaited_as_long_as_the_option_says(
    dra: DraLab, plan: str
) -> None:
    begun = time.monotonic()
    result = dra.reconcile(plan=plan, volume_timeout=1.5)
    assert 1.5 <= time.monotonic() - begun < 30.0
    reason = (
        f"binding volumes: provisioner {dra.driver} made no volume for claim "
        f"{dra.namespace}/disk on node {dra.node(2)} in 2 s"
    )
    assert [one["detail"] for one in result["errors"] if one["name"] == "a"] == [reason]
    assert condition(dra) == reason
    assert_given_back(dra)
