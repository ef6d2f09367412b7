# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The admission policies of roles and of the operator, without starting either."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import jinja2
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node_objects import (
    MAX_ANNOTATION_LENGTH,
    PROBE_ANNOTATION,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import CONDITION

ROOT = Path(__file__).resolve().parents[2]
ROLES = ROOT / "roles"
OPERATOR = "system:serviceaccount:wattwise-system:wattwise-operator"


def agent_policies(namespace: str) -> list[dict[str, t.Any]]:
    """Policies of the ``rmd`` role for its node agent in this namespace."""
    return _rendered("rmd", "policies", rmd_namespace=namespace, rmd_condition=CONDITION)


def devices_policies(account: str, gate: str) -> list[dict[str, t.Any]]:
    """Policies of the ``crds`` role for the account of the ``devices`` role."""
    given = {"crds_devices_account": account, "crds_devices_gate": gate}
    return _rendered("crds", "devices_policy", **given)


def opt_in_policies(scheduler: str, *never: str) -> list[dict[str, t.Any]]:
    """Policies of the ``crds`` role for labelled pods and namespaces."""
    variables = yaml.safe_load((ROLES / "crds" / "vars" / "main.yml").read_text())
    label = variables["crds_opt_in_label"]
    system = [name for name in variables["crds_opt_in_never"] if "{{" not in name]
    return _rendered(
        "crds",
        "opt_in_policy",
        crds_opt_in_label=label,
        crds_opt_in_scheduler=scheduler,
        crds_opt_in_never=[*system, *never],
    )


def probe_manifests(namespace: str) -> list[dict[str, t.Any]]:
    """Policies of the ``kepler`` role for its discovery pods in this namespace, and these pods."""
    given = {
        "kepler_namespace": namespace,
        "kepler_probe_annotation": PROBE_ANNOTATION,
        "kepler_probe_longest": str(MAX_ANNOTATION_LENGTH),
        "kepler_probe_image": "registry.example/wattwise:1",
        "kepler_probe_interval": "3600",
    }
    names = ("probe_policies", "probe")
    return [manifest for name in names for manifest in _rendered("kepler", name, **given)]


def operator_policies(capability: str, account: str) -> list[dict[str, t.Any]]:
    """Policies and cluster permissions of a capability, for an account of the test alone."""
    folder = ROOT / "operator" / "config" / "rbac" / capability
    text = "\n---\n".join((folder / f"{name}.yaml").read_text() for name in ("rights", "policies"))
    text = text.replace(OPERATOR, account).replace("wattwise-operator", f"operator-{account}")
    made = [each for each in yaml.safe_load_all(text) if each]
    kept = [each for each in made if each["kind"] not in ("Role", "RoleBinding")]
    for each in kept:
        if each["kind"] == "ClusterRoleBinding":
            group = "rbac.authorization.k8s.io"
            each["subjects"] = [{"apiGroup": group, "kind": "User", "name": account}]
    return kept


def _rendered(role: str, name: str, **given: t.Any) -> list[dict[str, t.Any]]:
    """The manifests that the role's template renders."""
    environment = jinja2.Environment(autoescape=False)
    environment.filters["to_json"] = json.dumps
    text = (ROLES / role / "templates" / f"{name}.yaml.j2").read_text()
    found = yaml.safe_load_all(environment.from_string(text).render(given))
    return [manifest for manifest in found if manifest]
