# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.plan import Plan

Json = dict[str, t.Any]
NODES = [
    {
        "name": name,
        "allocatable": {"cpu": "4", "pods": "10"},
        "curve": {"cpu": [0, 4], "watts": [100, 100 + watts]},
    }
    for name, watts in (("cheap", 40), ("dear", 400))
]
MOVABLE = {
    "name": "moves",
    "node_name": "dear",
    "requests": {"cpu": "1"},
    "scheduler_name": "wattwise",
    "owner_references": [{"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}],
}


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"rebalance": True},
        {"running": [MOVABLE], "rebalance": True, "compare": ["spread"]},
    ],
    ids=["without moves", "no move pays", "a move"],
)
def test_a_plan_read_from_its_document_is_the_same(parameters: Json) -> None:
    pods = [{"name": "fits", "requests": {"cpu": "1"}}, {"name": "large", "requests": {"cpu": "9"}}]
    result = place({"nodes": NODES, "pods": pods, **parameters})
    document = {name: part for name, part in result.items() if name != "changed"}
    plan = Plan.from_document(document)
    assert plan.as_document() == document
    assert Plan.from_document(plan.as_document()) == plan
    assert [one.pod for one in plan.unplaced] == ["large"]
    moved = [move.pod for step in plan.steps or () for move in step.moves]
    assert moved == (["moves"] if "running" in parameters else [])
    assert (plan.steps is None) == ("rebalance" not in parameters)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"placements": [{"pod": "a", "node": "n"}] * 2}, "default/a is listed twice"),
        ({"placements": [], "unplaced": [{"pod": "a"}]}, "message is missing"),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused(body: Json, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        Plan.from_document(body)
