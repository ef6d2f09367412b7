# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An odd pool, class, driver, claim or pod of the prototype changes nothing for all others."""

from __future__ import annotations

import random

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from support import odd_values
from support.device_objects import (
    PROTOTYPE,
    Json,
    attributes,
    device_claim,
    device_class,
    device_pool,
    manifest,
    pod,
)
from support.examples import each_seed


def driver(name: str) -> Json:
    return {**manifest(PROTOTYPE, "DeviceDriver", name, {}), "deviceTypes": [f"{name}-type"]}


def asking(name: str, claim: str) -> Json:
    return pod(name, [{"name": "c", "claimName": claim}])


ODD_POOL = device_pool(
    "odd",
    "n1",
    "o",
    attributes=attributes(model="m", rank=1),
    resources=[{"name": "slots", "capacity": 4, "blockSize": 1}],
    devices=[
        {
            "name": "a",
            "attributes": attributes(numa=0),
            "requests": {"slots": 1},
            "resources": [{"name": "memory", "capacity": "8Gi", "blockSize": "1Gi"}],
        },
        {"name": "b", "requests": {"slots": 2}},
    ],
)
ODD_CLASS = device_class(
    "odd",
    {"kind": "odd"},
    driver="o",
    constraints="device.model == 'm'",
    config=[{"name": "c", "namespace": "default"}],
    minDeviceCount=1,
)
ODD_CLAIM = device_claim(
    "odd",
    driver="o",
    minDeviceCount=1,
    maxDeviceCount=2,
    constraints="device.rank == 1",
    requests={"memory": "1Gi"},
    limits={"memory": "16Gi"},
    matchAttributes=["model"],
)
ODD_LIST = device_claim(
    "odd",
    claims=[
        {"name": "x", "oneOf": [{"driver": "o"}, {"deviceClass": "odd"}]},
        {"name": "y", "driver": "o", "maxDeviceCount": 2},
    ],
)
ODD_HOLDER = {
    **device_claim("odd", driver="o"),
    "status": {
        "allocations": [
            {
                "devicePoolName": "odd",
                "deviceName": "a",
                "allocations": [{"name": "memory", "allocation": "1Gi"}],
            }
        ],
        "nodeName": "n1",
    },
}
COUNTED = {
    **device_claim("held", driver="e"),
    "status": {"allocations": [{"devicePoolName": "counted", "deviceCount": 1}]},
}
GOOD = [
    *(driver("d"), driver("e"), driver("o")),
    device_pool("listed", "n1", "d", devices=[{"name": "a"}, {"name": "b"}]),
    device_pool("counted", "n1", "e", count=3, attributes=attributes(model="m")),
    device_class("good", driver="e", constraints="device.model == 'm'"),
    COUNTED,
    device_claim("one", driver="d"),
    device_claim("two", deviceClass="good", minDeviceCount=2),
    *(asking("p1", "one"), asking("p2", "two")),
]
USER = asking("user", "odd")
IN_POD = pod("odd", [{"name": "c", "spec": ODD_CLAIM["spec"]}], priority=1, nodeSelector={})
KINDS: dict[str, tuple[Json, list[Json]]] = {
    "a pool": (ODD_POOL, [ODD_CLASS, ODD_CLAIM, USER]),
    "a class": (ODD_CLASS, [ODD_POOL, device_claim("odd", deviceClass="odd"), USER]),
    "a driver": (driver("odd"), []),
    "a claim": (ODD_CLAIM, [ODD_POOL, ODD_CLASS, USER]),
    "a claim of several parts": (ODD_LIST, [ODD_POOL, ODD_CLASS, USER]),
    "a claim that has its device": (ODD_HOLDER, [ODD_POOL, USER]),
    "a pod": (IN_POD, [ODD_POOL]),
}
# An odd one that requests or has others' devices is not among them.
KEEP = [
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("spec", "driver"),
    ("spec", "nodeName"),
    ("spec", "claims", 0, "oneOf", 0, "driver"),
    ("spec", "claims", 0, "oneOf", 1, "deviceClass"),
    ("spec", "claims", 1, "driver"),
    ("spec", "deviceClaims", 0, "spec", "driver"),
]


def answer(objects: list[Json], strategy: str) -> dict[str, object]:
    """Allocations of the claims and pods of ``GOOD``."""
    result = allocate({"objects": objects, "on_error": "report", "strategy": strategy})
    names = [claim["name"] for claim in result["claims"]]
    found: dict[str, object] = dict(zip(names, result["allocations"], strict=True))
    found |= {one["name"]: one["node"] for one in result["pods"]}
    return {name: found.get(name) for name in ("one", "two", "p1", "p2")}


@each_seed(10)
@pytest.mark.parametrize("kind", KINDS)
def test_all_others_get_what_they_get_without(kind: str, seed: int) -> None:
    odd, beside = KINDS[kind]
    bad = odd_values.spoilt(random.Random(f"{kind}{seed}"), odd, KEEP)
    alone = answer(GOOD, "first_fit")
    assert all(alone.values())
    with odd_values.bounded():
        assert answer([bad, *beside, *GOOD], "first_fit") == alone
        found = answer([bad, *beside, *GOOD], "optimal")
    # The solver may choose another of several equally good answers if it has more work.
    assert all(found.values())
    assert (found["p1"], found["p2"]) == (alone["p1"], alone["p2"])


def test_the_examples_are_sound_before_they_are_spoilt() -> None:
    for kind, (odd, beside) in KINDS.items():
        result = allocate({"objects": [odd, *beside, *GOOD], "on_error": "report"})
        assert not [one for one in result["findings"] if one["name"] == "odd"], kind
        assert all(result["allocations"]), kind
