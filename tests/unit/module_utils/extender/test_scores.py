# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scores of kube-scheduler's extenders from added power."""

from __future__ import annotations

import typing as t

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.extender import scores
from ansible_collections.wattwise.kube.plugins.module_utils.extender.scores import HIGHEST, Prices
from support.examples import examples


class Price(t.NamedTuple):
    """The price of one node."""

    watts: float
    wakes: bool = False
    watts_per_core: float = 0.0


WATTS = st.one_of(
    st.integers(-50, 500).map(float), st.floats(-1e9, 1e9), st.sampled_from([0.0, 1e-7, 1e9])
)
PRICES = st.lists(st.one_of(st.none(), st.builds(Price, WATTS, st.booleans(), WATTS)), max_size=20)


def scores_of(prices: list[Price | None], planned: int | None = None) -> list[int]:
    found = Prices.unknown(len(prices))
    for position, price in enumerate(prices):
        if price is not None:
            values = Prices(*(numpy.array([value]) for value in price))
            found.put([position], values)
    return scores.scores_of(found, planned)


@examples(200)
@given(PRICES)
def test_scores_are_bounded_integers_and_follow_the_watts(prices: list[Price | None]) -> None:
    found = scores_of(prices)
    assert len(found) == len(prices)
    assert all(type(score) is int and 0 <= score <= HIGHEST for score in found)
    is_awake = any(price is not None and not price.wakes for price in prices)
    known = [
        (price.watts if is_awake else price.watts_per_core, score)
        for price, score in zip(prices, found, strict=True)
        if price
    ]
    assert all(score == 0 for price, score in zip(prices, found, strict=True) if price is None)
    for watts, score in known:
        for other_watts, other_score in known:
            assert watts > other_watts or score >= other_score
    if known:
        least = min(watts for watts, _score in known)
        assert all((score == HIGHEST) == (watts <= least + 1e-6) for watts, score in known)


@examples(50)
@given(PRICES, st.randoms())
def test_a_planned_node_alone_has_the_highest_score(prices: list[Price | None], chance) -> None:  # type: ignore[no-untyped-def]
    if prices:
        planned = chance.randrange(len(prices))
        found = scores_of(prices, planned)
        assert [at for at, score in enumerate(found) if score == HIGHEST] == [planned]


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ([Price(0), Price(5), Price(10)], [10, 4, 0]),
        ([Price(4), Price(4), None], [10, 10, 0]),
        # Sleeping nodes do not determine the ends of the scale.
        ([Price(1), Price(2), Price(3), Price(200, wakes=True)], [10, 4, 0, 0]),
        # If all nodes sleep, they are compared at their best loads.
        ([Price(100, True, 9.0), Price(150, True, 3.0), Price(160, True, 6.0)], [0, 10, 4]),
        ([Price(3, wakes=True), Price(4), Price(5)], [10, 4, 0]),
        ([Price(-3), Price(-1)], [10, 0]),
        ([None, None], [0, 0]),
    ],
)
def test_points_are_linear_in_watts(prices: list[Price | None], expected: list[int]) -> None:
    assert scores_of(prices) == expected
