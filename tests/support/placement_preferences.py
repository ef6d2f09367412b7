# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wishes of pods to be near other pods or away from them, judged pod by pod in the final state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from support.placement_rules import Json, Placed, Pod, Term, same_domain, selects


@dataclass(frozen=True)
class Wish:
    """A term with its weight; of one pod equal terms are one wish, and their weights add up.

    ``text`` is the same for terms that mean the same.
    """

    near: bool
    weight: int
    text: str
    term: Term

    def is_same(self, other: Wish) -> bool:
        return (self.near, self.weight, self.text) == (other.near, other.weight, other.text)


def unmet_weight(
    placed: Sequence[Placed], running: Sequence[Placed], namespaces: Mapping[str, Json]
) -> int:
    """The weights of all unmet wishes of the placed pods; ``namespaces`` are labels by name."""
    wishes = [wishes_of(pod, namespaces) for pod, _node in placed]
    total = 0
    for index, (pod, node) in enumerate(placed):
        for wish in wishes[index]:
            others = [*running, *placed[:index]]
            for later, held in zip(placed[index + 1 :], wishes[index + 1 :], strict=True):
                # Of pods that wish to be away from each other, the first is not disturbed.
                mutual = not wish.near and wish.term.selects(pod)
                if not (mutual and any(map(wish.is_same, held))):
                    others.append(later)
            company = any(
                wish.term.selects(other) and same_domain(node, where, wish.term.key)
                for other, where in others
            )
            total += wish.weight if company != wish.near else 0
    return total


def wishes_of(pod: Pod, namespaces: Mapping[str, Json]) -> list[Wish]:
    """The wishes of one pod about other pods."""
    found: dict[tuple[bool, str], Wish] = {}
    for near, kind in ((True, "podAffinity"), (False, "podAntiAffinity")):
        for weight, term in pod.wishes(kind):
            text = _text(term, namespaces)
            known = found.get((near, text))
            found[near, text] = Wish(near, weight + (known.weight if known else 0), text, term)
    return list(found.values())


def _text(term: Term, namespaces: Mapping[str, Json]) -> str:
    meant = {*term.namespaces} | {
        name
        for name, labels in namespaces.items()
        if selects(term.namespace_selector, {"kubernetes.io/metadata.name": name, **labels})
    }
    return repr((sorted(meant), term.selector, term.key))
