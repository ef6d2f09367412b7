# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pending pods use as much as the running pods of their workload, if that was measured."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.sources import (
    instance_of,
    source_of_snapshot,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curves

Json = dict[str, t.Any]
NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "64"}}}


def pod(name: str, owner: str, cpu: str = "2", node: str = "", **more: t.Any) -> Json:
    """A pod of ReplicaSet ``owner``, whose name ends with the hash of its template."""
    controller = {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "labels": {"pod-template-hash": owner.rpartition("-")[2]},
            "ownerReferences": [controller],
            **more,
        },
        "spec": {
            "schedulerName": "wattwise",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


RUNNING = [
    pod("web-1", "web-abc", node="n1"),
    pod("web-2", "web-def", node="n1"),
    pod("web-3", "web-def", node="n1"),
]


def used_cores(waiting: Json, running: list[Json], cores: t.Mapping[str, float]) -> float:
    """The assumed use of the pending pod."""
    options = placement.SPEC.complete({"nodes": [], "pod_usage_assumption": 0.8})
    snapshot = {"nodes": [NODE], "pods": [*running, waiting]}
    source = source_of_snapshot(snapshot, Curves(), (), options, cores_by_uid=cores)
    [read] = [one for one in instance_of(source, options).pods if one.name == "new"]
    return read.shape.use_microcores / 1e6


@pytest.mark.parametrize(
    ("waiting", "cores", "expected"),
    [
        # 0.4 + 0.6 of 4 requested cores; nothing is known of web-3.
        (pod("new", "web-xyz", "1"), {"uid-web-1": 0.4, "uid-web-2": 0.6}, 0.25),
        # Rounded to 5 % of the request, so that the number of distinct pods stays small.
        (pod("new", "web-xyz", "1"), {"uid-web-1": 0.51}, 0.25),
        # At most twice the request.
        (pod("new", "web-xyz", "1"), {"uid-web-1": 40.0}, 2.0),
        (pod("new", "web-xyz", "1"), {"uid-web-1": 0.0}, 0.0),
        (pod("new", "web-xyz", "1"), {}, 0.8),
        (pod("new", "cart-xyz", "1"), {"uid-web-1": 0.4}, 0.8),
        (pod("new", "web-xyz", "1", namespace="other"), {"uid-web-1": 0.4}, 0.8),
        (pod("new", "web-xyz", "1", ownerReferences=[]), {"uid-web-1": 0.4}, 0.8),
    ],
)
def test_the_share_of_the_request_is_that_of_the_running_pods(
    waiting: Json, cores: t.Mapping[str, float], expected: float
) -> None:
    assert used_cores(waiting, RUNNING, cores) == pytest.approx(expected)


def test_running_pods_without_a_request_say_nothing() -> None:
    running = [pod("web-1", "web-abc", "0", node="n1")]
    assert used_cores(pod("new", "web-xyz", "1"), running, {"uid-web-1": 0.4}) == 0.8


@pytest.mark.parametrize("odd", [{"labels": "x"}, {"ownerReferences": [None]}, {"uid": 7}])
def test_an_odd_running_pod_hides_no_other(odd: Json) -> None:
    running = [*RUNNING, pod("odd", "web-abc", node="n1", **odd)]
    waiting = pod("new", "web-xyz", "1")
    assert used_cores(waiting, running, {"uid-web-1": 0.4, "uid-web-2": 0.6}) == 0.25
