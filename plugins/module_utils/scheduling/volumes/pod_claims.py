# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The claims of a pod before any node is checked, in the words of kube-scheduler's PreFilter phase.

Source: volumebinding/volume_binding.go and volumezone/volume_zone.go of Kubernetes v1.34.
"""

from __future__ import annotations

import typing as t

from ...base.boundary import Finding, InvalidField
from ...base.fields.strict import mapping, mappings, required_text, text
from ...base.json_types import Object
from ..pod_reader import identity
from .objects import Claim, Key, StorageClass, VolumeObjects

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class Unready(Exception):
    """A claim is not ready for any node; the text is kube-scheduler's."""


class ClaimName(t.NamedTuple):
    """A claim named by a pod; an ephemeral one is made for the pod."""

    namespace: str
    name: str
    is_ephemeral: bool

    @property
    def key(self) -> Key:
        return self.namespace, self.name


def claim_names(pod: Object) -> list[ClaimName]:
    """The claims of a pod's volumes, each once. Raises InvalidField."""
    volumes = mappings(mapping(pod.get("spec"), "spec").get("volumes"), "spec.volumes")
    if not volumes:
        return []
    namespace, name = identity(pod)
    found = []
    for volume in volumes:
        claim = mapping(volume.get("persistentVolumeClaim"), "spec.volumes.persistentVolumeClaim")
        if claim:
            path = "spec.volumes.persistentVolumeClaim.claimName"
            found.append(ClaimName(namespace, required_text(claim.get("claimName"), path), False))
        elif volume.get("ephemeral") is not None:
            own = f"{name}-{required_text(volume.get('name'), 'spec.volumes.name')}"
            found.append(ClaimName(namespace, own, True))
    return list(dict.fromkeys(found))


def ready_claims(pod: Object, objects: VolumeObjects) -> list[tuple[ClaimName, Claim]]:
    """The claims of a pod, each bound or waiting for its first consumer.

    Raises Unready, and InvalidField for an unreadable object.
    """
    names = claim_names(pod)
    claims = [(name, _claim(pod, name, objects)) for name in names]
    for _name, claim in claims:
        if not claim.is_bound and not _waits(claim, objects):
            raise Unready(UNBOUND_IMMEDIATE)
    for name, claim in claims:
        if claim.is_bound and not name.is_ephemeral and claim.volume not in objects.volumes:
            _raise_broken(objects.broken_by("PersistentVolume", claim.volume))
            raise Unready(f'persistentvolume "{claim.volume}" not found')
    return claims


def _claim(pod: Object, name: ClaimName, objects: VolumeObjects) -> Claim:
    claim = objects.claims.get(name.key)
    if claim is None:
        _raise_broken(objects.broken_by("PersistentVolumeClaim", name.name, name.namespace))
        if name.is_ephemeral:
            raise Unready(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim "
                f'"{name.name}"'
            )
        raise Unready(f'persistentvolumeclaim "{name.name}" not found')
    if claim.is_lost:
        raise Unready(
            f'persistentvolumeclaim "{name.name}" bound to non-existent persistentvolume '
            f'"{claim.volume}"'
        )
    if claim.is_leaving:
        raise Unready(f'persistentvolumeclaim "{name.name}" is being deleted')
    uid = text(mapping(pod.get("metadata"), "metadata").get("uid"), "metadata.uid")
    if name.is_ephemeral and claim.controller != uid:
        namespace, pod_name = identity(pod)
        raise Unready(
            f"PVC {namespace}/{name.name} was not created for pod {namespace}/{pod_name} (pod is "
            "not owner)"
        )
    return claim


def _waits(claim: Claim, objects: VolumeObjects) -> bool:
    """Whether the claim is bound only after its first pod has a node."""
    found = None if claim.volume else class_of(claim, objects)
    return found is not None and found.waits


def class_of(claim: Claim, objects: VolumeObjects) -> StorageClass | None:
    """The class of a claim; None without one. Raises InvalidField if it cannot be read."""
    name = claim.wanted.storage_class
    found = objects.classes.get(name) if name else None
    if found is None and name:
        _raise_broken(objects.broken_by("StorageClass", name))
    return found


def _raise_broken(problem: Finding | None) -> None:
    if problem is not None:
        raise InvalidField("spec.volumes", str(problem))
