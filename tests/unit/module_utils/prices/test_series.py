# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A series of prices: what it says, and what it guesses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.prices.series import PriceSeries
from support.examples import examples

HOUR, DAY = 3600.0, 86400.0
START = 1_750_000_000.0 // DAY * DAY


def hourly(*prices: float, start: float = START) -> PriceSeries:
    return PriceSeries(tuple(start + HOUR * hour for hour in range(len(prices))), prices)


@st.composite
def odd_series(draw: st.DrawFn) -> PriceSeries:
    """Any times a minute or more apart, with holes."""
    gaps = draw(st.lists(st.sampled_from([60, 900, 3600, 3600, 3600, 90_000]), max_size=60))
    times = [START]
    for gap in gaps:
        times.append(times[-1] + gap)
    price = st.floats(-500, 500, allow_nan=False)
    prices = draw(st.lists(price, min_size=len(times), max_size=len(times)))
    return PriceSeries(tuple(times), tuple(prices))


def test_each_price_holds_until_the_next_one() -> None:
    series = hourly(10.0, 20.0, -30.0)
    assert [series.at(START + each) for each in (0, 3599, 3600, 7200, 10_799)] == [
        *(10.0, 10.0, 20.0, -30.0, -30.0)
    ]
    assert series.end == START + 3 * HOUR
    assert series.mean(START + HOUR / 2, START + 1.5 * HOUR) == 15.0
    assert series.average == 0.0


def test_after_its_end_a_series_repeats_the_same_hour_of_its_last_day() -> None:
    first, last = [float(hour) for hour in range(24)], [100.0 + hour for hour in range(24)]
    series = hourly(*first, *last)
    assert series.at(START + 2 * DAY + 5 * HOUR) == 105.0
    assert series.at(START + 4 * DAY + 5 * HOUR) == 105.0
    assert series.mean(START + 2 * DAY, START + 3 * DAY) == pytest.approx(111.5)


def test_without_such_an_hour_the_mean_stands_for_it() -> None:
    assert hourly(10.0, 20.0).at(START + 5 * HOUR) == 15.0
    assert hourly(10.0, 20.0).at(START - HOUR) == 15.0
    assert hourly(10.0, 20.0).at(START + 30 * DAY) == 15.0


def test_a_hole_takes_the_day_before_and_one_missing_hour_is_none() -> None:
    day = tuple(float(hour) for hour in range(24))
    times = [START + HOUR * hour for hour in range(48) if hour not in (29, 30, 31, 40)]
    prices = [
        (*day, *day)[round((time - START) / HOUR)] + 100.0 * (time >= START + DAY) for time in times
    ]
    series = PriceSeries(tuple(times), tuple(prices))
    assert series.holes == 1
    assert series.at(START + 29 * HOUR) == 5.0
    assert series.at(START + 40 * HOUR) == 115.0


def test_two_tariffs_of_unequal_length_have_no_hole() -> None:
    times = tuple(START + DAY * day + HOUR * hour for day in range(4) for hour in (7, 22))
    series = PriceSeries(times, (30.0, 20.0) * 4)
    assert series.holes == 0
    assert series.at(START + 7 * HOUR) == series.at(START + 21 * HOUR) == 30.0


def test_a_negative_price_weighs_nothing_and_a_dear_hour_more_than_one() -> None:
    series = hourly(-50.0, 0.0, 10.0, 30.0)
    assert series.weight(START, START + HOUR) == 0.0
    assert series.weight(START + 3 * HOUR, START + 4 * HOUR) == 3.0
    assert hourly(-5.0, -7.0).weight(START, START + HOUR) == 1.0
    assert hourly(0.0, 0.0).weight(START, START + HOUR) == 1.0


@pytest.mark.parametrize(
    ("times", "prices", "problem"),
    [
        ((), (), "one at least"),
        ((START,), (), "as many of both"),
        ((START, START), (1.0, 1.0), r"prices\[1\]: its time is not a minute"),
        ((START, START - HOUR), (1.0, 1.0), "ascending order"),
        ((START * 1000,), (1.0,), "2000 to 2100"),
        ((math.nan,), (1.0,), "2000 to 2100"),
        ((START,), (math.nan,), r"prices\[0\]: nan is no price"),
        ((START,), (1e9,), "is no price"),
    ],
)
def test_a_broken_series_is_refused(
    times: tuple[float, ...], prices: tuple[float, ...], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        PriceSeries(times, prices)


@given(st.floats(0.001, 1000), st.integers(1, 60), st.floats(-9 * DAY, 30 * DAY), st.floats(1, DAY))
@examples(200)
def test_a_constant_series_weighs_exactly_one(
    price: float, number: int, offset: float, length: float
) -> None:
    series = hourly(*[price] * number)
    assert series.weight(START + offset, START + offset + length) == 1.0


@given(odd_series(), st.integers(-9 * 86400, 30 * 86400), st.integers(1, 2 * 86400))
@examples(200)
def test_pieces_cover_a_time_once_with_the_price_at_each_moment(
    series: PriceSeries, offset: int, length: int
) -> None:
    start, end = START + offset, START + offset + length
    pieces = list(series.pieces(start, end))
    assert [piece.end for piece in pieces[:-1]] == [piece.start for piece in pieces[1:]]
    assert (pieces[0].start, pieces[-1].end) == (start, end)
    assert all(piece.start < piece.end for piece in pieces)
    assert all(
        piece.price == series.at(time)
        for piece in pieces
        for time in (piece.start, (piece.start + piece.end) // 2)
    )
    assert min(series.prices) - 1e-6 <= series.mean(start, end) <= max(series.prices) + 1e-6
