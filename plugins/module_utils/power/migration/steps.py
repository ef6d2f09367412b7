# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Steps to a target assignment, in the order of their execution.

A step is a group of moves that pay together. Steps are as small as possible, so that the list can
end after any of them, and within a step the cheapest moves come first.
"""

from __future__ import annotations

import itertools
import typing as t

from ...solving.arrays import Integers
from ..model.assignment import Assignment
from .migration import Cost, Migration, Move, undo
from .moves import predicted

# Limits of sets of nodes tried as a step, and of moves tried in search of an order.
_MAX_SETS = 128
_MAX_TRIED = 300
_ROUNDING_WATTS = 1e-9


class _Order(t.NamedTuple):
    """Moves in a feasible order, and their value."""

    moves: list[Move]
    worth: float


class Division:
    """The assignment after the steps found so far, and the remaining moves."""

    def __init__(self, task: Migration, wanted: Integers) -> None:
        self._task = task
        self._wanted = wanted
        self._assignment = Assignment(task.problem, task.home)
        # Moves that may still be tried in search of an order.
        self._left = 0

    def steps(self) -> list[list[Move]]:
        """Steps to the wanted counts, the most watts for each pod first.

        Moves that do not pay in any order are left out.
        """
        found: list[list[Move]] = []
        while (step := self._next()) is not None:
            for move in step.moves:
                for change in move.changes:
                    self._assignment.place(*change)
            found.append(step.moves)
        return found

    def _next(self) -> _Order | None:
        """The best of the smallest steps: one move, or the moves of one node, of two …"""
        options = self._choices()
        single = self._single(options)
        if single is not None:
            return single
        sources = sorted({move.source for move in options})
        sets = (itertools.combinations(sources, number) for number in range(1, len(sources) + 1))
        left = _MAX_SETS
        for of_one_size in sets:
            tried = list(itertools.islice(of_one_size, left))
            left -= len(tried)
            paying = self._paying(self._ordered(set(each)) for each in tried)
            if paying is not None:
                return paying
        return self._paying([self._ordered(set(sources))]) if not left else None

    def _single(self, options: t.Sequence[Move]) -> _Order | None:
        """The move that saves the most, if one pays by itself."""
        promised = predicted(self._assignment, [(move,) for move in options])
        by_promise = sorted(zip(promised, options), key=lambda each: (-round(each[0], 6), each[1]))
        for watts, move in by_promise:
            if watts < self._task.least_gain - _ROUNDING_WATTS:
                return None
            paying = self._paying([self._ordered({move.source}, move)])
            if paying is not None:
                return paying
        return None

    def _paying(self, orders: t.Iterable[_Order | None]) -> _Order | None:
        """The order that saves the most for each pod, if it pays."""
        least = self._task.least_gain - _ROUNDING_WATTS
        paying = [
            order
            for order in orders
            if order is not None and order.moves and order.worth >= least * len(order.moves)
        ]
        return max(paying, key=lambda order: round(order.worth / len(order.moves), 6), default=None)

    def _choices(self, sources: t.Collection[int] | None = None) -> list[Move]:
        """Moves towards the wanted counts."""
        missing = self._wanted - self._assignment.counts
        return [
            Move(group, source, target)
            for group in range(len(missing))
            for source in (missing[group] < 0).nonzero()[0].tolist()
            if sources is None or source in sources
            for target in (missing[group] > 0).nonzero()[0].tolist()
        ]

    def _ordered(self, sources: t.Collection[int], first: Move | None = None) -> _Order | None:
        """All moves of some nodes, or one move, in a feasible order."""
        assignment = self._assignment
        missing = self._wanted - assignment.counts
        number = 1 if first else int(-missing[:, sorted(sources)].clip(max=0).sum())
        before = Cost.of(assignment)
        made: list[Move] = []
        self._left = _MAX_TRIED
        if not self._extend(made, sources, number, [first] if first else None):
            return None
        worth = before.saving(Cost.of(assignment))
        undo(assignment, made)
        return _Order(made, worth)

    def _extend(
        self,
        made: list[Move],
        sources: t.Collection[int],
        number: int,
        options: list[Move] | None = None,
    ) -> bool:
        """Make moves until there are enough, depth first, the cheapest first.

        Nothing is changed if no order is found.
        """
        if len(made) == number:
            return True
        for move in options or sorted(self._choices(sources), key=self._cost):
            if self._left <= 0:
                return False
            self._left -= 1
            if self._assignment.try_changes(move.changes):
                made.append(move)
                if self._extend(made, sources, number):
                    return True
                undo(self._assignment, [made.pop()])
        return False

    def _cost(self, move: Move) -> float:
        assignment = self._assignment
        source = assignment.all_nodes[move.source : move.source + 1]
        target = assignment.all_nodes[move.target : move.target + 1]
        leaving = float(assignment.added_cost(move.group, source, -1)[0])
        return round(leaving + float(assignment.added_cost(move.group, target)[0]), 9)
