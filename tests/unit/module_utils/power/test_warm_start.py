# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last plan as a start: the answer is never worse, and changes only for a gain."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from support.examples import examples
from support.placement_checker import value_of, violations
from support.placement_fleets import Size, placement_task
from support.placement_instances import Feature, Json, parameters

SAME_WATTS = 1e-5
FEATURES: frozenset[Feature] = frozenset(
    {
        "affinity",
        "anti-affinity",
        "gangs",
        "node rules",
        "ports",
        "preferences",
        "running",
        "spread",
    }
)


def nodes_of(result: Json) -> dict[tuple[str, str], str]:
    return {(each["namespace"], each["pod"]): each["node"] for each in result["placements"]}


def fleet(**options: object) -> Json:
    """Two equal nodes and a more expensive one, with four equal pods."""
    curve = {"cpu": [0, 4], "watts": [100, 140]}
    dear = {"cpu": [0, 4], "watts": [100, 240]}
    nodes = [
        {"name": name, "allocatable": {"cpu": "4", "pods": "2"}, "curve": watts}
        for name, watts in (("a", curve), ("b", curve), ("dear", dear))
    ]
    pods = [{"name": "pod", "count": 2, "requests": {"cpu": "1"}}]
    return {"nodes": nodes, "pods": pods, **options}


def placed(*nodes: str) -> list[Json]:
    return [{"pod": f"pod-{index}", "node": node} for index, node in enumerate(nodes)]


@pytest.mark.parametrize("nodes", [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")], ids="-".join)
def test_a_pod_keeps_its_node_where_another_saves_nothing(nodes: tuple[str, str]) -> None:
    result = place(fleet(previous_placements=placed(*nodes)))
    assert tuple(nodes_of(result).values()) == nodes
    assert result["proven"]


def test_a_pod_leaves_its_node_where_that_saves_watts() -> None:
    result = place(fleet(previous_placements=placed("dear", "b")))
    assert set(nodes_of(result).values()) <= {"a", "b"}
    assert nodes_of(result)["default", "pod-1"] == "b"
    assert result["watts"] == place(fleet())["watts"]


def test_what_is_gone_or_does_not_fit_any_more_is_no_obstacle() -> None:
    gone = [{"pod": "gone", "node": "a"}, {"namespace": "other", "pod": "pod-0", "node": "b"}]
    task = fleet(previous_placements=[*placed("gone", "dear"), *gone])
    task["nodes"][2]["unschedulable"] = True
    result = place(task)
    assert violations(task, result) == []
    assert result["placements"] == place(fleet())["placements"]


def test_the_document_of_the_last_plan_is_such_a_start(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first.json"), str(tmp_path / "second.json")
    place(fleet(previous_placements=placed("b", "b"), path=first))
    result = place(fleet(previous=first, path=second))
    assert set(nodes_of(result).values()) == {"b"}
    plans = [documents.load(path, "plan") for path in (first, second)]
    assert plans[0] | {"time": ""} == plans[1] | {"time": ""}


def test_a_wrong_last_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Cannot read the plan document .*gone\.json"):
        place(fleet(previous=str(tmp_path / "gone.json")))
    [finding] = place(fleet(previous_placements=[{"pod": "a"}]))["findings"]
    assert "node" in finding["field"]


@examples(30, shrinks=False)
@given(parameters(FEATURES), st.data())
def test_any_last_plan_leaves_the_answer_right_and_as_good(task: Json, data: st.DataObject) -> None:
    """Also a plan that no longer fits, breaks rules, or names deleted nodes."""
    names = [node["name"] for node in task["nodes"]]
    previous = [
        {
            "namespace": pod["metadata"].get("namespace", "default"),
            "pod": pod["metadata"]["name"],
            "node": data.draw(st.sampled_from([*names, "gone"])),
        }
        for pod in task["pods"]
    ]
    anew, warm = place(task), place({**task, "previous_placements": previous})
    assert violations(task, warm) == []
    before, after = value_of(task, anew), value_of(task, warm)
    assert after[:2] > before[:2] or (
        after[:2] == before[:2] and after[2] >= before[2] - SAME_WATTS
    )
    again = place({**task, "previous_placements": warm["placements"]})
    if value_of(task, again)[2] <= after[2] + SAME_WATTS:
        assert nodes_of(again) == nodes_of(warm)


@pytest.mark.large
def test_on_a_large_fleet_the_last_plan_stays_but_for_what_saves_watts() -> None:
    task = placement_task(2, Size(nodes=60, pods=600))
    first = place(task)
    again = place({**task, "previous_placements": first["placements"]})
    assert violations(task, again) == []
    assert again["watts"]["after"] <= first["watts"]["after"] + SAME_WATTS
    if again["watts"]["after"] >= first["watts"]["after"] - SAME_WATTS:
        assert nodes_of(again) == nodes_of(first)
