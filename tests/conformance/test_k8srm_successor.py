# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The samples of the prototype's successor: 22 requests, 4 sets of pools, and the effects."""

from __future__ import annotations

import hashlib
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import (
    allocate,
    read_task,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.findings import ApiObject
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import Alternative
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.task import Options
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.usage import Usage
from support.device_objects import attributes, device_claim, device_class, pod
from support.k8srm_samples import (
    CLASSES,
    FOOZER,
    NETWORKS,
    PF,
    SAMPLES,
    SIMPLE_GPUS,
    SPLIT,
    SRIOV_0,
    VF,
    a100,
    gpus,
    inline,
)

Json = dict[str, t.Any]


@pytest.mark.parametrize(("name", "asked", "pools", "expected"), SAMPLES)
def test_a_sample_is_answered(
    name: str, asked: Json, pools: list[Json], expected: list[str] | None
) -> None:
    asking = pod(name, [{"name": "devices", "claimName": "my-claim"}])
    objects = [*pools, *CLASSES, device_claim("my-claim", **asked), asking]
    result = allocate({"objects": objects, "strategy": "first_fit"})
    [allocation] = result["allocations"]
    got = allocation and [one["deviceName"] for one in allocation["allocations"]]
    assert got == expected
    assert result["outcome"] == ("infeasible" if expected is None else "allocated")


def test_devices_may_stand_in_the_pod_itself() -> None:
    asking = pod("my-pod", [])
    asking["spec"]["deviceClaims"] = inline(VF, VF, PF)
    [allocation] = allocate({"objects": [*SRIOV_0, *CLASSES, asking]})["allocations"]
    assert len(allocation["allocations"]) == 3


def test_networks_are_handed_on_as_configurations() -> None:
    claim = device_claim("c", **inline(*NETWORKS))
    [allocation] = allocate({"objects": [*SRIOV_0, *CLASSES, claim]})["allocations"]
    names = [item["name"] for item in allocation["claimConfigs"]]
    assert names == ["bluenet", "rednet", "greennet"]


@pytest.mark.parametrize("name", ["two-pods-one-gpu-0", "two-pods-one-gpu-1"])
def test_two_pods_share_a_claim_on_one_node(name: str) -> None:
    config = {"configs": [{"apiVersion": "v1", "kind": "GPUSharingConfig", "name": "share"}]}
    more = config if name.endswith("1") else {}
    claim = device_claim("my-shared-gpu", **inline({**FOOZER, **more}))
    pods = [pod(f"{name}-{n}", [{"name": "gpu", "claimName": "my-shared-gpu"}]) for n in range(2)]
    result = allocate({"objects": [*SIMPLE_GPUS, *CLASSES, claim, *pods]})
    [allocation] = result["allocations"]
    assert [one["deviceName"] for one in allocation["allocations"]] == ["dev-00"]
    assert [len(node["pods"]) for node in result["node_results"]] == [2, 2]


def test_portions_of_a_split_allocation_add_up_to_what_was_asked_for() -> None:
    claim = device_claim("c", **inline({**FOOZER, **SPLIT, "allowShared": True}))
    [allocation] = allocate({"objects": [gpus(4, "foozer-4000"), *CLASSES, claim]})["allocations"]
    parts = [one["allocations"][0]["allocation"] for one in allocation["allocations"]]
    assert parts == ["40Gi", "40Gi", "40Gi", "8Gi"]


def test_a_count_beside_requests_and_a_mapping_of_resources_are_reported() -> None:
    beside = inline({"allOf": [{**FOOZER, "devices": 2, "requests": {}}]})
    mapped = {**SRIOV_0[0], "metadata": {"name": "mapped"}}
    mapped["spec"] = {**mapped["spec"], "sharedResources": {"vfs-pf-0": 2, "vfs-pf-1": 2}}
    objects = [*SIMPLE_GPUS, mapped, *CLASSES, device_claim("c", **beside)]
    result = allocate({"objects": objects})
    assert len(result["allocations"][0]["allocations"]) == 2
    assert {found["field"] for found in result["findings"]} == {
        "spec.devices[0].allOf[0].devices",
        "spec.sharedResources",
    }


# Memory in Mi, memory slices, and compute by name, of each profile with its placements.


def feasible_sets() -> Iterator[tuple[str, ...]]:
    """Every set of partitions that can exist together according to the accounting."""
    task = read_task([ApiObject(a100()), ApiObject(device_claim("c", driver="nvidia"))], Options())
    usage, devices = Usage(task.instance), task.instance.devices
    one = Alternative(0, whole=True)

    def grow(first: int, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for device in range(first, len(devices)):
            portions = usage.portions(device, one)
            if portions is None:
                continue
            usage.take(device, portions)
            grown = (*names, devices[device].name)
            yield grown
            yield from grow(device + 1, grown)
            usage.give_back(device, portions)

    yield from grow(0, ())


def test_an_a100_has_exactly_the_published_sets_of_partitions() -> None:
    sets = list(feasible_sets())
    sizes = {size: sum(len(one) == size for one in sets) for size in range(1, 8)}
    assert len(sets) == 2319
    assert sizes == {1: 26, 2: 185, 3: 581, 4: 825, 5: 536, 6: 151, 7: 15}
    lines = sorted(" ".join(sorted(one)) for one in sets)
    fingerprint = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    assert fingerprint == "6aed887b5f210d034ced99ccae8ca203fa2b535eba56378ca68cdfde8c1f9e76"


def test_the_published_names_of_memory_slices_are_refused() -> None:
    """The published pool limits memory-slices-0 and consumes memory-slices-00."""
    objects = [a100("memory-slices-0{}"), device_claim("c", driver="nvidia")]
    with pytest.raises(InvalidInput, match="memory-slices-00: the pool has no such resource.*"):
        allocate({"objects": objects})


def test_partitions_of_eight_gpus_are_given_to_pods() -> None:
    """The successor's instance of two nodes with eight GPUs each, with a request for one partition
    each.
    """
    pools = []
    for node in range(2):
        for number in range(8):
            pool = a100()
            pool["metadata"] = {"name": f"node-0{node}-gpu-{number}"}
            pool["spec"]["nodeName"] = f"node-0{node}"
            pools.append(pool)
    large = device_class(
        "half", driver="nvidia", constraints="has(device.profile) && device.profile == '3g.20gb'"
    )
    for pool in pools:
        for device in pool["spec"]["devices"]:
            profile = device["name"].removeprefix("gpu-0-mig-").rpartition("-")[0]
            device["attributes"] = attributes(profile=profile)
    pods = [pod(f"p{n}", [{"name": "gpu", "template": {"class": "half"}}]) for n in range(33)]
    result = allocate({"objects": [*pools, large, *pods]})
    got = [found is not None for found in result["allocations"]]
    assert got == [True] * 32 + [False]
