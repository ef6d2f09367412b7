# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events: one for each sentence about a pod, and one for each object and reason that repeats."""

from __future__ import annotations

import datetime
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.events import (
    QUIET_SECONDS,
    Event,
    tell_again,
    tell_once,
)
from support.event_store import Store
from support.power_fleets import manifest
from support.scripted_api import ScriptedApi, status_reply

Json = dict[str, t.Any]

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
EVENT = Event("Warning", "MachineLost", "Reconciling", "wattwise.github.io/power-fleet")


def tell(store: Store, note: str, seconds: float = 0.0, check_mode: bool = False) -> bool:
    now = NOW + datetime.timedelta(seconds=seconds)
    with ScriptedApi(store) as api:
        kube = Kube.connect({"host": api.url})
        return tell_again(
            kube, Context(check_mode=check_mode, now=lambda: now), manifest(), note, EVENT
        )


def test_the_count_moves_at_most_every_five_minutes() -> None:
    store = Store()
    assert tell(store, "first")
    assert not tell(store, "second", QUIET_SECONDS - 1)
    [event] = store.events.values()
    assert (event["count"], event["message"]) == (1, "first")
    assert event["involvedObject"]["uid"] == "uid-fleet"
    assert tell(store, "x" * 5000, QUIET_SECONDS)
    [event] = store.events.values()
    assert event["count"] == 2 and len(event["message"]) == 1024
    assert event["firstTimestamp"] == "2026-01-01T12:00:00Z"
    assert event["lastTimestamp"] == "2026-01-01T12:05:00Z"


def test_check_mode_tells_nothing() -> None:
    store = Store()
    assert not tell(store, "first", check_mode=True)
    assert store.events == {}


@pytest.mark.parametrize("status", [404, 409])
def test_who_came_first_has_told_it(status: int) -> None:
    store = Store()
    store.refusal = status_reply(status, "somebody was quicker")
    assert tell(store, "first")


def test_a_refusal_is_the_callers() -> None:
    store = Store()
    store.refusal = status_reply(403, "forbidden")
    with pytest.raises(ApiError):
        tell(store, "first")


@pytest.mark.parametrize("odd", [{"count": "many"}, {"count": -3}, {"lastTimestamp": "soon"}, {}])
def test_an_odd_event_of_this_name_is_counted_anew(odd: Json) -> None:
    store = Store()
    tell(store, "first")
    [path] = store.events
    store.events[path] = {"metadata": {"resourceVersion": "1"}, **odd}
    assert tell(store, "again")
    assert store.events[path]["count"] == 1


WAITS = Event("Warning", "FailedScheduling", "Scheduling", "wattwise.github.io/placement")
POD: Json = {"metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1"}}


def test_other_numbers_are_no_other_event() -> None:
    store = Store()
    few = "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    more = "0/12 nodes are available: 10 Insufficient memory, 2 Insufficient cpu."
    other = "0/12 nodes are available: 12 Insufficient cpu."
    with ScriptedApi(store) as api:
        kube = Kube.connect({"host": api.url})
        for note in (few, more, other, few, other):
            tell_once(kube, Context(now=lambda: NOW), POD, note, WAITS)
    assert [event["note"] for event in store.events.values()] == [few, other]


def test_an_event_of_a_node_is_in_the_namespace_default() -> None:
    store = Store()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u"}}
    with ScriptedApi(store) as api:
        tell_again(Kube.connect({"host": api.url}), Context(now=lambda: NOW), node, "lost", EVENT)
    [(path, event)] = store.events.items()
    assert path.startswith("/api/v1/namespaces/default/events/n1.")
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}
