# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The prototype's published classes with their defects, and its nine use cases."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from support.device_objects import attributes, device_claim, device_class, device_pool, pod

SAMPLES = Path(__file__).parent / "k8srm"
CLASSES = str(SAMPLES / "classes.yaml.in")
USE_CASES = yaml.safe_load((SAMPLES / "use_cases.yaml").read_text(encoding="utf-8"))
Json = dict[str, t.Any]

GPU = device_pool(
    "gpus", "n1", "example.com-foozer", count=2, attributes=attributes(vendor="example.com")
)


def findings() -> dict[str, Json]:
    result = allocate(
        {"src": [CLASSES], "objects": [GPU, device_claim("c", deviceClass="gpu-set")]}
    )
    return {found["name"]: found for found in result["findings"]}


@pytest.mark.parametrize(
    ("name", "field", "intention"),
    [
        ("foozer-single", "spec.deviceMaxCount", "probably maxDeviceCount is meant"),
        ("sriov-nic", "spec.deviceTypes", "probably deviceType is meant"),
        ("sriov-nic-1Gbps", "spec.contstraints", "probably constraints is meant"),
        ("gpu-single", "spec.constraints", "device.vendor == 'example.com'"),
        ("sriov-nic-1Gbps-or-faster", "spec.constraints", "quantity('1G')"),
    ],
)
def test_a_defect_of_a_published_class_is_reported(name: str, field: str, intention: str) -> None:
    found = findings()[name]
    assert (found["file"], found["field"]) == (CLASSES, field)
    assert intention in f"{found['problem']} {found['intention']}"


def test_nothing_else_is_found_in_the_published_classes() -> None:
    assert len(findings()) == 5


@pytest.mark.parametrize("name", ["foozer-single", "sriov-nic", "sriov-nic-1Gbps", "gpu-single"])
def test_a_claim_for_a_defective_class_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{CLASSES}: DeviceClass {name}: spec"):
        allocate({"src": [CLASSES], "objects": [GPU, device_claim("c", deviceClass=name)]})


def test_a_class_adds_its_driver_constraints_and_matches() -> None:
    """Upstream never looks up classes."""
    mixed = device_pool(
        "mixed",
        "n1",
        "example.com-foozer",
        devices=[
            {"name": "a", "attributes": attributes(model="m1", firmwareVersion="1")},
            {"name": "b", "attributes": attributes(model="m1", firmwareVersion="2")},
            {"name": "c", "attributes": attributes(model="m1", firmwareVersion="2")},
        ],
    )
    claim = device_claim("two", deviceClass="consistent-gpu-set", minDeviceCount=2)
    [allocation] = allocate({"src": [CLASSES], "objects": [mixed, claim]})["allocations"]
    assert [one["deviceName"] for one in allocation["allocations"]] == ["b", "c"]


def test_configurations_of_class_and_claim_are_handed_on() -> None:
    vlans = device_pool("vlans", "n1", "vlan", count=1)
    own = {"apiVersion": "foozer.example.com/v1alpha1", "kind": "FoozerConfig", "name": "superfast"}
    claim = device_claim("c", deviceClass="vlan-2000", configs=[own])
    [allocation] = allocate({"src": [CLASSES], "objects": [vlans, claim]})["allocations"]
    assert [item["name"] for item in allocation["classConfigs"]] == ["vlan-driver-vlan-2000"]
    assert allocation["claimConfigs"] == [own]


def machine(gpus: t.Mapping[str, int], functions: int, vendors: t.Sequence[str]) -> list[Json]:
    """One node: GPUs by model and PCIe root, and NICs with virtual functions."""
    pools: list[Json] = []
    for root, (model, count) in enumerate(gpus.items()):
        devices = [
            {
                "name": f"{model}-{number}",
                "resources": [{"name": "memory", "capacity": "80Gi", "blockSize": "1Gi"}]
                if model == "h100"
                else [],
                "attributes": attributes(pcie_root=f"root-{root}", numa=root // 2, model=model),
            }
            for number in range(count)
        ]
        pools.append(device_pool(f"{model}s", "n1", "nvidia", devices=devices))
    for number, vendor in enumerate(vendors):
        near = attributes(pcie_root=f"root-{number}", numa=number // 2, vendor=vendor)
        devices = [{"name": "pf", "attributes": [*near, *attributes(type="pf")]}]
        devices += [
            {"name": f"vf-{one}", "attributes": [*near, *attributes(type="vf", pf=f"pf-{number}")]}
            for one in range(functions)
        ]
        pools.append(device_pool(f"nic-{number}", "n1", vendor, devices=devices))
    return pools


THEIR_CLASSES = [
    device_class("nvidia-a100", driver="nvidia", constraints="device.model == 'a100'"),
    device_class("nvidia-h100", driver="nvidia", constraints="device.model == 'h100'"),
    device_class("nvidia-h100-mps", driver="nvidia", constraints="device.model == 'h100'"),
    device_class("nvidia-l4", driver="nvidia", constraints="device.model == 'l4'"),
    device_class("sriov-vf", driver="intel", constraints="device.type == 'vf'"),
    device_class("any-vf", constraints="'type' in device && device.type == 'vf'"),
    device_class("sriov-pf", constraints="'type' in device && device.type == 'pf'"),
]
LARGE = machine({"a100": 2, "l4": 2, "h100": 1}, 4, ["intel", "intel", "mellanox", "mellanox"])


def chosen(name: str, pools: list[Json], **more: t.Any) -> list[str] | None:
    """The devices for a use case's claim, as pool/device; None if there are none."""
    asking = pod("my-pod", [{"name": "devices", "template": USE_CASES[name]}])
    options = {"strategy": "first_fit", **more}
    result = allocate({"objects": [*pools, *THEIR_CLASSES, asking], **options})
    [allocation] = result["allocations"]
    if allocation is None:
        return None
    return [f"{one['devicePoolName']}/{one['deviceName']}" for one in allocation["allocations"]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "four virtual functions of one class",
            ["nic-0/vf-0", "nic-0/vf-1", "nic-0/vf-2", "nic-0/vf-3"],
        ),
        (
            "four virtual functions of any vendor on one physical function",
            ["nic-0/vf-0", "nic-0/vf-1", "nic-0/vf-2", "nic-0/vf-3"],
        ),
        ("two GPUs on one PCIe root", ["a100s/a100-0", "a100s/a100-1"]),
        ("two named GPUs on one PCIe root", ["a100s/a100-0", "a100s/a100-1"]),
        ("a GPU and any physical function on one PCIe root", ["a100s/a100-0", "nic-0/pf"]),
        ("the best of three kinds of GPUs", ["a100s/a100-0"]),
        ("a virtual function near the best of three kinds of GPUs", ["nic-0/vf-0", "a100s/a100-0"]),
        ("four virtual functions of one vendor on four physical functions", None),
        ("part of a shared GPU", ["h100s/h100-0"]),
    ],
)
def test_a_use_case_is_answered(name: str, expected: list[str] | None) -> None:
    assert chosen(name, LARGE) == expected
    best = chosen(name, LARGE, strategy="optimal")
    assert (best is None) is (expected is None)
    assert len(best or []) == len(expected or [])


def test_there_are_nine_use_cases() -> None:
    assert len(USE_CASES) == 9


@pytest.mark.parametrize(
    ("name", "pools", "expected"),
    [
        (
            "four virtual functions of any vendor on one physical function",
            machine({}, 3, ["intel", "intel"]),
            None,
        ),
        ("two GPUs on one PCIe root", machine({"a100": 1}, 0, []), None),
        (
            "the best of three kinds of GPUs",
            machine({"l4": 2, "h100": 1}, 0, []),
            ["h100s/h100-0"],
        ),
        ("the best of three kinds of GPUs", machine({"l4": 2}, 0, []), ["l4s/l4-0", "l4s/l4-1"]),
        ("the best of three kinds of GPUs", machine({"l4": 1}, 0, []), None),
        (
            # No NIC is at the first root, so its GPU is skipped.
            "a virtual function near the best of three kinds of GPUs",
            [*machine({"a100": 1, "l4": 2}, 0, []), *machine({}, 1, ["mellanox", "intel"])],
            ["nic-1/vf-0", "l4s/l4-0", "l4s/l4-1"],
        ),
        (
            "four virtual functions of one vendor on four physical functions",
            machine({}, 1, ["intel"] * 4),
            ["nic-0/vf-0", "nic-1/vf-0", "nic-2/vf-0", "nic-3/vf-0"],
        ),
    ],
)
def test_a_use_case_takes_what_another_machine_has(
    name: str, pools: list[Json], expected: list[str] | None
) -> None:
    assert chosen(name, pools) == expected


def test_a_shared_gpu_is_given_until_its_memory_is_gone() -> None:
    asking = [
        pod(f"pod-{number}", [{"name": "gpu", "template": USE_CASES["part of a shared GPU"]}])
        for number in range(11)
    ]
    result = allocate({"objects": [*machine({"h100": 1}, 0, []), *THEIR_CLASSES, *asking]})
    parts = [found and found["allocations"][0]["allocations"] for found in result["allocations"]]
    assert parts == [[{"name": "memory", "allocation": "8Gi"}]] * 10 + [None]
