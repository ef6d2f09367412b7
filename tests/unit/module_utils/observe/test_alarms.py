# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Alarms of a fleet, and the event source that reports them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
import runpy
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import utc_now
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.observe.alarms import AlarmWatch
from support.alarmed_fleet import AlarmedFleet
from support.scripted_api import ScriptedApi

Json = dict[str, t.Any]
NOW = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)
EVENTS_PAGE = Path(__file__).resolve().parents[4] / "docs" / "operate" / "events.md"
SOURCE = Path(__file__).resolve().parents[4] / "extensions/eda/plugins/event_source/fleet.py"


@pytest.fixture
def fleet() -> t.Iterator[tuple[AlarmedFleet, AlarmWatch]]:
    made = AlarmedFleet()
    with ScriptedApi(made.answer) as api:
        watch = AlarmWatch.of({"host": api.url, "fleet_watts": "1000", "hot_inlet_celsius": 27})
        watch.now = lambda: NOW
        yield made, watch


def told(events: list[Json]) -> list[tuple[t.Any, ...]]:
    return [(each["alarm"], each["state"], each.get("subject")) for each in events]


def test_an_alarm_is_raised_once_and_cleared_once_it_is_clear_of_its_limit(
    fleet: tuple[AlarmedFleet, AlarmWatch],
) -> None:
    cluster, watch = fleet
    assert watch.look() == []
    cluster.says("n1", 27.5, 900.0)
    assert told(watch.look()) == [("hot_inlet", "raised", "n1"), ("fleet_watts", "raised", None)]
    cluster.says("n1", 26.5, 790.0)
    assert watch.look() == []
    cluster.says("n1", 25.9, 700.0)
    assert told(watch.look()) == [("hot_inlet", "cleared", "n1"), ("fleet_watts", "cleared", None)]


def test_a_machine_that_fell_silent_raises_nothing_and_ends_nothing(
    fleet: tuple[AlarmedFleet, AlarmWatch],
) -> None:
    cluster, watch = fleet
    long_ago = "2026-01-02T11:00:00Z"
    cluster.says("n1", 40.0, 900.0, time=long_ago)
    assert watch.look() == []
    cluster.says("n1", 40.0, 900.0)
    assert told(watch.look()) == [("hot_inlet", "raised", "n1"), ("fleet_watts", "raised", None)]
    cluster.says("n1", 20.0, 900.0, time=long_ago)
    assert watch.look() == []
    cluster.says("n1", 20.0, 100.0)
    assert told(watch.look()) == [("hot_inlet", "cleared", "n1"), ("fleet_watts", "cleared", None)]


def test_each_kind_of_alarm(fleet: tuple[AlarmedFleet, AlarmWatch]) -> None:
    cluster, watch = fleet
    cluster.says("n2", 22.0, 200.0, ready="False")
    watts = {"measured": 1000.0, "predicted": 1300.0}
    cluster.fleets = [
        {"metadata": {"namespace": "wao-system", "name": "hall"}, "status": {"watts": watts}}
    ]
    cluster.pods = [
        {
            "metadata": {"name": "late", "creationTimestamp": "2026-01-02T11:50:00Z"},
            "spec": {"schedulerName": "wattwise"},
        },
        {
            "metadata": {"name": "young", "creationTimestamp": "2026-01-02T11:59:00Z"},
            "spec": {"schedulerName": "wattwise"},
        },
        {
            "metadata": {"name": "of-another", "creationTimestamp": "2026-01-02T11:50:00Z"},
            "spec": {"schedulerName": "default-scheduler"},
        },
    ]
    assert watch.look() == [
        {
            "alarm": "lost_machine",
            "state": "raised",
            "time": "2026-01-02T12:00:00Z",
            "subject": "n2",
            "message": "no answer",
        },
        {
            "alarm": "model_drift",
            "state": "raised",
            "time": "2026-01-02T12:00:00Z",
            "subject": "wao-system/hall",
            "value": 30.0,
            "limit": 20.0,
        },
        {
            "alarm": "pods_waiting",
            "state": "raised",
            "time": "2026-01-02T12:00:00Z",
            "value": 1.0,
            "message": "longer than 300 s",
        },
    ]


def test_a_cluster_that_does_not_answer_is_an_alarm_and_ends_no_other(
    fleet: tuple[AlarmedFleet, AlarmWatch],
) -> None:
    cluster, watch = fleet
    cluster.says("n1", 30.0, 100.0)
    watch.look()
    cluster.is_up = False
    [event] = watch.look()
    assert event["alarm"] == "cluster_unreachable" and "nobody may read" in event["message"]
    assert watch.look() == []
    cluster.is_up = True
    assert told(watch.look()) == [("cluster_unreachable", "cleared", None)]


def test_a_look_needs_the_permissions_that_the_page_tells_and_no_other() -> None:
    made = AlarmedFleet()
    with ScriptedApi(made.answer) as api:
        AlarmWatch.of({"host": api.url}).look()
        assert {asked.method for asked in api.asked} == {"GET"}
        paths = [asked.path.partition("?")[0].split("/") for asked in api.asked]
    used = {("core" if path[1] == "api" else f"`{path[2]}`", f"`{path[-1]}`") for path in paths}
    rows = re.findall(r"^\| (.+) \| (.+) \| list \|$", EVENTS_PAGE.read_text(), re.MULTILINE)
    assert used == set(rows)


@pytest.mark.parametrize("status", [None, "x", {"watts": 7}, {"watts": {"measured": "a"}}])
def test_what_others_wrote_wrongly_raises_nothing(
    fleet: tuple[AlarmedFleet, AlarmWatch], status: t.Any
) -> None:
    cluster, watch = fleet
    cluster.configs["n1"]["status"] = status
    cluster.fleets = [{"metadata": {"name": "hall"}, "status": status}, "x"]
    cluster.pods = [{"metadata": None}, {"spec": {"schedulerName": "wattwise"}}]
    assert watch.look() == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"interval": 1}, "interval: 1 s is too short"),
        ({"fleet_watts": "many"}, "fleet_watts: 'many' is not a number"),
        ({"waiting_seconds": 0}, "waiting_seconds: 0 is not above 0"),
        ({"hot": 3}, "hot"),
        ({"hot_inlet_celsius": "nan"}, "not a finite number"),
    ],
)
def test_options_that_are_wrong_are_told(options: Json, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        AlarmWatch.of(options)


def test_the_event_source_puts_events_into_its_queue() -> None:
    """As in ansible-rulebook: the file by its path, and an endless coroutine."""
    made = AlarmedFleet()
    made.says("n1", 30.0, 100.0, time=format_time(utc_now()))

    async def first_event(url: str) -> Json:
        queue: asyncio.Queue[Json] = asyncio.Queue()
        source = runpy.run_path(str(SOURCE))["main"]
        running = asyncio.create_task(source(queue, {"host": url, "kubeconfig": ""}))
        try:
            return await asyncio.wait_for(queue.get(), 30.0)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    with ScriptedApi(made.answer) as api:
        event = asyncio.run(first_event(api.url))
    assert (event["alarm"], event["subject"], event["value"]) == ("hot_inlet", "n1", 30.0)
