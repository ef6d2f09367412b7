# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The strategies spread and peaks against the figures of kube-scheduler's and PEAKS' own tests."""

from __future__ import annotations

import math
import typing as t

import numpy
import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power.baselines.score_plugins import (
    Exponential,
    balanced_score,
    fit_exponential,
    least_allocated_score,
    normalized_peaks,
    peaks_score,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place

Json = dict[str, t.Any]


@pytest.mark.parametrize(
    ("requested", "allocatable", "score"),
    [
        ((0, 0), (4000, 10000), 100),
        ((3000, 5000), (4000, 10000), 37),
        ((3000, 5000), (6000, 10000), 50),
        ((6000, 0), (10000, 20000), 70),
        ((6000, 5000), (10000, 20000), 57),
        ((6000, 10000), (10000, 20000), 45),
        ((6000, 10000), (10000, 50000), 60),
        ((6000, 0), (4000, 10000), 50),
        ((6000, 5000), (4000, 10000), 25),
        ((3000, 5000), (0, 0), 0),
    ],
)
def test_least_allocated(
    requested: tuple[int, int], allocatable: tuple[int, int], score: int
) -> None:
    assert least_allocated_score(requested, allocatable) == score


@pytest.mark.parametrize(
    ("requested", "added", "allocatable", "score"),
    [
        ((0, 0), (3000, 5000), (4000, 10000), 68),
        ((0, 0), (3000, 5000), (6000, 10000), 75),
        ((3000, 0), (3000, 5000), (10000, 20000), 73),
        ((3000, 5000), (3000, 5000), (10000, 20000), 74),
        ((3000, 5000), (3000, 5000), (10000, 50000), 70),
        ((3000, 0), (0, 5000), (3000, 5000), 100),
        ((0, 0), (0, 5000), (3000, 5000), 50),
        ((3000, 0), (3000, 0), (6000, 10000), 62),
        ((3000, 5000), (3000, 0), (6000, 10000), 62),
        ((0, 0), (3000, 5000), (3500, 40000), 56),
        ((0, 0), (3000, 5000), (0, 10000), 75),
    ],
)
def test_balanced_allocation(
    requested: tuple[int, int], added: tuple[int, int], allocatable: tuple[int, int], score: int
) -> None:
    assert balanced_score(requested, added, allocatable) == score


@pytest.mark.parametrize(
    ("scores", "normalized"),
    [
        ([0, 100], [100, 0]),
        ([0, 0], [0, 0]),
        ([100, 100], [100, 100]),
        ([10, 20, 40], [100, 67, 0]),
        ([0, 5 * 10**15, 10**16], [100, 50, 0]),
    ],
)
def test_peaks_normalized(scores: list[int], normalized: list[int]) -> None:
    assert normalized_peaks(numpy.array(scores, dtype=numpy.int64)).tolist() == normalized


def test_peaks_scores_added_watts_in_steps_of_a_femtowatt() -> None:
    model = Exponential(idle=471.7412504314313, scale=-91.50493019588365, rate=-0.07186049052516228)
    watts = -91.50493019588365 * (math.exp(-7.186049052516228) - 1)
    assert peaks_score(model, 0.0, 100.0) == int(watts * 1e15)
    assert peaks_score(model, 50.0, 50.0) == 0


@pytest.mark.parametrize(
    ("idle", "scale", "rate"),
    [(100.0, 50.0, 0.012), (300.0, -200.0, -0.03), (80.0, 4.0, 0.04), (20.0, 500.0, 0.001)],
)
def test_an_exponential_model_is_found_again(idle: float, scale: float, rate: float) -> None:
    model = Exponential(idle, scale, rate)
    xs = [5.0 * step for step in range(21)]
    found = fit_exponential(xs, [model.at(x) for x in xs])
    assert max(abs(found.at(x) - model.at(x)) for x in xs) < 1e-3


@pytest.mark.parametrize(
    "points", [([0.0, 100.0], [90.0, 90.0]), ([0.0, 50.0, 100.0], [90, 140, 190])]
)
def test_lines_have_a_model_too(points: tuple[list[float], list[float]]) -> None:
    model = fit_exponential(*points)
    assert [model.at(x) for x in points[0]] == pytest.approx(points[1], abs=0.01)


def node(name: str, curve: Json | None, **more: t.Any) -> Json:
    given = {"name": name, "allocatable": {"cpu": "8", "memory": "32Gi"}, **more}
    return given if curve is None else {**given, "curve": curve}


CONVEX = {"cpu": [0, 2, 4, 6, 8], "watts": [100, 105, 120, 160, 260]}
CONCAVE = {"cpu": [0, 2, 4, 6, 8], "watts": [100, 200, 240, 255, 260]}


def placed(
    nodes: list[Json], strategy: str, count: int = 4, cpu: str = "1", memory: str = "4Gi"
) -> dict[str, int]:
    waiting = [{"name": "w", "count": count, "requests": {"cpu": cpu, "memory": memory}}]
    result = place({"nodes": nodes, "pods": waiting, "strategy": strategy})
    names = [entry["node"] for entry in result["placements"]]
    return {name: names.count(name) for name in sorted(set(names))}


def test_peaks_fills_where_its_model_adds_the_fewest_watts() -> None:
    assert placed([node("a", CONCAVE), node("b", CONVEX)], "peaks") == {"b": 4}


def test_peaks_takes_a_node_without_a_model_for_one_that_costs_nothing() -> None:
    assert placed([node("a", CONVEX), node("b", None)], "peaks") == {"b": 4}


def test_peaks_takes_a_node_beyond_its_capacity_for_the_best() -> None:
    assert placed([node("a", CONVEX), node("b", CONVEX, usage_cores=7.5)], "peaks") == {"b": 4}


def test_spread_is_even_and_keeps_resources_in_balance() -> None:
    nodes = [node(name, CONVEX) for name in "abcd"]
    assert placed(nodes, "spread", 8) == {"a": 2, "b": 2, "c": 2, "d": 2}
    little_used = node("b", CONVEX, used={"memory": "4Gi"})
    # Evenness would choose the empty node; CPU beside the memory of the other gives it balance.
    assert placed([node("a", CONVEX), little_used], "spread", 1, "2", "1Gi") == {"b": 1}
    assert placed([node("a", CONVEX), little_used], "spread", 1) == {"a": 1}
