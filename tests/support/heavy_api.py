# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server over real sockets whose objects are as large as a kube-apiserver takes them.

It honours limit and continue, and writes lists as kube-apiserver does: compact, < as six bytes.
"""

from __future__ import annotations

import http.server
import json
import threading
import typing as t
import urllib.parse

Json = dict[str, t.Any]

_LISTS: Json = {"kind": "AnyList", "apiVersion": "v1"}


def compact(value: t.Any) -> bytes:
    """JSON as Go's encoder writes it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode()


class HeavyApi:
    """Context manager. ``collections`` are by path; watches stay open and send ``events`` first."""

    def __init__(self, collections: t.Mapping[str, t.Sequence[Json]]) -> None:
        self.items = {path: [compact(one) for one in items] for path, items in collections.items()}
        self.events: dict[str, list[bytes]] = {}
        self.limits: dict[str, list[int]] = {}
        # Paths of watches whose events were all taken.
        self.watched: list[str] = []
        self._ended = threading.Event()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api.get(self)

            def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002 - its signature
                """Log nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> t.Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def get(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        parts = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        items = self.items.get(parts.path)
        if items is None:
            body = compact({"kind": "Status", "message": "not found"})
            handler.send_response(404)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
            return
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        if "watch" in query:
            for event in self.events.get(parts.path, []):
                _write(handler, event + b"\n")
            self.watched.append(parts.path)
            self._ended.wait()
            handler.close_connection = True
            return
        first, limit = int(query.get("continue", 0)), int(query.get("limit", 500))
        self.limits.setdefault(parts.path, []).append(limit)
        chosen = items[first : first + limit]
        token = str(first + limit) if first + limit < len(items) else ""
        metadata = {"resourceVersion": "7", **({"continue": token} if token else {})}
        head = compact({**_LISTS, "metadata": metadata})[:-1]
        _write(handler, head + b',"items":[')
        for number, item in enumerate(chosen):
            _write(handler, (b"," if number else b"") + item)
        _write(handler, b"]}\n")
        handler.wfile.write(b"0\r\n\r\n")


def _write(handler: http.server.BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
