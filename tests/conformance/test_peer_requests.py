# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that MinimizePower, PEAKS and kube-scheduler count for a pod and for running pods."""

from __future__ import annotations

import typing as t
from decimal import Decimal

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.node_reader import (
    Loads,
    occupancies,
    read_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.peer_view import (
    PeerNode,
    PeerPod,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_reader import read_pod

Json = dict[str, t.Any]

MEBIBYTE = 2**20


def container(cpu: str | None = None, limit: str | None = None, memory: str | None = None) -> Json:
    requests = {"cpu": cpu, "memory": memory}
    return {
        "name": "main",
        "resources": {
            "requests": {name: value for name, value in requests.items() if value is not None},
            "limits": {} if limit is None else {"cpu": limit},
        },
    }


def pod(*containers: Json, name: str = "web", **spec: t.Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": list(containers), **spec}}


def peer_view(given: Json) -> PeerPod:
    return read_pod(given, Decimal("0.8"), frozenset()).peer_view


@pytest.mark.parametrize(
    ("requests", "limits", "millicores"),
    [
        (["100m"], ["200m"], 100),
        (["100m", "200m"], ["200m", "400m"], 300),
        (["100m", "200m"], [None, None], 300),
        ([None, None], ["200m", "400m"], 600),
        (["100m", None], [None, "400m"], 500),
        ([None, None], [None, None], 0),
        (["0"], ["400m"], 400),
    ],
)
def test_minimize_power_counts_requests_else_limits_of_containers(
    requests: list[str | None], limits: list[str | None], millicores: int
) -> None:
    containers = [container(cpu, limit) for cpu, limit in zip(requests, limits, strict=True)]
    others: Json = {"initContainers": [container("9")], "overhead": {"cpu": "9"}}
    counted = peer_view(pod(*containers, **others)).minimize_power_millicores
    assert counted == millicores


@pytest.mark.parametrize(
    ("containers", "overhead", "millicores"),
    [
        ([container("1")], {}, 1000),
        ([container(limit="1")], {}, 1000),
        ([container()], {}, 1000),
        ([container("0", "1")], {}, 0),
        ([container("250m"), container()], {"cpu": "30m"}, 1280),
        ([], {}, 0),
    ],
)
def test_peaks_counts_a_core_for_a_container_that_names_none_and_the_overhead(
    containers: list[Json], overhead: Json, millicores: int
) -> None:
    assert peer_view(pod(*containers, overhead=overhead)).peaks_millicores == millicores


@pytest.mark.parametrize(
    ("given", "millicores", "mebibytes"),
    [
        (pod(container("250m", memory="64Mi")), 250, 64),
        (pod(container("250m")), 250, 200),
        (pod(container("0", memory="0")), 0, 0),
        (pod(container(), container(limit="1")), 1100, 400),
        (pod(container("250m", memory="64Mi"), initContainers=[container("1")]), 1000, 200),
        (pod(), 0, 0),
    ],
)
def test_kube_scheduler_counts_a_little_for_what_a_container_does_not_name(
    given: Json, millicores: int, mebibytes: int
) -> None:
    view = peer_view(given)
    assert (view.counted_millicores, view.counted_bytes) == (millicores, mebibytes * MEBIBYTE)


def test_a_node_counts_what_runs_there_in_the_same_way() -> None:
    running = [
        pod(container("1", memory="1Gi"), name="a", nodeName="n"),
        pod(container(), name="b", nodeName="n"),
    ]
    given = {
        "metadata": {"name": "n"},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi"},
            "allocatable": {"cpu": "7500m", "memory": "30Gi", "pods": "110"},
        },
    }
    loads = Loads("requests", Decimal("0.8"), {})
    node = read_node(given, occupancies(running)["n"], loads, None)
    assert node.peer_view == PeerNode(8000, 7500, 30 * 2**30, 1100, 1224 * MEBIBYTE)
    assert node.free["cpu"] == 6500
