# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Running pods that may move: their nodes, the number that may leave, and the gain.

Axes: G groups of equivalent pods, N nodes.
"""

from __future__ import annotations

import math
import typing as t
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from ...scheduling.model import Pod
from ...solving.arrays import Integers
from ..model.assignment import Assignment, Change
from ..model.problem import Problem


class Move(t.NamedTuple):
    """One pod of ``group`` leaves node ``source`` for node ``target``."""

    group: int
    source: int
    target: int

    @property
    def changes(self) -> list[Change]:
        return [(self.group, self.source, -1), (self.group, self.target, 1)]


class Cost(t.NamedTuple):
    """Cost of an assignment: watts, and the cost of unmet preferred terms in watts."""

    watts: float
    preferences: float

    @classmethod
    def of(cls, assignment: Assignment) -> Cost:
        return cls(assignment.watts(), assignment.preference_watts())

    def saving(self, later: Cost) -> float:
        """Power that is saved until later.

        A preferred term that is no longer met counts against them, one that is newly met not in
        favour.
        """
        return self.watts - later.watts - max(0.0, later.preferences - self.preferences)


class MovablePod(t.NamedTuple):
    """A pod that may move, and the index of its budget, if it has one."""

    pod: Pod
    budget: int | None


@dataclass(frozen=True)
class Migration:
    """The task: the nodes of the pods (``home[g, n]``), and how many of them may move.

    ``pods`` are the pods of a group on a node, ``allowed`` the disruptions that each budget allows.
    Every move has the price of ``least_gain`` watts, and pays only beyond that.
    """

    problem: Problem
    home: Integers
    pods: t.Mapping[tuple[int, int], t.Sequence[MovablePod]]
    allowed: t.Sequence[int]
    least_gain: float
    max_moves: int

    @cached_property
    def _at_home(self) -> Cost:
        return Cost.of(Assignment(self.problem, self.home))

    def moved(self, counts: Integers) -> int:
        """Number of pods that have to move for these counts by group and node."""
        return int((self.home - counts).clip(0).sum())

    def added(self, counts: Integers, moves: t.Sequence[Move]) -> int:
        """Increase of the pods that have to move for these counts by these moves."""
        change: Counter[tuple[int, int]] = Counter()
        for group, source, target in moves:
            change[group, source] -= 1
            change[group, target] += 1
        gone = {key: int(self.home[key] - counts[key]) for key in change}
        return sum(max(gone[key] - change[key], 0) - max(gone[key], 0) for key in change)

    def value(self, assignment: Assignment) -> float:
        """Watts saved by an assignment less the price of its moves; minus infinity if too many."""
        if self.leaving(assignment.counts) is None:
            return -math.inf
        saving = self._at_home.saving(Cost.of(assignment))
        return saving - self.least_gain * self.moved(assignment.counts)

    def leaving(self, counts: Integers) -> dict[tuple[int, int], list[Pod]] | None:
        """The pods that move for these counts, by group and node; None if too few may move."""
        if self.moved(counts) > self.max_moves:
            return None
        left = list(self.allowed)
        chosen: dict[tuple[int, int], list[Pod]] = {}
        for group, node in zip(*(self.home > counts).nonzero()):
            key = int(group), int(node)
            pods = self._take(key, int(self.home[key] - counts[key]), left)
            if pods is None:
                return None
            chosen[key] = pods
        return chosen

    def _take(self, key: tuple[int, int], number: int, left: list[int]) -> list[Pod] | None:
        """This number of pods, pods of the largest budgets first; reduces the remaining budgets."""

        def generosity(movable: MovablePod) -> float:
            return math.inf if movable.budget is None else left[movable.budget]

        pods: list[Pod] = []
        for movable in sorted(self.pods[key], key=generosity, reverse=True):
            if len(pods) < number and generosity(movable) > 0:
                pods.append(movable.pod)
                if movable.budget is not None:
                    left[movable.budget] -= 1
        return pods if len(pods) == number else None


def carry_out(assignment: Assignment, moves: t.Sequence[Move]) -> bool:
    """Make all of these moves in an order in which each pod finds room, or none of them."""
    waiting, made = list(moves), list[Move]()
    while waiting:
        for move in waiting:
            if assignment.try_changes(move.changes):
                made.append(move)
                waiting.remove(move)
                break
        else:
            undo(assignment, made)
            return False
    return True


def undo(assignment: Assignment, moves: t.Sequence[Move]) -> None:
    """Undo moves, in any order."""
    for group, source, target in moves:
        assignment.place(group, target, -1)
        assignment.place(group, source, 1)
