# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of prices: CSV, JSON and answers of Prometheus, sound and broken."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.prices.reader import (
    read_prometheus,
    read_series,
)

EXAMPLE = Path(__file__).resolve().parents[4] / "docs/examples/prices/belgium-2024-06-25.csv"
NOON = 1_719_309_600.0


def matrix(*values: t.Any, number: int = 1) -> dict[str, t.Any]:
    result = [{"metric": {}, "values": list(values)}] * number
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def test_the_example_is_two_real_days_with_negative_prices() -> None:
    series = read_series(EXAMPLE.read_text(encoding="utf-8"), "EUR/MWh")
    assert len(series.prices) == 48
    assert series.at(NOON) == -9.10
    assert sum(price < 0 for price in series.prices) == 3


def test_all_forms_give_the_same_series() -> None:
    texts = [
        "time,price\n2024-06-25T12:00:00+02:00,-9.1\n2024-06-25T11:00:00Z,7\n",
        "\ufeffprice, time ,more\n-9.1,2024-06-25T10:00:00Z,x\n7,2024-06-25T13:00:00+02:00,y\n\n",
        '[{"time": "2024-06-25T10:00:00Z", "price": -9.1}, {"time": "2024-06-25T11:00:00z", "price": 7}]',
        '{"unit": "EUR/MWh", "prices": [{"time": "2024-06-25T10:00:00Z", "price": -9.1},'
        ' {"time": "2024-06-25T11:00:00Z", "price": 7}]}',
        '{"unix_seconds": [1719309600, 1719313200], "price": [-9.1, 7], "unit": "EUR / MWh"}',
    ]
    found = [read_series(text) for text in texts]
    found.append(read_prometheus(matrix([NOON, "-9.1"], [NOON + 3600, "7"])))
    assert {(series.times, series.prices) for series in found} == {
        ((NOON, NOON + 3600), (-9.1, 7.0))
    }


def test_entries_without_a_price_are_holes() -> None:
    csv = "time,price\n2024-06-25T10:00:00Z,1\n2024-06-25T11:00:00Z, \n"
    assert read_series(csv).prices == (1.0,)
    body = {"unix_seconds": [NOON, NOON + 3600], "price": [1, None], "unit": ""}
    assert read_series(json.dumps(body)).prices == (1.0,)
    assert read_prometheus(matrix([NOON, "1"], [NOON + 900, "NaN"])).prices == (1.0,)


def test_a_unit_that_differs_is_refused() -> None:
    text = '{"unit": "EUR / MWh", "prices": [{"time": "2024-06-25T10:00:00Z", "price": 1}]}'
    assert read_series(text, "eur/mwh").unit == "EUR / MWh"
    with pytest.raises(InvalidInput, match="unit is 'EUR / MWh', not 'gCO2/kWh'"):
        read_series(text, "gCO2/kWh")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "as many of both, and one at least"),
        ("<html>Sign in</html>", "line 1: the first line must name time and price"),
        ("time,price\n", "one at least"),
        ("time,price\n2024-06-25T10:00:00Z\n", "line 2: 1 fields"),
        ("time,price\n2024-06-25T10:00:00,5\n", "has no offset"),
        ("time,price\nyesterday,5\n", "line 2: 'yesterday' is not an RFC 3339 time"),
        ("time,price\n2024-06-25T10:00:00Z,cheap\n", "line 2: 'cheap' is no number"),
        ("time,price\n2024-06-25T10:00:00Z,inf\n", "inf is no price"),
        ('time,price\n"2024', "line 2: not readable as CSV"),
        ("{", "not readable as JSON"),
        ("[1]", r"prices\[0\]"),
        ('[{"price": 1}]', r"prices\[0\].time"),
        ('[{"time": "2024-06-25T10:00:00Z", "price": "1"}]', r"prices\[0\].price"),
        ('{"prices": 5}', "prices"),
        ('{"unix_seconds": [1], "price": []}', "1 times, but 0 prices"),
        ('{"unix_seconds": ["1"], "price": [1]}', r"unix_seconds\[0\]"),
        ("[" * 200, "JSON"),
    ],
)
def test_a_broken_text_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        read_series(text)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (None, "no range of Prometheus"),
        ({"status": "error", "error": "parse error"}, "no range of Prometheus"),
        (matrix(number=0), "the query has 0 series"),
        (matrix([NOON, "1"], number=2), "the query has 2 series"),
        (matrix(), "one at least"),
        (matrix([NOON]), r"values\[0\]"),
        (matrix([NOON, None]), r"values\[0\]: None is no number"),
        (matrix([NOON, "+Inf"]), "inf is no price"),
    ],
)
def test_a_broken_answer_of_prometheus_is_refused(body: t.Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        read_prometheus(body)
