# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preferred pod affinity and anti-affinity, evaluated pod by pod in the final state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from support.placement_rules import Json, Placed, Pod, Term, same_domain, selects


@dataclass(frozen=True)
class PreferredTerm:
    """A term with its weight; equal terms of one pod are one, with the sum of their weights.

    ``text`` is the same for terms with the same meaning.
    """

    near: bool
    weight: int
    text: str
    term: Term

    def is_same(self, other: PreferredTerm) -> bool:
        return (self.near, self.weight, self.text) == (other.near, other.weight, other.text)


def unmet_weight(
    placed: Sequence[Placed], running: Sequence[Placed], namespaces: Mapping[str, Json]
) -> int:
    """The weights of all unmet terms of the placed pods; ``namespaces`` are labels by name."""
    preferred_terms = [preferred_terms_of(pod, namespaces) for pod, _node in placed]
    total = 0
    for index, (pod, node) in enumerate(placed):
        for preferred in preferred_terms[index]:
            others = [*running, *placed[:index]]
            for later, held in zip(placed[index + 1 :], preferred_terms[index + 1 :], strict=True):
                # The first of several pods with anti-affinity to each other is unaffected.
                mutual = not preferred.near and preferred.term.selects(pod)
                if not (mutual and any(map(preferred.is_same, held))):
                    others.append(later)
            company = any(
                preferred.term.selects(other) and same_domain(node, where, preferred.term.key)
                for other, where in others
            )
            total += preferred.weight if company != preferred.near else 0
    return total


def preferred_terms_of(pod: Pod, namespaces: Mapping[str, Json]) -> list[PreferredTerm]:
    """The preferred terms of one pod about other pods."""
    found: dict[tuple[bool, str], PreferredTerm] = {}
    for near, kind in ((True, "podAffinity"), (False, "podAntiAffinity")):
        for weight, term in pod.preferred_terms(kind):
            text = _text(term, namespaces)
            known = found.get((near, text))
            found[near, text] = PreferredTerm(
                near, weight + (known.weight if known else 0), text, term
            )
    return list(found.values())


def _text(term: Term, namespaces: Mapping[str, Json]) -> str:
    meant = {*term.namespaces} | {
        name
        for name, labels in namespaces.items()
        if selects(term.namespace_selector, {"kubernetes.io/metadata.name": name, **labels})
    }
    return repr((sorted(meant), term.selector, term.key))
