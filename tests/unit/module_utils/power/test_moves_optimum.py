# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proposed moves of small random fleets, against an independent checker and against all others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from support.examples import are_many, examples, generated, nearly_all, seeds
from support.moves_checker import best_value, value, wrong_steps
from support.placement_checker import TOLERANCE_WATTS
from support.random_moves import random_moves

# Required share of small fleets for which the best moves are found.
BEST_FOUND = 59 / 60


@examples(30)
@given(st.integers(0, 1 << 20), st.integers(4, 12), st.integers(3, 5), st.integers(1, 10))
def test_steps_are_allowed_and_worth_what_they_say(
    seed: int, pods: int, nodes: int, max_moves: int
) -> None:
    parameters = random_moves(seed, pods, nodes, max_moves)
    assert wrong_steps(parameters, place(parameters)) == []


@generated
def test_the_best_moves_are_found_in_nearly_all_small_fleets() -> None:
    fleets, missed, paying, together = seeds(30), [], 0, 0
    for seed in fleets:
        parameters = random_moves(seed)
        result = place(parameters)
        found, best = value(parameters, result["steps"]), best_value(parameters, result)
        assert -TOLERANCE_WATTS < found < best + TOLERANCE_WATTS, seed
        missed += [seed] if found < best - TOLERANCE_WATTS else []
        paying += best > 0
        together += any(len(step["moves"]) > 1 for step in result["steps"])
    assert nearly_all(len(fleets) - len(missed), len(fleets), BEST_FOUND), missed
    # The fleets are not trivial.
    if are_many(fleets):
        assert paying > len(fleets) // 3 and together >= len(fleets) // 20


def test_equal_input_gives_equal_steps_in_any_order() -> None:
    for seed in range(10):
        parameters = random_moves(seed)
        reversed_lists = {
            key: list(reversed(given)) if isinstance(given, list) else given
            for key, given in parameters.items()
        }
        assert place(parameters)["steps"] == place(reversed_lists)["steps"], seed
