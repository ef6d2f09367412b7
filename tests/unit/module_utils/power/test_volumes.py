# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods with volume claims go to the nodes that kube-scheduler would allow, with its reasons."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import STRATEGIES, place
from support.placement_checker import violations
from support.placement_rules import HOSTNAME
from support.volume_objects import ZONE, claim, csi_node, mounted, reachable, storage_class, volume

Json = dict[str, t.Any]
WAIT = storage_class("wait")
LOCAL = storage_class("local", "kubernetes.io/no-provisioner")


def node(name: str, zone: str, watts: int, **fields: t.Any) -> Json:
    return {
        "name": name,
        "labels": {HOSTNAME: name, ZONE: zone},
        "allocatable": {"cpu": "16"},
        "curve": {"cpu": [0, 16], "watts": [100, 100 + watts]},
        **fields,
    }


NODES = [node("cheap", "a", 10), node("dear", "b", 500)]


def pod(name: str, *claims: str, **more: t.Any) -> Json:
    return {"name": name, "requests": {"cpu": "1"}, "volumes": mounted(*claims), **more}


def solved(objects: list[Json], *pods: Json, nodes: list[Json] = NODES, **options: t.Any) -> Json:
    parameters = {"nodes": nodes, "pods": list(pods), "volume_objects": objects, **options}
    result = place(parameters)
    assert violations(parameters, result) == []
    return result


def where(result: Json) -> dict[str, str]:
    return {entry["pod"]: entry["node"] for entry in result["placements"]}


def message(result: Json) -> str:
    [entry] = result["unplaced"]
    return str(entry["message"])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_volume_keeps_its_pod_near(strategy: str) -> None:
    objects = [WAIT, claim("data", volume="v"), volume("v", zone="b")]
    result = solved(objects, pod("p", "data"), strategy=strategy)
    assert where(result) == {"p": "dear"}


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([], '0/2 nodes are available: persistentvolumeclaim "data" not found.'),
        (
            [claim("data", None)],
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        ),
        (
            [claim("data", "absent")],
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        ),
        (
            [WAIT, claim("data", volume="v"), volume("v", zone="mars")],
            "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.",
        ),
        (
            [WAIT, claim("data", volume="v"), volume("v", labels={ZONE: "mars"})],
            "0/2 nodes are available: 2 node(s) had no available volume zone.",
        ),
        (
            [WAIT, claim("data"), csi_node("cheap", 0), csi_node("dear", 0)],
            "0/2 nodes are available: 2 node(s) exceed max volume count.",
        ),
    ],
)
def test_a_pod_without_a_node_says_why_as_kube_scheduler_does(
    objects: list[Json], text: str
) -> None:
    assert message(solved(objects, pod("p", "data"))) == text


def test_a_volume_elsewhere_than_every_fitting_node_leaves_the_pod_waiting() -> None:
    objects = [WAIT, claim("data", volume="v"), volume("v", zone="b")]
    result = solved(objects, pod("p", "data", node_selector={ZONE: "a"}))
    assert message(result) == (
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 "
        "node(s) didn't match Pod's node affinity/selector."
    )


def test_without_objects_of_storage_a_claim_is_not_supported() -> None:
    result = place({"nodes": NODES, "pods": [pod("p", "data")]})
    assert message(result) == (
        "0/2 nodes are available: 2 unsupported: spec.volumes.persistentVolumeClaim."
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_pods_do_not_share_an_exclusive_claim(strategy: str) -> None:
    objects = [WAIT, claim("data", volume="v", modes=("ReadWriteOncePod",)), volume("v")]
    result = solved(objects, pod("p", "data", count=2), strategy=strategy)
    assert where(result) == {"p-0": "cheap"}
    assert "ReadWriteOncePod access mode already in-use" in message(result)


def test_pods_that_share_a_new_volume_get_one_node() -> None:
    nodes = [node("cheap", "a", 10, allocatable={"cpu": "1"}), NODES[1]]
    result = solved([WAIT, claim("data")], pod("p", "data", count=2), nodes=nodes)
    assert where(result) == {"p-0": "dear", "p-1": "dear"}


def test_new_volumes_of_many_pods_count_against_the_limit_of_a_driver() -> None:
    objects = [WAIT, csi_node("cheap", 2), *(claim(f"c{i}") for i in range(4))]
    result = solved(objects, *(pod(f"p{i}", f"c{i}") for i in range(4)))
    assert sorted(where(result).values()) == ["cheap", "cheap", "dear", "dear"]
    assert result["proven"]


def test_a_volume_that_is_there_already_counts_once() -> None:
    objects = [WAIT, csi_node("cheap", 1), claim("data", volume="v"), volume("v")]
    running = [{**pod("old", "data"), "node_name": "cheap"}]
    result = solved(objects, pod("p", "data", count=2), running=running)
    assert set(where(result).values()) == {"cheap"}


READ = {"rbd": {"monitors": ["m"], "image": "i", "readOnly": True}}
WRITE = {"rbd": {"monitors": ["m"], "image": "i"}}


def with_disk(name: str, disk: Json, **more: t.Any) -> Json:
    return {**pod(name, **more), "volumes": [{"name": "disk", **disk}]}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_node_has_a_disk_without_a_claim_once_or_for_readers(strategy: str) -> None:
    readers = [with_disk("r", READ, count=2)]
    result = solved([], *readers, with_disk("w", WRITE), strategy=strategy)
    found = where(result)
    assert found.get("w") not in (found["r-0"], found["r-1"])
    assert strategy != "optimal" or len(found) == 3
    both = [{**with_disk(f"old-{name}", READ), "node_name": name} for name in ("cheap", "dear")]
    refused = solved([], with_disk("w", WRITE), running=both, strategy=strategy)
    assert message(refused) == "0/2 nodes are available: 2 node(s) had no available disk."


def test_disks_without_a_claim_count_against_the_limit_of_their_driver() -> None:
    disks = [{"cinder": {"volumeID": f"v{index}"}} for index in range(3)]
    limits = [csi_node(name, 1, "cinder.csi.openstack.org") for name in ("cheap", "dear")]
    pods = [with_disk(f"p{index}", disk) for index, disk in enumerate(disks)]
    result = place({"nodes": NODES, "pods": pods, "volume_objects": limits})
    assert sorted(where(result).values()) == ["cheap", "dear"]
    assert message(result) == "0/2 nodes are available: 2 node(s) exceed max volume count."
    unknown = place({"nodes": NODES, "pods": pods[:1]})
    assert message(unknown) == "0/2 nodes are available: 2 unsupported: spec.volumes.cinder."


@pytest.mark.parametrize("key", [HOSTNAME, ZONE])
def test_each_claim_gets_a_volume_of_its_own(key: str) -> None:
    """One of two volumes on the cheap node is too small for one of the claims."""
    values = ("cheap", "dear") if key == HOSTNAME else ("a", "b")
    objects = [
        LOCAL,
        *(claim(f"c{i}", "local", size="2Gi") for i in range(3)),
        volume("large", "local", size="9Gi", nodeAffinity=reachable(key, values[0])),
        volume("small", "local", size="1Gi", nodeAffinity=reachable(key, values[0])),
        volume("far", "local", size="2Gi", nodeAffinity=reachable(key, values[1])),
    ]
    result = solved(objects, *(pod(f"p{i}", f"c{i}") for i in range(3)))
    assert sorted(where(result).values()) == ["cheap", "dear"]
    assert "didn't find available persistent volumes to bind" in message(result)


def test_volumes_of_a_zone_are_shared_by_its_nodes() -> None:
    nodes = [*NODES, node("third", "a", 20)]
    objects = [LOCAL, volume("v", "local", zone="a"), *(claim(f"c{i}", "local") for i in range(2))]
    result = solved(objects, pod("p", "c0"), pod("q", "c1"), nodes=nodes)
    assert list(where(result).values()) == ["cheap"]
