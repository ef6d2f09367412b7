# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Whether pods find volumes that are there: each claim one of its own, by bipartite matching.

Volumes that each lie on one node, as local disks do, make a rule of every node; others one of the
fleet. A claim for which a volume can be made on the pod's node needs none of those that are there.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.power.constraints.fleet_contents import (
    Total,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.constraints.node_contents import (
    IMPOSSIBLE,
    NO_DRAW,
    Draw,
    Pods,
    Sum,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.feasibility import (
    NO_VOLUME,
    meets,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.instance import (
    Instance,
    Node,
    NodeTerm,
    Shape,
    StaticClaim,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.volumes.matching import (
    matched,
)

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
        """Claims of each group for which no volume can be made anywhere."""
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
    """The check of volumes that each lie on one node; see node_contents.py."""

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
    """The check of a problem; None where no claim can be served by a volume that is there."""
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
    """What each node has for each claim, and from how many nodes each volume is reached."""
    known: dict[tuple[int, tuple[NodeTerm, ...] | None], bool] = {}

    def is_met(index: int, node: Node, terms: tuple[NodeTerm, ...] | None) -> bool:
        if terms is None:
            return True
        if (index, terms) not in known:
            known[index, terms] = any(meets(node, term) for term in terms)
        return known[index, terms]

    users: Counter[str] = Counter()
    offers = []
    for index, node in enumerate(instance.nodes):
        offer = tuple(
            None
            if is_met(index, node, claim.made_on)
            else tuple(name for name, terms in claim.volumes if is_met(index, node, terms))
            for claim in instance.static_claims
        )
        users.update({volume for volumes in offer for volume in volumes or ()})
        offers.append(offer)
    return offers, users
