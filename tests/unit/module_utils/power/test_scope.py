# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run for a part of the cluster: only its nodes take pods, and all nodes count in rules."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import (
    SPEC,
    STRATEGIES,
    place_pods,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.sources import source_of_snapshot
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curves
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.scope import Scope
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.binding_api import node, pod

Json = dict[str, t.Any]

CHEAP = {"cpu": [0, 4], "watts": [100, 104]}
DEAR = {"cpu": [0, 4], "watts": [100, 180]}
MINE = Scope(frozenset({"mine"}), frozenset({("shop", "a"), ("shop", "b")}))


def place(
    pods: list[Json], scope: Scope | None, curves: Json | None = None, **parameters: t.Any
) -> Json:
    snapshot = {
        "nodes": [node("mine"), node("other")],
        "pods": pods,
        "namespaces": [{"metadata": {"name": "shop", "labels": {}}}],
        "pod_disruption_budgets": [],
    }
    options = SPEC.complete({"nodes": [], **parameters})
    # A run reads no machines of other nodes, so these have no curve.
    priced = Curves.from_document({"mine": DEAR} if curves is None else curves)
    return place_pods(
        source_of_snapshot(snapshot, priced, (), options, scope),
        options,
        Limits.of(options),
        Context(),
    ).as_document()


def places(plan: Json) -> dict[str, str]:
    return {entry["pod"]: entry["node"] for entry in plan["placements"]}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("curves", [{"mine": DEAR}, {"mine": DEAR, "other": CHEAP}, {}], ids=str)
def test_pods_of_the_scope_go_to_its_nodes_and_others_are_not_in_the_plan(
    strategy: str, curves: Json
) -> None:
    plan = place([pod("a"), pod("stranger")], MINE, curves, strategy=strategy)
    assert places(plan) == {"a": "mine"} and plan["unplaced"] == []
    everything = place([pod("a"), pod("stranger")], None, curves, strategy=strategy)
    assert places(everything).keys() == {"a", "stranger"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_pod_that_does_not_fit_is_told_that_other_nodes_are_not_its_own(strategy: str) -> None:
    plan = place([pod("a", cpu="3"), pod("b", cpu="3")], MINE, strategy=strategy)
    [unplaced] = plan["unplaced"]
    assert unplaced["reasons"] == {
        "Insufficient cpu": 1,
        "node(s) didn't belong to the pod's fleet": 1,
    }
    assert unplaced["fits_empty_fleet"] is True
    other = place([pod("a", cpu="1", nodeSelector={"kubernetes.io/hostname": "other"})], MINE)
    assert other["unplaced"][0]["fits_empty_fleet"] is False


def affinity(kind: str, key: str) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_on_nodes_of_others_count_in_rules_between_pods() -> None:
    web = pod("web", labels={"app": "web"}, nodeName="other")
    web["status"]["phase"] = "Running"
    near = pod("a", affinity=affinity("podAffinity", "kubernetes.io/hostname"))
    assert places(place([web, near], MINE)) == {}
    far = pod("a", affinity=affinity("podAntiAffinity", "kubernetes.io/hostname"))
    assert places(place([web, far], MINE)) == {"a": "mine"}
    on_mine = copy.deepcopy(web)
    on_mine["spec"]["nodeName"] = "mine"
    assert places(place([on_mine, far], MINE)) == {}


def test_domains_of_others_count_in_spreading() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pods = [pod(name, labels={"app": "web"}, topologySpreadConstraints=[spread]) for name in "ab"]
    assert len(places(place(pods, MINE))) == 1
    assert len(places(place(pods, None))) == 2


def running(name: str, on: str) -> Json:
    made = pod(name, nodeName=on)
    made["status"]["phase"] = "Running"
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "controller": True}]
    return made


def test_only_running_pods_of_the_scope_are_moved_and_only_to_its_nodes() -> None:
    curves = {"mine": DEAR, "other": CHEAP}
    pods = [running("a", "mine"), running("stranger", "mine")]

    def moved(scope: Scope | None) -> set[str]:
        plan = place(pods, scope, curves, rebalance=True, min_gain_watts=1.0)
        return {move["pod"] for step in plan["steps"] for move in step["moves"]}

    assert moved(None) == {"a", "stranger"}
    assert moved(MINE) == set()
    both = Scope(frozenset({"mine", "other"}), MINE.pods)
    assert moved(both) == {"a"}


@pytest.mark.parametrize(
    "odd", [None, 7, {}, {"metadata": 7}, {"metadata": {"name": ["a"]}}], ids=str
)
def test_what_is_no_pod_is_in_no_scope(odd: t.Any) -> None:
    assert not MINE.has_pod(odd)
