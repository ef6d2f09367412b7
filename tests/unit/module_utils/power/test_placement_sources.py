# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents, files and literal lists as input of power_placement, and errors in them."""

from __future__ import annotations

import json
import math
import re
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible.module_utils.common.parameters import env_fallback

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import SPEC, place

Json = dict[str, t.Any]
CURVE = {"cpu": [0, 10], "watts": [100, 200]}


def kubernetes_node(name: str, **more: t.Any) -> Json:
    status = {
        "allocatable": {"cpu": "10", "memory": "32Gi", "pods": "3"},
        "conditions": [{"type": "Ready", "status": more.pop("ready", "True")}],
    }
    return {"metadata": {"name": name, "labels": {"zone": "a"}}, "spec": more, "status": status}


def kubernetes_pod(name: str, cpu: str = "1", phase: str = "Pending", **spec: t.Any) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "3"}
    return {
        "metadata": metadata,
        "spec": {"schedulerName": "wattwise", "containers": [container], **spec},
        "status": {"phase": phase},
    }


def metrics(name: str, cpu: str) -> Json:
    return {"metadata": {"name": name}, "usage": {"cpu": cpu, "memory": "1Gi"}}


def written(folder: Path, kind: t.Any, **body: t.Any) -> str:
    path = str(folder / f"{kind}.json")
    documents.write(path, kind, body)
    return path


def from_documents(folder: Path, snapshot: Json, curves: Json, **options: t.Any) -> Json:
    return place(
        {
            "snapshot": written(folder, "snapshot", cluster={}, **snapshot),
            "curves": written(folder, "curves", curves=curves),
            **options,
        }
    )


def test_a_snapshot_is_placed_and_the_plan_written(tmp_path: Path) -> None:
    pods = [
        kubernetes_pod("new"),
        kubernetes_pod("running", "2", "Running", nodeName="n1"),
        kubernetes_pod("done", "4", "Succeeded", nodeName="n1"),
        kubernetes_pod("foreign", schedulerName="default-scheduler"),
        kubernetes_pod("gated", schedulingGates=[{"name": "wait"}]),
    ]
    plan = tmp_path / "plan.json"
    result = from_documents(
        tmp_path, {"nodes": [kubernetes_node("n1")], "pods": pods}, {"n1": CURVE}, path=str(plan)
    )
    assert result["placements"] == [
        {
            "namespace": "shop",
            "pod": "new",
            "uid": "uid-new",
            "resource_version": "3",
            "node": "n1",
        }
    ]
    assert result["watts"] == {"before": 116.0, "after": 124.0, "lower_bound": 124.0}
    stored = documents.load(str(plan), "plan")
    assert stored["placements"] == result["placements"]
    assert (result["path"], len(result["sha256"])) == (str(plan), 64)


@pytest.mark.parametrize(
    ("usage_source", "cores"), [("auto", 5.5 + 0.8), ("metrics", 5.5 + 0.8), ("requests", 3.2)]
)
def test_use_comes_from_metrics_or_from_requests(
    tmp_path: Path, usage_source: str, cores: float
) -> None:
    """Metrics do not include a pod that has not started yet: its use is added."""
    pods = [
        kubernetes_pod("running", "3", "Running", nodeName="n1"),
        kubernetes_pod("starting", "1", "Pending", nodeName="n1"),
    ]
    snapshot = {
        "nodes": [kubernetes_node("n1")],
        "pods": pods,
        "node_metrics": [metrics("n1", "5500000000n")],
    }
    result = from_documents(tmp_path, snapshot, {"n1": CURVE}, usage_source=usage_source)
    assert result["nodes"][0]["cpu_before"] == pytest.approx(cores)


def test_without_metrics_a_node_is_priced_by_requests_or_not_at_all(tmp_path: Path) -> None:
    snapshot = {"nodes": [kubernetes_node("n1")], "pods": []}
    assert from_documents(tmp_path, snapshot, {"n1": CURVE})["unpriced"] == []
    only_metrics = from_documents(tmp_path, snapshot, {"n1": CURVE}, usage_source="metrics")
    assert only_metrics["unpriced"] == ["n1"]


def test_a_kubernetes_node_that_is_not_fit_gets_nothing() -> None:
    taint = {"key": "gpu", "value": "x", "effect": "NoSchedule"}
    nodes = [
        kubernetes_node("cordoned", unschedulable=True),
        kubernetes_node("off", ready="Unknown"),
        kubernetes_node("tainted", taints=[taint]),
        {"metadata": {"name": "new"}, "spec": {}},
    ]
    result = place({"nodes": nodes, "pods": [kubernetes_pod("a")]})
    assert result["unplaced"][0]["reasons"] == {
        "Insufficient cpu": 1,
        "Too many pods": 1,
        "node(s) had untolerated taint {gpu: x}": 1,
        "node(s) were not ready": 1,
        "node(s) were unschedulable": 1,
    }


def test_running_pods_take_slots_and_keep_others_away() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    anti_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    shy = kubernetes_pod("shy", nodeName="n1", affinity={"podAntiAffinity": anti_affinity})
    web = {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "count": 1}
    other = {"name": "other", "namespace": "shop", "count": 5}
    nodes = [kubernetes_node("n1"), {"name": "n2", "allocatable": {}, "labels": {"zone": "b"}}]
    result = place({"nodes": nodes, "pods": [web, other], "running": [shy]})
    where = {entry["pod"]: entry["node"] for entry in result["placements"]}
    assert where["web-0"] == "n2"
    assert len(where) == 6


@pytest.mark.parametrize("suffix", ["json", "yml"])
def test_one_file_can_hold_it_all(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"fleet.{suffix}"
    content = {
        "nodes": [kubernetes_node("n1")],
        "pods": [{"name": "w", "count": 2, "requests": {"cpu": 1}}],
        "running": [{"name": "old", "node_name": "n1", "requests": {"cpu": "1"}}],
        "node_metrics": [metrics("n1", "2")],
        "curves": {"n1": CURVE},
    }
    path.write_text(json.dumps(content))
    result = place({"src": [str(path)]})
    assert [entry["node"] for entry in result["placements"]] == ["n1", "n1"]
    assert result["watts"]["before"] == 120.0
    document = written(tmp_path, "curves", curves={"n1": {"cpu": [0, 10], "watts": [0, 10]}})
    assert place({"src": [str(path)], "curves": document})["watts"]["before"] == 2.0


NODE = {"name": "n1", "allocatable": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nodes": [], "time_limit": 0}, "time_limit: 0 is not allowed; it must be greater than 0"),
        ({"nodes": [], "time_limit": -1.0}, r"time_limit: -1\.0 is not allowed"),
        ({"nodes": [], "time_limit": math.nan}, "time_limit: nan is not allowed"),
        ({"nodes": [], "pod_usage_assumption": 1.2}, "pod_usage_assumption: 1.2 is not allowed"),
        ({"nodes": [], "standby_watts": -1}, "standby_watts: -1 is not allowed"),
        ({"nodes": [], "seed": -1}, "seed: -1 is not allowed"),
        ({"nodes": [], "preference_watts": -2}, "preference_watts: -2 is not allowed"),
        ({"nodes": [], "preferences": 2}, "unknown option preferences"),
        ({"nodes": "all"}, "nodes: 'all' is not a list"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(parameters: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        place(parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "one of the following is required: snapshot, nodes, src"),
        ({"nodes": [], "snapshot": "x", "curves": "x"}, "mutually exclusive: snapshot|nodes"),
        ({"src": ["x"], "snapshot": "x", "curves": "x"}, "mutually exclusive: snapshot|src"),
        ({"snapshot": "x"}, "missing parameter(s) required by 'snapshot': curves"),
        ({"snapshot": "x", "curves": "x", "pods": []}, "mutually exclusive: snapshot|pods"),
        ({"nodes": [], "strategy": "best"}, "value of strategy must be one of: optimal, greedy"),
        ({"nodes": [], "compare": ["best"]}, "value of compare must be one or more of: optimal"),
        ({"nodes": [], "usage_source": "guess"}, "value of usage_source must be one of: auto"),
    ],
)
def test_ansible_refuses_options_that_contradict(parameters: Json, message: str) -> None:
    validator = ModuleArgumentSpecValidator(**SPEC.to_keywords(env_fallback))
    assert message in "; ".join(validator.validate(parameters).error_messages)


@pytest.mark.parametrize(
    ("parameters", "finding"),
    [
        ({"nodes": [{}]}, r"Node nodes\[0\]: name: it must be a text"),
        ({"nodes": [NODE, NODE]}, "Node n1: metadata.name: another node has this name"),
        ({"nodes": [{**NODE, "cpus": 3}]}, "Node n1: cpus: it is not known here; write alloc"),
        (
            {"nodes": [{"name": "n1", "allocatable": {"cpu": "-2"}}]},
            r"Node n1: allocatable\.cpu: '-2' is negative",
        ),
        (
            {"nodes": [{"name": "n1", "allocatable": {"memory": "lots"}}]},
            r"Node n1: allocatable\.memory: 'lots' is not a Kubernetes quantity",
        ),
        ({"nodes": [{**NODE, "usage_cores": -0.5}]}, r"Node n1: usage_cores: -0\.5 is negative"),
        (
            {"nodes": [{**NODE, "curve": {"cpu": [0, 1], "watts": [1, math.nan]}}]},
            r"Node n1: curve\.watts: nan is not finite",
        ),
        ({"nodes": [{**NODE, "taints": [{}]}]}, r"Node n1: taints\[0\]\.key: it must be a text"),
        (
            {"nodes": [NODE], "pods": [{"name": "a"}, {"name": "a"}]},
            "Pod default/a: metadata.name: another pod has this name",
        ),
        (
            {
                "nodes": [NODE],
                "pods": [{"name": "a"}],
                "running": [{"name": "a", "node_name": "n1"}],
            },
            "Pod default/a: metadata.name: another pod has this name",
        ),
        (
            {"nodes": [NODE], "running": [{"name": "a"}]},
            "Pod a: spec.nodeName: it must be a text",
        ),
    ],
)
def test_an_object_that_cannot_be_used_is_a_finding(parameters: Json, finding: str) -> None:
    warnings: list[str] = []
    assert len(place(parameters, Context(warn=warnings.append))["findings"]) == 1
    assert re.match(finding, warnings[0]), warnings


def test_files_and_lists_are_one_input(tmp_path: Path) -> None:
    first, second = tmp_path / "nodes.yml", tmp_path / "pods.json"
    first.write_text("nodes: [{name: n1, allocatable: {cpu: 2}}]")
    second.write_text('{"pods": [{"name": "a"}]}')
    result = place({"src": [str(first), str(second)], "pods": [{"name": "b"}]})
    assert [entry["pod"] for entry in result["placements"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("fleet.json", "{", r"fleet\.json is not JSON"),
        ("fleet.yml", "a: [", r"fleet\.yml: line \d: it is not YAML"),
        ("fleet.yml", "", r"src .*fleet\.yml is empty; write curves, device_objects, namespaces"),
        ("fleet.yml", "- a", r"src .*fleet\.yml: \['a'\] is not a mapping"),
        ("fleet.yml", "node: []", r"src .*fleet\.yml: 'node' is not known here"),
        ("fleet.yml", None, r"src: cannot read .*fleet\.yml"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidInput, match=message):
        place({"src": [str(path)]})


def test_a_document_of_another_kind_is_refused(tmp_path: Path) -> None:
    curves = written(tmp_path, "curves", curves={})
    with pytest.raises(InvalidInput, match="is not a snapshot document"):
        place({"snapshot": curves, "curves": curves})


def test_copies_of_a_short_form_are_what_separate_pods_would_be() -> None:
    shape: Json = {"requests": {"cpu": "500m"}, "labels": {"app": "web"}, "priority": 5}
    node = {"name": "a", "allocatable": {"cpu": "8"}, "curve": {"cpu": [0, 8], "watts": [1, 9]}}
    other = {"name": "other", "requests": {"cpu": "1"}}
    copies = place({"nodes": [node], "pods": [{**shape, "name": "web", "count": 3}, other]})
    listed = [{**shape, "name": f"web-{number}"} for number in range(3)]
    assert copies == place({"nodes": [node], "pods": [*listed, other]})
    assert len(copies["placements"]) == 4
