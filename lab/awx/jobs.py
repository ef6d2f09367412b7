# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs and project updates of the simulated AWX: their records, variables, credentials and ends."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.awx import credentials, surveys
from lab.awx.kinds import KINDS
from lab.awx.store import Refusal, Store, accepted_answers

Json = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One job, in the form that its container gets."""

    number: int
    playbook: str
    tags: str
    extra_vars: Json
    environment: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """Result of a job, and its artifacts from set_stats."""

    successful: bool = True
    artifacts: Json = field(default_factory=dict)


Runner = Callable[[Job], Outcome]

_UPDATE_SECONDS = 0.1


class Jobs:
    """Launches and records jobs; ``runner`` runs one, in a thread of its own.

    ``failing_sources`` names sources of inventories whose updates fail. An inventory stays for
    ``deletion_seconds`` after its deletion.
    """

    def __init__(
        self,
        store: Store,
        runner: Runner,
        failing_sources: frozenset[str] = frozenset(),
        deletion_seconds: float = 0.1,
    ) -> None:
        self._deletion_seconds = deletion_seconds
        self._store = store
        self._runner = runner
        self._failing_sources = failing_sources
        self.records: dict[str, dict[int, Json]] = {
            kind: {} for kind in ("jobs", "workflow_jobs", "workflow_approvals", "project_updates")
        }
        self._running: set[asyncio.Task[None]] = set()

    def record(self, kind: str, **values: Any) -> Json:
        """A new record of a job of this kind, which has not begun."""
        number = next(self._store.numbers)
        record = {
            "id": number,
            "type": kind[:-1],
            "url": f"/api/v2/{kind}/{number}/",
            "status": "pending",
            "failed": False,
            "finished": None,
            "related": {},
            "summary_fields": {},
            **values,
        }
        self.records[kind][number] = record
        return record

    def start(self, work: Awaitable[None]) -> None:
        """Begin work in the background; ``stop`` ends it."""

        async def run() -> None:
            await work

        task = asyncio.create_task(run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def stop(self) -> None:
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def refuse_while_active(self, endpoint: str, number: int) -> None:
        """Refuse to delete an object that unfinished jobs use."""
        name = KINDS[endpoint].type
        active = [
            {"id": record["id"], "type": record["type"]}
            for kind in ("jobs", "workflow_jobs", "project_updates")
            for record in self.records[kind].values()
            if record["finished"] is None and record.get(name) == number
        ]
        if active:
            told = "Resource is being used by running jobs."
            raise Refusal(409, {"error": told, "active_jobs": active})

    def delete_inventory(self, number: int) -> None:
        """Delete it in the background, as AWX does."""
        self._store.begin_deletion(number)

        async def deletion() -> None:
            await asyncio.sleep(self._deletion_seconds)
            self._store.delete("inventories", number)

        self.start(deletion())

    def update_project(self, number: int) -> Json:
        """Read the project; its playbooks are known afterwards."""
        item = self._store.get("projects", number)
        record = self.record(
            "project_updates",
            name=item["name"],
            project=number,
            organization=item["organization"],
            scm_revision="",
        )

        async def update() -> None:
            record["status"] = "running"
            await asyncio.sleep(_UPDATE_SECONDS)
            self._store.updated.add(number)
            record["scm_revision"] = "0" * 40
            self._store.get("projects", number)["scm_revision"] = record["scm_revision"]
            finish(record, "successful")

        self.start(update())
        return record

    def updates_of(self, project: int) -> Json:
        """The summary of a project's updates."""
        found = [
            record
            for record in self.records["project_updates"].values()
            if record["project"] == project
        ]
        return {
            "last_update" if record["finished"] else "current_update": {
                key: record[key] for key in ("id", "name", "status", "failed")
            }
            for record in found[-1:]
        }

    def launch(self, template: int, answers: Json) -> Json:
        """Start a job; answers must respect the survey's limits, other variables are ignored."""
        accepted, others = accepted_answers(self._store, template, answers)
        record = self.prepare(template, accepted)
        self.start(self.run(record, template))
        return {**record, "ignored_fields": {"extra_vars": others} if others else {}}

    def prepare(self, template: int, variables: Json, tags: str = "") -> Json:
        """The record of a job, with AWX's precedence: template, defaults of its survey, variables."""
        item = self._store.get("job_templates", template)
        if item["project"] is None or item["inventory"] is None:
            told = "Job Template 'inventory' or 'project' is missing or undefined."
            raise Refusal(400, {"inventory": [told]})
        fixed = json.loads(item["extra_vars"] or "{}")
        spec = self._store.surveys.get(template, {}) if item["survey_enabled"] else {}
        merged = {**fixed, **surveys.defaults_of(spec), **variables}
        return self.record(
            "jobs",
            name=item["name"],
            playbook=item["playbook"],
            job_tags=tags,
            job_template=template,
            **{name: item[name] for name in ("project", "inventory", "organization")},
            extra_vars=json.dumps(merged),
            artifacts={},
            job_explanation="",
        )

    def _failed_update(self, template: int) -> str | None:
        """Reason why a job ends before it starts: a failed inventory source updated on launch."""
        inventory = self._store.get("job_templates", template)["inventory"]
        for number, source in self._store.objects["inventory_sources"].items():
            is_due = source["inventory"] == inventory and source["update_on_launch"]
            if is_due and source["name"] in self._failing_sources:
                name = f"{self._store.get('inventories', inventory)['name']} - {source['name']}"
                update = {"job_type": "inventory_update", "job_name": name, "job_id": str(number)}
                return f"Previous Task Failed: {json.dumps(update)}"
        return None

    async def run(self, record: Json, template: int) -> None:
        """Run a prepared job to its end."""
        if failed := self._failed_update(template):
            record["job_explanation"] = failed
            finish(record, "failed")
            return
        with tempfile.TemporaryDirectory() as folder:
            injected = self._injected(template, Path(folder))
            extra_vars = {**injected.extra_vars, **json.loads(record["extra_vars"])}
            environment = injected.environment
            job = Job(record["id"], record["playbook"], record["job_tags"], extra_vars, environment)
            record["status"] = "running"
            outcome = await asyncio.to_thread(self._runner, job)
        record["artifacts"] = outcome.artifacts
        finish(record, "successful" if outcome.successful else "failed")

    def _injected(self, template: int, folder: Path) -> credentials.Injected:
        all_of_them = credentials.Injected()
        for number in self._store.associations.get((template, "credentials"), []):
            item = self._store.get("credentials", number)
            kind = self._store.get("credential_types", item["credential_type"])
            one = credentials.inject(kind["injectors"], item["inputs"], folder)
            all_of_them.environment.update(one.environment)
            all_of_them.extra_vars.update(one.extra_vars)
        return all_of_them


def finish(record: Json, status: str) -> None:
    """Give a record its last status."""
    record.update(status=status, failed=status != "successful", finished="2026-01-01T00:00:00Z")
