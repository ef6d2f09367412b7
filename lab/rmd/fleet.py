# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All daemons of a lab, each at its machine's address: plain HTTP or TLS, never both."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from lab.conditions import (
    RMD_DATABASE_LOST,
    RMD_DEAD,
    RMD_GARBAGE,
    RMD_POOL_EXHAUSTED,
    RMD_SLOW,
    Fault,
)
from lab.errors import LabError
from lab.rmd.access import Door
from lab.rmd.api import Reply, Request, answer
from lab.rmd.bitmaps import PanicError
from lab.rmd.certificates import Certificates, server_context
from lab.rmd.daemon import Daemon
from lab.rmd.host import Configuration
from lab.rmd.resctrl import Group
from lab.serving import Silence

BACKLOG = 512
_FOREIGN_GROUP = "exhausted"


@dataclass
class Crash:
    """A restart in the middle of work, this many requests from now; that request gets no answer.

    It is carried out before that, or not, by `does_the_last`.
    """

    requests: int
    loses_database: bool = True
    does_the_last: bool = False


@dataclass
class Station:
    """A daemon with its socket and its requests; `seconds` is its answer time."""

    name: str
    address: str
    daemon: Daemon
    faults: dict[str, Fault] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    mode: str = "closed"
    port: int = 0
    listener: asyncio.Server | None = None
    silenced: set[asyncio.BaseTransport] = field(default_factory=set)
    crash: Crash | None = None

    def crash_now(self) -> Crash | None:
        """The crash, if it comes with this request."""
        crash = self.crash
        if crash is None:
            return None
        crash.requests -= 1
        if crash.requests > 0:
            return None
        self.crash = None
        return crash


class Fleet:
    """Daemons by name, with the two ports on which they listen at their addresses."""

    def __init__(
        self,
        daemons: Mapping[str, tuple[str, Daemon]],
        http_port: int,
        tls_port: int,
        files: Certificates,
    ) -> None:
        self.stations = {
            name: Station(name, address, daemon) for name, (address, daemon) in daemons.items()
        }
        self.http_port = http_port
        self.tls_port = tls_port
        self.latency_seconds = 0.0
        self.door: Door = files.door
        self._files = files
        self._by_socket: dict[tuple[str, int], Station] = {}
        self._server: web.Server | None = None

    def endpoint(self, name: str) -> str:
        """The URL of a daemon."""
        station = self.stations[name]
        if station.daemon.configuration.debug:
            return f"http://{station.address}:{self.http_port}"
        return f"https://{station.address}:{self.tls_port}"

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Fleet]:
        """Listen everywhere. Raises LabError if an address is in use."""
        self._server = web.Server(self._handle, access_log=None)
        try:
            for station in self.stations.values():
                await self._settle(station)
            yield self
        finally:
            for station in self.stations.values():
                await self._close(station)
            await self._server.shutdown(timeout=0)

    async def inject(self, faults: Iterable[Fault]) -> None:
        """Break daemons; a lost database is an event, the others last until `clear`."""
        for fault in faults:
            station = self.stations[fault.node]
            if fault.kind == RMD_DATABASE_LOST:
                await self.restart(fault.node, loses_database=True)
                continue
            station.faults[fault.kind] = fault
            if fault.kind == RMD_POOL_EXHAUSTED:
                _exhaust(station.daemon)
            await self._settle(station)

    async def clear(self) -> None:
        for station in self.stations.values():
            if RMD_POOL_EXHAUSTED in station.faults:
                station.daemon.hardware.resctrl.remove(_FOREIGN_GROUP)
                station.daemon.ways.settle_os_group()
            station.faults.clear()
            await self._settle(station)

    async def restart(
        self, name: str, configuration: Configuration | None = None, loses_database: bool = False
    ) -> None:
        """Start a daemon again; its connections break."""
        station = self.stations[name]
        await self._close(station)
        station.daemon.restart(configuration, loses_database)
        await self._settle(station)

    async def _settle(self, station: Station) -> None:
        """Let the socket follow faults and configuration."""
        dead = station.faults.get(RMD_DEAD)
        mode = "open" if dead is None else "silent" if dead.silent else "closed"
        if mode == station.mode:
            return
        await self._close(station)
        if mode != "closed":
            configuration = station.daemon.configuration
            station.port = self.http_port if configuration.debug else self.tls_port
            context = None if configuration.debug else server_context(self._files, configuration)
            station.listener = await self._listen(station, context, mode == "silent")
            self._by_socket[station.address, station.port] = station
        station.mode = mode

    async def _listen(
        self, station: Station, context: ssl.SSLContext | None, silent: bool
    ) -> asyncio.Server:
        assert self._server is not None, "it listens only while it serves"
        loop = asyncio.get_running_loop()
        place = (station.address, station.port)
        try:
            if silent:
                return await loop.create_server(
                    lambda: Silence(station.silenced), *place, backlog=BACKLOG
                )
            return await loop.create_server(self._server, *place, ssl=context, backlog=BACKLOG)
        except OSError as error:
            raise LabError(
                f"The RMD of {station.name} cannot listen on {station.address}:{station.port}"
                f" ({error.strerror}); stop the program that listens there."
            ) from error

    async def _close(self, station: Station) -> None:
        if station.listener is not None:
            station.listener.close()
            station.listener = None
        place = (station.address, station.port)
        self._by_socket.pop(place, None)
        for connection in self._server.connections if self._server else ():
            transport = connection.transport
            if transport is not None and _place_of(transport) == place:
                transport.abort()
        for silent in station.silenced.copy():
            silent.close()
        station.mode = "closed"

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        transport = request.transport
        if transport is None:
            raise web.HTTPBadRequest
        station = self._by_socket.get(_place_of(transport))
        if station is None:
            transport.abort()
            return web.Response()
        station.requests[request.method] += 1
        slow = station.faults.get(RMD_SLOW)
        seconds = self.latency_seconds + (slow.seconds if slow else 0.0)
        if seconds:
            await asyncio.sleep(seconds)
        crash = station.crash_now()
        if crash is not None and not crash.does_the_last:
            return _crashed(station, crash, transport)
        tls = transport.get_extra_info("ssl_object")
        asked = Request(
            request.method,
            request.path,
            {name.lower(): value for name, value in request.headers.items()},
            await request.read() if request.can_read_body else b"",
            tls.getpeercert(binary_form=True) if tls else None,
        )
        try:
            reply = answer(station.daemon, self.door, asked)
        except PanicError:
            transport.abort()
            return web.Response()
        if crash is not None:
            return _crashed(station, crash, transport)
        return _response(reply, RMD_GARBAGE in station.faults)


def _crashed(station: Station, crash: Crash, transport: asyncio.Transport) -> web.Response:
    station.daemon.restart(loses_database=crash.loses_database)
    transport.abort()
    return web.Response()


def _place_of(transport: asyncio.BaseTransport) -> tuple[str, int]:
    """Local address and port; none if the connection is already closed."""
    address, port, *_rest = transport.get_extra_info("sockname") or ("", 0)
    return address, port


def _response(reply: Reply, broken: bool) -> web.Response:
    content = reply.content[: len(reply.content) // 2] if broken else reply.content
    headers = dict(reply.headers)
    if reply.content_type:
        headers["Content-Type"] = reply.content_type
    return web.Response(status=reply.status, body=content, headers=headers)


def _exhaust(daemon: Daemon) -> None:
    """A group not made by RMD takes the rest of the pools."""
    masks = {cache: _pools(daemon, cache) for cache in daemon.host.caches}
    daemon.hardware.resctrl.groups[_FOREIGN_GROUP] = Group(masks, tasks={"1"})
    daemon.ways.settle_os_group()


def _pools(daemon: Daemon, cache: int) -> int:
    mask = 0
    for pool in daemon.ways.pools.values():
        mask |= pool[cache]
    return mask
