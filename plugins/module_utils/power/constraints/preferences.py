# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Cost of unmet preferences in watts.

Source of the rules: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
(weights of 1 to 100) and .../scheduling-eviction/taint-and-toleration/ (PreferNoSchedule). Each
taint that a pod does not tolerate counts as a preference of weight 100.

Preferred affinity and anti-affinity are split into domains that running and waiting pods decide.
A preferred affinity term is unmet for a pod without another pod of the peers in its domain, or on a
node without a domain. A preferred anti-affinity term is unmet for a pod with such a pod in its
domain; among several pods that avoid each other the first one's term is met. Source:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity

Preferences between pods placed together are soft caps on pods per domain. A preferred even spread
caps the pods of a domain. A preferred affinity term caps them at 0 until the other pods are there,
and a preferred anti-affinity term as soon as they are.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base.libraries import numpy
from ...scheduling.feasibility import tolerates
from ...scheduling.model import UNLIMITED, Node, PeerPreference, Shape, Taint
from ...solving.arrays import Booleans, Floats, Integers
from .instance import Instance
from .topology_counts import Counts, Topology, TopologyCount, TopologyCountBook

# The weight of a preference whose cost is preference_watts.
_FULL_WEIGHT = 100.0


@dataclass(frozen=True, eq=False)
class Company:
    """Condition on a cap: it is ``cap[d]`` in domains with ``least`` pods of the topology count."""

    topology_count: TopologyCount
    least: int
    cap: Integers


@dataclass(frozen=True, eq=False)
class SoftCap:
    """Each pod of a topology count beyond ``cap[d]`` in its domain is an unmet preference.

    Its cost is ``watts``. Both topology counts have the same domains.
    """

    topology_count: TopologyCount
    cap: Integers
    watts: float
    company: Company | None = None

    @property
    def topology_counts(self) -> list[TopologyCount]:
        """The topology counts that the cost depends on."""
        return [self.topology_count, *([self.company.topology_count] if self.company else [])]

    def unmet(self, counts: Counts, domains: Integers, group: int = 0, number: int = 0) -> Integers:
        """The pods beyond the cap in each of these domains, with further pods in it alone."""

        def there(of: TopologyCount) -> Integers:
            found: Integers = counts[of.index][domains] + number * int(of.members[group])
            return found

        cap = self.cap[domains]
        if self.company is not None:
            is_met = there(self.company.topology_count) >= self.company.least
            cap = numpy.where(is_met, self.company.cap[domains], cap)
        above = there(self.topology_count) - cap
        return numpy.where(domains < 0, 0, numpy.maximum(above, 0))

    def cost(self, counts: Counts) -> float:
        """Cost in W over all domains."""
        domains = numpy.arange(len(self.cap) - 1)
        return self.watts * float(self.unmet(counts, domains).sum())


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
        disturbed = None
        if others.any():
            disturbed = Company(book.topology_count(others, self.topology), 1, self._cap(0))
        return SoftCap(held, self._cap(1 if least > 1 else UNLIMITED), self.watts, disturbed)

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
    found: dict[tuple[t.Any, ...], PreferredPodTerm] = {}
    open_domains: dict[bytes, Booleans] = {}
    for preference, groups in _holders(book.shapes).items():
        topology = book.topology(preference.topology_key)
        # Labels that no node has are one topology.
        key = topology.domain_of.tobytes()
        if key not in open_domains:
            open_domains[key] = _open_domains(topology, allowed)
        holders, members = book.mask(groups), book.members(preference.peers)
        # Upper bound on the waiting members in each domain.
        possible = count[members] @ open_domains[key][members]
        # The holders that are members themselves, and the other holders.
        for part in (holders & members, holders & ~members):
            if part.any():
                term = _preferred_term(book, preference, part, members, possible)
                # Different terms of a pod can mean the same, and then cost together.
                before = found.get(term.meaning)
                watts = term.watts + (before.watts if before is not None else 0.0)
                found[term.meaning] = replace(term, watts=watts)
    return tuple(found.values())


def _open_domains(topology: Topology, allowed: Booleans) -> Booleans:
    """Whether each domain (columns) has a node that is open to each group."""
    found = numpy.zeros((topology.domains + 1, len(allowed)), dtype=bool)
    numpy.logical_or.at(found, topology.domain_of, allowed.T)
    return found[:-1].T


def _preferred_term(
    book: TopologyCountBook,
    preference: PeerPreference,
    holders: Booleans,
    members: Booleans,
    possible: Integers,
) -> PreferredPodTerm:
    topology = book.topology(preference.topology_key)
    in_domains = numpy.zeros(topology.domains + 1, dtype=numpy.int64)
    numpy.add.at(in_domains, topology.domain_of, book.running(preference.peers))
    runs = in_domains[:-1] > 0
    undecided = ~runs & (possible >= _company(holders, members))
    unmet = ~runs & ~undecided if preference.near else runs
    return PreferredPodTerm(
        near=preference.near,
        watts=book.instance.rules.preference_watts * preference.weight / _FULL_WEIGHT,
        topology=topology,
        holders=holders,
        members=members,
        # The last place is of nodes without a domain.
        unmet=numpy.append(unmet, preference.near)[topology.domain_of],
        undecided=undecided,
    )


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


def preferences(
    instance: Instance, shapes: t.Sequence[Shape], preferred: t.Iterable[PreferredPodTerm]
) -> Floats | None:
    """Watts by group and node, independent of other waiting pods; None if all are met."""
    watts = instance.rules.preference_watts
    if watts <= 0:
        return None
    table = numpy.zeros((len(shapes), len(instance.nodes)))
    known: dict[t.Any, list[float]] = {}
    disliked = any(
        taint.effect == "PreferNoSchedule" for node in instance.nodes for taint in node.taints
    )
    for group, shape in enumerate(shapes):
        key = (shape.preferences, shape.constraints.tolerations if disliked else ())
        if key[0] or disliked:
            if key not in known:
                known[key] = _unmet_of_nodes(shape, instance.nodes)
            table[group] = known[key]
    table *= watts / _FULL_WEIGHT
    for preferred_term in preferred:
        table[preferred_term.holders] += preferred_term.watts * preferred_term.unmet
    return table if table.any() else None


def _unmet_of_nodes(shape: Shape, nodes: t.Sequence[Node]) -> list[float]:
    def is_disliked(taint: Taint) -> bool:
        tolerations = shape.constraints.tolerations
        return taint.effect == "PreferNoSchedule" and not any(
            tolerates(toleration, taint) for toleration in tolerations
        )

    return [
        sum(
            each.weight
            for each in shape.preferences
            if not each.term.admits(node.name, node.labels)
        )
        + _FULL_WEIGHT * sum(map(is_disliked, node.taints))
        for node in nodes
    ]
