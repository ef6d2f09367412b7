# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Minimal conflicts cannot be satisfied, and could with one device less; "no" comes quickly."""

from __future__ import annotations

import copy
import typing as t

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.devices import allocate
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import read_task
from ansible_collections.wattwise.kube.plugins.module_utils.devices.conflict import (
    minimal_conflict,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.findings import Given
from ansible_collections.wattwise.kube.plugins.module_utils.devices.matching import (
    conflict_of_plain_claims,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.node_solver import (
    counted_out,
    solve_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.search import Candidates
from ansible_collections.wattwise.kube.plugins.module_utils.devices.task import Options
from ansible_collections.wattwise.kube.plugins.module_utils.devices.usage import Usage
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits import Limits
from support.device_objects import (
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)
from support.device_rules import World, alternatives, search
from support.random_devices import tasks

Json = dict[str, t.Any]
DRIVER = "gpu.example.com"
GPU = dra_class("gpu", f"device.driver == '{DRIVER}'")
Parts = dict[tuple[str, str], int]


def pod_of(claims: list[Json]) -> Json:
    named = [
        {"name": claim["metadata"]["name"], "resourceClaimName": claim["metadata"]["name"]}
        for claim in claims
    ]
    return manifest("v1", "Pod", "pod", {"resourceClaims": named}, namespace="default")


def reduced(objects: list[Json], parts: Parts) -> list[Json]:
    """The objects with only so many devices for these requests."""
    found: list[Json] = []
    for item in copy.deepcopy(objects):
        if item["kind"] == "ResourceClaim":
            name, devices = item["metadata"]["name"], item["spec"]["devices"]
            kept = [one for one in devices["requests"] if (name, one["name"]) in parts]
            names = {one["name"] for one in kept}
            for request in kept:
                for _label, body in alternatives(request):
                    if "count" in body:
                        body["count"] = min(body["count"], parts[name, request["name"]])
            constraints = [
                {**one, "requests": [x for x in one["requests"] if x in names]}
                for one in devices.get("constraints", [])
                if not one["requests"] or names & set(one["requests"])
            ]
            item["spec"]["devices"] = {"requests": kept, "constraints": constraints}
            if not kept:
                continue
        found.append(item)
    return found


def possible(objects: list[Json], parts: Parts) -> bool:
    world = World(reduced(objects, parts))
    wanted = [
        (number, request)
        for number, claim in enumerate(world.claims)
        for request in claim["spec"]["devices"]["requests"]
    ]
    return any(next(search(world, node, wanted, []), None) is not None for node in world.nodes)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(tasks())
def test_a_conflict_is_impossible_and_minimal(objects: list[Json]) -> None:
    claims = [item for item in objects if item["kind"] == "ResourceClaim"]
    objects = [item for item in objects if item["kind"] != "Pod"] + [pod_of(claims)]
    result = allocate({"objects": objects, "strategy": "first_fit"})
    assume(result["outcome"] == "infeasible")
    parts = {
        (claim.rpartition("/")[2], part["request"]): part["count"]
        for part in result["conflict"]
        for claim in part["claims"]
    }
    assert parts
    assert not possible(objects, parts)
    for key, count in parts.items():
        fewer = {**parts, key: count - 1} if count > 1 else {k: parts[k] for k in parts if k != key}
        assert not fewer or possible(objects, fewer)


def partitions(gpu: str) -> Json:
    """A GPU of eight slices that can be cut in four sizes."""
    placements = {"1g": (1, range(7)), "2g": (2, (0, 2, 4)), "3g": (4, (0, 4)), "4g": (4, (0,))}
    compute = {"1g": 14, "2g": 28, "3g": 42, "4g": 56}
    devices = []
    for size_name, (size, starts) in placements.items():
        for start in starts:
            slices = {f"slice-{number}": {"value": "1"} for number in range(start, start + size)}
            counters = {"compute": {"value": str(compute[size_name])}, **slices}
            devices.append(
                dra_device(
                    f"{gpu}-{size_name}-{start}",
                    attributes={"profile": size_name},
                    consumesCounters=[{"counterSet": "gpu", "counters": counters}],
                )
            )
    slices = {f"slice-{number}": {"value": "1"} for number in range(8)}
    shared = [{"name": "gpu", "counters": {"compute": {"value": "98"}, **slices}}]
    return resource_slice(gpu, devices, sharedCounters=shared, nodeName="n1")


def one(name: str, *selectors: str, **more: t.Any) -> Json:
    constraints = more.pop("constraints", [])
    return resource_claim(name, exactly("r", "gpu", *selectors, **more), constraints=constraints)


def profile(name: str) -> str:
    return f"device.attributes['{DRIVER}'].profile == '{name}'"


def model(letters: str) -> str:
    return f"'{letters}'.contains(device.attributes['{DRIVER}'].model)"


def halves(pool: int) -> Json:
    """Eight devices of which the counter, 90 for 20 each, is for four."""
    consumed = [{"counterSet": "s", "counters": {"memory": {"value": "20"}}}]
    devices = [dra_device(f"d{pool}-{number}", consumesCounters=consumed) for number in range(8)]
    shared = [{"name": "s", "counters": {"memory": {"value": "90"}}}]
    return resource_slice(f"p{pool}", devices, sharedCounters=shared, nodeName="n1")


SAME_NUMA = [{"matchAttribute": f"{DRIVER}/numa"}]
# Slices, claims, how many of them the minimal conflict has, and claims that can be satisfied.
MORE_THAN_THERE_IS: dict[str, tuple[list[Json], list[Json], int, int]] = {
    "plain": (
        [resource_slice("n1", [dra_device(f"d{n}") for n in range(32)])],
        [one(f"c{n}") for n in range(33)],
        33,
        32,
    ),
    "counters that do not divide": (
        [halves(pool) for pool in range(8)],
        [one(f"c{n}") for n in range(40)],
        33,
        32,
    ),
    "one value in common": (
        [
            resource_slice(
                "n1", [dra_device(f"d{n}", attributes={"numa": n % 11}) for n in range(33)]
            )
        ],
        [one(f"c{n}", count=2, constraints=SAME_NUMA) for n in range(14)],
        12,
        11,
    ),
    # Of the models a, b and c there are 11, 11 and 10; 26 of 33 claims want a or b.
    "mixed shapes": (
        [
            resource_slice(
                "n1", [dra_device(f"d{n}", attributes={"model": "abc"[n % 3]}) for n in range(32)]
            )
        ],
        [one(f"c{n}", model(["a", "b", "ab", "c", "ab"][n % 5])) for n in range(33)],
        23,
        26,
    ),
    "partitions of eight GPUs": (
        [partitions(f"gpu-{number}") for number in range(8)],
        [one(f"c{n}", profile("3g" if n < 8 else "2g" if n < 16 else "1g")) for n in range(33)],
        33,
        32,
    ),
}


@pytest.mark.parametrize("name", MORE_THAN_THERE_IS)
def test_no_is_said_with_a_minimal_conflict(name: str) -> None:
    slices, claims, size, _possible = MORE_THAN_THERE_IS[name]
    pod = pod_of(claims)
    # The search of first_fit would need years, so the limit ends it; the conflict does not need it.
    task = read_task([Given(item) for item in [*slices, GPU, pod, *claims]], Options())
    conflict = minimal_conflict(task.instance, task.instance.units[0], Limits(60))
    assert sum(len(part.claims) * part.count for part in conflict) in (size, 2 * size)
    assert sum(len(part.claims) for part in conflict) == size


@pytest.mark.parametrize("name", MORE_THAN_THERE_IS)
def test_what_is_just_possible_is_found(name: str) -> None:
    slices, claims, _size, most = MORE_THAN_THERE_IS[name]
    kept = claims[:most]
    task = read_task([Given(item) for item in [*slices, GPU, pod_of(kept), *kept]], Options())
    usage, candidates = Usage(task.instance), Candidates(task.instance)
    [unit] = task.instance.units
    assert not counted_out(task.instance, usage, candidates, unit, "n1")
    found = solve_node(task.instance, usage, candidates, unit, "n1", Limits(60))
    assert isinstance(found, tuple)
    assert len(found) == most


def fleet(models: list[str]) -> list[Json]:
    """One node for each model, with the device of this model."""
    return [
        resource_slice(f"n{number}", [dra_device("d", attributes={"model": letter})])
        for number, letter in enumerate(models)
    ]


def matched(devices: list[str], claims: list[str]) -> bool:
    """Whether each claim, which names the models it may use, gets a device: tried one by one."""
    if not claims:
        return True
    return any(
        matched(devices[:index] + devices[index + 1 :], claims[1:])
        for index, letter in enumerate(devices)
        if letter in claims[0]
    )


letters = st.sampled_from(["a", "b", "c"])
wishes = st.sampled_from(["a", "b", "c", "ab", "bc", "ac", "abc"])


@settings(max_examples=100, deadline=None)
@given(st.lists(letters, min_size=1, max_size=4), st.lists(wishes, min_size=1, max_size=5))
def test_claims_without_a_pod_have_a_minimal_conflict_over_all_nodes(
    models: list[str], asked: list[str]
) -> None:
    claims = [one(f"c{number}", model(wish)) for number, wish in enumerate(asked)]
    task = read_task([Given(item) for item in [*fleet(models), GPU, *claims]], Options())
    conflict = [claim for part in conflict_of_plain_claims(task.instance) for claim in part.claims]
    assert bool(conflict) is not matched(models, asked)
    if conflict:
        least = [asked[claim] for claim in conflict]
        assert not matched(models, least)
        for index in range(len(least)):
            assert matched(models, least[:index] + least[index + 1 :])


def test_two_thousand_claims_have_a_conflict_of_two() -> None:
    claims = [one(f"c{number}", model("a" if number < 4 else "bc")) for number in range(2000)]
    slices = [
        resource_slice(
            f"n{node}",
            [
                dra_device(f"d{number}", attributes={"model": "a" if node == number == 0 else "b"})
                for number in range(100)
            ],
        )
        for node in range(25)
    ]
    result = allocate({"objects": [*slices, GPU, *claims], "strategy": "first_fit"})
    [part] = result["conflict"]
    assert part["claims"] == ["default/c0", "default/c1"]
    assert sum(found is None for found in result["allocations"]) == 3
