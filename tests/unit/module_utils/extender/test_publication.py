# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document that runs publish for extenders: its content, and the times of its writes."""

from __future__ import annotations

import datetime
import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import InvalidField
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.extender.publication import (
    is_due,
    packed,
    read,
)
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.extender_record import (
    publish,
    record_of,
)
from support.extender import NOW, Json, config_map, linear, published
from support.watch_api import WatchApi

LATER = NOW + datetime.timedelta(seconds=600)
PLACEMENT = {"namespace": "a", "pod": "b", "uid": "u", "node": "n1"}


def test_what_a_run_publishes_is_read_as_it_was() -> None:
    steps = [
        {"gain_watts": 30.0, "asleep": ["n1", "n2"]},
        {"gain_watts": 5.0, "asleep": []},
    ]
    curves = {"n1": {**linear(5.0), "source": "stated", "inputs": {"time": "x"}}}
    plan = {"placements": [{**PLACEMENT, "resource_version": "7"}], "steps": steps}
    body = published(curves, plan, allow_power_off=True, standby_watts=3.0)
    assert body["curves"] == {"n1": linear(5.0)}
    found = read(config_map(body))
    assert (found.rules.allow_power_off, found.rules.standby_watts) == (True, 3.0)
    assert (found.usage_source, str(found.assumption)) == ("auto", "0.8")
    assert found.curves["n1"].watts_at(8.0) == 140.0
    assert found.planned == {("a", "b"): ("n1", "u")}
    assert found.emptied == {"n1": 15.0, "n2": 15.0}
    assert found.intends_until == NOW.timestamp() + 900.0


def test_it_is_written_for_news_and_for_intentions_that_go_on() -> None:
    quiet, intends = published({}), published({}, {"placements": [PLACEMENT]})
    assert is_due(quiet, None) and is_due(intends, quiet) and is_due(quiet, intends)
    assert not is_due(published({}, now=LATER), quiet)
    assert not is_due(published({}, {"placements": [PLACEMENT]}), intends)
    assert is_due(published({}, {"placements": [PLACEMENT]}, now=LATER), intends)


@pytest.mark.parametrize("plan", [{}, {"placements": [PLACEMENT]}])
@pytest.mark.parametrize("time", ["odd", 7, None])
def test_a_published_time_that_cannot_be_read_is_replaced(plan: Json, time: t.Any) -> None:
    body = published({}, plan)
    assert is_due(body, {**body, "time": time})


def test_one_spoilt_node_leaves_the_others() -> None:
    body = published({"good": linear(5.0)})
    body["curves"]["odd"] = {"cpu": [0, 0], "watts": [1, 2]}
    body["emptied"] = {"good": 3.0, "odd": "many"}
    body["placements"] = [PLACEMENT, {"namespace": "a"}, "x"]
    found = read(config_map(body))
    assert list(found.curves) == ["good"] and found.emptied == {"good": 3.0}
    assert list(found.planned) == [("a", "b")]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"rules": None}, "rules.usage_source"),
        ({"rules": {"usage_source": "guess"}}, "rules.usage_source"),
        ({"rules": {"usage_source": "auto", "pod_usage_assumption": 2}}, "pod_usage_assumption"),
        ({"time": 7}, "time"),
        ({"curves": []}, "curves"),
    ],
)
def test_a_document_without_sense_is_named(change: Json, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        read(config_map({**published({}), **change}))


@pytest.mark.parametrize("data", [None, {}, {"publication.json.gz": "%"}, packed([])])  # type: ignore[arg-type]
def test_a_config_map_without_document_is_named(data: t.Any) -> None:
    with pytest.raises(InvalidField, match="binaryData"):
        read({"binaryData": data})


def test_curves_of_too_many_nodes_are_refused_in_one_sentence() -> None:
    chance = random.Random(1)
    curves = {chance.randbytes(120).hex(): linear(5.0) for _number in range(8_000)}
    with WatchApi() as api, pytest.raises(InvalidInput, match="8000 nodes do not fit"):
        publish(api.kube(), record_of("somewhere"), published(curves))
