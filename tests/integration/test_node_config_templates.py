# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_config_template in a cluster: rendered, applied, unchanged, removed with the nodes."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    API_VERSIONS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.template_source import (
    APPLY_SET,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.templates import render
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from support.wao import DEFINITIONS, fake, node_config, template


@pytest.fixture(scope="module", autouse=True)
def definitions(kubeconfig: str) -> None:
    files = [str(path) for path in sorted(DEFINITIONS.glob("*_nodeconfig*.yaml"))]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})


class Cluster(t.NamedTuple):
    """The lab, restricted to one namespace."""

    kube: Kube
    kubeconfig: str
    namespace: str
    folder: Path

    def apply(self, *manifests: MutableObject, **more: t.Any) -> MutableObject:
        return apply({"kubeconfig": self.kubeconfig, "manifests": list(manifests), **more})

    def reconcile(self) -> tuple[MutableObject, MutableObject, MutableObject]:
        """The work of the ``node_configs`` role: results of render, apply and the statuses."""
        body = snapshot.take({"kubeconfig": self.kubeconfig, "include": ["nodes", *PARTS]})
        body = body["snapshot"]
        for part in PARTS:
            body[part] = [o for o in body[part] if o["metadata"]["namespace"] == self.namespace]
        path, rendered = str(self.folder / "snapshot.json"), str(self.folder / "node_configs.json")
        documents.write(path, "snapshot", body)
        result = render({"snapshot": path, "path": rendered})
        kinds = [
            {"api_version": API_VERSIONS[0], "kind": "NodeConfig", "namespace": self.namespace}
        ]
        prune = {
            "prune": APPLY_SET,
            "prune_kinds": kinds,
            "prune_owner_kinds": ["NodeConfigTemplate"],
            "prune_max": 1.0,
        }
        applied = self.apply(src=[rendered], src_key="node_configs", **prune)
        status = {"status": True, "field_manager": "wattwise-node-configs"}
        return result, applied, self.apply(src=[rendered], src_key="statuses", **status)

    def configs(self) -> dict[str, MutableObject]:
        path = f"/apis/{API_VERSIONS[0]}/namespaces/{self.namespace}/nodeconfigs"
        return {each["metadata"]["name"]: each for each in self.kube.list(path)}


PARTS = ["node_configs", "node_config_templates"]


@pytest.fixture
def cluster(kube: Kube, kubeconfig: str, namespace: str, tmp_path: Path) -> Cluster:
    return Cluster(kube, kubeconfig, namespace, tmp_path)


@pytest.fixture
def node_names(kube: Kube) -> list[str]:
    """Two of the lab's nodes."""
    return sorted(each["metadata"]["name"] for each in kube.list("/api/v1/nodes"))[:2]


def template_for(
    cluster: Cluster, nodes: list[str], text: str = "{{ .Hostname }}"
) -> MutableObject:
    given = template("t", fake(text), namespace=cluster.namespace)
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    given["spec"]["nodeSelector"] = {"matchExpressions": [expression]}
    return given


def condition(obj: MutableObject, kind: str) -> tuple[str, str]:
    [found] = [each for each in obj["status"]["conditions"] if each["type"] == kind]
    return found["status"], found["reason"]


def test_a_second_run_changes_nothing(cluster: Cluster, node_names: list[str]) -> None:
    cluster.apply(template_for(cluster, node_names))
    result, applied, statuses = cluster.reconcile()
    assert result["errors"] == [] and applied["changed"] and statuses["changed"]
    before = cluster.configs()
    assert sorted(before) == [f"t-{name}" for name in node_names]
    for name in node_names:
        assert before[f"t-{name}"]["spec"]["metricsCollector"]["inletTemp"]["endpoint"] == name
        assert condition(before[f"t-{name}"], "Rendered") == ("True", "Rendered")
    _result, applied, statuses = cluster.reconcile()
    assert not applied["changed"] and not statuses["changed"]
    assert cluster.configs() == before


def test_node_configs_go_with_the_selection_and_hand_made_ones_stay(
    cluster: Cluster, node_names: list[str]
) -> None:
    hand_made = node_config("mine", node_names[0], namespace=cluster.namespace)
    cluster.apply(template_for(cluster, node_names), hand_made)
    cluster.reconcile()
    shadowed = cluster.configs()[f"t-{node_names[0]}"]
    assert condition(shadowed, "Shadowed") == ("True", "HandMade")
    cluster.apply(template_for(cluster, node_names[1:]))
    _result, applied, _statuses = cluster.reconcile()
    assert [each["name"] for each in applied["pruned"]] == [f"t-{node_names[0]}"]
    assert sorted(cluster.configs()) == ["mine", f"t-{node_names[1]}"]


def test_a_template_that_breaks_loses_nothing_and_says_so(
    cluster: Cluster, node_names: list[str]
) -> None:
    cluster.apply(template_for(cluster, node_names))
    cluster.reconcile()
    before = {name: each["spec"] for name, each in cluster.configs().items()}
    cluster.apply(template_for(cluster, node_names, "{{ .Nothing }}"))
    result, applied, statuses = cluster.reconcile()
    assert len(result["errors"]) == 2 and applied["pruned"] == [] and statuses["changed"]
    after = cluster.configs()
    assert {name: each["spec"] for name, each in after.items()} == before
    assert {condition(each, "Rendered") for each in after.values()} == {("False", "NotRendered")}
