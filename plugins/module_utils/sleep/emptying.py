# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moves that empty a machine, and whether the sleep pays for them.

Every pod goes where it costs the fewest watts among the machines that stay. A machine is emptied
whole or not at all.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.libraries import numpy
from ..power.model.assignment import Assignment
from .state import PlannedMove

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans
    from .state import FleetState


# Groups of pods that are tried for one move off an overfull node.
_CANDIDATES = 6


@dataclass(frozen=True)
class Emptied:
    """The moves off a node, the price of their evictions, and the watts added elsewhere."""

    moves: tuple[PlannedMove, ...] = ()
    joules: float = 0.0
    added_watts: float = 0.0


class Emptying:
    """Moves on one assignment, within the budgets of evictions."""

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self.assignment = Assignment(state.assignment.problem, state.assignment.counts)
        self._movable = state.movable.copy()
        self._allowed = [budget.allowed for budget in state.budgets]

    def obstacle(self, node: int) -> str:
        """Why the node cannot be emptied by evictions; empty if it can."""
        here = self.assignment.counts[:, node]
        fixed = int((here - numpy.minimum(here, self._movable[:, node])).sum())
        if fixed:
            return f"{fixed} of its pods may not be moved"
        for budget, allowed in zip(self._state.budgets, self._allowed):
            if int(here[list(budget.groups)].sum()) > allowed:
                return "a disruption budget allows fewer evictions than it has pods"
        return ""

    def empty(self, node: int, targets: Booleans) -> Emptied | None:
        """Move every pod off the node, the largest first; None, unchanged, if one has no place."""
        assignment, problem = self.assignment, self.assignment.problem
        nodes = (targets & (assignment.all_nodes != node)).nonzero()[0]
        pods = assignment.counts[:, node]
        groups = sorted(pods.nonzero()[0].tolist(), key=lambda g: (-int(problem.use[g]), g))
        before = float(assignment.cost[nodes].sum())
        moves: list[PlannedMove] = []
        for group in groups:
            for _pod in range(int(pods[group])):
                target = self._move(group, node, nodes)
                if target is None:
                    self._undo(moves)
                    return None
                moves.append(PlannedMove(group, node, target))
        added = float(assignment.cost[nodes].sum()) - before
        return Emptied(tuple(moves), self._joules(moves), added)

    def make_room(self, group: int, nodes: Booleans, most_joules: float) -> Emptied | None:
        """Seat a waiting pod on one of the nodes by moves of others; None if that costs more.

        Each move frees what is missing, with the smallest pod that suffices if there is one.
        """
        fitting = nodes.nonzero()[0]
        fitting = fitting[self.assignment.fits(group, fitting)]
        if len(fitting):
            costs = self.assignment.added_cost(group, fitting)
            self.assignment.place(group, int(fitting[costs.argmin()]))
            return Emptied()
        best: tuple[float, int] | None = None
        allowed = nodes & (self.assignment.problem.limit[group] > 0)
        for node in allowed.nonzero()[0].tolist():
            moves = self._moves_for(group, node, nodes, most_joules)
            if moves is not None:
                self._undo(moves)
                if best is None or self._joules(moves) < best[0]:
                    best = self._joules(moves), node
        if best is None:
            return None
        moves = self._moves_for(group, best[1], nodes, most_joules) or []
        self.assignment.place(group, best[1])
        return Emptied(tuple(moves), best[0])

    def _moves_for(
        self, group: int, node: int, nodes: Booleans, most_joules: float
    ) -> list[PlannedMove] | None:
        """Moves off a node until a pod of the group fits there; None, unchanged, without such."""
        assignment, problem = self.assignment, self.assignment.problem
        targets = (nodes & (assignment.all_nodes != node)).nonzero()[0]
        here = numpy.array([node])
        moves: list[PlannedMove] = []
        while not assignment.fits(group, here)[0]:
            missing = (problem.request[group] - assignment.free[node]).clip(0)
            moved = numpy.bincount([move.group for move in moves], minlength=len(problem.groups))
            movable = numpy.minimum(
                assignment.counts[:, node], self._movable[:, node] - moved
            ).nonzero()[0]
            candidates = [
                each
                for each in movable.tolist()
                if (problem.request[each][missing > 0] > 0).any() and self._is_allowed(each, moves)
            ]
            covered = {
                each: float(numpy.minimum(problem.request[each] / missing.clip(1), 1.0).sum())
                for each in candidates
            }
            candidates.sort(key=lambda g: (-covered[g], self._state.eviction_joules[g], g))
            target = next(
                (
                    PlannedMove(each, node, to)
                    for each in candidates[:_CANDIDATES]
                    for to in [self._move(each, node, targets)]
                    if to is not None
                ),
                None,
            )
            if target is not None:
                moves.append(target)
            if target is None or self._joules(moves) > most_joules:
                self._undo(moves)
                return None
        return moves

    def _is_allowed(self, group: int, moves: list[PlannedMove]) -> bool:
        """Whether the budgets admit one more eviction beside these moves."""
        return all(
            sum(move.group in budget.groups for move in moves) < allowed
            for budget, allowed in zip(self._state.budgets, self._allowed)
            if group in budget.groups
        )

    def _joules(self, moves: t.Iterable[PlannedMove]) -> float:
        return float(sum(self._state.eviction_joules[move.group] for move in moves))

    def accept(self, emptied: Emptied) -> None:
        """Take the moves off the budgets; pods that moved stay."""
        for move in emptied.moves:
            self._movable[move.group, move.source] -= 1
            for index, budget in enumerate(self._state.budgets):
                self._allowed[index] -= move.group in budget.groups

    def refuse(self, emptied: Emptied) -> None:
        """Undo the moves."""
        self._undo(list(emptied.moves))

    def _move(self, group: int, source: int, nodes: t.Any) -> int | None:
        """Move one pod to the cheapest node that admits it."""
        assignment = self.assignment
        fitting = nodes[assignment.fits(group, nodes, moving=True)]
        if not len(fitting):
            return None
        costs = assignment.added_cost(group, fitting)
        for index in numpy.argsort(costs, kind="stable").tolist():
            target = int(fitting[index])
            if assignment.try_changes([(group, source, -1), (group, target, 1)]):
                return target
        return None

    def _undo(self, moves: list[PlannedMove]) -> None:
        for move in reversed(moves):
            self.assignment.place(move.group, move.target, -1)
            self.assignment.place(move.group, move.source, 1)
