# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated instances with every rule that pods can have, against an independent checker.

Each is solved as a user would and compared with the best of all assignments.
"""

from __future__ import annotations

import json
import typing as t
from collections import Counter
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import STRATEGIES, place
from support.brute_force_placement import optimum, optimum_of_the_same_pods
from support.examples import examples, first_seed, generated, nearly_all, of_part
from support.placement_checker import Value, is_refused, key_of, value_of, violations
from support.placement_instances import Feature, Json, nodes, parameters

PROOF_WATTS = 1e-3
TOLERANCE_WATTS = 1e-5
# Examples of each kind in every run; `make test-deep` tries many times as many.
EXAMPLES = 40
KINDS: dict[str, frozenset[Feature]] = {
    "resources": frozenset(),
    "node rules": frozenset({"node rules", "running"}),
    "preferences": frozenset({"node rules", "preferences", "running"}),
    "peer preferences": frozenset({"peer preferences", "running"}),
    "soft spread": frozenset({"node rules", "running", "soft spread"}),
    "podspread": frozenset({"node rules", "podspread", "running"}),
    "ports": frozenset({"ports", "running"}),
    "caches": frozenset({"caches", "running"}),
    "anti-affinity": frozenset({"anti-affinity", "running"}),
    "affinity": frozenset({"affinity", "running"}),
    "spread": frozenset({"spread", "running"}),
    "gangs": frozenset({"gangs"}),
    "volumes": frozenset({"volumes"}),
    "volumes beside others": frozenset({"anti-affinity", "running", "volumes"}),
    "everything": frozenset(t.get_args(Feature)),
}


# Kinds that `make test-deep` tries this many times more often: 20,000 instances with volumes.
MORE = {"volumes": 7, "volumes beside others": 7}


def parts() -> list[tuple[str, int]]:
    """The kinds, some in several parts from seeds of their own where many examples are wanted."""
    is_deep = first_seed() is not None
    return [(kind, part) for kind in KINDS for part in range(MORE.get(kind, 1) if is_deep else 1)]


def is_no_worse(first: Value, second: Value, watts: float = TOLERANCE_WATTS) -> bool:
    """Whether a value is at least as good as another, within this many watts."""
    return first[:2] > second[:2] or (first[:2] == second[:2] and first[2] >= second[2] - watts)


def refused_pods(result: Json) -> set[tuple[str, str]]:
    return {key_of(entry) for entry in result["unplaced"] if is_refused(entry)}


def check(given_parameters: Json, strategy: str) -> str:
    """Assert all required properties of an answer, and return its quality."""
    result = place(given_parameters)
    assert violations(given_parameters, result) == []
    found = value_of(given_parameters, result)
    best = optimum(given_parameters, refused_pods(result))
    assert is_no_worse(best, found)
    same_pods = best if result["proven"] else optimum_of_the_same_pods(given_parameters, result)
    bound = result["watts"]["lower_bound"] + result["preference_watts"]
    assert bound <= -same_pods[2] + TOLERANCE_WATTS
    if result["proven"]:
        assert is_no_worse(found, best, PROOF_WATTS)
    check_baseline(given_parameters, strategy, found)
    if result["proven"]:
        return "proven"
    return "optimal" if is_no_worse(found, best, PROOF_WATTS) else "worse"


def check_baseline(given_parameters: Json, strategy: str, optimal: Value) -> None:
    """A placer of one pod at a time is also correct, and never better in watts."""
    result = place({**given_parameters, "strategy": strategy})
    is_complete = strategy != "minimize_power"
    assert violations(given_parameters, result, is_complete) == []
    if strategy in ("greedy", "minimize_power"):
        assert is_no_worse(optimal, value_of(given_parameters, result))


@generated
@pytest.mark.parametrize(("kind", "part"), parts())
def test_answers_are_feasible_true_and_as_good_as_any(kind: str, part: int) -> None:
    counted: Counter[str] = Counter()

    @of_part(part)
    @examples(EXAMPLES, shrinks=False)
    @given(parameters(KINDS[kind]), st.sampled_from(STRATEGIES[1:]))
    def run(given_parameters: Json, strategy: str) -> None:
        counted[check(given_parameters, strategy)] += 1

    run()
    assert not counted["worse"], counted
    assert nearly_all(counted["proven"], counted.total()), counted


# An additional node can be an additional domain for topology spread.
LAWFUL = KINDS["everything"] - {"podspread", "spread", "soft spread"}


def cost_added(given_parameters: Json, result: Json) -> Value:
    """The value of a result, with its additions in place of the current state."""
    value = value_of(given_parameters, result)
    return value[0], value[1], value[2] + result["watts"]["before"]


@examples(EXAMPLES, shrinks=False)
@given(parameters(LAWFUL), nodes(9, LAWFUL))
def test_one_node_more_never_makes_a_proven_answer_worse(fewer: Json, another: Json) -> None:
    more = {**fewer, "nodes": [*fewer["nodes"], another]}
    results = [place(fewer), place(more)]
    assume(all(result["proven"] for result in results))
    assert is_no_worse(cost_added(more, results[1]), cost_added(fewer, results[0]), PROOF_WATTS)


@examples(EXAMPLES, shrinks=False)
@given(parameters(KINDS["everything"]), st.data())
def test_pods_of_one_kind_may_bear_any_names(whole: Json, data: st.DataObject) -> None:
    """Splitting a group into two with different names does not change a proven answer."""
    renamed = data.draw(st.sets(st.integers(0, len(whole["pods"]) - 1)))
    pods = [
        {**pod, "metadata": {**pod["metadata"], "name": f"a-{index}"}} if index in renamed else pod
        for index, pod in enumerate(whole["pods"])
    ]
    parted = {**whole, "pods": pods}
    results = [place(whole), place(parted)]
    assume(all(result["proven"] for result in results))
    values = [value_of(whole, results[0]), value_of(parted, results[1])]
    assert is_no_worse(values[0], values[1], PROOF_WATTS)
    assert is_no_worse(values[1], values[0], PROOF_WATTS)


@examples(EXAMPLES, shrinks=False)
@given(parameters(KINDS["everything"]), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_no_byte(ordered: Json, source: Random) -> None:
    shuffled = {key: list(given) for key, given in ordered.items() if isinstance(given, list)}
    for items in shuffled.values():
        source.shuffle(items)
    answers = [json.dumps(place(each)) for each in (ordered, ordered, {**ordered, **shuffled})]
    assert answers[0] == answers[1] == answers[2]
