# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Answer of a strategy: an assignment with its bounds and proofs."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.libraries import numpy
from ...solving.arrays import Integers
from ..model.assignment import Assignment
from ..model.problem import Problem
from .lagrangian_subproblem import Prices
from .lower_bound import LowerBounds

# What ended the work. proof: nothing better exists. completed: the method has no more to try.
StoppedBy = t.Literal["proof", "completed", "work_limit", "wall_clock"]

# Differences in watts below this are not real: results are in whole milliwatts.
PROOF_TOLERANCE_WATTS = 1e-3


@dataclass(frozen=True)
class Answer:
    """``lower_bound`` is of the total cost for placing the same pods.

    ``proven`` covers all objectives in their order, not only the power draw.
    """

    assignment: Assignment
    lower_bound: float
    proven: bool
    method: str
    stopped_by: StoppedBy


def ideal_pods(problem: Problem) -> Integers:
    """Upper bound on the placed pods of each group, without other groups."""
    ideal: Integers = numpy.minimum(problem.count, problem.limit.sum(axis=1))
    for rule in problem.relations.fleets if problem.relations is not None else ():
        for group in rule.check.groups:
            of_class = numpy.zeros(rule.check.classes, dtype=numpy.int64)
            numpy.add.at(of_class, rule.class_of, problem.limit[group])
            room = numpy.minimum(of_class, rule.most_of_class(group)).sum()
            ideal[group] = min(ideal[group], room)
    return ideal


def pods_are_ideal(assignment: Assignment) -> bool:
    """Whether it is evident that no more pods can be placed, and no fewer on unpriced nodes."""
    problem = assignment.problem
    placed = assignment.counts.sum(axis=1)
    priced = problem.costs.priced
    if (placed < ideal_pods(problem)).any():
        return False
    priced_room = problem.limit[:, priced].sum(axis=1)
    unavoidable = numpy.maximum(placed - priced_room, 0).sum()
    return bool(unavoidable == assignment.unpriced_pods())


def bound_with(bounds: LowerBounds, assignment: Assignment, prices: Prices | None) -> float:
    """The better of the bounds at these prices and at one price for all."""
    placed, elsewhere = assignment.counts.sum(axis=1), assignment.unpriced_pods()
    best = bounds.with_one_price(placed, elsewhere)
    if prices is not None:
        best = max(best, bounds.at(prices, placed, elsewhere))
    return best


def is_proof(assignment: Assignment, lower_bound: float) -> bool:
    """Whether the bound is reached, given that the placed pods are ideal."""
    return pods_are_ideal(assignment) and (
        assignment.total_cost() - lower_bound <= PROOF_TOLERANCE_WATTS
    )


def answer_with_bound(assignment: Assignment, method: str) -> Answer:
    """An answer without further search, with a quick bound."""
    lower_bound = bound_with(LowerBounds(assignment.problem), assignment, None)
    proven = is_proof(assignment, lower_bound)
    return Answer(assignment, lower_bound, proven, method, "proof" if proven else "completed")
