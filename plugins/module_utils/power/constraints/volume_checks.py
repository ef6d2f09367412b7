# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Feasibility of the volumes of pods: attaching shared ones to a node, and existing ones.

A shared volume is attached once for all pods on the node. Volumes of drivers without shared volumes
add up, so they are an ordinary resource and need no check.

Claims are matched to existing volumes, a separate one for each claim, by bipartite matching.
Volumes that are on one node each, such as local disks, give a rule of every node; others give one
of the fleet. A claim needs no existing volume if one can be provisioned on the pod's node.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass

from ...scheduling.feasibility import NO_VOLUME, TOO_MANY_VOLUMES
from ...scheduling.model import Attachable, Disk, Node, NodeTerm, Shape, SharedVolumes, StaticClaim
from ...scheduling.volumes.matching import matched
from .contents import IMPOSSIBLE, NO_DRAW, Draw, FleetCheck, NodeCheck, Pods, Sum, Total
from .instance import Instance

# Larger than any limit, and small enough for sums over all nodes.
_MORE_THAN_ENOUGH = 1 << 30
# What one node has for each claim: the volumes that can serve it; None where one can be made.
_Offer = tuple[t.Optional[tuple[str, ...]], ...]


@dataclass(frozen=True)
class _Static:
    """The claims, and the distinct ``offers`` of nodes; groups have indices of claims."""

    claims: tuple[StaticClaim, ...]
    offers: tuple[_Offer, ...]

    def needed(self, of_group: t.Mapping[int, tuple[int, ...]]) -> dict[int, int]:
        """Claims of each group for which no volume can be provisioned on any node."""
        return {
            group: sum(1 for claim in claims if self._is_never_made(claim))
            for group, claims in of_group.items()
        }

    def _is_never_made(self, claim: int) -> bool:
        return not self.claims[claim].claim and all(
            offer[claim] is not None for offer in self.offers
        )

    def find(self, pods: t.Iterable[tuple[int, tuple[int, ...], int]]) -> Draw:
        """Whether all claims are served: offer, claims and number of pods of each kind."""
        asked: Counter[tuple[str, ...]] = Counter()
        known: set[str] = set()
        for offer, claims, number in pods:
            for claim in claims if number else ():
                volumes, name = self.offers[offer][claim], self.claims[claim].claim
                if volumes is not None and name not in known:
                    asked[volumes] += 1 if name else number
                known.update([name] if name else [])
        return NO_DRAW if matched(asked) is not None else IMPOSSIBLE


@dataclass(frozen=True, eq=False)
class NodeVolumesCheck(NodeCheck["tuple[int, ...]", int]):
    """The check of volumes that are on one node each; ``kinds[n]`` is an index of the offers."""

    words = NO_VOLUME
    static: _Static

    def draw(self, node: int, pods: Pods) -> Draw:
        offer = self.kinds[node]
        return self.static.find((offer, c, n) for c, n in zip(self.of_group.values(), pods))

    def sums(self) -> list[Sum]:
        there = [
            len({volume for volumes in self.static.offers[offer] for volume in volumes or ()})
            for offer in self.kinds
        ]
        return [Sum(self.static.needed(self.of_group), there)]


@dataclass(frozen=True, eq=False)
class FleetVolumesCheck(FleetCheck["tuple[int, ...]"]):
    """The check of volumes that several nodes reach; ``class_of[n]`` is an index of the offers."""

    words = NO_VOLUME
    static: _Static

    def draw(self, pods: Pods) -> Draw:
        return self.static.find(
            (position % self.classes, self.of_group[self.groups[position // self.classes]], number)
            for position, number in enumerate(pods)
            if number
        )

    def totals(self) -> list[Total]:
        offers = self.static.offers
        there = {volume for offer in offers for volumes in offer for volume in volumes or ()}
        return [Total(self.static.needed(self.of_group), len(there))]


def static_volumes_check(
    instance: Instance, shapes: t.Sequence[Shape]
) -> NodeVolumesCheck | FleetVolumesCheck | None:
    """The check of a problem; None if no existing volume fits any claim."""
    of_group = {
        group: shape.shared_volumes.static
        for group, shape in enumerate(shapes)
        if shape.shared_volumes and shape.shared_volumes.static
    }
    if not of_group or not instance.nodes:
        return None
    offers, users = _offers(instance)
    distinct = {offer: index for index, offer in enumerate(dict.fromkeys(offers))}
    class_of = tuple(distinct[offer] for offer in offers)
    local = all(number <= 1 for number in users.values())
    check = NodeVolumesCheck if local else FleetVolumesCheck
    return check(of_group, class_of, _Static(instance.static_claims, tuple(distinct)))


def _offers(instance: Instance) -> tuple[list[_Offer], Counter[str]]:
    """Volumes for each claim on each node, and number of nodes that reach each volume."""
    nodes = _NodesByLabel(instance.nodes)
    offers: list[list[list[str] | None]] = [[] for _node in instance.nodes]
    users: Counter[str] = Counter()
    known: set[str] = set()
    for claim in instance.static_claims:
        made = nodes.meeting(claim.made_on)
        for index, offer in enumerate(offers):
            offer.append(None if index in made else [])
        for name, terms in claim.volumes:
            reached = nodes.meeting(terms)
            users.update({name: 0 if name in known else len(reached)})
            known.add(name)
            for index in reached:
                offer_of_claim = offers[index][-1]
                if offer_of_claim is not None:
                    offer_of_claim.append(name)
    return [
        tuple(None if each is None else tuple(each) for each in offer) for offer in offers
    ], users


class _NodesByLabel:
    """Finds the nodes that meet terms; a term with a label's value checks only a few nodes."""

    def __init__(self, nodes: t.Sequence[Node]) -> None:
        self._nodes = nodes
        self._with: dict[tuple[str, str], list[int]] = {}
        self._known: dict[tuple[NodeTerm, ...], frozenset[int]] = {}
        for index, node in enumerate(nodes):
            for label in node.labels.items():
                self._with.setdefault(label, []).append(index)

    def meeting(self, terms: tuple[NodeTerm, ...] | None) -> frozenset[int]:
        """Indices of the nodes that meet one of the terms; None: all nodes."""
        if terms is None:
            return frozenset(range(len(self._nodes)))
        if terms not in self._known:
            self._known[terms] = frozenset(
                index
                for term in terms
                for index in self._possible(term)
                if term.admits(self._nodes[index].name, self._nodes[index].labels)
            )
        return self._known[terms]

    def _possible(self, term: NodeTerm) -> t.Iterable[int]:
        for expression in term.labels:
            if expression.operator == "In":
                return [
                    index
                    for value in expression.values
                    for index in self._with.get((expression.key, value), ())
                ]
        return range(len(self._nodes))


class AttachedVolumesCheck(NodeCheck[SharedVolumes, Attachable]):
    """The check of the volumes that pods share; ``kinds[n]`` is the free number of each node."""

    words = TOO_MANY_VOLUMES

    def draw(self, node: int, pods: Pods) -> Draw:
        disks: set[Disk] = set()
        new: dict[str, int] = {}
        for volumes, number in zip(self.of_group.values(), pods):
            if number:
                disks.update(volumes.disks)
                for driver, own in volumes.own_disks:
                    new[driver] = new.get(driver, 0) + number * own
        for disk in disks - self.kinds[node].present:
            new[disk.driver] = new.get(disk.driver, 0) + 1
        left = dict(self.kinds[node].left)
        possible = all(number <= left[driver] for driver, number in new.items() if number)
        return NO_DRAW if possible else IMPOSSIBLE

    def sums(self) -> list[Sum]:
        """The pods' own volumes by driver, because shared volumes may take no room."""
        drivers = sorted(
            {own[0] for volumes in self.of_group.values() for own in volumes.own_disks}
        )
        return [
            Sum(
                {
                    group: dict(volumes.own_disks).get(driver, 0)
                    for group, volumes in self.of_group.items()
                },
                [min(dict(each.left)[driver], _MORE_THAN_ENOUGH) for each in self.kinds],
            )
            for driver in drivers
        ]


def attached_volumes_check(
    shapes: t.Sequence[Shape], nodes: t.Sequence[Node]
) -> AttachedVolumesCheck | None:
    """The check of a problem; None if no driver with a limit attaches a shared volume."""
    of_group = {
        group: shape.shared_volumes
        for group, shape in enumerate(shapes)
        if shape.shared_volumes and (shape.shared_volumes.disks or shape.shared_volumes.own_disks)
    }
    attachable = [node.attachable for node in nodes if node.attachable is not None]
    return AttachedVolumesCheck(of_group, attachable) if of_group and attachable else None
