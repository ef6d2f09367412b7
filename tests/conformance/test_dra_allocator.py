# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random instances with the answers of Kubernetes' allocator, node by node.

Each line of `dra/allocator.jsonl` has slices, classes, claims and nodes, and whether the allocator of
k8s.io/dynamic-resource-allocation 0.37.2 gives all claims devices on a node: yes, no, or its error.
Its features were those for administrative access, consumable capacity, partitionable devices,
prioritized lists and device taints.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from support.device_objects import manifest

Json = dict[str, t.Any]
CORPUS = Path(__file__).parent / "dra" / "allocator.jsonl"
INSTANCES = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
# The search ended, so that the answer does not tell whether other devices for an earlier request do.
_ENDED = "because a claim constraint would not be satisfied"


def feasible(instance: Json, node: str, strategy: str) -> bool:
    """Whether a pod with all claims gets devices on the node."""
    names = [claim["metadata"]["name"] for claim in instance["claims"]]
    claims = [{"name": name, "resourceClaimName": name} for name in names]
    pod = manifest(
        "v1",
        "Pod",
        "pod",
        {"resourceClaims": claims, "nodeSelector": {"kubernetes.io/hostname": node}},
        namespace="default",
    )
    nodes = [
        manifest("v1", "Node", name, {}, labels={"kubernetes.io/hostname": name})
        for name in instance["answers"]
    ]
    objects = [*instance["slices"], *instance["classes"], *instance["claims"], *nodes, pod]
    result = allocate({"objects": objects, "on_error": "report", "strategy": strategy})
    assert result["outcome"] != "unknown"
    return [one["node"] for one in result["pods"]] == [node]


@pytest.mark.parametrize("strategy", ["first_fit", "optimal"])
def test_feasibility_is_that_of_kubernetes_allocator(strategy: str) -> None:
    wrong = [
        (number, node, answer)
        for number, instance in enumerate(INSTANCES)
        for node, answer in instance["answers"].items()
        if _ENDED not in answer and feasible(instance, node, strategy) != (answer == "yes")
    ]
    assert wrong == []


@pytest.mark.parametrize("strategy", ["first_fit", "optimal"])
def test_deviation_the_search_goes_on_where_kubernetes_ends_it(strategy: str) -> None:
    found = [
        feasible(instance, node, strategy)
        for instance in INSTANCES
        for node, answer in instance["answers"].items()
        if _ENDED in answer
    ]
    assert any(found)


def test_the_corpus_has_answers_of_every_kind() -> None:
    answers = [answer for instance in INSTANCES for answer in instance["answers"].values()]
    assert min(answers.count("yes"), answers.count("no")) > 30
    assert any("currently being updated" in answer for answer in answers)
    assert any("currently invalid" in answer for answer in answers)
