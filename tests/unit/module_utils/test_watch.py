# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A watched collection over real sockets: its notifications, and its resumption."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube import reading, watch
from ansible_collections.wattwise.kube.plugins.module_utils.kube.watch import Change, Collection
from support.watch_api import WatchApi

Json = dict[str, t.Any]

PATH = "/api/v1/things"


def thing(name: str, value: t.Any = 1, **metadata: t.Any) -> Json:
    return {"metadata": {"name": name, "namespace": "n", **metadata}, "value": value}


class ReceivedEvents:
    """A running collection whose view is the value of a thing, and its notifications."""

    def __init__(self, api: WatchApi, query: t.Mapping[str, str] | None = None) -> None:
        self.api = api
        self.changes: list[Change[int]] = []
        self.said: list[str] = []
        self._stop = threading.Event()
        self._collection = Collection(
            api.kube(),
            PATH,
            lambda item: t.cast(int, item["value"]),
            self.changes.append,
            query,
            self.said.append,
            first_pause_seconds=0.02,
        )
        self.thread = threading.Thread(target=self._collection.run, args=(self._stop,), daemon=True)
        self.thread.start()

    def wait(self, count: int) -> list[tuple[str, int | None, int | None]]:
        self.api.wait(lambda: len(self.changes) >= count, f"{count} changes, not {self.changes}")
        return [(change.key[1], change.before, change.after) for change in self.changes]

    def watches(self) -> list[str]:
        """The versions from which watches began."""
        return [one.query["resourceVersion"] for one in self.api.asked if one.is_watch]

    def lists(self) -> int:
        return sum(one.path == PATH and not one.is_watch for one in self.api.asked)

    def stop(self) -> None:
        self._stop.set()
        self.api.cut(PATH)
        self.thread.join(20)
        assert not self.thread.is_alive()


@pytest.fixture
def api() -> t.Iterator[WatchApi]:
    with WatchApi() as serving:
        yield serving


def test_what_is_there_is_told_once_and_then_every_change(api: WatchApi) -> None:
    api.serve(PATH, thing("a"))
    told = ReceivedEvents(api, {"fieldSelector": "x=y"})
    api.wait_for_watch(PATH)
    api.send(PATH, "ADDED", thing("b", 2))
    api.send(PATH, "MODIFIED", thing("b", 3))
    api.send(PATH, "DELETED", thing("a"))
    found = told.wait(4)
    assert found == [("a", None, 1), ("b", None, 2), ("b", 2, 3), ("a", 1, None)]
    assert [change.is_first for change in told.changes] == [True, False, False, False]
    assert all(one.query["fieldSelector"] == "x=y" for one in api.asked)
    told.stop()


def test_a_change_that_the_view_does_not_show_is_not_told(api: WatchApi) -> None:
    api.serve(PATH, thing("a"))
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    api.send(PATH, "MODIFIED", thing("a", 1, annotations={"other": "thing"}))
    api.send(PATH, "MODIFIED", thing("a", 2))
    assert told.wait(2) == [("a", None, 1), ("a", 1, 2)]
    told.stop()


@pytest.mark.parametrize("how", ["end", "cut"])
def test_a_watch_that_ends_goes_on_where_it_was(api: WatchApi, how: str) -> None:
    api.serve(PATH, thing("a"))
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    api.send(PATH, "ADDED", thing("b"))
    told.wait(2)
    getattr(api, how)(PATH)
    api.wait_for_watch(PATH, opened=2)
    api.send(PATH, "ADDED", thing("c"))
    assert told.wait(3)[-1] == ("c", None, 1)
    assert told.watches() == ["1", "2"]
    assert told.lists() == 1
    told.stop()


def test_a_bookmark_moves_the_version_and_is_no_change(api: WatchApi) -> None:
    api.serve(PATH)
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    api.send_bytes(PATH, b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"77"}}}\n')
    api.end(PATH)
    api.wait_for_watch(PATH, opened=2)
    assert told.watches() == ["1", "77"]
    assert told.changes == []
    told.stop()


def test_after_410_only_what_differs_is_told(api: WatchApi) -> None:
    served = api.serve(PATH, thing("stays"), thing("changes"), thing("goes"))
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    served.items = [thing("stays"), thing("changes", 2), thing("comes")]
    served.version = 90
    api.expire(PATH)
    api.wait_for_watch(PATH, opened=2)
    found = told.wait(6)
    assert sorted(found[3:], key=str) == [
        ("changes", 1, 2),
        ("comes", None, 1),
        ("goes", 1, None),
    ]
    assert not any(change.is_first for change in told.changes[3:])
    assert told.watches() == ["1", "90"]
    assert told.said == []
    told.stop()


def test_a_watch_that_is_refused_with_410_lists_again(api: WatchApi) -> None:
    api.serve(PATH, thing("a")).refused_watches = [410, 410]
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    assert told.lists() == 3
    assert told.wait(1) == [("a", None, 1)]
    told.stop()


def test_an_event_in_pieces_is_one_event(api: WatchApi) -> None:
    api.serve(PATH)
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    for byte in b'{"type":"ADDED","object":{"metadata":{"name":"\xc3\xa4"},"value":5}}\n':
        api.send_bytes(PATH, bytes([byte]))
    assert told.wait(1) == [("ä", None, 5)]
    told.stop()


@pytest.mark.parametrize(
    "line",
    [
        b"no json\n",
        b"[" * 100_000 + b"\n",
        b'{"type":"ADDED","object":{"value":NaN}}\n',
        b'{"type":"ERROR","object":{"code":500,"message":"etcd is away"}}\n',
        b'{"type":"ERROR","object":null}\n',
    ],
)
def test_a_watch_that_breaks_is_said_and_taken_up_again(api: WatchApi, line: bytes) -> None:
    api.serve(PATH)
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    api.send_bytes(PATH, line)
    api.wait_for_watch(PATH, opened=2)
    api.send(PATH, "ADDED", thing("a"))
    assert told.wait(1) == [("a", None, 1)]
    api.wait(lambda: len(told.said) == 2, "both messages")
    assert PATH in told.said[0]
    assert told.said[1] == f"{PATH} is watched again"
    told.stop()


@pytest.mark.parametrize(
    "item",
    [
        b"null",
        b'"text"',
        b"[]",
        b'{"metadata": null}',
        b'{"metadata": {"name": 5, "namespace": []}, "value": 1e5}',
        b'{"metadata": {"name": "a", "resourceVersion": {}}}',
    ],
)
def test_an_object_that_cannot_be_read_does_not_stop_the_others(api: WatchApi, item: bytes) -> None:
    api.serve(PATH)
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    api.send_bytes(PATH, b'{"type":"MODIFIED","object":' + item + b"}\n")
    api.send_bytes(PATH, b'{"type":["?"],"object":' + item + b"}\n")
    api.send(PATH, "ADDED", thing("good", 3))
    api.wait(lambda: told.changes[-1:] != [] and told.changes[-1].key[1] == "good", "the good one")
    assert told.said == []
    told.stop()


def test_an_event_without_end_is_not_kept(api: WatchApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_OBJECT", 1000)
    api.serve(PATH)
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    api.send_bytes(PATH, b'{"type":"ADDED",' + b" " * 2000)
    api.wait_for_watch(PATH, opened=2)
    assert "more than 1000 bytes" in told.said[0]
    told.stop()


def test_watches_that_end_at_once_are_not_repeated_without_a_pause(api: WatchApi) -> None:
    api.serve(PATH)
    told = ReceivedEvents(api)
    for opened in range(1, 6):
        api.wait_for_watch(PATH, opened)
        api.end(PATH)
    api.wait(lambda: bool(told.said), "a message")
    assert "ends at once" in told.said[0]
    told.stop()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_kind_that_may_not_be_read_is_asked_for_seldom(
    api: WatchApi, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(watch, "_REFUSED_PAUSE_SECONDS", 0.05)
    served = api.serve(PATH)
    served.status = status
    told = ReceivedEvents(api)
    api.wait(lambda: told.lists() >= 3, "three lists")
    assert len(told.said) == 1
    served.status = 200
    api.wait_for_watch(PATH)
    api.send(PATH, "ADDED", thing("a"))
    assert told.wait(1) == [("a", None, 1)]
    told.stop()


def test_pauses_grow_and_have_an_end(api: WatchApi) -> None:
    api.serve(PATH)
    collection = Collection(
        api.kube(), PATH, lambda item: item, lambda change: None, first_pause_seconds=0.5
    )
    assert collection._pause_seconds() == 0.0
    pauses = []
    for _failure in range(40):
        collection._failed(ApiError("away"))
        pauses.append(collection._pause_seconds())
    assert 0.25 <= pauses[0] <= 0.5
    assert all(15 <= pause <= 30 for pause in pauses[10:])


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (b"[" * 900 + b"]" * 900, "nested more than 250 deep"),
        (b"9" * 5000, "5000 digits"),
        (b"[" + b"{}," * 450_000 + b"1]", "more than 400000 members"),
    ],
)
def test_an_object_beyond_the_limits_does_not_count_and_the_watch_goes_on(
    api: WatchApi, spec: bytes, problem: str
) -> None:
    api.serve(PATH, thing("bad"))
    told = ReceivedEvents(api)
    api.wait_for_watch(PATH)
    identity = b'{"kind":"Thing","metadata":{"name":"bad","namespace":"n","resourceVersion":"50"}'
    api.send_bytes(PATH, b'{"type":"MODIFIED","object":' + identity + b',"s":' + spec + b"}}\n")
    api.send(PATH, "ADDED", thing("good", 3))
    assert told.wait(3) == [("bad", None, 1), ("bad", 1, None), ("good", None, 3)]
    assert problem in told.said[0] and "Thing n/bad" in told.said[0]
    assert told.lists() == 1
    told.stop()


def test_a_refusal_right_after_a_restart_is_not_told_and_soon_repeated(api: WatchApi) -> None:
    served = api.serve(PATH)
    served.status, served.message = 403, 'User "x" cannot list resource "things" in API group ""'
    told = ReceivedEvents(api)
    api.wait(lambda: told.lists() >= 3, "three lists")
    served.status = 200
    api.wait_for_watch(PATH)
    assert told.said == []
    told.stop()
