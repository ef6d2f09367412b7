# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples of the prototype's successor: 22 requests, 4 sets of pools, a partitioned GPU."""

from __future__ import annotations

import typing as t

from support.device_objects import attributes, device_class, device_pool

Json = dict[str, t.Any]


def card(driver: str, number: int, speed: str, provided: bool = False) -> Json:
    """A network card with two physical functions, each of which can become two virtual ones."""
    devices: list[Json] = []
    for port in range(2):
        for name, kind, amount in (
            (f"pf-{port}", "pf", 2),
            (f"pf-{port}-vf-0", "vf", 1),
            (f"pf-{port}-vf-1", "vf", 1),
        ):
            found: Json = {
                "name": name,
                "attributes": attributes(sriovType=kind, pf=f"pf-{port}"),
                "sharedResourcesConsumed": {f"vfs-pf-{port}": amount},
            }
            if provided:
                found["claimResourcesProvided"] = [{"name": kind, "capacity": 1}]
            devices.append(found)
    vendor = driver.removesuffix("-sriov")
    return device_pool(
        f"node-00-{vendor}-{number}",
        "node-00",
        driver,
        attributes=attributes(
            vendor=vendor, hwdevname=f"ecsriov{number}", numa=number, bandwidth=speed
        ),
        sharedResources=[{"name": f"vfs-pf-{port}", "capacity": 2} for port in range(2)],
        devices=devices,
    )


SRIOV_0 = [card("example.com-sriov", number, "1G") for number in range(2)]
SRIOV_1 = [card("example.org-sriov", 0, "10G", provided=True)]
SIMPLE_GPUS = [
    device_pool(
        f"node-0{node}-gpus",
        f"node-0{node}",
        "example.com-foozer",
        attributes=attributes(model="foozer-1000", numa=0, pcie_root="root-0"),
        devices=[{"name": "dev-00"}, {"name": "dev-01"}],
    )
    for node in range(2)
]


def gpus(count: int, model: str, **shared: t.Any) -> Json:
    """GPUs of 40Gi on a separate node, two on each PCIe root."""
    return device_pool(
        f"{model}-pool",
        "large-node",
        "example.com-foozer",
        attributes=attributes(model=model),
        devices=[
            {
                "name": f"{model}-{number}",
                "attributes": attributes(pcie_root=f"root-{number // 2}"),
                "claimResourcesProvided": [{"name": "memory", "capacity": "40Gi"}],
            }
            for number in range(count)
        ],
    )


NIC = {"type": "sriov-nic"}
CLASSES = [
    device_class("foozer", driver="example.com-foozer"),
    device_class("sriov-nic", selector={"matchLabels": NIC}),
    device_class("example.com-sriov-nic", NIC, definition={"driver": "example.com-sriov"}),
    device_class("example.org-sriov-nic", NIC, driver="example.org-sriov"),
    *(
        device_class(
            f"example.com-sriov-{kind}",
            driver="example.com-sriov",
            constraints=f"device.sriovType == '{kind}'",
        )
        for kind in ("vf", "pf")
    ),
    *(
        device_class(
            f"foozer-{model}",
            driver="example.com-foozer",
            constraints=f"device.model == 'foozer-{model}'",
        )
        for model in (1000, 2000, 4000)
    ),
]

VF, PF = {"class": "example.com-sriov-vf"}, {"class": "example.com-sriov-pf"}
FOOZER = {"class": "foozer"}
ANY_VF = "device.sriovType == 'vf'"
PRIORITIES = [
    {"class": "foozer-4000"},
    {"class": "foozer-2000", "requests": {"devices": 2}, "matchAttributes": ["pcie-root"]},
    {"class": "foozer-1000", "requests": {"devices": 4}, "matchAttributes": ["pcie-root"]},
]


def all_of(count: int = 1, **more: t.Any) -> Json:
    return {"allOf": [{**more, "requests": {"devices": count}}]}


def inline(*devices: Json) -> Json:
    return {"devices": [{"name": f"dev{number}", **one} for number, one in enumerate(devices)]}


NETWORKS = [
    {**VF, "configs": [{"apiVersion": "v1", "kind": "IPNetwork", "name": name}]}
    for name in ("bluenet", "rednet", "greennet")
]
FOUR_NICS = all_of(4, **{"class": "sriov-nic"}, matchAttributes=["vendor"])
FOUR_CARDS = all_of(
    4, **{"class": "sriov-nic"}, matchAttributes=["vendor"], distinctAttributes=["hwdevname"]
)
MEMORY = {"requests": {"memory": "8Gi"}}
SPLIT: Json = {"maxDevices": 8, "requests": {"memory": "128Gi"}}
FAR_APART = [gpus(4, "foozer-1000"), *SRIOV_0]

# Name of the sample, its claim's requests, the pools, and the allocated devices.
SAMPLES: list[tuple[str, Json, list[Json], list[str] | None]] = [
    ("pod-multi-net-0", inline(VF), SRIOV_0, ["pf-0-vf-0"]),
    ("pod-multi-net-1", inline(VF, VF, PF), SRIOV_0, ["pf-0-vf-0", "pf-0-vf-1", "pf-1"]),
    (
        "pod-multi-net-2",
        inline(all_of(2, **VF, matchAttributes=["hwdevname"])),
        SRIOV_0,
        ["pf-0-vf-0", "pf-0-vf-1"],
    ),
    (
        "pod-multi-net-3",
        inline(all_of(2, **VF, matchAttributes=["hwdevname", "pf"])),
        SRIOV_0,
        ["pf-0-vf-0", "pf-0-vf-1"],
    ),
    (
        "pod-multi-net-4",
        inline(all_of(2, **{"class": "sriov-nic"}, constraints=ANY_VF)),
        SRIOV_0,
        ["pf-0-vf-0", "pf-0-vf-1"],
    ),
    (
        "pod-multi-net-5",
        inline({"class": "example.org-sriov-nic", "requests": {"vf": 1}}),
        SRIOV_1,
        ["pf-0-vf-0"],
    ),
    ("pod-multi-net-6", inline(*NETWORKS), SRIOV_0, ["pf-0-vf-0", "pf-0-vf-1", "pf-1-vf-0"]),
    # The PFs take the resources of their VFs, so the first four that fit together are two PFs a
    # card.
    ("pod-multi-net-7", inline(FOUR_NICS), SRIOV_0, ["pf-0", "pf-1", "pf-0", "pf-1"]),
    ("pod-multi-net-8", inline(FOUR_CARDS), SRIOV_0, None),
    ("pod-multi-net-8", inline(FOUR_CARDS), SRIOV_0 + SRIOV_1, None),
    ("pod-one-container-one-gpu", inline(FOOZER), SIMPLE_GPUS, ["dev-00"]),
    (
        "pod-one-container-two-gpus-0",
        inline(all_of(2, **FOOZER)),
        SIMPLE_GPUS,
        ["dev-00", "dev-01"],
    ),
    (
        "pod-one-container-two-gpus-1",
        inline(all_of(2, **FOOZER, matchAttributes=["model"])),
        SIMPLE_GPUS,
        ["dev-00", "dev-01"],
    ),
    (
        "pod-one-container-two-gpus-2",
        inline(all_of(2, **FOOZER, matchAttributes=["model", "pcie-root"])),
        SIMPLE_GPUS,
        ["dev-00", "dev-01"],
    ),
    (
        "pod-one-container-one-gpu-one-vf",
        {**inline(FOOZER, VF), "matchAttributes": ["pcie-root"]},
        FAR_APART,
        None,
    ),
    (
        "pod-one-container-gpu-priority-list",
        inline({"oneOf": PRIORITIES}),
        [gpus(4, "foozer-2000")],
        ["foozer-2000-0", "foozer-2000-1"],
    ),
    ("pod-one-container-gpu-priority-list", inline({"oneOf": PRIORITIES}), SIMPLE_GPUS, None),
    (
        "pod-one-container-gpu-priority-list-one-vf",
        {**inline(PF, {"oneOf": PRIORITIES}), "matchAttributes": ["pcie-root"]},
        FAR_APART,
        None,
    ),
    (
        "pod-one-container-partial-gpu",
        inline({**FOOZER, **MEMORY, "allowShared": True}),
        [gpus(1, "foozer-4000")],
        ["foozer-4000-0"],
    ),
    (
        "pod-one-container-split-allocation-gpus",
        inline({**FOOZER, **SPLIT}),
        [gpus(8, "foozer-4000")],
        ["foozer-4000-0", "foozer-4000-1", "foozer-4000-2", "foozer-4000-3"],
    ),
    (
        "pod-one-container-split-allocation-gpus",
        inline({**FOOZER, **SPLIT}),
        [gpus(3, "foozer-4000")],
        None,
    ),
    (
        "pod-one-container-shared-split-allocation-gpus",
        inline({**FOOZER, **SPLIT, "allowShared": True}),
        [gpus(8, "foozer-4000")],
        ["foozer-4000-0", "foozer-4000-1", "foozer-4000-2", "foozer-4000-3"],
    ),
    ("pod-two-containers-one-gpu", inline(FOOZER), SIMPLE_GPUS, ["dev-00"]),
    ("pod-two-containers-two-gpus-0", inline(FOOZER, FOOZER), SIMPLE_GPUS, ["dev-00", "dev-01"]),
    (
        "pod-two-containers-two-gpus-1",
        {**inline(FOOZER, FOOZER), "matchAttributes": ["model"]},
        SIMPLE_GPUS,
        ["dev-00", "dev-01"],
    ),
    (
        "pod-two-containers-two-gpus-2",
        {
            **inline({"class": "foozer-1000"}, {"class": "foozer-1000"}),
            "matchAttributes": ["pcie-root"],
        },
        SIMPLE_GPUS,
        ["dev-00", "dev-01"],
    ),
]

PROFILES: list[tuple[str, tuple[int, ...], int, int, tuple[int, int, int, int, int]]] = [
    ("1g.5gb", (0, 1, 2, 3, 4, 5, 6), 4864, 1, (14, 1, 0, 0, 0)),
    ("1g.5gb-me", (0, 1, 2, 3, 4, 5, 6), 4864, 1, (14, 1, 1, 1, 1)),
    ("1g.10gb", (0, 2, 4, 6), 9856, 2, (14, 1, 1, 0, 0)),
    ("2g.10gb", (0, 2, 4), 9856, 2, (28, 2, 1, 0, 0)),
    ("3g.20gb", (0, 4), 19968, 4, (42, 3, 2, 0, 0)),
    ("4g.20gb", (0,), 19968, 4, (56, 4, 2, 0, 0)),
    ("7g.40gb", (0,), 40192, 8, (98, 7, 5, 1, 1)),
]
ENGINES = ("multiprocessors", "copy-engines", "decoders", "jpeg", "ofa")


def a100(slice_name: str = "memory-slices-{}") -> Json:
    """The partitions of one A100 as devices that consume its resources."""
    limits = {"memory": "40Gi", **dict(zip(ENGINES, (98, 7, 5, 1, 1), strict=True)), "encoders": 0}
    limits |= {f"memory-slices-{number}": 1 for number in range(8)}
    devices: list[Json] = [{"name": "gpu-0", "sharedResourcesConsumed": {"memory": "40Gi"}}]
    for profile, starts, memory, slices, engines in PROFILES:
        for start in starts:
            consumed: Json = {"memory": f"{memory}Mi", **dict(zip(ENGINES, engines, strict=True))}
            consumed |= {slice_name.format(start + number): 1 for number in range(slices)}
            devices.append(
                {"name": f"gpu-0-mig-{profile}-{start}", "sharedResourcesConsumed": consumed}
            )
    resources = [{"name": name, "capacity": amount} for name, amount in limits.items()]
    return device_pool("a100", "dgx", "nvidia", sharedResources=resources, devices=devices)
