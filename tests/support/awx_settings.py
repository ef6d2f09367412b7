# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX objects of the ``awx`` role's defaults."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.filter.awx import awx_configuration
from ansible_collections.wattwise.kube.plugins.module_utils.awx.configuration import (
    SPEC,
    Configuration,
)

Json = dict[str, t.Any]

# Requirements of the workflow.
WORKFLOW_ALONE: Json = {
    "job_templates": [{"playbook": name} for name in ("observe", "place", "bind")],
    "inventory_sources": [],
    "schedules": [],
    "sleep_workflow_nodes": [],
}
_ROLE = Path(__file__).resolve().parents[2] / "roles" / "awx"


def default_settings(**given: t.Any) -> Json:
    """The role's defaults as settings, with their templates rendered."""
    text = (_ROLE / "defaults" / "main.yml").read_text()
    defaults = yaml.safe_load(text)
    found = {name: defaults[f"awx_{name}"] for name in SPEC.options if f"awx_{name}" in defaults}
    for node in [*found["workflow_nodes"], *found["sleep_workflow_nodes"]]:
        if "approval" in node:
            node["approval"].update(name="Bind?", timeout=defaults["awx_approval_timeout"])
    return {**found, **given}


def default_configuration(**given: t.Any) -> Configuration:
    return t.cast("Configuration", awx_configuration(default_settings(**given))["lists"])
