# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lazy constraints of the exact model about the order of binding.

The model has the conditions of the final state. Its solution may have no order in which the pods
can be bound one after another. Two kinds of rows exclude such solutions, and every placement that
has an order meets them:

- Loop formulas: pods with affinity that justify only each other are placed only if a member outside
  of this circle is placed, or if one of them is the first member anywhere. These are the loop
  formulas of answer-set programming (Lin and Zhao, "ASSAT: computing answer sets of a logic program
  by SAT solvers", Artificial Intelligence 157, 2004); a pod that may be bound without a member is a
  *seed*, of which each rule has at most one.
- No-good cuts: a placement that the first kind does not exclude is forbidden itself, by its counts
  of pods and nodes that no rule distinguishes.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Booleans, Integers
from ...solving.linear import LinearModel
from ..constraints.relation_rules import AffinityRule, SpreadRule
from ..constraints.relations import Part, Relations
from ..constraints.topology_counts import Counts, TopologyCount
from ..model.repair import order_of

# Pods of a group on a node, as counted by a column of the model.
_Place = tuple[int, int]
_Columns = t.Mapping[_Place, int]


class _Missed(t.NamedTuple):
    """The members, by topology count, that pods with a rule miss in a domain."""

    rule: int
    members: TopologyCount
    domain: int


class LoopFormulas:
    """``columns`` are the model's columns of the pods of each group on each node."""

    def __init__(self, relations: Relations, model: LinearModel, columns: _Columns) -> None:
        self._relations = relations
        self._parts = [
            (
                part,
                _Circles(relations, part, model, columns),
                _Numbers(part, model, columns),
            )
            for part in relations.parts
        ]

    def add(self, counts: Integers, values: t.Sequence[float]) -> bool:
        """Add rows for parts of a solution without an order; False if there are no new ones.

        Each part gets separate rows, because a placement has an order if every part has one.
        """
        is_new = False
        for part, circles, numbers in self._parts:
            order = order_of(self._relations, part, counts)
            told = order != "found" and circles.add(counts, values)
            is_new |= told or (order == "none" and numbers.forbid(counts))
        return is_new


class _Circles:
    """Rows about pods that justify each other, in one part."""

    def __init__(
        self, relations: Relations, part: Part, model: LinearModel, columns: _Columns
    ) -> None:
        self._relations, self._model = relations, model
        self._columns = {at: column for at, column in columns.items() if at[0] in part.groups}
        self._affinity_rules = part.affinity_rules
        # Columns that are 1 for the seed, by rule.
        self._seeds: dict[int, dict[_Place, int]] = {}
        self._members: dict[_Missed, list[_Place]] = {}
        self._told: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()

    def add(self, counts: Integers, values: t.Sequence[float]) -> bool:
        """Whether new rows were added."""
        bound = self._bound(counts, values)
        present = self._relations.count(bound.astype(counts.dtype))
        lonely = {
            place: missed
            for place in self._columns
            if not bound[place] and (missed := self._missed(place, present)) is not None
        }
        before = len(self._told)
        # Rows for empty places as well, which saves later rounds.
        if any(counts[place] for place in lonely):
            circles: dict[_Missed, list[_Place]] = {}
            for place, missed in lonely.items():
                circles.setdefault(missed, []).append(place)
            for missed, places in circles.items():
                self._tell(places, self._reasons(missed, lonely))
        return len(self._told) > before

    def _bound(self, counts: Integers, values: t.Sequence[float]) -> Booleans:
        """The part of a solution that can be bound after its seeds."""
        wanted = numpy.zeros(counts.shape, dtype=bool)
        for place in self._columns:
            wanted[place] = counts[place] > 0
        chosen = [
            place
            for seeds in self._seeds.values()
            for place, column in seeds.items()
            if values[column] > 0.5
        ]
        return self._relations.reached(wanted, chosen)

    def _missed(self, place: _Place, present: Counts) -> _Missed | None:
        """The first missed member of a pod at the place; None if its affinity is met."""
        group, node = place
        for index, rule in enumerate(self._affinity_rules):
            if rule.depends(group):
                for key in rule.keys:
                    if not rule.found(key, present)[node]:
                        return _Missed(index, key.members, int(key.members.domain_of[node]))
        return None

    def _reasons(self, missed: _Missed, lonely: t.Mapping[_Place, _Missed]) -> tuple[int, ...]:
        """Columns of which one is above 0 if a pod of the circle is placed, with the circle.

        The circle is closed: a possible missed member belongs to it, or has its affinity met and is
        not placed. One pod of the circle in a placement is bound first. It has a member outside of
        the circle, or it is a seed.
        """
        asked, reasons = {missed}, set[int]()
        heads = [missed]
        while heads:
            for place in self._members_at(heads.pop()):
                if place not in lonely:
                    reasons.add(self._columns[place])
                    continue
                seed = self._seeds_of(lonely[place].rule).get(place)
                reasons.update(() if seed is None else (seed,))
                if lonely[place] not in asked:
                    asked.add(lonely[place])
                    heads.append(lonely[place])
        return tuple(sorted(reasons))

    def _members_at(self, missed: _Missed) -> list[_Place]:
        if missed not in self._members:
            members = missed.members
            self._members[missed] = [
                (group, node)
                for group, node in self._columns
                if members.members[group] and members.domain_of[node] == missed.domain
            ]
        return self._members[missed]

    def _tell(self, places: list[_Place], reasons: tuple[int, ...]) -> None:
        """Pods are at these places only if one of the reasons is above 0."""
        columns = tuple(self._columns[place] for place in places)
        if (columns, reasons) in self._told:
            return
        self._told.add((columns, reasons))
        justified = self._model.column(0.0, 1.0)
        terms = [(reason, -1.0) for reason in reasons]
        self._model.at_most([(justified, 1.0), *terms], 0.0)
        for column in columns:
            self._model.at_most([(column, 1.0), (justified, -self._model.upper[column])], 0.0)

    def _seeds_of(self, index: int) -> dict[_Place, int]:
        """A column for each possible seed of a rule; at most one of them is 1."""
        if index not in self._seeds:
            rule = self._affinity_rules[index]
            seeds = {
                place: self._model.column(0.0, 1.0, integer=True)
                for place in self._columns
                if rule.is_seed(*place)
            }
            for place, column in seeds.items():
                self._model.at_most([(column, 1.0), (self._columns[place], -1.0)], 0.0)
            self._model.at_most([(column, 1.0) for column in seeds.values()], 1.0)
            for other, others in self._seeds.items():
                self._keep_apart(rule, seeds, self._affinity_rules[other], others)
            self._seeds[index] = seeds
        return self._seeds[index]

    def _keep_apart(
        self,
        rule: AffinityRule,
        seeds: t.Mapping[_Place, int],
        other: AffinityRule,
        others: t.Mapping[_Place, int],
    ) -> None:
        """Two pods cannot both be bound before each other: a seed comes before all members."""
        first = [(column, 1.0) for place, column in seeds.items() if other.has_member(*place)]
        second = [(column, 1.0) for place, column in others.items() if rule.has_member(*place)]
        self._model.at_most([*first, *second], 1.0)


class _Numbers:
    """Rows that forbid single placements of one part, as far as its rules distinguish them."""

    def __init__(self, part: Part, model: LinearModel, columns: _Columns) -> None:
        self._model = model
        topology_counts = sorted(_looked_at(part), key=lambda each: each.index)
        # Equivalent places, with their columns.
        self._alike: dict[tuple[t.Hashable, t.Hashable], list[_Place]] = {}
        for group, node in columns:
            if group in part.groups:
                kind = tuple(
                    bool(topology_count.members[group]) for topology_count in topology_counts
                )
                domains = tuple(
                    int(topology_count.domain_of[node]) for topology_count in topology_counts
                )
                self._alike.setdefault((kind, domains), []).append((group, node))
        self._columns = columns
        self._forbidden: set[tuple[int, ...]] = set()
        self._other: dict[tuple[int, int], list[tuple[int, float]]] = {}

    def forbid(self, counts: Integers) -> bool:
        """Require that some count differs from this placement; False if the row exists."""
        numbers = tuple(
            sum(int(counts[place]) for place in places) for places in self._alike.values()
        )
        if numbers in self._forbidden:
            return False
        self._forbidden.add(numbers)
        terms, constant = list[tuple[int, float]](), 0.0
        for index, (places, number) in enumerate(zip(self._alike.values(), numbers)):
            total = [(self._columns[place], 1.0) for place in places]
            most = sum(self._model.upper[column] for column, _one in total)
            if number == 0:
                terms += total
            elif number == most:
                terms += [(column, -1.0) for column, _one in total]
                constant += most
            else:
                terms += self._differs(index, total, number, most)
        self._model.at_least(terms, 1.0 - constant)
        return True

    def _differs(
        self, index: int, total: list[tuple[int, float]], number: int, most: float
    ) -> list[tuple[int, float]]:
        """Columns of which one is 1 only if the total is above the number, the other if below."""
        if (index, number) not in self._other:
            more, fewer = (self._model.column(0.0, 1.0, integer=True) for _each in range(2))
            self._model.at_least([*total, (more, -(number + 1.0))], 0.0)
            self._model.at_most([*total, (fewer, most - number + 1.0)], most)
            self._other[index, number] = [(more, 1.0), (fewer, 1.0)]
        return self._other[index, number]


def _looked_at(part: Part) -> set[TopologyCount]:
    """The topology counts that the rules of a part use."""
    found: set[TopologyCount] = set()
    for rule in part.rules:
        if isinstance(rule, AffinityRule):
            found.update(*rule.keys)
        elif isinstance(rule, SpreadRule):
            found |= {rule.counted, rule.dependants}
        else:
            found.add(rule.members)
    return found
