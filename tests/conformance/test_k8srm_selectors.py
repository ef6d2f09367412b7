# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors as in the tests of the prototype and its successor, and as in Kubernetes."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.cel.functions import carried
from ansible_collections.wattwise.kube.plugins.module_utils.cel.selector import (
    Compiler,
    Evaluations,
    SelectorError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from ansible_collections.wattwise.kube.plugins.module_utils.devices.k8srm.pools import attributes_of
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.findings import (
    ApiObject,
    Field,
)
from support.device_objects import (
    attributes,
    device_claim,
    device_pool,
    dra_class,
    dra_device,
    exactly,
    resource_claim,
    resource_slice,
)

Json = dict[str, t.Any]


def flat(attributes_given: list[Json]) -> Json:
    pool = ApiObject(device_pool("p", "n", "d"))
    read = attributes_of(Field(pool, "spec.attributes", attributes_given))
    return {"device": {name: carried(value) for name, value in read.items()}}


VENDOR, OTHER_VENDOR = attributes(vendor="example.com"), attributes(vendor="example.org")
BOTH = "device.vendor == 'example.com' && device.model == 'foozer-1000'"


@pytest.mark.parametrize(
    ("constraints", "given", "succeeds"),
    [
        (None, VENDOR, True),
        ("", VENDOR, True),
        ("device.vendor == 'example.com'", VENDOR, True),
        ("device.vendor == 'example.com'", OTHER_VENDOR, False),
        (BOTH, attributes(vendor="example.com", model="foozer-1000"), True),
        (BOTH, attributes(vendor="example.org", model="foozer-1000"), False),
    ],
)
def test_a_constraint_of_the_prototype_is_met_or_not(
    constraints: str | None, given: list[Json], succeeds: bool
) -> None:
    pool = device_pool("p", "n", "d", count=1, attributes=given)
    result = allocate({"objects": [pool, device_claim("c", driver="d", constraints=constraints)]})
    assert (result["outcome"] == "allocated") is succeeds
    if not succeeds:
        [claim] = result["node_results"][0]["DeviceClaimResults"]
        assert claim["ignoredPools"][0]["failureReason"] == "constraints not met"


def test_a_quantity_compared_with_a_text_is_an_error_of_the_prototype_s_words() -> None:
    memory = [{"name": "memory", "quantityValue": "10Gi"}]
    claim = device_claim("c", driver="d", constraints="device.memory >= '10Gi'")
    pool = device_pool("p", "n", "d", count=1, attributes=memory)
    [node] = allocate({"objects": [pool, claim]})["node_results"]
    [ignored] = node["DeviceClaimResults"][0]["ignoredPools"]
    assert ignored["failureReason"].startswith("error evaluating constraints: ")
    assert "unsupported conversion to ref.Val: (resource.Quantity)" in ignored["failureReason"]


def test_quantities_of_the_prototype_are_compared_with_kubernetes_function() -> None:
    """Upstream has no way at all to request a quantity."""
    given = flat([{"name": "memory", "quantityValue": "10Gi"}])
    selector = Compiler("flat").compile(
        'device.memory.compareTo(quantity("10240Mi")) == 0 && '
        'device.memory.isGreaterThan(quantity("10G"))',
        "here",
    )
    assert selector.evaluate(given) is True


def evaluate(expression: str, variables: Json | None = None) -> bool | SelectorError:
    kubernetes = {
        "device.driver": "gpu.example.com",
        "device.attributes": {},
        "device.capacity": {},
        "device.allowMultipleAllocations": False,
    }
    selector = Compiler("dra").compile(expression, "here")
    return selector.evaluate({**kubernetes, **(variables or {})})


@pytest.mark.parametrize(
    "expression",
    [
        'semver("1.2.3") == semver("1.2.3")',
        'isSemver("1.2.3-beta.1+build.1")',
        '!isSemver("v1.0")',
        'semver("1.2.3") != semver("1.2.4")',
        'semver("1.2.3").isLessThan(semver("1.2.4"))',
        '!semver("1.2.3").isLessThan(semver("1.2.3"))',
        'semver("1.2.4").isGreaterThan(semver("1.2.3"))',
        '!semver("1.2.3").isGreaterThan(semver("1.2.3"))',
        'semver("1.2.3").compareTo(semver("1.2.4")) == -1',
        'semver("1.2.3").compareTo(semver("1.2.3")) == 0',
        'semver("1.2.3").compareTo(semver("1.2.2")) == 1',
        'semver("1.2.3").major() == 1',
        'semver("1.2.3").minor() == 2',
        'semver("1.2.3").patch() == 3',
        'semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))',
        'quantity("10Gi") == quantity("10240Mi")',
        'quantity("1k").asInteger() == 1000',
        '!quantity("500m").isInteger()',
        'quantity("500m").asApproximateFloat() == 0.5',
        'quantity("-2").sign() == -1',
        'quantity("1").add(quantity("500m")).compareTo(quantity("1500m")) == 0',
        'quantity("3").sub(1) == quantity("2")',
        'isQuantity("1.3G") && !isQuantity("1,3G")',
        "!device.allowMultipleAllocations",
        'device.driver.startsWith("gpu.") && "GPU".lowerAscii() == "gpu"',
        '!("other.example" in device.attributes)',
        "!has(device.attributes['other.example'].model)",
        "cel.bind(own, device.attributes['gpu.example.com'], !has(own.model))",
    ],
)
def test_kubernetes_functions_hold(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ('semver("v1.0").major() == 1', "No Major.Minor.Patch elements found"),
        ('quantity("ten").isInteger()', "is not a Kubernetes quantity"),
        ("device.attributes['gpu.example.com'].absent == 1", "absent"),
        ("device.attributes['gpu.example.com'].rank < 'b'", "No matching overload"),
        ("device.attributes['gpu.example.com'].rank.startsWith('b')", "No matching overload"),
        ("device.attributes['gpu.example.com'].version == '1.2.3'", "no such overload"),
        ("device.attributes['gpu.example.com'].version >= '1.2.3'", "No matching overload"),
    ],
)
def test_what_goes_wrong_is_an_error_and_not_false(expression: str, reason: str) -> None:
    own = {"rank": 1, "version": {"kubernetes.Semver": "1.2.3"}}
    answer = evaluate(expression, {"device.attributes": {"gpu.example.com": own}})
    assert isinstance(answer, SelectorError)
    assert reason in str(answer)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("isSemver([1, 2, 3])", "no matching overload"),
        ("device.driver == 3", "no matching overload"),
        ("device.absent == 'x'", "undeclared reference"),
        ("quantity('1') == '1'", "no matching overload"),
        ("device.capacity['a'].b.isLessThan(semver('1.2.3'))", "no matching overload"),
        ("device.driver = 'x'", "for equality write ==, as in \"device.driver == 'x'\""),
        ("device.driver", "a selector must return true or false"),
        ("device.driver == 'x' &&", "does not compile"),
        ("device.driver == '" + "x" * 10240 + "'", "Kubernetes allows 10240"),
        (
            "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, "
            "device.attributes.all(d, a == b || c == d))))",
            "Kubernetes allows 1000000: nest fewer loops",
        ),
    ],
)
def test_a_mistake_is_found_before_anything_is_evaluated(expression: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Compiler("dra").compile(expression, "claim c, request r")
    assert str(caught.value).startswith("claim c, request r: ")
    assert reason in str(caught.value)


def test_an_error_of_a_selector_names_claim_selector_and_device() -> None:
    objects = [
        resource_slice("n1", [dra_device("gpu-0", attributes={"model": "a100"})]),
        dra_class("gpu", "device.driver == 'gpu.example.com'"),
        resource_claim("c", exactly("r", "gpu", "device.attributes['gpu.example.com'].rank > 1")),
    ]
    with pytest.raises(
        InvalidInput,
        match=r"default/c: the selector .*rank > 1\" "
        r"fails on device gpu\.example\.com/n1/gpu-0: Key not found in map : \"rank\"",
    ):
        allocate({"objects": objects})


def test_a_request_s_selectors_are_asked_only_where_the_class_accepts() -> None:
    objects = [
        resource_slice("n1", [dra_device("gpu-0", attributes={"rank": 2})]),
        resource_slice("n2", [dra_device("nic-0")], driver="nic.example.com"),
        dra_class("gpu", "device.driver == 'gpu.example.com'"),
        resource_claim("c", exactly("r", "gpu", "device.attributes['gpu.example.com'].rank > 1")),
    ]
    assert allocate({"objects": objects})["outcome"] == "allocated"


def test_a_selector_is_evaluated_once_for_each_set_of_values_that_it_reads() -> None:
    selector = Compiler("dra").compile(
        "device.attributes['gpu.example.com'].model == 'a' && device.driver == 'd'", "here"
    )
    asked: list[Json] = []

    class Counting:
        def eval(self, data: Json) -> t.Any:
            asked.append(data)
            return selector.program.eval(data=data)

    devices = [
        {
            "device.driver": "d",
            "device.attributes": {
                "gpu.example.com": {"model": "ab"[number % 2], "serial": str(number)}
            },
        }
        for number in range(1000)
    ]
    answers = Evaluations(devices).of(dataclasses.replace(selector, program=Counting()))
    assert answers == [True, False] * 500
    assert len(asked) == 2
