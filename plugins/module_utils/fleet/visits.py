# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Asynchronous HTTP to thousands of servers: one result or one error for each target."""

from __future__ import annotations

import asyncio
import functools
import ssl
import typing as t
from dataclasses import dataclass, field, replace

from ..base.context import ProgressCallback, ignore_progress
from ..base.errors import InvalidInput, TargetError, TargetFailure, failure_of, told_text
from ..base.libraries import aiohttp
from ..base.version import USER_AGENT
from .budget import Budget
from .client import Answer, Client
from .exchange import Received
from .targets import BearerToken, Credential, FleetOptions, Pace, Target
from .tls import Trust, accept_pins, client_context
from .urls import Address, Origin, parse_endpoint, redacted

__all__ = [
    "Answer",
    "BearerToken",
    "Budget",
    "Client",
    "Credential",
    "FleetOptions",
    "Pace",
    "Received",
    "Target",
    "Trust",
    "error_of",
    "visit",
]

T = t.TypeVar("T")
Visit = t.Callable[[Client, Target], t.Awaitable[T]]
Account = tuple[Origin, t.Union[Credential, BearerToken, None]]


def visit(
    targets: t.Sequence[Target],
    work: Visit[T],
    options: FleetOptions = FleetOptions(),  # noqa: B008 - frozen
    progress: ProgressCallback = ignore_progress,
    pace: Pace = Pace(),  # noqa: B008 - frozen
    *,
    in_turn: bool = False,
) -> list[T | TargetError]:
    """Call ``work`` for every target and return results or errors in the order of the targets.

    ``work`` sends requests only through the given client. Its exceptions and answers over
    ``options.budget`` become the error of the target. With ``in_turn`` targets of one name at one
    server are visited in sequence on one connection; a server without an answer to the first gets
    no request for the others. The function is thread-safe, but must not be called from a running
    event loop.
    """
    return asyncio.run(_Round(targets, work, options, progress, pace, in_turn).run())


def error_of(name: str, endpoint: str, error: Exception, what: str = "") -> TargetError:
    """Convert any exception to the target's error; ``what`` is the prefix of its detail.

    Raises MissingLibrary, because it is no fault of the target.
    """
    failure = failure_of(error)
    detail = told_text(what + failure.detail)
    return TargetError(name, told_text(redacted(endpoint)), failure.reason, detail)


@dataclass
class _Server:
    """Shared state of the targets of one origin and trust, with a session while there are any."""

    origin: Origin
    trust: Trust
    slots: asyncio.Semaphore
    visitors: int = 0
    session: t.Any = None


# Failures of a server without answers; further requests would fail in the same way.
_OF_SILENCE = frozenset({"unreachable", "timeout", "tls"})


class _Stop(t.NamedTuple):
    """A target with its position in the order of the targets."""

    position: int
    target: Target
    address: Address
    server: _Server


@dataclass
class _Round(t.Generic[T]):
    targets: t.Sequence[Target]
    work: Visit[T]
    options: FleetOptions
    progress: ProgressCallback
    pace: Pace
    in_turn: bool = False
    servers: dict[tuple[Origin, Trust], _Server] = field(default_factory=dict)
    slots: dict[Origin, asyncio.Semaphore] = field(default_factory=dict)
    contexts: dict[Trust, ssl.SSLContext] = field(default_factory=dict)
    refused: dict[Account, str] = field(default_factory=dict)
    results: dict[int, T | TargetError] = field(default_factory=dict)
    failed: int = 0

    async def run(self) -> list[T | TargetError]:
        # A semaphore belongs to the loop in which it is created (Python 3.9).
        self.all_slots = asyncio.Semaphore(max(1, self.options.concurrency))
        tasks = [asyncio.ensure_future(self._attend(turn)) for turn in self._turns()]
        try:
            await asyncio.gather(*tasks)
            return [self.results[index] for index in range(len(self.targets))]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for server in self.servers.values():
                await _close(server)

    def _turns(self) -> list[list[_Stop]]:
        """Groups of targets to visit in sequence; invalid targets fail here."""
        turns: dict[t.Any, list[_Stop]] = {}
        for index, target in enumerate(self.targets):
            try:
                stop = _Stop(index, target, *self._place_of(target))
            except Exception as error:  # noqa: BLE001 - the boundary around one target
                self._conclude(index, error_of(target.name, target.endpoint, error))
                continue
            key = (target.name, stop.address.origin, target.trust) if self.in_turn else index
            turns.setdefault(key, []).append(stop)
        return list(turns.values())

    def _place_of(self, target: Target) -> tuple[Address, _Server]:
        address = parse_endpoint(target.endpoint)
        _require_private_way(target)
        origin = address.origin
        if origin not in self.slots:
            self.slots[origin] = asyncio.Semaphore(max(1, self.options.per_host))
        server = self.servers.setdefault(
            (origin, target.trust), _Server(origin, target.trust, self.slots[origin])
        )
        server.visitors += 1
        return address, server

    async def _attend(self, turn: t.Sequence[_Stop]) -> None:
        server = turn[0].server
        accept_pins(server.trust)
        silence: TargetError | None = None
        try:
            async with server.slots, self.all_slots:
                for stop in turn:
                    if silence is None:
                        silence = await self._visit(stop)
                    else:
                        endpoint = told_text(redacted(stop.target.endpoint))
                        self._conclude(stop.position, replace(silence, endpoint=endpoint))
        finally:
            server.visitors -= len(turn)
            if server.visitors == 0:
                await _close(server)

    def _conclude(self, position: int, result: T | TargetError) -> None:
        self.results[position] = result
        self.failed += isinstance(result, TargetError)
        self.progress(done=len(self.results), total=len(self.targets), failed=self.failed)

    async def _visit(self, stop: _Stop) -> TargetError | None:
        """Visit one target, and return its error if the server did not answer."""
        target, server = stop.target, stop.server
        client: Client | None = None
        try:
            self._refuse_rejected_account(target, server)
            if server.session is None:
                server.session = self._open(server)
            client = Client(target, stop.address, server.session, self.options, self.pace)
            self._conclude(stop.position, await self._ask(client, target, server))
        except Exception as failure:  # noqa: BLE001 - the boundary around one target
            error = error_of(target.name, target.endpoint, failure)
            self._conclude(stop.position, error)
            is_silent = client is None or not client.has_answered
            return error if is_silent and error.reason in _OF_SILENCE else None
        return None

    def _refuse_rejected_account(self, target: Target, server: _Server) -> None:
        """Fail further targets after a refusal, because a BMC counts every refused attempt."""
        first = self.refused.get((server.origin, target.credential))
        if first is not None:
            raise TargetFailure(
                "unauthorized",
                f"not asked, because the server just refused the same account for {first}; "
                "correct the credential",
            )

    async def _ask(self, client: Client, target: Target, server: _Server) -> T:
        try:
            return await self.work(client, target)
        except TargetFailure as failure:
            if target.credential and failure.reason in ("unauthorized", "forbidden"):
                self.refused[server.origin, target.credential] = target.name
            raise
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise client.failure_of(error, "its work") from error

    def _open(self, server: _Server) -> t.Any:
        context: ssl.SSLContext | bool = True
        if server.origin.scheme == "https":
            context = self._context(server.trust)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=max(1, self.options.per_host), ssl=context),
            cookie_jar=aiohttp.DummyCookieJar(),
            # The client counts unpacked bytes.
            auto_decompress=False,
            headers={"User-Agent": USER_AGENT},
            trace_configs=[self._trace],
            # Proxies of the environment serve the internet, not machine networks.
            trust_env=False,
        )

    @functools.cached_property
    def _trace(self) -> t.Any:
        """Trace of all sessions; making one takes longer than making a session."""
        return _connection_trace()

    def _context(self, trust: Trust) -> ssl.SSLContext:
        shared = trust.of_context
        if shared not in self.contexts:
            try:
                self.contexts[shared] = client_context(shared)
            except InvalidInput as error:
                raise TargetFailure("tls", str(error)) from error
        return self.contexts[shared]


def _require_private_way(target: Target) -> None:
    """Check plain HTTP for every request with a credential, from any source of endpoints."""
    if target.sends_password_in_the_clear and not target.allow_plain_http:
        raise TargetFailure(
            "credential",
            "the endpoint is http://, which would expose the password on the network, so nothing "
            "was sent; write https://, or set allow_plain_http if the network is trusted",
        )


async def _close(server: _Server) -> None:
    session, server.session = server.session, None
    if session is not None:
        await session.close()


def _connection_trace() -> t.Any:
    """Notify each client that its request has a connection, on which later timeouts depend."""

    async def connected(_session: t.Any, context: t.Any, _parameters: t.Any) -> None:
        context.trace_request_ctx.mark_connected()

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected)
    return trace
