# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server of lists and watches over real sockets; a test feeds and cuts off the watches."""

from __future__ import annotations

import contextlib
import http.server
import json
import queue
import threading
import typing as t
import urllib.parse
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.errors import LabError
from lab.process import wait_until

Json = dict[str, t.Any]
# Commands to a watch, besides bytes to send.
_END, _CUT = object(), object()


@dataclass(frozen=True)
class Asked:
    """One request: watches have ``watch`` in the query."""

    method: str
    path: str
    query: t.Mapping[str, str]
    body: t.Any = None

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query


@dataclass
class Served:
    """One collection: the content of its list, and the open watches."""

    items: list[Json] = field(default_factory=list)
    version: int = 1
    status: int = 200
    message: str = "no"
    # Answers to the next watches in place of a stream, by HTTP status.
    refused_watches: list[int] = field(default_factory=list)
    watches: list[queue.Queue[t.Any]] = field(default_factory=list)
    opened: int = 0


class WatchApi:
    """Context manager. ``collections`` are by path; other paths are not found."""

    def __init__(self) -> None:
        self.collections: dict[str, Served] = {}
        # Objects that can be read, by path.
        self.objects: dict[str, t.Callable[[], Json]] = {}
        self.asked: list[Asked] = []
        self.patch_status: list[int] = []
        self._lock = threading.Lock()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                api.get(self)

            def do_PATCH(self) -> None:
                api.patch(self)

            def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002 - its signature
                """Log nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> WatchApi:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        for served in self.collections.values():
            for watch in served.watches:
                watch.put(_CUT)
        self._server.shutdown()
        self._server.server_close()

    def kube(self) -> Kube:
        return Kube.connect({"host": self.url})

    def serve(self, path: str, *items: Json) -> Served:
        return self.collections.setdefault(path, Served(list(items)))

    def send(self, path: str, kind: str, item: Json) -> None:
        """Send an event on every open watch of the collection, and update its list."""
        served = self.collections[path]
        with self._lock:
            served.version += 1
            metadata = {**item["metadata"], "resourceVersion": str(served.version)}
            item = {**item, "metadata": metadata}
            name = metadata["name"]
            served.items = [each for each in served.items if each["metadata"]["name"] != name]
            if kind != "DELETED":
                served.items.append(item)
        self.send_bytes(path, json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def send_bytes(self, path: str, data: bytes) -> None:
        for watch in list(self.collections[path].watches):
            watch.put(data)

    def expire(self, path: str) -> None:
        """End the watches as a server does after compacting their version away."""
        status = {"kind": "Status", "code": 410, "message": "too old resource version"}
        self.send_bytes(path, json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        self.end(path)

    def end(self, path: str) -> None:
        """End the watches as a server does at their timeout."""
        for watch in list(self.collections[path].watches):
            watch.put(_END)

    def cut(self, path: str) -> None:
        """Close the connections of the watches in the middle of the answer."""
        for watch in list(self.collections[path].watches):
            watch.put(_CUT)

    def wait_for_watch(self, path: str, opened: int = 1) -> None:
        """Wait until this many watches of the collection were opened, and one is open."""
        served = self.collections[path]
        self.wait(lambda: served.opened >= opened and bool(served.watches), f"a watch of {path}")

    def wait(self, condition: t.Callable[[], bool], what: str, timeout: float = 20.0) -> None:
        """Return when the condition holds; a failure shows the requests so far."""
        try:
            wait_until(condition, timeout, what, interval=0.01)
        except LabError as error:
            raise AssertionError(f"{error} Asked: {self.asked}") from error

    @property
    def patches(self) -> list[Asked]:
        return [one for one in self.asked if one.method == "PATCH"]

    def get(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        parts = urllib.parse.urlsplit(handler.path)
        asked = Asked("GET", parts.path, dict(urllib.parse.parse_qsl(parts.query)))
        self.asked.append(asked)
        served = self.collections.get(parts.path)
        if parts.path in self.objects:
            _answer(handler, 200, self.objects[parts.path]())
        elif served is None or served.status != 200:
            refusal = {"kind": "Status", "message": served.message if served else "no"}
            _answer(handler, served.status if served else 404, refusal)
        elif not asked.is_watch:
            with self._lock:
                metadata = {"resourceVersion": str(served.version)}
                body = {"kind": "AnyList", "metadata": metadata, "items": served.items}
            _answer(handler, 200, body)
        elif served.refused_watches:
            status = served.refused_watches.pop(0)
            _answer(handler, status, {"kind": "Status", "message": "no", "code": status})
        else:
            self._stream(handler, served)

    def _stream(self, handler: http.server.BaseHTTPRequestHandler, served: Served) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        events: queue.Queue[t.Any] = queue.Queue()
        served.watches.append(events)
        served.opened += 1
        with contextlib.suppress(OSError):
            while isinstance(data := events.get(), bytes):
                handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                handler.wfile.flush()
            if data is _END:
                handler.wfile.write(b"0\r\n\r\n")
        served.watches.remove(events)
        handler.close_connection = True

    def patch(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        parts = urllib.parse.urlsplit(handler.path)
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        query = dict(urllib.parse.parse_qsl(parts.query))
        self.asked.append(Asked("PATCH", parts.path, query, body))
        status = self.patch_status.pop(0) if self.patch_status else 200
        _answer(handler, status, {"kind": "Status", "message": "no"} if status != 200 else {})


def _answer(handler: http.server.BaseHTTPRequestHandler, status: int, body: Json) -> None:
    content = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
