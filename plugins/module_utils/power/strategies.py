# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Strategies for a Problem, by name."""

from __future__ import annotations

import typing as t

from ..solving.limits import Limits
from . import optimal
from .baselines import placers
from .bounds.answer import Answer, answer_with_bound
from .model.assignment import Assignment
from .model.problem import Problem

_BASELINES: t.Mapping[str, t.Callable[[Problem], Assignment]] = {
    "greedy": placers.greedy,
    "minimize_power": placers.minimize_power,
    "peaks": placers.peaks,
    "spread": placers.spread,
}

STRATEGIES = ("optimal", *_BASELINES)


def solve(problem: Problem, strategy: str, limits: Limits) -> Answer:
    """The answer of a strategy to a problem."""
    if strategy == "optimal":
        return optimal.solve(problem, limits)
    return answer_with_bound(_BASELINES[strategy](problem), strategy)


def assigned(problem: Problem, strategy: str, limits: Limits) -> Assignment:
    """The assignment of a strategy, without a bound for baselines."""
    if strategy == "optimal":
        return optimal.solve(problem, limits).assignment
    return _BASELINES[strategy](problem)
