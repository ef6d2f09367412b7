# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The strategy minimize_power against the vectors and rules of wao-scheduler's MinimizePower."""

from __future__ import annotations

import typing as t

import numpy
import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.inference.queries import FORMATS, Query
from ansible_collections.wattwise.kube.plugins.module_utils.power.baselines.score_plugins import (
    SCORE_ERROR,
    SCORE_MAX,
    ClusterView,
    MinimizePower,
    normalized_minimize_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import Node, Pod, Shape
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.peer_view import (
    PeerNode,
    PeerPod,
)

Json = dict[str, t.Any]


@pytest.mark.parametrize(
    ("scores", "base", "normalized"),
    [
        ([0, 50, 100], 20, [100, 60, 20]),
        ([20, 30, 40], 20, [100, 60, 20]),
        ([2000, 3000, 4000], 20, [100, 60, 20]),
        ([33, 33, 33], 20, [20, 20, 20]),
        ([SCORE_ERROR, SCORE_ERROR, SCORE_MAX], 20, [0, 0, 1]),
        ([SCORE_ERROR, SCORE_MAX, 10, 20, 30], 20, [0, 1, 100, 60, 20]),
        ([SCORE_ERROR, SCORE_MAX, 10, 20, 30], 50, [0, 1, 100, 75, 50]),
        ([0, 1, 3], 20, [100, 74, 20]),
        ([0, 1], 20, [100, 20]),
        ([5], 20, [20]),
        ([1, 2, 4, 8], 20, [100, 89, 66, 20]),
        ([10, 11, 12, 13, 14, 15, 16], 20, [100, 87, 74, 60, 47, 34, 20]),
    ],
)
def test_normalized_scores_are_upstreams(
    scores: list[int], base: int, normalized: list[int]
) -> None:
    given = numpy.array(scores, dtype=numpy.int64)
    assert normalized_minimize_power(given, base).tolist() == normalized


def score(
    curve: Curve | None, millicores: int, *, used: int = 0, capacity: int = 10_000, free: int = 0
) -> int:
    """The raw score of a node with this many millicores in use and in total."""
    node = Node(
        "n",
        free={"cpu": free},
        use_microcores=used * 1000,
        curve=curve,
        peer_view=PeerNode(capacity_millicores=capacity),
    )
    pod = Pod("default", "p", Shape((), 0), peer_view=PeerPod(millicores))
    return MinimizePower().score(pod, 0, ClusterView([node]))


@pytest.mark.parametrize(
    ("watts_per_core", "millicores", "expected"),
    [(10.0, 1000, 10), (10.0, 199, 1), (10.0, 99, 0), (9.99, 1000, 9), (-40.0, 1000, 0)],
)
def test_watts_are_cut_to_whole_ones_and_never_negative(
    watts_per_core: float, millicores: int, expected: int
) -> None:
    curve = Curve((0.0, 10.0), (500.0, 500.0 + 10 * watts_per_core))
    assert score(curve, millicores) == expected


def test_the_whole_request_is_asked_about_on_top_of_the_load() -> None:
    curve = Curve((0.0, 4.0, 10.0), (100.0, 100.0, 160.0))
    assert score(curve, 2000, used=1000) == 0
    assert score(curve, 2000, used=3000) == 10
    assert score(curve, 2000, used=4000) == 20


def test_beyond_the_capacity_there_is_no_prediction_but_exactly_full_is_fine() -> None:
    curve = Curve((0.0, 10.0), (100.0, 200.0))
    assert score(curve, 2000, used=8000) == 20
    assert score(curve, 2001, used=8000) == SCORE_MAX


def test_what_cannot_be_predicted_is_an_error() -> None:
    assert score(None, 100) == SCORE_ERROR
    assert score(Curve((0.0, 1.0), (0.0, 1.0)), 0) == SCORE_ERROR


@pytest.mark.parametrize("cpu_usage_format", FORMATS)
def test_the_format_of_the_cpu_usage_is_the_models_business(cpu_usage_format: str) -> None:
    """Upstream scores with W(usage) in cores or percent; here a curve over cores is in between."""
    capacity = 16.0

    def model(usage: float) -> float:
        return 90 + 0.3 * usage if cpu_usage_format == "percent" else 90 + 4.5 * usage

    query = Query(
        "n",
        "http://model.example",
        cpu_capacity=capacity,
        cpu_usage_format=cpu_usage_format,
        inlet_celsius=22.0,
        delta_p_pascal=0.2,
    )
    usages = [float(row.split(",")[0].strip("[")) for row in query.rows(query.cpu())]
    curve = Curve(query.cpu(), tuple(map(model, usages)))
    usage = [5.25, 9.75] if cpu_usage_format == "raw" else [100 * 5.25 / 16, 100 * 9.75 / 16]
    upstream = int(model(usage[1]) - model(usage[0]))
    assert score(curve, 4500, used=5250, capacity=16_000) == upstream


def node(name: str, watts_per_core: float, **more: t.Any) -> Json:
    watts = [100.0, 100.0 + 8 * watts_per_core]
    return {
        "name": name,
        "allocatable": {"cpu": "8", "memory": "32Gi"},
        "curve": {"cpu": [0, 8], "watts": watts},
        **more,
    }


def pods(count: int, cpu: str = "1") -> Json:
    return {"name": "w", "count": count, "requests": {"cpu": cpu, "memory": "1Gi"}}


def number_by_node(result: Json) -> dict[str, int]:
    names = [entry["node"] for entry in result["placements"]]
    return {name: names.count(name) for name in sorted(set(names))}


def placed(nodes: list[Json], *waiting: Json, **options: t.Any) -> dict[str, int]:
    parameters = {"nodes": nodes, "pods": list(waiting), "strategy": "minimize_power", **options}
    return number_by_node(place(parameters))


def test_pods_go_to_the_node_with_the_fewest_whole_watts() -> None:
    assert placed([node("a", 12.0), node("b", 10.0)], pods(4)) == {"b": 4}


def test_small_pods_tie_and_the_scores_for_resources_decide() -> None:
    """B12: pods that add less than a watt everywhere cost the same everywhere."""
    nodes = [node("a", 9.0), node("b", 1.0)]
    assert placed(nodes, pods(4, "100m")) == {"a": 2, "b": 2}
    assert placed(nodes, pods(4, "100m"), strategy="greedy") == {"b": 4}


def test_a_node_without_a_curve_comes_after_one_that_is_overcommitted() -> None:
    unknown = {key: value for key, value in node("a", 1.0).items() if key != "curve"}
    loaded = node("b", 1.0, usage_cores=8)
    assert placed([unknown, loaded], pods(1)) == {"b": 1}


def test_a_pod_without_cpu_is_not_scheduled() -> None:
    parameters = {"nodes": [node("a", 1.0)], "pods": [pods(2, "0"), {**pods(1), "name": "v"}]}
    result = place({**parameters, "strategy": "minimize_power"})
    assert [entry["pod"] for entry in result["placements"]] == ["v-0"]
    assert {entry["pod"] for entry in result["unplaced"]} == {"w-0", "w-1"}


def test_pods_that_were_just_bound_count_as_load_at_their_assumed_use() -> None:
    """A pod counts in full during its placement, and with its assumed use from then on."""
    bent = node("a", 1.0)
    bent["curve"] = {"cpu": [0, 4, 8], "watts": [100, 100, 180]}
    bent["allocatable"] = {"cpu": "16", "memory": "32Gi"}
    flat = node("b", 10.0)
    assert placed([bent, flat], pods(3, "2"), pod_usage_assumption=0.5) == {"a": 3}
    assert placed([bent, flat], pods(3, "2"), pod_usage_assumption=1.0) == {"a": 2, "b": 1}
