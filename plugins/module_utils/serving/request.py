# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Requests as they arrive, within the limits of their listener.

Source: RFC 9112.
"""

from __future__ import annotations

import asyncio
import re
import typing as t
from dataclasses import dataclass, field

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
