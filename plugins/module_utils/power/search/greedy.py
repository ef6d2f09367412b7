# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Greedy start for ``optimal``: the largest pods first, each where it adds the least power."""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Floats, Integers
from ..model.assignment import Assignment, incomplete_gangs
from ..model.problem import Problem
from ..model.repair import settled


def filled(problem: Problem, start: Integers | None = None) -> Assignment:
    """The feasible part of a start, with all further pods that find a node.

    A gang without nodes for all of its pods makes room for others.
    """
    counts = numpy.zeros_like(problem.limit) if start is None else start
    assignment = settled(problem, counts)
    barred: set[int] = set()
    while True:
        while fill(assignment, barred):
            pass
        incomplete = incomplete_gangs(assignment)
        if not incomplete:
            return assignment
        barred.update(group for gang in incomplete for group in gang)
        assignment = settled(problem, assignment.counts)


def fill(assignment: Assignment, barred: t.Collection[int] = ()) -> bool:
    """Place remaining pods by descending priority, then the largest first; True if any was.

    A pod that fits nowhere gets the room of another pod that can move aside. Barred groups are not
    placed.
    """
    before = int(assignment.pods.sum())
    for group in placing_order(assignment.problem):
        if group in barred:
            continue
        left = int(assignment.left()[group])
        placed = _place_cheapest(assignment, group, left)
        for _pod in range(left - placed):
            if not _make_room(assignment, group):
                break
    return int(assignment.pods.sum()) > before


def placing_order(problem: Problem) -> list[int]:
    """Groups by descending priority, then by the largest share of a resource that one pod takes.

    Ties keep the canonical order of groups.
    """
    total = numpy.maximum(problem.free, 0).sum(axis=0)
    shares = (problem.request / numpy.maximum(total, 1)).max(axis=1, initial=0.0)
    return sorted(
        range(len(problem.groups)),
        key=lambda group: (-problem.groups[group].shape.priority, -shares[group]),
    )


def _place_cheapest(assignment: Assignment, group: int, number: int) -> int:
    """Place pods one by one where each costs least; return how many found a node."""
    state, nodes = assignment.related, assignment.all_nodes
    # With rules or preferred terms a pod on one node changes the room and the cost of other nodes.
    is_related = state is not None and (state.has_caps(group) or not state.is_free(group))
    cost: Floats = numpy.full(len(nodes), numpy.inf)
    changed = nodes
    for done in range(number):
        cost[changed] = _open_cost(assignment, group, changed)
        node = int(cost.argmin()) if len(cost) else 0
        if not len(cost) or cost[node] == numpy.inf:
            return done
        assignment.place(group, node)
        changed = nodes if is_related else nodes[node : node + 1]
    return number


def _open_cost(assignment: Assignment, group: int, nodes: Integers) -> Floats:
    """Cost of one more pod on each of these nodes; infinite where none fits."""
    found: Floats = numpy.where(
        assignment.fits(group, nodes), assignment.added_cost(group, nodes), numpy.inf
    )
    return found


def _make_room(assignment: Assignment, group: int) -> bool:
    """Move one pod aside so that one of ``group`` fits, at the least cost; False if none can."""
    moves = [
        move
        for other in range(len(assignment.problem.groups))
        if (move := _best_move_aside(assignment, group, other)) is not None
    ]
    return any(
        assignment.try_changes([(other, source, -1), (other, target, 1), (group, source, 1)])
        for _cost, other, source, target in sorted(moves)
    )


def _best_move_aside(
    assignment: Assignment, group: int, other: int
) -> tuple[float, int, int, int] | None:
    """(cost, other, source, target) of the cheapest move of one pod of ``other``."""
    problem, nodes = assignment.problem, assignment.all_nodes
    sources = assignment.fits_instead(group, other).nonzero()[0]
    targets = assignment.fits(other, nodes, moving=True).nonzero()[0]
    if not len(sources) or not len(targets):
        return None
    arrival = assignment.added_cost(other, targets)
    cheapest = numpy.argsort(arrival, kind="stable")[:2]
    exchange = assignment.change(
        sources,
        problem.use[group] - problem.use[other],
        0,
        int(problem.is_workload[group]) - int(problem.is_workload[other]),
    )
    cost = exchange[:, None] + arrival[cheapest]
    # A pod cannot move aside to where it is, so the second best target counts there.
    cost[sources[:, None] == targets[cheapest]] = numpy.inf
    row, column = divmod(int(cost.argmin()), len(cheapest))
    if cost[row, column] == numpy.inf:
        return None
    return float(cost[row, column]), other, int(sources[row]), int(targets[cheapest[column]])
