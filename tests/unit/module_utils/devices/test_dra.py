# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dynamic resource allocation is read as in Kubernetes; unknown fields are refused."""

from __future__ import annotations

import copy
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from support.device_objects import (
    DRA,
    device_claim,
    device_pool,
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)

DRIVER = "gpu.example.com"
GPU = dra_class("gpu", f"device.driver == '{DRIVER}'")
ONE = resource_claim("c", exactly("r", "gpu"))
Json = dict[str, t.Any]


def run(*objects: Json, **options: t.Any) -> Json:
    return allocate({"objects": [GPU, *objects], "strategy": "first_fit", **options})


def devices_of(allocation: Json | None) -> list[str]:
    return [one["device"] for one in allocation["devices"]["results"]] if allocation else []


def given_devices(*objects: Json, **options: t.Any) -> list[list[str]]:
    return [devices_of(found) for found in run(*objects, **options)["allocations"]]


def reasons(result: Json) -> list[str]:
    return [
        pool["failureReason"]
        for node in result["node_results"]
        for claim in node["DeviceClaimResults"]
        for pool in claim.get("ignoredPools", [])
    ]


def part_of_pool(name: str, devices: list[str], slices: int, generation: int = 1) -> Json:
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": slices}
    found = resource_slice("n1", [dra_device(one) for one in devices], pool=pool)
    found["metadata"]["name"] = name
    return found


def slice_of_generation(name: str, generation: int, count: int = 1, **reach: t.Any) -> Json:
    """A slice of the pool ``pool`` with one device, which has the slice's name."""
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": count}
    found = resource_slice("any", [dra_device(name)], pool=pool, **{"nodeName": None, **reach})
    found["metadata"]["name"] = name
    return found


class TestGenerationsByNode:
    """Source: GatherPools of k8s.io/dynamic-resource-allocation 0.37.2."""

    @pytest.mark.parametrize(
        ("slices", "expected"),
        [
            # The newer generation is on another node, and the older one is whole here.
            ([("old", 1, 1, "n1"), ("new", 2, 1, "n2")], ["new", "old"]),
            # The older one lacks a slice, and a newer one exists: it is obsolete.
            ([("old", 1, 2, "n1"), ("new", 2, 1, "n2")], ["new"]),
            ([("old", 1, 1, "n1"), ("new", 2, 1, "n1")], ["new"]),
            ([("old", 1, 1, "n1"), ("new", 2, 1, "")], ["new"]),
            ([("a", 1, 1, "n1"), ("b", 2, 1, "n2"), ("c", 3, 1, "n3")], ["a", "b", "c"]),
            ([("a", 1, 2, "n1"), ("b", 1, 2, "n1"), ("c", 2, 1, "n2")], ["a", "b", "c"]),
        ],
    )
    def test_a_newer_one_hides_only_the_slices_of_nodes_that_it_reaches(
        self, slices: list[tuple[str, int, int, str]], expected: list[str]
    ) -> None:
        published = [
            slice_of_generation(
                name, generation, count, **({"nodeName": on} if on else {"allNodes": True})
            )
            for name, generation, count, on in slices
        ]
        nodes = [node("n1"), node("n2"), node("n3")]
        claims = [resource_claim(f"c{n}", exactly("r", "gpu")) for n in range(4)]
        given = given_devices(*nodes, *published, *claims)
        assert sorted(name for names in given for name in names) == expected

    @pytest.mark.parametrize(
        ("slices", "expected"),
        [
            # Each node has as many slices as the pool, though the pool has more.
            ([("a", 1, "n1", "x"), ("b", 1, "n2", "y")], ["x", "y"]),
            ([("a", 1, "n1", "x"), ("b", 2, "n2", "y")], ["x", "y"]),
            ([("a", 1, "n1", "x"), ("b", 3, "n2", "y")], ["x"]),
            # A name may be listed again for another node; both are one device.
            ([("a", 2, "n1", "x"), ("b", 2, "n2", "x")], ["x"]),
            ([("a", 3, "n1", "x"), ("b", 3, "n1", "x"), ("c", 3, "n2", "y")], ["y"]),
            ([("a", 3, "n1", "x"), ("b", 3, "", "x"), ("c", 3, "n2", "y")], ["x", "y"]),
        ],
    )
    def test_a_pool_is_judged_by_the_slices_that_a_node_sees(
        self, slices: list[tuple[str, int, str, str]], expected: list[str]
    ) -> None:
        published = []
        for name, count, on, device in slices:
            reach = {"nodeName": on} if on else {"allNodes": True}
            one = slice_of_generation(device, 1, count, **reach)
            one["metadata"]["name"] = name
            published.append(one)
        claims = [resource_claim(f"c{n}", exactly("r", "gpu")) for n in range(4)]
        given = given_devices(node("n1"), node("n2"), *published, *claims)
        assert sorted(name for names in given for name in names) == expected

    def test_counters_of_another_slice_are_missed_only_where_the_device_is(self) -> None:
        bad = slice_of_generation("bad", 1, nodeName="n1")
        bad["spec"]["devices"][0]["consumesCounters"] = UNKNOWN_COUNTER
        good = slice_of_generation("good", 1, nodeName="n2")
        claims = [resource_claim(f"c{n}", exactly("r", "gpu")) for n in range(2)]
        result = run(node("n1"), node("n2"), bad, good, *claims)
        assert [devices_of(one) for one in result["allocations"] if one] == [["good"]]
        assert "the pool has no counter set no" in result["findings"][0]["problem"]

    def test_counters_of_another_node_hide_no_generation(self) -> None:
        counters = slice_of_generation("s", 2, 2, nodeName="n9")
        counters["spec"].update(
            devices=None, sharedCounters=[{"name": "s", "counters": {"m": {"value": "1"}}}]
        )
        old = slice_of_generation("old", 1, nodeName="n1")
        new = slice_of_generation("new", 2, 2, nodeName="n2")
        claims = [resource_claim(f"c{n}", exactly("r", "gpu")) for n in range(2)]
        given = given_devices(node("n1"), node("n2"), counters, old, new, *claims)
        assert sorted(name for names in given for name in names) == ["new", "old"]

    def test_deviation_a_device_of_two_generations_is_one_device(self) -> None:
        old = slice_of_generation("gpu-0", 1, nodeName="n1")
        new = slice_of_generation("gpu-0", 2, nodeName="n2")
        new["metadata"]["name"] = "newer"
        claims = [resource_claim(f"c{n}", exactly("r", "gpu")) for n in range(2)]
        given = given_devices(node("n1"), node("n2"), old, new, *claims)
        assert [name for names in given for name in names] == ["gpu-0"]


def node(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def pod(name: str, *claims: str, **spec: t.Any) -> Json:
    named = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    return manifest("v1", "Pod", name, {"resourceClaims": named, **spec}, namespace="default")


UNKNOWN_COUNTER = [{"counterSet": "no", "counters": {"m": {"value": "1"}}}]


class TestPools:
    def test_slices_are_tried_by_name(self) -> None:
        slices = [part_of_pool("z", ["second"], 2), part_of_pool("a", ["first"], 2)]
        assert given_devices(*slices, ONE) == [["first"]]

    def test_an_incomplete_pool_gives_nothing(self) -> None:
        result = run(part_of_pool("a", ["gpu"], 2), ONE)
        assert result["outcome"] == "infeasible"
        assert reasons(result) == ["pool pool is incomplete: 1 of 2 slices"]

    def test_only_the_latest_generation_counts(self) -> None:
        old, new = part_of_pool("a", ["old"], 1, 1), part_of_pool("b", ["new"], 1, 2)
        assert given_devices(old, new, ONE) == [["new"]]

    def test_all_devices_are_not_known_while_a_pool_is_being_published(self) -> None:
        complete = resource_slice("n1", [dra_device("gpu")])
        every = resource_claim("c", exactly("r", "gpu", allocationMode="All"))
        assert given_devices(complete, every) == [["gpu"]]
        assert given_devices(complete, part_of_pool("a", ["other"], 2), every) == [[]]

    def test_a_pool_with_binding_conditions_comes_last(self) -> None:
        fabric = dra_device(
            "a-fabric", bindingConditions=["attached"], bindingFailureConditions=["failed"]
        )
        attached = resource_slice("a", [fabric], nodeName="n1")
        local = resource_slice("z", [dra_device("local")], nodeName="n1")
        two = [resource_claim(name, exactly("r", "gpu")) for name in ("c", "d")]
        first, last = run(attached, local, *two)["allocations"]
        assert devices_of(first) == ["local"]
        [result] = last["devices"]["results"]
        assert result["bindingConditions"] == ["attached"]
        assert result["bindingFailureConditions"] == ["failed"]

    @pytest.mark.parametrize(
        ("devices", "problem"),
        [
            ([dra_device("same"), dra_device("same")], "the device name 'same' is listed twice"),
            (
                [dra_device(f"d{n}") for n in range(129)],
                "129 devices in a slice; the API allows 128",
            ),
            (
                [dra_device(f"d{n}", taints=[{"key": "k", "effect": "None"}]) for n in range(65)],
                "65 devices in a slice; the API allows 64",
            ),
            (
                [dra_device(f"d{n}", attributes={"a": {"ints": [n]}}) for n in range(65)],
                "65 devices in a slice; the API allows 64",
            ),
        ],
    )
    def test_a_pool_that_contradicts_itself_gives_nothing(
        self, devices: list[Json], problem: str
    ) -> None:
        result = run(resource_slice("n1", devices), resource_slice("n2", [dra_device("d")]), ONE)
        assert result["node"] == "n2"
        assert problem in result["findings"][0]["problem"]

    @pytest.mark.parametrize(
        ("field", "value", "problem"),
        [
            ("compatibilityGroups", ["a"], "compatibilityGroups: unsupported"),
            ("attributes", {"a": {"float": 1.5}}, "attributes.a.float: unsupported type of"),
            ("attributes", {"a": {"int": "1"}}, "attributes.a.int: '1' is not of this type"),
            ("attributes", {"a": {"int": 2**63}}, "attributes.a.int: 9223372036854775808 is bey"),
            ("attributes", {"a": {"string": "x" * 65}}, "attributes.a.string: 'xxx"),
            ("attributes", {"a": {"string": "\ud800"}}, "attributes.a.string: '\\ud800' is no"),
            ("attributes", {"a": {"version": "1"}}, "attributes.a.version: '1' is not a semantic"),
            (
                "attributes",
                {"a" * 33: {"int": 1}},
                f"attributes.{'a' * 33}: is not a name of up to",
            ),
            ("attributes", {f"a{n}": {"int": n} for n in range(33)}, ": more than 32 attributes"),
            ("capacity", {"m": {"value": "1", "shared": True}}, "capacity.m.shared: unsupported"),
            ("capacity", {"m": {"value": "1e999999999"}}, "capacity.m.value: the quantity"),
            ("taints", [{"key": "k", "effect": "Prefer"}], "taints.effect: unsupported effect 'P"),
            ("taints", [{"key": "k", "effect": "None", "a": 1}], "taints.a: unsupported"),
            (
                "consumesCounters",
                [{"counterSet": "none", "counters": {"m": {"value": "1"}}}],
                "consumesCounters: the pool has no counter set none",
            ),
            (
                "consumesCounters",
                [{"counterSet": "none", "counters": {}}],
                "consumesCounters: the pool has no counter set none",
            ),
            (
                "consumesCounters",
                [{"counterSet": "none", "counters": {}, "per": "node"}],
                "consumesCounters.per: unsupported",
            ),
        ],
    )
    def test_a_pool_with_something_unknown_gives_nothing(
        self, field: str, value: t.Any, problem: str
    ) -> None:
        strange, plain = {"name": "a", field: value}, dra_device("b")
        pools = resource_slice("n1", [strange, plain]), resource_slice("n2", [dra_device("c")])
        result = run(*pools, ONE)
        assert devices_of(result["allocations"][0]) == ["c"]
        [finding] = result["findings"]
        assert (finding["kind"], finding["name"]) == ("ResourceSlice", "n1-slice")
        told = f"{finding['field']}: {finding['problem']}".partition("devices[0]")[2]
        assert told.lstrip(".").startswith(problem)

    @pytest.mark.parametrize(
        ("more", "field"),
        [
            ({"matchAll": True}, "spec.matchAll"),
            (
                {"sharedCounters": [{"name": "s", "counters": {}, "a": 1}]},
                "spec.sharedCounters[0].a",
            ),
            (
                {"sharedCounters": [{"name": "s", "counters": {"m": {"value": "1", "a": 1}}}]},
                "spec.sharedCounters[0].counters.m.a",
            ),
        ],
    )
    def test_an_unknown_field_of_a_slice_or_counter_refuses_its_pool(
        self, more: Json, field: str
    ) -> None:
        result = run(
            resource_slice("n1", [dra_device("a")], **more),
            resource_slice("n2", [dra_device("b")]),
            ONE,
        )
        assert devices_of(result["allocations"][0]) == ["b"]
        assert [one["field"] for one in result["findings"]] == [field]

    @pytest.mark.parametrize("at_fault", [0, 1])
    @pytest.mark.parametrize(
        "fault",
        [
            {"devices": [dra_device("x", consumesCounters=UNKNOWN_COUNTER)]},
            {"sharedCounters": [{"name": "s", "counters": {"m": {"value": "5"}}}]},
            {"pool": {"name": "n1", "generation": 1, "resourceSliceCount": 3}},
            {"devices": [dra_device("c")]},
        ],
    )
    def test_whichever_slice_is_at_fault_its_pool_gives_nothing(
        self, fault: Json, at_fault: int
    ) -> None:
        counters = [{"name": "s", "counters": {"m": {"value": "5"}}}]
        whole = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
        plain = {"devices": [dra_device("c")], "sharedCounters": counters, "pool": whole}
        slices = []
        for number in range(2):
            more = {"devices": [dra_device("d")], "pool": whole}
            if number != at_fault:
                more = plain
            slices.append(resource_slice("n1", **{**more, **(fault if number == at_fault else {})}))
            slices[-1]["metadata"]["name"] = f"n1-{number}"
        other = resource_slice("n2", [dra_device("other")])
        result = run(*slices, other, ONE)
        assert devices_of(result["allocations"][0]) == ["other"]
        assert result["findings"]
        every = resource_claim("all", exactly("r", "gpu", allocationMode="All"))
        assert run(*slices, other, every, node="n1")["outcome"] == "infeasible"


class TestNodes:
    def test_a_device_for_all_nodes_needs_no_selector(self) -> None:
        network = resource_slice("net", [dra_device("d")], nodeName=None, allNodes=True)
        result = run(network, node("n1"), node("n2"), ONE)
        assert result["node"] == "n1"
        assert "nodeSelector" not in result["allocations"][0]

    def test_devices_of_selected_nodes_carry_their_selector(self) -> None:
        expression = {"key": "rack", "operator": "In", "values": ["r2"]}
        selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        network = resource_slice("net", [dra_device("d")], nodeName=None, nodeSelector=selector)
        result = run(network, node("n1", rack="r1"), node("n2", rack="r2"), ONE)
        assert result["node"] == "n2"
        assert result["allocations"][0]["nodeSelector"] == selector

    def test_selectors_of_several_devices_hold_all_at_once(self) -> None:
        """Merged as in Kubernetes, so that pods which share the claim may be on other nodes."""
        racks, fast = (
            {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
            for key, values in (("rack", ["r1", "r2"]), ("net", ["fast"]))
        )
        network = [
            dra_device("a", nodeSelector={"nodeSelectorTerms": [racks]}),
            dra_device("b", nodeSelector={"nodeSelectorTerms": [fast]}),
            dra_device("c", nodeSelector={"nodeSelectorTerms": [fast]}),
        ]
        result = run(
            resource_slice("net", network, nodeName=None, perDeviceNodeSelection=True),
            node("n1", rack="r1"),
            node("n2", rack="r2", net="fast"),
            resource_claim("c", exactly("r", "gpu", count=3)),
        )
        assert result["node"] == "n2"
        [term] = result["allocations"][0]["nodeSelector"]["nodeSelectorTerms"]
        assert term == {"matchExpressions": [*racks["matchExpressions"], *fast["matchExpressions"]]}

    def test_each_device_may_say_its_node(self) -> None:
        mixed = [dra_device("a", nodeName="n2"), dra_device("b", allNodes=True)]
        network = resource_slice("net", mixed, nodeName=None, perDeviceNodeSelection=True)
        assert given_devices(network, node("n1"), ONE, node="n1") == [["b"]]
        assert given_devices(network, node("n1"), ONE, node="n2") == [["a"]]

    def test_a_pod_s_selector_and_affinity_count(self) -> None:
        slices = [resource_slice(name, [dra_device("d")]) for name in ("n1", "n2", "n3")]
        nodes = [node("n1", zone="a"), node("n2", zone="b"), node("n3", zone="b")]
        wanted = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
        required = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}
        }
        picky = pod("p", "c", nodeSelector={"zone": "b"}, affinity={"nodeAffinity": required})
        assert run(*slices, *nodes, ONE, picky)["node"] == "n3"

    def test_pods_that_share_a_claim_on_different_nodes_are_refused(self) -> None:
        slices = [resource_slice(name, [dra_device("d")]) for name in ("n1", "n2")]
        pods = [pod("a", "c", nodeName="n1"), pod("b", "c", nodeName="n2")]
        with pytest.raises(InvalidInput, match=r"Pod default/b: it must run on n2, but shares"):
            run(*slices, ONE, *pods)

    def test_such_pods_stop_no_others_where_refusals_are_told(self) -> None:
        slices = resource_slice("n1", [dra_device("a"), dra_device("b")])
        apart = [pod(name, "c", nodeName=node) for name, node in (("p", "n1"), ("q", "n2"))]
        fine = resource_claim("fine", exactly("r", "gpu"))
        result = run(slices, ONE, fine, *apart, pod("s", "fine"), on_error="report")
        assert result["pods"] == [
            {"namespace": "default", "name": "s", "node": "n1", "message": None}
        ]
        assert [refusal["name"] for refusal in result["refused"]] == ["p", "q"]

    def test_pods_that_ended_or_ask_for_nothing_are_passed_over(self) -> None:
        ended = {**pod("ended", "c"), "status": {"phase": "Succeeded"}}
        strange = pod("strange", affinity={"nodeAffinity": "anywhere"})
        result = run(resource_slice("n1", [dra_device("d")]), ONE, ended, strange)
        assert (result["outcome"], result["pods"]) == ("allocated", [])

    def test_a_claim_that_is_being_deleted_gets_nothing(self) -> None:
        going = copy.deepcopy(ONE)
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        slices = resource_slice("n1", [dra_device("d")])
        assert run(slices, going)["allocations"] == []
        with pytest.raises(InvalidInput, match="ResourceClaim default/c is being deleted"):
            run(slices, going, pod("p", "c"))


class TestTaints:
    TAINT: t.ClassVar[Json] = {"key": "broken", "value": "yes", "effect": "NoSchedule"}

    def test_a_tainted_device_is_for_those_who_tolerate_it(self) -> None:
        slices = resource_slice("n1", [dra_device("d", taints=[self.TAINT])])
        result = run(slices, ONE)
        assert reasons(result) == ["taint broken=yes:NoSchedule is not tolerated"]
        tolerant = exactly("r", "gpu", tolerations=[{"key": "broken", "operator": "Exists"}])
        result = run(slices, resource_claim("c", tolerant))
        [one] = result["allocations"][0]["devices"]["results"]
        assert one["tolerations"] == [{"key": "broken", "operator": "Exists"}]

    def test_an_effect_of_none_keeps_nobody_away(self) -> None:
        slices = resource_slice("n1", [dra_device("d", taints=[{**self.TAINT, "effect": "None"}])])
        assert given_devices(slices, ONE) == [["d"]]

    @pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
    def test_a_rule_taints_the_devices_that_it_selects(self, version: str) -> None:
        rule = manifest(
            f"resource.k8s.io/{version}",
            "DeviceTaintRule",
            "rule",
            {"deviceSelector": {"driver": DRIVER, "device": "a"}, "taint": self.TAINT},
        )
        slices = resource_slice("n1", [dra_device("a"), dra_device("b")])
        assert given_devices(slices, rule, ONE) == [["b"]]

    def test_a_rule_that_cannot_be_read_keeps_the_devices_that_it_may_mean(self) -> None:
        spec = {"deviceSelector": {"pool": "n1", "deviceClassName": "gpu"}, "taint": self.TAINT}
        rule = manifest(DRA, "DeviceTaintRule", "rule", spec)
        pools = [resource_slice(name, [dra_device("a")]) for name in ("n1", "n2")]
        result = run(*pools, rule, ONE)
        assert result["node"] == "n2"
        assert [one["field"] for one in result["findings"]] == [
            "spec.deviceSelector.deviceClassName"
        ]


class TestExistingAllocations:
    def held(self, device: str, **more: t.Any) -> Json:
        claim = resource_claim("held", exactly("r", "gpu"))
        result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": device, **more}
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
        return claim

    def test_what_somebody_has_is_not_given_again(self) -> None:
        slices = resource_slice("n1", [dra_device("a"), dra_device("b")])
        assert given_devices(slices, self.held("a"), ONE) == [["b"]]
        assert given_devices(slices, self.held("a", adminAccess=True), ONE) == [["a"]]
        assert given_devices(slices, self.held("gone"), ONE) == [["a"]]

    def test_what_is_consumed_is_not_there(self) -> None:
        shared = dra_device("a", allowMultipleAllocations=True, capacity={"m": {"value": "10Gi"}})
        slices = resource_slice("n1", [shared])
        held = self.held("a", shareID="x", consumedCapacity={"m": "4Gi"})
        for wanted, result in (("6Gi", [["a"]]), ("7Gi", [[]])):
            claim = resource_claim("c", exactly("r", "gpu", capacity={"requests": {"m": wanted}}))
            assert given_devices(slices, held, claim) == result

    def test_overdrawn_counters_are_told_and_give_nothing_more(self) -> None:
        consumed = [{"counterSet": "s", "counters": {"m": {"value": "6"}}}]
        devices = [dra_device(name, consumesCounters=consumed) for name in "ab"]
        counters = [{"name": "s", "counters": {"m": {"value": "5"}}}]
        slices = resource_slice("n1", [*devices, dra_device("c")], sharedCounters=counters)
        result = run(slices, self.held("a"), ONE)
        assert devices_of(result["allocations"][0]) == ["c"]
        assert [found["field"] for found in result["findings"]] == ["spec.sharedCounters.s.m"]

    def test_a_pod_goes_where_its_claim_is_already(self) -> None:
        slices = [resource_slice(name, [dra_device("a"), dra_device("b")]) for name in ("n0", "n1")]
        held = self.held("a")
        expression = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
        held["status"]["allocation"]["nodeSelector"] = {
            "nodeSelectorTerms": [{"matchFields": [expression]}]
        }
        assert run(*slices, held, ONE, pod("p", "held", "c"))["node"] == "n1"


class TestRequests:
    def test_the_first_alternative_that_can_be_had_is_taken(self) -> None:
        ways = [
            {"name": "large", "deviceClassName": "gpu", "count": 3},
            {"name": "small", "deviceClassName": "gpu"},
        ]
        claim = resource_claim("c", {"name": "r", "firstAvailable": ways})
        result = run(resource_slice("n1", [dra_device("a"), dra_device("b")]), claim)
        [one] = result["allocations"][0]["devices"]["results"]
        assert (one["request"], one["device"]) == ("r/small", "a")

    def test_configurations_of_class_and_claim_are_handed_on(self) -> None:
        opaque = {"driver": DRIVER, "parameters": {"fast": True}}
        with_config = dra_class("configured", "true", config=[{"opaque": opaque}])
        config = [{"opaque": opaque, "requests": ["r"]}, {"opaque": opaque, "requests": ["other"]}]
        claim = resource_claim(
            "c", exactly("r", "configured"), exactly("q", "gpu"), config=config[:1]
        )
        slices = resource_slice("n1", [dra_device("a"), dra_device("b")])
        [allocation] = run(slices, with_config, claim)["allocations"]
        assert allocation["devices"]["config"] == [
            {"source": "FromClass", "requests": ["r"], "opaque": opaque},
            {"source": "FromClaim", "requests": ["r"], "opaque": opaque},
        ]

    def test_a_template_makes_a_claim_for_each_pod(self) -> None:
        template = manifest(
            DRA, "ResourceClaimTemplate", "t", {"spec": ONE["spec"]}, namespace="default"
        )
        named = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
        pods = [
            manifest("v1", "Pod", name, {"resourceClaims": named}, namespace="default")
            for name in ("p", "q")
        ]
        slices = resource_slice("n1", [dra_device("a"), dra_device("b")])
        result = run(slices, template, *pods)
        assert [claim["name"] for claim in result["claims"]] == ["p-gpu", "q-gpu"]
        assert [devices_of(found) for found in result["allocations"]] == [["a"], ["b"]]

    def test_the_claim_that_was_made_from_a_template_stands_for_it(self) -> None:
        named = [{"name": name, "resourceClaimTemplateName": "t"} for name in ("gpu", "none")]
        asking = manifest("v1", "Pod", "p", {"resourceClaims": named}, namespace="default")
        made = [{"name": "gpu", "resourceClaimName": "c"}, {"name": "none"}]
        asking["status"] = {"resourceClaimStatuses": made}
        result = run(resource_slice("n1", [dra_device("a")]), ONE, asking)
        assert [claim["name"] for claim in result["claims"]] == ["c"]
        assert [devices_of(found) for found in result["allocations"]] == [["a"]]

    def test_a_claim_has_32_devices_at_the_most(self) -> None:
        slices = resource_slice("n1", [dra_device(f"d{n}") for n in range(40)])
        every = resource_claim("c", exactly("r", "gpu", allocationMode="All"))
        assert given_devices(slices, every) == [[]]

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"count": 0}, "count: 0 is not a number of devices from 1"),
            ({"count": -1}, "count: -1 is not a number"),
            ({"count": 33}, "33 devices are requested; a claim can have at most 32"),
            ({"count": 1, "allocationMode": "All"}, "is not allowed with allocationMode All"),
            ({"allocationMode": "Some"}, "unsupported mode 'Some'"),
            ({"deviceClassName": "absent"}, "there is no DeviceClass 'absent'"),
            ({"derivedFrom": "x"}, "exactly.derivedFrom: unsupported"),
            ({"capacity": {"limits": {}}}, "capacity.limits: unsupported"),
            ({"capacity": {"requests": {"m": "-1"}}}, "'-1' is negative"),
            ({"tolerations": [{"key": "k"}] * 17}, "17 entries; the API allows 16"),
            (
                {"selectors": [{"cel": {"expression": "true"}}] * 33},
                "33 entries; the API allows 32",
            ),
            ({"selectors": [{"label": {}}]}, "selectors[0].label: unsupported"),
        ],
    )
    def test_a_request_that_the_api_does_not_allow_is_refused(
        self, change: Json, reason: str
    ) -> None:
        with pytest.raises(InvalidInput) as caught:
            run(resource_claim("c", exactly("r", change.pop("deviceClassName", "gpu"), **change)))
        assert "ResourceClaim default/c: spec.devices.requests" in str(caught.value)
        assert reason in str(caught.value)

    @pytest.mark.parametrize(
        ("devices", "reason"),
        [
            ({"requests": [exactly(f"r{n}", "gpu") for n in range(33)]}, "requests: 33 entries"),
            ({"requests": [exactly("r", "gpu")] * 2}, "two requests have the same name"),
            ({"requests": [{"name": "r"}]}, "write either exactly or firstAvailable"),
            (
                {"requests": [{"name": "r", "firstAvailable": [{"name": "w"}] * 9}]},
                "firstAvailable: 9 entries; the API allows 8",
            ),
            ({"constraints": [{"matchAttribute": "a/b"}] * 33}, "constraints: 33 entries"),
            ({"constraints": [{"matchAttribute": "b"}]}, "'b' lacks its domain"),
            ({"constraints": [{"equals": "a/b"}]}, "constraints[0].equals: unsupported"),
            (
                {"constraints": [{"matchAttribute": "a/b", "requests": ["x"]}]},
                "there is no request ['x']",
            ),
            ({"sharing": True}, "spec.devices.sharing: unsupported"),
        ],
    )
    def test_a_claim_that_the_api_does_not_allow_is_refused(
        self, devices: Json, reason: str
    ) -> None:
        claim = copy.deepcopy(ONE)
        claim["spec"]["devices"].update(devices)
        with pytest.raises(InvalidInput) as caught:
            run(claim)
        assert reason in str(caught.value)

    def test_one_bad_claim_need_not_stop_the_others(self) -> None:
        bad = resource_claim("bad", exactly("r", "gpu", count=0))
        result = run(resource_slice("n1", [dra_device("a")]), bad, ONE, on_error="report")
        assert [devices_of(found) for found in result["allocations"]] == [["a"]]
        [refused] = result["refused"]
        assert (refused["kind"], refused["name"]) == ("ResourceClaim", "bad")
        assert "count: 0 is not a number" in refused["reason"]


class TestExtendedResources:
    """KEP-5004: a DeviceClass represents a resource that containers request in the classic way."""

    @staticmethod
    def pod(first: list[Json], *requests: Json, **status: t.Any) -> Json:
        """A pod with a container for each of ``requests``, after init containers."""
        containers = [
            {"name": f"c{number}", "resources": {"requests": each}}
            for number, each in enumerate(requests)
        ]
        spec = {"initContainers": first, "containers": containers}
        return {**manifest("v1", "Pod", "p", spec, namespace="default"), "status": status}

    @staticmethod
    def run(*objects: Json, resource: str = "example.com/gpu") -> Json:
        named = dra_class("named", f"device.driver == '{DRIVER}'", extendedResourceName=resource)
        devices = [dra_device(name) for name in "abcd"]
        return run(resource_slice("n1", devices), named, *objects)

    def test_each_container_has_a_request_of_one_claim(self) -> None:
        requests = [{"cpu": "1", "example.com/gpu": "2"}, {"example.com/gpu": "1"}]
        result = self.run(self.pod([], *requests))
        [claim], [allocation] = result["claims"], result["allocations"]
        assert (claim["name"], claim["node"]) == ("p-extended-resources", "n1")
        given = [(one["request"], one["device"]) for one in allocation["devices"]["results"]]
        assert given == [
            ("container-0-request-1", "a"),
            ("container-0-request-1", "b"),
            ("container-1-request-0", "c"),
        ]

    def test_every_class_stands_for_a_resource_of_its_own_name(self) -> None:
        result = self.run(self.pod([], {"deviceclass.resource.kubernetes.io/gpu": "1"}))
        assert devices_of(result["allocations"][0]) == ["a"]
        with pytest.raises(InvalidInput, match="there is no DeviceClass 'other'"):
            self.run(self.pod([], {"deviceclass.resource.kubernetes.io/other": "1"}))

    def test_init_containers_use_the_devices_of_those_that_come_after(self) -> None:
        first = [
            {"name": name, "resources": {"limits": {"example.com/gpu": count}}, **more}
            for name, count, more in [
                ("large", "3", {}),
                ("sidecar", "1", {"restartPolicy": "Always"}),
                ("small", "1", {}),
            ]
        ]
        result = self.run(self.pod(first, {"example.com/gpu": "1"}))
        [allocation] = result["allocations"]
        names = [one["request"] for one in allocation["devices"]["results"]]
        assert names == [f"container-{number}-request-0" for number in (0, 1, 3)]

    def test_what_a_node_offers_itself_needs_no_claim(self) -> None:
        offering = {**node("n2"), "status": {"allocatable": {"example.com/gpu": "4"}}}
        assert self.run(self.pod([], {"example.com/gpu": "1"}), offering)["claims"] == []

    def test_the_youngest_of_several_classes_counts(self) -> None:
        wrong = dra_class("a", "false", extendedResourceName="example.com/gpu")
        old = {**wrong, "metadata": {"name": "z", "creationTimestamp": None}}
        asking = self.pod([], {"example.com/gpu": "1"})
        assert devices_of(self.run(old, asking)["allocations"][0]) == ["a"]
        young = {**wrong, "metadata": {"name": "z", "creationTimestamp": "2026-01-01T00:00:00Z"}}
        assert self.run(young, asking)["allocations"] == [None]
        assert self.run(wrong, asking)["allocations"] == [None]

    def test_the_claim_that_kubernetes_made_is_the_pods(self) -> None:
        made = {"resourceClaimName": "c", "requestMappings": []}
        pod = self.pod([], {"example.com/gpu": "1"}, extendedResourceClaimStatus=made)
        assert [claim["name"] for claim in self.run(ONE, pod)["claims"]] == ["c"]

    def test_half_a_device_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="500m of example.com/gpu is not a whole number"):
            self.run(self.pod([], {"example.com/gpu": "500m"}))


class TestObjects:
    def test_another_version_is_not_guessed_at(self) -> None:
        claim = {**ONE, "apiVersion": "resource.k8s.io/v1beta1"}
        with pytest.raises(InvalidInput, match="write resource.k8s.io/v1"):
            run(claim)

    def test_of_two_apis_one_has_to_be_named(self) -> None:
        objects = [resource_slice("n1", [dra_device("a")]), ONE]
        pool = device_pool("pool", "n2", "gpu", count=1)
        objects += [pool, device_claim("other", driver="gpu", minDeviceCount=1)]
        with pytest.raises(
            InvalidInput, match="these belong to .* and .*; select one of them with api_group"
        ):
            run(*objects)
        nodes = [
            [one["node"] for one in run(*objects, api_group=group)["claims"]]
            for group in ("resource.k8s.io", "devmgmtproto.k8s.io")
        ]
        assert nodes == [["n1"], ["n2"]]

    def test_an_api_of_which_nothing_is_given_is_refused(self) -> None:
        with pytest.raises(
            InvalidInput, match="none belongs to devmgmtproto.k8s.io, which api_group"
        ):
            run(ONE, api_group="devmgmtproto.k8s.io")

    def test_objects_of_neither_api_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="these belong to neither"):
            allocate({"objects": [node("n1")]})

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"time_limit": 0}, "time_limit: 0.* must be greater than 0 seconds"),
            ({"time_limit": float("inf")}, "time_limit: inf is not allowed"),
            ({"seed": -1}, "seed: -1 is not allowed"),
            ({"seed": 1 << 31}, "seed: 2147483648 .* at most 2147483647"),
        ],
    )
    def test_limits_that_are_none_are_refused(self, options: dict[str, t.Any], words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            run(ONE, **options)

    def test_what_other_pods_get_is_not_there(self) -> None:
        slices = resource_slice("n1", [dra_device("a")])
        claims = [resource_claim(name, exactly("r", "gpu")) for name in ("c", "d")]
        result = run(slices, *claims, pod("first", "c"), pod("second", "d"))
        assert [one["node"] for one in result["pods"]] == ["n1", None]
        assert [node["score"] for node in result["node_results"]] == [100, 0]
        assert reasons(result) == ["no available devices"]

    def test_a_pod_without_devices_is_told_what_the_nodes_lack(self) -> None:
        slices = [resource_slice(name, [dra_device("a")]) for name in ("n1", "n2")]
        nodes = [node("n1"), node("n2"), node("n3", disk="ssd")]
        asks = resource_claim("c", exactly("r", "gpu", count=2))
        chooses = pod("p", "c", nodeSelector={"disk": "ssd"})
        (free,) = run(*nodes, *slices, asks, pod("p", "c"))["pods"]
        (bound,) = run(*nodes, *slices, asks, chooses)["pods"]
        assert free["message"] == (
            "0/3 nodes are available: 2 c: unable to satisfy 1 of 2 device requests, 1 c: no pool."
        )
        assert bound["message"] == (
            "0/3 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, "
            "1 c: no pool."
        )

    def test_a_snapshot_is_read_as_a_whole(self, tmp_path: Path) -> None:
        objects = [GPU, resource_slice("n1", [dra_device("a")]), ONE]
        path = str(tmp_path / "snapshot.json")
        body = {
            "cluster": {},
            "nodes": [node("n1")],
            "pods": [pod("p", "c")],
            "device_objects": objects,
        }
        documents.write(path, "snapshot", body)
        result = allocate({"snapshot": path})
        assert (result["outcome"], result["node"]) == ("allocated", "n1")

    def test_a_cluster_without_any_device_has_nothing_to_allocate(self, tmp_path: Path) -> None:
        path = str(tmp_path / "snapshot.json")
        documents.write(path, "snapshot", {"cluster": {}, "nodes": [], "device_objects": []})
        result = allocate({"snapshot": path})
        assert (result["outcome"], result["allocations"]) == ("allocated", [])
