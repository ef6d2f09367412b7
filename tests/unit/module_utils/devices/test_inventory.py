# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of each node and their holders, read from the objects of both APIs."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.devices.inventory import (
    NETWORK,
    Holder,
    Inventory,
    Partition,
    inventory,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.findings import ApiObject
from support.device_objects import device_claim, device_pool, dra_device, resource_slice
from support.report_shares import device_objects, gpu_slice

Json = dict[str, t.Any]


def read(*objects: Json) -> Inventory:
    return inventory([ApiObject(item) for item in objects])


def node(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def prototype_claim(name: str, *allocations: Json, kind: str = "DeviceClaim") -> Json:
    status = {"allocations": list(allocations), "podNames": ["p"]}
    return {**device_claim(name), "kind": kind, "status": status}


def test_each_node_has_its_devices_and_who_holds_them() -> None:
    found = read(*device_objects(["n1", "n2"]))
    assert [holder.pods for holder in found.holders] == [
        ("ml/train-n1",), ("ml/infer-n1",), ("ml/network-n1",),
    ]  # fmt: skip
    wholes = [(one.name, one.holders, bool(one.unusable)) for one in found.nodes["n1"].whole]
    assert wholes == [("fpga-0", (), True), ("gpu-2", (1,), False), ("gpu-3", (), False)]
    assert [one.parts for one in found.nodes["n2"].divided] == [(), (), ()]
    assert found.problems == []


def test_a_gpu_is_its_slices_and_each_partition_has_its_place() -> None:
    first, second = read(*device_objects(["n1"])).nodes["n1"].divided[:2]
    assert (first.name, first.units, first.slices) == ("gpu-0", 8, True)
    assert (first.used, first.capacity, first.amount) == ("25Gi", "40Gi", "memory")
    assert first.parts == (
        Partition("gpu-0-mig-1g-5gb-0", 1, 0, 1),
        Partition("gpu-0-mig-3g-20gb-4", 0, 4, 4),
    )
    assert (second.name, second.parts) == ("gpu-1", ())


def test_without_slices_memory_gives_the_scale() -> None:
    objects = [gpu_slice("n1", slice_of=""), *device_objects(["n1"])[4:]]
    [first, *_others] = read(*objects).nodes["n1"].divided
    assert (first.slices, first.units) == (False, 40 * 2**30 * 1000)
    assert [part.size / 2**30 / 1000 for part in first.parts] == [5, 20]
    assert [part.first / 2**30 / 1000 for part in first.parts] == [0, 5]


def test_a_shared_device_is_divided_by_its_portions() -> None:
    card = read(*device_objects(["n1"])).nodes["n1"].divided[2]
    assert (card.name, card.used, card.capacity) == ("nic-0", "50", "100")
    assert card.parts == (Partition("nic-0", 2, 0, 50_000),)


def test_the_prototype_s_pools_count_and_divide_likewise() -> None:
    devices: list[Json] = [
        {"name": "gpu-0", "sharedResourcesConsumed": {"memory": "40Gi"}},
        {"name": "gpu-0-mig-0", "sharedResourcesConsumed": {"memory": "10Gi", "slice-0": 1}},
        {"name": "gpu-0-mig-1", "sharedResourcesConsumed": {"memory": "10Gi", "slice-1": 1}},
    ]
    amounts: Json = {"memory": "40Gi", "slice-0": 1, "slice-1": 1, "slice-2": 1, "slice-3": 1}
    shared = [{"name": name, "capacity": amount} for name, amount in amounts.items()]
    found = read(
        node("n1"),
        node("n2"),
        device_pool("counted", "n1", "example.com-foozer", count=3),
        device_pool("gpus", "n2", "example.com-gpu", devices=devices, sharedResources=shared),
        device_pool("far", None, "example.com-far", count=1),
        prototype_claim("two", {"devicePoolName": "counted", "deviceCount": 2}),
        prototype_claim("mig", {"devicePoolName": "gpus", "deviceName": "gpu-0-mig-1"}),
        prototype_claim(
            "look", {"devicePoolName": "far", "deviceCount": 1}, kind="DevicePrivilegedClaim"
        ),
    )
    assert [one.holders for one in found.nodes["n1"].whole] == [(0,), (0,), ()]
    assert found.nodes["n2"].divided[0].parts == (Partition("gpu-0-mig-1", 1, 1, 1),)
    assert [one.holders for one in found.nodes[NETWORK].whole] == [()]
    assert found.holders == [
        Holder("default/two", ("default/p",)),
        Holder("default/mig", ("default/p",)),
    ]


def test_a_whole_gpu_that_names_no_slice_has_all_of_them() -> None:
    devices: list[Json] = [
        {"name": "gpu-0", "sharedResourcesConsumed": {"memory": "40Gi"}},
        {"name": "gpu-0-mig-0", "sharedResourcesConsumed": {"memory": "10Gi", "slice-0": 1}},
    ]
    shared: list[Json] = [{"name": "memory", "capacity": "40Gi"}]
    shared += [{"name": f"slice-{place}", "capacity": 1} for place in range(4)]
    whole = prototype_claim("all", {"devicePoolName": "gpus", "deviceName": "gpu-0"})
    pool = device_pool("gpus", "n1", "example.com-gpu", devices=devices, sharedResources=shared)
    [gpu] = read(node("n1"), pool, whole).nodes["n1"].divided
    assert (gpu.slices, gpu.units) == (True, 4)
    assert gpu.parts == (Partition("gpu-0", 0, 0, 4),)


def test_what_cannot_be_read_is_told_and_stops_nothing() -> None:
    bad = device_pool("bad", "n1", "example.com-foozer", count="three")
    unknown = prototype_claim("lost", {"devicePoolName": "gone", "deviceName": "x"})
    good = device_pool("good", "n1", "example.com-foozer", count=1)
    found = read(node("n1"), bad, good, unknown)
    assert len(found.nodes["n1"].whole) == 1
    assert len(found.problems) == 2 and "spec.count" in found.problems[0]


def test_a_pool_without_a_count_is_exhausted() -> None:
    """The prototype's encoder leaves a count of zero out."""
    empty = device_pool("empty", "n1", "example.com-foozer")
    good = device_pool("good", "n1", "example.com-foozer", count=1)
    found = read(node("n1"), empty, good)
    assert len(found.nodes["n1"].whole) == 1
    assert not found.problems


def test_devices_of_a_claim_without_pod_are_held_for_the_claim() -> None:
    [claim] = device_objects(["n1"])[-1:]
    del claim["status"]["reservedFor"]
    card = [one for one in device_objects(["n1"]) if one["metadata"]["name"] == "n1-nic-slice"]
    assert read(*card, claim).holders == [Holder("ml/network-n1-gpu", ())]


def test_devices_that_a_slice_gives_to_several_nodes_are_of_the_network() -> None:
    shared = resource_slice("far", [dra_device("d")], nodeName=None, allNodes=True)
    assert list(read(node("n1"), node("n2"), shared).nodes) == [NETWORK]
