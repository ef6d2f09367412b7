# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The workflows with an approval, and the starts of their and of other templates' jobs."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ..base.errors import InvalidInput
from ..base.json_types import MutableObject, Object
from ..base.texts import shown_text
from .naming import Naming, listed, quoted
from .schedules import problem_of_recurrence

# Workflow, as schedules name it → the setting with its nodes, and its description.
WORKFLOWS: t.Mapping[str, tuple[str, str]] = {
    "place_with_approval": ("workflow_nodes", "Binds a plan after a person approved it."),
    "sleep_with_approval": (
        "sleep_workflow_nodes",
        "Switches machines off after a person approved it.",
    ),
}
EVENTS = ("started", "success", "error", "approvals")
LINKS = ("success_nodes", "failure_nodes", "always_nodes")
# Their jobs publish a summary, which the workflow's own notification lacks.
_NOTIFYING_PLAYBOOKS = ("bind", "place", "site")


class WorkflowObjects:
    """Builds the workflows, their approvers, schedules, and the notifications of templates."""

    def __init__(self, settings: Object, naming: Naming) -> None:
        self._of = settings
        self._naming = naming

    def events_of(self, playbook: str | None) -> MutableObject:
        """The notifications of a job template, or of a workflow, by event."""
        events = EVENTS if playbook is None else EVENTS[:3]
        return {
            f"notification_templates_{event}": [
                item["name"]
                for item in self._of["notifications"]
                if event in item.get("events", ("error", "success", "approvals"))
                and (playbook is None or playbook in item.get("playbooks", _NOTIFYING_PLAYBOOKS))
            ]
            for event in events
        }

    def workflows(self) -> list[MutableObject]:
        """The workflows that have nodes."""
        return [
            self._workflow(key, setting, description)
            for key, (setting, description) in WORKFLOWS.items()
            if self._of[setting]
        ]

    def _workflow(self, key: str, setting: str, description: str) -> MutableObject:
        item = {
            "name": self._naming.workflow(key),
            "organization": self._naming.organization,
            "inventory": self._naming.prefix,
            "ask_limit_on_launch": True,
            **self.events_of(None),
            "simplified_workflow_nodes": self._nodes(setting),
        }
        return self._naming.described(item, description)

    def _nodes(self, setting: str) -> list[MutableObject]:
        given = self._of[setting]
        identifiers = [node["identifier"] for node in given]
        templates = {
            item["playbook"]: item.get("name") or self._naming.template(item["playbook"])
            for item in self._of["job_templates"]
        }
        nodes: list[MutableObject] = []
        for node in given:
            linked = [name for link in LINKS for name in node.get(link) or []]
            if unknown := [name for name in linked if name not in identifiers]:
                raise InvalidInput(
                    f"awx_{setting}: node {quoted(node['identifier'])} leads to "
                    f"{listed(unknown)}, but the nodes are {listed(identifiers)}"
                )
            item: MutableObject = {"identifier": node["identifier"]}
            if node.get("approval"):
                item["approval_node"] = dict(node["approval"])
            elif node.get("playbook") in templates:
                item["unified_job_template"] = templates[node["playbook"]]
                item["lookup_organization"] = self._naming.organization
                item["extra_data"] = dict(node.get("extra_data") or {})
                item["job_tags"] = node.get("job_tags") or ""
            else:
                raise InvalidInput(
                    f"awx_{setting}: node {quoted(node['identifier'])} needs approval, or one "
                    f"of the playbooks {listed(templates)} of awx_job_templates"
                )
            nodes.append({**item, **{link: list(node.get(link) or []) for link in LINKS}})
        return nodes

    def schedule(self, given: MutableObject, names: Sequence[str]) -> MutableObject:
        """One schedule; ``names`` has all templates and workflows. Raises InvalidInput."""
        playbook = given["playbook"]
        is_workflow = playbook in WORKFLOWS
        template = (
            self._naming.workflow(playbook) if is_workflow else self._naming.template(playbook)
        )
        of_playbook = [
            item.get("name") or template
            for item in self._of["job_templates"]
            if item["playbook"] == playbook
        ]
        template = of_playbook[0] if of_playbook else template
        if template not in names:
            raise InvalidInput(
                f"awx_schedules: schedule {quoted(given['name'])} starts "
                f"{quoted(playbook)}, which is neither a playbook of awx_job_templates nor one of "
                f"the workflows {listed(WORKFLOWS)}"
            )
        # Ansible accepts null and numbers where an option is a text.
        if problem := problem_of_recurrence(str(given["rrule"] or "")):
            raise InvalidInput(
                f"awx_schedules: the rrule of schedule {quoted(given['name'])} "
                f"{shown_text(problem, 300)}"
            )
        item = {
            "name": given["name"],
            "organization": self._naming.organization,
            "unified_job_template": template,
            "rrule": given["rrule"],
            "enabled": bool(given.get("enabled", True)),
            "extra_data": dict(given.get("extra_data") or {}),
        }
        return self._naming.described(item, "")

    def roles(self) -> list[MutableObject]:
        """Approvers, in addition to administrators of the organization."""
        given = {"users": self._of["approver_users"], "teams": self._of["approver_teams"]}
        actors = {kind: list(names) for kind, names in given.items() if names}
        names = [item["name"] for item in self.workflows()]
        return [{"role": "approval", "workflows": names, **actors}] if actors and names else []
