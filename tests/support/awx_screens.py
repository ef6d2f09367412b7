# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/operate/awx.md: the fields of each AWX screen with the role's defaults."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

from ansible_collections.wattwise.kube.plugins.module_utils.awx.configuration import Configuration
from support.awx_settings import default_configuration

Json = dict[str, t.Any]

_ASKED = {"ask_limit_on_launch": "limit", "ask_tags_on_launch": "tags"}
_ASKED["ask_job_type_on_launch"] = "job type"
_ASKED["ask_diff_mode_on_launch"] = "show changes"


# List → its screen, and the names of fields that have one value for all of its objects.
_FIELDS: dict[str, tuple[str, dict[str, str]]] = {
    "aap_organizations": ("Organizations", {"name": "Name"}),
    "controller_execution_environments": (
        "Execution Environments",
        {"name": "Name", "image": "Image"},
    ),
    "controller_projects": (
        "Projects",
        {
            "name": "Name",
            "scm_type": "Source control type",
            "scm_url": "Source control URL",
            "scm_branch": "Branch",
            "credential": "Source control credential",
            "scm_update_on_launch": "Update revision on launch",
        },
    ),
    "controller_credential_types": ("Credential Types", {"kind": "Kind"}),
    "controller_credentials": (
        "Credentials",
        {"name": "Name", "credential_type": "Credential type", "inputs": "Type details"},
    ),
    "controller_inventories": (
        "Inventories",
        {"name": "Name", "kind": "Kind", "variables": "Variables"},
    ),
    "controller_inventory_sources": (
        "Inventories, Sources",
        {
            "inventory": "Inventory",
            "source": "Source",
            "source_project": "Project",
            "execution_environment": "Execution environment",
        },
    ),
    "controller_templates": (
        "Templates",
        {
            "job_type": "Job type",
            "project": "Project",
            "inventory": "Inventory",
            "credentials": "Credentials",
            "extra_vars": "Variables",
            "limit": "Limit",
            "execution_environment": "Execution environment",
        },
    ),
    "controller_workflows": (
        "Templates, workflow",
        {
            "name": "Name",
            "inventory": "Inventory",
            "ask_limit_on_launch": "Prompt on launch: limit",
        },
    ),
}
_WORDS = {"git": "Git", "scm": "Sourced from a project", "run": "Run", "cloud": "Cloud"}
_VARIABLES = (
    *("organization", "execution_environment_image", "project_url", "project_branch"),
    "project_credential",
)


def named_configuration() -> Configuration:
    """The objects for variables whose values are their names, as the page writes them."""
    given = {name: f"`awx_{name}`" for name in _VARIABLES}
    credential = {
        "name": "name in `awx_credentials`",
        "type": "type in `awx_credentials`",
        "inputs": {"inputs": "in `awx_credentials`"},
    }
    variables = {"`awx_inventory_variables`": ""}
    return default_configuration(**given, credentials=[credential], inventory_variables=variables)


def fields() -> Iterator[str]:
    """The rows of fields with one value for all objects of a screen."""
    lists = named_configuration()
    for kind, (screen, titles) in _FIELDS.items():
        for key, title in titles.items():
            values = {_value(item.get(key)) for item in lists[kind]}
            if key == "name" and kind == "controller_workflows":
                values = {", ".join(sorted(values))}
            assert len(values) == 1, (kind, key, values)
            yield f"| {screen} | {title} | {values.pop()} |"


def fields_without_a_row() -> dict[str, set[str]]:
    """The fields of each list of objects that ``fields`` leaves out."""
    return {
        kind: {key for item in items for key in item} - _FIELDS.get(kind, ("", {}))[1].keys()
        for kind, items in named_configuration().items()
        if items
    }


def _value(value: t.Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        value = [name if name[0] == "`" else f"{name} {text}" for name, text in value.items()]
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return _WORDS.get(value, value) or "none"


def screens() -> Iterator[str]:
    """Each row of each table, in the order of the page."""
    lists = default_configuration()
    for item in lists["controller_credential_types"]:
        fields = ", ".join(
            f"`{field['id']}`{' (secret)' if field.get('secret') else ''}"
            for field in item["inputs"]["fields"]
        )
        injectors = item["injectors"]
        injected = ", ".join(
            f"{'variable' if kind == 'env' else 'role variable'} `{name}`"
            for kind in ("env", "extra_vars")
            for name in injectors.get(kind, {})
        )
        yield f"| {item['name']} | {fields} | {injected} |"
    for item in lists["controller_inventory_sources"]:
        launch = "yes" if item["update_on_launch"] else "no"
        yield f"| {item['name']} | {item['source_path']} | yes, with variables | {launch} |"
    for item in lists["controller_templates"]:
        asked = ", ".join(word for option, word in _ASKED.items() if item.get(option))
        survey = ", ".join(
            f"`{question['variable']}`" for question in item["survey_spec"].get("spec", [])
        )
        yield f"| {item['name']} | {item['playbook']} | {asked} | {survey or 'none'} |"
    for workflow in lists["controller_workflows"]:
        for node in workflow["simplified_workflow_nodes"]:
            yield _node(node)
    for item in lists["controller_schedules"]:
        enabled = "on" if item["enabled"] else "off"
        template = item["unified_job_template"]
        yield f"| {item['name']} | {template} | `{item['rrule']}` | {enabled} |"


def _node(node: Json) -> str:
    approval = node.get("approval_node")
    runs = f"approval, {approval['timeout']} s" if approval else node["unified_job_template"]
    if node.get("job_tags"):
        runs = f"{runs}, tags `{node['job_tags']}`"
    answers = f"`{json.dumps(node['extra_data'])}`" if node.get("extra_data") else "none"
    followers = [
        f"{word} {name}"
        for link, word in (("success_nodes", "on success"), ("always_nodes", "always"))
        for name in node[link]
    ]
    return f"| {node['identifier']} | {runs} | {answers} | {', '.join(followers) or 'none'} |"
