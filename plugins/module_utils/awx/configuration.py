# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The objects of AWX for one inventory, as items of awx.awx's modules.

The lists have the names and forms of collection ``infra.aap_configuration``, whose items have the
options of the modules of ``awx.awx``.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence

from ..base.argspec import ArgumentSpec
from ..base.errors import InvalidInput
from ..base.texts import shown_text
from .credential_types import CREDENTIAL_TYPES
from .schedules import problem_of_recurrence

Json = dict[str, t.Any]
Configuration = dict[str, list[Json]]

WORKFLOW = "place_with_approval"
EVENTS = ("started", "success", "error", "approvals")
# Their jobs publish a summary, which the workflow's own notification lacks.
_TOLD_PLAYBOOKS = ("bind", "place", "site")
_MAX_NAME_LENGTH = 512
_KEY = re.compile(r"\s*-----BEGIN (?:(?:RSA|DSA|EC|OPENSSH|ENCRYPTED) )?PRIVATE KEY-----\s")
LINKS = ("success_nodes", "failure_nodes", "always_nodes")

SPEC = ArgumentSpec(
    {
        "organization": {"type": "str", "required": True},
        "name_prefix": {"type": "str", "required": True},
        "execution_environment_image": {"type": "str", "default": ""},
        "project_url": {"type": "str", "required": True},
        "project_branch": {"type": "str", "default": ""},
        "project_credential": {"type": "str", "default": ""},
        "playbook_folder": {"type": "str", "default": "playbooks"},
        "inventory_variables": {"type": "dict", "default": {}},
        "inventory_sources": {"type": "list", "elements": "dict", "default": []},
        "credentials": {"type": "list", "elements": "dict", "default": []},
        "job_templates": {"type": "list", "elements": "dict", "default": []},
        "workflow_nodes": {"type": "list", "elements": "dict", "default": []},
        "approver_users": {"type": "list", "elements": "str", "default": []},
        "approver_teams": {"type": "list", "elements": "str", "default": []},
        "schedules": {"type": "list", "elements": "dict", "default": []},
        "notifications": {"type": "list", "elements": "dict", "default": []},
        "surveys": {"type": "dict", "default": {}},
    }
)


def configure(settings: Mapping[str, t.Any]) -> Configuration:
    """The objects for these complete settings.

    Raises InvalidInput for names that AWX's modules would misinterpret, for references to objects
    that the settings lack, and for recurrences that AWX refuses.
    """
    return _Configured(settings).lists()


def marker(organization: str) -> str:
    """The end of the description of every object that role awx made for an organization."""
    return f"Managed by wattwise.kube for organization {organization}."


def item_name(item: Mapping[str, t.Any]) -> str:
    """The name of an object; nodes of a workflow have an identifier instead."""
    return str(item["name"] if "name" in item else item["identifier"])


class _Configured:
    """Builds each list; the names of objects begin with the prefix."""

    def __init__(self, settings: Mapping[str, t.Any]) -> None:
        self._of = settings
        self._organization: str = settings["organization"]
        self._prefix: str = settings["name_prefix"]
        self._workflow = f"{self._prefix} place with approval"
        self._common = {"name": self._prefix, "organization": self._organization}

    def lists(self) -> Configuration:
        image = self._of["execution_environment_image"]
        found: Configuration = {
            "aap_organizations": [self._described({"name": self._organization}, "")],
            "controller_execution_environments": [
                self._described({**self._common, "image": image}, "Runs the playbooks.")
            ][: 1 if image else 0],
            "controller_credential_types": self._credential_types(),
            "controller_credentials": [self._credential(item) for item in self._of["credentials"]],
            "controller_notifications": [self._notification(i) for i in self._of["notifications"]],
            "controller_projects": [self._project()],
            "controller_inventories": [self._inventory()],
            "controller_inventory_sources": [
                self._inventory_source(item) for item in self._of["inventory_sources"]
            ],
            "controller_templates": [self._template(item) for item in self._of["job_templates"]],
            "controller_workflows": self._workflows(),
            "controller_schedules": [],
            "controller_roles": self._roles(),
        }
        runnable = [*found["controller_templates"], *found["controller_workflows"]]
        names = [item["name"] for item in runnable]
        found["controller_schedules"] = [
            self._schedule(item, names) for item in self._of["schedules"]
        ]
        for kind, items in found.items():
            _refuse_bad_names(kind, items)
        return found

    def _named(self, suffix: str) -> str:
        return f"{self._prefix}.{suffix}"

    def _described(self, item: Json, text: str) -> Json:
        """The item with a description that marks it as ours."""
        return {**item, "description": f"{text} {marker(self._organization)}".strip()}

    def _credential_types(self) -> list[Json]:
        return [
            self._described(
                {
                    "name": f"{self._prefix} {known.title}",
                    "kind": "cloud",
                    "inputs": known.inputs(),
                    "injectors": known.injectors,
                },
                known.description,
            )
            for known in CREDENTIAL_TYPES.values()
        ]

    def _credential(self, given: Json) -> Json:
        known = CREDENTIAL_TYPES.get(given["type"])
        inputs = dict(given.get("inputs") or {})
        if known is not None:
            wanted = {field["id"] for field in known.fields}
            if inputs.keys() != wanted:
                raise InvalidInput(
                    f"awx_credentials: credential {_shown(given['name'])} has the inputs "
                    f"{_listed(inputs)}, but type {given['type']} needs {_listed(wanted)}"
                )
            for field in known.fields:
                # AWX shows the beginning of a text that is no key in its answer.
                is_key = field.get("format") == "ssh_private_key"
                if is_key and not _KEY.match(str(inputs[field["id"]])):
                    raise InvalidInput(
                        f"awx_credentials: input {field['id']} of credential "
                        f"{_shown(given['name'])} is no private key in PEM format"
                    )
        kind = f"{self._prefix} {known.title}" if known else given["type"]
        item = {
            "name": given["name"],
            "organization": self._organization,
            "credential_type": kind,
            "inputs": inputs,
        }
        return self._described(item, "")

    def _notification(self, given: Json) -> Json:
        item = {
            "name": given["name"],
            "organization": self._organization,
            "notification_type": given["type"],
            "notification_configuration": given["configuration"],
            "messages": given.get("messages") or _MESSAGES,
        }
        return self._described(item, "")

    def _project(self) -> Json:
        item = {
            **self._common,
            "scm_type": "git",
            "scm_url": self._of["project_url"],
            "scm_update_on_launch": False,
        }
        for option, variable in (("scm_branch", "branch"), ("credential", "credential")):
            if self._of[f"project_{variable}"]:
                item[option] = self._of[f"project_{variable}"]
        return self._described(item, "Playbooks and inventory files.")

    def _inventory(self) -> Json:
        item = {**self._common, "kind": "", "variables": dict(self._of["inventory_variables"])}
        return self._described(item, "Clusters, nodes and machines.")

    def _inventory_source(self, given: Json) -> Json:
        item = {
            "name": given["name"],
            "inventory": self._prefix,
            "organization": self._organization,
            "source": "scm",
            "source_project": self._prefix,
            "source_path": given["path"],
            "overwrite": True,
            "overwrite_vars": True,
            "update_on_launch": bool(given.get("update_on_launch", True)),
        }
        if given.get("credential"):
            item["credential"] = self._known_credential(given["credential"], given["name"])
        self._add_environment(item)
        return self._described(item, "")

    def _add_environment(self, item: Json) -> None:
        if self._of["execution_environment_image"]:
            item["execution_environment"] = self._prefix

    def _known_credential(self, name: str, user: str) -> str:
        known = [item["name"] for item in self._of["credentials"]]
        if name not in known:
            raise InvalidInput(
                f"awx_credentials: {_shown(user)} uses the credential {_shown(name)}, but there "
                f"are {_listed(known)}"
            )
        return name

    def _template(self, given: Json) -> Json:
        playbook = given["playbook"]
        every = [item["name"] for item in self._of["credentials"]]
        chosen = given.get("credentials")
        survey = self._of["surveys"].get(playbook) if given.get("survey", True) else None
        item = {
            "name": given.get("name") or self._named(playbook),
            "organization": self._organization,
            "job_type": "run",
            "project": self._prefix,
            "inventory": self._prefix,
            "playbook": f"{self._of['playbook_folder']}/{playbook}.yml".lstrip("/"),
            "credentials": [
                self._known_credential(name, playbook)
                for name in (every if chosen is None else chosen)
            ],
            "extra_vars": dict(given.get("extra_vars") or {}),
            "limit": given.get("limit") or "",
            "ask_limit_on_launch": True,
            "ask_tags_on_launch": True,
            "ask_job_type_on_launch": True,
            "ask_diff_mode_on_launch": True,
            "survey_enabled": survey is not None,
            "survey_spec": survey or {},
            **self._events_of(playbook),
        }
        self._add_environment(item)
        return self._described(item, f"Runs playbook wattwise.kube.{playbook}.")

    def _events_of(self, playbook: str | None) -> Json:
        """The notifications of a job template, or of the workflow, by event."""
        events = EVENTS if playbook is None else EVENTS[:3]
        return {
            f"notification_templates_{event}": [
                item["name"]
                for item in self._of["notifications"]
                if event in item.get("events", ("error", "success", "approvals"))
                and (playbook is None or playbook in item.get("playbooks", _TOLD_PLAYBOOKS))
            ]
            for event in events
        }

    def _workflows(self) -> list[Json]:
        if not self._of["workflow_nodes"]:
            return []
        item = {
            "name": self._workflow,
            "organization": self._organization,
            "inventory": self._prefix,
            "ask_limit_on_launch": True,
            **self._events_of(None),
            "simplified_workflow_nodes": self._nodes(),
        }
        return [self._described(item, "Binds a plan after a person approved it.")]

    def _nodes(self) -> list[Json]:
        given = self._of["workflow_nodes"]
        identifiers = [node["identifier"] for node in given]
        templates = {
            item["playbook"]: item.get("name") or self._named(item["playbook"])
            for item in self._of["job_templates"]
        }
        nodes: list[Json] = []
        for node in given:
            linked = [name for link in LINKS for name in node.get(link) or []]
            if unknown := [name for name in linked if name not in identifiers]:
                raise InvalidInput(
                    f"awx_workflow_nodes: node {_shown(node['identifier'])} leads to "
                    f"{_listed(unknown)}, but the nodes are {_listed(identifiers)}"
                )
            item: Json = {"identifier": node["identifier"]}
            if node.get("approval"):
                item["approval_node"] = dict(node["approval"])
            elif node.get("playbook") in templates:
                item["unified_job_template"] = templates[node["playbook"]]
                item["lookup_organization"] = self._organization
                item["extra_data"] = dict(node.get("extra_data") or {})
                item["job_tags"] = node.get("job_tags") or ""
            else:
                raise InvalidInput(
                    f"awx_workflow_nodes: node {_shown(node['identifier'])} needs approval, or one "
                    f"of the playbooks {_listed(templates)} of awx_job_templates"
                )
            nodes.append({**item, **{link: list(node.get(link) or []) for link in LINKS}})
        return nodes

    def _schedule(self, given: Json, names: Sequence[str]) -> Json:
        is_workflow = given["playbook"] == WORKFLOW
        template = self._workflow if is_workflow else self._named(given["playbook"])
        of_playbook = [
            item.get("name") or template
            for item in self._of["job_templates"]
            if item["playbook"] == given["playbook"]
        ]
        template = of_playbook[0] if of_playbook else template
        if template not in names:
            raise InvalidInput(
                f"awx_schedules: schedule {_shown(given['name'])} starts "
                f"{_shown(given['playbook'])}, which is neither a playbook of awx_job_templates "
                f"nor {WORKFLOW}"
            )
        if problem := problem_of_recurrence(given["rrule"]):
            raise InvalidInput(
                f"awx_schedules: the rrule of schedule {_shown(given['name'])} "
                f"{shown_text(problem, 300)}"
            )
        item = {
            "name": given["name"],
            "organization": self._organization,
            "unified_job_template": template,
            "rrule": given["rrule"],
            "enabled": bool(given.get("enabled", True)),
            "extra_data": dict(given.get("extra_data") or {}),
        }
        return self._described(item, "")

    def _roles(self) -> list[Json]:
        """Approvers, in addition to administrators of the organization."""
        given = {"users": self._of["approver_users"], "teams": self._of["approver_teams"]}
        actors = {kind: list(names) for kind, names in given.items() if names}
        if not actors or not self._of["workflow_nodes"]:
            return []
        return [{"role": "approval", "workflows": [self._workflow], **actors}]


# AWX renders them with the job; playbooks publish the summary with set_stats.
_MESSAGES: Json = {
    event: {
        "message": "{{ job_friendly_name }} {{ job.name }} #{{ job.id }}: {{ job.status }}",
        "body": (
            '{"job": {{ job.id }}, "name": {{ job.name | tojson }}, "url": {{ url | tojson }}, '
            '"status": {{ job.status | tojson }}, '
            '"summaries": {{ (job.artifacts | default({})).wattwise_summaries | default({}) | tojson }}}'
        ),
    }
    for event in ("success", "error")
}


def _refuse_bad_names(kind: str, items: Sequence[Json]) -> None:
    names = [item_name(item) for item in items if "role" not in item]
    names += [
        item_name(node) for item in items for node in item.get("simplified_workflow_nodes", [])
    ]
    for name in names:
        if reason := _reason_against(name):
            raise InvalidInput(f"{kind}: the name {_shown(name)} {reason}; choose another one")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput(f"{kind}: the name {_shown(twice[0])} is listed twice")


def _reason_against(name: str) -> str | None:
    """Why AWX or its modules would not find an object with this name."""
    if not name.strip() or name != name.strip() or not name.isprintable():
        return "is empty, begins or ends with a space, or has characters that cannot be printed"
    if len(name) > _MAX_NAME_LENGTH:
        return f"has more than {_MAX_NAME_LENGTH} characters"
    if re.fullmatch(r"[+-]?\d[\d_]*", name):
        return "is a number, which modules of awx.awx interpret as an id"
    if "++" in name or "," in name:
        return "contains '++' or a comma, which AWX interprets as part of a query"
    return None


def _shown(text: t.Any) -> str:
    return f"'{shown_text(str(text), 80)}'"


def _listed(names: t.Iterable[str]) -> str:
    return ", ".join(sorted(shown_text(name, 80) for name in names)) or "none"
