# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Walks that divide pods anew, led by the loads that the lower bound wants.

Of small fleets the loads of dynamic_programming_bound.py nearly always can be had with whole pods.
So where a walk towards fewer watts gets stuck, one towards these loads starts it again somewhere
else.
"""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import numpy
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.answer import (
    PROOF_TOLERANCE_WATTS,
    cost_of,
    unpriced_pods,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.dynamic_programming_bound import (
    dynamic_programming_bound,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.loads import (
    Loads,
    loads_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.two_node_reoptimization import (
    TwoNodeReoptimization,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits

if t.TYPE_CHECKING:
    from ansible_collections.wattwise.kube.plugins.module_utils.solving.arrays import Integers


_ROUNDS_PER_SECOND = 1.0
_STEPS = 1000
_STEPS_FOR_A_NODE = 100
_ENOUGH_WATTS = PROOF_TOLERANCE_WATTS / 2


class Found(t.NamedTuple):
    """An assignment of the same pods, and what placing them costs at the least."""

    best: Assignment
    bound: float


def search_by_loads(start: Assignment, bound: float, limits: Limits) -> Found:
    """The best that walks find from a start, and the better of two bounds."""
    problem = start.problem
    loads = loads_of(problem)
    if loads is None:
        return Found(start, bound)
    walk = TwoNodeReoptimization(loads, start, limits)
    steps = _STEPS + _STEPS_FOR_A_NODE * len(problem.instance.nodes)
    best, at = start, cost_of(start)
    wanted: tuple[int, ...] = ()
    for number in range(1 + int(limits.seconds * _ROUNDS_PER_SECOND)):
        walk.save(steps, at - bound - _ENOUGH_WATTS)
        found = Assignment(problem, walk.counts())
        best, at = max(best, found, key=Assignment.rank), cost_of(found)
        if not number:
            bound, wanted = _bound(best, loads, bound)
        if not wanted or cost_of(best) - bound <= _ENOUGH_WATTS or limits.expired():
            break
        walk.approach(wanted, steps)
        at = cost_of(Assignment(problem, walk.counts()))
    return Found(best, bound)


def _bound(best: Assignment, loads: Loads, known: float) -> tuple[float, tuple[int, ...]]:
    """The better of the known bound and of that by loads, with the loads that the latter wants."""
    placed = best.counts.sum(axis=1)
    if unpriced_pods(best):
        return known, ()
    preferred = _least_preference_watts(best, placed)
    found = dynamic_programming_bound(loads, placed, cost_of(best) - preferred)
    if found is None:
        return known, ()
    return max(known, found.watts + preferred), found.loads


def _least_preference_watts(best: Assignment, placed: Integers) -> float:
    """What unmet preferences cost if each pod stands where most of its own are met."""
    problem = best.problem
    if problem.preference is None:
        return 0.0
    possible = numpy.where(problem.limit > 0, problem.preference, numpy.inf).min(axis=1)
    return float((numpy.where(placed > 0, possible, 0.0) * placed).sum())
