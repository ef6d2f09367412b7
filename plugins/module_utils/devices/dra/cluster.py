# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""resource.k8s.io/v1 in a cluster, for pods with our schedulerName; see reconciliation.View.

Allocating is the scheduler's part of dynamic resource allocation. The rest is done by Kubernetes'
resourceclaim controller: it makes claims from templates, and frees the devices of pods that ended.

Claims are separate objects, so their resource versions do not keep two allocators from giving one
device to two claims. A Lease separates runs of this collection. Conflicts with any other allocator
are found by reading all claims again after writing, before a pod is bound; contested allocations
are given back.
"""

from __future__ import annotations

import time
import typing as t

from ...base.context import Context
from ...base.json_types import Object
from ...kube.client import Kube
from ...kube.unschedulable import Unplaced
from ...scheduling.pod_reader import is_pending
from ..adapter.cluster import Pods, Report, UnitAllocation
from ..adapter.pod_nodes import Room, hindrance
from ..model.findings import ApiObject, Defect, Key
from ..model.model import Node
from . import writes as dra_writes
from .objects import DraObjects
from .pods import (
    ExtendedResources,
    PodClaims,
    claims_made,
    claims_of_pod,
    names_claims,
    offered_by,
    with_made_claims,
)
from .status import allocation_of

# Time limit for the controller to make claims from templates.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 5.0, 0.1


class DraView:
    """The View of resource.k8s.io.

    Its objects are read in ``settle``, after the pods, so they include claims that were made for
    these pods meanwhile. No claim is released because its pod is missing.
    """

    _objects: DraObjects
    _waiting: WaitingPods

    def __init__(self, kube: Kube, context: Context) -> None:
        self.report = Report()
        self._kube = kube
        self._context = context
        self._placed: dict[Key, str] = {}

    def settle(self, pods: Pods, room: t.Callable[[], Room]) -> None:
        """Read, give contested or failed devices back, and find nodes of existing allocations."""
        self._objects = DraObjects(self._kube, self._context, self.report)
        self._waiting = WaitingPods(self._objects, self._context, self.report)
        self._waiting.read(pods, room)
        self._give_contested_back()
        for key in self._waiting.open():
            self._heed_conditions(key)
        for key in [key for key in self._waiting.open() if not self._waiting.lacking(key)]:
            self._place(key, room())

    def _give_contested_back(self) -> None:
        """Resolve claims of an interrupted run whose devices another claim has as well.

        If pods that use both run, nothing can be taken back, and the conflict is reported.
        """
        contested, pods = self._objects.contested(), self._waiting
        waiting = {claim for pod in pods.open() for claim in pods.claims[pod]}
        for claim in sorted(contested.keys() - waiting):
            self.report.refuse("ResourceClaim", claim, contested[claim])
        for pod in pods.open():
            for claim in contested.keys() & set(pods.claims[pod]):
                if not pods.are_only_users(pods.pods, claim):
                    pods.refuse(pod, contested[claim])
                elif allocation_of(self._objects.claims[claim]):
                    pods.withdraw(claim, pods.pods, contested[claim])

    def _heed_conditions(self, pod: Key) -> None:
        """A pod is bound when its devices are ready; devices that failed are given back."""
        for key in self._waiting.claims[pod]:
            claim = self._objects.claims[key]
            state = dra_writes.readiness(claim, self._context.now())
            if state.state == "failed":
                if self._waiting.are_only_users([pod], key):
                    self._waiting.withdraw(key, [pod], state.detail)
                self._waiting.refuse(pod, state.detail)
                return
            reserved = dra_writes.is_reserved_for(claim, self._waiting.pods[pod])
            if state.state == "waiting" and reserved:
                self._waiting.refuse(pod, state.detail, waits=True)
                return

    def _place(self, pod: Key, room: Room) -> None:
        """Reserve the claims of a pod, which all have devices, and note the node of these.

        If no such node takes the pod, devices that only it has are given back.
        """
        there = self.report.read(self._waiting.pods[pod], self._nodes_taking, room)
        if isinstance(there, Defect):
            self._waiting.refuse(pod, str(there))
        elif not there:
            where = "no node with the devices of its claims accepts the pod"
            if not self._waiting.give_back(pod, where):
                self._waiting.refuse(pod, where)
        elif all(self._waiting.reserve(claim, None, [pod]) for claim in self._waiting.claims[pod]):
            self._placed[pod] = min(there)

    def _nodes_taking(self, pod: ApiObject, room: Room) -> frozenset[str]:
        """The nodes of the pod's devices that take it. Raises InvalidInput."""
        nodes = [Node(name, labels) for name, labels in room.labels.items()]
        there = frozenset(node.name for node in nodes)
        for key in self._waiting.claims[pod.key]:
            reached = dra_writes.nodes_of_devices(self._objects.claims[key], nodes)
            there = there if reached is None else there & reached
        taking = room.nodes_for(pod)
        return there if taking is None else there & taking

    def objects(self) -> list[ApiObject]:
        """Slices, classes, claims and rules, and the pods with claims that lack devices."""
        waiting, objects = self._waiting, self._objects
        pods = [waiting.pods[key] for key in waiting.open() if waiting.lacking(key)]
        claims = [*objects.claims.values(), *objects.unreadable.values()]
        return [*objects.slices, *objects.others, *claims, *pods]

    def placed(self) -> t.Mapping[Key, str]:
        """The nodes of pods whose claims all have devices and are reserved for them."""
        return self._placed

    def give(self, allocations: t.Sequence[UnitAllocation]) -> list[UnitAllocation]:
        """Allocate and reserve, then check for another allocator that took the same devices.

        Units whose devices are not ready yet are kept back; a later run binds their pods.
        """
        written = [unit for unit in self._kube.in_parallel(self._write, allocations) if unit]
        if not written or self._context.check_mode:
            return written
        self._objects.read_claims()
        contested = self._objects.contested()
        return [unit for unit in written if self._stands(unit, contested)]

    def _write(self, unit: UnitAllocation) -> UnitAllocation | None:
        results = {(one.namespace, one.name): one.result for one in unit.claims}
        unit = self._within_limit(unit)
        users: dict[Key, list[Key]] = {}
        for pod in unit.pods:
            for claim in self._waiting.claims[pod]:
                users.setdefault(claim, []).append(pod)
        done: list[Key] = []
        for claim, pods in users.items():
            if not self._waiting.reserve(claim, results.get(claim), pods):
                why = f"{'/'.join(claim)} was written meanwhile"
                for key in done:
                    self._waiting.withdraw(key, unit.pods, why)
                return None
            done.append(claim)
        return unit if unit.pods else None

    def _within_limit(self, unit: UnitAllocation) -> UnitAllocation:
        """The unit without pods for which a claim has no reservation left."""
        left: dict[Key, int] = {}
        kept: list[Key] = []
        for pod in unit.pods:
            claims = self._waiting.claims[pod]
            for key in claims:
                left.setdefault(key, dra_writes.room_for_consumers(self._objects.claims[key]))
            if all(left[key] > 0 for key in claims):
                kept.append(pod)
                left.update({key: left[key] - 1 for key in claims})
            else:
                most = dra_writes.MAX_CONSUMERS
                self._waiting.refuse(pod, f"a claim of the pod is reserved for {most} pods already")
        return UnitAllocation(tuple(kept), unit.node, unit.claims)

    def _stands(self, unit: UnitAllocation, contested: t.Mapping[Key, str]) -> bool:
        """Whether the unit's pods may be bound now."""
        claims = dict.fromkeys(claim for pod in unit.pods for claim in self._waiting.claims[pod])
        lost = [key for key in claims if key in contested or key not in self._objects.claims]
        if lost:
            why = contested.get(lost[0], "its claim is gone")
            for key in [key for key in claims if key in self._objects.claims]:
                self._waiting.withdraw(key, unit.pods, why)
            self.report.contended.update(f"ResourceClaim {'/'.join(key)}" for key in lost)
            return False
        for key in claims:
            state = dra_writes.readiness(self._objects.claims[key], self._context.now())
            if state.state != "ready":
                for pod in unit.pods:
                    self._waiting.refuse(pod, state.detail, waits=True)
                return False
        return True

    def take_back(self, pods: t.Sequence[Key]) -> None:
        """Withdraw the claims of pods that did not get their node. A pod that has a node keeps
        them: another client bound it, or the answer to our binding was lost."""
        for pod in pods:
            current = self._kube.find(f"/api/v1/namespaces/{pod[0]}/pods/{pod[1]}")
            if current is not None and (current.get("spec") or {}).get("nodeName"):
                continue
            for key in self._waiting.claims.get(pod, ()):
                if dra_writes.is_reserved_for(self._objects.claims[key], self._waiting.pods[pod]):
                    self._waiting.withdraw(key, [pod], "the pod was not bound to its node")

    def explain(self, reasons: t.Mapping[Key, str]) -> None:
        """Write the reason into the pods that wait, as a scheduler does.

        If only some claims of a pod have devices, and their node lacks devices for the others, the
        pod gives its devices back, and another attempt looks for a node for all claims.
        """
        for pod in () if self._context.check_mode else reasons:
            if self._waiting.give_back(pod, reasons[pod]):
                self.report.contended.add(f"Pod {'/'.join(pod)}")
        if not self.report.contended:
            self.report.explain(self._kube, self._context, self._waiting.unplaced(reasons))


class WaitingPods:
    """Pods and the keys of their claims, both by the key of the pod, and writes for the pods.

    ``reasons`` has the pods that get nothing in this attempt. ``awaiting`` has the pods among them
    that need only time; these are not marked as unschedulable.
    """

    def __init__(self, objects: DraObjects, context: Context, report: Report) -> None:
        self._objects, self._context, self._report = objects, context, report
        self.pods: dict[Key, ApiObject] = {}
        self.claims: dict[Key, tuple[Key, ...]] = {}
        self.reasons: dict[Key, str] = {}
        self.awaiting: set[Key] = set()

    def read(self, pods: Pods, room: t.Callable[[], Room]) -> None:
        """Find the pods that wait for this run, and their claims."""
        ours = [
            pod
            for pod in map(ApiObject, pods.by_key.values())
            if self._report.read(pod, _is_ours, pods) is True
        ]
        waiting = self._await_claims(ours)
        classes = [one.manifest for one in self._objects.others if one.kind == "DeviceClass"]
        extended = ExtendedResources(classes, offered_by(room().manifests) if waiting else ())
        for pod, found in waiting:
            self.pods[pod.key] = pod
            self.claims[pod.key] = tuple(claim.key for claim in found.claims)
            reason = found.problem or str(self._report.read(pod, _obstacle, extended, pods))
            if reason:
                self.refuse(pod.key, reason, waits=found.awaited)

    def _await_claims(self, pods: t.Sequence[ApiObject]) -> list[tuple[ApiObject, PodClaims]]:
        """The pods with their claims, after the controller has made them or its time is over."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            made = claims_made(self._objects.claims.values())
            read = [self._report.read(pod, with_made_claims, made) for pod in pods]
            found = [(pod, self._claims_of(pod)) for pod in read if not isinstance(pod, Defect)]
            waits = any(claims.awaited for _pod, claims in found)
            if not waits or self._context.check_mode or time.monotonic() > deadline:
                return found
            time.sleep(_PAUSE_SECONDS)
            self._objects.read_claims()

    def _claims_of(self, pod: ApiObject) -> PodClaims:
        objects = self._objects
        found = self._report.read(
            pod, claims_of_pod, objects.claims, objects.templates, objects.unreadable
        )
        return PodClaims(problem=str(found)) if isinstance(found, Defect) else found

    def open(self) -> list[Key]:
        """Pods that can get a node as far as is known."""
        return [key for key in self.pods if key not in self.reasons]

    def lacking(self, pod: Key) -> list[Key]:
        """The claims of a pod that have no devices yet."""
        return [key for key in self.claims[pod] if not allocation_of(self._objects.claims[key])]

    def uids(self, pods: t.Iterable[Key]) -> set[str]:
        return {self.pods[key].manifest["metadata"]["uid"] for key in pods}

    def are_only_users(self, pods: t.Iterable[Key], claim: Key) -> bool:
        """Whether no other pod may use the claim."""
        return dra_writes.is_used_only_by(self._objects.claims[claim], self.uids(pods))

    def refuse(self, pod: Key, reason: str, waits: bool = False) -> None:
        """Leave a pod out."""
        self.reasons[pod] = reason
        if waits:
            self.awaiting.add(pod)
        self._report.refuse("Pod", pod, reason)

    def withdraw(self, claim: Key, pods: t.Iterable[Key], why: str) -> bool:
        """Take a claim from pods that are not bound; its devices become free with the last one."""
        frees = self.are_only_users(pods, claim)
        before = _devices_text(self._objects.claims[claim])
        if not self._objects.withdraw(claim, self.uids(pods)):
            return False
        if frees:
            self._report.change("released", "ResourceClaim", claim, before, f"{before} free: {why}")
        return True

    def give_back(self, pod: Key, why: str) -> bool:
        """Whether devices that only this pod had were given back."""
        there = [key for key in self.claims[pod] if key not in self.lacking(pod)]
        own = [key for key in there if self.are_only_users([pod], key)]
        return bool([key for key in own if self.withdraw(key, [pod], why)])

    def reserve(self, claim: Key, allocation: Object | None, pods: t.Sequence[Key]) -> bool:
        """Reserve a claim for pods, with its devices if it has none yet."""
        users = [self.pods[pod] for pod in pods]
        if not self._objects.reserve(claim, allocation, users, self._context.now()):
            return False
        if allocation is not None:
            devices = _devices_text(self._objects.claims[claim])
            text = f"{devices} for {', '.join(map('/'.join, pods))}"
            self._report.change("allocated", "ResourceClaim", claim, after=text)
        return True

    def unplaced(self, reasons: t.Mapping[Key, str]) -> list[Unplaced]:
        """The pods that get a condition, with the reasons of this attempt before these."""
        return [
            Unplaced(*key, reason, self.pods[key].manifest["metadata"]["uid"])
            for key, reason in {**reasons, **self.reasons}.items()
            if key in self.pods and key not in self.awaiting
        ]


def _is_ours(pod: ApiObject, pods: Pods) -> bool:
    waits = is_pending(pod.manifest, pods.scheduler_name)
    return waits and not pods.is_left_to_others(pod.manifest) and names_claims(pod)


def _obstacle(pod: ApiObject, extended: ExtendedResources, pods: Pods) -> str:
    """Why a pod must get no devices, apart from its claims; "" if it may."""
    unclaimed = extended.unclaimed(pod)
    return f"unsupported: {', '.join(unclaimed)}" if unclaimed else hindrance(pod.manifest, pods)


def _devices_text(claim: ApiObject) -> str:
    results = (allocation_of(claim).get("devices") or {}).get("results") or ()
    return ", ".join("/".join((one["driver"], one["pool"], one["device"])) for one in results)
