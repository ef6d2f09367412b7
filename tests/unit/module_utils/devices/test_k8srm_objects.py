# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of the prototype that are wrong are refused with place and reason."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from lab.device_shapes import device_pools
from support.device_objects import (
    PROTOTYPE,
    attributes,
    device_claim,
    device_class,
    device_pool,
    manifest,
    pod,
)

Json = dict[str, t.Any]
POOL = device_pool("p", "n1", "d", count=2, attributes=attributes(model="m"))
CLAIM = device_claim("c", driver="d")


def refusal(*objects: Json) -> str:
    with pytest.raises(InvalidInput) as caught:
        allocate({"objects": list(objects)})
    return str(caught.value)


def driver(name: str, *types: str) -> Json:
    found = manifest(PROTOTYPE, "DeviceDriver", name, {})
    return {**found, "deviceTypes": list(types)}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"deviceClass": "absent"}, "spec.deviceClass: there is no DeviceClass 'absent'"),
        ({"deviceClass": "clas"}, "probably class is meant"),
        ({"driver": "absent"}, "spec.driver: no DeviceDriver 'absent' is registered"),
        ({"deviceType": "absent"}, "no DeviceDriver handles the type 'absent'"),
        ({"driver": "d", "minDeviceCount": 0}, "0 is not a number from 1"),
        ({"driver": "d", "minDeviceCount": -1}, "-1 is not a number from 1"),
        ({"driver": "d", "minDeviceCount": 3, "maxDeviceCount": 2}, "from 3 to 2 devices"),
        ({"driver": "d", "constraint": "true"}, "probably constraints is meant"),
        ({"driver": "d", "constraints": "device.a = 1"}, "for equality write =="),
        ({"driver": "d", "constraints": 5}, "a CEL expression is text"),
        ({"driver": "d", "matchAttributes": "numa"}, "must be a list of the names"),
        ({"driver": "d", "requests": {"memory": "much"}}, "is not a Kubernetes quantity"),
        ({"driver": "d", "requests": [{"resource": "a"}]}, "write resource, and counter"),
        (
            {"driver": "d", "requests": [{"resource": "a", "accessMode": {"request": "x"}}]},
            "write one of ReadOnlyShared, ReadWriteShared",
        ),
        ({"oneOf": []}, "nothing is requested"),
        ({"claims": []}, "nothing is requested"),
    ],
)
def test_a_claim_is_refused(spec: Json, reason: str) -> None:
    known = [driver("d", "gpu"), device_class("class", driver="d")]
    text = refusal(POOL, *known, device_claim("c", **spec))
    assert text.startswith("DeviceClaim default/c: spec")
    assert reason in text


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"driver": None}, "spec.driver: the driver is missing"),
        ({"count": "2"}, "'2' is not a number of devices"),
        ({"count": 3, "devices": [{"name": "a"}]}, "it is 3, but 1 devices are listed"),
        ({"devices": [{"name": "a"}, {"name": "a"}]}, "'a' is also the name of another device"),
        ({"devices": [{}]}, "spec.devices[0].name: the name is missing"),
        ({"devices": [{"name": "a", "atributes": []}]}, "probably attributes is meant"),
        ({"count": 1, "attributes": [{"name": "x", "floatValue": 1.5}]}, "no such type"),
        ({"count": 1, "attributes": [{"name": "x", "intValue": "1"}]}, "'1' is not of this type"),
        ({"count": 1, "attributes": [{"name": "x"}]}, "an attribute has exactly one value"),
        ({"count": 1, "attributes": [{"name": "x", "semVerValue": "v1"}]}, "not a semantic"),
        (
            {
                "resources": [{"name": "m", "capacity": 1}],
                "devices": [{"name": "a", "requests": {"m": 2}}],
            },
            "2 is more than the pool has",
        ),
        ({"count": 1, "resources": [{"name": "m", "capacity": 1}] * 2}, "is listed twice"),
        ({"count": 1, "nodename": "n"}, "probably nodeName is meant"),
    ],
)
def test_a_pool_is_refused(spec: Json, reason: str) -> None:
    pool = device_pool(
        "p", "n1", "d", **{key: value for key, value in spec.items() if key != "driver"}
    )
    if "driver" in spec:
        del pool["spec"]["driver"]
    text = refusal(pool, CLAIM)
    assert text.startswith("DevicePool p: spec")
    assert reason in text


def test_meta_classes_that_select_each_other_are_refused() -> None:
    classes = [
        device_class("one", {"is": "one"}, selector={"matchLabels": {"is": "two"}}),
        device_class("two", {"is": "two"}, selector={"matchLabels": {"is": "one"}}),
    ]
    text = refusal(POOL, *classes, device_claim("c", deviceClass="one"))
    assert "meta classes select each other in a cycle: one → two → one" in text


def test_a_status_with_devices_that_are_not_there_is_refused() -> None:
    for allocation, reason in (
        ({"devicePoolName": "p", "deviceCount": 3}, "it has 3 devices of pool 'p'"),
        ({"devicePoolName": "x", "deviceName": "a"}, "pool 'x' has no device a"),
    ):
        held = {**device_claim("held", driver="d"), "status": {"allocations": [allocation]}}
        assert reason in refusal(POOL, held, CLAIM)


def test_a_pod_s_unknown_claim_is_refused() -> None:
    asking = pod("my-pod", [{"name": "gpu", "claimName": "absent"}])
    assert "there is no DeviceClaim 'absent'" in refusal(POOL, asking)


def test_what_claims_have_is_not_given_again() -> None:
    status = {"allocations": [{"devicePoolName": "p", "deviceCount": 1}]}
    held = {**device_claim("held", driver="d"), "status": status}
    result = allocate({"objects": [POOL, held, CLAIM]})
    assert [claim["name"] for claim in result["claims"]] == ["c"]
    assert result["outcome"] == "allocated"
    two = device_claim("two", driver="d", minDeviceCount=2)
    assert allocate({"objects": [POOL, held, two]})["outcome"] == "infeasible"


def test_a_pool_without_a_node_can_be_used_from_every_node() -> None:
    """Upstream never considers such pools."""
    network = device_pool("net", None, "fabric", count=1)
    claim = device_claim("c", driver="fabric")
    result = allocate({"objects": [POOL, network, claim]})
    assert (result["outcome"], result["node"]) == ("allocated", "n1")


def test_a_privileged_claim_sees_all_devices_and_takes_none() -> None:
    privileged = manifest(
        PROTOTYPE, "DevicePrivilegedClaim", "watch", {"driver": "d"}, namespace="default"
    )
    two = device_claim("two", driver="d", minDeviceCount=2)
    result = allocate({"objects": [POOL, two, privileged]})
    assert [found["allocations"][0]["deviceCount"] for found in result["allocations"]] == [2, 2]


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ("device.v == '1.2.3'", "allocated"),
        ("device['v'] == '1.2.3'", "allocated"),
        ("'1.2.3' == device.v", "allocated"),
        ("device.v != '1.2.4'", "allocated"),
        ("device.v in ['1.2.3', '2.0.0']", "allocated"),
        ("device.v.startsWith('1.2.')", "allocated"),
        ("device.v >= '1.2.0' && device.v < '1.3.0'", "allocated"),
        ("device.exists(name, device[name] == '1.2.3')", "allocated"),
        ("device.v == '1.2.4'", "infeasible"),
        ("device.v == semver('1.2.3')", "allocated"),
        ("device.v.isLessThan(semver('1.10.0'))", "allocated"),
        ("device.v.minor() == 2", "allocated"),
    ],
)
def test_a_version_is_a_text_unless_functions_of_versions_are_called(
    rule: str, outcome: str
) -> None:
    version = [{"name": "v", "semVerValue": "1.2.3"}]
    pool = device_pool("p", "n1", "d", count=1, attributes=version)
    claim = device_claim("c", driver="d", constraints=rule)
    assert allocate({"objects": [pool, claim]})["outcome"] == outcome


def test_versions_of_the_lab_s_devices_are_compared_as_in_the_prototype() -> None:
    rule = "device.firmwareVersion == '4.2.1-gen3' && device.driverVersion == '1.8.2'"
    claim = device_claim("c", driver="example.com-foozer", constraints=rule)
    pools = device_pools("zero", 1)
    values = [item for item in pools[0]["spec"]["attributes"] if "semVerValue" in item]
    assert [item["name"] for item in values] == ["firmwareVersion", "driverVersion"]
    assert allocate({"objects": [*pools, claim]})["outcome"] == "allocated"


def test_deviation_devices_without_a_matched_attribute_do_not_match() -> None:
    pool = device_pool("p", "n1", "d", count=1)
    claim = device_claim("c", driver="d", attributeMatches=["missing"])
    assert allocate({"objects": [pool, claim]})["outcome"] == "infeasible"


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("device.text", "it gives 'x', which is neither true nor false"),
        ("device.number", "it gives 3, which is neither true nor false"),
        ("device.version", "it gives '1.2.3', which is neither true nor false"),
        ("device.size", "unsupported conversion to ref.Val: (resource.Quantity)"),
        ("device.number < 'x'", "No matching overloads found : _<_(int64, string)"),
        ("device.missing == 'x'", 'Key not found in map : "missing"'),
    ],
)
def test_a_selector_of_another_type_has_its_reason(rule: str, reason: str) -> None:
    values = [
        {"name": "text", "stringValue": "x"},
        {"name": "number", "intValue": 3},
        {"name": "version", "semVerValue": "1.2.3"},
        {"name": "size", "quantityValue": "1Gi"},
    ]
    pool = device_pool("p", "n1", "d", count=1, attributes=values)
    claim = device_claim("c", driver="d", constraints=rule)
    [result] = allocate({"objects": [pool, claim]})["node_results"]
    [ignored] = result["DeviceClaimResults"][0]["ignoredPools"]
    assert ignored["failureReason"].startswith(f"error evaluating constraints: {reason}")
