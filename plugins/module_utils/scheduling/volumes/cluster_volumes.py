# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Constraints of waiting pods' volumes on nodes and on each other.

Pods with equivalent volumes have equal constraints, so a placer can treat them as one group.
Source: volumerestrictions/ and nodevolumelimits/csi.go of Kubernetes v1.34.
"""

from __future__ import annotations

import functools
import typing as t
from collections import Counter
from dataclasses import dataclass, field, replace

from ...base.boundary import Finding, guarded, subject_of
from ...base.fields.strict import mapping
from ...base.json_types import Object
from ..feasibility import ATTACHABLE_VOLUMES, CLAIM_IN_USE
from ..model import UNLIMITED, Attachable, Disk, Node, SharedVolumes, StaticClaim, VolumeDemand
from ..pod_reader import is_finished
from .inline_disks import MIGRATED, attached_disks
from .matching import candidates
from .objects import Claim, Key, Terms, Volume, VolumeObjects
from .pod_claims import ClaimName, claim_names, class_of, ready_claims
from .reachable_nodes import both, demands_of_volume, made_on, selected


@dataclass(frozen=True)
class VolumeNeeds:
    """Constraints of one pod's volumes. ``attached`` are its own volumes by driver."""

    demands: tuple[VolumeDemand, ...] = ()
    attached: tuple[tuple[str, int], ...] = ()
    shared: SharedVolumes | None = None

    @property
    def requests(self) -> dict[str, int]:
        return {f"{ATTACHABLE_VOLUMES}{driver}": number for driver, number in self.attached}


@dataclass
class _Use:
    """Users of storage: claims of running pods, disks by node, claims and disks of waiting pods."""

    running: set[Key] = field(default_factory=set)
    on_node: dict[str, set[Disk]] = field(default_factory=dict)
    waiting: Counter[Key] = field(default_factory=Counter)
    disks: Counter[Disk] = field(default_factory=Counter)


class ClusterVolumes:
    """The volumes of one cluster; ``running`` pods are readable, ``waiting`` ones unchecked."""

    def __init__(
        self, objects: VolumeObjects, running: t.Iterable[Object], waiting: t.Iterable[Object]
    ) -> None:
        self._objects = objects
        self._use = _Use()
        self._static: dict[StaticClaim, int] = {}
        self._candidates: dict[t.Hashable, tuple[tuple[str, Terms | None], ...]] = {}
        for pod in running:
            if pod["spec"].get("volumes") and not is_finished(pod):
                self._count_running(pod)
        for pod in waiting:
            self._count_waiting(pod)
        limited = {driver for limits in objects.limits.values() for driver in limits or ()}
        if None in objects.limits.values():
            limited |= {disk.driver for disk in self._use.disks}
        self._limited = limited
        present = {disk for disks in self._use.on_node.values() for disk in disks}
        self._shared = {
            disk for disk, users in self._use.disks.items() if users > 1 or disk in present
        }
        self._jointly = {disk.driver for disk in self._shared} & limited

    @property
    def static_claims(self) -> tuple[StaticClaim, ...]:
        """Claims that needs of pods reference by index."""
        return tuple(self._static)

    def _count_running(self, pod: Object) -> None:
        keys, disks = self._used_by(pod)
        self._use.running.update(keys)
        if disks:
            self._use.on_node.setdefault(pod["spec"]["nodeName"], set()).update(disks)

    def _count_waiting(self, pod: Object) -> None:
        keys, disks = self._used_by(pod)
        self._use.waiting.update(keys)
        self._use.disks.update(disks)

    def _used_by(self, pod: Object) -> tuple[list[Key], set[Disk]]:
        """Claims and disks of a pod; none of an unreadable one."""
        subject = functools.partial(subject_of, pod, "Pod")
        names = guarded(subject, functools.partial(claim_names, pod))
        inline = guarded(subject, functools.partial(_inline_disks, pod))
        keys = [] if isinstance(names, Finding) else [name.key for name in names]
        disks = {self._disk(self._objects.claims.get(key)) for key in keys}
        own = () if isinstance(inline, Finding) else inline
        return keys, {*own, *(disk for disk in disks if disk is not None)}

    def _disk(self, claim: Claim | None) -> Disk | None:
        """The disk of a claim; a future one is identified by the claim's name."""
        if claim is None:
            return None
        volume = self._objects.volumes.get(claim.volume) if claim.volume else None
        if volume is not None:
            return volume.disk
        of_class = self._objects.classes.get(claim.wanted.storage_class)
        if of_class is None or not of_class.driver:
            return None
        return Disk(of_class.driver, f"claim {claim.namespace}/{claim.name}")

    def needs(self, pod: Object) -> VolumeNeeds:
        """Constraints of a waiting pod's volumes. Raises Unready and InvalidField."""
        claims = ready_claims(pod, self._objects)
        demands: list[VolumeDemand] = []
        static: list[int] = []
        for name, claim in claims:
            if claim.is_exclusive and not name.is_ephemeral and claim.key in self._use.running:
                demands.append(VolumeDemand(CLAIM_IN_USE))
            if claim.is_bound:
                volume = self._objects.volumes.get(claim.volume)
                demands += demands_of_volume(volume, is_ephemeral=name.is_ephemeral)
            else:
                self._add_unbound(claim, demands, static)
        own, disks = self._attached(claims, _inline_disks(pod))
        shared = SharedVolumes(
            exclusive=self._named(
                claim for name, claim in claims if claim.is_exclusive and not name.is_ephemeral
            ),
            together=self._named(claim for _name, claim in claims if not claim.is_bound),
            disks=disks,
            own_disks=tuple(each for each in own if each[0] in self._jointly),
            static=tuple(sorted(static)),
        )
        return VolumeNeeds(
            tuple(dict.fromkeys(demands)),
            tuple(each for each in own if each[0] not in self._jointly),
            shared if shared != SharedVolumes() else None,
        )

    def _named(self, claims: t.Iterable[Claim]) -> tuple[str, ...]:
        """Claims that another waiting pod names too."""
        return tuple(
            sorted("/".join(claim.key) for claim in claims if self._use.waiting[claim.key] > 1)
        )

    def _add_unbound(self, claim: Claim, demands: list[VolumeDemand], static: list[int]) -> None:
        of_class = class_of(claim, self._objects)
        made = [] if of_class is None else made_on(claim, of_class, self._objects)
        on_selected = selected(claim)
        there = () if on_selected is not None else self.volumes_for(claim)
        if on_selected is not None:
            demands.append(on_selected)
        if not there:
            demands += made
            return
        terms: Terms | None = None
        for demand in made:
            terms = both(terms, demand.terms)
        name = "/".join(claim.key) if self._use.waiting[claim.key] > 1 else ""
        wanted = StaticClaim(there, terms, name)
        static.append(self._static.setdefault(wanted, len(self._static)))

    def volumes_for(self, claim: Claim) -> tuple[tuple[str, Terms | None], ...]:
        """Existing volumes that can serve the claim, the best first, with their nodes."""
        volumes = self._by_class.get(claim.wanted.storage_class, ())
        own = next((volume.name for volume in volumes if volume.is_for(claim)), "")
        key = (claim.wanted, claim.selector, claim.key if own else None)
        if key not in self._candidates:
            self._candidates[key] = tuple(
                (volume.name, volume.terms) for volume in candidates(claim, volumes)
            )
        return self._candidates[key]

    def _attached(
        self, claims: t.Sequence[tuple[ClaimName, Claim]], inline: t.Sequence[Disk]
    ) -> tuple[list[tuple[str, int]], tuple[Disk, ...]]:
        """Own disks by driver, and shared disks, of drivers with a limit."""
        found = {*inline, *(self._disk(claim) for _name, claim in claims)}
        disks = {disk for disk in found if disk is not None and disk.driver in self._limited}
        own = Counter(disk.driver for disk in disks - self._shared)
        return sorted(own.items()), tuple(sorted(disks & self._shared))

    def room(self, node: str) -> tuple[dict[str, int], Attachable | None]:
        """Numbers of volumes that a node can still attach: as resources, and for shared volumes."""
        left = {driver: self._left(node, driver) for driver in sorted(self._limited)}
        apart = {
            f"{ATTACHABLE_VOLUMES}{driver}": number
            for driver, number in left.items()
            if driver not in self._jointly
        }
        if not self._jointly:
            return apart, None
        present = self._use.on_node.get(node, set()) & self._shared
        jointly = tuple((driver, left[driver]) for driver in sorted(self._jointly))
        return apart, Attachable(jointly, frozenset(present))

    def _left(self, node: str, driver: str) -> int:
        """Free number of the driver's volumes; 0 for a node with an unreadable CSINode."""
        limits = self._objects.limits.get(node, {})
        if limits is None:
            return 0
        if driver not in limits:
            return UNLIMITED
        used = {disk for disk in self._use.on_node.get(node, ()) if disk.driver == driver}
        for attachment in self._attachments.get((node, driver), ()):
            volume = self._objects.volumes.get(attachment)
            if volume is not None and volume.is_csi and volume.disk is not None:
                used.add(Disk(driver, volume.disk.handle))
        return limits[driver] - len(used)

    @functools.cached_property
    def _by_class(self) -> dict[str, list[Volume]]:
        found: dict[str, list[Volume]] = {}
        for volume in self._objects.volumes.values():
            found.setdefault(volume.offered.storage_class, []).append(volume)
        return found

    @functools.cached_property
    def _attachments(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for each in self._objects.attachments:
            if each.driver:
                found.setdefault((each.node, each.driver), []).append(each.volume)
        return found


def _inline_disks(pod: Object) -> list[Disk]:
    """Inline disks of the pod. Raises InvalidField."""
    return attached_disks(mapping(pod.get("spec"), "spec"))


def with_attachable(node: Node, volumes: ClusterVolumes) -> Node:
    """The node with its free number of volumes of each driver."""
    more, attachable = volumes.room(node.name)
    if not more and attachable is None:
        return node
    return replace(
        node,
        free={**node.free, **more},
        allocatable={**node.allocatable, **more},
        attachable=attachable,
    )


def depends_on_storage(pod: Object) -> bool:
    """Whether a readable pod has volume claims, or disks that a driver may limit."""
    volumes = mapping(pod.get("spec"), "spec").get("volumes") or ()
    return any(
        volume.get("persistentVolumeClaim")
        or volume.get("ephemeral") is not None
        or any(volume.get(source) for source in MIGRATED)
        for volume in volumes
    )
