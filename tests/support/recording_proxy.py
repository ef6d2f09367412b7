# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy of an API server that records the RBAC permission of each request."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
import typing as t
from collections.abc import Iterator
from urllib.parse import urlsplit

import urllib3

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
_NAMESPACE_STATUS = ("status", "finalize")


class Permission(t.NamedTuple):
    """Unit of an RBAC rule; `resource` includes its subresource, as in pods/binding."""

    group: str
    resource: str
    verb: str


class Proxy:
    """The proxy's address and its requests; `refused` are those answered 403."""

    def __init__(self, port: int) -> None:
        self.server = f"http://127.0.0.1:{port}"
        self.used: set[Permission] = set()
        self.refused: list[str] = []

    def forget(self) -> None:
        self.used.clear()
        self.refused.clear()

    def note(self, method: str, path: str, status: int) -> None:
        if status == 403:
            self.refused.append(f"{method} {path}")
        permission = needed(method, path)
        if permission is not None:
            self.used.add(permission)
            if method == "PATCH" and status == 201:  # server-side apply that creates
                self.used.add(permission._replace(verb="create"))


def needed(method: str, path: str) -> Permission | None:
    """The permission that a request needs; None for discovery, which everybody may do."""
    found = _PATH.fullmatch(urlsplit(path).path)
    if found is None:
        return None
    resource, name = found["resource"], found["name"]
    if resource == "namespaces" and found["sub"] not in (None, *_NAMESPACE_STATUS):
        return None
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method)
    if verb is None:
        verb = "get" if name else "list"
    full = f"{resource}/{found['sub']}" if found["sub"] else resource
    return Permission(found["group"] or "", full, verb)


@contextlib.contextmanager
def recording_proxy(server: str, ca_path: str) -> Iterator[Proxy]:
    """Open a proxy of the API server; clients connect without TLS and with their own token."""
    pool = urllib3.PoolManager(ca_certs=ca_path, maxsize=32, block=True, retries=False)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            headers = {
                key: value
                for key, value in self.headers.items()
                if key.lower() not in ("host", "content-length", "accept-encoding", "connection")
            }
            answer = pool.request(self.command, server + self.path, body=body, headers=headers)
            proxy.note(self.command, self.path, answer.status)
            self.send_response(answer.status)
            for name in ("Content-Type", "Retry-After", "Warning"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            self.wfile.write(answer.data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in its parent
            """Log nothing."""

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy = Proxy(listener.server_address[1])
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
        pool.clear()
