# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An odd pod, running pod, node or line of a plan: all other pods are bound as without it."""

from __future__ import annotations

import random
import typing as t

import pytest

from support.binding_api import Cluster, Json, node, pod
from support.carried_out_plans import bind
from support.examples import each_seed
from support.odd_fleets import full_pod
from support.odd_values import TEXTS, bounded, spoilt

IDENTITY = (("metadata", "name"), ("metadata", "namespace"))
PLACEMENTS = [
    {"namespace": "shop", "pod": name, "node": target}
    for name, target in (("a", "n1"), ("b", "n1"), ("c", "n2"))
]


def bound(cluster: Cluster, *more: Json, **parameters: t.Any) -> tuple[Json, list[str]]:
    """The result for three good pods and others, and the good pods that were bound."""
    with cluster.serve() as api:
        result = bind({"host": api.url, "placements": [*PLACEMENTS, *more], **parameters})
    names = [entry["pod"] for entry in result["bound"] if entry["pod"] in "abc"]
    return result, names


def cluster() -> Cluster:
    return Cluster().add(node("n1"), node("n2"), pod("a"), pod("b"), pod("c"))


@each_seed(30)
def test_an_odd_waiting_pod(seed: int) -> None:
    source = random.Random(seed)
    odd = spoilt(source, full_pod(), IDENTITY)
    api = cluster()
    api.pods["shop", "odd"] = odd
    with bounded():
        line = {"namespace": "shop", "pod": "odd", "node": source.choice(["n1", "n2"])}
        result, names = bound(api, line)
    assert names == ["a", "b", "c"]
    assert len(result["bound"] + result["skipped"] + result["unchanged"]) == 4


@pytest.mark.parametrize("spec", ["..", None, [], 0])
def test_a_waiting_pod_whose_spec_is_no_object(spec: t.Any) -> None:
    api = cluster()
    api.pods["shop", "odd"] = {**pod("odd"), "spec": spec}
    with bounded():
        result, names = bound(api, {"namespace": "shop", "pod": "odd", "node": "n1"})
    assert names == ["a", "b", "c"]
    assert [entry["pod"] for entry in result["skipped"]] == ["odd"]


@each_seed(20)
def test_an_odd_running_pod_closes_no_other_node(seed: int) -> None:
    source = random.Random(seed)
    odd = full_pod()
    odd["spec"]["nodeName"] = "n2"
    api = cluster()
    api.pods["shop", "odd"] = spoilt(source, odd, (*IDENTITY, ("spec", "nodeName")))
    with bounded():
        result, names = bound(api)
    assert names[:2] == ["a", "b"]
    assert names[2:] == ["c"] or result["skipped"][0]["pod"] == "c"


@each_seed(15)
def test_an_odd_node(seed: int) -> None:
    source = random.Random(seed)
    api = cluster()
    api.nodes["n2"] = spoilt(source, node("n2"), (("metadata", "name"),))
    with bounded():
        result, names = bound(api)
    assert names[:2] == ["a", "b"]
    assert names[2:] == ["c"] or result["skipped"][0]["pod"] == "c"


@pytest.mark.parametrize("text", TEXTS)
def test_an_odd_line_of_a_plan(text: str) -> None:
    lines = [
        {"namespace": "shop", "pod": text, "node": "n1"},
        {"namespace": text, "pod": "x", "node": "n1"},
        {"namespace": "shop", "pod": "y", "node": text},
    ]
    unplaced = [{"namespace": text, "pod": text, "message": text}]
    with bounded():
        result, names = bound(cluster(), *lines, unplaced=unplaced)
    assert names == ["a", "b", "c"]
    assert len(result["skipped"]) + len(result["errors"]) >= 3
