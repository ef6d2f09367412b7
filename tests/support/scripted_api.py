# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real HTTP server with scripted answers that records its requests."""

from __future__ import annotations

import http.server
import json
import threading
import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    body: t.Any
    headers: t.Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """One scripted answer; ``drop`` closes the connection without one."""

    body: t.Any = None
    status: int = 200
    headers: t.Mapping[str, str] = field(default_factory=dict)
    drop: bool = False


def status_reply(code: int, message: str, **fields: t.Any) -> Reply:
    """An error in the form of the Kubernetes API."""
    body = {"kind": "Status", "apiVersion": "v1", "message": message, "code": code, **fields}
    return Reply(body, code)


Script = t.Callable[[Asked], Reply]


class ScriptedApi:
    """Context manager; ``url`` is its address, ``asked`` the requests so far."""

    def __init__(self, script: Script) -> None:
        self.asked: list[Asked] = []
        asked, lock = self.asked, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length)
                request = Asked(
                    self.command, self.path, json.loads(raw) if raw else None, dict(self.headers)
                )
                with lock:
                    asked.append(request)
                    reply = script(request)
                if reply.drop:
                    self.close_connection = True
                    return
                content = reply.body
                if not isinstance(content, bytes):
                    content = json.dumps({} if content is None else content).encode()
                self.send_response(reply.status)
                self.send_header("Content-Length", str(len(content)))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve

            def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002 - its signature
                """Log nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ScriptedApi:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def in_turn(*replies: Reply) -> Script:
    """The replies one after another, with the last one repeated."""
    remaining = list(replies)
    return lambda _asked: remaining.pop(0) if len(remaining) > 1 else remaining[0]
