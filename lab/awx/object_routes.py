# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests about objects of the simulated AWX, with their associations, roles and surveys."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from lab.awx import surveys
from lab.awx.access import Access
from lab.awx.instance import Awx
from lab.awx.kinds import KINDS
from lab.awx.messages import body_of, number_of, page_of
from lab.awx.store import Refusal
from lab.awx.views import find, shown

Json = dict[str, Any]

_NODES = "workflow_job_template_nodes"


class ObjectRoutes:
    """Lists and objects of all kinds."""

    def __init__(self, awx: Awx, access: Access) -> None:
        self._access = access
        self._store = awx.store
        self._jobs = awx.jobs
        self._workflows = awx.workflows

    def routes(self) -> list[web.RouteDef]:
        """The routes, with the special ones before those of all associations."""
        kinds = "|".join([*KINDS, "unified_job_templates"])
        item = "/api/v2/{kind:" + kinds + "}/{id:\\d+}/"
        templates = "/api/v2/{kind:job_templates|workflow_job_templates}/{id:\\d+}/"
        return [
            web.route("*", templates + "survey_spec/", self._survey),
            web.post(
                "/api/v2/workflow_job_template_nodes/{id:\\d+}/create_approval_template/",
                self._approval_template,
            ),
            web.route("*", "/api/v2/roles/{id:\\d+}/{actors:users|teams}/", self._role),
            web.route("*", "/api/v2/{kind:" + kinds + "}/", self._list),
            web.route("*", item + "{association:[a-z_]+}/", self._association),
            web.route("*", item, self._item),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        kind = request.match_info["kind"]
        if request.method == "POST":
            body = await body_of(request)
            self._access.require(request, self._store.organization_of(kind, body))
            number = self._store.create(kind, body)
            self._update_if_changed(kind, number, body)
            return web.json_response(self._shown(kind, number), status=201)
        return page_of(
            request, [self._with_updates(i) for i in find(self._store, kind, request.query)]
        )

    def _shown(self, kind: str, number: int) -> Json:
        return self._with_updates(shown(self._store, kind, number))

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
        kind, number = request.match_info["kind"], number_of(request)
        if request.method == "DELETE":
            self._access.require_object(request)
            self._jobs.refuse_while_active(kind, number)
            if kind == "inventories":
                self._jobs.delete_inventory(number)
                return web.Response(status=202)
            self._store.delete(kind, number)
            return web.Response(status=204)
        if request.method == "PATCH":
            self._access.require_object(request)
            body = await body_of(request)
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
            number_of(request),
        )
        target = KINDS[kind].associations.get(name)
        if target is None:
            raise Refusal(404, {"detail": "Not found."})
        ids = self._store.associations.setdefault((number, name), [])
        if request.method == "POST":
            self._access.require_object(request)
            body = await body_of(request)
            if target == _NODES and not body.get("disassociate"):
                self._store.refuse_link(name, number, body["id"])
        return await self._associate(request, target, ids)

    async def _role(self, request: web.Request) -> web.Response:
        holders = self._store.roles.get(number_of(request))
        if holders is None:
            raise Refusal(404, {"detail": "Not found."})
        actors = request.match_info["actors"]
        if request.method == "POST":
            self._access.require_role(request, number_of(request))
        return await self._associate(request, actors, holders[actors])

    async def _associate(self, request: web.Request, target: str, ids: list[int]) -> web.Response:
        if request.method == "POST":
            body = await body_of(request)
            if body["id"] not in self._store.objects[target]:
                model = KINDS[target].type.title().replace("_", "")
                raise Refusal(400, {"detail": f"{model} matching query does not exist."})
            if body.get("disassociate") and body["id"] in ids:
                ids.remove(body["id"])
            elif not body.get("disassociate") and body["id"] not in ids:
                ids.append(body["id"])
            return web.Response(status=204)
        return page_of(request, [shown(self._store, target, number) for number in ids])

    async def _survey(self, request: web.Request) -> web.Response:
        number = number_of(request)
        self._store.get(request.match_info["kind"], number)
        if request.method != "GET":
            self._access.require_object(request)
        if request.method == "POST":
            spec = await body_of(request)
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
            self._workflows.deny_approvals_of(template)

    async def _approval_template(self, request: web.Request) -> web.Response:
        node = self._store.get(_NODES, number_of(request))
        self._access.require(request, self._store.organization_of(_NODES, node))
        number = self._store.create("workflow_approval_templates", await body_of(request))
        self._drop_approval(number_of(request))
        node["unified_job_template"] = number
        return web.json_response(
            shown(self._store, "workflow_approval_templates", number), status=201
        )
