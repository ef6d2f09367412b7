# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role rmd on the lab's API server: what it installs, refuses, changes and takes away."""

from __future__ import annotations

import json
import tomllib
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.apply import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube import Kube
from support.playbook import PlaybookRun, run_playbook

ROOT = Path(__file__).resolve().parents[2]
Object = dict[str, t.Any]
BROADWELL: Object = {
    "name": "broadwell",
    "node_labels": {"node.kubernetes.io/instance-type": "r730"},
    "ways": 20,
    "guaranteed_ways": 10,
    "besteffort_ways": 7,
    "shared_ways": 2,
}
SKYLAKE: Object = {
    "name": "default", "ways": 11, "guaranteed_ways": 6, "besteffort_ways": 3, "shared_ways": 1,
}  # fmt: skip


class Rmd:
    """Runs of the playbook in a namespace of its own, and what it left there."""

    def __init__(self, kube: Kube, kubeconfig: str, namespace: str, folder: Path) -> None:
        self.kube, self.kubeconfig = kube, kubeconfig
        self.namespace, self.folder = namespace, folder

    def play(
        self, *arguments: str, playbook: str = "wattwise.kube.rmd", **given: t.Any
    ) -> PlaybookRun:
        variables = {
            "wattwise_kubeconfig": self.kubeconfig,
            "wattwise_run_dir": str(self.folder / "runs"),
            "rmd_namespace": self.namespace,
            **given,
        }
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps({"clusters": {"hosts": {"here": variables}}}))
        tags = ("--tags", "rmd_daemons") if playbook == "wattwise.kube.rmd" else ()
        return run_playbook(
            playbook, self.folder, "-i", str(inventory), *tags, *arguments, as_json=True
        )

    def install(self, **given: t.Any) -> int:
        """Run it; returns how many tasks changed something."""
        run = self.play(**given)
        assert run.returncode == 0, run.output
        return run.stats()["here"]["changed"]

    def daemon_set(self, name: str = "rmd") -> Object:
        return self.kube.get(f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets/{name}")

    def daemon_sets(self) -> list[str]:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets"
        return sorted(item["metadata"]["name"] for item in self.kube.list(path))

    def file(self, name: str, daemon_set: str = "rmd") -> Object:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{daemon_set}-configuration"
        return tomllib.loads(self.kube.get(path)["data"][name])


@pytest.fixture
def rmd(kube: Kube, kubeconfig: str, namespace: str, tmp_path: Path) -> Iterator[Rmd]:
    files = [str(ROOT / "roles" / "crds" / "files" / "intel.com_rmdconfigs.yaml")]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})
    yield Rmd(kube, kubeconfig, namespace, tmp_path)


def test_the_default_is_one_daemon_set_with_tls_that_a_second_run_leaves_alone(rmd: Rmd) -> None:
    check = rmd.play("--check")
    assert check.returncode == 0, check.output
    assert rmd.daemon_sets() == []
    assert rmd.install() > 0
    before = rmd.daemon_set()
    assert rmd.install() == 0
    assert rmd.daemon_set()["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    pod = before["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"] == ["--conf-dir", "/etc/rmd", "--address", "0.0.0.0"]
    assert container["ports"][0]["containerPort"] == 8443
    assert pod["nodeSelector"] == {"feature.node.kubernetes.io/cpu-rdt.RDTL3CA": "true"}
    toml = rmd.file("rmd.toml")
    assert toml["default"]["clientauth"] == "challenge"
    assert toml["debug"]["enabled"] is False
    pools = {name: toml["CachePool"][name] for name in ("guarantee", "besteffort", "shared")}
    assert pools == {"guarantee": 6, "besteffort": 3, "shared": 1}
    assert "InfraGroup" not in toml
    assert rmd.file("policy.toml")["skylake"]["silver"]["cache"] == {"max": 3, "min": 1}


def test_check_mode_works_before_there_is_a_namespace(rmd: Rmd) -> None:
    run = rmd.play("--check", rmd_namespace="not-there-yet", rmd_agent_image="agent:1")
    assert run.returncode == 0, run.output
    assert rmd.kube.find("/api/v1/namespaces/not-there-yet") is None


def test_the_client_s_files_lie_in_the_run_folder(rmd: Rmd) -> None:
    rmd.install()
    folder = rmd.folder / "runs" / "here" / "rmd"
    assert sorted(path.name for path in folder.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]


def test_a_new_certificate_is_a_new_pod(rmd: Rmd) -> None:
    rmd.install()
    before = rmd.daemon_set()["spec"]["template"]["metadata"]["annotations"]
    rmd.kube.request("DELETE", f"/api/v1/namespaces/{rmd.namespace}/secrets/rmd-server")
    rmd.install()
    after = rmd.daemon_set()["spec"]["template"]["metadata"]["annotations"]
    changed = {key for key in after if after[key] != before[key]}
    assert changed == {"wattwise.github.io/certificate"}


def test_without_tls_it_is_plain_http_and_no_certificate_is_made(rmd: Rmd) -> None:
    rmd.install(rmd_tls=False)
    [container] = rmd.daemon_set()["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "-d"
    assert container["ports"][0]["containerPort"] == 8081
    assert rmd.file("rmd.toml")["debug"]["enabled"] is True
    assert rmd.kube.list(f"/api/v1/namespaces/{rmd.namespace}/secrets") == []


def test_every_layout_is_a_daemon_set_and_one_that_goes_takes_its_own_along(rmd: Rmd) -> None:
    models = [{"microarchitecture": "Skylake", "family": 6, "model": 106}]
    rmd.install(rmd_tls=False, rmd_layouts=[SKYLAKE, {**BROADWELL, "cpu_models": models}])
    assert rmd.daemon_sets() == ["rmd", "rmd-broadwell"]
    selector = rmd.daemon_set("rmd-broadwell")["spec"]["template"]["spec"]["nodeSelector"]
    assert selector["node.kubernetes.io/instance-type"] == "r730"
    assert rmd.file("rmd.toml", "rmd-broadwell")["CachePool"]["guarantee"] == 10
    assert rmd.file("cpu_map.toml", "rmd-broadwell") == {"Skylake": [{"family": 6, "model": 106}]}
    rmd.install(rmd_tls=False, rmd_layouts=[SKYLAKE], rmd_prune_max=1.0)
    assert rmd.daemon_sets() == ["rmd"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"guaranteed_ways": 8},
            "default: os 1 + guaranteed 8 + best effort 3 + shared 1 = 13 ways, infra 0; the cache"
            " has 11",
        ),
        ({"infra_ways": 12}, "infra 12"),
    ],
)
def test_pools_that_do_not_fit_are_refused_with_the_sum(
    rmd: Rmd, change: Object, words: str
) -> None:
    run = rmd.play(rmd_layouts=[{**SKYLAKE, **change}])
    assert run.returncode != 0
    assert words in run.output
    assert rmd.daemon_sets() == []


def test_nodes_of_the_inventory_get_the_label_and_a_pod(rmd: Rmd) -> None:
    label = f"wattwise.github.io/{rmd.namespace}"
    node = sorted(item["metadata"]["name"] for item in rmd.kube.list("/api/v1/nodes"))[0]
    rmd.install(rmd_tls=False, rmd_node_labels={label: "true"}, rmd_labelled_nodes=[node])
    assert rmd.kube.get(f"/api/v1/nodes/{node}")["metadata"]["labels"][label] == "true"
    selector = rmd.daemon_set()["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {label: "true"}


def test_the_agent_may_end_pods_only_where_that_is_wanted(rmd: Rmd) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rmd-node-agent"
    verbs = []
    for ends_pods in (False, True):
        rmd.install(rmd_tls=False, rmd_agent_image="agent:1", rmd_terminate_refused_pods=ends_pods)
        verbs.append(rmd.kube.get(role)["rules"][0]["verbs"])
    assert verbs == [["list"], ["list", "delete"]]
    assert rmd.daemon_sets() == ["rmd", "rmd-node-agent"]
    config = f"/apis/intel.com/v1alpha1/namespaces/{rmd.namespace}/rmdconfigs/rmdconfig"
    assert rmd.kube.get(config)["spec"]["deployNodeAgent"] is True
