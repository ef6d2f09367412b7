# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BMCs of all machines on one port, each at its own address with its own certificate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from lab.bmc import certificates
from lab.bmc.board import Board, Reply, Request
from lab.conditions import (
    CHANGED_CERTIFICATE,
    DEAD_BMC,
    LOCKED_ACCOUNT,
    MALFORMED_JSON,
    SLOW_BMC,
    WRONG_CERTIFICATE,
    Conditions,
)
from lab.errors import LabError
from lab.machines import Machine
from lab.pki import Authority, KeyPair
from lab.room import Room
from lab.serving import Silence
from lab.state import LabSettings

BACKLOG = 512
DEFAULT_LATENCY_SECONDS = (0.0, 0.005)
JSON_TYPE = "application/json;odata.metadata=minimal;charset=utf-8"


@dataclass
class _Station:
    """A board with its socket; `mode` is the socket's behaviour, `shown` its certificate."""

    board: Board
    context: ssl.SSLContext
    mode: str = "closed"
    shown: str = ""
    listener: asyncio.Server | None = None
    silenced: set[asyncio.BaseTransport] = field(default_factory=set)


class Fleet:
    """Serves the boards; `latency_seconds` is the range of answer times."""

    def __init__(
        self, room: Room, authority: Authority, directory: Path, settings: LabSettings
    ) -> None:
        self.room = room
        self.port = settings.ports["bmc"]
        self.latency_seconds = DEFAULT_LATENCY_SECONDS
        predictor_url = f"http://127.0.0.1:{settings.ports['predictor']}"
        self.boards = {
            name: Board(machine, predictor_url, settings.power_time_factor)
            for name, machine in room.machines.items()
        }
        self._authority = authority
        self._directory = directory
        self._random = random.Random(0)
        self._server = web.Server(self._handle, access_log=None)
        self._stations: dict[str, _Station] = {}

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Fleet]:
        """Listen at every machine's address. Raises LabError if an address is in use."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for board in self.boards.values():
            files = certificates.usual(board.machine, self._authority, self._directory)
            context = certificates.server_context(files)
            self._stations[board.machine.bmc_address] = _Station(board, context, shown="usual")
        try:
            await self.apply_conditions()
            yield self
        finally:
            for station in self._stations.values():
                await self._set_mode(station, "closed")
            # The shutdown does not wait for deliberately slow answers; 0 would mean no limit.
            await self._server.shutdown(timeout=0.1)

    async def apply_conditions(self) -> None:
        """Apply the faults to sockets, certificates and locks; all else is read on request."""
        conditions = self.room.conditions_file.read()
        for station in self._stations.values():
            machine, account = station.board.machine, station.board.account
            dead = conditions.fault(DEAD_BMC, machine.name)
            mode = "open" if dead is None else "silent" if dead.silent else "closed"
            self._show_certificate(station, conditions)
            await self._set_mode(station, mode)
            if conditions.fault(LOCKED_ACCOUNT, machine.name) is not None:
                account.locked_until = float("inf")
            elif account.locked_until == float("inf"):
                account.unlock()

    def _show_certificate(self, station: _Station, conditions: Conditions) -> None:
        machine = station.board.machine
        kinds = (WRONG_CERTIFICATE, CHANGED_CERTIFICATE)
        found = [kind for kind in kinds if conditions.fault(kind, machine.name) is not None]
        shown = found[0] if found else "usual"
        if shown != station.shown:
            files = self._certificate(shown, machine)
            station.context.load_cert_chain(files.certificate, files.key)
            station.shown = shown
            self._drop_connections(machine.bmc_address)

    def _certificate(self, kind: str, machine: Machine) -> KeyPair:
        if kind == WRONG_CERTIFICATE:
            return certificates.of_another(machine, self._authority, self._directory)
        if kind == CHANGED_CERTIFICATE:
            return certificates.changed(machine, self._directory)
        return certificates.usual(machine, self._authority, self._directory)

    async def _set_mode(self, station: _Station, mode: str) -> None:
        if mode == station.mode:
            return
        address = station.board.machine.bmc_address
        if station.listener is not None:
            station.listener.close()
            station.listener = None
        self._drop_connections(address)
        for transport in station.silenced.copy():
            transport.close()
        if mode != "closed":
            station.listener = await self._listen(station, address, silent=mode == "silent")
        station.mode = mode

    async def _listen(self, station: _Station, address: str, silent: bool) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        try:
            if silent:
                return await loop.create_server(
                    lambda: Silence(station.silenced), address, self.port, backlog=BACKLOG
                )
            return await loop.create_server(
                self._server, address, self.port, ssl=station.context, backlog=BACKLOG
            )
        except OSError as error:
            raise LabError(
                f"The BMC of {station.board.machine.name} cannot listen on {address}:{self.port}"
                f" ({error.strerror}); stop the program that listens there."
            ) from error

    def _drop_connections(self, address: str) -> None:
        for connection in self._server.connections:
            transport = connection.transport
            if transport is not None and transport.get_extra_info("sockname")[0] == address:
                transport.abort()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        transport = request.transport
        if transport is None:
            raise web.HTTPBadRequest
        board = self._stations[transport.get_extra_info("sockname")[0]].board
        board.traffic.begin()
        status = 0
        try:
            conditions = self.room.conditions_file.read()
            await self._delay(board.machine.name, conditions)
            reply = await self._reply(board, request, conditions)
            status = reply.status
        finally:
            board.traffic.end(status)
        broken = conditions.fault(MALFORMED_JSON, board.machine.name) is not None
        return _response(reply, broken)

    async def _delay(self, node: str, conditions: Conditions) -> None:
        slow = conditions.fault(SLOW_BMC, node)
        seconds = self._random.uniform(*self.latency_seconds) + (slow.seconds if slow else 0.0)
        if seconds > 0.0:
            await asyncio.sleep(seconds)

    async def _reply(self, board: Board, request: web.BaseRequest, conditions: Conditions) -> Reply:
        body = await request.read() if request.can_read_body else b""
        asked = Request(request.method, request.path, request.query, request.headers, body)
        return board.answer(asked, self.room.truth(board.machine.name), conditions)


def _response(reply: Reply, broken: bool) -> web.Response:
    headers = {"OData-Version": "4.0", "Cache-Control": "no-cache", **reply.headers}
    if reply.body is None:
        return web.Response(status=reply.status, headers=headers)
    data = json.dumps(reply.body, separators=(",", ":")).encode()
    headers["Content-Type"] = JSON_TYPE
    return web.Response(
        status=reply.status, headers=headers, body=data[: len(data) // 2] if broken else data
    )
