# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Soft topology spread (ScheduleAnyway), restated: constraint by constraint.

It shares no code with the solver. The selected pods have an even share of each domain; the limit of
a domain is this share plus ``maxSkew`` minus one, or its number of running pods if that is higher.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from support.placement_rules import Json, Node, Placed, Pod, counted_nodes, get, matched


@dataclass
class Share:
    """The limit of a domain; ``pods`` and ``nodes`` are the ids of those that count."""

    key: str
    most: int
    pods: frozenset[int]
    nodes: frozenset[int]
    running: Mapping[str, int]

    def exceeded(self, placed: Sequence[Placed]) -> int:
        """Number of placed pods above the limits."""
        new = Counter(
            node.labels[self.key]
            for pod, node in placed
            if id(pod) in self.pods and id(node) in self.nodes
        )
        return sum(
            max(0, number - max(0, self.most - self.running.get(domain, 0)))
            for domain, number in new.items()
        )


def shares(
    nodes: Sequence[Node], waiting: Sequence[Pod], running: Sequence[Placed]
) -> Iterator[Share]:
    """One share per constraint, however many pods have it, if it selects one of these."""
    kinds: dict[str, list[tuple[Pod, Json]]] = {}
    for pod in waiting:
        for constraint in pod.soft_spreads:
            counted = counted_nodes(constraint, pod, pod.soft_spreads, nodes)
            values = [pod.labels.get(key) for key in get(constraint, "matchLabelKeys", [])]
            words = (pod.namespace, constraint, values, sorted(node.name for node in counted))
            kinds.setdefault(json.dumps(words, sort_keys=True), []).append((pod, constraint))
    for holders in kinds.values():
        if any(matched(constraint, pod, pod) for pod, constraint in holders):
            pod, constraint = holders[0]
            counted = counted_nodes(constraint, pod, pod.soft_spreads, nodes)
            selected = [other for other in waiting if matched(constraint, pod, other)]
            there = [
                node
                for other, node in running
                if node in counted and matched(constraint, pod, other)
            ]
            yield _share(constraint, counted, selected, there)


def _share(
    constraint: Json, counted: Sequence[Node], selected: Sequence[Pod], running: Sequence[Node]
) -> Share:
    key = get(constraint, "topologyKey")
    domains = {node.labels[key] for node in counted}
    even = -(-(len(running) + len(selected)) // max(len(domains), 1))
    return Share(
        key,
        even + get(constraint, "maxSkew") - 1,
        frozenset(map(id, selected)),
        frozenset(map(id, counted)),
        Counter(node.labels[key] for node in running),
    )
