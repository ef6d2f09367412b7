# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Random walks that redistribute pods towards the loads of the lower bound.

In small fleets whole pods can nearly always make the loads of dynamic_programming_bound.py. So if a
walk towards less power gets stuck, a walk towards these loads restarts it elsewhere.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Integers
from ...solving.limits import Limits
from ..bounds.answer import PROOF_TOLERANCE_WATTS
from ..bounds.dynamic_programming_bound import dynamic_programming_bound
from ..bounds.loads import Loads, loads_of
from ..model.assignment import Assignment
from .two_node_reoptimization import TwoNodeReoptimization

# Steps of all walks for each second of the time limit.
_STEPS_PER_SECOND = 2000
_STEPS = 1000
_STEPS_FOR_A_NODE = 100
_ENOUGH_WATTS = PROOF_TOLERANCE_WATTS / 2


class LoadSearchResult(t.NamedTuple):
    """An assignment of the same pods, and the lower bound on its cost."""

    best: Assignment
    bound: float


def search_by_loads(start: Assignment, bound: float, limits: Limits) -> LoadSearchResult:
    """The best result of walks from a start, and the better of two bounds."""
    problem = start.problem
    loads = loads_of(problem)
    if loads is None:
        return LoadSearchResult(start, bound)
    walk = TwoNodeReoptimization(loads, start, limits)
    steps = _STEPS + _STEPS_FOR_A_NODE * len(problem.instance.nodes)
    best, at = start, start.total_cost()
    wanted: tuple[int, ...] = ()
    for number in range(1 + int(limits.seconds * _STEPS_PER_SECOND / steps)):
        walk.save(steps, at - bound - _ENOUGH_WATTS)
        found = Assignment(problem, walk.counts())
        best, at = max(best, found, key=Assignment.rank), found.total_cost()
        if not number:
            bound, wanted = _bound(best, loads, bound)
        if not wanted or best.total_cost() - bound <= _ENOUGH_WATTS or limits.expired():
            break
        walk.approach(wanted, steps)
        at = Assignment(problem, walk.counts()).total_cost()
    return LoadSearchResult(best, bound)


def _bound(best: Assignment, loads: Loads, known: float) -> tuple[float, tuple[int, ...]]:
    """The better of the known bound and the bound by loads, with the loads of the latter."""
    placed = best.counts.sum(axis=1)
    if best.unpriced_pods():
        return known, ()
    preferred = _least_preference_watts(best, placed)
    found = dynamic_programming_bound(loads, placed, best.total_cost() - preferred)
    if found is None:
        return known, ()
    return max(known, found.watts + preferred), found.loads


def _least_preference_watts(best: Assignment, placed: Integers) -> float:
    """Cost of unmet preferences if each pod is on its most preferred node."""
    problem = best.problem
    if problem.preference is None:
        return 0.0
    possible = numpy.where(problem.limit > 0, problem.preference, numpy.inf).min(axis=1)
    return float((numpy.where(placed > 0, possible, 0.0) * placed).sum())
