# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Relations between pods for a whole problem: the rules, the soft caps and the gangs.

A placement is feasible if (1) every rule holds in the final state, (2) there is an order of binding
in which required affinity holds for each pod when it is bound, and (3) all waiting pods of a gang
are placed, or none. The first condition implies the other rules at each step, except in rare cases,
which repair.py finds.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from functools import cached_property

from ...base.libraries import numpy
from ...scheduling.model import UNLIMITED
from ...solving.arrays import Booleans, Floats, Integers
from .contents import ContentRule, FleetRule
from .preferences import SoftCap
from .relation_rules import AffinityRule, EvenStartRule, Rule, SpreadRule
from .topology_counts import Counts, TopologyCount

# The group and the node of a pod that comes first of those that want to be near each other.
Seed = tuple[int, int]

_MAX_CHOICES_OF_SEEDS = 60
_T = t.TypeVar("_T")


def _by_group(groups_of: t.Iterable[tuple[_T, t.Iterable[int]]]) -> t.Callable[[int], list[_T]]:
    found: dict[int, list[_T]] = {}
    for each, groups in groups_of:
        for group in groups:
            found.setdefault(group, []).append(each)
    return lambda group: found.get(group, [])


def groups_in(mask: Booleans) -> frozenset[int]:
    return frozenset(mask.nonzero()[0].tolist())


@dataclass(frozen=True)
class Part:
    """Groups of pods, and the rules by which their order of binding matters.

    All other rules hold at every step if they hold in the end, because fewer pods never break them.
    """

    groups: frozenset[int]
    rules: tuple[AffinityRule | SpreadRule | EvenStartRule, ...]

    @cached_property
    def affinity_rules(self) -> tuple[AffinityRule, ...]:
        """The rules of required affinity."""
        return tuple(rule for rule in self.rules if isinstance(rule, AffinityRule))


@dataclass(frozen=True)
class Relations:
    """All rules of a problem, on its topology counts; ``gangs`` are groups placed together.

    ``fixed`` are rules that only running pods and labels of nodes decide. They are in the problem's
    limits, so no search asks them.
    """

    topology_counts: tuple[TopologyCount, ...]
    rules: tuple[Rule, ...]
    caps: tuple[SoftCap, ...] = ()
    gangs: tuple[tuple[int, ...], ...] = ()
    fixed: tuple[Rule, ...] = ()

    @cached_property
    def rules_of(self) -> t.Callable[[int], list[Rule]]:
        """The rules that concern a group."""
        return _by_group((rule, rule.groups) for rule in self.rules)

    @cached_property
    def topology_counts_of(self) -> t.Callable[[int], list[TopologyCount]]:
        """The topology counts that count the pods of a group."""
        return _by_group((each, groups_in(each.members)) for each in self.topology_counts)

    @cached_property
    def caps_of(self) -> t.Callable[[int], list[SoftCap]]:
        """The soft caps that a pod of the group can exceed or change."""
        return _by_group(
            (cap, groups_in(numpy.any([each.members for each in cap.topology_counts], axis=0)))
            for cap in self.caps
        )

    def count(self, counts: Integers) -> Counts:
        """The topology counts of an assignment (groups by nodes), from scratch."""
        result = []
        for each in self.topology_counts:
            found = each.base.copy()
            numpy.add.at(found, each.domain_of, counts[each.members].sum(axis=0))
            result.append(found)
        return result

    def hold(self, rules: t.Iterable[Rule], counted: Counts, counts: Integers) -> bool:
        """Whether these rules hold for an assignment with these topology counts."""
        unsure = False
        for rule in rules:
            answer = rule.holds(counted)
            if answer is False:
                return False
            unsure = unsure or answer is None
        return not unsure or Reach(self, counts).is_whole

    @cached_property
    def affinity_rules(self) -> tuple[AffinityRule, ...]:
        """The rules of required affinity."""
        return tuple(rule for rule in self.rules if isinstance(rule, AffinityRule))

    def reached(self, wanted: Booleans, seeds: t.Iterable[Seed]) -> Booleans:
        """The part of the wanted ``[g, n]`` that can be bound after the seeds with met affinity."""
        bound = wanted.copy()
        for rule in self.affinity_rules:
            bound[rule.keys[0].dependants.members] = False
        for seed in seeds:
            bound[seed] = wanted[seed]
        while True:
            before = int(bound.sum())
            present = self.count(bound.astype(numpy.int64))
            for rule in self.affinity_rules:
                dependants = rule.keys[0].dependants.members
                bound[dependants] |= wanted[dependants] & rule.is_met(present)
            if int(bound.sum()) == before:
                return bound

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The groups with a mutual order of binding, and the rules that cause it."""
        parts: list[Part] = []
        for rule in self.rules:
            if not isinstance(rule, (AffinityRule, SpreadRule, EvenStartRule)):
                continue
            joined = [part for part in parts if part.groups & rule.groups]
            parts = [part for part in parts if part not in joined]
            groups = rule.groups.union(*(part.groups for part in joined))
            rules = [each for part in joined for each in part.rules]
            parts.append(Part(groups, (*rules, rule)))
        return tuple(parts)

    @cached_property
    def contents(self) -> tuple[ContentRule, ...]:
        """The rules about node contents that draw power."""
        found = (rule for rule in self.rules if isinstance(rule, ContentRule))
        return tuple(rule for rule in found if rule.draws)

    def preference_watts(self, counted: Counts, groups: t.Iterable[int] | None = None) -> float:
        """Cost of soft caps, and power draw of nodes' contents beyond their floors.

        For given groups, at least the part that their pods can change.
        """
        caps: t.Iterable[SoftCap] = self.caps
        if groups is not None:
            caps = dict.fromkeys(cap for group in groups for cap in self.caps_of(group))
        watts = sum(cap.cost(counted) for cap in caps)
        return watts + sum(rule.excess(counted) for rule in self.drawing)

    def added_cost(
        self, counted: Counts, group: int, nodes: Integers, number: int
    ) -> Floats | float:
        """Increase of preference_watts by a number of further pods on each of these nodes alone."""
        added: Floats | float = self.added_by_caps(counted, group, nodes, number)
        for rule in self.contents:
            if group in rule.groups:
                added = added + rule.added_excess(counted, group, nodes, number)
        return added

    def added_by_caps(
        self, counted: Counts, group: int, nodes: Integers, number: int
    ) -> Floats | float:
        """The part of added_cost from soft caps."""
        added: Floats | float = 0.0
        for cap in self.caps_of(group):
            domains = cap.topology_count.domain_of[nodes]
            more = cap.unmet(counted, domains, group, number)
            added = added + numpy.multiply(cap.watts, more - cap.unmet(counted, domains))
        return added

    @cached_property
    def drawing(self) -> tuple[ContentRule | FleetRule, ...]:
        """Rules of both kinds, whose pods draw power beyond the curves."""
        return (*self.contents, *self.fleets)

    @cached_property
    def fleets(self) -> tuple[FleetRule, ...]:
        """The rules about the contents of all nodes together."""
        return tuple(rule for rule in self.rules if isinstance(rule, FleetRule))


class Reach:
    """Reachable bindings ``bound[g, n]`` of groups to nodes, one after another.

    ``seeds`` are the pods, as group and node, that are bound first, in this order. If the first
    choice of them does not reach all pods, others are tried.
    """

    def __init__(self, relations: Relations, counts: Integers) -> None:
        self._relations = relations
        self._wanted: Booleans = counts > 0
        self._choices = 0
        self.seeds: tuple[Seed, ...] = ()
        self.bound: Booleans = relations.reached(self._wanted, ())
        for part in relations.parts:
            # Of one rule with one key any choice is as good as any.
            keys = [key for rule in part.affinity_rules for key in rule.keys]
            self._choices = _MAX_CHOICES_OF_SEEDS if len(keys) > 1 else 1
            self._choose(part, self.bound, self.seeds)

    @property
    def is_whole(self) -> bool:
        """Whether all pods are reached."""
        return not bool((self._wanted & ~self.bound).any())

    def _choose(self, part: Part, bound: Booleans, seeds: tuple[Seed, ...]) -> None:
        """Add seeds, depth first, until no pod waits for one; keep the choice that reaches most."""
        if bound.sum() > self.bound.sum():
            self.bound, self.seeds = bound, seeds
        for rule in part.affinity_rules:
            reached = numpy.zeros_like(bound)
            for group, node in self._waiting(rule, bound, seeds):
                if reached[group, node]:
                    continue
                if self._is_reached(part) or not self._choices:
                    return
                self._choices -= 1
                more = (*seeds, (group, node))
                bound_then = self._relations.reached(self._wanted, more)
                # A pod of the same group that this one leads to would lead to no more.
                reached[group] |= bound_then[group]
                self._choose(part, bound_then, more)

    def _is_reached(self, part: Part) -> bool:
        """Whether all pods of the part are reached."""
        return not bool((self._wanted & ~self.bound)[list(part.groups)].any())

    def _waiting(self, rule: AffinityRule, bound: Booleans, seeds: tuple[Seed, ...]) -> list[Seed]:
        """The pods that may be the first of the rule, after these seeds."""
        if rule.runs or any(rule.has_member(group, node) for group, node in seeds):
            return []
        waiting = self._wanted & ~bound & rule.keys[0].seeds.members[:, None]
        return [(int(group), int(node)) for group, node in zip(*waiting.nonzero())]


class RelationState:
    """The topology counts of an assignment, updated incrementally, and the answers of the rules."""

    def __init__(self, relations: Relations, counts: Integers) -> None:
        self.relations = relations
        self.counted: Counts = relations.count(counts)
        self._nodes: int = counts.shape[1]

    def place(self, group: int, node: int, number: int) -> None:
        for each in self.relations.topology_counts_of(group):
            self.counted[each.index][each.domain_of[node]] += number

    def is_free(self, group: int) -> bool:
        """Whether no rule concerns the group."""
        return not self.relations.rules_of(group)

    def has_caps(self, group: int) -> bool:
        """Whether other pods change the cost of a pod of the group."""
        return bool(self.relations.caps_of(group)) or any(
            group in rule.groups for rule in self.relations.drawing
        )

    def room(self, group: int, *, moving: bool = False) -> Integers:
        """Number of further pods of the group that the rules admit on each node alone.

        A ``moving`` pod leaves another node, and the contents of all nodes together.
        """
        room = numpy.full(self._nodes, UNLIMITED)
        for rule in self.relations.rules_of(group):
            if not (moving and isinstance(rule, FleetRule)):
                room = numpy.minimum(room, rule.room(self.counted, group))
        return room

    def accepts(self, group: int, node: int) -> bool:
        """Whether kube-scheduler would admit one more pod of the group to the node.

        Unlike ``room`` it admits a pod that skews other pods' spread, because spread must hold only
        in the end.
        """
        return all(
            rule.room(self.counted, group)[node] > 0
            for rule in self.relations.rules_of(group)
            if not isinstance(rule, SpreadRule) or rule.depends(group)
        )

    def may_leave(self, group: int) -> Booleans:
        allowed = numpy.ones(self._nodes, dtype=bool)
        for rule in self.relations.rules_of(group):
            allowed &= rule.may_leave(self.counted, group)
        return allowed

    def hold(self, groups: t.Iterable[int], counts: Integers) -> bool:
        """Whether the rules of these groups hold."""
        rules = dict.fromkeys(rule for group in groups for rule in self.relations.rules_of(group))
        return self.relations.hold(rules, self.counted, counts)

    def reasons(self, group: int) -> list[str | None]:
        """The first rule by node that excludes the group."""
        reasons: list[str | None] = [None] * self._nodes
        closed = [(rule, rule.most(group)) for rule in self.relations.fixed if group in rule.groups]
        rules = self.relations.rules_of(group)
        closed += [(rule, rule.room(self.counted, group)) for rule in rules]
        for rule, room in closed:
            for node in (room <= 0).nonzero()[0].tolist():
                reasons[node] = reasons[node] or rule.reason(group, node)
        return reasons
