# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Ejection chains for pods that fit nowhere: each ejects others, which find room in turn.

One pod after another is put on the node with the smallest excess. Then pods change places, also
with waiting ones, until no node is overfull; if that takes too long, all changes are undone. So
each success places one pod more, not necessarily the same one.
"""

from __future__ import annotations

import heapq
import typing as t

from ...solving.limits import Limits
from ..model.assignment import Assignment, Change
from .infeasible_space_tabu_search import InfeasibleSpaceTabuSearch

# Steps for a pod. Each failure halves them, a success restores them, so that little is spent where
# there is no room.
_STEPS_FOR_A_POD = 200
# For the first pod of each group, however many others failed before.
_MIN = 10
# At the most for all together.
_MAX_STEPS = 5000


class _Unit(t.NamedTuple):
    """Pods placed together: one of a group, or all of a gang. The smallest come first."""

    failures: int
    rank: int
    size: float
    groups: tuple[int, ...]


def eject(assignment: Assignment, limits: Limits) -> Assignment:
    """The assignment, or one with more placed pods.

    Pods of equal priority may exchange their places for others. Rules between pods hold; repair.py
    checks the order of binding.
    """
    if not assignment.left().any():
        return assignment
    trial = Assignment(assignment.problem, assignment.counts)
    _EjectionChain(trial, limits).run()
    return max(assignment, trial, key=Assignment.rank)


class _EjectionChain:
    """Waiting items are a heap; displaced groups join it."""

    def __init__(self, assignment: Assignment, limits: Limits) -> None:
        self._assignment = assignment
        self._limits = limits
        relations = assignment.problem.relations
        gangs = relations.gangs if relations is not None else ()
        self._gang_of = {group: gang for gang in gangs for group in gang}
        self._search = InfeasibleSpaceTabuSearch(assignment, self._gang_of, limits.seed)
        self._waiting: list[_Unit] = []
        self._known: set[tuple[int, ...]] = set()
        self._join(assignment.left().nonzero()[0].tolist())
        self._steps_left = _MAX_STEPS

    def _join(self, groups: t.Iterable[int]) -> None:
        """Queue waiting pods of these groups that have an open node."""
        problem = self._assignment.problem
        for group in groups:
            unit = self._gang_of.get(group, (group,))
            if self._search.left(group) and unit not in self._known and self._is_open(unit):
                shapes = [problem.groups[each].shape for each in unit]
                rank = -max(shape.priority for shape in shapes)
                heapq.heappush(self._waiting, _Unit(0, rank, self._search.size_of(unit), unit))
                self._known.add(unit)

    def _is_open(self, unit: tuple[int, ...]) -> bool:
        return bool(self._assignment.problem.limit[list(unit)].any(axis=1).all())

    def run(self) -> None:
        """Place pods, the smallest first; those that failed come after all others."""
        steps = _STEPS_FOR_A_POD
        while self._waiting and self._steps_left > 0 and not self._limits.expired():
            unit = heapq.heappop(self._waiting)
            self._known.discard(unit.groups)
            if unit.failures and not steps:
                return
            if not any(map(self._search.left, unit.groups)):
                continue
            before = self._steps_left
            changes = self._place(unit.groups, steps if unit.failures else max(steps, _MIN))
            if changes:
                steps = _STEPS_FOR_A_POD
            elif self._steps_left < before:
                steps //= 2
                heapq.heappush(self._waiting, unit._replace(failures=unit.failures + 1))
                self._known.add(unit.groups)
            self._join(group for group, _node, _number in changes)

    def _place(self, unit: tuple[int, ...], steps: int) -> list[Change]:
        """Changes that place one pod of a group, or all of a gang; none without success."""
        changes: list[Change] = []
        for group in unit:
            for _pod in range(self._search.left(group) if group in self._gang_of else 1):
                if not self._place_one(group, steps, changes):
                    self._search.take_back(changes)
                    return []
        return changes

    def _place_one(self, group: int, steps: int, changes: list[Change]) -> bool:
        """Whether a pod finds a place within this number of steps, with no node left overfull."""
        self._search.forget()
        added = self._search.add(group)
        changes += added
        for step in range(steps if added else 0):
            overfull = self._search.overfull()
            if not overfull:
                return True
            self._steps_left -= 1
            changes += self._search.relieve(overfull[step % len(overfull)])
        return bool(added) and not self._search.overfull()
