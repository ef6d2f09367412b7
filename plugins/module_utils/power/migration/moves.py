# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Candidate groups of moves of running pods that may pay together.

The power draw of a node is independent of others, so the gain of moves is the sum of the cost
changes of their nodes. The search checks rules between pods. Axes: G groups, N nodes.
"""

from __future__ import annotations

import itertools
import math
import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Floats, Integers
from ..model.assignment import Assignment
from ..search.move_gains import Exchanges
from .migration import Move, undo

Moves = tuple[Move, ...]

# Largest number of pods of one group that go from one node to another at once.
_ALIKE = (1, 2, 3)
# Limits of nodes of a group, and of its moves in all.
_ENDS_OF_A_GROUP = 4
_MAX_ALIKE = 32
# Limits of emptied nodes, and of filled nodes.
_MAX_EMPTIED = 16
_MAX_FILLED = 8
# Limit of entries of a table of exchanges.
_EXCHANGE_TABLE = 400_000
_MAX_EXCHANGES = 16


def neighbours(assignment: Assignment, max_moves: int) -> list[Moves]:
    """Promising groups of moves, each once; the assignment is unchanged."""
    if len(assignment.all_nodes) < 2 or not max_moves or not assignment.counts.any():
        return []
    return list(dict.fromkeys(_Neighbourhood(assignment, max_moves).all()))


def predicted(assignment: Assignment, groups_of_moves: t.Sequence[Moves]) -> list[float]:
    """Power that each group of moves saves, without unmet preferences."""
    problem = assignment.problem
    ends = numpy.array(
        [
            (index, move.group, node, sign)
            for index, moves in enumerate(groups_of_moves)
            for move in moves
            for node, sign in ((move.source, -1), (move.target, 1))
        ],
        dtype=numpy.int64,
    ).reshape(-1, 4)
    index, group, node, sign = ends.T
    # One row for each node that a group of moves touches.
    keys, rows = numpy.unique(index * len(assignment.all_nodes) + node, return_inverse=True)
    use, pods, workload = (
        numpy.bincount(rows, weights=weights, minlength=len(keys)).astype(numpy.int64)
        for weights in (sign * problem.use[group], sign, sign * problem.is_workload[group])
    )
    owners, nodes = numpy.divmod(keys, len(assignment.all_nodes))
    saved = -assignment.change(nodes, use, pods, workload)
    total = numpy.bincount(owners, weights=saved, minlength=len(groups_of_moves))
    found: list[float] = total.tolist()
    return found


def _departures(assignment: Assignment, number: int) -> Floats:
    """Cost change of each node (G, N) with fewer pods; infinite without as many."""
    there = assignment.counts >= number
    return numpy.where(there, _changes(assignment, -number), numpy.inf)


def _arrivals(assignment: Assignment, number: int) -> Floats:
    """Cost change of each node with more pods; infinite without room for them."""
    problem = assignment.problem
    room = problem.limit - assignment.counts >= number
    for resource in range(problem.request.shape[1]):
        asked = number * problem.request[:, resource, None]
        room &= (assignment.free[:, resource] >= asked) | (asked == 0)
    return numpy.where(room, _changes(assignment, number), numpy.inf)


def _changes(assignment: Assignment, number: int) -> Floats:
    problem = assignment.problem
    workload = problem.is_workload.astype(numpy.int64)[:, None]
    change = assignment.change(
        assignment.all_nodes, number * problem.use[:, None], number, number * workload
    )
    if problem.preference is not None:
        change = change + number * problem.preference
    return change


def _cheapest(table: Floats) -> Integers:
    return numpy.argsort(table, axis=1, kind="stable")[:, :_ENDS_OF_A_GROUP]


def _has_room(assignment: Assignment, node: int) -> list[bool]:
    """Whether one more pod of each group fits on a node, apart from rules between pods."""
    request = assignment.problem.request
    enough = ((request <= assignment.free[node]) | (request == 0)).all(axis=1)
    enough &= assignment.counts[:, node] < assignment.problem.limit[:, node]
    found: list[bool] = enough.tolist()
    return found


class _Neighbourhood:
    """All candidates from one assignment."""

    def __init__(self, assignment: Assignment, max_moves: int) -> None:
        self._assignment = assignment
        self._problem = assignment.problem
        self._max_moves = max_moves
        # Cost change of a node without its pods.
        self._emptied = assignment.change(
            assignment.all_nodes, -assignment.use, -assignment.pods, -assignment.workload
        )
        self._departure, self._arrival = _departures(assignment, 1), _arrivals(assignment, 1)

    def all(self) -> t.Iterator[Moves]:
        yield from self._alike()
        yield from self._away()
        for target in self._to_fill():
            yield from self._poured(target)
            yield from self._gathered(target)
        yield from self._exchanged()

    def _alike(self) -> t.Iterator[Moves]:
        """The same number of pods of one group from one node to another."""
        assignment = self._assignment
        found: list[tuple[float, int, Move]] = []
        for number in _ALIKE[: self._max_moves]:
            departure = self._departure if number == 1 else _departures(assignment, number)
            arrival = self._arrival if number == 1 else _arrivals(assignment, number)
            found += self._pairs(departure, arrival, number)
            if number == 1 and assignment.related is not None:
                found += self._pairs(departure, self._open_by_rules(arrival), number)
        for _cost, number, move in sorted(found)[:_MAX_ALIKE]:
            yield (move,) * number

    def _pairs(
        self, departure: Floats, arrival: Floats, number: int
    ) -> t.Iterator[tuple[float, int, Move]]:
        """The cheapest departures with the cheapest arrivals of each group."""
        rows = numpy.arange(len(departure))[:, None]
        first, last = _cheapest(departure), _cheapest(arrival)
        for leaving, entering in itertools.product(range(first.shape[1]), repeat=2):
            sources, targets = first[:, leaving], last[:, entering]
            costs = departure[rows[:, 0], sources] + arrival[rows[:, 0], targets]
            for group in (numpy.isfinite(costs) & (sources != targets)).nonzero()[0].tolist():
                move = Move(group, int(sources[group]), int(targets[group]))
                yield float(costs[group]), number, move

    def _open_by_rules(self, arrival: Floats) -> Floats:
        """The arrivals to nodes that rules between pods admit at present."""
        state = self._assignment.related
        table = numpy.full_like(arrival, numpy.inf)
        for group in range(len(arrival)):
            if state is not None and not state.is_free(group):
                table[group] = numpy.where(state.room(group) > 0, arrival[group], numpy.inf)
        return table

    def _away(self) -> t.Iterator[Moves]:
        """All pods of one node, each to the node where it costs the least power.

        Nodes are ranked by the saving for each pod, if each found its cheapest place.
        """
        assignment = self._assignment
        cheapest = self._arrival.min(axis=1)[:, None]
        spent = numpy.zeros(assignment.counts.shape)
        there = assignment.counts > 0
        spent = numpy.multiply(assignment.counts, cheapest, out=spent, where=there).sum(axis=0)
        promise = (self._emptied + spent) / numpy.maximum(assignment.pods, 1)
        few = (assignment.pods > 0) & (assignment.pods <= self._max_moves)
        nodes = (few & numpy.isfinite(promise)).nonzero()[0]
        for node in nodes[numpy.argsort(promise[nodes], kind="stable")][:_MAX_EMPTIED].tolist():
            moves = self._away_from(node)
            if moves:
                yield moves

    def _away_from(self, node: int) -> Moves:
        """Moves of all pods of a node, the largest first; none if one finds no place."""
        assignment, sizes = self._assignment, self._problem.use
        groups = assignment.counts[:, node].nonzero()[0].tolist()
        made: list[Move] = []
        for group in sorted(groups, key=lambda each: -sizes[each]):
            for _pod in range(int(assignment.counts[group, node])):
                move = self._cheapest_move(group, node)
                if move is None:
                    undo(assignment, made)
                    return ()
                made.append(move)
        undo(assignment, made)
        return tuple(made)

    def _cheapest_move(self, group: int, source: int) -> Move | None:
        """Make the cheapest move of a pod from a node that resources and rules allow."""
        assignment = self._assignment
        is_open = assignment.fits(group, assignment.all_nodes)
        is_open[source] = False
        targets = is_open.nonzero()[0]
        costs = assignment.added_cost(group, targets)
        for best in numpy.argsort(costs, kind="stable")[:_ENDS_OF_A_GROUP].tolist():
            move = Move(group, source, int(targets[best]))
            if assignment.try_changes(move.changes):
                return move
        return None

    def _to_fill(self) -> list[int]:
        """Sleeping nodes, ordered by their power for a core in full use.

        In small fleets the other nodes as well.
        """
        costs = self._problem.costs
        asleep = costs.sleeper & (self._assignment.workload == 0)
        per_core = costs.heights[:, -1] / numpy.maximum(costs.knots[:, -1], 1.0)
        order = numpy.lexsort((per_core, ~asleep))
        if len(order) > _MAX_FILLED:
            order = order[asleep[order]][:_MAX_FILLED]
        return [int(node) for node in order if costs.priced[node]]

    def _poured(self, target: int) -> t.Iterator[Moves]:
        """All pods of one node, of two, of three … to one that may sleep before."""
        assignment, problem = self._assignment, self._problem
        requests = assignment.counts.T @ problem.request
        at = assignment.all_nodes[target : target + 1]
        free = assignment.free[target].copy()
        room = problem.limit[:, target] - assignment.counts[:, target]
        taken: list[int] = []
        moves: list[Move] = []
        while True:
            fits = ((requests <= free) | (requests == 0)).all(axis=1)
            fits &= (assignment.counts <= room[:, None]).all(axis=0)
            fits &= (assignment.pods > 0) & (assignment.pods <= self._max_moves - len(moves))
            fits[[target, *taken]] = False
            if not fits.any():
                return
            use, pods, workload = (
                each[taken].sum() + each
                for each in (assignment.use, assignment.pods, assignment.workload)
            )
            cost = self._emptied + assignment.change(at, use, pods, workload)
            cost = numpy.where(fits, cost / numpy.maximum(assignment.pods, 1), math.inf)
            best = int(cost.argmin())
            taken.append(best)
            free = free - requests[best]
            room = room - assignment.counts[:, best]
            for group in assignment.counts[:, best].nonzero()[0].tolist():
                moves += [Move(group, best, target)] * int(assignment.counts[group, best])
            yield tuple(moves)

    def _gathered(self, target: int) -> t.Iterator[Moves]:
        """Two, three … single pods of any nodes to one that may sleep before."""
        assignment, problem = self._assignment, self._problem
        trial = Assignment(problem, assignment.counts)
        departure = self._departure.copy()
        departure[:, target] = numpy.inf
        moves: list[Move] = []
        for _pod in range(self._max_moves):
            arrival = numpy.array(
                [
                    trial.added_cost(group, trial.all_nodes[target : target + 1])[0]
                    if fits
                    else numpy.inf
                    for group, fits in enumerate(_has_room(trial, target))
                ]
            )
            total = departure + arrival[:, None]
            group, source = divmod(int(total.argmin()), total.shape[1])
            if not numpy.isfinite(total[group, source]):
                return
            moves.append(Move(group, source, target))
            trial.place(group, source, -1)
            trial.place(group, target)
            at = trial.all_nodes[source : source + 1]
            for other in range(len(departure)):
                there = trial.counts[other, source] > 0
                departure[other, source] = trial.added_cost(other, at, -1)[0] if there else math.inf
            if len(moves) > 1:
                yield tuple(moves)

    def _exchanged(self) -> t.Iterator[Moves]:
        """One pod of a node for one or two of another."""
        assignment = self._assignment
        groups = assignment.counts.sum(axis=1).nonzero()[0]
        most = max(2, int((_EXCHANGE_TABLE / len(assignment.all_nodes)) ** 0.5))
        largest = numpy.argsort(-self._problem.use[groups], kind="stable")[:most]
        for number in (1, 2):
            if number >= self._max_moves:
                return
            found = Exchanges(assignment, numpy.sort(groups[largest]), number).steps()
            for step in sorted(found)[:_MAX_EXCHANGES]:
                there = Move(step.group, step.source, step.target)
                back = Move(step.back, step.target, step.source)
                yield (there, *[back] * number)
