# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""resource.k8s.io/v1 in a cluster, for pods with our schedulerName; see adapter/view.py.

Allocating is the scheduler's part of dynamic resource allocation. The rest is done by Kubernetes'
resourceclaim controller: it makes claims from templates, and frees the devices of pods that ended.

Claims are separate objects, so their resource versions do not keep two allocators from giving one
device to two claims. A Lease separates runs of this collection. Conflicts with any other allocator
are found by reading all claims again after writing, before a pod is bound; contested allocations
are given back.
"""

from __future__ import annotations

import typing as t

from ...base.context import Context
from ...kube.client import Kube
from ..adapter.cluster import Pods, Report, UnitAllocation
from ..adapter.pod_nodes import Room
from ..model.findings import ApiObject, Defect, Key
from ..model.model import Node
from . import writes as dra_writes
from .objects import DraObjects
from .status import allocation_of
from .waiting import WaitingPods


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
