# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Writes to ResourceClaims, and conditions for binding a pod.

The order is that of kube-scheduler: the finalizer, then allocation and reservation in one write of
the status, then the binding. Kubernetes' resourceclaim controller removes ended users from
``reservedFor``, the allocation with the last of them, and the finalizer when the claim is deleted.
So this module takes back only the allocations of pods that are not bound.
"""

from __future__ import annotations

import collections
import datetime
import typing as t
from dataclasses import dataclass

from ...base.fields.lenient import text
from ...base.json_types import Object
from ...base.units import format_time, parse_time
from ..model.findings import ApiObject, Findings, Key
from ..model.model import HeldDevice, Node
from ..model.task import selected
from .slices import Slices
from .status import NAMES, allocation_of, held_devices, results_of

# The controller deallocates only claims with this finalizer.
FINALIZER = "resource.kubernetes.io/delete-protection"
MAX_CONSUMERS = 256
# A device without its conditions is given back after this time. Source: the default of
# kube-scheduler's DynamicResourcesArgs.bindingTimeout.
BINDING_TIMEOUT = datetime.timedelta(seconds=600)


def consumers(claim: ApiObject) -> list[Object]:
    """Users of the claim: entries of ``reservedFor``."""
    return [item.value for item in claim["status"]["reservedFor"].items()]


def check(claim: ApiObject, now: datetime.datetime) -> None:
    """Raise for a claim with an unreadable field that a write depends on.

    Fields of the API server itself (name, uid, version) are not checked.
    """
    metadata = claim["metadata"]
    metadata["annotations"].mapping()
    metadata["ownerReferences"].items()
    metadata["finalizers"].texts()
    for consumer in claim["status"]["reservedFor"].items():
        if not isinstance(consumer["uid"].value, str):
            raise consumer["uid"].error("must be a text")
    for result in results_of(claim):
        for name in NAMES:
            if not text(result[name].value):
                raise result[name].error("must be a name")
    readiness(claim, now)
    nodes_of_devices(claim, [Node("", {})])


def nodes_of_devices(claim: ApiObject, nodes: t.Sequence[Node]) -> frozenset[str] | None:
    """The names of those from which the claim's devices can be used; None for all."""
    selector = claim["status"]["allocation"]["nodeSelector"]
    return selected(selector, nodes) if selector.value else None


def is_reserved_for(claim: ApiObject, pod: ApiObject) -> bool:
    """Whether the pod with this uid may use the claim."""
    uid = pod.manifest["metadata"]["uid"]
    return any(consumer.get("uid") == uid for consumer in consumers(claim))


def is_used_only_by(claim: ApiObject, uids: t.Collection[str]) -> bool:
    """Whether only these pods, by uid, may use the claim."""
    return all(consumer.get("uid") in uids for consumer in consumers(claim))


def room_for_consumers(claim: ApiObject) -> int:
    """How many more pods may be written into ``reservedFor``."""
    return MAX_CONSUMERS - len(consumers(claim))


def finalizer_patch(claim: ApiObject) -> Object | None:
    """A merge patch that adds the finalizer; None if the claim has it."""
    metadata = claim.manifest["metadata"]
    finalizers = list(metadata.get("finalizers") or [])
    if FINALIZER in finalizers:
        return None
    return {"metadata": {**_version(claim), "finalizers": [*finalizers, FINALIZER]}}


def reservation_patch(
    claim: ApiObject, allocation: Object | None, pods: t.Iterable[ApiObject], now: datetime.datetime
) -> Object | None:
    """A merge patch of the status that allocates, if there is an allocation, and reserves.

    None if the status has all of that already.
    """
    added = [
        {"resource": "pods", "name": pod.name, "uid": pod.manifest["metadata"]["uid"]}
        for pod in pods
        if not is_reserved_for(claim, pod)
    ]
    if allocation is None and not added:
        return None
    status: dict[str, t.Any] = {"reservedFor": [*consumers(claim), *added]}
    if allocation is not None:
        status["allocation"] = {**allocation, "allocationTimestamp": format_time(now)}
    return {"metadata": _version(claim), "status": status}


def withdrawal_patch(claim: ApiObject, uids: t.Collection[str]) -> Object:
    """A merge patch of the status that removes these pods' reservations.

    The devices become free with the last reservation. The API server drops the device statuses of
    drivers, which only drivers may write.
    """
    left = [consumer for consumer in consumers(claim) if consumer.get("uid") not in uids]
    gone = {"allocation": None, "reservedFor": None}
    status = {"reservedFor": left} if left else gone
    return {"metadata": _version(claim), "status": status}


def _version(claim: ApiObject) -> dict[str, str]:
    """Precondition of the API server: the version that was read."""
    metadata = claim.manifest["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


@dataclass(frozen=True)
class Readiness:
    """Whether a claim's devices are ready for binding a pod; ``detail`` is the reason if not."""

    state: t.Literal["ready", "waiting", "failed"]
    detail: str = ""


def readiness(claim: ApiObject, now: datetime.datetime) -> Readiness:
    """Result of the binding conditions of the claim's devices.

    All of ``bindingConditions`` must be true, and one of ``bindingFailureConditions`` is enough to
    fail. Source: KEP-5007, device binding conditions.
    """
    true = _true_conditions(claim)
    missing = ""
    for result in (item.value for item in results_of(claim)):
        device = tuple(str(result.get(key)) for key in NAMES)
        label = f"the device {'/'.join(device)} of {claim}"
        for name in result.get("bindingFailureConditions") or ():
            if (device, name) in true:
                return Readiness("failed", f"{label} has the condition {name}")
        for name in result.get("bindingConditions") or ():
            if (device, name) not in true and not missing:
                missing = f"{label} waits for its condition {name}"
    if not missing:
        return Readiness("ready")
    since = allocation_of(claim).get("allocationTimestamp")
    if since and now - parse_time(since, f"{claim}: allocationTimestamp") > BINDING_TIMEOUT:
        seconds = BINDING_TIMEOUT.total_seconds()
        return Readiness("failed", f"{missing} for more than {seconds:.0f} s")
    return Readiness("waiting", missing)


def _true_conditions(claim: ApiObject) -> set[tuple[tuple[str, ...], str]]:
    return {
        (tuple(str(device.value.get(key)) for key in NAMES), condition["type"])
        for device in claim["status"]["devices"].items()
        for condition in device.value.get("conditions") or ()
        if condition.get("status") == "True"
    }


def contested(claims: t.Iterable[ApiObject], slices: Slices) -> dict[Key, str]:
    """Claims whose devices other claims have too, each with a sentence.

    Two independent allocators may each write a valid status; only all statuses together show the
    conflict.
    """
    holders: dict[int, list[tuple[Key, HeldDevice]]] = collections.defaultdict(list)
    for claim in claims:
        for held in held_devices(claim, slices, Findings()):
            if not held.admin:
                holders[held.device].append(((claim.namespace, claim.name), held))
    found: dict[Key, str] = {}
    for device, held_by in holders.items():
        if _is_too_much(slices, device, held_by):
            for key, _held in held_by:
                others = ", ".join(sorted({"/".join(one) for one, _held in held_by if one != key}))
                found[key] = f"{slices.devices[device]} also belongs to {others}"
    for counter, users in _overdrawn(slices, holders).items():
        name = f"{counter.counter_set}/{counter.name} of pool {counter.pool}"
        for key in users:
            found.setdefault(key, f"allocations exceed the counter {name}")
    return found


def _is_too_much(slices: Slices, device: int, held_by: list[tuple[Key, HeldDevice]]) -> bool:
    """Whether claims together exceed one device."""
    if len({key for key, _held in held_by}) < 2:
        return False
    published = slices.devices[device]
    if not published.shareable or any(held.whole for _key, held in held_by):
        return True
    return any(
        sum(held.portions.get(name, 0) for _key, held in held_by) > capacity.amount
        for name, capacity in published.capacities.items()
    )


def _overdrawn(
    slices: Slices, holders: t.Mapping[int, t.Sequence[tuple[Key, HeldDevice]]]
) -> dict[t.Any, set[Key]]:
    """Counters that allocated devices exceed, with the claims of these devices."""
    taken: dict[int, int] = collections.defaultdict(int)
    users: dict[int, set[Key]] = collections.defaultdict(set)
    for device, held_by in holders.items():
        for counter, amount in slices.devices[device].consumes:
            taken[counter] += amount
            users[counter].update(key for key, _held in held_by)
    return {
        slices.counters[counter]: users[counter]
        for counter, amount in taken.items()
        if amount > slices.counters[counter].capacity
    }
