# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power of a machine and the label of its Node, on a small API server, in simulated time."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from lab.bmc.board import Board
from lab.bmc.kubelets import Kubelets
from lab.bmc.pods import Connection
from lab.bmc.power import MachinePower, ResetStyle, Troubles
from lab.controlplane.components import OFF_LABEL
from lab.machines import SERVER_TYPES, build_machines

FIRST, SECOND = "r1-n01", "r1-n02"
STYLE = ResetStyle()
WELL = Troubles()
Step = Coroutine[Any, Any, None]


@dataclass
class Api:
    """Nodes with labels; `writes` are the patched paths with their bodies."""

    labels: dict[str, dict[str, str]] = field(default_factory=lambda: {FIRST: {}, SECOND: {}})
    writes: list[tuple[str, Any]] = field(default_factory=list)
    failures: int = 0

    async def list_nodes(self, request: web.Request) -> web.Response:
        assert request.query["labelSelector"] == f"{OFF_LABEL}=true"
        found = [name for name, labels in self.labels.items() if OFF_LABEL in labels]
        return web.json_response({"items": [{"metadata": {"name": name}} for name in found]})

    async def patch(self, request: web.Request) -> web.Response:
        if self.failures:
            self.failures -= 1
            raise web.HTTPServiceUnavailable
        path, body = request.match_info["path"], await request.json()
        if path.partition("/")[0] not in self.labels:
            raise web.HTTPNotFound
        self.writes.append((path, body))
        return web.json_response({})

    @property
    def last_labels(self) -> dict[str, str | None]:
        """The last written value of the label by Node."""
        return {
            path: body["metadata"]["labels"][OFF_LABEL]
            for path, body in self.writes
            if "/" not in path
        }


@dataclass
class Hall:
    """Two machines, whose clock the test moves."""

    api: Api = field(default_factory=Api)
    now: float = 1_000_000.0
    boards: dict[str, Board] = field(
        default_factory=lambda: {one.name: Board(one, "") for one in build_machines(2, 1, 1)}
    )
    kubelets: Kubelets = field(init=False)

    def __post_init__(self) -> None:
        self.kubelets = Kubelets(self.boards, lambda: self.now)

    def reset(self, kind: str, troubles: Troubles = WELL) -> None:
        self.boards[FIRST].power.reset(STYLE, kind, troubles, self.now)

    def run(self, story: Callable[[aiohttp.ClientSession], Step]) -> None:
        async def told() -> None:
            async with _serving(self.api) as address, aiohttp.ClientSession(address) as session:
                await story(session)

        asyncio.run(told())


@contextlib.asynccontextmanager
async def _serving(api: Api) -> AsyncIterator[str]:
    application = web.Application()
    application.add_routes(
        [
            web.get("/api/v1/nodes", api.list_nodes),
            web.patch("/api/v1/nodes/{path:.+}", api.patch),
        ]
    )
    async with TestServer(application) as server:
        yield str(server.make_url("/"))


def test_the_label_stays_from_the_power_off_to_the_end_of_the_boot() -> None:
    hall = Hall()
    boot = hall.boards[FIRST].power.times.boot

    async def story(session: aiohttp.ClientSession) -> None:
        async def after(seconds: float) -> dict[str, str | None]:
            hall.now += seconds
            await hall.kubelets.settle(session)
            return hall.api.last_labels

        hall.reset("GracefulShutdown")
        assert await after(29.0) == {}
        assert await after(2.0) == {FIRST: "true"}
        hall.reset("On")
        assert await after(boot - 1.0) == {FIRST: "true"}
        assert await after(2.0) == {FIRST: None}
        count = len(hall.api.writes)
        await after(3600.0)
        assert len(hall.api.writes) == count

    hall.run(story)


def test_a_stopped_kubelet_is_noticed_once_and_after_the_grace() -> None:
    hall = Hall()

    async def story(session: aiohttp.ClientSession) -> None:
        hall.reset("ForceOff")
        hall.now += 4.0
        await hall.kubelets.settle(session)
        hall.now += 49.0
        await hall.kubelets.settle(session)
        assert [path for path, _body in hall.api.writes] == [FIRST]
        for _again in range(2):
            hall.now += 2.0
            await hall.kubelets.settle(session)
        [_label, (path, body)] = hall.api.writes
        assert path == f"{FIRST}/status"
        conditions = {one["type"]: one["status"] for one in body["status"]["conditions"]}
        assert conditions["Ready"] == "Unknown"

    hall.run(story)


def test_a_restart_shorter_than_the_grace_is_never_noticed() -> None:
    hall = Hall()
    hall.boards[FIRST].power.times = hall.boards[FIRST].power.times.scaled(0.1)

    async def story(session: aiohttp.ClientSession) -> None:
        hall.reset("ForceRestart")
        await hall.kubelets.settle(session)
        hall.now += 40.0
        await hall.kubelets.settle(session)
        assert hall.api.last_labels == {FIRST: None}
        assert [path for path, _body in hall.api.writes] == [FIRST, FIRST]

    hall.run(story)


def test_a_machine_without_node_disturbs_no_other() -> None:
    hall = Hall(Api({SECOND: {}}))

    async def story(session: aiohttp.ClientSession) -> None:
        for board in hall.boards.values():
            board.power.reset(STYLE, "ForceOff", WELL, hall.now)
        hall.now += 100.0
        await hall.kubelets.settle(session)
        assert hall.api.last_labels == {SECOND: "true"}

    hall.run(story)


def test_labels_of_an_earlier_process_are_taken_away_and_errors_are_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lab.bmc.kubelets.RETRY_SECONDS", 0.0)
    hall = Hall(Api({FIRST: {OFF_LABEL: "true"}, SECOND: {}}, failures=2))

    async def story(_session: aiohttp.ClientSession) -> None:
        async with _serving(hall.api) as address:
            api = Connection(address, {}, ssl.create_default_context())
            following = asyncio.create_task(hall.kubelets.follow(api))
            while not hall.api.writes:
                await asyncio.sleep(0)
            following.cancel()
            await asyncio.wait([following])
        assert hall.api.writes == [(FIRST, {"metadata": {"labels": {OFF_LABEL: None}}})]

    hall.run(story)


def test_boots_last_as_their_start_decided() -> None:
    power = MachinePower.of("epyc-7702p-64c", 0.1)
    assert power.times.boot == pytest.approx(15.0)
    power.reset(STYLE, "ForceRestart", Troubles(late_seconds=60.0), 0.0)
    assert (power.is_up(74.9), power.is_up(75.1)) == (False, True)
    power.reset(STYLE, "ForceRestart", Troubles(fails_boot=True), 100.0)
    assert (power.is_on(1e9), power.is_up(1e9)) == (True, False)
    power.reset(STYLE, "ForceRestart", WELL, 1e9)
    assert power.is_up(1e9 + 16.0)


def test_larger_servers_boot_longer() -> None:
    largest = SERVER_TYPES["xeon-8480-112c"].boot_seconds
    assert largest == max(kind.boot_seconds for kind in SERVER_TYPES.values())
    assert min(kind.boot_seconds for kind in SERVER_TYPES.values()) < largest / 2


def test_the_rest_after_a_power_off_is_shortened_like_all_times() -> None:
    power = MachinePower.of("epyc-9754-128c", 0.02)
    style = ResetStyle(rest_seconds=60.0)
    power.reset(style, "ForceOff", WELL, 0.0)
    assert not power.is_on(1.0)
    power.reset(style, "On", WELL, 2.0)
    assert power.is_on(2.0)
