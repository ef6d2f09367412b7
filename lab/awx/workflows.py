# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workflow jobs of the simulated AWX: the order of nodes, artifacts, approvals and their timeouts.

Variables have AWX's precedence: template, defaults of its survey, node, artifacts of all previous
nodes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from lab.awx.jobs import Jobs, finish
from lab.awx.kinds import LINKS
from lab.awx.store import Refusal, Store, check_answers

Json = dict[str, Any]

_NO_PATH = "No error handling paths found, marking workflow as failed"


@dataclass
class _Node:
    """A node of a running workflow."""

    number: int
    identifier: str
    template: int
    extra_data: Json
    tags: str
    status: str = ""
    job: int | None = None
    artifacts: Json = field(default_factory=dict)


class Workflows:
    """Launches workflow jobs, whose nodes run jobs or wait for an approval."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs
        self.nodes: dict[int, list[_Node]] = {}
        self._decided: dict[int, asyncio.Future[str]] = {}

    def launch(self, template: int, answers: Json) -> Json:
        """Start a workflow job; it accepts only variables that its template prompts for."""
        check_answers(self._store, template, answers)
        item = self._store.get("workflow_job_templates", template)
        record = self._jobs.record(
            "workflow_jobs",
            name=item["name"],
            workflow_job_template=template,
            organization=item["organization"],
            extra_vars=answers,
            job_explanation="",
        )
        nodes = [
            _Node(
                number,
                node["identifier"],
                node["unified_job_template"],
                node["extra_data"],
                node["job_tags"] or "",
            )
            for number, node in self._store.objects["workflow_job_template_nodes"].items()
            if node["workflow_job_template"] == template
        ]
        self.nodes[record["id"]] = nodes
        self._jobs.start(self._run(record, nodes))
        return record

    def decide(self, number: int, decision: str) -> None:
        """Decide a waiting approval: ``approve`` or ``deny``."""
        if number not in self._decided or self._decided[number].done():
            raise Refusal(400, {"error": "This workflow step has already been approved or denied."})
        self._decided[number].set_result(decision)

    async def _run(self, record: Json, nodes: list[_Node]) -> None:
        record["status"] = "running"
        links = self._store.associations
        waiting = {node.number: node for node in nodes}
        led_to = {
            number
            for node in nodes
            for link in LINKS
            for number in links.get((node.number, link), [])
        }
        ready: list[tuple[_Node, Json]] = [
            (node, {}) for node in nodes if node.number not in led_to
        ]
        unhandled = False
        while ready:
            node, artifacts = ready.pop(0)
            del waiting[node.number]
            await self._run_node(node, artifacts, record)
            followers = list(links.get((node.number, "always_nodes"), []))
            kind = "success_nodes" if node.status == "successful" else "failure_nodes"
            followers += links.get((node.number, kind), [])
            unhandled |= node.status != "successful" and not followers
            handed = {**artifacts, **node.artifacts}
            ready += [(waiting[number], handed) for number in followers if number in waiting]
        record["job_explanation"] = _NO_PATH if unhandled else ""
        finish(record, "failed" if unhandled else "successful")

    def deny_approvals_of(self, template: int) -> None:
        """Deny the waiting approvals of a template that is deleted."""
        for number, record in self._jobs.records["workflow_approvals"].items():
            if record["workflow_approval_template"] == template and not record["finished"]:
                self.decide(number, "deny")

    async def _run_node(self, node: _Node, artifacts: Json, workflow: Json) -> None:
        if not any(node.template in objects for objects in self._store.objects.values()):
            node.status = "failed"
            return
        endpoint = self._store.endpoint_of(node.template)
        if endpoint == "workflow_approval_templates":
            await self._wait_for_approval(node, workflow)
            return
        variables = {**node.extra_data, **artifacts, **workflow["extra_vars"]}
        job = self._jobs.prepare(node.template, variables, node.tags)
        node.job = job["id"]
        await self._jobs.run(job, node.template)
        node.status, node.artifacts = job["status"], job["artifacts"]

    async def _wait_for_approval(self, node: _Node, workflow: Json) -> None:
        template = self._store.get("workflow_approval_templates", node.template)
        record = self._jobs.record(
            "workflow_approvals",
            name=template["name"],
            timed_out=False,
            workflow_approval_template=node.template,
            workflow_job_template=workflow["workflow_job_template"],
        )
        node.job = record["id"]
        decided: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._decided[record["id"]] = decided
        try:
            decision = await asyncio.wait_for(decided, template["timeout"] or None)
        except TimeoutError:
            record["timed_out"] = True
            decision = "deny"
        node.status = "successful" if decision == "approve" else "failed"
        finish(record, node.status)
