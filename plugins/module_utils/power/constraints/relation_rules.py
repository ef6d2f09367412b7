# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rules between pods, each on the topology counts that it needs.

A rule holds if kube-scheduler would admit each placed pod to its node again after its removal. All
answers are by node (N). Source:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
and .../scheduling-eviction/topology-spread-constraints/; WAO's PodSpread in docs/reference/compatibility.md.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.libraries import numpy
from ...scheduling.model import UNLIMITED
from ...solving.arrays import Booleans, Integers
from .topology_counts import Counts, TopologyCount

OWN_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
AFFINITY = "node(s) didn't match pod affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_NO_LABEL = f"{SPREAD} (missing required label)"
EVEN_START = "node(s) didn't match the pod's spreading at the start (podspread-rate)"


class Rule(t.Protocol):
    """One rule of some groups. ``counts`` are the topology counts of the whole problem.

    ``most``: upper bound on the pods of a group on each node. ``room``: number of further pods on a
    node now, if only that node takes any; 1 may stand for more. ``may_leave``: whether one may be
    removed from each node; False may be conservative. ``holds``: None if the topology counts cannot
    decide. ``reason``: why a node has no room.
    """

    @property
    def groups(self) -> frozenset[int]: ...

    def most(self, group: int) -> Integers: ...

    def room(self, counts: Counts, group: int) -> Integers: ...

    def may_leave(self, counts: Counts, group: int) -> Booleans: ...

    def holds(self, counts: Counts) -> bool | None: ...

    def reason(self, group: int, node: int) -> str: ...


@dataclass(frozen=True)
class AntiAffinityRule:
    """No holder shares a domain with another member: host ports and required anti-affinity.

    ``held``, ``known`` and ``both`` are topology counts of the holders, of the members and of the
    pods that are both.
    """

    topology_counts: t.Sequence[TopologyCount]
    groups: frozenset[int]
    held: int
    known: int
    both: int
    words: str = ""

    @property
    def is_fixed(self) -> bool:
        """Whether no waiting pod changes the nodes that the rule closes."""
        return not self.topology_counts[self.known].members.any()

    def most(self, group: int) -> Integers:
        known, held = (self.topology_counts[each].base for each in (self.known, self.held))
        return self._room(known, held, group)

    def room(self, counts: Counts, group: int) -> Integers:
        return self._room(counts[self.known], counts[self.held], group)

    def _room(self, known: Integers, held: Integers, group: int) -> Integers:
        domain_of = self.topology_counts[self.held].domain_of
        holds, belongs = self._roles(group)
        blocked = numpy.zeros(len(domain_of), dtype=bool)
        if holds:
            blocked |= known[domain_of] > 0
        if belongs:
            blocked |= held[domain_of] > 0
        alone = 1 if holds and belongs else UNLIMITED
        return numpy.where(domain_of < 0, UNLIMITED, numpy.where(blocked, 0, alone))

    def _roles(self, group: int) -> tuple[bool, bool]:
        return (
            bool(self.topology_counts[self.held].members[group]),
            bool(self.topology_counts[self.known].members[group]),
        )

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        nodes = len(self.topology_counts[self.held].domain_of)
        return numpy.ones(nodes, dtype=bool)

    def holds(self, counts: Counts) -> bool | None:
        held, known, both = (counts[i][:-1] for i in (self.held, self.known, self.both))
        return not (((held > both) & (known > 0)) | ((both > 0) & (known > 1))).any()

    def reason(self, group: int, node: int) -> str:
        if self.words:
            return self.words
        return OWN_ANTI_AFFINITY if self._roles(group)[0] else EXISTING_ANTI_AFFINITY


class KeyCounts(t.NamedTuple):
    """Counts of one topology key: members, dependants, free members, members that depend."""

    members: int
    dependants: int
    free: int
    seeds: int


@dataclass(frozen=True)
class AffinityRule:
    """A dependant has a member in its domain of each key.

    *Free* members depend on no pod. If no member is placed yet, a dependant that is a member itself
    may be the first: the seed.
    """

    topology_counts: t.Sequence[TopologyCount]
    groups: frozenset[int]
    keys: tuple[KeyCounts, ...]

    @property
    def runs(self) -> bool:
        """Whether a member is running already."""
        return any(self.topology_counts[key.members].base[:-1].any() for key in self.keys)

    def depends(self, group: int) -> bool:
        """Whether the group's pods have affinity to members."""
        return bool(self.topology_counts[self.keys[0].dependants].members[group])

    def is_seed(self, group: int, node: int) -> bool:
        """Whether a pod there may be the first member if none is placed, and then is known."""
        return (
            not self.runs
            and bool(self.topology_counts[self.keys[0].seeds].members[group])
            and bool(self._labelled[node])
        )

    @property
    def _labelled(self) -> Booleans:
        """Whether each node is in a domain of all keys."""
        domains = [self.topology_counts[key.members].domain_of for key in self.keys]
        found: Booleans = numpy.all(numpy.array(domains) >= 0, axis=0)
        return found

    def has_member(self, group: int, node: int) -> bool:
        """Whether a pod of the group on the node counts as a member."""
        members = [self.topology_counts[key.members] for key in self.keys]
        return any(each.members[group] and each.domain_of[node] >= 0 for each in members)

    def is_met(self, counts: Counts) -> Booleans:
        """Whether a dependant finds members in the node's domain of each key."""
        found: Booleans = numpy.all([self.found(key, counts) for key in self.keys], axis=0)
        return found

    def found(self, key: KeyCounts, counts: Counts) -> Booleans:
        """Whether the domain of each node has a member."""
        domain_of = self.topology_counts[key.members].domain_of
        return (domain_of >= 0) & (counts[key.members][domain_of] > 0)

    def most(self, group: int) -> Integers:
        first = self.topology_counts[self.keys[0].dependants]
        possible = numpy.ones(len(first.domain_of), dtype=bool)
        if first.members[group]:
            for key in self.keys:
                topology_count = self.topology_counts[key.members]
                someone = topology_count.members.any() | (
                    topology_count.base[topology_count.domain_of] > 0
                )
                possible &= (topology_count.domain_of >= 0) & someone
        return numpy.where(possible, UNLIMITED, 0)

    def room(self, counts: Counts, group: int) -> Integers:
        nodes = len(self.topology_counts[self.keys[0].dependants].domain_of)
        if not self.depends(group):
            return numpy.full(nodes, UNLIMITED)
        nobody = not any(counts[key.members][:-1].any() for key in self.keys)
        seeds = nobody and self.topology_counts[self.keys[0].seeds].members[group]
        is_open = self._labelled if seeds else self.is_met(counts)
        return numpy.where(is_open, UNLIMITED, 0)

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        allowed = numpy.ones(len(self.topology_counts[self.keys[0].members].domain_of), dtype=bool)
        for key in self.keys:
            if not self.topology_counts[key.members].members[group]:
                continue
            domain_of = self.topology_counts[key.members].domain_of
            own = [
                int(self.topology_counts[topology_count].members[group]) for topology_count in key
            ]
            unneeded = counts[key.dependants] - own[1] == 0
            grounded = counts[key.free] - own[2] > 0
            seeded = (counts[key.free] == 0) & (counts[key.seeds] - own[3] > 0)
            safe = unneeded | grounded | (seeded & (not self.runs))
            allowed &= (domain_of < 0) | safe[domain_of]
        return allowed

    def holds(self, counts: Counts) -> bool | None:
        for key in self.keys:
            lonely = (counts[key.dependants] > 0) & (counts[key.free] == 0)
            if not lonely[:-1].any():
                continue
            if (counts[key.dependants] > 0)[:-1][counts[key.members][:-1] == 0].any():
                return False
            one_seed = lonely[:-1].sum() == 1 and (counts[key.seeds][:-1][lonely[:-1]] > 0).all()
            if self.runs or len(self.keys) > 1 or not one_seed:
                return None
        return True

    def reason(self, group: int, node: int) -> str:
        return AFFINITY


@dataclass(frozen=True)
class SpreadRule:
    """No domain with a dependant exceeds the emptiest domain by more than ``max_skew`` members.

    ``counted`` is the topology count of members on the nodes that count; ``emptiest`` are the
    domains that have such a node, and with ``from_zero`` there are too few of them.
    """

    topology_counts: t.Sequence[TopologyCount]
    groups: frozenset[int]
    counted: int
    dependants: int
    emptiest: Integers
    max_skew: int
    from_zero: bool

    def depends(self, group: int) -> bool:
        """Whether the group's pods have the spread constraint."""
        return bool(self.topology_counts[self.dependants].members[group])

    @property
    def is_fixed(self) -> bool:
        """Whether no waiting pod changes the nodes that the rule closes."""
        return not self.topology_counts[self.counted].members.any()

    def most(self, group: int) -> Integers:
        topology_count = self.topology_counts[self.dependants]
        domain_of = topology_count.domain_of
        open_to = (domain_of >= 0) | (not topology_count.members[group])
        if self.is_fixed:
            base = self.topology_counts[self.counted].base
            open_to &= base[domain_of] - self._least_of(base) <= self.max_skew
        return numpy.where(open_to, UNLIMITED, 0)

    def _least(self, counts: Counts) -> int:
        return self._least_of(counts[self.counted])

    def _least_of(self, counted: Integers) -> int:
        if self.from_zero or not len(self.emptiest):
            return 0
        return int(counted[self.emptiest].min())

    def room(self, counts: Counts, group: int) -> Integers:
        topology_count = self.topology_counts[self.counted]
        domain_of = self.topology_counts[self.dependants].domain_of
        depends = self.depends(group)
        left = self.max_skew + self._least(counts) - counts[self.counted][domain_of]
        if depends and not topology_count.members[group]:
            left = numpy.where(left >= 0, UNLIMITED, 0)
        if depends:
            return numpy.where(domain_of < 0, 0, numpy.maximum(left, 0))
        concerned = (topology_count.domain_of >= 0) & (counts[self.dependants][domain_of] > 0)
        return numpy.where(concerned, numpy.maximum(left, 0), UNLIMITED)

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        topology_count = self.topology_counts[self.counted]
        counted, dependants = counts[self.counted], counts[self.dependants][:-1]
        least = self._least(counts)
        most = int(counted[:-1][dependants > 0].max(initial=least))
        if (
            self.from_zero
            or not topology_count.members[group]
            or most - (least - 1) <= self.max_skew
        ):
            return numpy.ones(len(topology_count.domain_of), dtype=bool)
        at_least = counted == least
        found: Booleans = (topology_count.domain_of < 0) | ~at_least[topology_count.domain_of]
        return found

    def holds(self, counts: Counts) -> bool | None:
        concerned = counts[self.dependants][:-1] > 0
        skew = counts[self.counted][:-1][concerned] - self._least(counts)
        return bool((skew <= self.max_skew).all())

    def reason(self, group: int, node: int) -> str:
        return (
            SPREAD_NO_LABEL if self.topology_counts[self.dependants].domain_of[node] < 0 else SPREAD
        )


@dataclass(frozen=True)
class EvenStartRule:
    """The first ``redundancy`` members went to the areas with the fewest members at that time.

    ``areas`` are the domains with a node that the pods may ever use, apart from resources. Other
    domains need not be filled, or nothing could ever be placed (WAO's defect B14).
    """

    topology_counts: t.Sequence[TopologyCount]
    groups: frozenset[int]
    members: int
    areas: Integers
    redundancy: int

    @property
    def running(self) -> int:
        """Number of members that are running already."""
        return int(self.topology_counts[self.members].base.sum())

    def most(self, group: int) -> Integers:
        nodes = len(self.topology_counts[self.members].domain_of)
        return numpy.full(nodes, UNLIMITED)

    def room(self, counts: Counts, group: int) -> Integers:
        domain_of = self.topology_counts[self.members].domain_of
        placed = counts[self.members]
        if placed.sum() >= self.redundancy:
            return numpy.full(len(domain_of), UNLIMITED)
        least = placed[self.areas].min(initial=UNLIMITED)
        is_open = (domain_of >= 0) & (placed[domain_of] == least)
        found: Integers = is_open.astype(numpy.int64)
        return found

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        topology_count = self.topology_counts[self.members]
        placed = counts[self.members].copy()
        level, above = self._level(int(placed.sum()) - 1)
        base = topology_count.base
        enough = placed - 1 >= numpy.maximum(base, level)
        high = (placed > level) & (base <= level)
        left_high = high[self.areas].sum() - (high & (placed == level + 1))
        others = ((placed >= numpy.maximum(base, level))[self.areas]).all()
        safe = enough & (left_high >= above) & others
        elsewhere = numpy.ones(len(placed), dtype=bool)
        elsewhere[self.areas] = False
        found: Booleans = (safe | elsewhere)[topology_count.domain_of]
        return found

    def _level(self, total: int) -> tuple[int, int]:
        """Level to which the first pods fill every area, and number of areas with one pod more."""
        base = self.topology_counts[self.members].base
        new = min(self.redundancy, total) - self.running
        heights = sorted(base[self.areas].tolist())
        if new <= 0 or not heights:
            return 0, 0
        level, left = heights[0], new
        for reached in range(1, len(heights) + 1):
            next_height = heights[reached] if reached < len(heights) else UNLIMITED
            rise = min(next_height - level, left // reached)
            level, left = level + rise, left - rise * reached
            if level < next_height:
                break
        return level, left

    def holds(self, counts: Counts) -> bool | None:
        placed, base = counts[self.members], self.topology_counts[self.members].base
        level, above = self._level(int(placed.sum()))
        enough = placed[self.areas] >= numpy.maximum(base, level)[self.areas]
        high = (placed[self.areas] > level) & (base[self.areas] <= level)
        return bool(enough.all() and high.sum() >= above)

    def reason(self, group: int, node: int) -> str:
        return EVEN_START
