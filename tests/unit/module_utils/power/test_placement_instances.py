# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated instances with every rule that pods can have, against an independent checker.

Each is solved as a user would and compared with the best of all assignments.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.power import place
from ansible_collections.wattwise.kube.plugins.module_utils.power.strategies import STRATEGIES
from support.brute_force_placement import optimum, optimum_of_the_same_pods
from support.placement_checker import (
    Value,
    is_refused,
    key_of,
    value_of,
    violations,
)
from support.placement_instances import Feature, Json, parameters

PROOF_WATTS = 1e-3
TOLERANCE_WATTS = 1e-5
KINDS: dict[str, frozenset[Feature]] = {
    "resources": frozenset(),
    "node rules": frozenset({"node rules", "running"}),
    "ports": frozenset({"ports", "running"}),
    "anti-affinity": frozenset({"anti-affinity", "running"}),
    "affinity": frozenset({"affinity", "running"}),
    "spread": frozenset({"spread", "running"}),
    "gangs": frozenset({"gangs"}),
    "everything": frozenset(
        {"affinity", "anti-affinity", "gangs", "node rules", "ports", "running", "spread"}
    ),
}


def is_no_worse(first: Value, second: Value, watts: float = TOLERANCE_WATTS) -> bool:
    """Whether a value is at least as good as another, but for so many watts."""
    return first[:2] > second[:2] or (first[:2] == second[:2] and first[2] >= second[2] - watts)


def refused_pods(result: Json) -> set[tuple[str, str]]:
    return {key_of(entry) for entry in result["unplaced"] if is_refused(entry)}


def check(given_parameters: Json, strategy: str) -> str:
    """Assert all that must be true of an answer, and say how good it is."""
    result = place(given_parameters)
    assert violations(given_parameters, result) == []
    found = value_of(given_parameters, result)
    best = optimum(given_parameters, refused_pods(result))
    assert is_no_worse(best, found)
    same_pods = best if result["proven"] else optimum_of_the_same_pods(given_parameters, result)
    assert result["watts"]["lower_bound"] <= -same_pods[2] + TOLERANCE_WATTS
    if result["proven"]:
        assert is_no_worse(found, best, PROOF_WATTS)
    check_baseline(given_parameters, strategy, found)
    if result["proven"]:
        return "proven"
    return "optimal" if is_no_worse(found, best, PROOF_WATTS) else "worse"


def check_baseline(given_parameters: Json, strategy: str, optimal: Value) -> None:
    """A placer of one pod at a time is as right, and never better."""
    result = place({**given_parameters, "strategy": strategy})
    is_complete = strategy != "minimize_power"
    assert violations(given_parameters, result, is_complete) == []
    assert is_no_worse(optimal, value_of(given_parameters, result))


def check_many(kind: str, examples: int) -> Counter[str]:
    counted: Counter[str] = Counter()

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(parameters(KINDS[kind]), st.sampled_from(STRATEGIES[1:]))
    def run(given_parameters: Json, strategy: str) -> None:
        counted[check(given_parameters, strategy)] += 1

    run()
    return counted


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_feasible_true_and_as_good_as_any(kind: str) -> None:
    counted = check_many(kind, 250)
    assert counted["worse"] <= 0.02 * counted.total(), counted


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_more_answers_are_feasible_true_and_as_good_as_any(kind: str) -> None:
    counted = check_many(kind, 2500)
    assert counted["worse"] <= 0.02 * counted.total(), counted
