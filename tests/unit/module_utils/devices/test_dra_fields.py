# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every field of resource.k8s.io/v1 is known to the allocator, or refused by its name.

The fields are those of the Kubernetes client, which follows Kubernetes. The refused ones are behind
feature gates that Kubernetes 1.37 disables by default.
"""

from __future__ import annotations

import typing as t

import pytest
from kubernetes import client

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from support.device_objects import (
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)

Json = dict[str, t.Any]
GPU = dra_class("gpu", "device.driver == 'gpu.example.com'")
# Wrong for every field, so that an object with it is never valid.
ODD = {"odd": ["value"]}


def in_slice(field: str) -> list[Json]:
    found = resource_slice("n1", [dra_device("d")])
    found["spec"][field] = ODD
    return [found]


def in_pool(field: str) -> list[Json]:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1, field: ODD}
    return [resource_slice("n1", [dra_device("d")], pool=pool)]


def in_device(field: str) -> list[Json]:
    return [resource_slice("n1", [{"name": "d", field: ODD}])]


def in_consumption(field: str) -> list[Json]:
    part = {"counterSet": "s", "counters": {}, field: ODD}
    return [resource_slice("n1", [dra_device("d", consumesCounters=[part])])]


def in_attribute(field: str) -> list[Json]:
    return [resource_slice("n1", [dra_device("d", attributes={"a": {field: ODD}})])]


def in_capacity(field: str) -> list[Json]:
    return [resource_slice("n1", [dra_device("d", capacity={"m": {"value": "1", field: ODD}})])]


def in_taint(field: str) -> list[Json]:
    taint = {"key": "k", "effect": "NoSchedule", field: ODD}
    return [resource_slice("n1", [dra_device("d", taints=[taint])])]


def in_rule(field: str) -> list[Json]:
    taint = {"key": "k", "effect": "NoSchedule"}
    selector = {"driver": "gpu.example.com"}
    spec = {"taint": taint, "deviceSelector": selector, field: ODD}
    return [manifest("resource.k8s.io/v1", "DeviceTaintRule", "rule", spec)]


def in_class(field: str) -> list[Json]:
    return [
        manifest("resource.k8s.io/v1", "DeviceClass", "odd", {field: ODD}),
        resource_claim("odd", exactly("r", "odd")),
    ]


def in_claim(field: str) -> list[Json]:
    return [resource_claim("odd", **{"requests": [exactly("r", "gpu")], field: ODD})]


def in_request(field: str) -> list[Json]:
    return [resource_claim("odd", {**exactly("r", "gpu"), field: ODD})]


def in_exact_request(field: str) -> list[Json]:
    return [resource_claim("odd", exactly("r", "gpu", **{field: ODD}))]


def in_alternative(field: str) -> list[Json]:
    one = {"name": "a", "deviceClassName": "gpu", field: ODD}
    return [resource_claim("odd", {"name": "r", "firstAvailable": [one]})]


def in_toleration(field: str) -> list[Json]:
    return [resource_claim("odd", exactly("r", "gpu", tolerations=[{"key": "k", field: ODD}]))]


def in_constraint(field: str) -> list[Json]:
    one = {"matchAttribute": "a/b", field: ODD}
    return [resource_claim("odd", exactly("r", "gpu"), constraints=[one])]


PLACES: list[tuple[t.Any, t.Callable[[str], list[Json]], set[str]]] = [
    (client.V1ResourceSliceSpec, in_slice, {"skipNodeOperations"}),
    (client.V1ResourcePool, in_pool, set()),
    (client.V1Device, in_device, {"nodeAllocatableResources"}),
    (client.V1DeviceCounterConsumption, in_consumption, {"compatibilityGroups"}),
    (client.V1DeviceAttribute, in_attribute, set()),
    (client.V1DeviceCapacity, in_capacity, set()),
    (client.V1DeviceTaint, in_taint, set()),
    (client.V1DeviceTaintRuleSpec, in_rule, set()),
    (client.V1DeviceClassSpec, in_class, set()),
    (client.V1DeviceClaim, in_claim, set()),
    (client.V1DeviceRequest, in_request, set()),
    (client.V1ExactDeviceRequest, in_exact_request, {"derivedAttributes"}),
    (client.V1DeviceSubRequest, in_alternative, {"derivedAttributes"}),
    (client.V1DeviceToleration, in_toleration, set()),
    (client.V1DeviceConstraint, in_constraint, set()),
]


def told(objects: list[Json], field: str) -> bool:
    """Whether exactly this field is reported as unsupported, in a finding or an error."""
    try:
        result = allocate({"objects": [GPU, *objects], "strategy": "first_fit"})
        problems = [f"{one['field']}: {one['problem']}" for one in result["findings"]]
    except InvalidInput as error:
        problems = [str(error)]
    said = f".{field}: unsupported"
    return any(problem.endswith((said, f"{said} type of attribute")) for problem in problems)


@pytest.mark.parametrize(
    ("kind", "place", "refused"), PLACES, ids=[kind.__name__ for kind, _place, _refused in PLACES]
)
def test_every_field_of_the_api_is_known_or_refused_by_name(
    kind: t.Any, place: t.Callable[[str], list[Json]], refused: set[str]
) -> None:
    assert told(place("somethingOfTheFuture"), "somethingOfTheFuture")
    fields = sorted(kind.attribute_map.values())
    assert {field for field in fields if told(place(field), field)} == refused
