# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests about jobs of the simulated AWX: launches, records and approvals."""

from __future__ import annotations

import json

from aiohttp import web

from lab.awx.access import Access
from lab.awx.instance import Awx
from lab.awx.messages import body_of, number_of, page_of
from lab.awx.store import Refusal
from lab.awx.views import refuse_empty_lists


class JobRoutes:
    """Jobs, workflow jobs, approvals and updates of projects."""

    def __init__(self, awx: Awx, access: Access) -> None:
        self._access = access
        self._store = awx.store
        self._jobs = awx.jobs
        self._workflows = awx.workflows

    def routes(self) -> list[web.RouteDef]:
        """The routes, to be matched before those of the objects' associations."""
        templates = "/api/v2/{kind:job_templates|workflow_job_templates}/{id:\\d+}/"
        jobs = "/api/v2/{kind:jobs|workflow_jobs|workflow_approvals|project_updates}/"
        records = jobs + "{id:\\d+}/"
        return [
            web.post("/api/v2/projects/{id:\\d+}/update/", self._update_project),
            web.post(templates + "launch/", self._launch),
            web.get("/api/v2/workflow_jobs/{id:\\d+}/workflow_nodes/", self._workflow_nodes),
            web.post(records + "{decision:approve|deny}/", self._decide),
            web.get(records, self._job),
            web.get(jobs, self._list_jobs),
        ]

    async def _update_project(self, request: web.Request) -> web.Response:
        item = self._store.get("projects", number_of(request))
        self._access.require(request, item["organization"])
        record = self._jobs.update_project(number_of(request))
        return web.json_response({**record, "project_update": record["id"]}, status=202)

    async def _launch(self, request: web.Request) -> web.Response:
        answers = (await body_of(request)).get("extra_vars") or {}
        answers = json.loads(answers) if isinstance(answers, str) else answers
        self._access.require_execution(request)
        of_workflow = request.match_info["kind"] == "workflow_job_templates"
        launch = self._workflows.launch if of_workflow else self._jobs.launch
        record = launch(number_of(request), answers)
        return web.json_response({**record, record["type"]: record["id"]}, status=201)

    async def _job(self, request: web.Request) -> web.Response:
        record = self._jobs.records[request.match_info["kind"]].get(number_of(request))
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
        return page_of(request, found)

    async def _workflow_nodes(self, request: web.Request) -> web.Response:
        """Nodes of a workflow job; ``job__name`` selects those whose job has this name."""
        found = []
        for node in self._workflows.nodes.get(number_of(request), []):
            for kind, records in self._jobs.records.items():
                record = records.get(node.job or 0)
                if record and request.query.get("job__name") in (None, record["name"]):
                    url = f"/api/v2/{kind}/{record['id']}/"
                    related = {"job": url}
                    found.append(
                        {"id": node.number, "identifier": node.identifier, "related": related}
                    )
        return page_of(request, found)

    async def _decide(self, request: web.Request) -> web.Response:
        record = self._jobs.records["workflow_approvals"].get(number_of(request))
        if record is None:
            raise Refusal(404, {"detail": "Not found."})
        self._access.require_decision(request, record["workflow_job_template"])
        self._workflows.decide(number_of(request), request.match_info["decision"])
        return web.Response(status=204)
