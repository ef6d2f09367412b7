# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""resource.k8s.io/v1 in a cluster, for pods with our schedulerName; see adapter/cluster.py.

Allocating is the scheduler's part of dynamic resource allocation. The rest is done by Kubernetes'
resourceclaim controller: it makes claims from templates, and frees the devices of pods that ended.

Claims are separate objects, so their resource versions do not keep two allocators from giving one
device to two claims. A Lease separates runs of this collection. Conflicts with any other allocator
are found by reading all claims again after writing, before a pod is bound; contested allocations
are given back.
"""

from __future__ import annotations

import functools
import time
import typing as t

from ...base.context import Context
from ...base.json_types import MutableObject
from ...kube.client import Kube
from ...kube.common_sources import trim_node
from ...kube.unschedulable import Unplaced
from ...scheduling.pod_reader import is_pending
from ..adapter.cluster import Change, Key, Pods, Problem, Report, UnitAllocation, tell
from ..adapter.pod_nodes import Room, hindrance, trimmed
from ..model.fields import Json
from ..model.findings import ApiObject, Defect
from ..model.model import Node
from ..model.node_selector import selected
from . import writes as dra_writes
from .extended_resources import ExtendedResources, offered_by
from .objects import DraObjects
from .pods import PodClaims, claims_made, claims_of_pod, names_claims, with_made_claims
from .status import allocation_of

T = t.TypeVar("T")

# Time limit for the controller to make claims from templates.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 5.0, 0.1


class DraView:
    """The View of resource.k8s.io.

    Its objects are read in ``settle``, after the pods, so they include claims that were made for
    these pods meanwhile. No claim is released because its pod is missing.
    """

    def __init__(self, kube: Kube, context: Context) -> None:
        self.report = Report()
        self._kube = kube
        self._context = context
        self._objects: DraObjects
        self._given: dict[Key, ApiObject] = {}
        self._claims: dict[Key, tuple[Key, ...]] = {}
        self._reasons: dict[Key, str] = {}
        self._waiting: set[Key] = set()
        self._placed: dict[Key, str] = {}

    def settle(self, pods: Pods) -> None:
        """Read, give contested or failed devices back, and find nodes of existing allocations."""
        ours = [
            given for given in map(ApiObject, pods.by_key.values()) if self._is_ours(given, pods)
        ]
        self._objects = DraObjects(self._kube, self._context, self.report)
        for pod, found in self._await_claims(ours):
            key = pod.namespace, pod.name
            self._given[key] = pod
            self._claims[key] = tuple((one.namespace, one.name) for one in found.claims)
            reason = found.problem or self._obstacle(pod, pods)
            if reason:
                self._refuse(key, reason, waits=found.awaited)
        self._give_contested_back()
        for key in self._open():
            self._heed_conditions(key)
        allocated = [key for key in self._open() if not self._lacking(key)]
        if allocated:
            self._place(allocated, pods)

    def _is_ours(self, pod: ApiObject, pods: Pods) -> bool:
        """Whether the pod waits for this run, and can be read."""

        def read() -> bool:
            waits = is_pending(pod.manifest, pods.scheduler_name)
            return waits and not pods.is_left_to_others(pod.manifest) and names_claims(pod)

        return self._read(pod, read) or False

    def _read(self, pod: ApiObject, read: t.Callable[[], T]) -> T | None:
        """The pod as read; None if it is a finding."""
        found = pod.attempt(lambda _pod: read())
        if not isinstance(found, Defect):
            return found
        self.report.note(found)
        return None

    def _obstacle(self, pod: ApiObject, pods: Pods) -> str:
        """Why a pod must get no devices, apart from its claims; "" if it may."""
        classes = [one.manifest for one in self._objects.others if one.kind == "DeviceClass"]
        found = pod.attempt(ExtendedResources(classes, ()).unclaimed)
        if not isinstance(found, Defect) and found:
            offered = offered_by(self._list_nodes())
            found = pod.attempt(ExtendedResources(classes, offered).unclaimed)
        if not isinstance(found, Defect) and found:
            return f"unsupported: {', '.join(found)}"
        reason = (
            found
            if isinstance(found, Defect)
            else pod.attempt(lambda _pod: hindrance(pod.manifest, pods))
        )
        if isinstance(reason, Defect):
            self.report.note(reason)
        return str(reason)

    def _await_claims(self, pods: t.Sequence[ApiObject]) -> list[tuple[ApiObject, PodClaims]]:
        """The pods with their claims, after the controller has made them or its time is over."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            told = self._with_made_claims(pods)
            found = [(pod, self._claims_of(pod)) for pod in told]
            waits = any(claims.awaited for _pod, claims in found)
            if not waits or self._context.check_mode or time.monotonic() > deadline:
                return found
            time.sleep(_PAUSE_SECONDS)
            self._objects.read_claims()

    def _with_made_claims(self, pods: t.Sequence[ApiObject]) -> list[ApiObject]:
        made = claims_made(self._objects.claims.values())
        found = [self._read(pod, functools.partial(with_made_claims, pod, made)) for pod in pods]
        return [pod for pod in found if pod is not None]

    def _claims_of(self, pod: ApiObject) -> PodClaims:
        objects = self._objects
        read = functools.partial(
            claims_of_pod, pod, objects.claims, objects.templates, objects.unreadable
        )
        found = pod.attempt(lambda _pod: read())
        if isinstance(found, Defect):
            self.report.note(found)
            return PodClaims(problem=str(found))
        return found

    def _open(self) -> list[Key]:
        """Pods that can get a node as far as is known."""
        return [key for key in self._given if key not in self._reasons]

    def _claim(self, key: Key) -> ApiObject:
        return self._objects.claims[key]

    def _lacking(self, pod: Key) -> list[Key]:
        """The claims of a pod that have no devices yet."""
        return [key for key in self._claims[pod] if not allocation_of(self._claim(key))]

    def _uids(self, pods: t.Iterable[Key]) -> set[str]:
        return {self._given[key].manifest["metadata"]["uid"] for key in pods}

    def _withdraw(self, claim: Key, pods: t.Iterable[Key], why: str) -> bool:
        """Take a claim from pods that are not bound; its devices become free with the last one."""
        uids = self._uids(pods)
        frees = dra_writes.is_used_only_by(self._claim(claim), uids)
        before = _devices_text(self._claim(claim))
        if not self._objects.withdraw(claim, uids):
            return False
        if frees:
            change = Change("released", "ResourceClaim", *claim, before, f"{before} free: {why}")
            self.report.changes.append(change)
        return True

    def _give_contested_back(self) -> None:
        """Resolve claims of an interrupted run whose devices another claim has as well.

        If pods that use both run, nothing can be taken back, and the conflict is reported.
        """
        contested = self._objects.contested()
        waiting = {claim for pod in self._open() for claim in self._claims[pod]}
        for claim in sorted(contested.keys() - waiting):
            problem = Problem("ResourceClaim", *claim, contested[claim])
            self.report.problems.append(problem)
        for pod in self._open():
            for claim in contested.keys() & set(self._claims[pod]):
                if not dra_writes.is_used_only_by(self._claim(claim), self._uids(self._given)):
                    self._refuse(pod, contested[claim])
                elif allocation_of(self._claim(claim)):
                    self._withdraw(claim, self._given, contested[claim])

    def _refuse(self, pod: Key, reason: str, waits: bool = False) -> None:
        """Leave a pod out; a pod that only waits is not marked as unschedulable."""
        self._reasons[pod] = reason
        if waits:
            self._waiting.add(pod)
        self.report.problems.append(Problem("Pod", *pod, reason))

    def _heed_conditions(self, pod: Key) -> None:
        """A pod is bound when its devices are ready; devices that failed are given back."""
        for key in self._claims[pod]:
            state = dra_writes.readiness(self._claim(key), self._context.now())
            if state.state == "failed":
                if dra_writes.is_used_only_by(self._claim(key), self._uids([pod])):
                    self._withdraw(key, [pod], state.detail)
                self._refuse(pod, state.detail)
                return
            reserved = dra_writes.is_reserved_for(self._claim(key), self._given[pod])
            if state.state == "waiting" and reserved:
                self._refuse(pod, state.detail, waits=True)
                return

    def _place(self, pods: t.Sequence[Key], known: Pods) -> None:
        """Reserve claims for pods whose claims all have devices, and note the node of these.

        If no such node takes the pod, devices that only it has are given back.
        """
        nodes = self._list_nodes()
        room = Room(nodes, known)
        for pod in pods:
            there = self._given[pod].attempt(self._nodes_taking, room)
            if isinstance(there, Defect):
                self.report.note(there)
                self._refuse(pod, str(there))
            elif not there:
                where = "no node with the devices of its claims accepts the pod"
                if not self._give_back(pod, where):
                    self._refuse(pod, where)
            elif all(self._reserve(claim, None, [pod]) for claim in self._claims[pod]):
                self._placed[pod] = min(there)

    def _list_nodes(self) -> list[MutableObject]:
        return self._kube.list("/api/v1/nodes", trim=lambda node: trimmed(node, "Node", trim_node))

    def _nodes_taking(self, pod: ApiObject, room: Room) -> frozenset[str]:
        """The nodes of the pod's devices that take it. Raises InvalidInput."""
        key = pod.namespace, pod.name
        there, taking = self._nodes_of_claims(key, room), room.nodes_for(key)
        return there if taking is None else there & taking

    def _nodes_of_claims(self, pod: Key, room: Room) -> frozenset[str]:
        """The nodes from which all devices of a pod's claims can be used."""
        models = [Node(name, labels) for name, labels in room.labels.items()]
        found = frozenset(node.name for node in models)
        for key in self._claims[pod]:
            claim = self._claim(key)
            selector = allocation_of(claim).get("nodeSelector")
            if selector:
                found &= selected(claim, selector, "status.allocation.nodeSelector", models)
        return found

    def _give_back(self, pod: Key, why: str) -> bool:
        """Whether devices that only this pod had were given back."""
        own = [
            key
            for key in self._claims[pod]
            if allocation_of(self._claim(key))
            and dra_writes.is_used_only_by(self._claim(key), self._uids([pod]))
        ]
        given_back = [key for key in own if self._withdraw(key, [pod], why)]
        return bool(given_back)

    def objects(self) -> list[ApiObject]:
        """Slices, classes, claims and rules, and the pods with claims that lack devices."""
        pods = [self._given[key] for key in self._open() if self._lacking(key)]
        objects = self._objects
        claims = [*objects.claims.values(), *objects.unreadable.values()]
        return [*objects.slices, *objects.others, *claims, *pods]

    def placed(self) -> t.Mapping[Key, str]:
        """The nodes of pods whose claims all have devices and are reserved for them."""
        return self._placed

    def give(self, grants: t.Sequence[UnitAllocation]) -> list[UnitAllocation]:
        """Allocate and reserve, then check for another allocator that took the same devices.

        Grants whose devices are not ready yet are kept back; a later run binds their pods.
        """
        written = [grant for grant in self._kube.in_parallel(self._write, grants) if grant]
        if not written or self._context.check_mode:
            return written
        self._objects.read_claims()
        contested = self._objects.contested()
        return [grant for grant in written if self._stands(grant, contested)]

    def _write(self, grant: UnitAllocation) -> UnitAllocation | None:
        results = {(one.namespace, one.name): one.result for one in grant.claims}
        grant = self._within_limit(grant)
        users: dict[Key, list[Key]] = {}
        for pod in grant.pods:
            for claim in self._claims[pod]:
                users.setdefault(claim, []).append(pod)
        done: list[Key] = []
        for claim, pods in users.items():
            if not self._reserve(claim, results.get(claim), pods):
                for key in done:
                    self._withdraw(key, grant.pods, f"{'/'.join(claim)} was written meanwhile")
                return None
            done.append(claim)
        return grant if grant.pods else None

    def _within_limit(self, grant: UnitAllocation) -> UnitAllocation:
        """The grant without pods for which a claim has no reservation left."""
        room: dict[Key, int] = {}
        kept: list[Key] = []
        for pod in grant.pods:
            claims = self._claims[pod]
            for key in claims:
                room.setdefault(key, dra_writes.room_for_consumers(self._claim(key)))
            if all(room[key] > 0 for key in claims):
                kept.append(pod)
                room.update({key: room[key] - 1 for key in claims})
            else:
                most = dra_writes.MAX_CONSUMERS
                self._refuse(pod, f"a claim of the pod is reserved for {most} pods already")
        return UnitAllocation(tuple(kept), grant.node, grant.claims)

    def _reserve(self, claim: Key, allocation: Json | None, pods: t.Sequence[Key]) -> bool:
        givens = [self._given[pod] for pod in pods]
        if not self._objects.reserve(claim, allocation, givens, self._context.now()):
            return False
        if allocation is not None:
            text = f"{_devices_text(self._claim(claim))} for {', '.join(map('/'.join, pods))}"
            self.report.changes.append(Change("allocated", "ResourceClaim", *claim, after=text))
        return True

    def _stands(self, grant: UnitAllocation, contested: t.Mapping[Key, str]) -> bool:
        """Whether the grant's pods may be bound now."""
        claims = dict.fromkeys(claim for pod in grant.pods for claim in self._claims[pod])
        lost = [key for key in claims if key in contested or key not in self._objects.claims]
        if lost:
            for key in claims:
                if key in self._objects.claims:
                    self._withdraw(key, grant.pods, contested.get(lost[0], "its claim is gone"))
            self.report.contended.update(f"ResourceClaim {'/'.join(key)}" for key in lost)
            return False
        for key in claims:
            state = dra_writes.readiness(self._claim(key), self._context.now())
            if state.state != "ready":
                for pod in grant.pods:
                    self._refuse(pod, state.detail, waits=True)
                return False
        return True

    def take_back(self, pods: t.Sequence[Key]) -> None:
        """Withdraw the claims of pods that did not get their node. A pod that has a node keeps
        them: another client bound it, or the answer to our binding was lost."""
        for pod in pods:
            current = self._kube.find(f"/api/v1/namespaces/{pod[0]}/pods/{pod[1]}")
            if current is not None and (current.get("spec") or {}).get("nodeName"):
                continue
            for claim in self._claims.get(pod, ()):
                if dra_writes.is_reserved_for(self._claim(claim), self._given[pod]):
                    self._withdraw(claim, [pod], "the pod was not bound to its node")

    def explain(self, reasons: t.Mapping[Key, str]) -> None:
        """Write the reason into the pods that wait, as a scheduler does.

        If only some claims of a pod have devices, and their node lacks devices for the others, the
        pod gives its devices back, and another attempt looks for a node for all claims.
        """
        for pod in () if self._context.check_mode else reasons:
            if self._give_back(pod, reasons[pod]):
                self.report.contended.add(f"Pod {'/'.join(pod)}")
        if self.report.contended:
            return
        told = {**reasons, **self._reasons}
        unplaced = [
            Unplaced(*key, told[key], self._given[key].manifest["metadata"]["uid"])
            for key in told
            if key in self._given and key not in self._waiting
        ]
        tell(self._kube, self._context, self.report, unplaced)


def _devices_text(claim: ApiObject) -> str:
    results = (allocation_of(claim).get("devices") or {}).get("results") or ()
    return ", ".join("/".join((one["driver"], one["pool"], one["device"])) for one in results)
