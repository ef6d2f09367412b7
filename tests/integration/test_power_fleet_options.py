# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices, cache ways, moves and reports of a PowerFleet: each takes effect once enabled."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
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
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import path_of
from ansible_collections.wattwise.kube.plugins.module_utils.report import building
from lab.process import wait_until
from lab.rmd.host import Configuration
from support.dockerfile import ROOT
from support.dra_lab import DraLab
from support.inference_server import InferenceServer, Model
from support.rmd import rmd_daemons
from support.wao import node_config

Json = dict[str, t.Any]

FILES = ROOT / "roles" / "crds" / "files"
GROUPS = ("wao.bitmedia.co.jp", "intel.com", "wattwise.github.io")
ON: Json = {"enabled": True}


@pytest.fixture(scope="module")
def definitions(kubeconfig: str) -> None:
    """The CRDs belong to the whole lab and stay."""
    names = [str(path) for path in sorted(FILES.glob("*.yaml")) if path.name.startswith(GROUPS)]
    apply({"kubeconfig": kubeconfig, "src": names, "wait": True})


class Hall:
    """A fleet of two nodes with a device each, reconciled in this process."""

    def __init__(self, dra: DraLab, folder: Path) -> None:
        self.dra, self.kube, self.namespace, self.folder = dra, dra.kube, dra.namespace, folder
        self.path = path_of(self.namespace, "hall")
        self.nodes = (dra.node(1), dra.node(2))
        placement = {"schedulerName": self.namespace}
        selector = {"matchLabels": {"test": self.namespace}}
        body = {
            "apiVersion": "wattwise.github.io/v1alpha1",
            "kind": "PowerFleet",
            "metadata": {"name": "hall", "namespace": self.namespace},
            "spec": {"nodeSelector": selector, "placement": placement},
        }
        self.kube.request("POST", self.path.rpartition("/")[0], body)

    def run(self, **spec: t.Any) -> Json:
        """One run after a change of the spec."""
        self.kube.request("PATCH", self.path, {"spec": spec}, MERGE_CONTENT_TYPE)
        given = {"kubeconfig": self.dra.kubeconfig, "namespace": self.namespace, "name": "hall"}
        result = reconcile({**given, "run_dir": str(self.folder)})
        assert result["ready"], result["status"]["conditions"]
        return result

    def close(self, node: str, is_closed: bool) -> None:
        spec = {"spec": {"unschedulable": is_closed}}
        self.kube.request("PATCH", f"/api/v1/nodes/{node}", spec, MERGE_CONTENT_TYPE)


@pytest.fixture
def hall(
    kube: Kube, kubeconfig: str, namespace: str, definitions: None, tmp_path: Path
) -> Iterator[Hall]:
    dra = DraLab(kube, kubeconfig, namespace)
    try:
        dra.set_up([1, 1])
        made = Hall(dra, tmp_path)
        yield made
        kube.request("DELETE", made.path)
    finally:
        dra.tear_down()


def test_pods_get_devices(hall: Hall) -> None:
    hall.dra.add_pod("wants")
    hall.run(devices={"enabled": False})
    assert hall.dra.node_of("wants") is None
    changes = hall.run(devices=ON)["devices"]["changes"]
    assert changes and hall.dra.node_of("wants") in hall.nodes
    assert hall.run()["changed"] is False


def test_daemons_get_the_cache_ways_of_workloads(hall: Hall, tmp_path: Path) -> None:
    node, kube, namespace = hall.nodes[0], hall.kube, hall.namespace
    configuration = Configuration(debug=True)
    with rmd_daemons(tmp_path / "daemons", {node: configuration}) as daemons:
        host, _colon, port = daemons.endpoint(node).rpartition(":")
        address = host.rpartition("/")[2]
        container = {"name": "rmd", "image": "none", "ports": [{"containerPort": int(port)}]}
        metadata = {"name": "daemon", "labels": {"name": "rmd-pod"}}
        spec = {
            "nodeName": node,
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
        }
        pods = f"/api/v1/namespaces/{namespace}/pods"
        kube.request("POST", pods, {"metadata": metadata, "spec": spec})
        wait_until(lambda: is_running(kube, f"{pods}/daemon"), 30.0, "the daemon's pod")
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        kube.request("PATCH", f"{pods}/daemon/status", status, MERGE_CONTENT_TYPE)
        workload = {
            "apiVersion": "intel.com/v1alpha1",
            "kind": "RmdWorkload",
            "metadata": {"name": "ways", "namespace": namespace},
            "spec": {"coreIds": ["1"], "cache": {"max": 2, "min": 2}, "nodes": [node]},
        }
        apply({"kubeconfig": hall.dra.kubeconfig, "manifests": [workload]})
        hall.run()
        assert daemons.writes() == 0
        hall.run(rmd={"enabled": True, "namespace": namespace})
        assert daemons.writes() == 1
        assert hall.run()["changed"] is False


def is_running(kube: Kube, path: str) -> bool:
    return bool(kube.get(path).get("status", {}).get("podIP"))


def test_pods_move_to_cheaper_nodes_only_where_that_is_allowed(hall: Hall) -> None:
    cheap, dear = hall.nodes
    lines = {
        cheap: Model(lambda cpu, _inlet, _pressure: 50 + 0.4 * cpu),
        dear: Model(lambda cpu, _inlet, _pressure: 50 + 2.0 * cpu),
    }
    with InferenceServer(lines) as models:
        configs = [node_config(name, name) for name in lines]
        for config in configs:
            name = config["metadata"]["name"]
            config["metadata"]["namespace"] = hall.namespace
            model = {"type": "V2InferenceProtocol", "endpoint": models.endpoint(name)}
            config["spec"]["predictor"] = {"powerConsumption": model}
        apply({"kubeconfig": hall.dra.kubeconfig, "manifests": configs})
        hall.close(cheap, True)
        deploy(hall)
        wait_until(lambda: len(pods_of(hall)) == 1, 30.0, "the Deployment's pod")
        hall.run()
        [first] = pods_of(hall)
        assert first["spec"]["nodeName"] == dear
        wait_until(lambda: is_ready(pods_of(hall)[0]), 30.0, "the pod to be ready")
        hall.close(cheap, False)
        assert "evict" not in hall.run(placement={"rebalance": True})
        [move] = hall.run(placement={"allowEvict": True})["evict"]["moves"]
    assert move["outcome"] == "moved"
    moved = [pod for pod in pods_of(hall) if not pod["metadata"].get("deletionTimestamp")]
    assert [pod["spec"]["nodeName"] for pod in moved] == [cheap]


def deploy(hall: Hall) -> None:
    labels = {"app": "web"}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": hall.namespace,
        "containers": [container],
        "tolerations": [{"key": "test", "operator": "Exists"}],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    path = f"/apis/apps/v1/namespaces/{hall.namespace}/deployments"
    hall.kube.request("POST", path, deployment)


def pods_of(hall: Hall) -> list[Json]:
    found = hall.kube.list(f"/api/v1/namespaces/{hall.namespace}/pods")
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def test_a_report_is_made_where_it_is_asked_for(hall: Hall) -> None:
    assert hall.run()["report"] is False
    assert hall.run(report=ON)["report"] is True
    page = hall.folder / "report.html"
    building.write({"run_dir": str(hall.folder), "path": str(page), "title": "hall"})
    assert "hall" in page.read_text()
