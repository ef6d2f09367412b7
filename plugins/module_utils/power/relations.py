# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What pods demand of each other, for a whole problem: the rules, the soft caps and the gangs.

A placement is feasible where (1) every rule holds in the final state, (2) there is an order of
binding in which required affinity holds for each pod when it is bound, and (3) of each gang all
waiting pods are placed or none. That the other rules hold at each step follows from the first but
for rare cases, which repair.py finds.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from functools import cached_property

from ansible_collections.wattwise.kube.plugins.module_utils.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import UNLIMITED
from ansible_collections.wattwise.kube.plugins.module_utils.power.node_contents import ContentRule
from ansible_collections.wattwise.kube.plugins.module_utils.power.relation_rules import (
    AttractionRule,
    Rule,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.soft_caps import (
    More,
    SoftCap,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.tallies import (
    Counts,
    Tally,
    tally_counts,
)

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]
    Integers = NDArray[numpy.int64]
    Booleans = NDArray[numpy.bool_]


@dataclass(frozen=True)
class Relations:
    """All rules of a problem, on its tallies; ``gangs`` are groups that go together."""

    tallies: tuple[Tally, ...]
    rules: tuple[Rule, ...]
    caps: tuple[SoftCap, ...] = ()
    gangs: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def _rules_by_group(self) -> dict[int, list[Rule]]:
        found: dict[int, list[Rule]] = {}
        for rule in self.rules:
            for group in rule.groups:
                found.setdefault(group, []).append(rule)
        return found

    @cached_property
    def _tallies_by_group(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for index, tally in enumerate(self.tallies):
            for group in tally.members.nonzero()[0].tolist():
                found.setdefault(group, []).append(index)
        return found

    @cached_property
    def _caps_by_group(self) -> dict[int, list[SoftCap]]:
        found: dict[int, list[SoftCap]] = {}
        for cap in self.caps:
            for group in range(len(self.tallies[cap.tally].members)):
                if any(self._more(cap, group)):
                    found.setdefault(group, []).append(cap)
        return found

    def _more(self, cap: SoftCap, group: int, number: int = 1) -> More:
        """What so many pods of a group are more for a cap."""
        return More(*(number * int(self.tallies[each].members[group]) for each in cap.tallies))

    def rules_of(self, group: int) -> list[Rule]:
        """The rules that concern a group."""
        return self._rules_by_group.get(group, [])

    def tallies_of(self, group: int) -> list[int]:
        """The tallies that count the pods of a group."""
        return self._tallies_by_group.get(group, [])

    def caps_of(self, group: int) -> list[SoftCap]:
        """The soft caps that a pod of the group can exceed, or change."""
        return self._caps_by_group.get(group, [])

    def count(self, counts: Integers) -> Counts:
        """The tallies of an assignment, from scratch."""
        return tally_counts(self.tallies, counts)

    def hold(self, rules: t.Iterable[Rule], tallied: Counts, counts: Integers) -> bool:
        """Whether these rules hold for an assignment with these tallies."""
        unsure = False
        for rule in rules:
            answer = rule.holds(tallied)
            if answer is False:
                return False
            unsure = unsure or answer is None
        return not unsure or self.is_reachable(counts)

    def is_reachable(self, counts: Integers) -> bool:
        """Whether pods can be bound in an order in which each finds those that it must be near."""
        return bool((~Reach(self, counts).bound & (counts > 0)).sum() == 0)

    @cached_property
    def contents(self) -> tuple[ContentRule, ...]:
        """The rules about what a node holds that draws watts."""
        found = (rule for rule in self.rules if isinstance(rule, ContentRule))
        return tuple(rule for rule in found if rule.draws)

    def preference_watts(self, tallied: Counts, groups: t.Iterable[int] | None = None) -> float:
        """What soft caps cost, and what the contents of nodes draw beyond their floors.

        Of given groups at least what pods of these can change.
        """
        caps: t.Iterable[SoftCap] = self.caps
        if groups is not None:
            caps = {id(cap): cap for group in groups for cap in self.caps_of(group)}.values()
        watts = sum(cap.cost(tallied) for cap in caps)
        return watts + sum(rule.excess(tallied) for rule in self.contents)

    def added_cost(
        self, tallied: Counts, group: int, nodes: Integers, number: int
    ) -> Floats | float:
        """What preference_watts rises by with so many more pods on each of these nodes alone."""
        added: t.Any = 0.0
        for cap in self.caps_of(group):
            domains = self.tallies[cap.tally].domain_of[nodes]
            more = cap.unmet(tallied, domains, self._more(cap, group, number))
            added = added + cap.watts * (more - cap.unmet(tallied, domains))
        for rule in self.contents:
            if group in rule.groups:
                added = added + rule.added_excess(tallied, group, nodes, number)
        return t.cast("Floats | float", added)


class Reach:
    """Which groups can be bound to which nodes, one after another, ``bound[g, n]``.

    ``seeds`` are the pods, as group and node, that come before all others.
    """

    def __init__(self, relations: Relations, counts: Integers) -> None:
        self._numpy = require("numpy")
        self._relations = relations
        self._wanted: Booleans = counts > 0
        self.seeds: list[tuple[int, int]] = []
        self._attractions = [rule for rule in relations.rules if isinstance(rule, AttractionRule)]
        self.bound: Booleans = self._wanted.copy()
        for rule in self._attractions:
            self.bound[self._dependants(rule)] = False
        self._spread_out()
        for rule in self._attractions:
            if self._seed(rule):
                self._spread_out()

    def _dependants(self, rule: AttractionRule) -> Booleans:
        return self._relations.tallies[rule.keys[0].dependants].members

    def _seed(self, rule: AttractionRule) -> bool:
        """Let the first pod of the rule that waits and is a member go first, if none runs."""
        if rule.runs:
            return False
        members = self._relations.tallies[rule.keys[0].members].members
        if any(members[group] for group, _node in self.seeds):
            return False
        seeds = self._relations.tallies[rule.keys[0].seeds].members
        waiting = (self._wanted & ~self.bound & seeds[:, None]).nonzero()
        if not len(waiting[0]):
            return False
        group, node = int(waiting[0][0]), int(waiting[1][0])
        self.seeds.append((group, node))
        self.bound[group, node] = True
        return True

    def _spread_out(self) -> None:
        """Bind whatever finds its members, until nothing more does."""
        while True:
            before = int(self.bound.sum())
            present = self._relations.count(self.bound.astype(self._numpy.int64))
            for rule in self._attractions:
                for group in self._dependants(rule).nonzero()[0].tolist():
                    self._bind(rule, group, present)
            if int(self.bound.sum()) == before:
                return

    def _bind(self, rule: AttractionRule, group: int, present: Counts) -> None:
        is_open = self._wanted[group].copy()
        for key in rule.keys:
            domain_of = self._relations.tallies[key.members].domain_of
            is_open &= (domain_of >= 0) & (present[key.members][domain_of] > 0)
        self.bound[group] |= is_open


class RelationState:
    """The tallies of an assignment, kept up to date, and what the rules say to it."""

    def __init__(self, relations: Relations, counts: Integers) -> None:
        self._numpy = require("numpy")
        self.relations = relations
        self.tallied: Counts = relations.count(counts)
        self._nodes: int = counts.shape[1]

    def place(self, group: int, node: int, number: int) -> None:
        for index in self.relations.tallies_of(group):
            domain = self.relations.tallies[index].domain_of[node]
            self.tallied[index][domain] += number

    def is_free(self, group: int) -> bool:
        """Whether no rule concerns the group."""
        return not self.relations.rules_of(group)

    def has_caps(self, group: int) -> bool:
        """Whether what other pods do changes what a pod of the group costs."""
        return bool(self.relations.caps_of(group)) or self._draws(group)

    def _draws(self, group: int) -> bool:
        return any(group in rule.groups for rule in self.relations.contents)

    def room(self, group: int) -> Integers:
        """How many more pods of the group the rules let each node take, if only it took any."""
        room = self._numpy.full(self._nodes, UNLIMITED)
        for rule in self.relations.rules_of(group):
            room = self._numpy.minimum(room, rule.room(self.tallied, group))
        return t.cast("Integers", room)

    def may_leave(self, group: int) -> Booleans:
        allowed = self._numpy.ones(self._nodes, dtype=bool)
        for rule in self.relations.rules_of(group):
            allowed &= rule.may_leave(self.tallied, group)
        return t.cast("Booleans", allowed)

    def hold(self, groups: t.Iterable[int], counts: Integers) -> bool:
        """Whether the rules of these groups hold."""
        rules = {id(rule): rule for group in groups for rule in self.relations.rules_of(group)}
        return self.relations.hold(rules.values(), self.tallied, counts)

    def reasons(self, group: int) -> list[str | None]:
        """The first rule by node that leaves it no room for the group."""
        reasons: list[str | None] = [None] * self._nodes
        for rule in self.relations.rules_of(group):
            for node in (rule.room(self.tallied, group) <= 0).nonzero()[0].tolist():
                reasons[node] = reasons[node] or rule.reason(group, node)
        return reasons
