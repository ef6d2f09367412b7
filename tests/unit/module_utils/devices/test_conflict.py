# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Minimal conflicts are unsatisfiable, but not with one device less; "no" comes quickly."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

import pytest
from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import (
    allocate,
    read_task,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.findings import ApiObject
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import (
    Alternative,
    Claim,
    Counter,
    Device,
    Instance,
    Node,
    Request,
    Unit,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.task import Options
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.conflict import (
    conflict_between_units,
    minimal_conflict,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.counting import (
    counted_out,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.matching import (
    conflict_of_plain_claims,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.node_solver import (
    solve_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.search import State
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.device_objects import dra_class, dra_device, resource_slice
from support.device_optimum import Fixed, answers, instances
from support.device_rules import World, alternatives, search
from support.examples import examples
from support.hard_devices import impossible, model, one, pod_with
from support.random_devices import tasks

Json = dict[str, t.Any]
DRIVER = "gpu.example.com"
GPU = dra_class("gpu", f"device.driver == '{DRIVER}'")
Parts = dict[tuple[str, str], int]


def reduced(objects: list[Json], parts: Parts) -> list[Json]:
    """The objects with only this many devices for these requests."""
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


@examples(40)
@given(tasks())
def test_a_conflict_is_impossible_and_minimal(objects: list[Json]) -> None:
    claims = [item for item in objects if item["kind"] == "ResourceClaim"]
    objects = [item for item in objects if item["kind"] != "Pod"] + [pod_with(claims)]
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


# Slices, claims, size of the minimal conflict, and satisfiable claims: of 33 claims of mixed
# shapes, 26 want models a or b, which 22 devices have.
MORE_THAN_THERE_IS: dict[str, tuple[list[Json], list[Json], int, int]] = {
    name: (*impossible(32)[name], size, most)
    for name, size, most in (
        ("plain", 33, 32),
        ("counters that do not divide", 33, 32),
        ("one value in common", 12, 11),
        ("mixed shapes", 23, 26),
        ("partitions", 33, 32),
    )
}


@pytest.mark.parametrize("name", MORE_THAN_THERE_IS)
def test_no_is_said_with_a_minimal_conflict(name: str) -> None:
    slices, claims, size, _possible = MORE_THAN_THERE_IS[name]
    pod = pod_with(claims)
    # The search of first_fit would take years, so the limit ends it; the conflict does not need it.
    task = read_task([ApiObject(item) for item in [*slices, GPU, pod, *claims]], Options())
    conflict = minimal_conflict(task.instance, task.instance.units[0], Limits(60))
    assert sum(len(part.claims) * part.count for part in conflict) in (size, 2 * size)
    assert sum(len(part.claims) for part in conflict) == size


@pytest.mark.parametrize("name", MORE_THAN_THERE_IS)
def test_what_is_just_possible_is_found(name: str) -> None:
    slices, claims, _size, most = MORE_THAN_THERE_IS[name]
    kept = claims[:most]
    task = read_task([ApiObject(item) for item in [*slices, GPU, pod_with(kept), *kept]], Options())
    state = State.of(task.instance)
    [unit] = task.instance.units
    assert not counted_out(state, unit, "n1")
    found = solve_node(state, unit, "n1", Limits(60))
    assert isinstance(found, tuple)
    assert len(found) == most


@pytest.mark.parametrize("name", MORE_THAN_THERE_IS)
def test_claims_without_a_pod_have_a_minimal_conflict_too(name: str) -> None:
    slices, claims, size, _possible = MORE_THAN_THERE_IS[name]
    task = read_task([ApiObject(item) for item in [*slices, GPU, *claims]], Options())
    conflict = conflict_between_units(task.instance, Limits(60))
    assert sum(len(part.claims) for part in conflict) == size


Needed = dict[tuple[int, int], int]


def only(instance: Instance, needed: Needed) -> Instance:
    """The instance with only this many devices for these requests, by claim and request."""
    claims: list[Claim] = []
    units: list[Unit] = []
    for unit in instance.units:
        first = len(claims)
        for claim in unit.claims:
            numbers = [number for one, number in needed if one == claim]
            if numbers:
                claims.append(only_requests(instance.claims[claim], claim, sorted(numbers), needed))
        if len(claims) > first:
            positions = tuple(range(first, len(claims)))
            units.append(dataclasses.replace(unit, claims=positions))
    return dataclasses.replace(instance, claims=tuple(claims), units=tuple(units))


def only_requests(claim: Claim, position: int, numbers: list[int], needed: Needed) -> Claim:
    requests = tuple(
        dataclasses.replace(
            claim.requests[number],
            alternatives=tuple(
                dataclasses.replace(way, count=least, maximum=least)
                for way in claim.requests[number].alternatives
                for least in [min(way.count, needed[position, number])]
            ),
        )
        for number in numbers
    )
    constraints = tuple(
        dataclasses.replace(
            one,
            members=frozenset(
                (numbers.index(number), way) for number, way in one.members if number in numbers
            ),
        )
        for one in claim.constraints
    )
    return dataclasses.replace(claim, requests=requests, constraints=constraints)


def is_possible(instance: Instance) -> bool:
    everything = answers(instance, 20_000)
    assume(len(everything) <= 20_000)
    return any(len(answer) == len(instance.claims) for answer in everything)


def is_counted_by_node(instance: Instance) -> bool:
    """Whether each device and each counter is used from one node only, as counting needs it."""
    nodes_of_counter: dict[int, set[str]] = {}
    for device in instance.devices:
        for counter, _amount in device.consumes:
            nodes_of_counter.setdefault(counter, set()).update(device.nodes)
    used_from = [*(device.nodes for device in instance.devices), *nodes_of_counter.values()]
    return all(len(nodes) == 1 for nodes in used_from)


# Partitions of one pool on two nodes, and a claim that no device satisfies.
SHARED_COUNTER = Instance(
    tuple(Node(name) for name in ("n0", "n1")),
    tuple(
        Device(DRIVER, "n1", f"d{number}", frozenset([f"n{number}"]), consumes=((0, 1),))
        for number in range(2)
    ),
    (Counter(DRIVER, "n1", "gpu", "slots", 4),),
    (Fixed(()),),
    (Claim("default", "c0", (Request("r0", (Alternative(0),)),)),),
    (Unit((0,)),),
)


@examples(40)
@given(instances())
@example(SHARED_COUNTER)
def test_a_conflict_between_units_is_impossible_and_minimal(instance: Instance) -> None:
    conflict = conflict_between_units(instance, Limits(60))
    needed = {(claim, part.request): part.count for part in conflict for claim in part.claims}
    event("a conflict" if conflict else "none")
    if is_counted_by_node(instance):
        assert bool(conflict) is not is_possible(instance)
    assert not conflict or not is_possible(only(instance, needed))
    for key, count in needed.items():
        fewer = {other: least for other, least in needed.items() if other != key}
        if count > 1:
            fewer[key] = count - 1
        assert is_possible(only(instance, fewer))


def fleet(models: list[str]) -> list[Json]:
    """One node for each model, with the device of this model."""
    return [
        resource_slice(f"n{number}", [dra_device("d", attributes={"model": letter})])
        for number, letter in enumerate(models)
    ]


def matched(devices: list[str], claims: list[str]) -> bool:
    """Whether each claim, which names the models it may use, gets a device, by brute force."""
    if not claims:
        return True
    return any(
        matched(devices[:index] + devices[index + 1 :], claims[1:])
        for index, letter in enumerate(devices)
        if letter in claims[0]
    )


letters = st.sampled_from(["a", "b", "c"])
wishes = st.sampled_from(["a", "b", "c", "ab", "bc", "ac", "abc"])


@examples(100)
@given(st.lists(letters, min_size=1, max_size=4), st.lists(wishes, min_size=1, max_size=5))
def test_claims_without_a_pod_have_a_minimal_conflict_over_all_nodes(
    models: list[str], asked: list[str]
) -> None:
    claims = [one(f"c{number}", model(wish)) for number, wish in enumerate(asked)]
    task = read_task([ApiObject(item) for item in [*fleet(models), GPU, *claims]], Options())
    conflict = [claim for part in conflict_of_plain_claims(task.instance) for claim in part.claims]
    assert bool(conflict) is not matched(models, asked)
    if conflict:
        least = [asked[claim] for claim in conflict]
        assert not matched(models, least)
        for index in range(len(least)):
            assert matched(models, least[:index] + least[index + 1 :])


@pytest.mark.large
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
