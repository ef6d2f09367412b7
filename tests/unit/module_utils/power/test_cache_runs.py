# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that request cache ways go to nodes with a run of free ways for each of them."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import InvalidField
from ansible_collections.wattwise.kube.plugins.module_utils.power.constraints.cache_runs import fit
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import STRATEGIES, place
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.cache_ways import (
    read_caches,
    runs_of_pod,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import CacheRun
from support.examples import examples
from support.placement_caches import bits, possible, rows
from support.placement_checker import violations

Json = dict[str, t.Any]
WAYS = "intel.com/l3_cache_ways"


def node(name: str, ways: int = 12, watts: int = 100) -> Json:
    return {
        "name": name,
        "allocatable": {"cpu": "16", WAYS: str(ways)},
        "curve": {"cpu": [0, 16], "watts": [100, 100 + watts]},
    }


def state(name: str, *free: str, **status: t.Any) -> Json:
    caches = [
        {"cacheId": index, "guaranteed": {"free": ways}, "besteffort": {"free": "14-16"}}
        for index, ways in enumerate(free)
    ]
    return {"spec": {"node": name}, "status": {"caches": caches, **status}}


def pod(name: str, ways: int, count: int = 1) -> Json:
    return {"name": name, "count": count, "requests": {"cpu": "1", WAYS: ways}}


def task(nodes: list[Json], states: list[Json], pods: list[Json], **more: t.Any) -> Json:
    return {"nodes": nodes, "rmd_node_states": states, "pods": pods, **more}


def nodes_of(result: Json) -> list[str]:
    return [entry["node"] for entry in result["placements"]]


def solved(parameters: Json) -> Json:
    result = place(parameters)
    assert violations(parameters, result) == []
    return result


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sum_of_free_ways_is_no_row(strategy: str) -> None:
    nodes = [node("cheap", watts=10), node("dear", watts=500)]
    states = [state("cheap", "1-3,5-7", "1-3"), state("dear", "1-6")]
    result = solved(task(nodes, states, [pod("p", 4)], strategy=strategy))
    assert nodes_of(result) == ["dear"]


def test_several_pods_do_not_get_the_same_row() -> None:
    nodes = [node("cheap", watts=10), node("dear", watts=500)]
    states = [state("cheap", "1-5", "1-4"), state("dear", "1-12")]
    result = solved(task(nodes, states, [pod("p", 4, count=4)]))
    assert sorted(nodes_of(result)) == ["cheap", "cheap", "dear", "dear"]
    assert result["proven"]


def test_rows_are_shared_out_so_that_all_find_one() -> None:
    """3 + 2 in the run of five and 4 in the other: without the longest first there is no room."""
    nodes, states = [node("n")], [state("n", "1-5", "7-10")]
    result = solved(task(nodes, states, [pod("a", 3), pod("b", 2), pod("c", 4)]))
    assert not result["unplaced"]
    full = task(nodes, states, [pod("a", 3), pod("b", 2), pod("c", 4), pod("d", 1)])
    assert len(solved(full)["unplaced"]) == 1


def test_the_exact_model_is_told_what_does_not_go_together() -> None:
    """Each pod alone fits, and so do the sums; but one node can take only runs of 3 + 3 or 2 + 2 +
    2.
    """
    nodes = [node("a", watts=10), node("b", watts=200), node("c", watts=900)]
    states = [state(name, "1-3,5-7") for name in "abc"]
    result = solved(task(nodes, states, [pod("two", 2, count=3), pod("three", 3, count=3)]))
    assert result["proven"] and not result["unplaced"]


def test_the_reason_is_told_in_the_words_of_kube_scheduler() -> None:
    nodes = [*(node(f"n{index}") for index in range(3)), node("small", ways=2)]
    states = [state(f"n{index}", "1-3", "5-7") for index in range(3)]
    [entry] = solved(task(nodes, states, [pod("p", 4)]))["unplaced"]
    assert entry["message"] == (
        "0/4 nodes are available: 3 node(s) had no free run of 4 l3 cache ways on one cache id, "
        "1 Insufficient intel.com/l3_cache_ways."
    )


def test_two_containers_need_two_rows() -> None:
    containers = [
        {"name": name, "resources": {"limits": {"cpu": "1", WAYS: ways}}}
        for name, ways in (("a", 3), ("b", 2))
    ]
    both = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    assert nodes_of(solved(task([node("n")], [state("n", "1-3,7-8")], [both]))) == ["n"]
    [entry] = solved(task([node("n")], [state("n", "1-4")], [both]))["unplaced"]
    assert list(entry["reasons"]) == [
        "node(s) had no free runs of 3 and 2 l3 cache ways, each on one cache id"
    ]


@pytest.mark.parametrize("states", [[], [{"spec": {"node": "n"}, "status": {}}]])
def test_where_caches_are_not_known_the_extended_resource_counts(states: list[Json]) -> None:
    result = solved(task([node("n", ways=8)], states, [pod("p", 4, count=3)]))
    assert nodes_of(result) == ["n", "n"]


@pytest.mark.parametrize(
    "uuid, placed", [("rmd-workload-first", 1), ("other/rmd-workload-first", 0), ("id 7", 0)]
)
def test_a_bound_pod_takes_its_row_until_the_daemon_has_its_workload(
    uuid: str, placed: int
) -> None:
    running = [{**pod("first", 3), "node_name": "n"}]
    del running[0]["count"]
    states = [state("n", "1-4", workloads={uuid: {"ID": "1"}})]
    result = solved(task([node("n")], states, [pod("p", 3)], running=running))
    assert len(result["placements"]) == placed


def best_effort(name: str, least: str) -> Json:
    return {**pod(name, 4), "annotations": {"main_cache_min": least}}


def test_best_effort_makes_do_with_fewer_ways_of_a_pool_of_its_own() -> None:
    states = [state("n", "1")]
    result = solved(task([node("n")], states, [best_effort("p-0", "2"), best_effort("p-1", "2")]))
    assert len(result["placements"]) == 1, "the first takes all three ways"


@pytest.mark.parametrize("least", ["0", "5", "-1", "many"])
def test_a_least_number_of_ways_that_is_none_is_told(least: str) -> None:
    result = place(task([node("n")], [], [best_effort("p", least)]))
    (finding,) = result["findings"]
    assert (finding["name"], finding["field"]) == ("p-0", "metadata.annotations.main_cache_min")
    assert result["unplaced"][0]["pod"] == "p-0"


def test_a_list_of_ways_that_is_none_is_told() -> None:
    (finding,) = place(task([node("n")], [state("n", "1-x")], [pod("p", 1)]))["findings"]
    assert finding["field"] == "status.caches[0].guaranteed.free"
    assert "'1-x'" in finding["problem"]


def test_a_node_state_without_a_node_is_told() -> None:
    (finding,) = place(task([node("n")], [{"spec": {}}], [pod("p", 1)]))["findings"]
    assert (finding["name"], finding["field"]) == ("rmd_node_states[0]", "spec.node")


FREE = st.lists(st.sampled_from(["", "1-4", "2-3,6-9", "0,2,4-6", "1-2,4-5"]), max_size=2)
WANTED = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=5)


@examples(400)
@given(FREE, WANTED, st.booleans())
def test_rows_fit_exactly_where_the_daemon_finds_them_in_some_order(
    free: list[str], wanted: list[tuple[int, int]], is_guaranteed: bool
) -> None:
    """The packing of lengths agrees with RMD's accounting, way by way (runs from the top)."""
    pool = "guaranteed" if is_guaranteed else "besteffort"
    asked = [
        (pool, max(pair), max(pair) if is_guaranteed else min(*pair, max(pair) - 1) or 1)
        for pair in wanted
    ]
    lengths = [length for ways in free for _low, length in rows(bits(ways))]
    runs = sorted((CacheRun(*each) for each in asked), key=lambda run: (-run.most, -run.least))
    packed = fit(tuple(sorted(lengths, reverse=True)), tuple(runs))
    assert packed == possible(tuple(map(bits, free)), tuple(sorted(asked)))


@pytest.mark.parametrize(
    ("free", "ways", "fits"),
    [
        # With the four ways that the workload holds, a run of six.
        (["1-2"], 6, True),
        (["1-2"], 7, False),
        (["1-2", "1-2"], 7, False),
    ],
)
def test_a_pod_fits_an_empty_fleet_only_if_a_cache_could_have_such_a_row(
    free: list[str], ways: int, fits: bool
) -> None:
    held = {"rmd-workload-other": {"Cache Max": "4", "Cache Min": "4"}}
    parameters = task([node("a")], [state("a", *free, workloads=held)], [pod("p", ways)])
    [entry] = solved(parameters)["unplaced"]
    assert entry["fits_empty_fleet"] is fits


def test_free_ways_of_two_caches_make_no_row_in_an_empty_fleet_either() -> None:
    states = [state("a", "1-3", "1-3")]
    [entry] = solved(task([node("a")], states, [pod("p", 4)]))["unplaced"]
    assert entry["fits_empty_fleet"] is False


@pytest.mark.parametrize("text", ["abc", "٣", "9" * 5000, "1_0", "-1", "0", "1e9"])
def test_an_annotation_that_is_no_number_names_its_field(text: str) -> None:
    asking = {
        "metadata": {"name": "p", "annotations": {"c_cache_min": text}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {WAYS: "4"}}}]},
    }
    with pytest.raises(InvalidField, match="is not a number of ways from 1 to the 4") as caught:
        runs_of_pod(asking)
    assert caught.value.field == "metadata.annotations.c_cache_min"
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("ways", ["abc", True, "-1", "1.5", "9" * 30, "٣", [3]])
def test_a_number_of_ways_that_is_none_names_its_field(ways: t.Any) -> None:
    held = {"rmd-workload-other": {"Cache Max": ways, "Cache Min": "4"}}
    with pytest.raises(
        InvalidField, match=r"status\.workloads\.rmd-workload-other\.Cache Max: "
    ) as caught:
        read_caches(state("n", "1-3", workloads=held))
    assert len(str(caught.value)) < 300
