# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import (
    Curve,
    read_curve,
)

RISING = Curve((0.0, 4.0, 8.0), (50.0, 90.0, 100.0))


@pytest.mark.parametrize(
    ("cores", "watts"),
    [(0.0, 50.0), (2.0, 70.0), (4.0, 90.0), (6.0, 95.0), (8.0, 100.0), (9.0, 100.0)],
)
def test_watts_are_interpolated_and_clamped_at_the_end(cores: float, watts: float) -> None:
    assert RISING.watts_at(cores) == pytest.approx(watts)


def test_a_curve_that_begins_above_zero_is_clamped_there() -> None:
    curve = Curve((1.0, 2.0), (60.0, 40.0))
    assert (curve.watts_at(0.5), curve.covers(0.5), curve.covers(1.5)) == (60.0, False, True)


@given(
    st.lists(st.integers(0, 10**6), min_size=2, max_size=9, unique=True).map(
        lambda numbers: [number / 1000 for number in sorted(numbers)]
    ),
    st.data(),
    st.floats(0, 1.2e3),
)
def test_watts_never_leave_the_range_of_the_curve(
    cores: list[float], data: st.DataObject, use: float
) -> None:
    length = len(cores)
    watts = data.draw(st.lists(st.floats(0, 1e4), min_size=length, max_size=length))
    found = read_curve({"cpu": cores, "watts": watts}, "curve").watts_at(use)
    assert min(watts) - 1e-6 <= found <= max(watts) + 1e-6


@pytest.mark.parametrize(
    ("given_curve", "message"),
    [
        ([1, 2], r"node a: a power curve is \{cpu: \[cores\], watts: \[watts\]\}"),
        ({"cpu": [0, 1]}, "node a: a power curve is"),
        ({"cpu": "0,1", "watts": [1, 2]}, r"node a\.cpu: it must be a list of at most 1000"),
        ({"cpu": [0], "watts": [1]}, "node a: a power curve needs at least two points"),
        ({"cpu": [0, 1], "watts": [1]}, "node a: 2 values of cpu and 1 of watts"),
        ({"cpu": [0, 2, 1], "watts": [1, 2, 3]}, r"node a\.cpu: the values must ascend"),
        ({"cpu": [0, 1, 1], "watts": [1, 2, 3]}, r"node a\.cpu: the values must ascend"),
        ({"cpu": [0, 1], "watts": [1, math.nan]}, r"node a\.watts: nan is not finite"),
        ({"cpu": [0, math.inf], "watts": [1, 2]}, r"node a\.cpu: inf is not finite"),
        ({"cpu": [0, "1"], "watts": [1, 2]}, r"node a\.cpu: '1' is not a number"),
        ({"cpu": [0, True], "watts": [1, 2]}, r"node a\.cpu: True is not a number"),
        ({"cpu": [-1, 1], "watts": [1, 2]}, r"node a\.cpu: -1 is not from 0 to 100000"),
        ({"cpu": [0, 1e300], "watts": [1, 2]}, r"node a\.cpu: 1e\+300 is not from 0"),
        ({"cpu": [0, 1e-320], "watts": [1, 2]}, r"node a\.cpu: the values must ascend"),
        ({"cpu": [0, 1], "watts": [10**400, 2]}, r"node a\.watts: 1000.* is not from 0"),
        ({"cpu": [0, 1], "watts": [-1, 2]}, r"node a\.watts: -1 is not from 0 to 1000000"),
    ],
)
def test_a_curve_that_is_none_is_refused_in_one_sentence(given_curve: t.Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_curve(given_curve, "node a")
