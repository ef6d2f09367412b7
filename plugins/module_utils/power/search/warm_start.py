# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Warm start from the last plan, for pods that still wait, to avoid changes without a gain.

The search begins without the last plan, so that an outdated plan cannot mislead it. The updated
last plan wins if it is no worse; else the new plan is moved towards it as far as that costs
nothing.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Integers
from ..model.assignment import Assignment
from ..model.problem import Problem
from ..model.repair import can_be_bound, settled

# Plans that are this near cost the same: sums of many watts differ by as much.
SAME_WATTS = 1e-6
_SOURCES_TRIED = 3


def previous_counts(problem: Problem) -> Integers | None:
    """Pods of each group on each node in the last plan; None if it had none.

    A node that cannot take all its planned pods takes those of the first groups.
    """
    instance = problem.instance
    index_of = {node.name: index for index, node in enumerate(instance.nodes)}
    counts: Integers = numpy.zeros_like(problem.limit)
    free = problem.free.copy()
    for index, group in enumerate(problem.groups):
        asked = problem.request[index] > 0
        for pod in group.pods:
            node = index_of.get(instance.previous.get((pod.namespace, pod.name), ""))
            if node is None or counts[index, node] >= problem.limit[index, node]:
                continue
            if (free[node, asked] >= problem.request[index, asked]).all():
                counts[index, node] += 1
                free[node] -= problem.request[index]
    return counts if counts.any() else None


def kept(
    best: Assignment, counts: Integers, improved: t.Callable[[Assignment], Assignment]
) -> Assignment:
    """An assignment no worse than ``best``, with as few changes of the last plan as possible."""
    last = improved(settled(best.problem, counts))
    if last.is_feasible() and can_be_bound(last) and _is_no_worse(last, best):
        best = last
    nearer = Assignment(best.problem, best.counts)
    _bring_near(nearer, counts)
    return nearer if can_be_bound(nearer) and _is_no_worse(nearer, best) else best


def _is_no_worse(first: Assignment, second: Assignment) -> bool:
    *placed, cost = first.rank()
    *others, other_cost = second.rank()
    return placed > others or (placed == others and cost >= other_cost - SAME_WATTS)


def _bring_near(assignment: Assignment, counts: Integers) -> None:
    """Move pods back to the last plan's nodes of their group, if that costs nothing."""
    for group, node in zip(*(counts > assignment.counts).nonzero()):
        while assignment.counts[group, node] < counts[group, node]:
            if not _goes_back(assignment, counts, int(group), int(node)):
                break


def _goes_back(assignment: Assignment, counts: Integers, group: int, node: int) -> bool:
    """Move one pod of the group to the node from one with more than planned."""
    at = assignment.all_nodes[node : node + 1]
    spare = (assignment.counts[group] > counts[group]).nonzero()[0]
    if not len(spare) or not assignment.fits(group, at, moving=True)[0]:
        return False
    cost = assignment.added_cost(group, spare, -1) + assignment.added_cost(group, at)
    for best in numpy.argsort(cost, kind="stable")[:_SOURCES_TRIED].tolist():
        changes = [(group, int(spare[best]), -1), (group, node, 1)]
        if cost[best] <= 0.0 and assignment.try_changes(changes, 0.0):
            return True
    return False
