# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of objects: their fields with defaults, references and associations, as AWX serves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_EVENTS = {
    f"notification_templates_{event}": "notification_templates"
    for event in ("started", "success", "error")
}
_APPROVALS = {**_EVENTS, "notification_templates_approvals": "notification_templates"}
# Associations of a workflow's node with the nodes that follow it.
LINKS = ("success_nodes", "failure_nodes", "always_nodes")


@dataclass(frozen=True)
class Kind:
    """One kind. ``references`` and ``associations`` name endpoints; ``unique`` fields must not
    repeat.

    ``templates`` are runnable: they share the list ``unified_job_templates``.
    """

    type: str
    fields: Mapping[str, Any]
    references: Mapping[str, str] = field(default_factory=dict)
    associations: Mapping[str, str] = field(default_factory=dict)
    unique: tuple[str, ...] = ("name", "organization")
    name: str = "name"
    required: tuple[str, ...] = ("name",)
    roles: tuple[str, ...] = ()
    is_template: bool = False


def _named(**fields: Any) -> Json:
    return {"name": "", "description": "", **fields}


_ORGANIZATION = {"organization": "organizations"}
# Fields of nodes and schedules, by the fields of templates that permit them.
PROMPTS = {
    "ask_diff_mode_on_launch": "diff_mode",
    "ask_job_type_on_launch": "job_type",
    "ask_limit_on_launch": "limit",
    "ask_scm_branch_on_launch": "scm_branch",
    "ask_skip_tags_on_launch": "skip_tags",
    "ask_tags_on_launch": "job_tags",
}
_PROMPTS: Json = {"extra_data": {}, **dict.fromkeys(PROMPTS.values())}

KINDS: dict[str, Kind] = {
    "organizations": Kind(
        "organization",
        _named(max_hosts=0),
        associations=_APPROVALS,
        unique=("name",),
        roles=("admin",),
    ),
    "users": Kind(
        "user",
        {"username": "", "password": "", "is_superuser": False},
        unique=("username",),
        name="username",
        required=("username", "password"),
    ),
    "teams": Kind("team", _named(organization=None), _ORGANIZATION),
    "execution_environments": Kind(
        "execution_environment",
        _named(organization=None, image="", pull="", credential=None),
        _ORGANIZATION | {"credential": "credentials"},
        unique=("name",),
        required=("name", "image"),
    ),
    "credential_types": Kind(
        "credential_type",
        _named(kind="cloud", managed=False, inputs={}, injectors={}),
        unique=("name", "kind"),
        required=("name", "kind"),
    ),
    "credentials": Kind(
        "credential",
        _named(organization=None, credential_type=None, inputs={}),
        _ORGANIZATION | {"credential_type": "credential_types"},
        unique=("name", "organization", "credential_type"),
        required=("name", "credential_type"),
    ),
    "notification_templates": Kind(
        "notification_template",
        _named(
            organization=None, notification_type="", notification_configuration={}, messages=None
        ),
        _ORGANIZATION,
        required=("name", "organization", "notification_type"),
    ),
    "projects": Kind(
        "project",
        _named(
            organization=None,
            scm_type="",
            scm_url="",
            scm_branch="",
            credential=None,
            scm_update_on_launch=False,
            scm_revision="",
            allow_override=False,
        ),
        _ORGANIZATION | {"credential": "credentials"},
        associations=_EVENTS,
        is_template=True,
    ),
    "inventories": Kind(
        "inventory",
        _named(organization=None, kind="", host_filter=None, variables=""),
        _ORGANIZATION,
        required=("name", "organization"),
    ),
    "inventory_sources": Kind(
        "inventory_source",
        _named(
            inventory=None,
            source="",
            source_project=None,
            source_path="",
            credential=None,
            execution_environment=None,
            overwrite=False,
            overwrite_vars=False,
            update_on_launch=False,
        ),
        {
            "inventory": "inventories",
            "source_project": "projects",
            "credential": "credentials",
            "execution_environment": "execution_environments",
        },
        associations=_EVENTS,
        unique=("name", "inventory"),
        required=("name", "inventory", "source"),
        is_template=True,
    ),
    "job_templates": Kind(
        "job_template",
        _named(
            organization=None,
            job_type="run",
            project=None,
            inventory=None,
            playbook="",
            extra_vars="",
            limit="",
            execution_environment=None,
            survey_enabled=False,
            ask_variables_on_launch=False,
            ask_limit_on_launch=False,
            ask_tags_on_launch=False,
            ask_job_type_on_launch=False,
            ask_diff_mode_on_launch=False,
            ask_inventory_on_launch=False,
            ask_labels_on_launch=False,
        ),
        _ORGANIZATION
        | {
            "project": "projects",
            "inventory": "inventories",
            "execution_environment": "execution_environments",
        },
        associations={**_EVENTS, "credentials": "credentials", "labels": "labels"},
        required=("name", "project"),
        roles=("admin", "execute", "read"),
        is_template=True,
    ),
    "workflow_job_templates": Kind(
        "workflow_job_template",
        _named(
            organization=None,
            inventory=None,
            extra_vars="",
            limit=None,
            survey_enabled=False,
            ask_limit_on_launch=False,
            ask_variables_on_launch=False,
            ask_inventory_on_launch=False,
            ask_labels_on_launch=False,
        ),
        _ORGANIZATION | {"inventory": "inventories"},
        associations=_APPROVALS,
        roles=("admin", "execute", "read", "approval"),
        is_template=True,
    ),
    "workflow_job_template_nodes": Kind(
        "workflow_job_template_node",
        {
            "identifier": "",
            "workflow_job_template": None,
            "unified_job_template": None,
            **_PROMPTS,
            "all_parents_must_converge": False,
        },
        {
            "workflow_job_template": "workflow_job_templates",
            "unified_job_template": "unified_job_templates",
        },
        associations={
            **dict.fromkeys(LINKS, "workflow_job_template_nodes"),
            "credentials": "credentials",
            "labels": "labels",
        },
        unique=("identifier", "workflow_job_template"),
        name="identifier",
        required=("workflow_job_template",),
    ),
    "workflow_approval_templates": Kind(
        "workflow_approval_template",
        _named(timeout=0),
        unique=(),
        is_template=True,
    ),
    "schedules": Kind(
        "schedule",
        _named(unified_job_template=None, rrule="", enabled=True, **_PROMPTS),
        {"unified_job_template": "unified_job_templates"},
        unique=("name", "unified_job_template"),
        required=("name", "unified_job_template", "rrule"),
    ),
}
TEMPLATES = tuple(name for name, kind in KINDS.items() if kind.is_template)
