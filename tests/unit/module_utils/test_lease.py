# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Lease lets one in at a time, outlives a holder that died, and tells a holder that lost it."""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.lease import (
    DURATION_SECONDS,
    Lease,
    LeaseHeld,
    LeaseLost,
)
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]


@dataclass
class Server:
    """One Lease with its resource version, as the API server keeps it."""

    lease: Json | None = None
    away: bool = False

    def answer(self, asked: Asked) -> Reply:
        if self.away:
            return status_reply(500, "etcd is away")
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
    """Time that passes only by waiting; ``meanwhile`` happens at each wait."""

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


def test_it_is_taken_given_back_and_taken_again(kube: Kube, server: Server) -> None:
    for transitions in (0, 1):
        with lease(kube, Clock()) as held:
            held.check()
            assert server.holder == held.holder
            assert server.lease is not None
            assert server.lease["spec"]["leaseTransitions"] == transitions
        assert server.holder == ""


def test_a_second_run_is_refused_in_one_sentence(kube: Kube) -> None:
    clock = Clock()
    with lease(kube, clock) as first:
        second = lease(kube, clock, wait_seconds=5.0)
        with pytest.raises(LeaseHeld, match=r"holds the Lease lab/devices, last renewed") as caught:
            second.__enter__()
    assert first.holder in str(caught.value) and "\n" not in str(caught.value)
    assert clock.now <= 5.0


def test_a_second_run_waits_until_the_first_is_done(kube: Kube, server: Server) -> None:
    clock = Clock()
    first = lease(kube, clock)
    first.__enter__()
    clock.meanwhile = lambda: first.__exit__() if clock.now > 2.0 else None
    with lease(kube, clock) as second:
        assert server.holder == second.holder
    assert 2.0 < clock.now < DURATION_SECONDS


def test_of_a_holder_that_died_the_lease_ends(kube: Kube, server: Server) -> None:
    clock = Clock()
    lease(kube, clock)._acquire()
    with lease(kube, clock) as second:
        assert server.holder == second.holder
    assert clock.now > DURATION_SECONDS


def test_a_holder_that_renews_is_waited_for_as_long_as_it_does(kube: Kube) -> None:
    clock = Clock()
    with lease(kube, clock) as first:
        clock.meanwhile = first.renew
        with pytest.raises(LeaseHeld):
            lease(kube, clock).__enter__()
        assert clock.now > 2 * DURATION_SECONDS
        first.check()


def test_a_holder_whose_lease_was_taken_writes_nothing_more(kube: Kube, server: Server) -> None:
    with lease(kube, Clock()) as first:
        assert server.lease is not None
        server.lease["metadata"]["resourceVersion"] = "99"
        server.lease["spec"]["holderIdentity"] = "other"
        first.renew()
        with pytest.raises(LeaseLost, match="somebody else took or deleted it"):
            first.check()
        assert first.guarded().find("/lease") is not None
        with pytest.raises(LeaseLost):
            first.guarded().request("PUT", "/lease", {"metadata": {"resourceVersion": "99"}})
    assert server.holder == "other"


def test_a_holder_that_cannot_renew_stops_before_another_may_start(
    kube: Kube, server: Server
) -> None:
    clock = Clock()
    with lease(kube, clock) as held:
        server.away = True
        clock.now += DURATION_SECONDS - 1
        held.renew()
        with pytest.raises(LeaseLost, match="could not be renewed for 14 s"):
            held.check()


def test_two_that_create_it_at_once_are_one_after_the_other(kube: Kube, server: Server) -> None:
    """The other one is quicker between our look and our POST."""
    clock = Clock()
    first = lease(kube, clock)
    find = kube.find
    quick = lease(kube, clock)

    def slow_find(path: str, query: t.Any = None) -> t.Any:
        found = find(path, query)
        if found is None:
            kube.find = find  # type: ignore[method-assign]
            quick.__enter__()
            clock.meanwhile = quick.__exit__
        return found

    kube.find = slow_find  # type: ignore[method-assign]
    with first:
        assert server.holder == first.holder
    assert server.lease is not None and server.lease["spec"]["leaseTransitions"] == 1


def test_what_the_server_refuses_is_told(kube: Kube, server: Server) -> None:
    server.away = True
    with pytest.raises(ApiError, match="etcd is away"):
        lease(kube, Clock()).__enter__()
