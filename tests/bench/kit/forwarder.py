# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP server that forwards POSTs to another server and times them."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Traffic:
    """Forwarded requests; `spans` has the start and end of each, in seconds."""

    spans: list[tuple[float, float]] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return len(self.spans)

    @property
    def busy_seconds(self) -> float:
        """Time during which at least one request was with the other server."""
        total, reached = 0.0, float("-inf")
        for begin, end in sorted(self.spans):
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        return total


@contextlib.contextmanager
def forwarding(port: int) -> Iterator[tuple[int, Traffic]]:
    """Forward to this port of loopback; yields the port to use instead."""
    traffic = Traffic()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            begin = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port)
            with contextlib.closing(connection):
                headers = {"Content-Type": self.headers["Content-Type"]}
                connection.request("POST", self.path, body, headers)
                answer = connection.getresponse()
                data = answer.read()
            traffic.spans.append((begin, time.monotonic()))
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in its parent
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], traffic
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
