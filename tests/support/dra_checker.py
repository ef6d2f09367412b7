# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the claims and pods of a cluster are sound, by its objects alone.

Written apart from the library and sharing no code with it. It knows what the API server of the lab
stores: devices without shared capacity, counters or binding conditions.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from collections.abc import Iterator, Sequence

Json = dict[str, t.Any]
DeviceName = tuple[str, str, str]

FINALIZER = "resource.kubernetes.io/delete-protection"


def problems(slices: Sequence[Json], claims: Sequence[Json], pods: Sequence[Json]) -> list[str]:
    """What is wrong; nothing where all is sound. ``claims`` and ``pods`` are all of the cluster."""
    node_of = dict(_devices(slices))
    by_name = {_key(claim): claim for claim in claims}
    alive = {pod["metadata"]["uid"] for pod in pods}
    found = list(_given_twice(claims))
    for claim in claims:
        found += _of_claim(claim, node_of, alive)
    for pod in pods:
        if pod["spec"].get("nodeName"):
            found += _of_bound_pod(pod, by_name, node_of)
    return found


def holders(claims: Sequence[Json]) -> dict[DeviceName, list[tuple[str, str]]]:
    """The claims that have each device, by driver, pool and name; looking does not count."""
    found: dict[DeviceName, list[tuple[str, str]]] = defaultdict(list)
    for claim in claims:
        for result in _results(claim):
            if not result.get("adminAccess"):
                found[_device(result)].append(_key(claim))
    return found


def claim_names(pod: Json) -> list[str]:
    """The names of the claims of a pod, those included that were made for it."""
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


def _given_twice(claims: Sequence[Json]) -> Iterator[str]:
    for device, keys in holders(claims).items():
        if len(keys) > 1:
            yield f"{'/'.join(device)} is given to {keys}"


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
        asked = request["exactly"]
        got = [one for one in _results(claim) if one["request"] == request["name"]]
        if len(got) != asked.get("count", 1):
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
