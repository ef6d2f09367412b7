# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The V2 protocol's URLs, numbers, bodies and answers."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference import wire

FLOATS_OF_32_BITS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(FLOATS_OF_32_BITS)
def test_text_is_numpys_shortest(value: float) -> None:
    expected = np.format_float_scientific(np.float32(value), unique=True, trim="-")
    found = wire.float32_text(value)
    assert float(found) == float(expected)
    assert len(found.replace(".", "").split("e")[0].strip("-0")) <= len(
        expected.replace(".", "").split("e")[0].strip("-0")
    )


@pytest.mark.parametrize("exponent", range(-149, 128))
def test_text_of_powers_of_two_is_shortest(exponent: int) -> None:
    value = math.ldexp(1.0, exponent)
    expected = np.format_float_scientific(np.float32(value), unique=True, trim="-")
    assert float(wire.float32_text(value)) == float(expected)


@given(st.floats(min_value=-3.4e38, max_value=3.4e38))
def test_text_denotes_the_nearest_float32(value: float) -> None:
    sent = float(json.loads(wire.float32_text(value)))
    assert struct.unpack("<f", struct.pack("<f", sent)) == struct.unpack(
        "<f", struct.pack("<f", value)
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10, "10"),
        (-0.0, "0"),
        (0.2, "0.2"),
        (1e-5, "0.00001"),
        (1e-6, "0.000001"),
        (-2.5e-9, "-2.5e-9"),
        (123456789, "123456790"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (3.4028235e38, "3.4028235e+38"),
    ],
)
def test_text_has_gos_form(value: float, text: str) -> None:
    assert wire.float32_text(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3.5e38, -1e300])
def test_text_of_what_is_no_finite_float32_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="not a finite number of 32 bits"):
        wire.float32_text(value)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://h/v2/models/m", "http://h/v2/models/m/infer"),
        ("http://h/v2/models/m/", "http://h/v2/models/m/infer"),
        ("http://h/v2/models/m/infer/", "http://h/v2/models/m/infer"),
        ("https://h:8443/v2/models/m/versions/1", "https://h:8443/v2/models/m/versions/1/infer"),
        ("http://[::1]:8080/v2/models/m", "http://[::1]:8080/v2/models/m/infer"),
        ("http://h/a/b/v2/models/m/versions/1/", "http://h/a/b/v2/models/m/versions/1/infer"),
        ("http://h/v2/models/m/versions/infer", "http://h/v2/models/m/infer"),
        ("http://h/v2/models/m/versions//infer", "http://h/v2/models/m/infer"),
        ("http://h/v2/models/m/versions/", "http://h/v2/models/m/infer"),
        ("http://h/v2/models/m/versions", "http://h/v2/models/m/infer"),
        ("http://h/v2/models/models/infer", "http://h/v2/models/models/infer"),
        ("http://h/v2/models/infer", "http://h/v2/models/infer/infer"),
    ],
)
def test_infer_url(endpoint: str, url: str) -> None:
    assert wire.infer_url(endpoint) == url


@pytest.mark.parametrize(
    ("endpoint", "sentence"),
    [
        ("", "is not a URL|lacks http"),
        ("h/v2/models/m", "is not a URL|lacks http"),
        ("ftp://h/v2/models/m", "is not a URL|lacks http"),
        ("http:///v2/models/m", "is not a URL|lacks http"),
        ("http://h:99999/v2/models/m", "is not a URL|lacks http"),
        ("http://[::1/v2/models/m", "is not a URL|lacks http"),
        ("https://fake-endpoint", "names no model"),
        ("http://h/v2/models/", "names no model"),
        ("http://h/v2/models//infer", "names no model"),
        ("http://h/v2/models/m/predict", "names no model"),
        ("http://h/v2/models/m?key=1", "names no model"),
    ],
)
def test_infer_url_says_what_is_wrong(endpoint: str, sentence: str) -> None:
    with pytest.raises(TargetFailure, match=sentence) as caught:
        wire.infer_url(endpoint)
    assert caught.value.reason == "malformed"


def test_infer_url_refuses_credentials_without_showing_them() -> None:
    with pytest.raises(TargetFailure, match="password") as caught:
        wire.infer_url("http://admin:t0p-Secret@h/v2/models/m")
    assert "t0p-Secret" not in str(caught.value)


@pytest.mark.parametrize("version", ["", None])
def test_model_url_without_version(version: str | None) -> None:
    assert wire.model_url("http://h/base/", "m", version) == "http://h/base/v2/models/m/infer"


def test_request_body_of_several_rows() -> None:
    assert json.loads(wire.request_body(["[10,22,0.2]", "[20,22,0.2]"])) == {
        "inputs": [
            {
                "name": "predict-prob",
                "shape": [2, 3],
                "datatype": "FP32",
                "data": [[10, 22, 0.2], [20, 22, 0.2]],
            }
        ]
    }


@pytest.mark.parametrize("data", [[1.5, 2.5], [[1.5], [2.5]]])
def test_outputs_are_flat_or_nested(data: list[Any]) -> None:
    assert wire.read_outputs({"outputs": [{"data": data}]}, 2) == [1.5, 2.5]


NO_OUTPUTS: list[Any] = [None, [], 3, {}, {"outputs": []}, {"outputs": {}}, {"outputs": [{}]}]
NO_TWO_VALUES: list[Any] = [None, 3, "x", {}, [], [1.0], [1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    "document", [*NO_OUTPUTS, *({"outputs": [{"data": data}]} for data in NO_TWO_VALUES)]
)
def test_answer_of_another_shape_is_malformed(document: Any) -> None:
    with pytest.raises(TargetFailure) as caught:
        wire.read_outputs(document, 2)
    assert caught.value.reason == "malformed"


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=8))
def test_only_plausible_numbers_are_watts(value: Any) -> None:
    try:
        watts = wire.check_watts(value)
    except TargetFailure as failure:
        assert failure.reason in ("malformed", "implausible")
    else:
        assert 0 <= watts <= wire.MAXIMUM_WATTS


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "malformed"),
        ("94.7", "malformed"),
        (True, "malformed"),
        ([1.0, 2.0], "malformed"),
        (math.nan, "implausible"),
        (math.inf, "implausible"),
        (-0.1, "implausible"),
        (250_000, "implausible"),
        (10**400, "implausible"),
    ],
)
def test_what_is_not_watts_has_a_reason(value: Any, reason: str) -> None:
    with pytest.raises(TargetFailure) as caught:
        wire.check_watts(value)
    assert caught.value.reason == reason
