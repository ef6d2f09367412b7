# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Vectors of wao-scheduler's own tests of PodSpread, and our deviations from its defects.

Upstream recognises control planes by their label; here, as in kube-scheduler, the taint counts.
"""

from __future__ import annotations

import typing as t
from collections import Counter

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import build_problem
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import SPEC, place
from support.placement_instance import read_instance

Json = dict[str, t.Any]
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
RATE = "wao.bitmedia.co.jp/podspread-rate"
OWNER = {"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}


def node(name: str, labels: Json, control_plane: bool) -> Json:
    """Cheaper for earlier names, so that only the rule sends pods elsewhere."""
    watts = 10.0 + 10 * int(name[1:])
    return {
        "name": name,
        "labels": labels,
        "taints": [CONTROL_PLANE] if control_plane else [],
        "allocatable": {"cpu": "16", "pods": "20"},
        "curve": {"cpu": [0, 16], "watts": [100, 100 + watts]},
    }


def pods(name: str, count: int, **fields: t.Any) -> Json:
    owned = {"owner_references": [OWNER], "requests": {"cpu": "100m"}}
    return {"name": name, "count": count, **owned, **fields}


def areas(key: str, *of_area: t.Sequence[int]) -> tuple[list[Json], list[Json]]:
    """Nodes n00, n01 … of each area, with the given numbers of running pods."""
    nodes, running = [], []
    for area, numbers in enumerate(of_area):
        for index, number in enumerate(numbers):
            name = f"n{area}{index}"
            nodes.append(node(name, {key: f"a{area}"} if key else {}, name == "n00"))
            running.append(pods(f"old-{name}", number, node_name=name))
    return nodes, running


def parameters(nodes: list[Json], running: list[Json], waiting: int = 1, **more: t.Any) -> Json:
    replica_set = {
        "metadata": {"name": "web-1", "uid": "rs", "annotations": {RATE: "0.6"}},
        "spec": {"replicas": 10},
    }
    return {
        "nodes": nodes,
        "pods": [pods("web", waiting)],
        "running": running,
        "replica_sets": [replica_set],
        **more,
    }


def allowed(given: Json) -> set[str]:
    problem = build_problem(read_instance(SPEC.complete(given)))
    open_nodes = Assignment(problem).room(0) > 0
    return {
        node.name
        for node, is_open in zip(problem.instance.nodes, open_nodes, strict=True)
        if is_open
    }


@pytest.mark.parametrize(
    ("given", "nodes"),
    [
        (areas(REGION, [0, 1], [1, 1]), {"n01"}),
        (areas(REGION, [0, 1], [0, 1], [0, 1]), {"n01", "n10", "n11", "n20", "n21"}),
        (areas(ZONE, [0, 1, 2], [1, 1, 0]), {"n10", "n11", "n12"}),
        (areas("", [0, 2, 1, 1]), {"n02", "n03"}),
        (areas("", [0, 2, 2, 1]), {"n03"}),
        # Upstream lets the control plane pass here; its taint does not.
        (areas("", [0, 2, 2, 2]), {"n01", "n02", "n03"}),
    ],
)
def test_the_allowed_nodes_are_upstreams(
    given: tuple[list[Json], list[Json]], nodes: set[str]
) -> None:
    assert allowed(parameters(*given)) == nodes


@pytest.mark.parametrize(
    ("labels", "mode"),
    [
        ([{}, {}], "node"),
        ([{ZONE: "a"}, {ZONE: "a"}], "node"),
        ([{ZONE: "a"}, {ZONE: "b"}], "area"),
        ([{REGION: "a"}, {REGION: "a"}], "node"),
        ([{REGION: "a"}, {REGION: "b"}], "area"),
        ([{ZONE: "a", REGION: "a"}, {ZONE: "b", REGION: "b"}, {ZONE: "c"}], "area"),
    ],
)
def test_areas_are_regions_or_zones_or_nodes(labels: list[Json], mode: str) -> None:
    nodes = [node(f"n{index}", each, False) for index, each in enumerate([*labels, labels[0]])]
    running = [pods("old", 1, node_name="n0")]
    found = allowed(parameters(nodes, running))
    # A second node of the first area is closed with it; a node without the label takes no pods.
    assert ("n0" in found, f"n{len(labels)}" in found) == (False, mode == "node")
    assert "n1" in found
    assert len(labels) < 3 or "n2" not in found


def spread_of(given: Json) -> list[int]:
    placed = Counter(entry["node"] for entry in place(given)["placements"])
    return sorted(placed.values())


def test_deviation_b13_the_annotation_of_the_deployment_counts() -> None:
    """The deployment controller copies it to the ReplicaSet, not to the pods."""
    nodes, _running = areas("", [0, 0, 0, 0])
    assert spread_of(parameters(nodes, [], 10)) == [2, 2, 6]
    without = {**parameters(nodes, [], 10), "replica_sets": []}
    assert spread_of(without) == [10]


def test_the_annotation_on_the_pod_counts_too_under_both_names() -> None:
    nodes, _running = areas("", [0, 0, 0, 0])
    for name in (RATE, "waok8s.github.io/podspread-rate"):
        annotated = [pods("web", 10, annotations={name: "0.6"})]
        given = {"nodes": nodes, "pods": annotated}
        assert spread_of(given) == [2, 2, 6]
        no_number = [pods("web", 10, annotations={name: "a"})]
        assert spread_of({**given, "pods": no_number}) == [10]
        alone = [{**annotated[0], "owner_references": [{**OWNER, "kind": "StatefulSet"}]}]
        assert spread_of({**given, "pods": alone}) == [10]


def test_deviation_b14_an_area_of_control_planes_alone_blocks_nobody() -> None:
    nodes = [node("n0", {ZONE: "a"}, True)] + [
        node(f"n{index}", {ZONE: zone}, False) for index, zone in ((1, "b"), (2, "c"))
    ]
    assert spread_of(parameters(nodes, [], 10)) == [3, 7]


def test_an_area_that_running_pods_keep_closed_blocks_nobody() -> None:
    nodes = [
        node(f"n{index}", {ZONE: zone}, False) for index, zone in ((1, "b"), (2, "c"), (3, "d"))
    ]
    noisy = {"name": "noisy", "labels": {"app": "noisy"}, "node_name": "n2"}
    term = {"labelSelector": {"matchLabels": noisy["labels"]}, "topologyKey": ZONE}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    given = parameters(nodes, [noisy], pods=[pods("web", 10, affinity=away)])
    assert spread_of(given) == [3, 7]


def test_pods_that_have_ended_or_leave_are_no_replicas() -> None:
    nodes, _running = areas("", [0, 0, 0])
    facts = {"ownerReferences": [OWNER]}
    over = [
        {
            "metadata": {"name": "ended", **facts},
            "spec": {"nodeName": "n01"},
            "status": {"phase": "Failed"},
        },
        {
            "metadata": {"name": "leaving", "deletionTimestamp": "2026-01-01T00:00:00Z", **facts},
            "spec": {"nodeName": "elsewhere"},
        },
    ]
    annotated = [pods("web", 3, annotations={RATE: "0.5"})]
    assert spread_of({"nodes": nodes, "pods": annotated, "running": over}) == [3]
