# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases of Kubernetes' structured allocator: large amounts, every device, shares, errors."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.node_model import (
    Term,
    add_at_least,
    add_at_most,
)
from support.device_objects import (
    Json,
    device_claim,
    device_pool,
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)
from support.examples import each_seed

STRATEGIES = ["optimal", "first_fit"]
CLASS = dra_class("gpu", 'device.driver == "gpu.example.com"')
RANK = 'device.attributes["gpu.example.com"].rank == 1'


def run(*objects: Json, **options: t.Any) -> Json:
    return allocate({"objects": [CLASS, *objects], **options})


def names(allocation: Json | None) -> list[str]:
    return [one["device"] for one in allocation["devices"]["results"]] if allocation else []


def given(result: Json) -> list[list[str]]:
    return [names(allocation) for allocation in result["allocations"]]


def held(device: str, **more: t.Any) -> Json:
    claim = resource_claim("held", exactly("r", "gpu"))
    one = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": device, **more}
    claim["status"] = {"allocation": {"devices": {"results": [one]}}}
    return claim


def at_least(model: t.Any, parts: list[Term], amount: int) -> None:
    add_at_least(model, parts, amount, 1)


class TestLargeAmounts:
    """More than 2^63 thousandths, singly or in total."""

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize(
        ("capacity", "amount", "fitting"),
        [
            ("9Pi", "3Pi", 3),
            ("8Ei", "1", 4),
            ("7Ei", "3Ei", 2),
            ("9223372036854775807", "3074457345618258602", 3),
            ("9223372036854775807", "3074457345618258603", 2),
            ("9007199254740993m", "3002399751580331m", 3),
            ("9007199254740992m", "3002399751580331m", 2),
            ("4Pi", "4Pi", 1),
            ("10E", "9E", 1),
            ("9E", "10E", 0),
            ("30E", "10E", 3),
            ("29999999999999999999", "10E", 2),
            ("900E", "300E", 3),
            # A binary amount is capped at 2^63 - 1.
            ("16Ei", "8Ei", 1),
            ("5000Ei", "9223372036854775807", 1),
            ("16Ei", "9223372036854775808", 0),
            ("0", "1Pi", 0),
        ],
    )
    def test_as_many_devices_are_given_as_the_counter_is_for(
        self, capacity: str, amount: str, fitting: int, strategy: str
    ) -> None:
        if capacity == "8Ei":
            capacity = "9223372036854775807"
        consumed = [{"counterSet": "s", "counters": {"m": {"value": amount}}}]
        devices = [dra_device(f"d{index}", consumesCounters=consumed) for index in range(4)]
        counters = [{"name": "s", "counters": {"m": {"value": capacity}}}]
        claims = [resource_claim(f"c{index}", exactly("r", "gpu")) for index in range(4)]
        result = run(
            resource_slice("n1", devices, sharedCounters=counters), *claims, strategy=strategy
        )
        assert sum(map(len, given(result))) == fitting
        assert result["outcome"] == ("allocated" if fitting == 4 else "infeasible")

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize(("wanted", "fitting"), [("3Pi", 3), ("4Pi", 2), ("10Pi", 0)])
    def test_a_large_capacity_is_shared(self, wanted: str, fitting: int, strategy: str) -> None:
        device = dra_device("d", allowMultipleAllocations=True, capacity={"m": {"value": "9Pi"}})
        asked = {"requests": {"m": wanted}}
        claims = [resource_claim(f"c{n}", exactly("r", "gpu", capacity=asked)) for n in range(4)]
        result = run(resource_slice("n1", [device]), *claims, strategy=strategy)
        assert sum(map(len, given(result))) == fitting
        assert result["outcome"] == "infeasible"

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize(
        ("capacity", "wanted", "selector", "fits"),
        [
            ("10E", "9E", "quantity('9E')", True),
            ("20E", "19E", "quantity('19500P')", True),
            ("10E", "11E", "quantity('9E')", False),
            ("10E", "9E", "quantity('11E')", False),
            ("16Ei", "9223372036854775807", "quantity('8Ei')", False),
        ],
    )
    def test_a_capacity_beyond_2_63_is_compared(
        self, capacity: str, wanted: str, selector: str, fits: bool, shared: bool, strategy: str
    ) -> None:
        device = dra_device(
            "d", allowMultipleAllocations=shared, capacity={"m": {"value": capacity}}
        )
        rule = f"device.capacity['gpu.example.com'].m.isGreaterThan({selector})"
        request = exactly(
            "r",
            "gpu",
            capacity={"requests": {"m": wanted}},
            selectors=[{"cel": {"expression": rule}}],
        )
        pool, claim = resource_slice("n1", [device]), resource_claim("c", request)
        assert sum(map(len, given(run(pool, claim, strategy=strategy)))) == fits

    def test_many_units_that_share_devices_together(self) -> None:
        """Cases that the quick search misses, so that the solver must find them."""
        amounts = ["2Pi", *["1Pi"] * 7]
        consumed = [
            [{"counterSet": "s", "counters": {"m": {"value": amount}, f"c{n}": {"value": "1"}}}]
            for n, amount in enumerate(amounts)
        ]
        devices = [dra_device(f"d{n}", consumesCounters=one) for n, one in enumerate(consumed)]
        own = {f"c{n}": {"value": "1"} for n in range(8)}
        counters = [{"name": "s", "counters": {"m": {"value": "7Pi"}, **own}}]
        claim = resource_claim("c", exactly("r", "gpu", count=7))
        for strategy in STRATEGIES:
            result = run(
                resource_slice("n1", devices, sharedCounters=counters), claim, strategy=strategy
            )
            assert given(result) == [[f"d{n}" for n in range(1, 8)]]

    def test_a_total_of_whole_devices_of_the_prototype(self) -> None:
        resources = [{"name": "memory", "capacity": "5Pi"}]
        devices = [{"name": f"d{n}", "resources": resources} for n in range(4)]
        pool = device_pool("pool", "n1", "gpu", devices=devices)
        for wanted, count in (("9Pi", 2), ("19Pi", 4)):
            claim = device_claim("c", driver="gpu", maxDevices=4, requests={"memory": wanted})
            result = allocate({"objects": [pool, claim]})
            assert len(result["allocations"][0]["allocations"]) == count

    def test_a_share_that_is_too_large_is_named(self) -> None:
        resources = [{"name": "memory", "capacity": "7Ei"}]
        pool = device_pool("p", "n1", "gpu", devices=[{"name": "d", "resources": resources}])
        claim = device_claim("c", driver="gpu", allowShared=True, requests={"memory": "6Ei"})
        with pytest.raises(InvalidInput, match=r"requests.memory: 6Ei is too large"):
            allocate({"objects": [pool, claim]})

    @each_seed(15)
    def test_sums_are_exact_whatever_the_amounts(self, seed: int) -> None:
        import random

        from ortools.sat.python import cp_model

        source = random.Random(seed)
        unit = source.choice([1, 1000, 2**50, 3**40])
        # Amounts are below 10^21 units, which is less than 2^80 thousandths.
        amounts = [
            min(2**80 - 1, source.randrange(1, 2 ** source.choice([4, 30, 72, 79])) * unit)
            for _number in range(5)
        ]
        chosen = [source.random() < 0.5 for _amount in amounts]
        total = sum(amount for amount, one in zip(amounts, chosen, strict=True) if one)
        for limit in (total - 1, total, total + 1, source.randrange(sum(amounts))):
            for add, holds in (
                (add_at_most, total <= max(0, limit)),
                (at_least, total >= limit),
            ):
                model = cp_model.CpModel()
                variables = [model.new_bool_var("") for _amount in amounts]
                for variable, one in zip(variables, chosen, strict=True):
                    model.add(variable == one)
                parts = [Term(*pair) for pair in zip(amounts, variables, strict=True)]
                add(model, parts, limit)
                status = cp_model.CpSolver().solve(model)
                assert (status == cp_model.OPTIMAL) == holds


class TestEveryDevice:
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_one_that_could_never_have_the_capacity_does_not_count(self, strategy: str) -> None:
        devices = [
            dra_device("large", capacity={"m": {"value": "10Gi"}}),
            dra_device("small", capacity={"m": {"value": "1Gi"}}),
            dra_device("none"),
            dra_device("share", allowMultipleAllocations=True, capacity={"m": {"value": "8Gi"}}),
        ]
        asked = {"requests": {"m": "8Gi"}}
        every = resource_claim("c", exactly("r", "gpu", allocationMode="All", capacity=asked))
        assert given(run(resource_slice("n1", devices), every, strategy=strategy)) == [
            ["large", "share"]
        ]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("more", [{}, {"shareID": "x", "consumedCapacity": {"m": "1Gi"}}])
    def test_one_that_could_but_is_in_use_makes_it_fail(self, more: Json, strategy: str) -> None:
        shared = {"allowMultipleAllocations": True} if more else {}
        devices = [
            dra_device("a", capacity={"m": {"value": "8Gi"}}, **shared),
            dra_device("b", capacity={"m": {"value": "8Gi"}}),
        ]
        asked = {"requests": {"m": "8Gi"}}
        every = resource_claim("c", exactly("r", "gpu", allocationMode="All", capacity=asked))
        slices = resource_slice("n1", devices)
        assert given(run(slices, held("a", **more), every, strategy=strategy)) == [[]]
        assert given(run(slices, every, strategy=strategy)) == [["a", "b"]]


class TestShares:
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_what_is_held_without_a_share_is_held_whole(self, strategy: str) -> None:
        device = dra_device("a", allowMultipleAllocations=True, capacity={"m": {"value": "8Gi"}})
        asked = {"requests": {"m": "1Gi"}}
        claim = resource_claim("c", exactly("r", "gpu", capacity=asked))
        slices = resource_slice("n1", [device])
        assert given(run(slices, held("a"), claim, strategy=strategy)) == [[]]
        assert given(run(slices, held("a", shareID="x"), claim, strategy=strategy)) == [["a"]]
        assert given(run(slices, held("a", adminAccess=True), claim, strategy=strategy)) == [["a"]]


class TestErrors:
    """A selector that fails on a device matters only if a search meets this device."""

    GOOD, BAD = dra_device("good", attributes={"rank": 1}), dra_device("bad")

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_device_out_of_reach_does_not(self, strategy: str) -> None:
        slices = [resource_slice("n1", [self.GOOD]), resource_slice("n2", [self.BAD])]
        claim = resource_claim("c", exactly("r", "gpu", RANK))
        assert given(run(*slices, claim, strategy=strategy)) == [["good"]]
        assert given(run(*slices, claim, strategy=strategy, node="n1")) == [["good"]]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_device_in_use_does_not(self, strategy: str) -> None:
        slices = resource_slice("n1", [self.BAD, self.GOOD])
        claim = resource_claim("c", exactly("r", "gpu", RANK))
        assert given(run(slices, held("bad"), claim, strategy=strategy)) == [["good"]]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_device_after_the_answer_does_not(self, strategy: str) -> None:
        slices = resource_slice("n1", [self.GOOD, self.BAD])
        claim = resource_claim("c", exactly("r", "gpu", RANK))
        assert given(run(slices, claim, strategy=strategy)) == [["good"]]

    def test_a_device_before_the_answer_ends_the_search_of_first_fit(self) -> None:
        slices = resource_slice("n1", [self.BAD, self.GOOD])
        claim = resource_claim("c", exactly("r", "gpu", RANK))
        with pytest.raises(InvalidInput, match="rank == 1' fails on device .*/n1/bad: "):
            run(slices, claim, strategy="first_fit")
        assert given(run(slices, claim)) == [["good"]]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_whoever_wants_every_device_gets_none(self, strategy: str) -> None:
        slices = resource_slice("n1", [self.GOOD, self.BAD])
        other = resource_slice("n2", [self.GOOD])
        claim = resource_claim("c", exactly("r", "gpu", RANK, allocationMode="All"))
        result = run(slices, claim, strategy=strategy, on_error="report")
        assert given(result) == [[]]
        assert "fails on device gpu.example.com/n1/bad" in result["refused"][0]["reason"]
        assert given(run(slices, other, claim)) == [["good"]]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_others_get_theirs_and_pods_are_told(self, strategy: str) -> None:
        slices = resource_slice("n1", [self.BAD])
        claims = [
            resource_claim("failing", exactly("r", "gpu", RANK)),
            resource_claim("plain", exactly("r", "gpu")),
        ]
        pods = [
            manifest(
                "v1",
                "Pod",
                name,
                {"resourceClaims": [{"name": "c", "resourceClaimName": name}]},
                namespace="default",
            )
            for name in ("failing", "plain")
        ]
        result = run(slices, *claims, *pods, strategy=strategy, on_error="report")
        told = {one["name"]: one for one in result["pods"]}
        assert told["plain"]["node"] == "n1"
        assert "fails on device" in told["failing"]["message"]
        assert [one["name"] for one in result["refused"]] == ["failing"]
