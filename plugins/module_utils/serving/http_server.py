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
import re
import socket
import ssl
import typing as t
from dataclasses import dataclass, field

from ..base.errors import InvalidInput

MAX_HEAD = 16 * 1024
PART_SIZE = 64 * 1024
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
_TRAILERS = 32


class Request(t.NamedTuple):
    """One request; ``path`` is without the query."""

    method: str
    path: str
    body: bytes


@dataclass(frozen=True)
class Bounds:
    """Limits of one listener.

    ``bodies`` are the bytes of all bodies that are being received together. Connections close after
    each answer if ``idle_seconds`` is 0.
    """

    connections: int
    request_seconds: float
    idle_seconds: float = 0.0
    body: int = 0
    bodies: int = 0


class Refused(Exception):
    """A request that cannot be read; ``path`` is empty if it is unknown."""

    def __init__(self, status: int, text: str, path: str = "") -> None:
        super().__init__(text)
        self.status, self.text, self.path = status, text, path


@dataclass
class _Head:
    method: str
    path: str
    headers: dict[bytes, bytes]
    keeps_alive: bool


@dataclass
class HeldBytes:
    """Bytes of all bodies that a listener is receiving."""

    number: int = 0


@dataclass
class Receiving:
    """One request, and what has come of it."""

    bounds: Bounds
    held: HeldBytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    path: str = ""
    body: bytearray = field(default_factory=bytearray)

    async def request(self, first: bytes) -> tuple[Request, bool]:
        """The request, and whether its connection stays open. Raises Refused."""
        try:
            head = _head(first + await self.reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            text = f"The request line and headers have more than {MAX_HEAD} bytes"
            raise Refused(431, f"{text}; send fewer") from None
        self.path = head.path
        try:
            await self._receive_body(head)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            text = "The body is incomplete; send as many bytes as Content-Length says"
            raise Refused(400, text, head.path) from None
        return Request(head.method, head.path, bytes(self.body)), head.keeps_alive

    async def _receive_body(self, head: _Head) -> None:
        coding = head.headers.get(b"transfer-encoding")
        length = head.headers.get(b"content-length", b"0")
        if coding is not None and (
            coding.lower() != b"chunked" or b"content-length" in head.headers
        ):
            text = "The body has a Transfer-Encoding besides chunked; send Content-Length"
            raise Refused(400, text, head.path)
        if not _LENGTH.fullmatch(length):
            raise Refused(400, "Content-Length is not a number; correct it", head.path)
        self._check_size(int(length), head)
        if head.headers.get(b"expect", b"").lower() == b"100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if coding is None:
            await self._receive(int(length), head)
            return
        while True:
            line = _CHUNK.fullmatch(await self.reader.readuntil(b"\r\n"))
            if line is None:
                raise Refused(400, "A chunk of the body has no size; correct it", head.path)
            size = int(line[1], 16)
            if not size:
                break
            self._check_size(len(self.body) + size, head)
            await self._receive(size, head)
            if await self.reader.readexactly(2) != b"\r\n":
                raise Refused(400, "A chunk of the body has no end; correct it", head.path)
        for _trailer in range(_TRAILERS):
            if await self.reader.readuntil(b"\r\n") == b"\r\n":
                return
        raise Refused(431, f"The body has more than {_TRAILERS} trailers", head.path)

    def _check_size(self, size: int, head: _Head) -> None:
        if size > self.bounds.body:
            text = f"The body has more than {self.bounds.body} bytes; send less"
            raise Refused(413, text, head.path)

    async def _receive(self, size: int, head: _Head) -> None:
        """Take as many bytes; memory is used as they come, not as they are announced."""
        while size:
            part = await self.reader.read(min(size, PART_SIZE))
            if not part:
                raise asyncio.IncompleteReadError(b"", size)
            if self.held.number + len(part) > self.bounds.bodies:
                text = "Too many large bodies arrive at the same time; repeat the request"
                raise Refused(503, text, head.path)
            self.held.number += len(part)
            self.body += part
            size -= len(part)


def _head(raw: bytes) -> _Head:
    """Request line and headers. Raises Refused."""
    line, *fields = raw[: -len(b"\r\n\r\n")].split(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]):
        raise Refused(400, "The request line is not one of HTTP; correct it")
    method, target, version = words
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Refused(505, "The request is not of HTTP/1.1; use that version")
    path = target.partition(b"?")[0].decode("latin-1")
    headers: dict[bytes, bytes] = {}
    for one in fields:
        name, colon, value = one.partition(b":")
        if not colon or not _TOKEN.fullmatch(name):
            raise Refused(400, "A header has no name; correct it", path)
        name = name.lower()
        if name in headers and name in (b"content-length", b"transfer-encoding"):
            raise Refused(400, f"The header {name.decode()} is there twice; send it once", path)
        headers[name] = value.strip(b" \t")
    is_closing = b"close" in headers.get(b"connection", b"").lower()
    return _Head(method.decode(), path, headers, version == b"HTTP/1.1" and not is_closing)


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
