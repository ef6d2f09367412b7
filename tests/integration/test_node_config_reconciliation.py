# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_config_reconciliation in a cluster: from nothing, once more, against a rival, and back."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.source import NOTHING
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    API_VERSIONS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.reconciliation import (
    follow_templates,
    reconcile,
)
from support.custom_resources import remove_ours
from support.wao import DEFINITIONS, fake, template

NAMESPACE = "reconciled"
FILES = [str(path) for path in sorted(DEFINITIONS.glob("wao.bitmedia.co.jp_nodeconfig*.yaml"))]
PATH = f"/apis/{API_VERSIONS[0]}/namespaces/{NAMESPACE}"


def parameters(kubeconfig: str, folder: Path, nodes: list[str]) -> MutableObject:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    spec = {
        **template("t", fake("{{ .Hostname }}"))["spec"],
        "nodeSelector": {"matchExpressions": [expression]},
    }
    return {
        "kubeconfig": kubeconfig,
        "namespace": NAMESPACE,
        "secrets": [{"name": "bmc", "username": "monitor", "password": "hunter2"}],
        "templates": [{"name": "t", "spec": spec}],
        "assume": FILES,
        "path": str(folder / "run" / "node_configs.json"),
    }


def actions(result: MutableObject) -> set[str]:
    return {entry["action"] for entry in result["results"]}


def test_a_cluster_is_brought_from_nothing_to_its_templates_and_back(
    kube: Kube, kubeconfig: str, tmp_path: Path
) -> None:
    nodes = sorted(each["metadata"]["name"] for each in kube.list("/api/v1/nodes"))[:2]
    given = parameters(kubeconfig, tmp_path, nodes)
    planned = reconcile(given, Context(check_mode=True))
    assert planned["changed"] and kube.find(f"/api/v1/namespaces/{NAMESPACE}") is None
    document = json.loads((tmp_path / "run" / "node_configs.json").read_text())
    # The cluster's other templates are rendered too.
    assert planned["counts"]["node_configs"] == len(document["node_configs"])
    namespaces = [each["metadata"]["namespace"] for each in document["node_configs"]]
    assert namespaces.count(NAMESPACE) == 2

    apply({"kubeconfig": kubeconfig, "src": FILES, "wait": True})
    made = reconcile(given)
    assert made["changed"] and "failed" not in actions(made) and made["errors"] == []
    configs = {each["metadata"]["name"]: each for each in kube.list(f"{PATH}/nodeconfigs")}
    assert sorted(configs) == [f"t-{name}" for name in nodes]
    [stored] = kube.list(f"{PATH}/nodeconfigtemplates")
    for name in nodes:
        [owner] = configs[f"t-{name}"]["metadata"]["ownerReferences"]
        assert owner["uid"] == stored["metadata"]["uid"]
    assert stored["status"]["matchedNodes"] == 2
    secret = kube.read_secret(NAMESPACE, "bmc")
    assert secret is not None and secret[0] == {"username": "monitor", "password": "hunter2"}
    assert "hunter2" not in json.dumps(made)

    again = reconcile(given)
    assert not again["changed"] and actions(again) == {"unchanged"} and again["diff"] == []

    fewer = reconcile({**given, **_for_one(given, nodes[0])})
    assert [entry["name"] for entry in fewer["pruned"]] == [f"t-{nodes[1]}"]
    gone = reconcile({**given, "templates": [], "secrets": [], "prune_max": 1.0})
    assert {entry["kind"] for entry in gone["pruned"]} >= {"Secret", "NodeConfigTemplate"}
    assert kube.list(f"{PATH}/nodeconfigtemplates") == []


def _for_one(given: MutableObject, node: str) -> MutableObject:
    [only] = json.loads(json.dumps(given["templates"]))
    only["spec"]["nodeSelector"]["matchExpressions"][0]["values"] = [node]
    return {"templates": [only]}


def test_following_the_templates_leaves_what_an_inventory_applied(
    kube: Kube, kubeconfig: str, tmp_path: Path
) -> None:
    nodes = sorted(each["metadata"]["name"] for each in kube.list("/api/v1/nodes"))[:3]
    pins = dict.fromkeys(nodes, "ab" * 32)
    given = {**parameters(kubeconfig, tmp_path, nodes[:2]), "tls_fingerprints": pins}
    apply({"kubeconfig": kubeconfig, "src": FILES, "wait": True})
    reconcile(given)
    [secret] = kube.list(f"/api/v1/namespaces/{NAMESPACE}/secrets")
    nothing, parts = follow_templates(kube)
    assert {each["metadata"]["name"] for each in parts.objects["node_configs"]} >= {
        f"t-{name}" for name in nodes[:2]
    }
    assert not nothing["changed"] and actions(nothing) == {"unchanged"} and nothing["pruned"] == []

    by_hand = {**template("by-hand", fake("x"), namespace=NAMESPACE), "apiVersion": API_VERSIONS[0]}
    by_hand["spec"]["nodeSelector"] = {"matchLabels": {"kubernetes.io/hostname": nodes[2]}}
    apply({"kubeconfig": kubeconfig, "manifests": [by_hand]})
    assert follow_templates(kube, Context(check_mode=True)).result["changed"]
    made, changed_parts = follow_templates(kube)
    assert made["changed"] and changed_parts == NOTHING
    configs = {each["metadata"]["name"]: each for each in kube.list(f"{PATH}/nodeconfigs")}
    assert sorted(configs) == [f"by-hand-{nodes[2]}", *(f"t-{name}" for name in nodes[:2])]
    pinned = {name for name, each in configs.items() if each["metadata"].get("annotations")}
    assert pinned == {f"t-{name}" for name in nodes[:2]}
    others_change_and_make(kube, f"by-hand-{nodes[2]}")
    kube.request("DELETE", f"{PATH}/nodeconfigtemplates/by-hand")
    follow_templates(kube)
    left = [each["metadata"]["name"] for each in kube.list(f"{PATH}/nodeconfigs")]
    assert sorted(left) == [f"t-{name}" for name in nodes[:2]]
    [kept] = kube.list(f"/api/v1/namespaces/{NAMESPACE}/secrets")
    assert kept["metadata"]["resourceVersion"] == secret["metadata"]["resourceVersion"]
    reconcile({**given, "templates": [], "secrets": [], "prune_max": 1.0})


def test_a_run_reads_each_list_once(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    every = {**template("every", namespace=NAMESPACE), "apiVersion": API_VERSIONS[0]}
    apply({"src": FILES, "wait": True}, kube=kube)
    apply({"manifests": [home, every]}, kube=kube)
    # Enough that an application lists them instead of requesting each.
    assert len(follow_templates(kube).result["results"]) > 20
    listed: list[str] = []
    read = Kube.list

    def reading(self: Kube, path: str, *given: t.Any) -> list[MutableObject]:
        listed.append(path)
        return read(self, path, *given)

    monkeypatch.setattr(Kube, "list", reading)
    assert follow_templates(kube).parts != NOTHING
    assert f"/apis/{API_VERSIONS[0]}/nodeconfigs" in listed and len(listed) == len(set(listed))
    remove_ours(kube)


def others_change_and_make(kube: Kube, name: str) -> None:
    """Fields of our NodeConfig become ours again; another manager's NodeConfig stays its own."""
    path, theirs = f"{PATH}/nodeconfigs/{name}", {"fieldManager": "another"}
    change = {"spec": {"metricsCollector": {"inletTemp": {"endpoint": "theirs"}}}}
    kube.request("PATCH", path, change, MERGE_CONTENT_TYPE, theirs)
    follow_templates(kube)
    ours = kube.get(path)
    assert ours["spec"]["metricsCollector"]["inletTemp"]["endpoint"] == "x"
    kube.request("DELETE", path)
    ours["spec"]["metricsCollector"]["inletTemp"]["endpoint"] = "theirs"
    body = {**ours, "metadata": {"name": name, "namespace": NAMESPACE}}
    kube.request("POST", f"{PATH}/nodeconfigs", body, query=theirs)
    assert name not in {entry["name"] for entry in follow_templates(kube).result["results"]}
    stored = kube.get(path)
    assert stored["spec"]["metricsCollector"]["inletTemp"]["endpoint"] == "theirs"
    kube.request("DELETE", path)


@pytest.fixture
def wao_core(kubeconfig: str, namespace: str) -> t.Iterator[str]:
    """A Deployment like that of wao-core's controller."""
    labels = {"control-plane": "controller-manager"}
    container = {"name": "manager", "image": "ghcr.io/waok8s/wao-controller:v1.27.0"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "wao", "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    apply({"kubeconfig": kubeconfig, "manifests": [deployment]})
    yield container["image"]
    apply({"kubeconfig": kubeconfig, "manifests": [deployment], "state": "absent"})


def test_nothing_is_written_where_wao_core_runs(
    kube: Kube, kubeconfig: str, tmp_path: Path, wao_core: str
) -> None:
    given = {**parameters(kubeconfig, tmp_path, []), "namespace": "rival"}
    with pytest.raises(InvalidInput, match=rf"wao-core runs .*{wao_core}.*node_configs_force"):
        reconcile(given)
    assert kube.find("/api/v1/namespaces/rival") is None
    assert reconcile({**given, "force": True}, Context(check_mode=True))["changed"]
