# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moves of one pod, and exchanges of one for one or several, as long as they save power.

One round finds all candidates on the same state, and makes those that touch different nodes
together. Steps of pods with rules between them are tried one by one.
"""

from __future__ import annotations

from ...base.libraries import numpy
from ...solving.arrays import Integers
from ...solving.limits import Limits
from ..model.assignment import Assignment, Change
from .affinity_swaps import AffinitySwaps
from .move_gains import MIN_GAIN_WATTS, Exchanges, Moves, Step, related_groups

# So many pods are exchanged for one.
_NUMBERS = (1, 2, 3)
# Entries of a table of exchanges (groups × groups × nodes) of 4 bytes each; there are six.
_EXCHANGE_TABLE = 4_000_000


def improve(assignment: Assignment, limits: Limits, rounds: int) -> bool:
    """Search for at most this number of rounds; True at a local optimum.

    The assignment stays feasible, and the number of placed pods of each group is kept.
    """
    if len(assignment.all_nodes) < 2:
        return True
    search = _Search(assignment, limits.seed)
    for _round in range(rounds):
        if limits.expired():
            return False
        if not search.advance():
            return True
    return False


class _Search:
    """The tables of moves and of exchanges; with many groups exchanges of a random part."""

    def __init__(self, assignment: Assignment, seed: int) -> None:
        self._assignment = assignment
        self._seed = seed
        self._related = related_groups(assignment)
        self._moves = Moves(assignment)
        self._affinity_swaps = AffinitySwaps(assignment, seed)
        self._exchanges: list[Exchanges] = []

    def advance(self) -> bool:
        """One round; False if no step was possible."""
        if self._carry_out(self._moves.steps()) or self._carry_out(self._affinity_swaps.steps()):
            return True
        for index, number in enumerate(_NUMBERS):
            if index == len(self._exchanges):
                groups = self._exchangeable()
                self._exchanges.append(Exchanges(self._assignment, groups, number))
            if self._carry_out(self._exchanges[index].steps()):
                return True
        return False

    def _exchangeable(self) -> Integers:
        groups: Integers = self._assignment.counts.sum(axis=1).nonzero()[0]
        most = max(2, int((_EXCHANGE_TABLE / max(len(self._assignment.all_nodes), 1)) ** 0.5))
        if len(groups) > most:
            random = numpy.random.default_rng(self._seed)
            groups = numpy.sort(random.choice(groups, size=most, replace=False))
        return groups

    def _carry_out(self, steps: list[Step]) -> bool:
        """Make the best steps that touch different nodes; return whether there was any."""
        touched: set[int] = set()
        for step in sorted(steps):
            if step.source in touched or step.target in touched:
                continue
            if self._carry_out_one(step):
                touched |= {step.source, step.target}
        self._moves.forget(touched)
        for exchanges in self._exchanges:
            exchanges.forget(touched)
        return bool(touched)

    def _carry_out_one(self, step: Step) -> bool:
        changes: list[Change] = [(step.group, step.source, -1), (step.group, step.target, 1)]
        if step.back >= 0:
            changes.append((step.back, step.target, -step.number))
            changes.append((step.back, step.source, step.number))
        if self._related[step.group] or (step.back >= 0 and self._related[step.back]):
            return self._assignment.try_changes(changes, MIN_GAIN_WATTS)
        for change in changes:
            self._assignment.place(*change)
        return True
