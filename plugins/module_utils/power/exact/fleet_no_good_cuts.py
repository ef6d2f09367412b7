# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""No-good cuts of the exact model about all nodes together; no_good_cuts.py has single nodes.

A row counts the pods of a group on all nodes of a class, so that it holds for any nodes in it.
"""

from __future__ import annotations

import math
import typing as t
from functools import partial

from ...solving.arrays import Integers
from ...solving.linear import LinearModel, Terms
from ..constraints.contents import FleetRule, Pods
from ..model.problem import Problem
from .no_good_cuts import TOLERANCE_WATTS, Reached, fewest_that_draw


class FleetNoGoodCuts:
    """``columns`` are the model's columns of the pods of each group on each node."""

    def __init__(
        self, problem: Problem, model: LinearModel, columns: t.Mapping[tuple[int, int], int]
    ) -> None:
        self._rules = () if problem.relations is None else problem.relations.fleets
        self._model, self._columns = model, columns
        self._count = problem.count.tolist()
        self._reached = Reached(model)
        self._told: set[tuple[int, Pods]] = set()
        # The power draw of all pods of a rule, as a sum of columns.
        self._watts: dict[int, Terms] = {}
        self._of_class = [self._by_class(rule) for rule in self._rules]
        for rule in self._rules:
            self._add_totals(rule)

    def _by_class(self, rule: FleetRule) -> list[tuple[int, ...]]:
        """The columns of each group on the nodes of each class, in the order of Pods."""
        found: list[list[int]] = [[] for _each in range(len(rule.numbers) * rule.check.classes)]
        for (group, node), column in self._columns.items():
            if group in rule.groups:
                first = rule.check.groups.index(group) * rule.check.classes
                found[first + int(rule.class_of[node])].append(column)
        return [tuple(columns) for columns in found]

    def _add_totals(self, rule: FleetRule) -> None:
        for total in rule.check.totals():
            terms = [
                (column, float(total.needed[group]))
                for (group, _node), column in self._columns.items()
                if total.needed.get(group)
            ]
            if terms:
                self._model.at_most(terms, total.there)

    def add_watts(self) -> None:
        """Columns that cost the power of pods beyond the floors, which are in the preferences."""
        for index, rule in enumerate(self._rules):
            if rule.check.draws:
                row = {group: position for position, group in enumerate(rule.check.groups)}
                floors = [
                    (column, float(rule.floor[row[group], node]))
                    for (group, node), column in self._columns.items()
                    if group in row
                ]
                excess = self._model.column(0.0, math.inf, 1.0)
                self._watts[index] = [(excess, 1.0), *floors]

    def add(self, counts: Integers, values: t.Sequence[float]) -> bool:
        """Add cuts for the violations of a solution; False if there are no new ones."""
        before = len(self._told)
        for index, rule in enumerate(self._rules):
            pods = rule.pods_of(counts)
            least = rule.draw(pods).least_watts
            believed = math.inf
            if index in self._watts:
                believed = sum(weight * values[column] for column, weight in self._watts[index])
            if least == math.inf or least > believed + TOLERANCE_WATTS:
                fewest = fewest_that_draw(partial(_least, rule), pods, least)
                self._tell(index, fewest, least)
        return len(self._told) > before

    def _tell(self, index: int, pods: Pods, watts: float) -> None:
        if (index, pods) in self._told:
            return
        self._told.add((index, pods))
        rule, reached = self._rules[index], []
        for position, number in enumerate(pods):
            if number:
                columns = self._of_class[index][position]
                group = rule.check.groups[position // rule.check.classes]
                most = min(self._count[group], sum(self._model.upper[column] for column in columns))
                reached.append(self._reached.by(columns, most, number))
        if watts == math.inf:
            self._model.at_most([(column, 1.0) for column in reached], len(reached) - 1)
        elif index in self._watts:
            terms = [*self._watts[index], *((column, -watts) for column in reached)]
            self._model.at_least(terms, -watts * (len(reached) - 1))


def _least(rule: FleetRule, pods: Pods) -> float:
    return rule.draw(pods).least_watts
