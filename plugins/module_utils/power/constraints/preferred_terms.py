# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Preferred affinity and anti-affinity, split into domains that running and waiting pods decide.

A preferred affinity term is unmet for a pod without another pod of the peers in its domain, or on a
node without a domain. A preferred anti-affinity term is unmet for a pod with such a pod in its
domain; among several pods that avoid each other the first one's term is met. Source:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base.libraries import numpy
from ...scheduling.model import UNLIMITED, PeerPreference, Shape
from ...solving.arrays import Booleans, Integers
from .soft_caps import Company, SoftCap
from .topology_counts import Topology, TopologyCountBook

_WEIGHT_POINTS = 100.0


@dataclass(frozen=True)
class PreferredPodTerm:
    """A preferred term of ``holders[g]`` about ``members[g]``; all holders are members, or none.

    It costs ``watts`` for each pod on the nodes ``unmet[n]``, independent of other pods. In the
    domains ``undecided[d]`` other waiting pods decide. Elsewhere it is met.
    """

    near: bool
    watts: float
    topology: Topology
    holders: Booleans
    members: Booleans
    unmet: Booleans
    undecided: Booleans

    @property
    def meaning(self) -> tuple[t.Any, ...]:
        """Everything except its cost; the topology matters only where other pods decide."""
        arrays = (self.holders, self.unmet, self.undecided)
        more = (self.topology.domain_of, self.members) if self.undecided.any() else ()
        return (self.near, *(each.tobytes() for each in (*arrays, *more)))

    def soft_cap(self, book: TopologyCountBook) -> SoftCap:
        """The cost of the term in the domains that are undecided."""
        held = book.topology_count(self.holders, self.topology)
        least = _company(self.holders, self.members)
        if self.near:
            members = book.topology_count(self.members, self.topology)
            company = Company(members, least, self._cap(UNLIMITED))
            return SoftCap(held, self._cap(0), self.watts, company)
        others = self.members & ~self.holders
        undisturbed = self._cap(1 if least > 1 else UNLIMITED)
        if not others.any():
            return SoftCap(held, undisturbed, self.watts)
        company = Company(book.topology_count(others, self.topology), 1, self._cap(0))
        return SoftCap(held, undisturbed, self.watts, company)

    def _cap(self, number: int) -> Integers:
        """A cap of this number of pods in undecided domains, and no limit in others."""
        caps = numpy.where(self.undecided, number, UNLIMITED)
        return numpy.append(caps, UNLIMITED)


def _company(holders: Booleans, members: Booleans) -> int:
    """Members in a domain that meet a holder's term; a holder does not count for itself."""
    return 1 + int((holders & members).any())


def preferred_pod_terms(
    book: TopologyCountBook, count: Integers, allowed: Booleans
) -> tuple[PreferredPodTerm, ...]:
    """The terms of the book's shapes, ``count[g]`` pods of each, on nodes ``allowed[g, n]``."""
    if book.instance.rules.preference_watts <= 0:
        return ()
    judge = _Judge(book, count, allowed)
    found: dict[tuple[t.Any, ...], PreferredPodTerm] = {}
    for preference, groups in _holders(book.shapes).items():
        holders, members = book.mask(groups), book.members(preference.peers)
        # The holders that are members themselves, and the other holders.
        for part in (holders & members, holders & ~members):
            if part.any():
                term = judge.preferred_term(preference, part, members)
                # Different terms of a pod can mean the same, and then cost together.
                before = found.get(term.meaning)
                watts = term.watts + (before.watts if before is not None else 0.0)
                found[term.meaning] = replace(term, watts=watts)
    return tuple(found.values())


def _holders(shapes: t.Sequence[Shape]) -> dict[PeerPreference, list[int]]:
    """Groups by preferred term; equal terms of one pod count with the sum of their weights."""
    found: dict[PeerPreference, list[int]] = {}
    for group, shape in enumerate(shapes):
        weights: dict[PeerPreference, int] = {}
        for preferred_term in shape.relations.peer_preferences:
            kind = preferred_term._replace(weight=0)
            weights[kind] = weights.get(kind, 0) + preferred_term.weight
        for kind, weight in weights.items():
            found.setdefault(kind._replace(weight=weight), []).append(group)
    return found


class _Judge:
    def __init__(self, book: TopologyCountBook, count: Integers, allowed: Booleans) -> None:
        self._book = book
        self._count = count
        self._allowed = allowed
        self._open: dict[bytes, Booleans] = {}

    def preferred_term(
        self, preference: PeerPreference, holders: Booleans, members: Booleans
    ) -> PreferredPodTerm:
        topology = self._book.topology(preference.topology_key)
        in_domains = numpy.zeros(topology.domains + 1, dtype=numpy.int64)
        numpy.add.at(in_domains, topology.domain_of, self._book.running(preference.peers))
        runs = in_domains[:-1] > 0
        # Upper bound on the waiting members in each domain.
        possible = self._count[members] @ self._open_domains(topology)[members]
        undecided = ~runs & (possible >= _company(holders, members))
        unmet = ~runs & ~undecided if preference.near else runs
        full_watts = self._book.instance.rules.preference_watts
        return PreferredPodTerm(
            near=preference.near,
            watts=full_watts * preference.weight / _WEIGHT_POINTS,
            topology=topology,
            holders=holders,
            members=members,
            # The last place is of nodes without a domain.
            unmet=numpy.append(unmet, preference.near)[topology.domain_of],
            undecided=undecided,
        )

    def _open_domains(self, topology: Topology) -> Booleans:
        """Whether each domain has a node that is open to each group."""
        key = topology.domain_of.tobytes()
        if key not in self._open:
            found = numpy.zeros((topology.domains + 1, len(self._book.shapes)), dtype=bool)
            numpy.logical_or.at(found, topology.domain_of, self._allowed.T)
            self._open[key] = found[:-1].T
        return self._open[key]
