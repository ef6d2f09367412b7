# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The ways to solve a Problem, by name."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.power import baselines, optimal
from ansible_collections.wattwise.kube.plugins.module_utils.power.answer import (
    Answer,
    answer_with_bound,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits import Limits
from ansible_collections.wattwise.kube.plugins.module_utils.power.problem import Problem

_BASELINES: t.Mapping[str, t.Callable[[Problem], Assignment]] = {
    "greedy": baselines.greedy,
    "minimize_power": baselines.minimize_power,
    "peaks": baselines.peaks,
    "spread": baselines.spread,
}

STRATEGIES = ("optimal", *_BASELINES)


def solve(problem: Problem, strategy: str, limits: Limits) -> Answer:
    """What a strategy makes of a problem."""
    if strategy == "optimal":
        return optimal.solve(problem, limits)
    return answer_with_bound(_BASELINES[strategy](problem), strategy)


def assignments_of(
    strategies: t.Iterable[str], answer: Answer, strategy: str, limits: t.Callable[[], Limits]
) -> list[tuple[str, Assignment]]:
    """What each strategy makes of the problem that ``strategy`` gave this answer to."""
    problem = answer.assignment.problem
    found = []
    for name in strategies:
        if name == strategy:
            assignment = answer.assignment
        elif name in _BASELINES:
            assignment = _BASELINES[name](problem)
        else:
            assignment = solve(problem, name, limits()).assignment
        found.append((name, assignment))
    return found
