# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""No-good cuts of the exact model about contents of nodes and of the fleet, added lazily.

The model has only sums of resources. If a feasibility check of contents.py refuses the pods of a
solution, an irreducible refused subset is forbidden wherever the check gives the same answers. If
the pods draw more power than in the model, a row adds the power draw of an irreducible subset that
draws as much. Fewer pods never need more, so no feasible placement is cut off.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ...solving.linear import LinearModel, Terms
from ..constraints.contents import ContentRule, FleetRule, Pods
from ..model.problem import Problem

_TOLERANCE_WATTS = 1e-4

_Columns = t.Mapping[tuple[int, int], int]


@dataclass
class _Scope:
    """Pods about which a check decides together: those of one node, or of the whole fleet.

    ``columns[k]`` count the pods of number k of Pods, of which there are at most ``most[k]``.
    Scopes of one ``kind`` have the same answers. ``floors`` are the power draw of each pod alone,
    which is in the preferences; None if the power draw does not count. ``drawn`` is that of all
    pods, as soon as it belongs to the objective.
    """

    kind: t.Hashable
    least_watts: t.Callable[[Pods], float]
    columns: list[tuple[int, ...]]
    most: list[float]
    floors: Terms | None
    drawn: Terms | None = None

    def pods(self, values: t.Sequence[float]) -> Pods:
        return tuple(sum(round(values[column]) for column in each) for each in self.columns)

    def watts(self, values: t.Sequence[float]) -> float:
        """The power draw in the model; infinite if it does not count."""
        if self.drawn is None:
            return math.inf
        return sum(weight * values[column] for column, weight in self.drawn)


class NoGoodCuts:
    """``columns`` are the model's columns of the pods of each group on each node."""

    def __init__(self, problem: Problem, model: LinearModel, columns: _Columns) -> None:
        self._model, self._columns = model, columns
        self._count = problem.count.tolist()
        self._scopes: list[_Scope] = []
        self._told: set[tuple[t.Hashable, Pods]] = set()
        # Columns that are 1 if a sum of columns counts at least a number of pods.
        self._reached: dict[tuple[tuple[int, ...], int], int] = {}
        if problem.relations is not None:
            for rule in problem.relations.rules:
                if isinstance(rule, ContentRule):
                    self._add_nodes(rule)
            for fleet in problem.relations.fleets:
                self._add_fleet(fleet)

    def _add_nodes(self, rule: ContentRule) -> None:
        groups = rule.check.groups
        for node in sorted({node for group, node in self._columns if group in rule.groups}):
            columns: list[tuple[int, ...]] = [
                (self._columns[group, node],) if (group, node) in self._columns else ()
                for group in groups
            ]
            floors = None
            if rule.draws and rule.priced[node]:
                floors = [
                    (column, float(floor))
                    for each, floor in zip(columns, rule.floor[:, node])
                    for column in each
                ]
            kind = id(rule), rule.check.kinds[node]
            self._add_scope(kind, _of_node(rule, node), columns, groups, floors)

    def _add_fleet(self, rule: FleetRule) -> None:
        """Count the pods of a group on all nodes of a class, so that rows hold for any of them."""
        groups = rule.check.groups
        columns: list[list[int]] = [[] for _each in range(len(groups) * rule.check.classes)]
        floors: list[tuple[int, float]] = []
        for (group, node), column in self._columns.items():
            if group in rule.groups:
                row = groups.index(group)
                columns[row * rule.check.classes + int(rule.class_of[node])].append(column)
                floors.append((column, float(rule.floor[row, node])))
        self._add_scope(
            id(rule),
            lambda pods: rule.draw(pods).least_watts,
            list(map(tuple, columns)),
            [group for group in groups for _each in range(rule.check.classes)],
            floors if rule.check.draws else None,
        )
        for total in rule.check.totals():
            terms = [
                (column, float(total.needed[group]))
                for (group, _node), column in self._columns.items()
                if total.needed.get(group)
            ]
            if terms:
                self._model.at_most(terms, total.there)

    def _add_scope(
        self,
        kind: t.Hashable,
        least_watts: t.Callable[[Pods], float],
        columns: list[tuple[int, ...]],
        groups: t.Sequence[int],
        floors: Terms | None,
    ) -> None:
        upper = self._model.upper
        most = [
            min(self._count[group], sum(upper[column] for column in each))
            for group, each in zip(groups, columns)
        ]
        self._scopes.append(_Scope(kind, least_watts, columns, most, floors))

    def add_watts(self) -> None:
        """Columns that cost the power draw of pods beyond the floors."""
        for scope in self._scopes:
            if scope.floors:
                scope.drawn = [(self._model.column(0.0, math.inf, 1.0), 1.0), *scope.floors]

    def add(self, values: t.Sequence[float]) -> bool:
        """Add cuts for the violations of a solution; False if there are no new ones."""
        before = len(self._told)
        for scope in self._scopes:
            pods = scope.pods(values)
            least = scope.least_watts(pods)
            if least == math.inf or least > scope.watts(values) + _TOLERANCE_WATTS:
                self._tell(scope.kind, _fewest_that_draw(scope.least_watts, pods, least), least)
        return len(self._told) > before

    def _tell(self, kind: t.Hashable, pods: Pods, watts: float) -> None:
        if (kind, pods) in self._told:
            return
        self._told.add((kind, pods))
        numbers = [(position, number) for position, number in enumerate(pods) if number]
        for scope in self._scopes:
            if scope.kind == kind and all(scope.columns[position] for position, _one in numbers):
                reached = [self._reaches(scope, *each) for each in numbers]
                if watts == math.inf:
                    self._model.at_most([(each, 1.0) for each in reached], len(reached) - 1)
                elif scope.drawn is not None:
                    terms = [*scope.drawn, *((each, -watts) for each in reached)]
                    self._model.at_least(terms, -watts * (len(reached) - 1))

    def _reaches(self, scope: _Scope, position: int, number: int) -> int:
        columns = scope.columns[position]
        if (columns, number) not in self._reached:
            reached = self._model.column(0.0, 1.0, integer=True)
            self._reached[columns, number] = reached
            beyond = max(scope.most[position] - number + 1, 0.0)
            terms = [(column, 1.0) for column in columns]
            self._model.at_most([*terms, (reached, -beyond)], number - 1)
        return self._reached[columns, number]


def _of_node(rule: ContentRule, node: int) -> t.Callable[[Pods], float]:
    return lambda pods: rule.draw(node, pods).least_watts


def _fewest_that_draw(least: t.Callable[[Pods], float], pods: Pods, watts: float) -> Pods:
    """An irreducible subset of these pods that draws at least as much."""
    fewest = list(pods)
    for position in range(len(fewest)):
        while fewest[position]:
            fewest[position] -= 1
            if least(tuple(fewest)) < watts:
                fewest[position] += 1
                break
    return tuple(fewest)
