# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Choice of existing volumes for the claims of pods with fixed nodes.

Claims whose node cannot provision a volume come first; the others take remaining smaller volumes,
which kube-scheduler prefers to new ones.
"""

from __future__ import annotations

import functools
import typing as t
from collections import Counter

from ..base.boundary import Finding, guarded, subject_of
from ..base.fields.strict import text_mapping
from ..base.json_types import MutableObject
from ..kube.client import Kube
from ..scheduling.feasibility import meets, volume_obstacles
from ..scheduling.model import Constraints, Node
from ..scheduling.volumes.cluster_volumes import ClusterVolumes
from ..scheduling.volumes.matching import matched
from ..scheduling.volumes.objects import Claim, Key, VolumeObjects
from ..scheduling.volumes.pod_claims import Unready, class_of, ready_claims
from ..scheduling.volumes.reachable_nodes import made_on

_Volumes = tuple[str, ...]


class _VolumeOptions(t.NamedTuple):
    """A claim on a node, the suitable volumes there, and whether one can be provisioned there."""

    claim: Claim
    volumes: _Volumes
    can_be_made: bool


def chosen_volumes(
    kube: Kube, objects: VolumeObjects, planned: t.Sequence[tuple[MutableObject, str]]
) -> dict[Key, str]:
    """Like ``choose``, with nodes of the cluster. Raises ApiError."""
    claims = _claims_of(objects, planned)
    return choose(objects, planned, _nodes(kube, sorted({node for _claim, node in claims})))


def choose(
    objects: VolumeObjects,
    planned: t.Sequence[tuple[MutableObject, str]],
    nodes: t.Mapping[str, Node],
) -> dict[Key, str]:
    """The volume of each unbound claim; empty for one to be provisioned, none for one without any.

    ``planned`` are pods with the names of their nodes.
    """
    cluster = ClusterVolumes(objects, (), ())
    return shared_out(
        [
            _volume_options(claim, nodes[node], cluster, objects)
            for claim, node in _claims_of(objects, planned)
            if node in nodes
        ]
    )


def _claims_of(
    objects: VolumeObjects, planned: t.Sequence[tuple[MutableObject, str]]
) -> list[tuple[Claim, str]]:
    """The unbound claims of pods, each once, with a node."""
    found: dict[Key, tuple[Claim, str]] = {}
    for pod, node in planned:
        read = guarded(subject_of(pod, "Pod"), functools.partial(_unbound, pod, objects))
        for claim in () if isinstance(read, Finding) else read:
            found.setdefault(claim.key, (claim, node))
    return list(found.values())


def _unbound(pod: MutableObject, objects: VolumeObjects) -> list[Claim]:
    try:
        return [claim for _name, claim in ready_claims(pod, objects) if not claim.is_bound]
    except Unready:
        return []


def _nodes(kube: Kube, names: t.Sequence[str]) -> dict[str, Node]:
    """The nodes with their labels, without missing and unreadable ones."""
    given = kube.in_parallel(lambda name: kube.find(f"/api/v1/nodes/{name}"), names)
    found = {}
    for name, item in zip(names, given):
        read = guarded(subject_of(item, "Node"), functools.partial(_labels, item or {}))
        if not isinstance(read, Finding):
            found[name] = Node(name, {}, labels=read)
    return found


def _labels(node: MutableObject) -> t.Mapping[str, str]:
    return text_mapping(node["metadata"].get("labels"), "metadata.labels")


def _volume_options(
    claim: Claim, node: Node, cluster: ClusterVolumes, objects: VolumeObjects
) -> _VolumeOptions:
    of_class = class_of(claim, objects)
    demands = made_on(claim, of_class, objects) if of_class is not None else []
    can_be_made = not volume_obstacles(Constraints(volumes=tuple(demands)), node)
    if claim.selected_node:
        return _VolumeOptions(claim, (), can_be_made)
    volumes = tuple(
        name
        for name, terms in cluster.volumes_for(claim)
        if terms is None or any(meets(node, term) for term in terms)
    )
    return _VolumeOptions(claim, volumes, can_be_made)


def shared_out(claims: t.Sequence[_VolumeOptions]) -> dict[Key, str]:
    """A volume for each claim by bipartite matching, else greedily for as many as possible."""
    in_order = sorted(claims, key=lambda each: (each.claim.wanted.size, each.claim.key))
    needing = [each for each in in_order if not each.can_be_made]
    found = _matched(needing)
    taken = set(found.values())
    for each in in_order:
        if each.claim.key not in found:
            free = next((volume for volume in each.volumes if volume not in taken), "")
            if free or each.can_be_made:
                found[each.claim.key] = free
                taken.add(free)
    return found


def _matched(needing: t.Sequence[_VolumeOptions]) -> dict[Key, str]:
    pairs = matched(Counter(each.volumes for each in needing))
    by_volumes: dict[_Volumes, list[str]] = {}
    for volumes, volume in pairs or ():
        by_volumes.setdefault(volumes, []).append(volume)
    if pairs is None:
        return {}
    return {each.claim.key: by_volumes[each.volumes].pop(0) for each in needing}
