# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.strict_json import (
    JsonLimits,
    format_compact,
    parse,
)
from support.odd_values import bounded

LIMITS = JsonLimits(size=1 << 20, members=1000, depth=20)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_json_survives_being_written_and_read(value: object) -> None:
    assert parse(format_compact(value), LIMITS) == value
    assert parse(format_compact(value).encode(), LIMITS) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("NaN", "NaN"),
        ("[-Infinity]", "Infinity"),
        ("1e999", "not finite"),
        ("-1e999", "not finite"),
        ("1." + "0" * 5000, "too many digits"),
        ("9" * 41, "41 digits"),
        ("[" * 21 + "]" * 21, "20 deep"),
        ("[" * 5_000_000, "bytes"),
        ('["' + '\\"[' * 30_000, "1000 members"),
        ("[" + "1," * 2000 + "1]", "1000 members"),
        ("{", "Expecting"),
        ("", "Expecting"),
    ],
)
def test_what_is_no_json_or_too_much_of_it_is_a_value_error(text: str, problem: str) -> None:
    with bounded(), pytest.raises(ValueError, match=problem):
        parse(text, LIMITS)


def test_depth_without_limits_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="deeply"):
        parse("[" * 200_000 + "]" * 200_000)


def test_brackets_and_quotes_within_texts_are_no_depth() -> None:
    value = ["[" * 500, '"' * 500, "\\" * 501, '\\"[' * 50, {"{" * 99: "]"}]
    assert parse(json.dumps(value), JsonLimits(size=1 << 20, members=5000)) == value


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": float("-inf")}])
def test_no_number_that_is_not_finite_is_written(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        format_compact(value)
