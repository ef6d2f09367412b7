# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rows for the exact model that forbid what a node cannot hold, found as solutions ask for it.

The model knows sums of resources only. Where a solution puts pods together that an oracle of
node_contents.py refuses, the fewest of them that it refuses are forbidden, on all nodes of that
kind. As fewer pods never need more, nothing that is possible is cut off.
"""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.power.linear import LinearModel
from ansible_collections.wattwise.kube.plugins.module_utils.power.node_contents import (
    ContentRule,
    Pods,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.problem import Problem

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.int64]


class ContentCuts:
    """``columns`` are those of the model for the pods of each group on each node."""

    def __init__(
        self, problem: Problem, model: LinearModel, columns: t.Mapping[tuple[int, int], int]
    ) -> None:
        relations = problem.relations
        rules = relations.rules if relations is not None else ()
        self._rules = [rule for rule in rules if isinstance(rule, ContentRule)]
        self._model, self._columns = model, columns
        # A column that is 1 if so many pods of a group are on a node.
        self._reached: dict[tuple[int, int, int], int] = {}
        self._forbidden: set[tuple[int, t.Hashable, Pods]] = set()

    def add(self, counts: Integers) -> bool:
        """Forbid what these counts do wrong; False where they do nothing wrong."""
        before = len(self._forbidden)
        for index, rule in enumerate(self._rules):
            pods = counts[list(rule.oracle.groups)]
            for node in require("numpy").flatnonzero(pods.any(axis=0)).tolist():
                there = tuple(pods[:, node].tolist())
                if not rule.fits(node, there):
                    self._forbid(index, node, fewest_refused(rule, node, there))
        return len(self._forbidden) > before

    def _forbid(self, index: int, node: int, pods: Pods) -> None:
        rule, kind = self._rules[index], self._rules[index].oracle.kind(node)
        if (index, kind, pods) in self._forbidden:
            return
        self._forbidden.add((index, kind, pods))
        asked = [(group, number) for group, number in zip(rule.oracle.groups, pods) if number]
        for other in range(rule.nodes):
            known = all((group, other) in self._columns for group, _number in asked)
            if known and rule.oracle.kind(other) == kind:
                self._forbid_on(other, asked)

    def _forbid_on(self, node: int, asked: t.Sequence[tuple[int, int]]) -> None:
        if len(asked) == 1:
            [(group, number)] = asked
            self._model.at_most([(self._columns[group, node], 1.0)], number - 1)
            return
        reached = [self._reaches(group, node, number) for group, number in asked]
        self._model.at_most([(column, 1.0) for column in reached], len(reached) - 1)

    def _reaches(self, group: int, node: int, number: int) -> int:
        key = group, node, number
        if key not in self._reached:
            pods = self._columns[group, node]
            most = self._model.upper[pods]
            self._reached[key] = reached = self._model.column(0.0, 1.0, integer=True)
            beyond = max(most - number + 1, 0.0)
            self._model.at_most([(pods, 1.0), (reached, -beyond)], number - 1)
        return self._reached[key]


def fewest_refused(rule: ContentRule, node: int, pods: Pods) -> Pods:
    """Pods that are refused together, of which none can be left out."""
    fewest = list(pods)
    for position in range(len(fewest)):
        while fewest[position]:
            fewest[position] -= 1
            if rule.fits(node, tuple(fewest)):
                fewest[position] += 1
                break
    return tuple(fewest)
