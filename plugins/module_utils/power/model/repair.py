# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Order of binding of a placement, pod by pod, and its largest bindable part.

Binding is simulated, one pod after another, each only if all rules admit it. If all rules hold in
the final state, a next pod nearly always exists: for a spread one in the emptiest domain, for
required affinity one whose peers are there (see Reach). Rules over several sets of pods that wait
for each other can leave none. All orders of a few pods are then tried; pods without an order are
not placed.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Integers
from ..constraints.relations import Part, Reach, Relations, RelationState
from .assignment import Assignment, incomplete_gangs, rules_hold
from .problem import Problem

# Group and node of a pod.
Step = tuple[int, int]

# Limits of pods that are tried in other orders, and of visited states.
_MAX_PODS_TO_REORDER = 40
_MAX_STATES = 500


def related_groups(problem: Problem) -> set[int]:
    """The groups with rules between pods: only their order matters."""
    rules = problem.relations.rules if problem.relations is not None else ()
    return {group for rule in rules for group in rule.groups}


def related_steps(problem: Problem, counts: Integers) -> list[Step]:
    """The pods with rules in a feasible order of binding, which may come last.

    Fewer than placed if the placement cannot be bound as a whole.
    """
    related = related_groups(problem)
    if problem.relations is None or not related:
        return []
    kept = counts.copy()
    kept[[group for group in range(len(counts)) if group not in related]] = 0
    return _Binding(problem.relations, kept).steps


def can_be_bound(assignment: Assignment) -> bool:
    """Whether the whole placement can be bound, pod by pod."""
    problem, counts = assignment.problem, assignment.counts
    related = sorted(related_groups(problem))
    return len(related_steps(problem, counts)) == int(counts[related].sum())


def order_of(
    relations: Relations, part: Part, counts: Integers
) -> t.Literal["found", "none", "unknown"]:
    """Whether there is an order of binding these pods of the part; no if a rule is broken.

    Pods of other groups are ignored. The answer is unknown if there are too many orders.
    """
    alone = numpy.zeros_like(counts)
    alone[list(part.groups)] = counts[list(part.groups)]
    counted = relations.count(alone)
    if any(rule.holds(counted) is False for rule in part.rules):
        return "none"
    binding = _Binding(relations, alone)
    if len(binding.steps) == alone.sum():
        return "found"
    return "none" if binding.is_hopeless else "unknown"


class _Binding:
    """One placement of related groups, bound step by step."""

    def __init__(self, relations: Relations, counts: Integers) -> None:
        self._state = RelationState(relations, numpy.zeros_like(counts))
        self._left = counts.copy()
        self.steps: list[Step] = []
        # Whether all orders failed.
        self.is_hopeless = False
        for group, node in Reach(relations, counts).seeds:
            if self._state.room(group)[node] > 0:
                self._bind(group, node)
        while self._pass():
            pass
        if self._left.any() and self._holds_in_the_end(counts):
            for part in relations.parts:
                self._reorder(sorted(part.groups))

    def _holds_in_the_end(self, counts: Integers) -> bool:
        relations = self._state.relations
        counted = relations.count(counts)
        return all(rule.holds(counted) is not False for rule in relations.rules)

    def _reorder(self, groups: list[int]) -> None:
        """Search an order of all pods of a part; without one nothing changes."""
        straight = [step for step in self.steps if step[0] in groups]
        left = self._left[groups].sum()
        if not left or len(straight) + left > _MAX_PODS_TO_REORDER:
            return
        for step in straight:
            self._take_back(*step)
        seen: set[bytes] = set()
        if not self._extend(groups, seen):
            self.is_hopeless = self.is_hopeless or len(seen) < _MAX_STATES
            for step in straight:
                self._bind(*step)

    def _extend(self, groups: list[int], seen: set[bytes]) -> bool:
        """Bind all remaining pods of these groups, depth first; none if there is no order."""
        left = self._left[groups]
        if not left.any():
            return True
        state = left.tobytes()
        if state in seen or len(seen) >= _MAX_STATES:
            return False
        seen.add(state)
        for row, node in zip(*left.nonzero()):
            group = groups[int(row)]
            if self._state.accepts(group, int(node)):
                self._bind(group, int(node))
                if self._extend(groups, seen):
                    return True
                self._take_back(group, int(node))
        return False

    def _take_back(self, group: int, node: int) -> None:
        """Undo the last step that bound a pod of the group to the node."""
        self._state.place(group, node, -1)
        self._left[group, node] += 1
        last = self.steps[::-1].index((group, node))
        del self.steps[-1 - last]

    def _bind(self, group: int, node: int) -> None:
        self._state.place(group, node, 1)
        self._left[group, node] -= 1
        self.steps.append((group, node))

    def _pass(self) -> bool:
        """Bind at most one pod of each group to each node; True if any was."""
        before = len(self.steps)
        for group in self._left.sum(axis=1).nonzero()[0].tolist():
            for node in self._left[group].nonzero()[0].tolist():
                if self._state.room(group)[node] > 0:
                    self._bind(group, node)
        return len(self.steps) > before


def settled(problem: Problem, counts: Integers) -> Assignment:
    """The feasible part of a placement in which at least the resources fit.

    Pods whose rules do not hold are left out, then incomplete gangs.
    """
    assignment = Assignment(problem, counts)
    while True:
        if not (rules_hold(assignment) and can_be_bound(assignment)):
            bound = assignment.counts.copy()
            bound[sorted(related_groups(problem))] = 0
            for step in related_steps(problem, assignment.counts):
                bound[step] += 1
            assignment = Assignment(problem, bound)
        incomplete = incomplete_gangs(assignment)
        if not incomplete:
            return assignment
        remaining = assignment.counts.copy()
        for gang in incomplete:
            remaining[list(gang)] = 0
        assignment = Assignment(problem, remaining)
