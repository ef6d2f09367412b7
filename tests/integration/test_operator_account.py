# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of PowerFleets with the permissions of an overlay, on an API server with RBAC."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.reconciliation import (
    reconcile,
)
from lab.api import Api
from lab.inventory import CLUSTER
from lab.operator.installation import NAMESPACE, built, namespaces_of, write_kubeconfig
from lab.process import wait_until
from support.dockerfile import ROOT
from support.lab import RunningLab
from support.playbook import run_playbook
from support.recording_proxy import Permission, Proxy, recording_proxy
from support.work_to_do import LEASE, rmd_workload, waiting_pods

Json = dict[str, t.Any]

FLEETS = f"/apis/wattwise.github.io/v1alpha1/namespaces/{NAMESPACE}/powerfleets"
# Permissions that the runs below have no occasion to use: permission → its purpose.
UNUSED = {
    Permission("", "events", "patch"): "an Event moves after five minutes",
    Permission("", "configmaps", "update"): "a fleet that binds again replaces its record",
    Permission("", "configmaps", "patch"): "a fleet with limits in W keeps its record",
    Permission("", "nodes", "get"): "many nodes are listed, a few are got",
    Permission("", "pods", "get"): "many pods are listed, a few are got",
    Permission("wao.bitmedia.co.jp", "nodeconfigs", "get"): "many are listed, a few are got",
    Permission("metrics.k8s.io", "nodes", "list"): "the lab has no metrics server",
    **{
        Permission(
            "", resource, verb
        ): "test_permissions.py shows it for pods that wait with claims"
        for resource in ("persistentvolumeclaims", "persistentvolumes")
        for verb in ("list", "patch")
    },
}
# test_permissions.py shows that the roles use the permissions on these.
OPTIONAL = {"devmgmtproto.k8s.io", "resource.k8s.io", "intel.com", "storage.k8s.io"}
# Used by ansible-operator and the watcher, which are not started here.
WATCHED = {
    *(Permission("wattwise.github.io", "powerfleets", verb) for verb in ("get", "list", "watch")),
    *(Permission("", "nodes", verb) for verb in ("list", "watch")),
    *(Permission("", "pods", verb) for verb in ("list", "watch")),
    *(Permission("wao.bitmedia.co.jp", "nodeconfigtemplates", verb) for verb in ("list", "watch")),
}
CONFIGS = "/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs"
TEMPLATES = "/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigtemplates"


class Account:
    """The operator's service account, and its permissions that were used."""

    def __init__(self, kubeconfig: str, proxy: Proxy, folder: Path) -> None:
        self.kubeconfig, self.proxy, self.folder = kubeconfig, proxy, folder
        self.own = folder / "kubeconfig"
        self.given: list[Json] = []

    def may(self, overlay: str) -> list[Json]:
        """Give it the permissions of an overlay in place of the previous ones."""
        apply({"kubeconfig": self.kubeconfig, "manifests": self.given, "state": "absent"})
        self.given = [item for item in built(overlay) if "Role" in item["kind"]]
        apply({"kubeconfig": self.kubeconfig, "manifests": self.given})
        return self.given

    def run(self, name: str) -> Json:
        """One run of a fleet, without any refusal and with all of its steps."""
        given = {"kubeconfig": str(self.own), "namespace": NAMESPACE, "name": name}
        folder = str(self.folder / name)
        found = reconcile({**given, "run_dir": folder, "record_namespaces": [NAMESPACE]})
        assert self.proxy.refused == []
        assert found["ready"], found["status"]["conditions"]
        return found


def path_of_config(config: Json) -> str:
    metadata = config["metadata"]
    parent = CONFIGS.replace("/nodeconfigs", f"/namespaces/{metadata['namespace']}/nodeconfigs")
    return f"{parent}/{metadata['name']}"


def permissions(items: list[Json]) -> set[tuple[Permission, ...]]:
    """The permissions of roles; each as alternatives over the API groups of its rule."""
    return {
        tuple(Permission(group, resource, verb) for group in rule["apiGroups"])
        for item in items
        for rule in item.get("rules", [])
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture
def account(whole_lab: RunningLab, tmp_path: Path) -> Iterator[Account]:
    """On a cluster with the lab's templates, the overlays' namespaces and no NodeConfigs."""
    inventory = str(whole_lab.state.inventory)
    given = ("-i", inventory, "-e", f"wattwise_run_dir={tmp_path}")
    for playbook, *arguments in (
        ("wattwise.kube.teardown", "-e", f"teardown_everything_of={CLUSTER}"),
        ("wattwise.kube.site", "--tags", "crds,node_configs"),
    ):
        run = run_playbook(playbook, tmp_path, *given, *arguments)
        assert run.returncode == 0, run.output
    kubeconfig = whole_lab.kubeconfig
    named = [item for item in built("minimal") if item["kind"] in ("Namespace", "ServiceAccount")]
    definition = ROOT / "roles" / "crds" / "files" / "wattwise.github.io_powerfleets.yaml"
    others = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in namespaces_of(built("full"))
    ]
    apply({"kubeconfig": kubeconfig, "manifests": [*named, *others]})
    apply({"kubeconfig": kubeconfig, "src": [str(definition)], "wait": True})
    with Api(whole_lab.state.kubeconfig) as api:
        server = api.server
    with recording_proxy(server, str(whole_lab.state.ca_certificate)) as proxy:
        found = Account(kubeconfig, proxy, tmp_path)
        write_kubeconfig(found.own, whole_lab.state.kubeconfig, server=proxy.server)
        yield found
        apply({"kubeconfig": kubeconfig, "manifests": found.given, "state": "absent"})
    kube = Kube.connect({"kubeconfig": kubeconfig})
    path = f"/api/v1/namespaces/{NAMESPACE}"
    kube.request("DELETE", path)
    wait_until(lambda: kube.find(path) is None, 120.0, f"the end of {NAMESPACE}")
    # The tests have changed templates, so that the inventory does not own all of their fields.
    everything = ("-e", f"teardown_everything_of={CLUSTER}")
    run = run_playbook("wattwise.kube.teardown", tmp_path, *given, *everything)
    assert run.returncode == 0, run.output


@pytest.fixture
def fleet(account: Account) -> Callable[..., Json]:
    """Creates a PowerFleet, or changes its spec."""
    kube = Kube.connect({"kubeconfig": account.kubeconfig})

    def make(**spec: t.Any) -> Json:
        body: Json = {
            "apiVersion": "wattwise.github.io/v1alpha1",
            "kind": "PowerFleet",
            "metadata": {"name": "all", "namespace": NAMESPACE},
            # An interval other than the default is written to an annotation.
            "spec": {"interval": "2m", **spec},
        }
        if kube.find(f"{FLEETS}/all") is None:
            return kube.request("POST", FLEETS, body)
        return kube.request("PATCH", f"{FLEETS}/all", {"spec": spec}, MERGE_CONTENT_TYPE)

    return make


def test_each_overlay_has_the_permissions_that_its_runs_use(
    account: Account, fleet: Callable[..., Json], whole_lab: RunningLab
) -> None:
    kube = Kube.connect({"kubeconfig": account.kubeconfig})
    used = set(WATCHED)

    def made(overlay: str, **spec: t.Any) -> set[tuple[Permission, ...]]:
        """One run with the permissions of an overlay; returns these permissions."""
        given = permissions(account.may(overlay))
        covered = {right for alternatives in given for right in alternatives}
        account.proxy.forget()
        fleet(**spec)
        account.run("all")
        used.update(account.proxy.used)
        assert account.proxy.used <= covered
        return given

    made("minimal", placement={"enabled": False})

    # The permission to create the Lease is needed once in a cluster.
    if kube.find(LEASE) is not None:
        kube.request("DELETE", LEASE)
    with waiting_pods(whole_lab):
        spec = {"placement": {"enabled": True}, "nodeConfigs": {"enabled": True}}
        for config in kube.list(CONFIGS):
            kube.request("DELETE", path_of_config(config))
        made("default", **spec)
        assert len(kube.list(CONFIGS)) == whole_lab.settings.nodes
        # Nodes leave one template, and another renders differently.
        [first, second, *_others] = kube.list(TEMPLATES)
        path = TEMPLATES.replace("/nodeconfigt", "/namespaces/wao-system/nodeconfigt")
        nowhere = {"spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/arch": "amd64"}}}}
        kube.request("PATCH", f"{path}/{first['metadata']['name']}", nowhere, MERGE_CONTENT_TYPE)
        later = {"metadata": {"annotations": {"wattwise.github.io/cpu-usage-format": "raw"}}}
        kube.request("PATCH", f"{path}/{second['metadata']['name']}", later, MERGE_CONTENT_TYPE)
        given = made("default", **spec)
        ours = {each for each in given if not {right.group for right in each} & OPTIONAL}
        vain = {each for each in ours if not used.intersection(each)}
        assert {each[0] for each in vain} <= UNUSED.keys()

    workloads = rmd_workload(whole_lab)
    apply({"kubeconfig": account.kubeconfig, "manifests": [workloads]})
    made("full", devices={"enabled": True}, rmd={"enabled": True, "minSuccess": 0})
    apply({"kubeconfig": account.kubeconfig, "manifests": [workloads], "state": "absent"})
