# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Beam search for the moves of running pods that save the most together.

A state is an assignment of all pods. Groups of moves lead from the best states to others, including
some worse ones that may lead to better ones. Work is counted, so equal input gives equal answers.
"""

from __future__ import annotations

import heapq
import math
import typing as t

from ...solving.arrays import Integers
from ..model.assignment import Assignment
from .migration import Migration, carry_out, undo
from .moves import Moves, neighbours, predicted

# Beam width, by the limit of groups times nodes of a fleet.
_WIDTHS = ((400, 5), (4000, 3))
_MIN_WIDTH = 2
# Limit of groups of moves tried for each of these states if rules forbid some.
_TRIED = 4
# Limit of consecutive groups of moves without an improvement.
_PATIENCE = 2
_MAX_FOUND = 8
_MIN_GAIN_WATTS = 1e-9


class _State(t.NamedTuple):
    """An assignment of all pods; ``peak`` is the best value on the path, ``ago`` moves back."""

    value: float
    moved: int
    peak: float
    ago: int
    counts: Integers


def _quality(state: _State) -> tuple[float, int]:
    return round(state.value, 6), -state.moved


def _rate(state: _State) -> float:
    """The value for each moved pod."""
    return round(state.value / max(state.moved, 1), 6)


class Search:
    """The states seen so far, and the expansion of some of them."""

    def __init__(self, task: Migration) -> None:
        self._task = task
        size = task.home.size
        self._width = next((width for most, width in _WIDTHS if size <= most), _MIN_WIDTH)
        self._seen = {task.home.tobytes()}

    def run(self) -> list[_State]:
        """States with a better value than at home, the best first."""
        heads = [_State(0.0, 0, 0.0, 0, self._task.home)]
        best: list[_State] = []
        while heads:
            found = [state for head in heads for state in self._beyond(head)]
            paying = [state for state in found if state.value > _MIN_GAIN_WATTS]
            best = heapq.nlargest(_MAX_FOUND, best + paying, key=_quality)
            heads = self._chosen(found)
        return best

    def _chosen(self, states: t.Sequence[_State]) -> list[_State]:
        """The best states: half of them by their value, half by the value for each moved pod."""
        by_value = sorted(states, key=_quality, reverse=True)
        chosen = by_value[: (self._width + 1) // 2]
        others = sorted(by_value[len(chosen) :], key=_rate, reverse=True)
        return chosen + others[: self._width - len(chosen)]

    def _beyond(self, head: _State) -> list[_State]:
        """The best states after one group of moves, and the state after all groups that pay."""
        assignment = Assignment(self._task.problem, head.counts)
        options = neighbours(assignment, self._task.max_moves)
        worth = [
            (gain - self._task.least_gain * self._task.added(head.counts, moves), moves)
            for gain, moves in zip(predicted(assignment, options), options)
        ]
        by_value = sorted(worth, key=lambda each: -round(each[0], 6))
        by_rate = sorted(worth, key=lambda each: -round(each[0] / len(each[1]), 6))
        together = self._together(head, assignment, by_rate)
        return [
            *([together] if together is not None else []),
            *self._first(head, assignment, by_value),
            *self._first(head, assignment, by_rate),
        ]

    def _first(
        self, head: _State, assignment: Assignment, worth: t.Sequence[tuple[float, Moves]]
    ) -> t.Iterator[_State]:
        """The first new states, as many as the beam is wide."""
        found = tried = 0
        for _worth, moves in worth:
            if found == self._width or tried == _TRIED * self._width:
                return
            if not self._is_new(head, moves):
                continue
            tried += 1
            if carry_out(assignment, moves):
                state = self._reached(head, assignment)
                undo(assignment, moves)
                if state is not None:
                    found += 1
                    yield state

    def _is_new(self, head: _State, moves: Moves) -> bool:
        """Whether moves lead to a new state with an allowed number of moved pods."""
        counts = head.counts.copy()
        for group, source, target in moves:
            counts[group, source] -= 1
            counts[group, target] += 1
        few = self._task.moved(counts) <= self._task.max_moves
        return few and counts.tobytes() not in self._seen

    def _reached(self, head: _State, assignment: Assignment) -> _State | None:
        """The state of an assignment; None if it is known or too many pods moved."""
        counts = assignment.counts
        if counts.tobytes() in self._seen:
            return None
        value = self._task.value(assignment)
        ago = 0 if value > head.peak + _MIN_GAIN_WATTS else head.ago + 1
        if value == -math.inf or ago > _PATIENCE:
            return None
        self._seen.add(counts.tobytes())
        return _State(value, self._task.moved(counts), max(value, head.peak), ago, counts.copy())

    def _together(
        self, head: _State, assignment: Assignment, worth: t.Sequence[tuple[float, Moves]]
    ) -> _State | None:
        """The state after all paying groups without a common node, most watts per pod first."""
        touched: set[int] = set()
        made: list[Moves] = []
        left = self._task.max_moves - head.moved
        for value, moves in worth:
            nodes = {node for move in moves for node in (move.source, move.target)}
            pays = value > _MIN_GAIN_WATTS and len(moves) <= left
            if pays and not nodes & touched and carry_out(assignment, moves):
                touched |= nodes
                left -= len(moves)
                made.append(moves)
        state = self._reached(head, assignment) if len(made) > 1 else None
        for moves in made:
            undo(assignment, moves)
        return state
