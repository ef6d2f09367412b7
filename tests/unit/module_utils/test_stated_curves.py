# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves that users state, and the order of the sources."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.inference.curve_sources import (
    counted,
    in_order,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference.curves import PowerCurve
from ansible_collections.wattwise.kube.plugins.module_utils.inference.nodes import NodeFacts
from ansible_collections.wattwise.kube.plugins.module_utils.inference.stated import (
    stated_curves,
    statements,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import (
    CURVE_ANNOTATION,
    NodeTarget,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from support.examples import each_seed
from support.odd_values import bounded, odd_value

Json = dict[str, t.Any]
NODES = [NodeFacts("n1", 64.0, {"type": "a"}), NodeFacts("n2", 32.0, {"type": "b"})]


def stated(annotation: str | None = None, *given: Json) -> tuple[Json, list[str]]:
    targets = {"n1": NodeTarget("n1", "wao-system/c1", power_curve=annotation)}
    found = stated_curves(NODES, targets, statements(given))
    curves = {name: curve.as_document() for name, curve in found.curves.items()}
    return curves, [str(finding) for finding in found.findings]


def test_two_points_are_idle_and_full_load() -> None:
    curves, findings = stated('{"idle": 120, "max": 480}')
    assert (curves, findings) == ({"n1": {"cpu": [0.0, 64.0], "watts": [120.0, 480.0]}}, [])


def test_a_list_of_points_is_in_percent_of_the_capacity() -> None:
    found = stated("[[0, 120], [50, 310], [100, 480]]")[0]["n1"]
    assert found == {"cpu": [0.0, 32.0, 64.0], "watts": [120.0, 310.0, 480.0]}


def test_the_first_entry_that_selects_a_node_counts_and_an_annotation_goes_before_it() -> None:
    given: list[Json] = [
        {"node_selector": "type=b", "idle": 50.0, "max": 100.0},
        {"points": [[0, 70], [100, 90]]},
    ]
    curves, _findings = stated(None, *given)
    assert {name: curve["watts"] for name, curve in curves.items()} == {
        "n1": [70.0, 90.0],
        "n2": [50.0, 100.0],
    }
    assert stated('{"idle": 1, "max": 2}', *given)[0]["n1"]["watts"] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ("120-480", "is not JSON"),
        ("[[0, 120], [50, 110]]", "110 W at 50 % are fewer than 120 W at 0 %"),
        ("[[50, 120], [50, 130]]", "must ascend"),
        ("[[0, 120]]", "2 to 101 points"),
        ("[[0, 120], [101, 130]]", "is not from 0 to 100 %"),
        ("[[0, -1], [100, 130]]", "is not from 0 to 100 %"),
        ('{"idle": 120}', "idle and max"),
        ('{"idle": 480, "max": 120}', "fewer than"),
        ('{"idle": null, "max": 120}', "is not a point"),
        ("9" * 5000, "longer than"),
    ],
)
def test_a_wrong_annotation_is_one_finding_and_the_next_source_counts(
    annotation: str, words: str
) -> None:
    curves, [finding] = stated(annotation, {"idle": 70.0, "max": 90.0})
    assert words in finding
    assert CURVE_ANNOTATION in finding
    assert curves["n1"]["watts"] == curves["n2"]["watts"] == [70.0, 90.0]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "either idle and max, or points"),
        ({"idle": 1.0, "max": 2.0, "points": [[0, 1], [100, 2]]}, "either"),
        ({"idle": 1.0}, "idle and max"),
        ({"points": [[0, 5], [100, 2]]}, "fewer"),
        ({"idle": 1.0, "max": 2.0, "node_selector": "a in"}, "node_selector"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(entry: Json, words: str) -> None:
    with pytest.raises(InvalidInput, match=rf"power_curves\[0\].*{words}"):
        statements([entry])


@each_seed(40)
def test_whatever_one_annotation_says_other_nodes_have_theirs(seed: int) -> None:
    value = odd_value(random.Random(seed))
    targets = {
        "n1": NodeTarget("n1", "wao-system/c1", power_curve=str(value)),
        "n2": NodeTarget("n2", "wao-system/c2", power_curve='{"idle": 120, "max": 480}'),
    }
    with bounded():
        found = stated_curves(NODES, targets, [])
    assert found.curves["n2"].curve.watts == (120.0, 480.0)
    assert len(found.findings) + len(found.curves) == 2


def test_a_capacity_too_small_for_its_points_is_a_finding_of_its_node() -> None:
    nodes = [NodeFacts("tiny", 1e-9, {}), NODES[1]]
    found = stated_curves(nodes, {}, statements([{"idle": 70.0, "max": 90.0}]))
    assert found.curves.keys() == {"n2"}
    [finding] = found.findings
    assert str(finding).startswith("Node tiny: curve.cpu: the values must ascend")


def test_a_node_takes_the_first_source_that_has_a_curve_for_it() -> None:
    def curve(watts: float) -> PowerCurve:
        return PowerCurve(Curve((0.0, 1.0), (watts, watts)))

    found = in_order(
        {
            "published": {name: curve(4) for name in ("a", "b", "c", "e")},
            "learned": {name: curve(3) for name in ("a", "b", "c")},
            "predictor": {name: curve(2) for name in ("a", "b")},
            "stated": {"a": curve(1)},
        }
    )
    assert {name: (one.source, one.curve.watts[0]) for name, one in found.items()} == {
        "a": ("stated", 1),
        "b": ("predictor", 2),
        "c": ("learned", 3),
        "e": ("published", 4),
    }
    assert counted(found, ["a", "b", "c", "d"]) == {
        "stated": 1,
        "predictor": 1,
        "learned": 1,
        "published": 1,
        "none": 1,
    }
