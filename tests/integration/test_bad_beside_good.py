# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile NodeConfigs, templates, nodes and statuses beside good ones, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    API_VERSIONS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.templates import render
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from support import observing
from support.snapshots import with_targets
from support.wao import DEFINITIONS, node_config, template

FALLBACK = "wattwise.github.io/fallback-inlet-celsius"
ANNOTATION = "bad-beside-good.test/bmc"
MOMENT = "2026-01-31T12:00:00Z"


@pytest.fixture(scope="module", autouse=True)
def definitions(kubeconfig: str) -> None:
    files = [str(path) for path in sorted(DEFINITIONS.glob("*_nodeconfig*.yaml"))]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})


@pytest.fixture
def nodes(kube: Kube) -> Iterator[list[str]]:
    """Two nodes of the lab: one with a hostile annotation, one with a good one."""
    names = sorted(each["metadata"]["name"] for each in kube.list("/api/v1/nodes"))[:2]
    values: list[tuple[str, str | None]] = list(zip(names, ("evil.com/", "bmc-2"), strict=True))
    for name, value in [*values]:
        annotate(kube, name, value)
    yield names
    for name in names:
        annotate(kube, name, None)


def annotate(kube: Kube, node: str, value: str | None) -> None:
    body = {"metadata": {"annotations": {ANNOTATION: value}}}
    kube.request("PATCH", f"/api/v1/nodes/{node}", body, MERGE_CONTENT_TYPE)


def of_namespace(kubeconfig: str, namespace: str, folder: Path, names: list[str]) -> str:
    """A snapshot document with the objects of one namespace, and these nodes."""
    parts = ("node_configs", "node_config_templates")
    body = snapshot.take({"kubeconfig": kubeconfig, "include": ["nodes", *parts]})["snapshot"]
    for part in parts:
        body[part] = [o for o in body[part] if o["metadata"]["namespace"] == namespace]
    body["nodes"] = [node for node in body["nodes"] if node["metadata"]["name"] in names]
    path = str(folder / "snapshot.json")
    documents.write(path, "snapshot", with_targets(body))
    return path


def config_path(namespace: str, name: str) -> str:
    return f"/apis/{API_VERSIONS[0]}/namespaces/{namespace}/nodeconfigs/{name}"


def status_of(namespace: str, name: str, vendor: str) -> MutableObject:
    return {
        "apiVersion": API_VERSIONS[0],
        "kind": "NodeConfig",
        "metadata": {"name": name, "namespace": namespace},
        "status": {"sensors": {"vendor": vendor}},
    }


def test_a_status_that_the_server_refuses_is_the_failure_of_its_object_alone(
    kube: Kube, kubeconfig: str, namespace: str
) -> None:
    configs = [node_config(name, f"node-{name}", namespace=namespace) for name in ("a", "b", "c")]
    apply({"kubeconfig": kubeconfig, "manifests": configs})
    vendors = {"a": "good", "b": "x" * 40_000, "c": "good"}
    statuses = [status_of(namespace, name, vendor) for name, vendor in vendors.items()]
    parameters = {"kubeconfig": kubeconfig, "status": True, "manifests": statuses}
    warned: list[str] = []
    result = apply({**parameters, "on_error": "report"}, Context(warn=warned.append))
    assert [each["action"] for each in result["results"]] == ["configured", "failed", "configured"]
    assert len(result["results"][1]["error"]) <= 2000
    assert len(warned) == 1 and warned[0].startswith("1 of 3 objects failed: ")
    for name in ("a", "c"):
        found = kube.get(config_path(namespace, name))
        assert found["status"]["sensors"] == {"vendor": "good"}
    with pytest.raises(WattwiseError, match="1 of 3 objects failed"):
        apply(parameters)


def test_a_write_that_is_not_allowed_fails_the_task_always(kubeconfig: str, namespace: str) -> None:
    apply({"kubeconfig": kubeconfig, "manifests": [node_config("a", "n", namespace=namespace)]})
    statuses = [status_of(namespace, "a", "good")]
    parameters = {"kubeconfig": kubeconfig, "status": True, "manifests": statuses}
    stranger = {"impersonate_user": "stranger"}
    with pytest.raises(WattwiseError, match="grant the permission in RBAC"):
        apply({**parameters, **stranger, "on_error": "report"})


def test_a_hostile_value_of_a_node_costs_that_node_alone(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    endpoint = f'https://{{{{ index .Annotations "{ANNOTATION}" }}}}.bmc.example'
    hostile = template("open", {"type": "Redfish", "endpoint": endpoint}, namespace=namespace)
    broken = template("broken", namespace=namespace)
    broken["spec"]["template"]["metricsCollector"]["deltaP"]["endpoint"] = "{{ " + "(" * 500
    good = template("good", namespace=namespace)
    apply({"kubeconfig": kubeconfig, "manifests": [hostile, broken, good]})
    path = of_namespace(kubeconfig, namespace, tmp_path, nodes)
    rendered = render({"snapshot": path})
    made = {each["metadata"]["name"]: each["spec"] for each in rendered["node_configs"]}
    assert sorted(made) == sorted([f"good-{name}" for name in nodes] + [f"open-{nodes[1]}"])
    inlet = made[f"open-{nodes[1]}"]["metricsCollector"]["inletTemp"]
    assert inlet["endpoint"] == "https://bmc-2.bmc.example"
    apply({"kubeconfig": kubeconfig, "manifests": rendered["node_configs"], "on_error": "report"})
    written = apply(
        {
            "kubeconfig": kubeconfig,
            "manifests": rendered["statuses"],
            "status": True,
            "on_error": "report",
        }
    )
    assert {each["action"] for each in written["results"]} == {"configured"}
    collection = f"/apis/{API_VERSIONS[0]}/namespaces/{namespace}/nodeconfigtemplates"
    conditions = {
        each["metadata"]["name"]: each["status"]["conditions"][0] for each in kube.list(collection)
    }
    assert {name: each["status"] for name, each in conditions.items()} == {
        "open": "False",
        "broken": "False",
        "good": "True",
    }
    assert "neither a host name nor an address" in conditions["open"]["message"]


def test_a_hostile_node_config_costs_its_node_alone(
    kube: Kube, kubeconfig: str, namespace: str, nodes: list[str], tmp_path: Path
) -> None:
    configs = [
        node_config("bad", nodes[0], namespace=namespace, annotations={FALLBACK: "nan"}),
        node_config("good", nodes[1], namespace=namespace, annotations={FALLBACK: "25"}),
    ]
    apply({"kubeconfig": kubeconfig, "manifests": configs})
    status = status_of(namespace, "bad", "v")
    status["status"]["readings"] = {"inletTemp": {"celsius": 1.0, "time": "9999-12-31T23:59:59Z"}}
    apply({"kubeconfig": kubeconfig, "manifests": [status], "status": True})
    of_namespace(kubeconfig, namespace, tmp_path, nodes)
    sensors = {"name": nodes[0], "inlet_uri": "/a", "inlet_name": "x" * 40_000}
    result = observing.observe(
        tmp_path,
        thermal=[{"readings": [], "errors": [], "sensors": [sensors]}],
        pressure=[{"readings": [], "errors": []}],
    )
    assert result["readings"][nodes[0]]["inlet_celsius"] is None
    assert result["readings"][nodes[1]]["inlet_celsius"] == 25.0
    assert {(each["name"], each["field"]) for each in result["findings"]} == {
        ("bad", f"metadata.annotations[{FALLBACK}]"),
        ("bad", "status.readings.inletTemp.time"),
    }
    written = apply(
        {
            "kubeconfig": kubeconfig,
            "src": [str(tmp_path / "statuses.json")],
            "src_key": "statuses",
            "status": True,
        }
    )
    assert [each["action"] for each in written["results"]] == ["configured", "configured"]
    assert kube.get(config_path(namespace, "bad"))["status"]["sensors"]["inletTemp"] == {
        "uri": "/a",
        "name": "",
    }
