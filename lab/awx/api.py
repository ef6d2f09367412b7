# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP API of the simulated AWX."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

from aiohttp import web

from lab.awx.access import FORBIDDEN, Access, account_of
from lab.awx.instance import Awx, Token
from lab.awx.job_routes import JobRoutes
from lab.awx.jobs import Job, Jobs, Outcome, Runner
from lab.awx.messages import body_of, number_of, page_of
from lab.awx.object_routes import ObjectRoutes
from lab.awx.store import Refusal, Store
from lab.awx.views import shown
from lab.awx.workflows import Workflows
from lab.process import REPOSITORY
from lab.serving import in_thread, serving_on_loopback
from lab.state import LabSettings, LabState

Json = dict[str, Any]

ADMINISTRATOR = ("admin", "Secret of admin")
# The administrator's token, which the lab's inventory has.
LAB_TOKEN = "token-of-the-lab"
_HEADERS = {"X-API-Product-Name": "AWX"}


def _succeed(_job: Job) -> Outcome:
    return Outcome()


@contextlib.contextmanager
def running_awx(
    playbooks: frozenset[str],
    runner: Runner = _succeed,
    lacking: Mapping[str, frozenset[str]] | None = None,
    accounts: Mapping[str, str] | None = None,
    version: str = "24.6.1",
    failing_sources: frozenset[str] = frozenset(),
    deletion_seconds: float = 0.1,
) -> Iterator[Awx]:
    """An AWX on a free port, in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    store = Store(playbooks, lacking or {})
    jobs = Jobs(store, runner, failing_sources, deletion_seconds)
    awx = _with_accounts(port, store, jobs, accounts or {}, version)
    with in_thread(_serving(awx)):
        yield awx


@contextlib.asynccontextmanager
async def serving(_state: LabState, settings: LabSettings) -> AsyncIterator[None]:
    """Serve the AWX of a lab."""
    files = (REPOSITORY / "playbooks").glob("*.yml")
    store = Store(frozenset(f"playbooks/{path.name}" for path in files), {})
    awx = _with_accounts(settings.ports["awx"], store, Jobs(store, _succeed), {}, Awx.version)
    awx.tokens[LAB_TOKEN] = Token(next(store.numbers), ADMINISTRATOR[0], "write")
    async with _serving(awx):
        yield


def _with_accounts(
    port: int, store: Store, jobs: Jobs, accounts: Mapping[str, str], version: str
) -> Awx:
    for name, password in ({ADMINISTRATOR[0]: ADMINISTRATOR[1], **accounts}).items():
        is_superuser = name == ADMINISTRATOR[0]
        user = {"username": name, "password": password, "is_superuser": is_superuser}
        store.create("users", user)
    return Awx(port, store, jobs, Workflows(store, jobs), version)


@contextlib.asynccontextmanager
async def _serving(awx: Awx) -> AsyncIterator[None]:
    application = web.Application(middlewares=[_answers(awx)])
    access = Access(awx)
    for routes in (_AccountRoutes, JobRoutes, ObjectRoutes):
        application.add_routes(routes(awx, access).routes())
    async with serving_on_loopback(application, awx.port):
        try:
            yield
        finally:
            await awx.jobs.stop()


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _answers(awx: Awx) -> Any:
    """Authentication, the version in each answer, and errors as JSON."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = {**_HEADERS, "X-API-Product-Version": awx.version}
        known = account_of(awx, request)
        if request.path != "/api/v2/ping/" and known is None:
            told = {"detail": "Authentication credentials were not provided or are invalid."}
            return web.json_response(told, status=401, headers=headers)
        if request.method != "GET" and known is not None and known.scope == "read":
            return web.json_response(FORBIDDEN, status=403, headers=headers)
        if request.method != "GET" and not request.path.startswith("/api/v2/tokens"):
            awx.requests.append(f"{request.method} {request.path}")
        try:
            answer = await handler(request)
        except Refusal as refusal:
            return web.json_response(refusal.body, status=refusal.status, headers=headers)
        answer.headers.update(headers)
        return answer

    return middleware


class _AccountRoutes:
    """The version, the account of a request, and tokens."""

    def __init__(self, awx: Awx, access: Access) -> None:
        self._awx = awx
        self._access = access

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v2/ping/", self._ping),
            web.get("/api/v2/config/", self._ping),
            web.get("/api/v2/me/", self._me),
            web.post("/api/v2/tokens/", self._make_token),
            web.delete("/api/v2/tokens/{id:\\d+}/", self._delete_token),
        ]

    async def _ping(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": self._awx.version})

    async def _me(self, request: web.Request) -> web.Response:
        number, _user = self._awx.find("users", self._access.requester(request))
        return page_of(request, [shown(self._awx.store, "users", number)])

    async def _make_token(self, request: web.Request) -> web.Response:
        scope = (await body_of(request)).get("scope", "write")
        token = self._awx.token_of(self._access.requester(request), scope)
        number = self._awx.tokens[token].number
        return web.json_response(
            {
                "id": number,
                "token": token,
                "type": "o_auth2_access_token",
                "url": f"/api/v2/tokens/{number}/",
            },
            status=201,
        )

    async def _delete_token(self, request: web.Request) -> web.Response:
        for text, token in list(self._awx.tokens.items()):
            if token.number == number_of(request):
                del self._awx.tokens[text]
        return web.Response(status=204)
