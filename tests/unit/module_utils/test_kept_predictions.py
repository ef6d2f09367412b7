# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves of the last run that still hold, and models that are asked again."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import TargetFailure
from ansible_collections.wattwise.kube.plugins.module_utils.inference.curves import (
    PowerCurve,
    PowerCurves,
    curves_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference.queries import (
    FAKE,
    Query,
    divide,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
QUERY = Query(
    "n1", "http://m/v2/models/a/infer", cpu_capacity=8.0, inlet_celsius=22.0, delta_p_pascal=5.0
)


def last(query: Query = QUERY) -> dict[str, PowerCurve]:
    curve = PowerCurve(Curve(query.cpu(), (100.0,) * 21), inputs=query.inputs(NOON))
    return {query.name: curve}


def kept(query: Query, seconds: float = 60.0, before: PowerCurves | None = None) -> list[str]:
    moment = NOON + datetime.timedelta(seconds=seconds)
    due, found = divide([query], last() if before is None else before, moment, 600.0)
    assert len(due) + len(found) == 1
    return list(found)


def test_a_curve_whose_inputs_did_not_move_is_kept_with_the_inputs_that_it_was_asked_with() -> None:
    moved = replace(QUERY, inlet_celsius=22.4, delta_p_pascal=5.9)
    _due, found = divide([moved], last(), NOON, 600.0)
    assert found == last()


@pytest.mark.parametrize(
    "changes",
    [
        {"inlet_celsius": 22.5},
        {"inlet_celsius": None},
        {"delta_p_pascal": 6.0},
        {"endpoint": "http://m/v2/models/b/infer"},
        {"cpu_usage_format": "raw"},
        {"cpu_capacity": 16.0},
        {"type": FAKE},
        {"name": "n2"},
    ],
)
def test_another_input_asks_the_model_again(changes: dict[str, t.Any]) -> None:
    assert kept(QUERY) == ["n1"]
    assert kept(replace(QUERY, **changes)) == []


def test_an_old_curve_one_of_the_future_and_one_without_inputs_are_asked_again() -> None:
    assert kept(QUERY, 599.0) == ["n1"]
    assert kept(QUERY, 600.0) == []
    assert kept(QUERY, -1.0) == []
    [(name, curve)] = last().items()
    assert kept(QUERY, before={name: replace(curve, inputs=None)}) == []
    document = {name: curve.as_document()}
    assert kept(QUERY, before=curves_of({"curves": document})) == ["n1"]
    for odd in ("odd", {**document[name], "cpu": [0.0]}, {**document[name], "inputs": "odd"}):
        assert kept(QUERY, before=curves_of({"curves": {name: odd}})) == []


def test_a_node_that_cannot_be_asked_keeps_nothing() -> None:
    broken = replace(QUERY, problem=TargetFailure("malformed", "odd"))
    due, found = divide([broken], last(), NOON, 600.0)
    assert (due, found) == ([broken], {})
