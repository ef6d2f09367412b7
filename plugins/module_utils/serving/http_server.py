# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""An HTTP/1.1 server whose clients decide neither its memory nor how long they stay.

A listener has a limit of connections, which counts before TLS begins. A handshake and a request
have one deadline each, from the first byte to the last one, however slowly bytes arrive. A new
connection displaces one without a request, the oldest first, so that idle clients keep nobody out.

Source: RFC 9112.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import socket
import ssl
import typing as t
from dataclasses import dataclass

from ..base.errors import InvalidInput
from .request import MAX_HEAD, PART_SIZE, Bounds, HeldBytes, Receiving, Refused, Request

__all__ = ["Answer", "Bounds", "HttpServer", "Reply", "Request", "sentence"]

# Time for the other side to read the rest and to close, before the connection is cut.
_CLOSING_SECONDS = 1.0
# Time for a refused client to send its rest: most clients read an answer only after that.
_DISCARD_SECONDS = 15.0


class Reply(t.NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


def sentence(status: int, text: str) -> Reply:
    """A reply of one sentence."""
    return Reply(status, f"{text}\n".encode())


Answer = t.Callable[[Request], t.Awaitable[Reply]]
# Gets the path, which is empty for an unreadable request, the status and a sentence.
Refuse = t.Callable[[str, int, str], Reply]


# By identity, because it is a key.
@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    task: asyncio.Task[None] | None = None
    was_answered: bool = False
    is_busy: bool = False


class HttpServer:
    """One listener. Its methods need the event loop in which it runs."""

    def __init__(
        self,
        answer: Answer,
        bounds: Bounds,
        refuse: Refuse = lambda _path, status, text: sentence(status, text),
    ) -> None:
        self._answer, self._bounds, self._refuse = answer, bounds, refuse
        self._connections: dict[_Connection, None] = {}
        self._held = HeldBytes()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._context: ssl.SSLContext | None = None

    def start(self, address: str | None, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port. Raises InvalidInput."""
        try:
            self._listener = _listening(address or "", port)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            place = f"port {port} of {address}" if address else f"port {port}"
            raise InvalidInput(f"Cannot listen on {place} ({reason}); give a free one") from error
        self._listener.setblocking(False)
        self._context = context
        self._accepting = asyncio.get_running_loop().create_task(self._accept(self._listener))
        return int(self._listener.getsockname()[1])

    async def close(self, seconds: float = 0.0) -> None:
        """Accept nothing more, and end the running requests after this time."""
        if self._listener is None or self._accepting is None:
            return
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._listener.close()
        busy = [one.task for one in self._connections if one.is_busy and one.task is not None]
        if busy and seconds:
            await asyncio.wait(busy, timeout=seconds)
        tasks = [one.task for one in self._connections if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _address = await loop.sock_accept(listener)
            except OSError:
                # Out of files, or a client that is already gone.
                await asyncio.sleep(0.05)
                continue
            self._admit(accepted)
            # Other work gets its turn while connections keep coming.
            await asyncio.sleep(0)

    def _admit(self, accepted: socket.socket) -> None:
        if len(self._connections) >= self._bounds.connections:
            waiting = [one for one in self._connections if not (one.was_answered and one.is_busy)]
            # The first one of those that were never answered, else of those that were.
            displaced = min(waiting, key=lambda one: one.was_answered, default=None)
            if displaced is None:
                accepted.close()
                return
            del self._connections[displaced]
            # asyncio may lose the cancellation of a handshake; its task then sees the end.
            if displaced.task is not None:
                displaced.task.cancel()
            with contextlib.suppress(OSError):
                displaced.socket.shutdown(socket.SHUT_RDWR)
        connection = _Connection(accepted)
        self._connections[connection] = None
        connection.task = asyncio.get_running_loop().create_task(self._serve(connection))

    async def _serve(self, connection: _Connection) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            opening = self._opened(connection.socket)
            reader, opened = await asyncio.wait_for(opening, self._bounds.request_seconds)
            writer = opened
            await self._converse(connection, reader, opened)
            opened.close()
            await asyncio.wait_for(opened.wait_closed(), _CLOSING_SECONDS)
        except (OSError, asyncio.TimeoutError, EOFError):
            # A client that is slow, gone or without TLS.
            pass
        finally:
            self._connections.pop(connection, None)
            if writer is not None:
                writer.transport.abort()

    async def _opened(
        self, accepted: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The streams of a connection, after its handshake."""
        loop = asyncio.get_running_loop()
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            accepted.close()
            raise
        reader = asyncio.StreamReader(MAX_HEAD)
        protocol = asyncio.StreamReaderProtocol(reader)
        seconds = None if self._context is None else self._bounds.request_seconds
        transport, _protocol = await loop.connect_accepted_socket(
            lambda: protocol, accepted, ssl=self._context, ssl_handshake_timeout=seconds
        )
        # The end of a write is then the end of an answer, whose bytes are with the kernel. With a
        # limit of 0, TLS takes an empty buffer for a full one until the client sends again.
        transport.set_write_buffer_limits(high=1, low=0)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _converse(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        patience = self._bounds.request_seconds
        while True:
            first = await asyncio.wait_for(reader.read(1), patience)
            connection.is_busy = True
            if not first or not await self._exchange(first, reader, writer):
                return
            connection.is_busy, connection.was_answered = False, True
            if connection not in self._connections:
                return
            # The connections are in the order of their last use.
            self._connections[connection] = self._connections.pop(connection)
            patience = self._bounds.idle_seconds

    async def _exchange(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; whether a next one may follow."""
        seconds, is_refused = self._bounds.request_seconds, False
        receiving = Receiving(self._bounds, self._held, reader, writer)
        try:
            request, keeps_alive = await asyncio.wait_for(receiving.request(first), seconds)
            reply = await self._answer(request)
        except asyncio.TimeoutError:
            text = f"The request did not arrive within {seconds:g} s; send it faster"
            reply, is_refused = self._refuse(receiving.path, 408, text), True
        except Refused as error:
            reply, is_refused = self._refuse(error.path, error.status, error.text), True
        finally:
            self._held.number -= len(receiving.body)
        keeps_alive = not is_refused and keeps_alive and self._bounds.idle_seconds > 0
        is_head = not is_refused and request.method == "HEAD"
        writer.write(_rendered(reply, keeps_alive, is_head))
        await asyncio.wait_for(writer.drain(), seconds)
        if is_refused:
            # A client that still sends would otherwise lose the answer with the connection.
            if writer.can_write_eof():
                writer.write_eof()
            await asyncio.wait_for(_discard(reader), _DISCARD_SECONDS)
        return keeps_alive


def _rendered(reply: Reply, keeps_alive: bool, is_head: bool) -> bytes:
    phrase = http.HTTPStatus(reply.status).phrase
    head = (
        f"HTTP/1.1 {reply.status} {phrase}\r\nServer: wattwise\r\n"
        f"Content-Type: {reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n"
    )
    end = "\r\n" if keeps_alive else "Connection: close\r\n\r\n"
    return (head + end).encode() + (b"" if is_head else reply.body)


async def _discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(PART_SIZE):
        pass


def _listening(address: str, port: int) -> socket.socket:
    """A listening socket; without an address on all of both families. Raises OSError."""
    if not address and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128
            )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=128)
