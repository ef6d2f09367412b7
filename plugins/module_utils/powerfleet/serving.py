# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The metrics endpoint, which serves the measurements of all fleets' runs over HTTP.

ansible-operator's own endpoint has no custom labels, so its metrics cannot name a node or fleet.
"""

from __future__ import annotations

import argparse
import http.server
import os
import signal
import socket
import socketserver
import sys
import threading
import time
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import metrics
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import exposition

PORT = 9090
RUNS_VARIABLE = "WATTWISE_RUNS"
# Prometheus uses one connection; further clients are refused before they cost memory.
_CONNECTIONS = 8
_CLIENT_SECONDS = 10.0


class MetricsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens when it is made; ``serve_forever`` answers until ``shutdown``."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: str, port: int, runs: Path, max_age_seconds: float) -> None:
        self.runs, self.max_age_seconds = runs, max_age_seconds
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        listens_on_both = not address and socket.has_dualstack_ipv6()
        if listens_on_both or ":" in address:
            self.address_family = socket.AF_INET6
        super().__init__((address, port), _Handler, bind_and_activate=False)
        try:
            if listens_on_both:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self.server_bind()
            self.server_activate()
        except BaseException:
            self.server_close()
            raise

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: t.Any, client_address: t.Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: t.Any, client_address: t.Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Log nothing about clients that disconnect or send nonsense."""

    def metrics(self) -> bytes:
        """The served content."""
        return exposition.collect(self.runs, time.time(), self.max_age_seconds).encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = _CLIENT_SECONDS
    server_version, sys_version = "wattwise", ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, self.server.metrics(), metrics.CONTENT_TYPE)
        elif path == "/healthz":
            self._answer(200, b"ok\n")
        else:
            self._answer(404, b"There is nothing here; the metrics are at /metrics.\n")

    do_HEAD = do_GET

    def _answer(self, status: int, body: bytes, content_type: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002 - its signature
        """Log nothing for each scrape."""


def main(arguments: t.Sequence[str] | None = None) -> int:
    """The container's program: 0 after a signal to end, 1 if it cannot listen."""
    parser = argparse.ArgumentParser(prog="metrics", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--address", default="", help="where to listen (everywhere)")
    parser.add_argument("--port", type=int, default=PORT, help="%(default)s")
    text = "leave out files that are older (%(default)s)"
    parser.add_argument(
        "--max-age", type=float, default=exposition.MAX_AGE_SECONDS, metavar="SECONDS", help=text
    )
    chosen = parser.parse_args(arguments)
    if not os.environ.get(RUNS_VARIABLE):
        return _complain(f"${RUNS_VARIABLE} does not say where the run folders are; set it")
    runs = Path(os.environ[RUNS_VARIABLE])
    try:
        server = MetricsServer(chosen.address, chosen.port, runs, chosen.max_age)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        return _complain(f"Cannot listen on port {chosen.port} of {chosen.address!r}: {reason}")

    def end(_number: int, _frame: t.Any) -> None:
        # In a thread, because it waits for the loop that this signal interrupts.
        threading.Thread(target=server.shutdown).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    sys.stdout.write(f"serving the metrics of {runs} on port {server.port}\n")
    sys.stdout.flush()
    with server:
        server.serve_forever()
    return 0


def _complain(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
