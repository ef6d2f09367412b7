# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each role runs with exactly its permissions in docs/rbac, on an API server with RBAC."""

from __future__ import annotations

import contextlib
import json
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab import inventory
from lab.api import Api, ApiError
from lab.inventory import CLUSTER
from lab.machines import build_machines
from lab.process import wait_until
from lab.workload import NAMESPACE, create_pods, demo_pods
from support.admission_policies import agent_policies
from support.asking_pods import MERGE, Pods
from support.lab import RunningLab
from support.node_trees import CONTAINER_ID, write_cpus
from support.playbook import PlaybookRun, run_playbook
from support.recording_proxy import Permission, Proxy, recording_proxy
from support.volume_objects import claim, mounted, storage_class, volume
from support.work_to_do import LEASE, RMD_SAMPLE, rmd_workload, waiting_pods

Json = dict[str, t.Any]

RBAC = Path(__file__).resolve().parents[2] / "docs" / "rbac"
RMD_CONFIG = RMD_SAMPLE.with_name("rmdconfig.yaml")
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
RECORD = "/api/v1/namespaces/kube-system/configmaps/wattwise-last-binding"
ACCOUNT = "/api/v1/namespaces/wao-system/serviceaccounts/wattwise/token"
# Permission → its purpose, although nothing here uses it.
UNUSED = {
    Permission(
        "", "configmaps", "update"
    ): "the record is made by one binding and changed by the next",
    Permission("", "configmaps", "patch"): "no machine of the fleet is capped",
    Permission("metrics.k8s.io", "nodes", "list"): "the lab has no metrics server",
    Permission(
        "wao.bitmedia.co.jp", "nodeconfigs", "get"
    ): "many objects are listed, a few are got",
    Permission("", "nodes", "list"): "of the placement role: many nodes are listed, a few are got",
    Permission("intel.com", "rmdworkloads", "list"): "many are listed, a few are got",
    Permission("", "persistentvolumeclaims", "patch"): "no provisioner has to be told a node",
}


@dataclass(frozen=True)
class Account:
    """The service account of docs/rbac, initially without permissions."""

    lab: RunningLab
    proxy: Proxy
    kubeconfig: Path
    folder: Path

    def may(self, *roles: str, without: Permission | None = None) -> set[tuple[Permission, ...]]:
        """Give it only these roles' permissions; return them as alternatives, by API group."""
        paths = [path for path in RBAC.glob("*.yaml") if path.stem != "account"]
        self._manifests([item for path in paths for item in read(path)], "absent")
        manifests = [manifest for role in roles for manifest in read(RBAC / f"{role}.yaml")]
        for manifest in manifests:
            if without is not None and "rules" in manifest:
                manifest["rules"] = [rule for rule in manifest["rules"] if not has(rule, without)]
        self._manifests(manifests, "present")
        return {
            permission
            for item in manifests
            for rule in item.get("rules", [])
            for permission in of(rule)
        }

    def _manifests(self, manifests: list[Json], state: str) -> None:
        apply({"kubeconfig": self.lab.kubeconfig, "manifests": manifests, "state": state})

    def play(self, playbook: str | list[t.Any], *arguments: str) -> PlaybookRun:
        self.proxy.forget()
        return run_playbook(
            playbook,
            self.folder,
            *("-i", str(self.lab.state.inventory), "-e", f"wattwise_run_dir={self.folder}"),
            *("-e", f"wattwise_kubeconfig={self.kubeconfig}", *arguments),
        )


def read(path: Path) -> list[Json]:
    manifests: list[Json] = yaml.safe_load(path.read_text())["items"]
    return manifests


def has(rule: Json, permission: Permission) -> bool:
    return permission in [alternative for permissions in of(rule) for alternative in permissions]


def of(rule: Json) -> Iterator[tuple[Permission, ...]]:
    """Permissions of a rule: one for each resource and verb, in any of the rule's API groups."""
    for resource in rule["resources"]:
        for verb in rule["verbs"]:
            yield tuple(Permission(group, resource, verb) for group in rule["apiGroups"])


@pytest.fixture(scope="module")
def emptied(whole_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    """A cluster without any objects of ours; the first test leaves it like this too."""
    run = run_playbook(
        "wattwise.kube.teardown",
        tmp_path_factory.mktemp("teardown"),
        *("-i", str(whole_lab.state.inventory), "-e", f"teardown_everything_of={CLUSTER}"),
    )
    assert run.returncode == 0, run.output
    return whole_lab


@pytest.fixture
def account(emptied: RunningLab, tmp_path: Path) -> Iterator[Account]:
    apply({"kubeconfig": emptied.kubeconfig, "manifests": read(RBAC / "account.yaml")})
    with Api(emptied.state.kubeconfig) as api:
        asked = {"spec": {"expirationSeconds": 3600}}
        token = api.request("POST", ACCOUNT, asked)["status"]["token"]
        server = api.server
    authority = str(emptied.state.ca_certificate)
    with recording_proxy(server, authority) as proxy:
        path = tmp_path / "account.kubeconfig"
        path.write_text(json.dumps(kubeconfig(proxy.server, token)))
        yield Account(emptied, proxy, path, tmp_path)


def kubeconfig(server: str, token: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "wattwise",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "wattwise", "context": {"cluster": "c", "user": "u"}}],
    }


def assert_exactly(
    account: Account, granted: set[tuple[Permission, ...]], used: set[Permission]
) -> None:
    """No request was refused, and no permission is unused."""
    assert account.proxy.refused == []
    covered = {alternative for permissions in granted for alternative in permissions}
    assert used <= covered
    vain = {permissions for permissions in granted if not used.intersection(permissions)}
    assert {permissions[0] for permissions in vain} <= UNUSED.keys()


def test_each_role_runs_with_exactly_its_permissions(
    account: Account, whole_lab: RunningLab
) -> None:
    """One test for all roles, because each role needs the results of the previous one."""
    granted = account.may("crds")
    run = account.play("wattwise.kube.site", "--tags", "crds")
    assert run.returncode == 0, run.output
    assert_exactly(account, granted, set(account.proxy.used))

    granted = account.may("node_configs")
    run = account.play("wattwise.kube.site", "--tags", "node_configs")
    assert run.returncode == 0, run.output
    used = set(account.proxy.used)
    fewer = ("-i", str(smaller_inventory(whole_lab, account.folder)))
    run = account.play("wattwise.kube.site", "--tags", "node_configs", *fewer)
    assert run.returncode == 0, run.output
    assert_exactly(account, granted, used | account.proxy.used)

    with waiting_pods(whole_lab), a_claiming_pod(whole_lab):
        granted = account.may("observe")
        run = account.play("wattwise.kube.observe")
        assert run.returncode == 0, run.output
        assert_exactly(account, granted, set(account.proxy.used))

        forget_former_runs(whole_lab)
        account.may("placement", "stored_plans", without=Permission("", "pods/binding", "create"))
        run = account.play(placement())
        assert run.returncode != 0
        assert "None of 3 bindings succeeded" in run.output
        assert 'cannot create resource "pods/binding"' in run.output
        used = set(account.proxy.used)
        granted = account.may("placement", "stored_plans")
        run = account.play(placement())
        assert run.returncode == 0, run.output
        # The previous run has already reported the pod that fits nowhere.
        assert_exactly(account, granted, used | account.proxy.used)

    granted = account.may("rmd_workloads")
    asked = [rmd_workload(whole_lab), yaml.safe_load(RMD_CONFIG.read_text())]
    wanted = {"kubeconfig": whole_lab.kubeconfig, "manifests": asked}
    apply(wanted)
    run = account.play("wattwise.kube.rmd", "--tags", "rmd_workloads")
    assert run.returncode == 0, run.output
    used = set(account.proxy.used)
    apply({**wanted, "state": "absent"})
    run = account.play("wattwise.kube.rmd", "--tags", "rmd_workloads", *fewer)
    assert run.returncode == 0, run.output
    assert_exactly(account, granted, used | account.proxy.used)

    leave_what_role_rmd_makes(whole_lab)
    granted = account.may("teardown")
    run = account.play("wattwise.kube.teardown", "-e", f"teardown_everything_of={CLUSTER}")
    assert run.returncode == 0, run.output
    assert_exactly(account, granted, set(account.proxy.used))


def test_rmd_and_its_node_agent_run_with_exactly_their_permissions(
    account: Account, whole_lab: RunningLab
) -> None:
    kube = Kube.connect({"kubeconfig": whole_lab.kubeconfig})
    files = sorted((RBAC.parents[1] / "roles" / "crds" / "files").glob("intel.com_*.yaml"))
    apply({"kubeconfig": whole_lab.kubeconfig, "src": list(map(str, files)), "wait": True})
    with what_role_rmd_leaves(kube):
        node = sorted(item["metadata"]["name"] for item in kube.list("/api/v1/nodes"))[0]
        named: Json = {"rmd_labelled_nodes": [node], "rmd_deployment": "pods"}
        other: Json = {"rmd_layouts": [{"name": "other", "ways": 11}]}
        image = "registry.example/agent:1"
        ends_pods = {"rmd_agent_image": image, "rmd_terminate_refused_pods": True}
        used: set[Permission] = set()
        granted = account.may("rmd")
        install(account, used, **named)
        # The account that gives the agent its permissions must have them.
        account.may("rmd", "rmd_agent_installation", "rmd_node_agent")
        install(account, used, **other, **ends_pods)
        [manifest] = [item for item in read(RBAC / "rmd_node_agent.yaml") if "rules" in item]
        assert kube.get(f"{CLUSTER_ROLES}/rmd-node-agent")["rules"] == manifest["rules"]
        granted |= account.may("rmd_agent_installation")
        account.may("rmd")
        install(account, used, **named)
        assert_exactly(account, granted, used)

    namespace = "wattwise-permissions"
    with a_namespace(kube, namespace):
        pods = Pods(kube, whole_lab.kubeconfig, namespace)
        granted = account.may("rmd_node_agent")
        used = set()
        refused, ended = pods.add("refused"), pods.add("ended")
        for uid in (refused, ended):
            folder = f"sys/fs/cgroup/kubepods/pod{uid}/{CONTAINER_ID}"
            write_cpus(account.folder / "host", folder, "2-3")
        look(account, used, pods)
        pods.answer("rmd-workload-refused", "Fail: Not enough cache left on cache_id 0")
        pods.end("ended", "Succeeded")
        look(account, used, pods)
        assert_exactly(account, granted, used)
        assert {each["metadata"]["name"] for each in kube.list(pods.workloads)} <= {
            "rmd-workload-refused"
        }


@contextlib.contextmanager
def a_claiming_pod(lab: RunningLab) -> Iterator[None]:
    """A pending pod of the demo, with a claim that an existing volume can serve."""
    local = storage_class("permissions", "kubernetes.io/no-provisioner")
    offered, wanted = (
        volume("permissions", "permissions"),
        claim("permissions", "permissions", namespace=NAMESPACE),
    )
    [pod] = demo_pods(1, seed=2)
    pod["metadata"] = {**pod["metadata"], "name": "claiming"}
    pod["spec"]["volumes"] = mounted("permissions")
    objects = [local, offered, wanted]
    with Api(lab.state.kubeconfig) as api:
        for item in objects:
            item["metadata"].pop("uid", None)
        # Kubernetes binds a claim at once if its controller does not know the class yet.
        apply({"kubeconfig": lab.kubeconfig, "manifests": [local, offered]})
        path = "/api/v1/persistentvolumes/permissions"
        wait_until(
            lambda: api.request("GET", path)["status"].get("phase") == "Available", 30.0, "a volume"
        )
        apply({"kubeconfig": lab.kubeconfig, "manifests": [wanted]})
        create_pods(api, [pod], "wattwise")
        yield
    apply({"kubeconfig": lab.kubeconfig, "manifests": objects, "state": "absent"})


def forget_former_runs(lab: RunningLab) -> None:
    """Permissions to create a Lease and the record of a binding are needed once in a cluster."""
    with Api(lab.state.kubeconfig) as api:
        for path in (LEASE, RECORD):
            with contextlib.suppress(ApiError):
                api.request("DELETE", path)


def leave_what_role_rmd_makes(lab: RunningLab) -> None:
    """Without its daemons; the ``teardown`` playbook removes all of it."""
    keys = {"tls.crt": "Yw==", "tls.key": "aw=="}
    secrets = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "data": keys,
        }
        for name, namespace in (
            ("rmd-server", "rmd-system"),
            ("rmd-client", "rmd-system"),
            ("rmd-authority", "rmd-authority"),
        )
    ]
    node = Kube.connect({"kubeconfig": lab.kubeconfig}).list("/api/v1/nodes")[0]
    labels = {"wattwise.github.io/rmd": "labelled"}
    labelled = {"name": node["metadata"]["name"], "labels": labels}
    marked = [{"apiVersion": "v1", "kind": "Node", "metadata": labelled}]
    apply({"kubeconfig": lab.kubeconfig, "manifests": marked, "field_manager": "wattwise-rmd"})
    group, metadata = "rbac.authorization.k8s.io", {"name": "rmd-node-agent"}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "rmd-node-agent"}
    manifests: list[Json] = [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": []},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": role,
        },
    ]
    manifests += [*secrets, *agent_policies("rmd-system")]
    apply({"kubeconfig": lab.kubeconfig, "manifests": manifests})


def install(account: Account, used: set[Permission], **given: t.Any) -> None:
    """The ``rmd`` role in the namespaces of its permissions in docs/rbac; adds to `used`."""
    variables: Json = {
        "rmd_image": "registry.example/rmd:0.3",
        "rmd_node_labels": {"wattwise.github.io/permissions": "true"},
        "rmd_prune_max": 1.0,
    }
    arguments = ("--tags", "rmd_daemons", "-e", json.dumps({**variables, **given}))
    run = account.play("wattwise.kube.rmd", *arguments)
    assert run.returncode == 0, run.output
    used |= account.proxy.used


def look(account: Account, used: set[Permission], pods: Pods) -> None:
    """One run of the node agent, which ends pods that were refused."""
    variables = {
        "rmd_node_agent_hosts": "localhost",
        "rmd_node_name": pods.node,
        "rmd_node_root": str(account.folder / "host"),
        "rmd_terminate_refused_pods": True,
    }
    run = account.play("wattwise.kube.rmd_node_agent", "-e", json.dumps(variables))
    assert run.returncode == 0, run.output
    used |= account.proxy.used


@contextlib.contextmanager
def what_role_rmd_leaves(kube: Kube) -> Iterator[None]:
    """Run the ``rmd`` role, and remove its objects."""
    yield
    for path in (
        "/api/v1/namespaces/rmd-system/configmaps/wattwise-rmd",  # owns the rest
        f"{CLUSTER_ROLES}/rmd-node-agent",
        f"{CLUSTER_ROLES.replace('roles', 'rolebindings')}/rmd-node-agent",
    ):
        kube.request("DELETE", path)
    for item in agent_policies("rmd-system"):
        plural = f"{item['kind'].lower().removesuffix('y')}ies"
        if item["kind"].endswith("Binding"):
            plural = f"{item['kind'].lower()}s"
        kube.request("DELETE", f"/apis/{item['apiVersion']}/{plural}/{item['metadata']['name']}")
    for node in kube.list("/api/v1/nodes", {"labelSelector": "wattwise.github.io/rmd"}):
        labels = {"wattwise.github.io/rmd": None, "wattwise.github.io/permissions": None}
        body = {"metadata": {"labels": {**labels, "rmd-node": None}}}
        kube.request("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", body, MERGE)


@contextlib.contextmanager
def a_namespace(kube: Kube, name: str) -> Iterator[None]:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    kube.request("POST", "/api/v1/namespaces", body)
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: kube.find(account) is not None, 30.0, "the account that pods need")
    yield
    kube.request("DELETE", f"/api/v1/namespaces/{name}")


def smaller_inventory(lab: RunningLab, folder: Path) -> Path:
    """The inventory without a rack, with a few daemons and, in another rack, one architecture."""
    machines = build_machines(lab.settings.nodes, lab.settings.racks, lab.settings.seed)
    document = inventory.inventory(lab.state, lab.settings, machines)
    variables = document["clusters"]["hosts"][CLUSTER]
    for name in ("node_configs_secrets", "node_configs_templates"):
        del variables[name][-1]
    [first, *_others] = variables["node_configs_templates"]
    first["spec"]["nodeSelector"]["matchLabels"]["kubernetes.io/arch"] = "amd64"
    for name in list(variables["rmd_endpoints"])[-3:]:
        del variables["rmd_endpoints"][name]
    path = folder / "fewer.yml"
    path.write_text(inventory.as_yaml(document))
    return path


def placement() -> list[Json]:
    """The role alone, which stores its plan; the ``place`` playbook reads the machines first."""
    options = {"kubeconfig": "{{ wattwise_kubeconfig }}"}
    return [
        {
            "hosts": "clusters",
            "connection": "local",
            "gather_facts": False,
            "module_defaults": {"group/wattwise.kube.wattwise": options},
            "vars": {"placement_store_plan": True, "placement_store_keep": 1},
            "roles": ["wattwise.kube.placement"],
        }
    ]
