# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real HTTP(S) server for tests: a tree of JSON documents, with scripted misbehaviour.

It runs in a thread with its own event loop, on a free port, and records its requests. A path
without a document answers 404.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import json
import threading
import typing as t
import urllib.parse
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from support.certificates import Certificate, self_signed

SHARED_CERTIFICATE = self_signed()
Result = t.TypeVar("Result")


@dataclass(frozen=True)
class Reply:
    """One scripted answer. ``body`` is JSON unless it is bytes; ``drop`` resets the connection."""

    status: int = 200
    body: t.Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    drop: bool = False


@dataclass(frozen=True)
class Received:
    """One request; ``path`` is without query and slash at the end."""

    method: str
    path: str
    content: bytes
    headers: Mapping[str, str]

    @property
    def body(self) -> t.Any:
        return json.loads(self.content) if self.content else None


Answer = Callable[[Received], Reply | None]
Document = Reply | Mapping[str, t.Any] | Sequence[Reply]


@dataclass
class _Seen:
    """A received request; written in the server's thread, read in the test's."""

    requests: collections.Counter[str] = field(default_factory=collections.Counter)
    authorizations: list[str | None] = field(default_factory=list)
    user_agents: set[str] = field(default_factory=set)
    in_flight: int = 0
    most_in_flight: int = 0
    peers: set[t.Any] = field(default_factory=set)
    contents: list[bytes] = field(default_factory=list)
    refused: collections.Counter[str] = field(default_factory=collections.Counter)


class HttpsServer:
    """Context manager. ``endpoint`` is its address; ``documents`` may change while it runs.

    A document is a JSON object, a Reply, or a list of Replies that are given in turn (the last one
    again and again). With ``account``, everything except the service root requires it. With
    ``expand``, the query ``$expand`` works on collections, one level deep. With ``own_address``, a
    path without a slash at the end is redirected there, as by iLO. ``answer`` gets each request before
    the documents and may answer it, in the server's thread.
    """

    def __init__(
        self,
        documents: Mapping[str, Document] | None = None,
        *,
        certificate: Certificate | None = SHARED_CERTIFICATE,
        host: str = "127.0.0.1",
        account: tuple[str, str] | None = None,
        expand: bool = False,
        delay_seconds: float = 0.0,
        own_address: str | None = None,
        answer: Answer | None = None,
    ) -> None:
        self.documents: dict[str, Document] = dict(documents or {})
        self.certificate = certificate
        self.account = account
        self.delay_seconds = delay_seconds
        self._expand = expand
        self._own_address = own_address
        self._answer_first = answer
        self._host = host
        self._seen = _Seen()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    @property
    def endpoint(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"

    @property
    def requests(self) -> collections.Counter[str]:
        """Number of requests to each path, queries included."""
        return self._seen.requests

    @property
    def total(self) -> int:
        return sum(self._seen.requests.values())

    @property
    def seen(self) -> _Seen:
        return self._seen

    def forget(self) -> None:
        """Reset the counts."""
        self._seen = _Seen()

    def __enter__(self) -> t.Self:
        self._thread.start()
        self._runner = self._in_thread(self._start())
        return self

    def __exit__(self, *_exception: object) -> None:
        self._in_thread(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _in_thread(self, coroutine: Coroutine[t.Any, t.Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _start(self) -> web.ServerRunner:
        server = web.Server(self._handle, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        context = self.certificate.server_context() if self.certificate else None
        await web.TCPSite(runner, self._host, 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        return runner

    async def _stop(self) -> None:
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._runner.cleanup()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = self._seen
        seen.requests[request.path_qs] += 1
        seen.authorizations.append(request.headers.get("Authorization"))
        seen.user_agents.add(request.headers.get("User-Agent", ""))
        seen.peers.add(request.transport and request.transport.get_extra_info("peername"))
        seen.in_flight += 1
        seen.most_in_flight = max(seen.most_in_flight, seen.in_flight)
        try:
            content = await request.read() if request.can_read_body else b""
            if content:
                seen.contents.append(content)
            return await self._answer(request, content)
        finally:
            seen.in_flight -= 1

    async def _answer(self, request: web.BaseRequest, content: bytes) -> web.StreamResponse:
        path = _identity(request.rel_url.raw_path)
        raw, question, query = request.path_qs.partition("?")
        if self._own_address is not None and not raw.endswith("/"):
            location = f"{self._own_address}{raw}/{question}{query}"
            return web.Response(status=308, headers={"Location": location})
        received = Received(request.method, path, content, request.headers)
        reply = self._answer_first(received) if self._answer_first else None
        reply = reply or self._next_reply(path)
        await asyncio.sleep(self.delay_seconds + reply.delay_seconds)
        if reply.drop:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if self.account and path != "/redfish/v1" and not self._is_authorized(request):
            self._seen.refused[path] += 1
            return web.Response(status=401)
        body = reply.body
        if self._expand and "$expand" in request.query and isinstance(body, Mapping):
            body = self._expanded(body)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **reply.headers}
        return web.Response(status=reply.status, body=content, headers=headers)

    def _next_reply(self, path: str) -> Reply:
        document = self.documents.get(path)
        if document is None:
            return Reply(404, {"error": {"code": "Base.1.0.ResourceMissingAtURI"}})
        if isinstance(document, Reply):
            return document
        if isinstance(document, Mapping):
            return Reply(body=document)
        if len(document) > 1:
            self.documents[path] = document[1:]
        return document[0]

    def _is_authorized(self, request: web.BaseRequest) -> bool:
        assert self.account is not None
        token = base64.b64encode(":".join(self.account).encode()).decode()
        return request.headers.get("Authorization") == f"Basic {token}"

    def _expanded(self, body: Mapping[str, t.Any]) -> dict[str, t.Any]:
        members = [
            self.documents.get(_identity(member["@odata.id"]), member)
            for member in body.get("Members", [])
        ]
        return {**body, "Members": members}


def _identity(path: str) -> str:
    return urllib.parse.unquote(path).rstrip("/") or "/"


def folder_documents(folder: Path) -> dict[str, Document]:
    """The documents of a sample folder: ``/redfish/v1/X`` is the file ``redfish/v1/X.json``."""
    return {
        f"/{path.relative_to(folder).with_suffix('')}": json.loads(path.read_text())
        for path in folder.rglob("*.json")
    }
