# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The workflow with an approval, and the starts of its and of other templates' jobs."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import InvalidInput
from ..base.json_types import MutableObject, Object
from ..base.texts import shown_text
from .naming import Naming, listed, quoted
from .schedules import problem_of_recurrence

WORKFLOW = "place_with_approval"
EVENTS = ("started", "success", "error", "approvals")
LINKS = ("success_nodes", "failure_nodes", "always_nodes")
# Their jobs publish a summary, which the workflow's own notification lacks.
_NOTIFYING_PLAYBOOKS = ("bind", "place", "site")


class WorkflowObjects:
    """Builds the workflow, its approvers, schedules, and the notifications of templates."""

    def __init__(self, settings: Object, naming: Naming) -> None:
        self._of = settings
        self._naming = naming

    def events_of(self, playbook: str | None) -> MutableObject:
        """The notifications of a job template, or of the workflow, by event."""
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
        """The workflow; none without nodes."""
        if not self._of["workflow_nodes"]:
            return []
        item = {
            "name": self._naming.workflow,
            "organization": self._naming.organization,
            "inventory": self._naming.prefix,
            "ask_limit_on_launch": True,
            **self.events_of(None),
            "simplified_workflow_nodes": self._nodes(),
        }
        return [self._naming.described(item, "Binds a plan after a person approved it.")]

    def _nodes(self) -> list[MutableObject]:
        given = self._of["workflow_nodes"]
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
                    f"awx_workflow_nodes: node {quoted(node['identifier'])} leads to "
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
                    f"awx_workflow_nodes: node {quoted(node['identifier'])} needs approval, or one "
                    f"of the playbooks {listed(templates)} of awx_job_templates"
                )
            nodes.append({**item, **{link: list(node.get(link) or []) for link in LINKS}})
        return nodes

    def schedule(self, given: MutableObject, names: Sequence[str]) -> MutableObject:
        """One schedule; ``names`` has all templates and workflows. Raises InvalidInput."""
        is_workflow = given["playbook"] == WORKFLOW
        template = (
            self._naming.workflow if is_workflow else self._naming.template(given["playbook"])
        )
        of_playbook = [
            item.get("name") or template
            for item in self._of["job_templates"]
            if item["playbook"] == given["playbook"]
        ]
        template = of_playbook[0] if of_playbook else template
        if template not in names:
            raise InvalidInput(
                f"awx_schedules: schedule {quoted(given['name'])} starts "
                f"{quoted(given['playbook'])}, which is neither a playbook of awx_job_templates "
                f"nor {WORKFLOW}"
            )
        if problem := problem_of_recurrence(given["rrule"]):
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
        if not actors or not self._of["workflow_nodes"]:
            return []
        return [{"role": "approval", "workflows": [self._naming.workflow], **actors}]
