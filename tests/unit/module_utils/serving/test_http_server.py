# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server over real sockets: requests of all forms, and clients that take their time."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.serving.http_server import (
    Bounds,
    HttpServer,
    Reply,
    Request,
)
from support.certificates import Certificate, self_signed

BOUNDS = Bounds(connections=8, request_seconds=0.5, idle_seconds=5.0, body=1000, bodies=1500)


class Running:
    """A server that answers with what it got, until the context ends."""

    def __init__(self, bounds: Bounds = BOUNDS, certificate: Certificate | None = None) -> None:
        self._certificate = certificate
        self.loop = asyncio.new_event_loop()
        self.server = HttpServer(self._answer, bounds)
        self._thread = threading.Thread(target=self.loop.run_forever)

    async def _answer(self, request: Request) -> Reply:
        return Reply(200, f"{request.method} {request.path} ".encode() + request.body)

    async def _start(self) -> int:
        context = None if self._certificate is None else self._certificate.server_context()
        return self.server.start("127.0.0.1", 0, context)

    def __enter__(self) -> t.Self:
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._start(), self.loop).result(20)
        return self

    def __exit__(self, *_exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self.server.close(), self.loop).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def raw(self, data: bytes) -> bytes:
        """Everything that comes until the server closes, within its deadlines."""
        with self.connect() as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b""))

    def get(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", "/x")
            return connection.getresponse().status


@pytest.fixture
def server() -> t.Iterator[Running]:
    with Running() as running:
        yield running


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"GET /a?b=c HTTP/1.1\r\n\r\n", 200, b"GET /a "),
        (b"GET /a HTTP/1.0\r\n\r\n", 200, b"GET /a "),
        (b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 200, b"POST /a abc"),
        (
            b"POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: r\r\n\r\n",
            200,
            b"POST / abc",
        ),
        (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413, b"more than 1000 bytes"),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400, b"not a number"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, b"not a number"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, b"twice"),
        (b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc", 400, b"incomplete"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400, b"Transfer-Encoding"),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            400,
            b"Transfer-Encoding",
        ),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", 400, b"no size"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400, b"no end"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", 413, b"more than"),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 2000,
            413,
            b"more than",
        ),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 100,
            431,
            b"trailers",
        ),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 20_000 + b"\r\n\r\n", 431, b"headers"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 9000, 431, b"headers"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400, b"no name"),
        (b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400, b"no name"),
        (b"\x16\x03\x01\x02\r\n\r\n", 400, b"request line"),
        (b"GET / HTTP/2.0\r\n\r\n", 505, b"HTTP/1.1"),
        (b"GET /\r\n\r\n", 400, b"request line"),
    ],
)
def test_each_request_has_one_answer(
    server: Running, request_: bytes, status: int, body: bytes
) -> None:
    answer = server.raw(request_)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert body in answer.partition(b"\r\n\r\n")[2]
    assert server.get() == 200


def test_a_connection_takes_several_requests_and_head_has_no_body(server: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    with contextlib.closing(connection):
        for method, body in (("GET", b"GET /y "), ("HEAD", b""), ("GET", b"GET /y ")):
            connection.request(method, "/y")
            assert connection.getresponse().read() == body


SLOW = {
    "silent": (b"", b""),
    "half a request line": (b"GE", b"T"),
    "headers without end": (b"GET / HTTP/1.1\r\n", b"A: b\r\n"),
    "body byte by byte": (b"POST / HTTP/1.1\r\nContent-Length: 900\r\n\r\n", b"x"),
    "chunks byte by byte": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1\r\nx\r\n",
    ),
}


@pytest.mark.parametrize("how", SLOW)
def test_a_slow_client_is_cut_off_at_its_deadline(server: Running, how: str) -> None:
    """However slowly its bytes come: the deadline is that of the whole request."""
    first, next_ = SLOW[how]
    began = time.monotonic()
    with server.connect() as client:
        client.settimeout(0.05)
        client.sendall(first)
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 20:
                try:
                    if not client.recv(65536):
                        break
                except TimeoutError:
                    client.sendall(next_)
    assert 0.4 <= time.monotonic() - began < 5


@pytest.mark.parametrize("number", [8, 64, 800])
def test_idle_clients_keep_nobody_out(number: int) -> None:
    patient = Bounds(connections=8, request_seconds=60.0)
    with Running(patient) as server, contextlib.ExitStack() as held:
        for _number in range(number):
            held.enter_context(server.connect())
        began = time.monotonic()
        assert [server.get() for _number in range(5)] == [200] * 5
        assert time.monotonic() - began < 5
        assert len(server.server._connections) <= 8


def test_an_idle_client_that_was_answered_gives_way_last(server: Running) -> None:
    answered = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    with contextlib.closing(answered), contextlib.ExitStack() as held:
        answered.request("GET", "/x")
        answered.getresponse().read()
        own = answered.sock
        for _number in range(100):
            held.enter_context(server.connect())
        assert server.get() == 200
        answered.request("GET", "/x")
        assert answered.getresponse().read() == b"GET /x " and answered.sock is own


def test_a_client_that_does_not_read_its_answer_is_cut_off() -> None:
    bounds = Bounds(connections=8, request_seconds=0.5, idle_seconds=60.0, body=2**22, bodies=2**24)
    with Running(bounds) as server, server.connect() as client:
        body = b"x" * 2**22
        client.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        began = time.monotonic()
        while server.server._connections and time.monotonic() - began < 20:
            threading.Event().wait(0.02)
        assert not server.server._connections


def test_a_refused_client_may_send_its_body_to_the_end(server: Running) -> None:
    """However slow the machine is, the refusal is not lost with a reset connection."""
    size = 2**20
    with server.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (2 * size))
        client.sendall(b"x" * size)
        threading.Event().wait(2 * BOUNDS.request_seconds)
        client.sendall(b"x" * size)
        assert client.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_connections_with_tls_stay_open_longer_than_a_request_may_take() -> None:
    certificate = self_signed()
    trust = ssl.create_default_context(cadata=certificate.pem)
    with Running(certificate=certificate) as server:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, context=trust, timeout=20
        )
        with contextlib.closing(connection):
            for _number in range(3):
                connection.request("GET", "/x")
                assert connection.getresponse().read() == b"GET /x "
                threading.Event().wait(2 * BOUNDS.request_seconds)


def test_bodies_together_have_a_limit(server: Running) -> None:
    head = b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + b"x" * 900
    with server.connect() as first:
        first.sendall(head)
        deadline = time.monotonic() + 20
        while server.server._held.number < 900 and time.monotonic() < deadline:
            threading.Event().wait(0.01)
        assert b"503" in server.raw(head)[:20]
    assert server.get() == 200


def test_a_taken_port_is_one_sentence(server: Running) -> None:
    async def start() -> None:
        HttpServer(server._answer, BOUNDS).start("127.0.0.1", server.port)

    with pytest.raises(InvalidInput, match=f"Cannot listen on port {server.port}"):
        asyncio.run(start())
