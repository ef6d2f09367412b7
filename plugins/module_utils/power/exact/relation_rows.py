# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rules between pods as rows of a mixed-integer model.

Every feasible placement meets the rows, so the model's bound stays valid. They state conditions of
the final state; loop_formulas.py has the order of binding.
"""

from __future__ import annotations

import math
import typing as t

from ...solving.linear import LinearModel
from ..constraints.preferences import Company, SoftCap
from ..constraints.relation_rules import (
    AffinityRule,
    AntiAffinityRule,
    EvenStartRule,
    OneNodeRule,
    SpreadRule,
)
from ..constraints.relations import Relations
from ..constraints.topology_counts import TopologyCount

# A sum of columns and a constant.
_Sum = tuple[list[tuple[int, float]], int]

# The highest decide where all pods find a node; few enough to keep the model small.
_MAX_HEIGHTS = 10


class RelationRows:
    """Adds rows to a model whose ``columns[group, node]`` are the counts of pods."""

    def __init__(
        self, model: LinearModel, columns: t.Mapping[tuple[int, int], int], relations: Relations
    ) -> None:
        self._model = model
        self._relations = relations
        self._columns = columns
        self._sums: dict[TopologyCount, list[_Sum]] = {}

    def add_rules(self, count: t.Sequence[int]) -> None:
        """Required rules; all ``count[g]`` pods of a gang are placed, or none."""
        for rule in self._relations.rules:
            if isinstance(rule, AntiAffinityRule):
                self._add_anti_affinity(rule)
            elif isinstance(rule, AffinityRule):
                self._add_affinity(rule)
            elif isinstance(rule, SpreadRule):
                self._add_spread(rule)
            elif isinstance(rule, EvenStartRule):
                self._add_even_start(rule)
            elif isinstance(rule, OneNodeRule):
                self._add_one_node(rule)
        for gang in self._relations.gangs:
            self._add_gang(gang, count)

    def add_caps(self) -> None:
        """Cost of unmet preferred terms about other waiting pods, as part of the objective."""
        for cap in self._relations.caps:
            self._add_cap(cap)

    def _counted(self, counted: TopologyCount) -> list[_Sum]:
        """The sum of each domain of a topology count."""
        if counted not in self._sums:
            sums: list[_Sum] = [([], base) for base in counted.base[:-1].tolist()]
            for (group, node), column in self._columns.items():
                domain = int(counted.domain_of[node])
                if counted.members[group] and domain >= 0:
                    sums[domain][0].append((column, 1.0))
            self._sums[counted] = sums
        return self._sums[counted]

    def _members(self, counted: TopologyCount) -> list[tuple[int, float]]:
        """All pods of a topology count, including those on nodes without a domain."""
        columns = self._columns.items()
        return [(each, 1.0) for (group, _node), each in columns if counted.members[group]]

    def _most(self, terms: t.Iterable[tuple[int, float]]) -> float:
        return sum(self._model.upper[column] * weight for column, weight in terms)

    def _someone(self, terms: t.Sequence[tuple[int, float]]) -> int | None:
        """A column that is 1 if any of these pods is placed; None if none can be."""
        if not terms:
            return None
        there = self._model.column(0.0, 1.0, integer=True)
        for column, _one in terms:
            self._model.at_most([(column, 1.0), (there, -self._model.upper[column])], 0.0)
        return there

    def _at_most_if(self, there: int, total: _Sum, most: float) -> None:
        """``total ≤ most`` if the column ``there`` is 1."""
        terms, base = total
        beyond = self._most(terms) + base - most
        if beyond > 0:
            self._model.at_most([*terms, (there, beyond)], most + beyond - base)

    def _add_anti_affinity(self, rule: AntiAffinityRule) -> None:
        topology_counts = (rule.held, rule.known, rule.both)
        for held, known, both in zip(
            *(self._counted(topology_count) for topology_count in topology_counts)
        ):
            own = {column for column, _one in both[0]}
            strangers = self._someone([term for term in held[0] if term[0] not in own])
            if strangers is not None:
                self._at_most_if(strangers, known, 0.0)
            members = self._someone(both[0])
            if members is not None:
                self._at_most_if(members, known, 1.0)

    def _add_affinity(self, rule: AffinityRule) -> None:
        for key in rule.keys:
            for dependants, members in zip(
                self._counted(key.dependants), self._counted(key.members)
            ):
                there = None if members[1] else self._someone(dependants[0])
                if there is not None:
                    self._model.at_least([*members[0], (there, -1.0)], 0.0)

    def _add_spread(self, rule: SpreadRule) -> None:
        counted = self._counted(rule.counted)
        least = None
        if not rule.from_zero and len(rule.emptiest):
            least = self._model.column(0.0, math.inf)
            for domain in rule.emptiest.tolist():
                terms, base = counted[domain]
                self._model.at_most([(least, 1.0), *((each, -1.0) for each, _one in terms)], base)
        for dependants, (terms, base) in zip(self._counted(rule.dependants), counted):
            there = self._someone(dependants[0])
            if there is not None:
                above = [*terms] if least is None else [*terms, (least, -1.0)]
                beyond = self._most(terms) + base - rule.max_skew
                if beyond > 0:
                    self._model.at_most([*above, (there, beyond)], rule.max_skew + beyond - base)

    def _add_even_start(self, rule: EvenStartRule) -> None:
        """The first pods fill the areas from below, like water.

        So the number of new pods below any height is at least the number of even starts, unless the
        areas are full to that height.
        """
        sums = self._counted(rule.members)
        areas = set(rule.areas.tolist())
        if not areas or any(terms for at, (terms, _base) in enumerate(sums) if at not in areas):
            return
        everyone = self._members(rule.members)
        first = min(rule.redundancy - rule.running, int(self._most(everyone)))
        there = [sums[area] for area in sorted(areas)]
        levels = list(_filled_up([base for _terms, base in there], first))
        for height, filled in levels[-_MAX_HEIGHTS:]:
            below = [(self._below(each, height), 1.0) for each in there if each[1] < height]
            self._at_least_lesser(below, everyone, min(filled, first))

    def _below(self, total: _Sum, height: int) -> int:
        """A column of the new pods of an area below a height."""
        terms, base = total
        below = self._model.column(0.0, float(height - base))
        self._model.at_most([(below, 1.0), *((each, -1.0) for each, _one in terms)], 0.0)
        return below

    def _at_least_lesser(
        self, terms: list[tuple[int, float]], others: list[tuple[int, float]], number: int
    ) -> None:
        """``terms ≥ min(others, number)``."""
        enough = self._model.column(0.0, 1.0, integer=True)
        most = self._most(others)
        self._model.at_least([*terms, (enough, -float(number))], 0.0)
        self._model.at_least(
            [*terms, *((column, -one) for column, one in others), (enough, most)], 0.0
        )

    def _add_one_node(self, rule: OneNodeRule) -> None:
        pods: dict[int, list[tuple[int, float]]] = {}
        for (group, node), column in self._columns.items():
            if group in rule.groups:
                pods.setdefault(node, []).append((column, 1.0))
        here = [there for each in pods.values() if (there := self._someone(each)) is not None]
        self._model.at_most([(there, 1.0) for there in here], 1.0)

    def _add_gang(self, gang: t.Sequence[int], count: t.Sequence[int]) -> None:
        whole = self._model.column(0.0, 1.0, integer=True)
        for group in gang:
            placed = [(each, 1.0) for (of, _node), each in self._columns.items() if of == group]
            self._model.equal([*placed, (whole, -float(count[group]))], 0.0)

    def _add_cap(self, cap: SoftCap) -> None:
        """The pods above the cap; company changes the cap."""
        for domain, (terms, base) in enumerate(self._counted(cap.topology_count)):
            most = self._most(terms) + base
            alone = min(int(cap.cap[domain]), most)
            beside = alone if cap.company is None else min(int(cap.company.cap[domain]), most)
            if min(alone, beside) < most:
                above = self._model.column(0.0, math.inf, cap.watts)
                row = [(above, 1.0), *((column, -1.0) for column, _one in terms)]
                if cap.company is not None and alone != beside:
                    there = self._company(cap.company, domain, is_welcome=beside > alone)
                    row += [] if there is None else [(there, beside - alone)]
                self._model.at_least(row, base - alone)

    def _company(self, company: Company, domain: int, *, is_welcome: bool) -> int | None:
        """A column that needs company to be 1, or is 1 with company; None without possible company.

        The first form is for company that lifts the cap, which the model prefers, the second for
        other company.
        """
        terms, _base = self._counted(company.topology_count)[domain]
        if not is_welcome:
            return self._someone(terms)
        if self._most(terms) < company.least:
            return None
        there = self._model.column(0.0, 1.0, integer=True)
        self._model.at_least([*terms, (there, -float(company.least))], 0.0)
        return there


def _filled_up(heights: t.Sequence[int], number: int) -> t.Iterator[tuple[int, int]]:
    """Each height to which this number of pods fills areas, and the number that fills it."""
    height, filled = min(heights), 0
    while filled < number:
        height += 1
        filled = sum(max(height - base, 0) for base in heights)
        yield height, filled
