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
from abc import ABC, abstractmethod
from dataclasses import dataclass

from ...base.libraries import numpy
from ...scheduling.feasibility import CLAIM_ELSEWHERE
from ...scheduling.model import UNLIMITED
from ...solving.arrays import Booleans, Integers
from .topology_counts import Counts, TopologyCount

OWN_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
AFFINITY = "node(s) didn't match pod affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_NO_LABEL = f"{SPREAD} (missing required label)"
EVEN_START = "node(s) didn't match the pod's spreading at the start (podspread-rate)"


@dataclass(frozen=True, eq=False)
class Rule(ABC):
    """One rule of some groups. ``counts`` are the topology counts of the whole problem."""

    groups: frozenset[int]
    nodes: int

    @property
    def is_fixed(self) -> bool:
        """Whether no waiting pod changes the nodes that the rule closes."""
        return False

    def most(self, group: int) -> Integers:
        """Upper bound on the pods of a group on each node."""
        return numpy.full(self.nodes, UNLIMITED)

    @abstractmethod
    def room(self, counts: Counts, group: int) -> Integers:
        """Number of further pods on each node now, if only that node takes any.

        1 may stand for more.
        """

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        """Whether a pod may be removed from each node; False may be conservative."""
        return numpy.ones(self.nodes, dtype=bool)

    @abstractmethod
    def holds(self, counts: Counts) -> bool | None:
        """None if the topology counts cannot decide."""

    @abstractmethod
    def reason(self, group: int, node: int) -> str:
        """Why a node has no room."""


@dataclass(frozen=True, eq=False)
class OneNodeRule(Rule):
    """Pods of ``groups`` are all on one node; ``placed`` counts them by node."""

    placed: TopologyCount
    words: str = CLAIM_ELSEWHERE

    def room(self, counts: Counts, group: int) -> Integers:
        there = self.placed.at_nodes(counts)
        return numpy.where((there > 0) | (not there.any()), UNLIMITED, 0)

    def holds(self, counts: Counts) -> bool | None:
        return bool((self.placed.at_nodes(counts) > 0).sum() <= 1)

    def reason(self, group: int, node: int) -> str:
        return self.words


@dataclass(frozen=True, eq=False)
class AntiAffinityRule(Rule):
    """No holder shares a domain with another member: host ports and required anti-affinity.

    ``held``, ``known`` and ``both`` are topology counts of the holders, of the members and of the
    pods that are both.
    """

    held: TopologyCount
    known: TopologyCount
    both: TopologyCount
    words: str = ""

    @property
    def is_fixed(self) -> bool:
        return not self.known.members.any()

    def most(self, group: int) -> Integers:
        return self._room(self.known.base, self.held.base, group)

    def room(self, counts: Counts, group: int) -> Integers:
        return self._room(counts[self.known.index], counts[self.held.index], group)

    def _room(self, known: Integers, held: Integers, group: int) -> Integers:
        domain_of = self.held.domain_of
        holds, belongs = self.held.members[group], self.known.members[group]
        blocked = holds & (known[domain_of] > 0) | belongs & (held[domain_of] > 0)
        alone = 1 if holds and belongs else UNLIMITED
        return numpy.where(domain_of < 0, UNLIMITED, numpy.where(blocked, 0, alone))

    def holds(self, counts: Counts) -> bool | None:
        held, known, both = (counts[each.index][:-1] for each in (self.held, self.known, self.both))
        return not (((held > both) & (known > 0)) | ((both > 0) & (known > 1))).any()

    def reason(self, group: int, node: int) -> str:
        if self.words:
            return self.words
        return OWN_ANTI_AFFINITY if self.held.members[group] else EXISTING_ANTI_AFFINITY


class KeyCounts(t.NamedTuple):
    """Counts of one topology key: members, dependants, free members, members that depend."""

    members: TopologyCount
    dependants: TopologyCount
    free: TopologyCount
    seeds: TopologyCount


@dataclass(frozen=True, eq=False)
class AffinityRule(Rule):
    """A dependant has a member in its domain of each key.

    *Free* members depend on no pod. If no member is placed yet, a dependant that is a member itself
    may be the first: the seed.
    """

    keys: tuple[KeyCounts, ...]

    @property
    def runs(self) -> bool:
        """Whether a member is running already."""
        return any(key.members.base[:-1].any() for key in self.keys)

    def depends(self, group: int) -> bool:
        """Whether the group's pods have affinity to members."""
        return bool(self.keys[0].dependants.members[group])

    def is_seed(self, group: int, node: int) -> bool:
        """Whether a pod there may be the first member if none is placed, and then is known."""
        return (
            not self.runs and bool(self.keys[0].seeds.members[group]) and bool(self._labelled[node])
        )

    @property
    def _labelled(self) -> Booleans:
        """Whether each node is in a domain of all keys."""
        found: Booleans = numpy.all([key.members.domain_of >= 0 for key in self.keys], axis=0)
        return found

    def has_member(self, group: int, node: int) -> bool:
        """Whether a pod of the group on the node counts as a member."""
        members = [key.members for key in self.keys]
        return any(each.members[group] and each.domain_of[node] >= 0 for each in members)

    def is_met(self, counts: Counts) -> Booleans:
        """Whether a dependant finds members in the node's domain of each key."""
        found: Booleans = numpy.all([self.found(key, counts) for key in self.keys], axis=0)
        return found

    def found(self, key: KeyCounts, counts: Counts) -> Booleans:
        """Whether the domain of each node has a member."""
        return (key.members.domain_of >= 0) & (key.members.at_nodes(counts) > 0)

    def most(self, group: int) -> Integers:
        possible = numpy.ones(self.nodes, dtype=bool)
        for key in self.keys if self.depends(group) else ():
            members = key.members
            possible &= members.domain_of >= 0
            possible &= members.members.any() | (members.base[members.domain_of] > 0)
        return numpy.where(possible, UNLIMITED, 0)

    def room(self, counts: Counts, group: int) -> Integers:
        if not self.depends(group):
            return self.most(group)
        nobody = not any(counts[key.members.index][:-1].any() for key in self.keys)
        seeds = nobody and self.keys[0].seeds.members[group]
        is_open = self._labelled if seeds else self.is_met(counts)
        return numpy.where(is_open, UNLIMITED, 0)

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        allowed = numpy.ones(self.nodes, dtype=bool)
        for key in self.keys:
            if not key.members.members[group]:
                continue
            domain_of = key.members.domain_of
            _all, dependants, free, seeds = (
                counts[each.index] - int(each.members[group]) for each in key
            )
            seeded = (counts[key.free.index] == 0) & (seeds > 0)
            safe = (dependants == 0) | (free > 0) | (seeded & (not self.runs))
            allowed &= (domain_of < 0) | safe[domain_of]
        return allowed

    def holds(self, counts: Counts) -> bool | None:
        for key in self.keys:
            members, dependants, free, seeds = (counts[each.index][:-1] for each in key)
            lonely = (dependants > 0) & (free == 0)
            if not lonely.any():
                continue
            if (dependants > 0)[members == 0].any():
                return False
            one_seed = lonely.sum() == 1 and (seeds[lonely] > 0).all()
            if self.runs or len(self.keys) > 1 or not one_seed:
                return None
        return True

    def reason(self, group: int, node: int) -> str:
        return AFFINITY


@dataclass(frozen=True, eq=False)
class SpreadRule(Rule):
    """No domain with a dependant exceeds the emptiest domain by more than ``max_skew`` members.

    ``counted`` is the topology count of members on the nodes that count; ``emptiest`` are the
    domains that have such a node, and with ``from_zero`` there are too few of them.
    """

    counted: TopologyCount
    dependants: TopologyCount
    emptiest: Integers
    max_skew: int
    from_zero: bool

    def depends(self, group: int) -> bool:
        """Whether the group's pods have the spread constraint."""
        return bool(self.dependants.members[group])

    @property
    def is_fixed(self) -> bool:
        return not self.counted.members.any()

    def most(self, group: int) -> Integers:
        domain_of, base = self.dependants.domain_of, self.counted.base
        open_to = (domain_of >= 0) | (not self.depends(group))
        if self.is_fixed:
            open_to &= base[domain_of] - self._least(base) <= self.max_skew
        return numpy.where(open_to, UNLIMITED, 0)

    def _least(self, counted: Integers) -> int:
        if self.from_zero or not len(self.emptiest):
            return 0
        return int(counted[self.emptiest].min())

    def room(self, counts: Counts, group: int) -> Integers:
        counted, domain_of = counts[self.counted.index], self.dependants.domain_of
        depends = self.depends(group)
        left = self.max_skew + self._least(counted) - counted[domain_of]
        if depends and not self.counted.members[group]:
            left = numpy.where(left >= 0, UNLIMITED, 0)
        if depends:
            return numpy.where(domain_of < 0, 0, numpy.maximum(left, 0))
        concerned = (self.counted.domain_of >= 0) & (self.dependants.at_nodes(counts) > 0)
        return numpy.where(concerned, numpy.maximum(left, 0), UNLIMITED)

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        counted, domain_of = counts[self.counted.index], self.counted.domain_of
        concerned = counts[self.dependants.index][:-1] > 0
        least = self._least(counted)
        most = int(counted[:-1][concerned].max(initial=least))
        if self.from_zero or not self.counted.members[group] or most - (least - 1) <= self.max_skew:
            return numpy.ones(self.nodes, dtype=bool)
        found: Booleans = (domain_of < 0) | (counted != least)[domain_of]
        return found

    def holds(self, counts: Counts) -> bool | None:
        counted = counts[self.counted.index]
        concerned = counts[self.dependants.index][:-1] > 0
        return bool((counted[:-1][concerned] - self._least(counted) <= self.max_skew).all())

    def reason(self, group: int, node: int) -> str:
        return SPREAD_NO_LABEL if self.dependants.domain_of[node] < 0 else SPREAD


@dataclass(frozen=True, eq=False)
class EvenStartRule(Rule):
    """The first ``redundancy`` members went to the areas with the fewest members at that time.

    ``areas`` are the domains with a node that the pods may ever use, apart from resources. Other
    domains need not be filled, or nothing could ever be placed (WAO's defect B14).
    """

    members: TopologyCount
    areas: Integers
    redundancy: int

    @property
    def running(self) -> int:
        """Number of members that are running already."""
        return int(self.members.base.sum())

    def room(self, counts: Counts, group: int) -> Integers:
        domain_of, placed = self.members.domain_of, counts[self.members.index]
        if placed.sum() >= self.redundancy:
            return self.most(group)
        least = placed[self.areas].min(initial=UNLIMITED)
        is_open = (domain_of >= 0) & (placed[domain_of] == least)
        found: Integers = is_open.astype(numpy.int64)
        return found

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        placed, base = counts[self.members.index], self.members.base
        level, above = self._level(int(placed.sum()) - 1)
        enough = placed - 1 >= numpy.maximum(base, level)
        high = (placed > level) & (base <= level)
        left_high = high[self.areas].sum() - (high & (placed == level + 1))
        others = ((placed >= numpy.maximum(base, level))[self.areas]).all()
        safe = enough & (left_high >= above) & others
        elsewhere = numpy.ones(len(placed), dtype=bool)
        elsewhere[self.areas] = False
        found: Booleans = (safe | elsewhere)[self.members.domain_of]
        return found

    def _level(self, total: int) -> tuple[int, int]:
        """Level to which the first pods fill every area, and number of areas with one pod more."""
        new = min(self.redundancy, total) - self.running
        heights = sorted(self.members.base[self.areas].tolist())
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
        placed, base = (
            each[self.areas] for each in (counts[self.members.index], self.members.base)
        )
        level, above = self._level(int(counts[self.members.index].sum()))
        enough = placed >= numpy.maximum(base, level)
        high = (placed > level) & (base <= level)
        return bool(enough.all() and high.sum() >= above)

    def reason(self, group: int, node: int) -> str:
        return EVEN_START
