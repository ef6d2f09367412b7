# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods with claims get node and devices in one answer, at the least power in total."""

from __future__ import annotations

import json
import typing as t
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.lower_bound import (
    LowerBounds,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.exact.mixed_integer_model import (
    PlacementModel,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import build_problem
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import STRATEGIES, place
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.brute_force_placement import optimum, optimum_of_the_same_pods
from support.device_objects import DRA, device_claim, device_pool, manifest, resource_slice
from support.examples import examples, generated, nearly_all
from support.joint_instances import (
    DRIVER,
    device_classes,
    first_of,
    gpu,
    hold,
    node,
    pod,
    request,
    tasks,
    template,
)
from support.placement_checker import Value, value_of, violations
from support.placement_instance import read_instance
from support.placement_instances import Json
from support.volume_objects import claim, mounted, reachable, storage_class, volume

PROOF_WATTS = 1e-3
TOLERANCE_WATTS = 1e-5


def task(nodes: list[Json], pods: list[Json], *objects: Json, **more: t.Any) -> Json:
    return {
        "nodes": nodes,
        "pods": pods,
        "device_objects": [*device_classes(), *objects],
        "device_power": "watts",
        **more,
    }


def solved(parameters: Json) -> Json:
    result = place(parameters)
    assert violations(parameters, result) == []
    return result


def nodes_of(result: Json) -> dict[str, str]:
    return {entry["pod"]: entry["node"] for entry in result["placements"]}


def is_no_worse(first: Value, second: Value, watts: float) -> bool:
    return first[:2] > second[:2] or (first[:2] == second[:2] and first[2] >= second[2] - watts)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nodes_that_cannot_satisfy_the_claim_are_no_candidates(strategy: str) -> None:
    parameters = task(
        [node("cheap", watts=1), node("gpus", watts=500)],
        [pod("p", made_of="one")],
        template("one", request("large")),
        resource_slice("cheap", [gpu("g", "small")]),
        resource_slice("gpus", [gpu("g", "large")]),
        strategy=strategy,
    )
    result = solved(parameters)
    assert nodes_of(result) == {"p": "gpus"}
    [entry] = result["allocations"]
    assert (entry["name"], entry["node"]) == ("p-gpu", "gpus")
    assert entry["allocation"]["devices"]["results"][0]["device"] == "g"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_node_has_both_the_devices_and_the_volumes_of_a_pod(strategy: str) -> None:
    """The cheapest node has no device, the second reaches no volume."""
    nodes = [node("cheap", watts=1), node("gpus", watts=10), node("both", watts=500)]
    for item in nodes:
        item["labels"] = {"kubernetes.io/hostname": item["name"]}
    parameters = task(
        nodes,
        [with_claim(pod(name, made_of="one"), name) for name in ("p", "q")],
        template("one", request()),
        *(resource_slice(name, [gpu("g")]) for name in ("gpus", "both")),
        strategy=strategy,
        volume_objects=[
            storage_class("wait"),
            claim("p", volume="v"),
            volume("v", nodeAffinity=reachable("kubernetes.io/hostname", "cheap", "both")),
        ],
    )
    result = solved(parameters)
    assert nodes_of(result) == {"p": "both"}
    assert [entry["name"] for entry in result["allocations"]] == ["p-gpu"]
    [unplaced] = result["unplaced"]
    assert 'persistentvolumeclaim "q" not found' in unplaced["message"]


def with_claim(given_pod: Json, name: str) -> Json:
    return {**given_pod, "spec": {**given_pod["spec"], "volumes": mounted(name)}}


def test_watts_of_devices_decide_between_nodes_and_count() -> None:
    parameters = task(
        [node("a", watts=8), node("b", watts=80)],
        [pod("p", made_of="one")],
        template("one", request()),
        resource_slice("a", [gpu("hungry", watts=300)]),
        resource_slice("b", [gpu("modest", watts=75), gpu("second", watts=90)]),
    )
    result = solved(parameters)
    assert nodes_of(result) == {"p": "b"} and result["proven"]
    assert result["watts"]["after"] - result["watts"]["before"] == pytest.approx(75 + 8)
    without = solved({key: value for key, value in parameters.items() if key != "device_power"})
    assert nodes_of(without) == {"p": "a"}


def test_the_second_device_of_a_node_may_be_dearer_than_another_node() -> None:
    """Together they draw more than twice a single one: the bound learns it, and the answer is
    proven.
    """
    parameters = task(
        [node("a", watts=8), node("b", watts=16)],
        [pod(f"p{index}", made_of="one") for index in range(2)],
        template("one", request()),
        resource_slice("a", [gpu("g0", watts=20), gpu("g1", watts=300)]),
        resource_slice("b", [gpu("g0", watts=75)]),
    )
    result = solved(parameters)
    assert sorted(nodes_of(result).values()) == ["a", "b"] and result["proven"]


def test_a_device_that_pods_share_draws_its_watts_once() -> None:
    """Pod by pod, separate devices are cheaper; a bound that adds 300 W twice proves it."""
    shared = {**gpu("shared", watts=300), "allowMultipleAllocations": True}
    parameters = task(
        [node("a", watts=8), node("b", watts=8)],
        [pod(f"p{index}", made_of="one") for index in range(2)],
        template("one", request()),
        resource_slice("a", [shared]),
        resource_slice("b", [gpu(f"g{index}", watts=200) for index in range(2)]),
    )
    result = place(parameters)
    assert set(nodes_of(result).values()) == {"a"} and result["proven"]
    watts = result["watts"]
    assert watts["after"] - watts["before"] == pytest.approx(300 + 8 / 8 * 2 * 0.8)
    assert watts["lower_bound"] == pytest.approx(watts["after"], abs=PROOF_WATTS)


def test_the_bound_knows_how_many_devices_there_are() -> None:
    """There are too few modest devices for all; without counting them the bound would be far too
    low.
    """
    modest = [gpu(f"g{index}", "small", watts=75) for index in range(4)]
    hungry = [gpu(f"g{index}", "large", watts=300) for index in range(4)]
    parameters = task(
        [node(f"n{index:02}", watts=100 + index, cpu=16) for index in range(12)],
        [pod(f"p{index:02}", made_of="two" if index % 4 == 0 else "one") for index in range(28)],
        template("one", request()),
        template("two", request(count=2)),
        *(resource_slice(f"n{index:02}", hungry if index % 2 else modest) for index in range(12)),
    )
    result = solved(parameters)
    assert not result["unplaced"] and result["proven"]


def test_no_device_is_given_twice_and_the_message_says_why_no_more() -> None:
    parameters = task(
        [node("a"), node("b")],
        [pod(f"p{index}", made_of="two") for index in range(3)],
        template("two", request(count=2)),
        resource_slice("a", [gpu("g0"), gpu("g1"), gpu("g2")]),
        resource_slice("b", [gpu("g0"), gpu("g1")]),
    )
    [entry] = solved(parameters)["unplaced"]
    assert entry["message"] == "0/2 nodes are available: 2 cannot allocate all claims."


@pytest.mark.parametrize(("count", "fits"), [(1, True), (2, False)])
def test_a_pod_fits_an_empty_fleet_if_a_node_has_the_devices_that_others_hold(
    count: int, fits: bool
) -> None:
    spec = {"devices": {"requests": [request()]}}
    held = manifest(DRA, "ResourceClaim", "held", spec, namespace="default")
    hold(held, "a", "g0")
    parameters = task(
        [node("a"), node("b")],
        [pod("p", made_of="some")],
        template("some", request(count=count)),
        resource_slice("a", [gpu("g0")]),
        held,
    )
    [entry] = solved(parameters)["unplaced"]
    assert entry["fits_empty_fleet"] is fits


def test_pods_that_share_a_claim_are_on_one_node() -> None:
    claim = template("shared", request())
    claim = {**claim, "kind": "ResourceClaim", "spec": claim["spec"]["spec"]}
    parameters = task(
        [node("a", watts=8, cpu=2), node("b", watts=300, cpu=3)],
        [pod(f"p{index}", claim="shared") for index in range(3)],
        claim,
        resource_slice("a", [gpu("g")]),
        resource_slice("b", [gpu("g")]),
    )
    result = solved(parameters)
    assert set(nodes_of(result).values()) == {"b"} and len(result["allocations"]) == 1


def test_the_first_alternative_that_a_node_has_is_taken_as_kubernetes_does() -> None:
    parameters = task(
        [node("a")],
        [pod("p", made_of="one")],
        template("one", first_of("large", "small")),
        resource_slice("a", [gpu("g0", "small", watts=20), gpu("g1", "large", watts=300)]),
    )
    result = solved(parameters)
    [chosen] = result["allocations"][0]["allocation"]["devices"]["results"]
    assert (chosen["device"], chosen["request"]) == ("g1", "gpus/way-0")


def test_claims_of_the_prototype_are_answered_in_its_own_words() -> None:
    nodes = [node("a", watts=1), node("b", watts=100)]
    pools = [
        device_pool("pool-a", "a", "fpga.example.com", count=1),
        device_pool("pool-b", "b", "fpga.example.com", count=3),
    ]
    claim = device_claim("training", driver="fpga.example.com", minDeviceCount=2)
    waiting = pod("p", claim="ignored")
    waiting["spec"]["deviceClaims"] = [{"name": "c", "claimName": "training"}]
    del waiting["spec"]["resourceClaims"]
    result = place({"nodes": nodes, "pods": [waiting], "device_objects": [*pools, claim]})
    assert nodes_of(result) == {"p": "b"}
    [entry] = result["allocations"]
    assert entry["allocation"]["allocations"] == [{"devicePoolName": "pool-b", "deviceCount": 2}]


@pytest.mark.parametrize("objects", [[], [template("other", request())]])
def test_a_claim_that_is_not_known_leaves_its_pod_waiting(objects: list[Json]) -> None:
    waiting = [pod("p", made_of="one")]
    result = place({"nodes": [node("a")], "pods": waiting, "device_objects": objects})
    [entry] = result["unplaced"]
    assert all(reason.startswith("unsupported: ") for reason in entry["reasons"])
    assert "spec.resourceClaims" in entry["message"]
    assert result["allocations"] == []


def test_a_device_that_several_nodes_can_use_is_given_once() -> None:
    everywhere = resource_slice("net", [gpu("g"), gpu("h")], nodeName=None, allNodes=True)
    parameters = task(
        [node("a", watts=8, cpu=1), node("b", watts=80)],
        [pod(f"p{index}", made_of="one") for index in range(3)],
        template("one", request()),
        everywhere,
    )
    result = solved(parameters)
    assert sorted(nodes_of(result).values()) == ["a", "b"] and result["proven"]
    [entry] = result["unplaced"]
    assert entry["message"] == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 cannot allocate all claims."
    )


def test_so_many_devices_of_a_network_are_left_to_others() -> None:
    everywhere = resource_slice(
        "net", [gpu(f"g{index}", "large") for index in range(70)], nodeName=None, allNodes=True
    )
    parameters = task(
        [node("a"), node("b")],
        [pod(f"p{index}", made_of="one") for index in range(60)],
        template("one", request()),
        everywhere,
    )
    local = pod("local", made_of="small")
    parameters["pods"].append(local)
    own = resource_slice("a", [gpu("own", "small")])
    parameters["device_objects"] += [template("small", request("small")), own]
    result = place(parameters)
    reasons = {reason for entry in result["unplaced"] for reason in entry["reasons"]}
    assert reasons == {"unsupported: claims for so many devices that several nodes can use"}
    assert nodes_of(result) == {"local": "a"}


def test_an_extended_resource_of_a_class_is_refused_by_name() -> None:
    """Except for one that a node offers itself, which has a device plugin."""
    asking = pod("p", made_of="one")
    del asking["spec"]["resourceClaims"]
    asking["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "1"}}
    named = device_classes()[0]
    named["spec"]["extendedResourceName"] = "example.com/gpu"
    [entry] = place(task([node("a")], [asking], named))["unplaced"]
    assert list(entry["reasons"]) == [
        "unsupported: the extended resource example.com/gpu, which DeviceClass any stands for"
    ]
    offering = node("b")
    offering["allocatable"]["example.com/gpu"] = "1"
    assert nodes_of(place(task([node("a"), offering], [asking], named))) == {"p": "b"}


def test_each_device_object_that_cannot_be_used_is_told_and_the_others_count() -> None:
    bad_slice = resource_slice("b", [{"name": 5}])
    claim = {**manifest(DRA, "ResourceClaim", "odd", {}), "status": {"allocation": []}}
    nameless = {"apiVersion": DRA, "kind": "DeviceClass", "metadata": {}}
    sound = [resource_slice("a", [gpu("g")], driver=DRIVER), template("one", request())]
    objects = [*sound, bad_slice, claim, nameless]
    parameters = task([node("a")], [pod("p", made_of="one")], *objects)
    parameters["device_objects"].append(5)
    result = place(parameters)
    assert nodes_of(result) == {"p": "a"}
    told = {(one["kind"], one["name"]) for one in result["findings"]}
    assert {("ResourceSlice", "b-slice"), ("ResourceClaim", "odd")} < told
    assert len(told) == 4
    fields = {"kind", "namespace", "name", "field", "problem"}
    assert all(one.keys() == fields for one in result["findings"])


def test_equal_input_gives_an_equal_answer_whatever_its_order() -> None:
    parameters = task(
        [node("a"), node("b")],
        [pod(f"p{index}", made_of="one") for index in range(4)],
        template("one", request()),
        resource_slice("a", [gpu("g0"), gpu("g1")]),
        resource_slice("b", [gpu("g0"), gpu("g1")]),
    )
    turned = {**parameters, "nodes": parameters["nodes"][::-1], "pods": parameters["pods"][::-1]}
    first, second, third = (place(each) for each in (parameters, parameters, turned))
    assert json.dumps(first) == json.dumps(second)
    assert first["placements"] == third["placements"]


@examples(20)
@given(tasks())
def test_the_exact_model_counts_the_watts_of_devices_once(parameters: Json) -> None:
    """Its bound is never above the optimum, whether requested or not."""
    result = solved(parameters)
    problem = build_problem(read_instance(placement.SPEC.complete(parameters)))
    named = {entry["pod"] for entry in result["placements"]}
    placed = [sum(pod.name in named for pod in group.pods) for group in problem.groups]
    nodes = range(len(problem.instance.nodes))
    model = PlacementModel(problem, LowerBounds(problem).functions, nodes, problem.count)
    for group, number in enumerate(placed):
        model.model.equal(model.placed_in([group]), number)
    model.minimize_cost()
    solution = model.solve(Limits(60), 10_000)
    assume(solution.is_optimal)
    best = -optimum_of_the_same_pods(parameters, result)[2]
    assert model.bound(solution) <= best + PROOF_WATTS


def check(parameters: Json, strategy: str) -> str:
    """Assert all required properties of an answer, and return its quality."""
    result = solved(parameters)
    found, best = value_of(parameters, result), optimum(parameters)
    assert is_no_worse(best, found, TOLERANCE_WATTS)
    bound = result["watts"]["lower_bound"]
    assert bound <= -optimum_of_the_same_pods(parameters, result)[2] + TOLERANCE_WATTS
    if result["proven"]:
        assert is_no_worse(found, best, PROOF_WATTS)
    other = place({**parameters, "strategy": strategy})
    assert violations(parameters, other, strategy != "minimize_power") == []
    if strategy in ("greedy", "minimize_power"):
        assert is_no_worse(found, value_of(parameters, other), TOLERANCE_WATTS)
    if result["proven"]:
        return "proven"
    return "optimal" if is_no_worse(found, best, PROOF_WATTS) else "worse"


@generated
def test_the_joint_answer_is_that_of_brute_force() -> None:
    counted: Counter[str] = Counter()

    @examples(30, shrinks=False)
    @given(tasks(), st.sampled_from(STRATEGIES[1:]))
    def run(parameters: Json, strategy: str) -> None:
        counted[check(parameters, strategy)] += 1

    run()
    tasks_tried = counted.total()
    assert counted["worse"] <= tasks_tried // 100, counted
    assert nearly_all(counted["proven"], tasks_tried, 0.8), counted
