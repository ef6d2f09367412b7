# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings, models and curves as values: their documents, and documents of anything."""

from __future__ import annotations

import datetime
import random
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.inference.curves import (
    Inputs,
    PowerCurve,
    curves_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.models import (
    Model,
    NodeModels,
    models_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import (
    Answers,
    Reading,
    Value,
    readings_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from support.examples import each_seed
from support.odd_values import bounded, spoilt

Json = dict[str, t.Any]
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
READING = Reading(
    {"inlet_celsius": Value(21.5, NOON, "kept"), "power_watts": Value(300.0, NOON, "last")},
    {"model": "R650"},
)
MODELS = NodeModels(
    "n1", Model.of("m", "https://h", "V2InferenceProtocol", "1"), None, "https://b", NOON, True
)
CURVE = PowerCurve(
    Curve((0.0, 8.0), (100.0, 300.0)),
    "stated",
    predicted=PowerCurve(
        Curve((0.0, 8.0), (90.0, 310.0)), inputs=Inputs({"endpoint": "e"}, 21.5, None, NOON)
    ),
)


def test_what_was_written_is_read_again() -> None:
    assert readings_of({"readings": {"n1": READING.as_document(NOON)}}) == {"n1": READING}
    assert models_of([MODELS.as_document()]) == [MODELS]
    assert curves_of({"curves": {"n1": CURVE.as_document()}}) == {"n1": CURVE}


def test_only_what_was_just_read_or_is_young_enough_is_fresh() -> None:
    assert READING.fresh("inlet_celsius") == 21.5
    assert READING.fresh("power_watts") is None
    assert READING.value("power_watts") == 300.0
    assert READING.is_stale


def test_a_failed_module_has_a_message_and_its_errors_are_kept() -> None:
    error = {"name": "n1", "endpoint": "e", "reason": "timeout", "detail": "too slow"}
    found = Answers.from_result({"msg": "no route", "errors": [error]}, {}, NOON)
    assert (found.failure, [one.as_dict() for one in found.errors]) == ("no route", [error])
    assert Answers.from_result({"readings": []}, {}, NOON).failure is None


@each_seed(40)
def test_one_odd_entry_of_a_document_touches_no_other(seed: int) -> None:
    source = random.Random(seed)
    good: Json = {"readings": READING.as_document(NOON), "curves": CURVE.as_document()}
    bad = {part: spoilt(source, entry) for part, entry in good.items()}
    models = [spoilt(source, MODELS.as_document(), keep=[("name",)]), {"name": "n2"}]
    with bounded():
        readings = {"bad": bad["readings"], "good": good["readings"]}
        assert readings_of({"readings": readings})["good"] == READING
        curves = {"bad": bad["curves"], "good": good["curves"]}
        assert curves_of({"curves": curves})["good"] == CURVE
        assert models_of(models)[-1] == NodeModels("n2")
