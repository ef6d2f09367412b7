# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each option of each module that a role runs is set by the role, or a reason is listed."""

from __future__ import annotations

import importlib
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins import doc_fragments, modules
from ansible_collections.wattwise.kube.plugins.module_utils.base import argspec
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.options import GROUPS

Json = dict[str, t.Any]

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())

# The play sets the connection with module_defaults for all roles, the action shows progress.
OF_THE_PLAY = {*argspec.KUBERNETES.options, *argspec.PROGRESS.options}

DOCUMENT = "the role works on documents of the run folder"
OWN_OBJECTS = "the role knows which objects it applies, and the default suits them"
# By module, or by role and module if the role has a reason of its own.
REASONS: dict[str, dict[str, str]] = {
    "kube_apply": dict.fromkeys(
        (
            *("assume", "concurrency", "field_manager", "force_conflicts", "foreign"),
            "on_error",
            *("owner", "prune", "prune_kinds", "prune_max", "prune_owner_kinds", "recreate"),
            *("secret_manifests", "src", "src_key", "state", "status", "wait", "wait_timeout"),
        ),
        OWN_OBJECTS,
    ),
    "fleet_snapshot_info": {
        **dict.fromkeys(("selectors", "node_configs"), "the role knows what it reads"),
        "path": "a role that reads a list alone needs no document",
        "run_process": "the action plugin fills it in",
    },
    "redfish_thermal_info": {
        "targets": DOCUMENT,
        "authentication": "the NodeConfigs have what former runs found",
        "on_error": "observe_min_success decides over what all three readers got",
        "min_success": "observe_min_success decides over what all three readers got",
    },
    "differential_pressure_info": {
        "targets": DOCUMENT,
        "on_error": "observe_min_success decides over what all three readers got",
        "min_success": "observe_min_success decides over what all three readers got",
    },
    "redfish_ml_model_info": {
        "targets": DOCUMENT,
        "max_age": "models change when somebody registers others; observe_refresh asks at once",
        "on_error": "observe_min_success decides over what all three readers got",
        "min_success": "observe_min_success decides over what all three readers got",
    },
    "tls_fingerprint_info": {
        "targets": DOCUMENT,
        "node_selector": "the certificates of all nodes are shown",
        "on_error": "a machine that does not answer has no certificate to show",
        "min_success": "a machine that does not answer has no certificate to show",
    },
    "fleet_reconciliation": {
        **dict.fromkeys(
            (
                *("devices", "evict", "predict", "store", "restore", "bind"),
                *("lease_namespace", "lease_timeout", "record_namespace", "publish_namespace"),
            ),
            "the observe role makes no step that these are about",
        ),
        "run_process": "the action plugin fills it in",
    },
    "observe fleet_reconciliation": {
        **dict.fromkeys(("limits", "prices"), "the observe role places nothing"),
        "sleep": "the observe role switches nothing",
    },
    "sleep fleet_reconciliation": dict.fromkeys(
        (
            *("node_configs", "thermal", "pressure", "models", "merge", "meter", "place"),
            *("limits", "prices"),
        ),
        "machines are brought back without any reading; all else is in the placement role",
    ),
    "bare_metal_host_info": {"host_selector": "observe_try_labels selects the nodes of the trial"},
    "node_config_template": {
        "nodes": DOCUMENT,
        "tls_fingerprints": "the try playbook has one list of confirmed certificates for all BMCs",
    },
    "fleet_report": dict.fromkeys(
        (
            *("path", "settle_seconds", "type_label", "rack_labels", "position_label"),
            *("price_per_kwh", "currency"),
        ),
        "the page of the try playbook is of a cluster that nobody has described yet",
    ),
    "device_allocation": {"curves": "the role answers which devices, not which node is cheapest"},
    "kepler_reconciliation": {"on_error": "an error of a role fails its task"},
    "kepler_addons_reconciliation": {"on_error": "an error of a role fails its task"},
    "provisioning_reconciliation": {"on_error": "an error of a role fails its task"},
    "kepler_node_labels": {
        "node_names": "the role labels all nodes",
        "concurrency": "the default suits every cluster",
        "force_conflicts": "labels that an administrator set by hand stay",
    },
    "mutual_tls_certificates": {
        **dict.fromkeys(("client_name", "key_bits"), "RMD expects the default"),
        **dict.fromkeys(("renew_days", "valid_days"), "every run renews, so the default suffices"),
    },
}


def module_options(module: str) -> set[str]:
    """The documented options of a module, including those of its fragments."""
    documentation = yaml.safe_load(
        importlib.import_module(f"{modules.__name__}.{module}").DOCUMENTATION
    )
    found = set(documentation.get("options") or {})
    for name in documentation.get("extends_documentation_fragment", []):
        fragment, *parts = name.split(".")[2:]
        holder = importlib.import_module(f"{doc_fragments.__name__}.{fragment}").ModuleDocFragment
        text = getattr(holder, parts[0].upper() if parts else "DOCUMENTATION")
        found.update(yaml.safe_load(text).get("options") or {})
    return found


def set_options(
    tasks: t.Iterable[Json], defaults: frozenset[str] = frozenset()
) -> t.Iterator[tuple[str, set[str]]]:
    """Module and set options of each task, with the module_defaults of the blocks around it."""
    for task in tasks:
        inherited = defaults.union(*(task.get("module_defaults") or {}).values())
        for part in ("block", "rescue", "always"):
            yield from set_options(task.get(part) or [], inherited)
        for action, arguments in task.items():
            if action.startswith("wattwise.kube."):
                yield action.rpartition(".")[2], {*(arguments or {}), *inherited}


def used_modules(role: str) -> dict[str, set[str]]:
    """The modules that a role runs, each with every option that one of its tasks sets."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "roles" / role / "tasks").glob("*.yml"):
        for module, options in set_options(yaml.safe_load(path.read_text())):
            found.setdefault(module, set()).update(options)
    return found


@pytest.mark.parametrize(
    ("role", "module"), [(role, module) for role in ROLES for module in sorted(used_modules(role))]
)
def test_a_role_passes_every_option_of_its_modules_or_there_is_a_reason(
    role: str, module: str
) -> None:
    passed = used_modules(role)[module]
    reasons = {**REASONS.get(module, {}), **REASONS.get(f"{role} {module}", {})}
    assert module_options(module) - passed - OF_THE_PLAY <= reasons.keys()


def test_reasons_are_of_options_that_there_are_and_that_no_role_could_leave_out() -> None:
    """An outdated reason hides the next option of that name."""
    for key, reasons in REASONS.items():
        *of_role, module = key.split()
        unset = [
            module_options(module) - options
            for role in of_role or ROLES
            for used, options in used_modules(role).items()
            if used == module
        ]
        assert reasons.keys() <= set().union(*unset), module


# The groups of options of fleet_reconciliation, which roles keep as variables of these names.
GROUP_VARIABLES = {
    "read": ("observe", "observe_read_options"),
    "merge": ("observe", "observe_merge_options"),
    "meter": ("observe", "observe_meter_options"),
    "predict": ("placement", "placement_predict_options"),
    "place": ("placement", "placement_place_options"),
    "limits": ("placement", "placement_limit_options"),
    "store": ("placement", "placement_store_options"),
    "restore": ("placement", "placement_restore_options"),
    "bind": ("placement", "placement_bind_options"),
    "evict": ("placement", "placement_evict_options"),
    "devices": ("devices", "devices_options"),
    "sleep": ("sleep", "sleep_options"),
    "prices": ("placement", "placement_prices_options"),
}
GROUP_REASONS = {
    ("read", "model_max_age"): "the default is that of the module which reads them",
    ("prices", "timeout"): "the placement must not wait longer for prices, in any fleet",
    ("merge", "heartbeat_seconds"): "for the operator, whose runs follow one another closely",
}


@pytest.mark.parametrize("group", GROUPS)
def test_a_role_passes_every_option_of_a_step_or_there_is_a_reason(group: str) -> None:
    role, name = GROUP_VARIABLES[group]
    variables = yaml.safe_load((ROOT / "roles" / role / "vars/main.yml").read_text())
    reasons = {option for of_group, option in GROUP_REASONS if of_group == group}
    assert variables[name].keys() | reasons == GROUPS[group].keys()
    assert not variables[name].keys() & reasons
