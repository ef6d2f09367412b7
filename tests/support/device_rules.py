# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second, simple reading of resource.k8s.io/v1: rules, a depth-first search, and a checker.

Independent of the library, without shared code. It understands the objects that random_devices.py
makes: selectors are looked up there, amounts are whole numbers.
"""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from support.random_devices import COUNTERS, SELECTORS

Json = dict[str, t.Any]
Picked = tuple[str, str, str]  # request, pool, device


@dataclass
class World:
    """The objects of a task, indexed."""

    objects: Sequence[Json]
    pools: dict[str, Json] = field(init=False)
    claims: list[Json] = field(init=False)
    units: list[list[int]] = field(init=False)
    racks: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        slices = [item for item in self.objects if item["kind"] == "ResourceSlice"]
        self.pools = {item["metadata"]["name"]: item["spec"] for item in slices}
        nodes = [item["metadata"] for item in self.objects if item["kind"] == "Node"]
        self.racks = {metadata["name"]: metadata["labels"]["rack"] for metadata in nodes}
        self.claims = [item for item in self.objects if item["kind"] == "ResourceClaim"]
        together = any(item["kind"] == "Pod" for item in self.objects)
        numbers = list(range(len(self.claims)))
        self.units = [numbers] if together else [[number] for number in numbers]

    @property
    def nodes(self) -> list[str]:
        return sorted(self.racks)

    def devices(self, node: str) -> Iterator[tuple[str, Json]]:
        """Pool and device in published order."""
        for name, pool in sorted(self.pools.items()):
            for device in pool["devices"]:
                where = device if pool.get("perDeviceNodeSelection") else pool
                if self._reaches(where, node):
                    yield name, device

    def selected(self, selector: Json | None) -> list[str]:
        """The nodes of an allocation."""
        if selector is None:
            return self.nodes
        [term] = selector["nodeSelectorTerms"]
        racks = [set(one["values"]) for one in term.get("matchExpressions", [])]
        names = [set(one["values"]) for one in term.get("matchFields", [])]
        return [
            node
            for node in self.nodes
            if all(self.racks[node] in each for each in racks) and all(node in one for one in names)
        ]

    def _reaches(self, where: Json, node: str) -> bool:
        if "nodeSelector" in where:
            [term] = where["nodeSelector"]["nodeSelectorTerms"]
            [expression] = term["matchExpressions"]
            return self.racks[node] in expression["values"]
        return "allNodes" in where or where["nodeName"] == node

    def device(self, pool: str, name: str) -> Json:
        [found] = [item for item in self.pools[pool]["devices"] if item["name"] == name]
        return t.cast(Json, found)


def plain(device: Json) -> Json:
    """Attributes by name, without their types."""
    return {name: next(iter(value.values())) for name, value in device["attributes"].items()}


def values(device: Json, attribute: str) -> set[int]:
    found = plain(device).get(attribute)
    return set() if found is None else set(found) if isinstance(found, list) else {found}


def alternatives(request: Json) -> list[tuple[str, Json]]:
    """Name in results, and body of the request."""
    if "exactly" in request:
        return [(request["name"], request["exactly"])]
    return [(f"{request['name']}/{body['name']}", body) for body in request["firstAvailable"]]


def matches(device: Json, body: Json) -> bool:
    """Whether a request selects a device that it may have."""
    return selects(device, body) and tolerates(device, body)


def tolerates(device: Json, body: Json) -> bool:
    return not device.get("taints") or bool(body.get("tolerations"))


def selects(device: Json, body: Json) -> bool:
    """Selectors, and whether the device's total capacity suffices."""
    selected = all(
        SELECTORS[selector["cel"]["expression"]](plain(device))
        for selector in body.get("selectors", [])
    )
    taken = portion(device, body)
    if taken is None or (
        "capacity" in device and taken > int(device["capacity"]["memory"]["value"])
    ):
        return False
    return selected


def portion(device: Json, body: Json) -> int | None:
    """Capacity that a request takes of a shareable device; -1: all of it, None: impossible."""
    wanted = (body.get("capacity") or {}).get("requests", {}).get("memory")
    if "capacity" not in device:
        return None if wanted is not None else -1
    given = device["capacity"]["memory"]
    policy = given.get("requestPolicy") or {}
    if wanted is None:
        return int(policy.get("default", given["value"]))
    amount = int(wanted)
    if "validValues" in policy:
        return min((int(v) for v in policy["validValues"] if int(v) >= amount), default=None)
    if "validRange" in policy:
        limits = {key: int(value) for key, value in policy["validRange"].items()}
        steps = range(limits["min"], limits["max"] + 1, limits["step"])
        return min((value for value in steps if value >= amount), default=None)
    return amount


def fits_together(world: World, picked: Sequence[tuple[Json, Picked]]) -> bool:
    """Whether all devices can be allocated together, each with the request's amounts."""
    holders: dict[tuple[str, str], list[int]] = {}
    for body, (_request, pool, name) in picked:
        taken = portion(world.device(pool, name), body)
        if taken is None:
            return False
        holders.setdefault((pool, name), []).append(taken)
    used: dict[tuple[str, str], int] = {}
    for (pool, name), portions in holders.items():
        device = world.device(pool, name)
        if not device.get("allowMultipleAllocations"):
            if len(portions) > 1:
                return False
        elif sum(portions) > int(device["capacity"]["memory"]["value"]):
            return False
        for consumed in device.get("consumesCounters", []):
            for counter, amount in consumed["counters"].items():
                used[pool, counter] = used.get((pool, counter), 0) + int(amount["value"])
    return all(amount <= COUNTERS[counter] for (_pool, counter), amount in used.items())


def constraints_hold(world: World, claim: Json, picked: Sequence[Picked]) -> bool:
    """Whether the devices chosen so far satisfy the claim's constraints."""
    for constraint in claim["spec"]["devices"].get("constraints", []):
        among = constraint["requests"]
        sets = [
            values(world.device(pool, name), "numa")
            for request, pool, name in picked
            if not among or request in among or request.partition("/")[0] in among
        ]
        if not all(sets):
            return False
        if "matchAttribute" in constraint and sets and not set.intersection(*sets):
            return False
        if "distinctAttribute" in constraint and any(
            one & other for one, other in itertools.combinations(sets, 2)
        ):
            return False
    return True


def ways(world: World, node: str, request: Json) -> Iterator[tuple[Json, list[Picked]]]:
    """All sets of devices for a request, in the order of trying, each considered alone."""
    for label, body in alternatives(request):
        usable = [
            (label, pool, device["name"])
            for pool, device in world.devices(node)
            if matches(device, body)
        ]
        if body.get("allocationMode") == "All":
            among_all = [one for _pool, one in world.devices(node) if selects(one, body)]
            if usable and len(usable) == len(among_all):
                yield body, usable
            continue
        for chosen in itertools.combinations(usable, body["count"]):
            yield body, list(chosen)


def search(
    world: World, node: str, wanted: list[tuple[int, Json]], taken: list[tuple[Json, Picked]]
) -> Iterator[list[tuple[int, Json, list[Picked]]]]:
    """All complete answers for (claim, request) pairs on a node, in the order of the search."""
    if not wanted:
        yield []
        return
    (number, request), *rest = wanted
    for body, chosen in ways(world, node, request):
        more = [*taken, *((body, one) for one in chosen)]
        if not fits_together(world, more):
            continue
        for answer in search(world, node, rest, more):
            found = [(number, body, chosen), *answer]
            if all(
                constraints_hold(world, world.claims[claim], of_claim(found, claim))
                for claim in {entry[0] for entry in found}
            ):
                yield found


def of_claim(found: Sequence[tuple[int, Json, list[Picked]]], claim: int) -> list[Picked]:
    return [one for number, _body, picked in found if number == claim for one in picked]


def first_fit(objects: Sequence[Json]) -> list[tuple[str, list[Picked]] | None]:
    """Node and devices of each claim, or None: unit by unit, nodes by name, the first answer."""
    world = World(objects)
    result: list[tuple[str, list[Picked]] | None] = [None] * len(world.claims)
    taken: list[tuple[Json, Picked]] = []
    for unit in world.units:
        wanted = [
            (number, request)
            for number in unit
            for request in world.claims[number]["spec"]["devices"]["requests"]
        ]
        for node in world.nodes:
            answer = next(search(world, node, wanted, taken), None)
            if answer is not None:
                taken += [(body, one) for _number, body, picked in answer for one in picked]
                for number in unit:
                    result[number] = node, of_claim(answer, number)
                break
    return result


def problems(objects: Sequence[Json], result: Json) -> list[str]:
    """Errors in an answer of device_allocation; empty if it is sound."""
    world = World(objects)
    found: list[str] = []
    taken: list[tuple[Json, Picked]] = []
    for claim, allocation, where in zip(
        world.claims, result["allocations"], result["claims"], strict=True
    ):
        if allocation is None:
            continue
        name = claim["metadata"]["name"]
        results = allocation["devices"]["results"]
        picked = [(one["request"], one["pool"], one["device"]) for one in results]
        for request in claim["spec"]["devices"]["requests"]:
            taken += _request_problems(world, request, picked, where["node"], name, found)
        there = [
            {(pool, device["name"]) for pool, device in world.devices(node)} for node in world.nodes
        ]
        reaching = [
            node
            for node, usable in zip(world.nodes, there, strict=True)
            if usable >= {(pool, device) for _request, pool, device in picked}
        ]
        if world.selected(allocation.get("nodeSelector")) != reaching:
            found.append(f"{name}: its selector is not that of {reaching}")
        if not constraints_hold(world, claim, picked):
            found.append(f"{name}: a constraint is violated")
        found += [f"{name}: {one} is no share" for one in results if not shared(world, claim, one)]
    if not fits_together(world, taken):
        found.append("devices, counters or capacities are given twice")
    for unit in world.units:
        if len({result["claims"][number]["node"] for number in unit}) > 1:
            found.append("claims of one pod are on several nodes, or some have none")
    return found


def shared(world: World, claim: Json, one: Json) -> bool:
    """Whether a result names consumed capacity exactly if its device is shareable."""
    device = world.device(one["pool"], one["device"])
    body = dict(alternatives_of(claim))[one["request"]]
    if not device.get("allowMultipleAllocations"):
        return "shareID" not in one and "consumedCapacity" not in one
    return "shareID" in one and one["consumedCapacity"] == {"memory": str(portion(device, body))}


def alternatives_of(claim: Json) -> Iterator[tuple[str, Json]]:
    for request in claim["spec"]["devices"]["requests"]:
        yield from alternatives(request)


def _request_problems(
    world: World, request: Json, picked: Sequence[Picked], node: str, name: str, found: list[str]
) -> list[tuple[Json, Picked]]:
    """Append the errors in the devices of one request; return its devices."""
    chosen = [
        (label, body, [one for one in picked if one[0] == label])
        for label, body in alternatives(request)
    ]
    used = [(label, body, mine) for label, body, mine in chosen if mine]
    if len(used) != 1:
        found.append(f"{name}: request {request['name']} has {len(used)} alternatives")
        return []
    [(_label, body, mine)] = used
    there = dict.fromkeys(
        (pool, device["name"]) for pool, device in world.devices(node) if matches(device, body)
    )
    places = [(pool, device) for _request, pool, device in mine]
    if len(set(places)) < len(places) or not set(places) <= there.keys():
        found.append(f"{name}: devices {places} do not all match, or one is listed twice")
    wanted = len(there) if body.get("allocationMode") == "All" else body["count"]
    if len(mine) != wanted:
        found.append(f"{name}: {len(mine)} devices in place of {wanted}")
    return [(body, one) for one in mine]
