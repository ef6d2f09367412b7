# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Bipartite matching of claims to existing volumes, a separate one for each claim.

Volumes that are on one node each, such as local disks, give a rule of every node; others give one
of the fleet. A claim needs no existing volume if one can be provisioned on the pod's node.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass

from ...scheduling.feasibility import NO_VOLUME
from ...scheduling.model import Node, NodeTerm, Shape, StaticClaim
from ...scheduling.volumes.matching import matched
from .fleet_contents import Total
from .instance import Instance
from .node_contents import IMPOSSIBLE, NO_DRAW, Draw, Pods, Sum

# What one node has for each claim: the volumes that can serve it; None where one can be made.
_Offer = tuple[t.Optional[tuple[str, ...]], ...]


@dataclass(frozen=True)
class _Static:
    """Claims of some groups, as indices of ``claims``; ``class_of[n]`` is an index of ``offers``."""

    of_group: t.Mapping[int, tuple[int, ...]]
    claims: tuple[StaticClaim, ...]
    class_of: tuple[int, ...]
    offers: tuple[_Offer, ...]

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(self.of_group)

    def reason(self, group: int) -> str:
        return NO_VOLUME

    def needed(self) -> dict[int, int]:
        """Claims of each group for which no volume can be provisioned on any node."""
        return {
            group: sum(1 for claim in claims if self._is_never_made(claim))
            for group, claims in self.of_group.items()
        }

    def _is_never_made(self, claim: int) -> bool:
        return not self.claims[claim].claim and all(
            offer[claim] is not None for offer in self.offers
        )

    def find(self, pods: t.Iterable[tuple[int, tuple[int, ...], int]]) -> Draw:
        """Whether all claims are served: class, claims and number of pods of each kind."""
        asked: Counter[tuple[str, ...]] = Counter()
        known: set[str] = set()
        for of_class, claims, number in pods:
            for claim in claims if number else ():
                volumes, name = self.offers[of_class][claim], self.claims[claim].claim
                if volumes is not None and name not in known:
                    asked[volumes] += 1 if name else number
                known.update([name] if name else [])
        return NO_DRAW if matched(asked) is not None else IMPOSSIBLE


@dataclass(frozen=True)
class NodeVolumesCheck(_Static):
    """The check of volumes that are on one node each; see node_contents.py."""

    def kind(self, node: int) -> t.Hashable:
        return self.class_of[node]

    def draw(self, node: int, pods: Pods) -> Draw:
        of_class = self.class_of[node]
        return self.find((of_class, c, n) for c, n in zip(self.of_group.values(), pods))

    def least_alone(self, node: int, group: int) -> float:
        return 0.0

    def sums(self) -> list[Sum]:
        there = [
            len({volume for volumes in self.offers[of_class] for volume in volumes or ()})
            for of_class in self.class_of
        ]
        return [Sum(self.needed(), there)]


@dataclass(frozen=True)
class FleetVolumesCheck(_Static):
    """The check of volumes that several nodes reach; see fleet_contents.py."""

    @property
    def draws(self) -> bool:
        return False

    def draw(self, pods: Pods) -> Draw:
        classes = len(self.offers)
        return self.find(
            (position % classes, self.of_group[self.groups[position // classes]], number)
            for position, number in enumerate(pods)
            if number
        )

    def least_alone(self, group: int, of_class: int) -> float:
        return 0.0

    def totals(self) -> list[Total]:
        there = {volume for offer in self.offers for volumes in offer for volume in volumes or ()}
        return [Total(self.needed(), len(there))]


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
    return check(of_group, instance.static_claims, class_of, tuple(distinct))


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
