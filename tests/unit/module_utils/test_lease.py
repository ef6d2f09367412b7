# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Lease admits one holder at a time, survives a dead holder, and tells a holder of its loss."""

from __future__ import annotations

import contextlib
import copy
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context, Result
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Guard, Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.lease import (
    DURATION_SECONDS,
    Lease,
    LeaseHeld,
    LeaseLost,
    alone,
)
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]


@dataclass
class Server:
    """One Lease with its resource version, as the API server keeps it."""

    lease: Json | None = None
    away: bool = False
    # The answer to the next write is lost, but the write is stored.
    loses_answer: bool = False
    loses_request: bool = False
    written: list[str] = field(default_factory=list)

    def answer(self, asked: Asked) -> Reply:
        if asked.path == "/object":
            self.written.append(asked.method)
            return status_reply(503, "away") if self.away else Reply({})
        if self.away:
            return status_reply(500, "etcd is away")
        if asked.method != "GET" and self.loses_request:
            self.loses_request = False
            return Reply(drop=True)
        reply = self._answer(asked)
        if asked.method != "GET" and self.loses_answer:
            self.loses_answer = False
            return Reply(drop=True)
        return reply

    def _answer(self, asked: Asked) -> Reply:
        if asked.method == "GET":
            return Reply(self.lease) if self.lease else status_reply(404, "not found")
        body = copy.deepcopy(asked.body)
        stored = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if body["metadata"].get("resourceVersion") != stored:
            return status_reply(409, "the object has been modified", reason="Conflict")
        body["metadata"]["resourceVersion"] = str(int(stored or 0) + 1)
        self.lease = body
        return Reply(body, 201 if asked.method == "POST" else 200)

    @property
    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])


@dataclass
class Clock:
    """Time that passes only by waiting; ``meanwhile`` is called at each wait."""

    now: float = 0.0
    meanwhile: t.Callable[[], object] = field(default=lambda: None)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def kube(server: Server) -> Iterator[Kube]:
    with ScriptedApi(server.answer) as api:
        yield Kube.connect({"host": api.url}, patience_seconds=0.0)


def lease(kube: Kube, clock: Clock, wait_seconds: float = 60.0) -> Lease:
    return Lease(kube, "lab", "devices", wait_seconds, lambda: clock.now, clock.sleep)


@contextlib.contextmanager
def acquired(kube: Kube, clock: Clock) -> Iterator[Lease]:
    with lease(kube, clock) as held:
        held.acquire()
        yield held


def test_it_is_taken_given_back_and_taken_again(kube: Kube, server: Server) -> None:
    for transitions in (0, 1):
        with acquired(kube, Clock()) as held:
            held.guard()
            assert server.holder == held.holder
            assert server.lease is not None
            assert server.lease["spec"]["leaseTransitions"] == transitions
        assert server.holder == ""


def test_a_second_run_is_refused_in_one_sentence(kube: Kube) -> None:
    clock = Clock()
    with (
        acquired(kube, clock) as first,
        lease(kube, clock, wait_seconds=5.0) as second,
        pytest.raises(LeaseHeld, match=r"holds the Lease lab/devices, last renewed") as caught,
    ):
        second.acquire()
    assert first.holder in str(caught.value) and "\n" not in str(caught.value)
    assert clock.now <= 5.0


def test_a_second_run_waits_until_the_first_is_done(kube: Kube, server: Server) -> None:
    clock = Clock()
    first = lease(kube, clock)
    first.acquire()
    clock.meanwhile = lambda: first.__exit__() if clock.now > 2.0 else None
    with acquired(kube, clock) as second:
        assert server.holder == second.holder
    assert 2.0 < clock.now < DURATION_SECONDS


def test_of_a_holder_that_died_the_lease_ends(kube: Kube, server: Server) -> None:
    clock = Clock()
    server.lease = {
        "metadata": {"resourceVersion": "7"},
        "spec": {"holderIdentity": "dead", "leaseDurationSeconds": DURATION_SECONDS},
    }
    with acquired(kube, clock) as second:
        assert server.holder == second.holder
    assert clock.now > DURATION_SECONDS


def test_a_holder_that_renews_is_waited_for_as_long_as_it_does(kube: Kube) -> None:
    clock = Clock()
    with acquired(kube, clock) as first:
        clock.meanwhile = first.renew
        with pytest.raises(LeaseHeld):
            lease(kube, clock).acquire()
        assert clock.now > 2 * DURATION_SECONDS
        first.guard()


def test_a_holder_whose_lease_was_taken_writes_nothing_more(kube: Kube, server: Server) -> None:
    with acquired(kube, Clock()) as first:
        assert server.lease is not None
        server.lease["metadata"]["resourceVersion"] = "99"
        server.lease["spec"]["holderIdentity"] = "other"
        first.renew()
        with pytest.raises(LeaseLost, match="another client took or deleted it"):
            first.guard()
        guarded = kube.guarded(first.guard)
        assert guarded.find("/lease") is not None
        with pytest.raises(LeaseLost):
            guarded.request("PUT", "/lease", {"metadata": {"resourceVersion": "99"}})
    assert server.holder == "other"


def test_a_holder_that_cannot_renew_stops_before_another_may_start(
    kube: Kube, server: Server
) -> None:
    clock = Clock()
    with acquired(kube, clock) as held:
        server.away = True
        clock.now += DURATION_SECONDS - 1
        held.renew()
        with pytest.raises(LeaseLost, match="could not be renewed for 14 s"):
            held.guard()


def test_two_that_create_it_at_once_are_one_after_the_other(kube: Kube, server: Server) -> None:
    """The other client is quicker between our read and our POST."""
    clock = Clock()
    first = lease(kube, clock)
    find = kube.find
    quick = lease(kube, clock)

    def slow_find(path: str, query: t.Any = None) -> t.Any:
        found = find(path, query)
        if found is None:
            kube.find = find  # type: ignore[method-assign]
            quick.acquire()
            clock.meanwhile = quick.__exit__
        return found

    kube.find = slow_find  # type: ignore[method-assign]
    with first:
        first.acquire()
        assert server.holder == first.holder
    assert server.lease is not None and server.lease["spec"]["leaseTransitions"] == 1


def test_what_the_server_refuses_is_told(kube: Kube, server: Server) -> None:
    server.away = True
    with pytest.raises(ApiError, match="etcd is away"):
        lease(kube, Clock()).__enter__()


OPTIONS = {"lease_namespace": "lab", "lease_timeout": 0.0}


def writing(kube: Kube, meanwhile: t.Callable[[], object] = lambda: None) -> t.Any:
    """Work that reads, then lets something happen, then writes; `calls` are its guards."""
    calls: list[Guard | None] = []

    def work(guard: Guard | None) -> Result:
        calls.append(guard)
        kube.find("/lease")
        meanwhile()
        kube.guarded(guard).request("PATCH", "/object", {})
        return {"changed": True}

    return work, calls


def test_a_run_that_writes_nothing_takes_no_lease(kube: Kube, server: Server) -> None:
    work, _calls = writing(kube)
    assert alone(kube, OPTIONS, Context(), lambda guard: {"changed": False}) == {"changed": False}
    assert server.lease is None
    alone(kube, OPTIONS, Context(check_mode=True), work)
    assert server.lease is None
    alone(kube, OPTIONS, Context(), work)
    assert server.holder == ""


def test_work_begins_anew_if_another_run_was_there_since_it_began(
    kube: Kube, server: Server
) -> None:
    others = [Lease(kube, "lab", "wattwise-binding", 0.0)]

    def meanwhile() -> None:
        if others:
            with others.pop() as other:
                other.acquire()
                assert server.written == []

    work, calls = writing(kube, meanwhile)
    assert alone(kube, OPTIONS, Context(), work) == {"changed": True}
    assert (len(calls), server.written) == (2, ["PATCH"])


@pytest.mark.parametrize("swallows", [False, True])
def test_nothing_is_written_beside_a_run_that_has_the_lease(
    kube: Kube, server: Server, swallows: bool
) -> None:
    work, calls = writing(kube)

    def careless(guard: Guard | None) -> Result:
        with contextlib.suppress(WattwiseError):
            return t.cast("Result", work(guard))
        return {"changed": False}

    with Lease(kube, "lab", "wattwise-binding", 0.0) as other:
        other.acquire()
        with pytest.raises(LeaseHeld, match=f"{other.holder} holds the Lease lab/wattwise-binding"):
            alone(kube, OPTIONS, Context(), careless if swallows else work)
    assert (len(calls), server.written) == (1, [])


def test_a_repeated_write_is_not_sent_after_the_lease_was_lost(
    server: Server,
) -> None:
    clock = Clock()
    with ScriptedApi(server.answer) as api:
        kube = Kube.connect({"host": api.url}, patience_seconds=60.0, sleep=clock.sleep)
        kube.find("/lease")
        with Lease(kube, "lab", "devices", 0.0, lambda: clock.now, clock.sleep) as held:
            held.guard()
            server.away = True
            with pytest.raises(LeaseLost, match=r"could not be renewed for 1\d s"):
                kube.guarded(held.guard).request("PATCH", "/object", {})
            sent = len(server.written)
            with pytest.raises(LeaseLost):
                kube.guarded(held.guard).request("PATCH", "/object", {})
    assert 2 < sent == len(server.written) and clock.now < DURATION_SECONDS


def test_one_attempt_may_take_no_longer_than_the_lease_lasts(kube: Kube) -> None:
    clock = Clock()
    with acquired(kube, clock) as held:
        clock.now += 4.0
        assert held.guard() == DURATION_SECONDS - 4.0


@pytest.mark.parametrize("exists", [False, True])
def test_a_lease_whose_answer_was_lost_is_known_as_ours(
    kube: Kube, server: Server, exists: bool
) -> None:
    if exists:
        with acquired(kube, Clock()):
            pass
    clock = Clock()
    server.loses_answer = True
    with acquired(kube, clock) as held:
        assert server.holder == held.holder
        server.loses_answer = True
        clock.now += 6.0
        held.renew()
        clock.now += 6.0
        held.guard()
    assert server.holder == ""


def test_a_lease_whose_request_was_lost_is_asked_for_again(kube: Kube, server: Server) -> None:
    server.loses_request = True
    work, calls = writing(kube)
    assert alone(kube, {**OPTIONS, "lease_timeout": 5.0}, Context(), work) == {"changed": True}
    assert (len(calls), server.written) == (2, ["PATCH"])


def test_a_loss_is_told_with_all_that_was_done_before(kube: Kube, server: Server) -> None:
    def work(guard: Guard | None) -> Result:
        guarded = kube.guarded(guard)
        guarded.request("PATCH", "/object", {})
        assert server.lease is not None
        server.lease["metadata"]["resourceVersion"] = "99"
        server.lease["spec"]["holderIdentity"] = "other"
        t.cast("Lease", getattr(guard, "__self__")).renew()  # noqa: B009 - of a bound method
        with contextlib.suppress(WattwiseError):
            guarded.request("PATCH", "/object", {})
        return {"changed": True, "bound": ["first"]}

    with pytest.raises(LeaseLost, match="another client took or deleted it") as caught:
        alone(kube, OPTIONS, Context(), work)
    assert caught.value.fields == {"changed": True, "bound": ["first"]}
    assert server.written == ["PATCH"] and server.holder == "other"
