# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An odd slice, class, taint rule or Node beside good ones changes nothing for all others."""

from __future__ import annotations

import random

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from ansible_collections.wattwise.kube.plugins.module_utils.devices.inventory import inventory
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.findings import ApiObject
from support import odd_values
from support.device_objects import (
    DRA,
    Json,
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)
from support.dra_checker import problems
from support.examples import each_seed

CONSUMED = [{"counterSet": "s", "counters": {"m": {"value": "2Gi"}}}]
COUNTERS = [{"name": "s", "counters": {"m": {"value": "3Gi"}}}]
GOOD = [
    resource_slice(
        "node-1",
        [dra_device(f"gpu-{n}", attributes={"rank": n}, consumesCounters=CONSUMED) for n in "ab"],
        sharedCounters=COUNTERS,
    ),
    resource_slice("node-2", [dra_device("gpu-c"), dra_device("gpu-d")]),
    dra_class("gpu", 'device.driver == "gpu.example.com"'),
    manifest("v1", "Node", "node-1", {}, labels={"rack": "a"}),
    manifest("v1", "Node", "node-2", {}, labels={"rack": "b"}),
    resource_claim("one", exactly("r", "gpu")),
    resource_claim("two", exactly("r", "gpu", count=2)),
    resource_claim("too-many", exactly("r", "gpu", count=9)),
]
SELECTOR = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}
    ]
}
# Each odd object has a pool, a class, a rule or a Node of its own.
KINDS: dict[str, Json] = {
    "a slice": resource_slice(
        "node-9",
        [
            dra_device(
                "x",
                attributes={"model": "a", "rank": 1, "list": {"strings": ["a", "b"]}},
                capacity={
                    "m": {
                        "value": "8Gi",
                        "requestPolicy": {
                            "default": "1Gi",
                            "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"},
                        },
                    }
                },
                consumesCounters=CONSUMED,
                taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}],
                bindingConditions=["ready"],
                bindingFailureConditions=["failed"],
                allowMultipleAllocations=True,
            )
        ],
        driver="odd.example.com",
        sharedCounters=COUNTERS,
    ),
    "a slice for several nodes": resource_slice(
        "network",
        [dra_device("y", nodeSelector=SELECTOR), dra_device("z", allNodes=True)],
        driver="odd.example.com",
        nodeName=None,
        perDeviceNodeSelection=True,
    ),
    "a class": dra_class(
        "odd",
        'device.driver == "odd.example.com"',
        config=[{"opaque": {"driver": "odd.example.com", "parameters": {"a": 1}}}],
        extendedResourceName="example.com/odd",
    ),
    "a rule": manifest(
        DRA,
        "DeviceTaintRule",
        "odd",
        {
            "deviceSelector": {"driver": "odd.example.com", "pool": "node-9", "device": "x"},
            "taint": {"key": "k", "value": "v", "effect": "NoExecute"},
        },
    ),
    "a Node": manifest("v1", "Node", "node-9", {}, labels={"rack": "c", "zone": "z"}),
}
# Fields that identify the odd one: others must not be renamed to good ones or change their kind.
KEEP = [
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("spec", "driver"),
    ("spec", "deviceSelector", "driver"),
    ("spec", "selectors", 0, "cel", "expression"),
]


def spoilt(kind: str, seed: int) -> Json:
    found: Json = odd_values.spoilt(random.Random(f"{kind}{seed}"), KINDS[kind], KEEP)
    return found


def answer(*objects: Json, strategy: str) -> list[tuple[str, Json | None]]:
    result = allocate({"objects": list(objects), "on_error": "report", "strategy": strategy})
    names = [claim["name"] for claim in result["claims"]]
    found = list(zip(names, result["allocations"], strict=True))
    return [entry for entry in found if entry[0] != "asks-for-it"]


ALONE = {strategy: answer(*GOOD, strategy=strategy) for strategy in ("optimal", "first_fit")}


def test_the_answer_without_is_sound() -> None:
    for found in ALONE.values():
        assert [bool(allocation) for _name, allocation in found] == [True, True, False]


@each_seed(15)
@pytest.mark.parametrize("kind", KINDS)
def test_all_others_get_what_they_get_without(kind: str, seed: int) -> None:
    strategy = ("optimal", "first_fit")[seed % 2]
    asking = resource_claim("asks-for-it", exactly("r", "odd" if kind == "a class" else "gpu"))
    more = [asking] if kind == "a class" else []
    with odd_values.bounded():
        found = answer(spoilt(kind, seed), *GOOD, *more, strategy=strategy)
    assert found == ALONE[strategy]


@each_seed(10)
@pytest.mark.parametrize("kind", KINDS)
def test_the_inventory_shows_all_others(kind: str, seed: int) -> None:
    alone = inventory([ApiObject(item) for item in GOOD])
    with odd_values.bounded():
        found = inventory([ApiObject(item) for item in (spoilt(kind, seed), *GOOD)])
    for name in ("node-1", "node-2"):
        node = found.nodes[name]
        others = [one for one in node.whole if one.driver != "odd.example.com"]
        assert others == alone.nodes[name].whole
        divided = [one for one in node.divided if one.driver != "odd.example.com"]
        assert divided == alone.nodes[name].divided


def test_many_spoilt_slices_are_found() -> None:
    """Otherwise the tests above would show nothing."""
    found = 0
    for seed in range(40):
        objects = [spoilt("a slice", seed), *GOOD]
        found += bool(allocate({"objects": objects, "on_error": "report"})["findings"])
    assert found > 20


def test_what_is_given_is_sound_by_its_objects_alone() -> None:
    objects = [*KINDS.values(), *GOOD]
    result = allocate({"objects": objects, "on_error": "report"})
    claims = []
    for one, allocation in zip(result["claims"], result["allocations"], strict=True):
        [claim] = [item for item in GOOD if item["metadata"]["name"] == one["name"]]
        metadata = {
            **claim["metadata"],
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        }
        status = {"allocation": allocation} if allocation else {}
        claims.append({**claim, "metadata": metadata, "status": status})
    slices = [
        item for item in objects if item["kind"] == "ResourceSlice" and "nodeName" in item["spec"]
    ]
    assert problems(slices, claims, []) == []
