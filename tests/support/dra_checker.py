# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Soundness of a cluster's claims and pods, judged by its objects alone.

Independent of the library, without shared code. Quantities are whole numbers, with or without a
binary suffix.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

Json = dict[str, t.Any]
DeviceName = tuple[str, str, str]

FINALIZER = "resource.kubernetes.io/delete-protection"
_SUFFIXES = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def problems(slices: Sequence[Json], claims: Sequence[Json], pods: Sequence[Json]) -> list[str]:
    """All errors; empty if the cluster is sound. ``claims`` and ``pods`` are all of the cluster."""
    node_of = dict(_devices(slices))
    by_name = {_key(claim): claim for claim in claims}
    alive = {pod["metadata"]["uid"] for pod in pods}
    found = [*_given_twice(slices, claims), *_overdrawn(slices, claims)]
    for claim in claims:
        found += _of_claim(claim, node_of, alive)
    for pod in pods:
        if pod["spec"].get("nodeName"):
            found += _of_bound_pod(pod, by_name, node_of)
    return found


def holders(claims: Sequence[Json]) -> dict[DeviceName, list[tuple[str, str]]]:
    """The claims on each device, by driver, pool and name, without admin access."""
    found: dict[DeviceName, list[tuple[str, str]]] = defaultdict(list)
    for claim in claims:
        for result in _results(claim):
            if not result.get("adminAccess"):
                found[_device(result)].append(_key(claim))
    return found


def claim_names(pod: Json) -> list[str]:
    """Names of a pod's claims, including those generated for it."""
    made = {
        entry["name"]: entry.get("resourceClaimName")
        for entry in pod["status"].get("resourceClaimStatuses", [])
    }
    named = [
        item.get("resourceClaimName") or made.get(item["name"])
        for item in pod["spec"].get("resourceClaims", [])
    ]
    return [name for name in named if name]


def _key(manifest: Json) -> tuple[str, str]:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def _device(result: Json) -> DeviceName:
    return result["driver"], result["pool"], result["device"]


def _results(claim: Json) -> list[Json]:
    allocation = claim.get("status", {}).get("allocation") or {}
    return t.cast("list[Json]", allocation.get("devices", {}).get("results", []))


def _devices(slices: Sequence[Json]) -> Iterator[tuple[DeviceName, str]]:
    for manifest in slices:
        spec = manifest["spec"]
        for device in spec.get("devices", []):
            yield (spec["driver"], spec["pool"]["name"], device["name"]), spec["nodeName"]


def _published(slices: Sequence[Json]) -> dict[DeviceName, Json]:
    return {
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"]): device
        for one in slices
        for device in one["spec"].get("devices", [])
    }


def _given_twice(slices: Sequence[Json], claims: Sequence[Json]) -> Iterator[str]:
    published = _published(slices)
    for device, keys in holders(claims).items():
        shared = published.get(device, {}).get("allowMultipleAllocations")
        if len(keys) > 1 and not shared:
            yield f"{'/'.join(device)} is given to {keys}"


def _overdrawn(slices: Sequence[Json], claims: Sequence[Json]) -> Iterator[str]:
    """Shared counters and shared devices that claims overdraw."""
    available: Counter[tuple[str, ...]] = Counter()
    drawn: Counter[tuple[str, ...]] = Counter()
    published = _published(slices)
    for one in slices:
        pool = (one["spec"]["driver"], one["spec"]["pool"]["name"])
        for shared in one["spec"].get("sharedCounters", []):
            for name, counter in shared["counters"].items():
                available[(*pool, shared["name"], name)] = _amount(counter["value"])
    for name, device in published.items():
        for quantity, capacity in device.get("capacity", {}).items():
            available[(*name, quantity)] = _amount(capacity["value"])
    for claim in claims:
        for result in _results(claim):
            name = _device(result)
            for quantity, consumed in result.get("consumedCapacity", {}).items():
                drawn[(*name, quantity)] += _amount(consumed)
            for consumes in published.get(name, {}).get("consumesCounters", []):
                for counter, taken in consumes["counters"].items():
                    drawn[(*name[:2], consumes["counterSet"], counter)] += _amount(taken["value"])
    for key, amount in drawn.items():
        if amount > available[key]:
            yield f"{amount} of {available[key]} are drawn of {'/'.join(key)}"


def _amount(quantity: str) -> int:
    factor = _SUFFIXES.get(quantity[-2:], 1)
    return int(quantity.removesuffix(quantity[-2:] if factor > 1 else "")) * factor


def _of_claim(claim: Json, node_of: dict[DeviceName, str], alive: set[str]) -> Iterator[str]:
    name = "/".join(_key(claim))
    status = claim.get("status", {})
    reserved = [consumer["uid"] for consumer in status.get("reservedFor", [])]
    if reserved and not status.get("allocation"):
        yield f"{name} is reserved without devices"
    if not set(reserved) <= alive:
        yield f"{name} is reserved for pods that are gone"
    if not status.get("allocation"):
        return
    if FINALIZER not in claim["metadata"].get("finalizers", []):
        yield f"{name} could be deleted while it is in use"
    for request in claim["spec"]["devices"]["requests"]:
        # One of several alternatives is allocated; its name follows the request's.
        asked = {request["name"]: request["exactly"]} if "exactly" in request else {}
        for one in request.get("firstAvailable", []):
            asked[f"{request['name']}/{one['name']}"] = one
        got = [one for one in _results(claim) if one["request"] in asked]
        if len({one["request"] for one in got}) > 1:
            yield f"{name}: two alternatives of request {request['name']} at once"
        if not got or len(got) != asked[got[0]["request"]].get("count", 1):
            yield f"{name}: {len(got)} devices for request {request['name']}"
    nodes = {node_of.get(_device(result), "nowhere") for result in _results(claim)}
    selector = status["allocation"].get("nodeSelector")
    terms = selector["nodeSelectorTerms"] if selector else []
    named = {value for term in terms for field in term["matchFields"] for value in field["values"]}
    if nodes != named:
        yield f"{name}: devices of {sorted(nodes)} with a selector of {sorted(named)}"


def _of_bound_pod(
    pod: Json, by_name: dict[tuple[str, str], Json], node_of: dict[DeviceName, str]
) -> Iterator[str]:
    namespace, name = _key(pod)
    if len(claim_names(pod)) != len(pod["spec"].get("resourceClaims", [])):
        yield f"{name} is bound before its claims were made"
    for claim_name in claim_names(pod):
        claim = by_name.get((namespace, claim_name))
        if claim is None or not _results(claim):
            yield f"{name} is bound without the devices of {claim_name}"
            continue
        reserved = [consumer["uid"] for consumer in claim["status"].get("reservedFor", [])]
        if pod["metadata"]["uid"] not in reserved:
            yield f"{name} is bound without {claim_name} being reserved for it"
        for result in _results(claim):
            if node_of.get(_device(result)) != pod["spec"]["nodeName"]:
                yield f"{name} is not where {_device(result)} is"
            for condition in set(result.get("bindingConditions", [])) - _reported(claim, result):
                yield f"{name} is bound before {_device(result)} has the condition {condition}"


def _reported(claim: Json, result: Json) -> set[str]:
    """The device's true conditions, according to its driver."""
    return {
        condition["type"]
        for device in claim["status"].get("devices", [])
        if _device(device) == _device(result)
        for condition in device.get("conditions", [])
        if condition["status"] == "True"
    }
