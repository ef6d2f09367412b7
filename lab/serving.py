# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execution of a simulator: as a process until it is stopped, or in a thread of a test."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import logging
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from aiohttp import web

from lab.errors import LabError
from lab.process import Service
from lab.state import LabSettings, LabState

Serving = Callable[[LabState, LabSettings], AbstractAsyncContextManager[None]]


class Silence(asyncio.Protocol):
    """Accepts connections and never answers, not even with a TLS handshake."""

    def __init__(self, transports: set[asyncio.BaseTransport]) -> None:
        self._transports = transports
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transports.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._transports.discard(self._transport)


def run(serving: Serving, program: str, description: str | None) -> int:
    """The main function of a simulator's process: serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--state", type=Path, required=True, help="the lab's folder")
    state = LabState.chosen(parser.parse_args().state)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    # A machine has a listening socket, and each of its clients another one.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        asyncio.run(_until_stopped(serving(state, state.read_settings())))
    except LabError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    return 0


def simulator_process(name: str, state: LabState, ready: Callable[[], bool]) -> Service:
    """The process of simulator `lab.<name>`, whose main function is `run`."""
    command = (sys.executable, "-m", f"lab.{name}", "--state", str(state.root))
    return Service(name=name, command=command, ready=ready)


@contextlib.asynccontextmanager
async def serving_on_loopback(application: web.Application, port: int) -> AsyncIterator[None]:
    """Serve an application of aiohttp on loopback until the end."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def in_thread(serving: AbstractAsyncContextManager[None]) -> Iterator[None]:
    """Serve in a thread with an event loop of its own, from readiness to the end."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        stop = asyncio.Event()
        async with serving:
            started.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()

    with ThreadPoolExecutor(1) as threads:
        finished = threads.submit(asyncio.run, serve())
        futures: tuple[Future[Any], ...] = (started, finished)
        wait(futures, return_when=FIRST_COMPLETED)
        if not started.done():
            finished.result()
        loop, stop = started.result()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            finished.result()


def answers(port: int, path: str) -> bool:
    """Whether a simulator on loopback answers a GET of the path with 200."""
    return answers_at("127.0.0.1", port, path)


def answers_at(address: str, port: int, path: str) -> bool:
    """Whether a simulator at the address answers a GET of the path with 200."""
    connection = http.client.HTTPConnection(address, port, timeout=1.0)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


async def _until_stopped(serving: AbstractAsyncContextManager[None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving:
        await stop.wait()
