# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""No-good cuts of the exact model about nodes' contents, added lazily.

The model has only sums of resources. If a feasibility check of contents.py refuses the
contents of a node in a solution, an irreducible refused subset is forbidden on all nodes of that
kind. If the contents draw more power than in the model, a row adds the power draw of an irreducible
subset that draws as much. Fewer pods never need more, so no feasible placement is cut off.
"""

from __future__ import annotations

import math
import typing as t
from functools import partial

from ...base.libraries import numpy
from ...solving.arrays import Integers
from ...solving.linear import LinearModel
from ..constraints.contents import ContentRule, Pods
from ..constraints.relation_rules import OneNodeRule
from ..constraints.relations import Relations
from ..model.problem import Problem

TOLERANCE_WATTS = 1e-4


class NoGoodCuts:
    """``columns`` are the model's columns of the pods of each group on each node."""

    def __init__(
        self, problem: Problem, model: LinearModel, columns: t.Mapping[tuple[int, int], int]
    ) -> None:
        relations = problem.relations
        rules = relations.rules if relations is not None else ()
        self._rules = [rule for rule in rules if isinstance(rule, ContentRule)]
        self._model, self._columns = model, columns
        self._reached = Reached(model)
        self._told: set[tuple[int, t.Hashable, Pods]] = set()
        # The power draw of each node's contents, as a sum of columns, by rule and node.
        self._watts: dict[tuple[int, int], list[tuple[int, float]]] = {}
        self._keep_on_one_node(relations)

    def _keep_on_one_node(self, relations: Relations | None) -> None:
        """Rows for pods that must be on the same node."""
        for rule in relations.rules if relations is not None else ():
            if not isinstance(rule, OneNodeRule):
                continue
            here: dict[int, int] = {}
            for (group, node), column in self._columns.items():
                if group in rule.groups:
                    if node not in here:
                        here[node] = self._model.column(0.0, 1.0, integer=True)
                    most = self._model.upper[column]
                    self._model.at_most([(column, 1.0), (here[node], -most)], 0.0)
            self._model.at_most([(column, 1.0) for column in here.values()], 1.0)

    def add_watts(self) -> None:
        """Columns that cost watts of contents beyond the floors, which are in the preferences."""
        for index, rule in enumerate(self._rules):
            if not rule.draws:
                continue
            for node in rule.priced.nonzero()[0].tolist():
                floors = [
                    (self._columns[group, node], float(floor))
                    for group, floor in zip(rule.check.groups, rule.floor[:, node])
                    if (group, node) in self._columns
                ]
                if floors:
                    excess = self._model.column(0.0, math.inf, 1.0)
                    self._watts[index, node] = [(excess, 1.0), *floors]

    def add(self, counts: Integers, values: t.Sequence[float]) -> bool:
        """Add cuts for the violations of a solution; False if there are no new ones."""
        before = len(self._told)
        for index, rule in enumerate(self._rules):
            pods = counts[list(rule.check.groups)]
            for node in numpy.flatnonzero(pods.any(axis=0)).tolist():
                there = tuple(pods[:, node].tolist())
                least = rule.draw(node, there).least_watts
                watts = self._watts.get((index, node))
                believed = math.inf
                if watts is not None:
                    believed = sum(weight * values[column] for column, weight in watts)
                if least == math.inf or least > believed + TOLERANCE_WATTS:
                    fewest = fewest_that_draw(partial(_least, rule, node), there, least)
                    self._tell(index, node, fewest, least)
        return len(self._told) > before

    def _tell(self, index: int, node: int, pods: Pods, watts: float) -> None:
        rule, kind = self._rules[index], self._rules[index].check.kinds[node]
        if (index, kind, pods) in self._told:
            return
        self._told.add((index, kind, pods))
        asked = [(group, number) for group, number in zip(rule.check.groups, pods) if number]
        for other in range(rule.nodes):
            known = all((group, other) in self._columns for group, _number in asked)
            if not known or rule.check.kinds[other] != kind:
                continue
            if watts == math.inf:
                self._forbid_on(other, asked)
            elif (index, other) in self._watts:
                self._charge(self._watts[index, other], other, asked, watts)

    def _charge(
        self,
        drawn: t.Sequence[tuple[int, float]],
        node: int,
        asked: t.Sequence[tuple[int, int]],
        watts: float,
    ) -> None:
        reached = [self._reaches(node, *each) for each in asked]
        terms = [*drawn, *((each, -watts) for each in reached)]
        self._model.at_least(terms, -watts * (len(reached) - 1))

    def _forbid_on(self, node: int, asked: t.Sequence[tuple[int, int]]) -> None:
        if len(asked) == 1:
            [(group, number)] = asked
            self._model.at_most([(self._columns[group, node], 1.0)], number - 1)
            return
        reached = [self._reaches(node, *each) for each in asked]
        self._model.at_most([(column, 1.0) for column in reached], len(reached) - 1)

    def _reaches(self, node: int, group: int, number: int) -> int:
        pods = self._columns[group, node]
        return self._reached.by((pods,), self._model.upper[pods], number)


def _least(rule: ContentRule, node: int, pods: Pods) -> float:
    return rule.draw(node, pods).least_watts


class Reached:
    """Columns that are 1 if a sum of columns counts at least a number of pods."""

    def __init__(self, model: LinearModel) -> None:
        self._model = model
        self._known: dict[tuple[tuple[int, ...], int], int] = {}

    def by(self, pods: tuple[int, ...], most: float, number: int) -> int:
        """The column for ``number`` pods of at most ``most``."""
        if (pods, number) not in self._known:
            reached = self._model.column(0.0, 1.0, integer=True)
            self._known[pods, number] = reached
            beyond = max(most - number + 1, 0.0)
            terms = [(column, 1.0) for column in pods]
            self._model.at_most([*terms, (reached, -beyond)], number - 1)
        return self._known[pods, number]


def fewest_that_draw(least: t.Callable[[Pods], float], pods: Pods, watts: float) -> Pods:
    """An irreducible subset of these pods that draws at least as much."""
    fewest = list(pods)
    for position in range(len(fewest)):
        while fewest[position]:
            fewest[position] -= 1
            if least(tuple(fewest)) < watts:
                fewest[position] += 1
                break
    return tuple(fewest)
