# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The admission policies that role rmd installs for its node agent, without starting Ansible."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import jinja2
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import CONDITION

ROLE = Path(__file__).resolve().parents[2] / "roles" / "rmd"


def agent_policies(namespace: str) -> list[dict[str, t.Any]]:
    """The manifests, as the role's template makes them for this namespace."""
    environment = jinja2.Environment(autoescape=False)
    environment.filters["to_json"] = json.dumps
    text = (ROLE / "templates" / "policies.yaml.j2").read_text()
    given = {"rmd_namespace": namespace, "rmd_condition": CONDITION}
    found = yaml.safe_load_all(environment.from_string(text).render(given))
    return [manifest for manifest in found if manifest]
