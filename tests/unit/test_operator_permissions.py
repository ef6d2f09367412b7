# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's permissions are those of the roles; test_permissions.py shows their use."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from support.admission_policies import devices_policies
from support.dockerfile import ROOT

Json = dict[str, t.Any]
Permission = tuple[str, str, str]

CONFIG = ROOT / "operator" / "config"
CAPABILITIES = sorted(path.parent.name for path in CONFIG.glob("rbac/*/rights.yaml"))
ACCOUNT = {"kind": "ServiceAccount", "name": "wattwise-operator", "namespace": "wattwise-system"}
GROUPS = ("wao.bitmedia.co.jp", "node.waok8s.github.io")
# Capability → the manifest of docs/rbac with the permissions of its runs.
ROLES = {
    "observe": "observe",
    "placement": "placement",
    "node-configs": "node_configs",
    "devices": "devices_reconciliation",
    "rmd": "rmd_workloads",
    "sleep": "sleep",
    "kepler": "kepler",
    "kepler-addons": "kepler_addons",
    "provisioning": "provisioning",
}
BPA = "bpa.akraino.org"
KEPLER = "kepler.system.sustainable.computing.io"
# For the watcher, which lists and watches.
MORE: dict[str, set[Permission]] = {
    "observe": {("", "nodes", "watch")},
    "placement": {("", "pods", "watch")},
    "devices": {("", "pods", "watch")},
    "node-configs": {("", "nodes", "watch")}
    | {(group, "nodeconfigtemplates", "watch") for group in GROUPS},
    "rmd": {("intel.com", "rmdworkloads", "watch")},
    # The resource itself, which the role does not need.
    "kepler": {
        *((KEPLER, "keplersystems", verb) for verb in ("get", "list", "watch")),
        (KEPLER, "keplersystems/status", "patch"),
    },
    "kepler-addons": {
        *((KEPLER, "kepleraddons", verb) for verb in ("get", "list", "watch")),
        (KEPLER, "kepleraddons/status", "patch"),
    },
    # ansible-operator adds and removes its finalizer.
    "provisioning": {(BPA, "provisionings", verb) for verb in ("watch", "update")},
}
# Templates, Secrets and the namespace come from the inventory; the operator only renders templates.
LESS: dict[str, set[Permission]] = {
    "node-configs": {("", "namespaces", verb) for verb in ("get", "patch")}
    | {
        (group, "nodeconfigtemplates", verb)
        for group in GROUPS
        for verb in ("create", "patch", "delete")
    },
    # The probe comes from the inventory.
    "kepler": {
        ("", "nodes", "patch"),
        ("metal3.io", "baremetalhosts", "list"),
        *((group, "nodeconfigs", "list") for group in GROUPS),
    },
    # The operator writes no Provisioning, and creates no namespace.
    "provisioning": {(BPA, "provisionings", verb) for verb in ("create", "patch", "delete")}
    | {("", "namespaces", verb) for verb in ("get", "create", "patch")},
}


LAST_BINDING = "wattwise-last-binding"
DELETE_SECRETS = ("", "secrets", "delete")


def manifests(capability: str) -> list[Json]:
    text = (CONFIG / "rbac" / capability / "rights.yaml").read_text()
    return [each for each in yaml.safe_load_all(text) if each]


def permissions(items: list[Json], kind: str) -> set[Permission]:
    return {
        (group, resource, verb)
        for item in items
        if item["kind"] == kind
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def named(items: list[Json], namespace: str) -> set[tuple[Permission, str]]:
    """The permissions that Roles give in a namespace, with the names to which they are limited."""
    return {
        (permission, name)
        for item in items
        if item["kind"] == "Role" and item["metadata"]["namespace"] == namespace
        for rule in item["rules"]
        for permission in permissions([{"kind": "Role", "rules": [rule]}], "Role")
        for name in rule.get("resourceNames") or [""]
    }


@pytest.mark.parametrize("capability", sorted(ROLES))
def test_a_capability_has_the_permissions_of_its_role_and_those_of_the_watcher(
    capability: str,
) -> None:
    role = yaml.safe_load((ROOT / "docs" / "rbac" / f"{ROLES[capability]}.yaml").read_text())
    used = permissions(role["items"], "ClusterRole")
    more, less = MORE.get(capability, set()), LESS.get(capability, set())
    assert less <= used and not more & used
    given = manifests(capability)
    assert permissions(given, "ClusterRole") == used - less | more
    for namespace in (
        "default",
        "kube-system",
        "rmd-system",
        "kepler",
        "kepler-authority",
        "bpa-system",
    ):
        # The operator's documents are those of several fleets, and in its own namespace. Kepler's
        # are the configuration of collectors, and that of sleep is beside its Lease.
        documents = {each for each in named(role["items"], namespace) if "configmaps" in each[0]}
        if capability.startswith(("kepler", "provisioning", "sleep")):
            documents = set()
        # Caps are in one ConfigMap for playbooks and the operator.
        if capability == "placement":
            documents = {each for each in documents if each[1] == LAST_BINDING}
        # The operator uses only BareMetalHosts, whose versions need no Lease.
        if capability == "provisioning":
            documents |= {each for each in named(role["items"], namespace) if "leases" in each[0]}
        # The operator deletes no certificates.
        kept = {each for each in named(role["items"], namespace) if each[0] == DELETE_SECRETS}
        kept = kept if capability == "kepler-addons" else set()
        assert named(given, namespace) == named(role["items"], namespace) - documents - kept


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_permissions_are_given_one_by_one_and_to_the_operator_alone(capability: str) -> None:
    items = manifests(capability)
    assert {item["kind"] for item in items} <= {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    }
    bound = set()
    for item in items:
        for rule in item.get("rules", []):
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not [word for word in words if "*" in word]
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
            # A watch begins with a list.
            assert "watch" not in rule["verbs"] or "list" in rule["verbs"]
        if "subjects" in item:
            assert item["subjects"] == [ACCOUNT]
            bound.add((item["roleRef"]["kind"], item["roleRef"]["name"]))
    given = {
        (item["kind"], item["metadata"]["name"])
        for item in items
        if item["kind"] in ("ClusterRole", "Role")
    }
    assert bound == given


def test_secrets_are_read_in_named_namespaces_alone() -> None:
    for capability in CAPABILITIES:
        assert not [
            each for each in permissions(manifests(capability), "ClusterRole") if "sec" in each
        ]
    base = manifests("secrets/base")
    assert permissions(base, "Role") == {("", "secrets", "get")}
    assert not permissions(base, "ClusterRole")


def test_records_of_bindings_are_written_beside_the_fleets_alone() -> None:
    role = yaml.safe_load((ROOT / "docs" / "rbac" / "placement.yaml").read_text())
    used = {
        permission
        for permission, name in named(role["items"], "kube-system")
        if "configmaps" in permission and name in ("", LAST_BINDING)
    }
    given = manifests("records")
    assert permissions(given, "Role") == used
    assert {each["metadata"]["namespace"] for each in given} == {ACCOUNT["namespace"]}
    assert not permissions(given, "ClusterRole")


def test_each_capability_is_on_in_the_overlays_that_say_so() -> None:
    assert capabilities("minimal") == {"events", "observe", "powerfleets"}
    assert capabilities("default") == capabilities("minimal") | {
        *("node-configs", "placement", "records")
    }
    assert capabilities("full") == capabilities("default") | {
        *("devices", "kepler", "kepler-addons", "provisioning", "rmd")
    }
    # Moving running pods and switching machines are only for users who ask for it.
    assert set(CAPABILITIES) - capabilities("full") == {"eviction", "sleep"}


def capabilities(overlay: str) -> set[str]:
    """An overlay's parts from rbac, besides Secrets."""
    found: set[str] = set()
    open_folders = [CONFIG / "overlays" / overlay]
    while open_folders:
        folder = open_folders.pop()
        given = yaml.safe_load((folder / "kustomization.yaml").read_text())
        folders = [(folder / each).resolve() for each in given["resources"]]
        inside = [each for each in folders if each.is_dir() and each.is_relative_to(CONFIG)]
        found |= {each.name for each in inside if each.parent.name == "rbac"}
        open_folders += inside
    return found


def test_the_policies_are_those_of_role_crds_for_the_operators_account() -> None:
    text = (CONFIG / "policies" / "devices.yaml").read_text()
    account = "system:serviceaccount:{namespace}:{name}".format(**ACCOUNT)
    wanted = devices_policies(account, "wattwise.github.io/devices")
    given = [each for each in yaml.safe_load_all(text) if each]
    assert len(given) == len(wanted) == 4
    for mine, theirs in zip(given, wanted, strict=True):
        # Under names of their own, so that an inventory's policies stay beside them.
        name = theirs["metadata"]["name"].replace("wattwise-devices", "wattwise-operator")
        assert mine["metadata"] == {"name": name}
        if "policyName" in theirs["spec"]:
            theirs["spec"]["policyName"] = name
        assert (mine["kind"], mine["spec"]) == (theirs["kind"], theirs["spec"])


def test_the_policy_of_sleep_is_the_same_for_the_accounts_of_playbooks_and_operator() -> None:
    text = (CONFIG / "rbac" / "sleep" / "policies.yaml").read_text()
    account = "system:serviceaccount:{namespace}:{name}".format(**ACCOUNT)
    for mine, theirs in (
        ("wattwise-operator-sleep", "wattwise-sleep"),
        (account, "system:serviceaccount:wao-system:wattwise"),
        ("is-the-operator", "is-the-account"),
        ("the operator changes", "the account changes"),
    ):
        text = text.replace(mine, theirs)
    role = yaml.safe_load((ROOT / "docs" / "rbac" / "sleep.yaml").read_text())
    policies = [each for each in role["items"] if each["kind"].startswith("Validating")]
    assert policies == [each for each in yaml.safe_load_all(text) if each]


def test_host_agents_write_their_own_kind_alone_and_read_secrets_where_somebody_says_so() -> None:
    folder = CONFIG / "host-agents"
    items = [each for each in yaml.safe_load_all((folder / "rights.yaml").read_text()) if each]
    secrets = list(yaml.safe_load_all((folder / "secrets" / "rights.yaml").read_text()))
    secrets = [each for each in secrets if each]
    account = {
        "kind": "ServiceAccount",
        "name": "wattwise-host-agent",
        "namespace": "bpa-system",
    }
    bound = [each for each in (*items, *secrets) if "subjects" in each]
    assert len(bound) == 3 and all(each["subjects"] == [account] for each in bound)
    assert permissions(items, "ClusterRole") == {
        ("metal3.io", "baremetalhosts", "list"),
        *((BPA, "hosthardwares", verb) for verb in ("list", "create", "patch")),
    }
    assert permissions(items, "Role") == {
        (BPA, "provisionings", "get"),
        *(("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")),
    }
    assert permissions(secrets, "Role") == {("", "secrets", "get")}
    assert not permissions(secrets, "ClusterRole")
    overlay = yaml.safe_load((CONFIG / "overlays/full/kustomization.yaml").read_text())
    assert "../../host-agents" in overlay["resources"]
    assert "secrets" not in str((folder / "kustomization.yaml").read_text())


# Strong permissions of verbs that write, and of reading Secrets, with the words of the table for
# each.
TOLD = {
    "pods/binding": "bind",
    "pods/eviction": "evict pods",
    "pods": "patch pods of any namespace",
    "persistentvolumes": "PersistentVolumes",
    "persistentvolumeclaims": "claims",
    "nodes/status": "status of Nodes",
    "nodes": "taint Nodes",
    "resourceclaims": "ResourceClaims",
    "baremetalhosts": "BareMetalHosts",
    "nodeconfigs": "delete NodeConfigs",
    "jobs": "Jobs",
    "secrets": "Secrets",
}
READING = {"get", "list", "watch"}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_table_of_strongest_permissions_omits_none(capability: str) -> None:
    lines = (ROOT / "docs" / "operate" / "operator.md").read_text("utf-8").splitlines()
    [row] = [line for line in lines if line.startswith(f"| `{capability}` |")]
    for document in yaml.safe_load_all((CONFIG / "rbac" / capability / "rights.yaml").read_text()):
        for rule in document.get("rules", []):
            for resource in rule["resources"]:
                writes = bool(set(rule["verbs"]) - READING)
                if (writes or resource == "secrets") and resource in TOLD:
                    assert TOLD[resource] in row, (resource, row)
