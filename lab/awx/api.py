# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP API of the simulated AWX."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from lab.awx import surveys
from lab.awx.jobs import Job, Jobs, Outcome, Runner
from lab.awx.kinds import KINDS
from lab.awx.store import Refusal, Store, refuse_empty_lists
from lab.process import REPOSITORY
from lab.serving import in_thread, serving_on_loopback
from lab.state import LabSettings, LabState

Json = dict[str, Any]

ADMINISTRATOR = ("admin", "Secret of admin")
# The administrator's token, which the lab's inventory has.
LAB_TOKEN = "token-of-the-lab"
_PAGE = 25
_NODES = "workflow_job_template_nodes"
_HEADERS = {"X-API-Product-Name": "AWX"}
_FORBIDDEN = {"detail": "You do not have permission to perform this action."}


@dataclass(frozen=True)
class Token:
    """A user's token; one of scope ``read`` writes nothing."""

    number: int
    account: str
    scope: str


@dataclass
class Awx:
    """A simulated AWX. ``requests`` are the writing ones, as texts."""

    port: int
    store: Store
    jobs: Jobs
    version: str = "24.6.1"
    tokens: dict[str, Token] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def token_of(self, account: str, scope: str = "write") -> str:
        """A new token, as a user would create one."""
        token = f"token-of-{account}-{next(self.store.numbers)}"
        self.tokens[token] = Token(next(self.store.numbers), account, scope)
        return token

    def may_change(self, account: str, organization: int | None) -> bool:
        """Whether the account may change objects of the organization, or global ones for None."""
        number, user = self.find("users", account)
        role = self.store.role_ids.get((organization or 0, "admin"), 0)
        return user["is_superuser"] or number in self.store.roles.get(role, {}).get("users", [])

    def names(self, endpoint: str) -> list[str]:
        """The names of all objects of a kind."""
        name = KINDS[endpoint].name
        return [item[name] for item in self.store.objects[endpoint].values()]

    def find(self, endpoint: str, name: str) -> tuple[int, Json]:
        """Id and fields of an object."""
        field_name = KINDS[endpoint].name
        return next(
            (number, item)
            for number, item in self.store.objects[endpoint].items()
            if item[field_name] == name
        )


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
    return Awx(port, store, jobs, version)


@contextlib.asynccontextmanager
async def _serving(awx: Awx) -> AsyncIterator[None]:
    application = web.Application(middlewares=[_answers(awx)])
    application.add_routes(_Api(awx).routes())
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
        known = _account(awx, request)
        if request.path != "/api/v2/ping/" and known is None:
            told = {"detail": "Authentication credentials were not provided or are invalid."}
            return web.json_response(told, status=401, headers=headers)
        if request.method != "GET" and known is not None and known.scope == "read":
            return web.json_response(_FORBIDDEN, status=403, headers=headers)
        if request.method != "GET" and not request.path.startswith("/api/v2/tokens"):
            awx.requests.append(f"{request.method} {request.path}")
        try:
            answer = await handler(request)
        except Refusal as refusal:
            return web.json_response(refusal.body, status=refusal.status, headers=headers)
        answer.headers.update(headers)
        return answer

    return middleware


def _account(awx: Awx, request: web.Request) -> Token | None:
    """The account of a request, also for a password."""
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind == "Bearer":
        return awx.tokens.get(value)
    if kind == "Basic":
        name, _, password = base64.b64decode(value).decode().partition(":")
        for user in awx.store.objects["users"].values():
            if (user["username"], user["password"]) == (name, password):
                return Token(0, name, "write")
    return None


class _Api:
    def __init__(self, awx: Awx) -> None:
        self._awx = awx
        self._store = awx.store
        self._jobs = awx.jobs

    def routes(self) -> list[web.RouteDef]:
        kinds = "|".join([*KINDS, "unified_job_templates"])
        item = "/api/v2/{kind:" + kinds + "}/{id:\\d+}/"
        templates = "/api/v2/{kind:job_templates|workflow_job_templates}/{id:\\d+}/"
        jobs = "/api/v2/{kind:jobs|workflow_jobs|workflow_approvals|project_updates}/"
        records = jobs + "{id:\\d+}/"
        return [
            web.get("/api/v2/ping/", self._ping),
            web.get("/api/v2/config/", self._ping),
            web.get("/api/v2/me/", self._me),
            web.post("/api/v2/tokens/", self._make_token),
            web.delete("/api/v2/tokens/{id:\\d+}/", self._delete_token),
            web.post("/api/v2/projects/{id:\\d+}/update/", self._update_project),
            web.route("*", templates + "survey_spec/", self._survey),
            web.post(templates + "launch/", self._launch),
            web.post(
                "/api/v2/workflow_job_template_nodes/{id:\\d+}/create_approval_template/",
                self._approval_template,
            ),
            web.get("/api/v2/workflow_jobs/{id:\\d+}/workflow_nodes/", self._workflow_nodes),
            web.post(records + "{decision:approve|deny}/", self._decide),
            web.get(records, self._job),
            web.get(jobs, self._list_jobs),
            web.route("*", "/api/v2/roles/{id:\\d+}/{actors:users|teams}/", self._role),
            web.route("*", "/api/v2/{kind:" + kinds + "}/", self._list),
            web.route("*", item + "{association:[a-z_]+}/", self._association),
            web.route("*", item, self._item),
        ]

    async def _ping(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": self._awx.version})

    def _requester(self, request: web.Request) -> str:
        known = _account(self._awx, request)
        assert known is not None  # Else the request was refused.
        return known.account

    def _require(self, request: web.Request, organization: int | None) -> None:
        if not self._awx.may_change(self._requester(request), organization):
            raise Refusal(403, _FORBIDDEN)

    def _require_object(self, request: web.Request) -> None:
        """Refuse the request if its account may not change its object."""
        kind, number = request.match_info["kind"], _id(request)
        item = self._store.get(kind, number)
        own = number if kind == "organizations" else self._store.organization_of(kind, item)
        self._require(request, own)

    async def _me(self, request: web.Request) -> web.Response:
        number, _user = self._awx.find("users", self._requester(request))
        return _page(request, [self._store.shown("users", number)])

    async def _make_token(self, request: web.Request) -> web.Response:
        scope = (await _body(request)).get("scope", "write")
        token = self._awx.token_of(self._requester(request), scope)
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
            if token.number == _id(request):
                del self._awx.tokens[text]
        return web.Response(status=204)

    async def _list(self, request: web.Request) -> web.Response:
        kind = request.match_info["kind"]
        if request.method == "POST":
            body = await _body(request)
            self._require(request, self._store.organization_of(kind, body))
            number = self._store.create(kind, body)
            self._update_if_changed(kind, number, body)
            return web.json_response(self._shown(kind, number), status=201)
        return _page(
            request, [self._with_updates(i) for i in self._store.find(kind, request.query)]
        )

    def _shown(self, kind: str, number: int) -> Json:
        return self._with_updates(self._store.shown(kind, number))

    def _with_updates(self, shown: Json) -> Json:
        if shown["type"] == "project":
            shown["summary_fields"] |= self._jobs.updates_of(shown["id"])
        return shown

    def _update_if_changed(self, kind: str, number: int, body: Json) -> None:
        """Update a project that gets a source."""
        sources = {"scm_type", "scm_url", "scm_branch", "credential"}
        if kind == "projects" and sources & body.keys():
            self._jobs.update_project(number)

    async def _item(self, request: web.Request) -> web.Response:
        kind, number = request.match_info["kind"], _id(request)
        if request.method == "DELETE":
            self._require_object(request)
            self._jobs.refuse_while_active(kind, number)
            if kind == "inventories":
                self._jobs.delete_inventory(number)
                return web.Response(status=202)
            self._store.delete(kind, number)
            return web.Response(status=204)
        if request.method == "PATCH":
            self._require_object(request)
            body = await _body(request)
            template = self._store.get(kind, number).get("unified_job_template")
            if kind == _NODES and body.get("unified_job_template", template) != template:
                self._drop_approval(number)
            self._store.update(kind, number, body)
            self._update_if_changed(kind, number, body)
        return web.json_response(self._shown(kind, number))

    async def _association(self, request: web.Request) -> web.Response:
        kind, name, number = (
            request.match_info["kind"],
            request.match_info["association"],
            _id(request),
        )
        target = KINDS[kind].associations.get(name)
        if target is None:
            raise Refusal(404, {"detail": "Not found."})
        ids = self._store.associations.setdefault((number, name), [])
        if request.method == "POST":
            self._require_object(request)
            body = await _body(request)
            if target == _NODES and not body.get("disassociate"):
                self._store.refuse_link(name, number, body["id"])
        return await self._associate(request, target, ids)

    async def _role(self, request: web.Request) -> web.Response:
        holders = self._store.roles.get(_id(request))
        if holders is None:
            raise Refusal(404, {"detail": "Not found."})
        actors = request.match_info["actors"]
        if request.method == "POST":
            self._require(request, self._organization_of_role(_id(request)))
        return await self._associate(request, actors, holders[actors])

    async def _associate(self, request: web.Request, target: str, ids: list[int]) -> web.Response:
        if request.method == "POST":
            body = await _body(request)
            if body["id"] not in self._store.objects[target]:
                model = KINDS[target].type.title().replace("_", "")
                raise Refusal(400, {"detail": f"{model} matching query does not exist."})
            if body.get("disassociate") and body["id"] in ids:
                ids.remove(body["id"])
            elif not body.get("disassociate") and body["id"] not in ids:
                ids.append(body["id"])
            return web.Response(status=204)
        return _page(request, [self._store.shown(target, number) for number in ids])

    def _organization_of_role(self, role: int) -> int | None:
        [owner] = [key[0] for key, number in self._store.role_ids.items() if number == role]
        kind = self._store.endpoint_of(owner)
        return (
            owner
            if kind == "organizations"
            else self._store.organization_of(kind, self._store.objects[kind][owner])
        )

    async def _survey(self, request: web.Request) -> web.Response:
        number = _id(request)
        self._store.get(request.match_info["kind"], number)
        if request.method != "GET":
            self._require_object(request)
        if request.method == "POST":
            spec = await _body(request)
            if problem := surveys.problem_of_spec(spec):
                raise Refusal(400, {"error": problem})
            self._store.surveys[number] = spec
        elif request.method == "DELETE":
            self._store.surveys.pop(number, None)
        else:
            return web.json_response(self._store.surveys.get(number, {}))
        return web.json_response({})

    def _drop_approval(self, node: int) -> None:
        """Delete the approval template of the node, and deny what waits for it."""
        if (template := self._store.drop_approval(node)) is not None:
            self._jobs.deny_approvals_of(template)

    async def _approval_template(self, request: web.Request) -> web.Response:
        node = self._store.get(_NODES, _id(request))
        self._require(request, self._store.organization_of(_NODES, node))
        number = self._store.create("workflow_approval_templates", await _body(request))
        self._drop_approval(_id(request))
        node["unified_job_template"] = number
        return web.json_response(
            self._store.shown("workflow_approval_templates", number), status=201
        )

    async def _update_project(self, request: web.Request) -> web.Response:
        item = self._store.get("projects", _id(request))
        self._require(request, item["organization"])
        record = self._jobs.update_project(_id(request))
        return web.json_response({**record, "project_update": record["id"]}, status=202)

    async def _launch(self, request: web.Request) -> web.Response:
        answers = (await _body(request)).get("extra_vars") or {}
        answers = json.loads(answers) if isinstance(answers, str) else answers
        self._require_execution(request)
        of_workflow = request.match_info["kind"] == "workflow_job_templates"
        launch = self._jobs.launch_workflow if of_workflow else self._jobs.launch
        record = launch(_id(request), answers)
        return web.json_response({**record, record["type"]: record["id"]}, status=201)

    def _require_execution(self, request: web.Request) -> None:
        self._store.get(request.match_info["kind"], _id(request))
        role = self._store.roles[self._store.role_ids[_id(request), "execute"]]
        user, _item = self._awx.find("users", self._requester(request))
        if user not in role["users"]:
            self._require_object(request)

    async def _job(self, request: web.Request) -> web.Response:
        record = self._jobs.records[request.match_info["kind"]].get(_id(request))
        if record is None:
            raise Refusal(404, {"detail": "Not found."})
        return web.json_response(record)

    async def _list_jobs(self, request: web.Request) -> web.Response:
        """Objects of a kind, filtered by ``id__in`` or ``name`` if given."""
        refuse_empty_lists(request.query)
        records = self._jobs.records[request.match_info["kind"]].values()
        numbers, name = request.query.get("id__in"), request.query.get("name")
        found = [
            record
            for record in records
            if (numbers is None or str(record["id"]) in numbers.split(","))
            and name in (None, record["name"])
        ]
        return _page(request, found)

    async def _workflow_nodes(self, request: web.Request) -> web.Response:
        """Nodes of a workflow job; ``job__name`` selects those whose job has this name."""
        found = []
        for node in self._jobs.nodes.get(_id(request), []):
            for kind, records in self._jobs.records.items():
                record = records.get(node.job or 0)
                if record and request.query.get("job__name") in (None, record["name"]):
                    url = f"/api/v2/{kind}/{record['id']}/"
                    related = {"job": url}
                    found.append(
                        {"id": node.number, "identifier": node.identifier, "related": related}
                    )
        return _page(request, found)

    async def _decide(self, request: web.Request) -> web.Response:
        """Administrators and holders of the role approval of the workflow decide."""
        record = self._jobs.records["workflow_approvals"].get(_id(request))
        if record is None:
            raise Refusal(404, {"detail": "Not found."})
        role = self._store.role_ids[record["workflow_job_template"], "approval"]
        user, _item = self._awx.find("users", self._requester(request))
        if user not in self._store.roles[role]["users"]:
            self._require(request, self._organization_of_role(role))
        self._jobs.decide(_id(request), request.match_info["decision"])
        return web.Response(status=204)


def _id(request: web.Request) -> int:
    return int(request.match_info["id"])


async def _body(request: web.Request) -> Json:
    text = await request.text()
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def _page(request: web.Request, found: list[Json]) -> web.Response:
    page, size = (int(request.query.get(n, d)) for n, d in (("page", 1), ("page_size", _PAGE)))
    after = request.rel_url.update_query(page=str(page + 1)) if page * size < len(found) else None
    results = found[(page - 1) * size : page * size]
    answer = {"count": len(found), "next": str(after) if after else None, "previous": None}
    return web.json_response({**answer, "results": results})
