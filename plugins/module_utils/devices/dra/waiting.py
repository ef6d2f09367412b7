# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods that wait for devices of resource.k8s.io, with their claims, as they are in one attempt."""

from __future__ import annotations

import time
import typing as t

from ...base.context import Context
from ...base.json_types import Object
from ...kube.unschedulable import Unplaced
from ...scheduling.pod_reader import is_pending
from ..adapter.cluster import Pods, Report
from ..adapter.pod_nodes import Room, hindrance
from ..model.findings import ApiObject, Defect, Key
from . import writes as dra_writes
from .extended_resources import ExtendedResources, offered_by
from .objects import DraObjects
from .pods import PodClaims, claims_made, claims_of_pod, names_claims, with_made_claims
from .status import allocation_of

# Time limit for the controller to make claims from templates.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 5.0, 0.1


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
