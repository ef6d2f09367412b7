# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Amounts that an API server takes and no machine has: the pod waits, others get their nodes."""

from __future__ import annotations

import copy
import json
import tempfile
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.extender.answering import Extender
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import build_problem
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import SPEC, place
from support.extender import Cluster, arguments, linear, published
from support.extender import node as extender_node
from support.extender import pod as asking_pod
from support.odd_fleets import fleet, full_pod, pod
from support.placement_instance import read_instance

Json = dict[str, t.Any]
Change = Callable[[Json, t.Any], None]

STRATEGIES = ("greedy", "spread", "peaks", "minimize_power", "optimal")
# The largest quantity of an API server is 2^63 - 1.
AMOUNTS = ("7Ei", "1e18", "9223372036854775807", "9.2E")


def placed(given: Json, strategy: str, **options: t.Any) -> Json:
    given = copy.deepcopy(given)
    beside = {part: given.pop(part) for part in ("curves", "node_metrics")}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(beside, file)
        file.flush()
        return place(
            {**given, "src": [file.name], "strategy": strategy, "time_limit": 20.0, **options}
        )


def without(strategy: str) -> Json:
    return placed(fleet(), strategy)


def only(part: str, kind: str, resource: str) -> Change:
    """The amount in one container of this part, or in the resources of the whole pod."""

    def change(odd: Json, amount: t.Any) -> None:
        odd["spec"].pop("resources", None)
        holder = odd["spec"][part][0] if part else odd["spec"]
        holder["resources"] = {kind: {resource: amount}}

    return change


def overhead(odd: Json, amount: t.Any) -> None:
    odd["spec"]["overhead"] = {"cpu": amount}


def many_containers(odd: Json, amount: t.Any) -> None:
    """Each amount is valid, and only their sum is beyond 64 bits."""
    odd["spec"].pop("resources")
    odd["spec"]["containers"] = [
        {"name": f"c{number}", "resources": {"requests": {"cpu": amount, "memory": amount}}}
        for number in range(20)
    ]


PLACES: dict[str, Change] = {
    "requests": only("containers", "requests", "cpu"),
    "limits": only("containers", "limits", "cpu"),
    "init container": only("initContainers", "requests", "cpu"),
    "pod level": only("", "requests", "cpu"),
    "overhead": overhead,
    "many containers": many_containers,
    "memory": only("containers", "requests", "memory"),
    "ephemeral storage": only("containers", "requests", "ephemeral-storage"),
    "extended resource": only("containers", "requests", "vendor.example/card"),
}


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("where", PLACES)
def test_a_waiting_pod_of_any_amount_waits_alone(where: str, amount: str) -> None:
    odd = full_pod()
    PLACES[where](odd, amount)
    for strategy in STRATEGIES:
        given = fleet()
        given["pods"].insert(0, odd)
        for node in given["nodes"]:
            # A node without the resource would refuse the pod for its name alone.
            node["status"]["allocatable"].setdefault("vendor.example/card", "4")
            node["status"]["allocatable"].setdefault("ephemeral-storage", "1Ti")
        result = placed(given, strategy, rebalance=True)
        unplaced = {entry["pod"]: entry for entry in result["unplaced"]}
        assert result["placements"] == without(strategy)["placements"], strategy
        assert "Insufficient" in unplaced["odd"]["message"]
        assert unplaced["odd"]["fits_empty_fleet"] is False


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_short_forms_of_any_amount_wait_too(strategy: str) -> None:
    given = fleet()
    given["pods"].append({"name": "odd", "count": 3, "requests": {"cpu": "7Ei"}})
    result = placed(given, strategy)
    assert result["placements"] == without(strategy)["placements"]
    messages = {entry["message"] for entry in result["unplaced"] if "odd" in entry["pod"]}
    assert messages == {"0/3 nodes are available: 3 Insufficient cpu."}


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("part", ["allocatable", "capacity", "both"])
def test_a_node_of_any_amount_ends_nothing(part: str, amount: str) -> None:
    odd = full_pod()
    PLACES["requests"](odd, amount)
    given = fleet()
    given["pods"].append(odd)
    for name in ("allocatable", "capacity") if part == "both" else (part,):
        for resource in ("cpu", "memory"):
            given["nodes"][2]["status"][name][resource] = amount
    for strategy in STRATEGIES:
        result = placed(given, strategy, rebalance=True)
        # Arrays hold no more than any machine has, so no node counts as large as this pod.
        assert "odd" not in {entry["pod"] for entry in result["placements"]}
        assert len(result["placements"]) == len(fleet()["pods"]), strategy


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_running_pod_of_any_amount_stays_and_others_move(amount: str) -> None:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}

    def running(name: str, cpu: str, on: str) -> Json:
        made = pod(name, cpu, nodeName=on)
        made["metadata"]["ownerReferences"] = [owner]
        return {**made, "status": {"phase": "Running"}}

    def node(name: str, watts: float) -> Json:
        amounts = {"cpu": "8", "memory": "32Gi"}
        curve = {"cpu": [0, 8], "watts": [100, 100 + 8 * watts]}
        return {"name": name, "allocatable": amounts, "curve": curve}

    nodes = [node("full", 1), node("cheap", 10), node("dear", 20)]
    small = running("small", "2", "dear")
    for pods in ([small], [running("huge", amount, "full"), small]):
        result = place({"nodes": nodes, "running": pods, "rebalance": True})
        [move] = [move for step in result["steps"] for move in step["moves"]]
        assert (move["pod"], move["from_node"]) == ("small", "dear")
    assert move["to_node"] == "cheap"


def test_a_pod_of_a_gang_that_fits_nowhere_keeps_the_gang_waiting() -> None:
    members = [pod("small"), pod("huge", "7Ei")]
    for member in members:
        member["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "all"}
    result = place({"nodes": fleet()["nodes"], "pods": members, "strategy": "greedy"})
    assert result["placements"] == []


def test_names_of_resources_that_no_node_has_never_become_arrays() -> None:
    given = fleet()
    odd = pod("odd")
    odd["spec"]["containers"][0]["resources"]["requests"] = {
        "cpu": "1",
        **{f"example.com/r{number}": "0" for number in range(30)},
    }
    given["pods"] += [odd, pod("other")]
    given["pods"][-1]["spec"]["containers"][0]["resources"]["requests"]["example.com/x"] = "1"
    del given["curves"], given["node_metrics"]
    problem = build_problem(read_instance(SPEC.complete(given)))
    assert problem.resources == ("cpu", "memory", "pods")
    assert [each.name for group in problem.groups for each in group.pods].count("odd") == 1


@pytest.mark.parametrize("amount", AMOUNTS)
def test_the_extender_answers_for_pods_of_any_amount(amount: str) -> None:
    nodes = [extender_node("n1"), extender_node("n2")]
    cluster = Cluster().nodes(*nodes).pods(asking_pod("running", amount, "n1"))
    plan = {"placements": [{"namespace": "default", "pod": "w", "uid": "", "node": "n2"}]}
    cluster.publish(published({"n1": linear(5), "n2": linear(9)}, plan))
    cluster.pods(asking_pod("w", amount))
    extender = Extender(cluster.state)
    body = arguments(asking_pod("huge", amount), ["n1", "n2"])
    assert {each["Host"] for each in json.loads(extender.prioritize(body))} == {"n1", "n2"}
    assert json.loads(extender.filter(body))["NodeNames"]
