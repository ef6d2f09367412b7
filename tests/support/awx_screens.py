# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/awx.md: what each screen of AWX shows of the role's defaults."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

from support.awx_settings import default_configuration

Json = dict[str, t.Any]

_ASKED = {"ask_limit_on_launch": "limit", "ask_tags_on_launch": "tags"}
_ASKED["ask_job_type_on_launch"] = "job type"
_ASKED["ask_diff_mode_on_launch"] = "show changes"


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
    for node in lists["controller_workflows"][0]["simplified_workflow_nodes"]:
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
