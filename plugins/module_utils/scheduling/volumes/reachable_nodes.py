# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that reach the volume of a claim, or on which it can be provisioned.

Source: volumebinding/binder.go and volumezone/volume_zone.go of Kubernetes v1.34.
"""

from __future__ import annotations

import itertools
import typing as t

from ...base.label_selector import Requirement
from ..feasibility import NO_STORAGE, NO_VOLUME, VOLUME_ELSEWHERE, VOLUME_GONE, VOLUME_ZONE
from ..model import NodeTerm, VolumeDemand
from .objects import BETA_ZONE_KEYS, ZONE_KEYS, Claim, StorageClass, Terms, Volume, VolumeObjects

_NO_ZONES = NodeTerm(
    tuple(Requirement(key, "DoesNotExist") for key in (*ZONE_KEYS, *BETA_ZONE_KEYS))
)


def demands_of_volume(volume: Volume | None, *, is_ephemeral: bool) -> t.Iterator[VolumeDemand]:
    """Constraints of a bound volume on a node; None is a missing volume."""
    if volume is None:
        yield VolumeDemand(VOLUME_GONE)
        return
    if volume.terms is not None:
        yield VolumeDemand(VOLUME_ELSEWHERE, volume.terms)
    if volume.zones and not is_ephemeral:
        yield VolumeDemand(VOLUME_ZONE, _zone_terms(volume))


def _zone_terms(volume: Volume) -> Terms:
    """A node without any zone passes; other nodes must have each zone of the volume.

    A beta label of the volume may match the stable label of a node.
    """
    choices: list[list[tuple[Requirement, ...]]] = []
    for key, zones in volume.zones:
        choices.append([(Requirement(key, "In", zones),)])
        if key in BETA_ZONE_KEYS:
            stable = Requirement(BETA_ZONE_KEYS[key], "In", zones)
            choices[-1].append((Requirement(key, "DoesNotExist"), stable))
    met = (
        NodeTerm(tuple(itertools.chain.from_iterable(choice)))
        for choice in itertools.product(*choices)
    )
    return (_NO_ZONES, *met)


def selected(claim: Claim) -> VolumeDemand | None:
    """The node for which the volume of a claim is being provisioned, if any."""
    if not claim.selected_node:
        return None
    name = Requirement("metadata.name", "In", frozenset({claim.selected_node}))
    return VolumeDemand(NO_VOLUME, (NodeTerm(fields=(name,)),))


def made_on(claim: Claim, of_class: StorageClass, objects: VolumeObjects) -> list[VolumeDemand]:
    """Constraints of a new volume of the class on a node: its topology, and free storage."""
    if not of_class.provisions:
        return [VolumeDemand(NO_VOLUME)]
    found = []
    if of_class.topologies is not None:
        found.append(VolumeDemand(NO_VOLUME, of_class.topologies))
    terms = _with_storage(claim, of_class, objects)
    return found if terms is None else [*found, VolumeDemand(NO_STORAGE, terms)]


def _with_storage(claim: Claim, of_class: StorageClass, objects: VolumeObjects) -> Terms | None:
    """Nodes with storage for one volume of the claim's size; None: unknown, or everywhere."""
    if not claim.has_size or of_class.provisioner not in objects.counting_drivers:
        return None
    enough = [
        capacity.nodes
        for capacity in objects.capacities
        if capacity.storage_class == of_class.name and capacity.size >= claim.wanted.size
    ]
    if any(not nodes.requirements for nodes in enough):
        return None
    return tuple(dict.fromkeys(NodeTerm(nodes.requirements) for nodes in enough))


def both(first: Terms | None, second: Terms | None) -> Terms | None:
    """Terms that a node meets if it meets one term of each list; None are all nodes."""
    if first is None or second is None:
        return second if first is None else first
    return tuple(
        NodeTerm((*one.labels, *other.labels), (*one.fields, *other.fields))
        for one in first
        for other in second
        if (one.labels or one.fields) and (other.labels or other.fields)
    )
