# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The prototype's tables of remaining capacity, by their intent.

Upstream's tests compare the reduced value with itself, so they check none of these numbers.
"""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.cel.values import quantity_text
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import (
    allocate,
    read_task,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.findings import ApiObject
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import Capacity
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.task import Options
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.usage import (
    ACCESS_MODES,
    Usage,
)
from support.device_objects import device_claim, device_pool

Json = dict[str, t.Any]
COUNTER = {"counter": {"capacity": 10}}
QUANTITY = {"quantity": {"capacity": "10M"}}
BLOCK = {"block": {"capacity": "10M", "size": "1M"}}


def pool(*resources: Json) -> Json:
    return device_pool("p", "n1", "d", devices=[{"name": "a", "resources": list(resources)}])


def claim(name: str, *requests: Json) -> Json:
    return device_claim(name, driver="d", requests=list(requests))


def amount(resource: str, kind: str, wanted: t.Any) -> Json:
    return {"resource": resource, kind: {"request": wanted}}


def left(resources: list[Json], requests: list[Json]) -> list[str] | None:
    """Rest of each resource of a device after a claim; None if the claim gets nothing."""
    objects = [pool(*resources), claim("c", *requests)]
    task = read_task([ApiObject(item) for item in objects], Options())
    usage = Usage(task.instance)
    [[alternative]] = [request.alternatives for request in task.instance.claims[0].requests]
    portions = usage.portions(0, alternative)
    if portions is None:
        return None
    usage.take(0, portions)
    return [quantity_text(usage.left(0, resource["name"])) for resource in resources]


@pytest.mark.parametrize(
    ("resources", "requests", "expected"),
    [
        ([{"name": "a", **COUNTER}], [amount("a", "counter", 4)], ["6"]),
        ([{"name": "a", **QUANTITY}], [amount("a", "quantity", "1M")], ["9000000"]),
        ([{"name": "a", **BLOCK}], [amount("a", "quantity", "1M")], ["9000000"]),
        # Rounded up to whole blocks.
        ([{"name": "a", **BLOCK}], [amount("a", "quantity", "1500k")], ["8000000"]),
        (
            [{"name": "a", **COUNTER}, {"name": "b", **COUNTER}],
            [amount("a", "counter", 4), amount("b", "counter", 1)],
            ["6", "9"],
        ),
        ([{"name": "a", **COUNTER}], [amount("invalid-counter-test", "counter", 1)], None),
        ([{"name": "a", **COUNTER}], [amount("a", "counter", 11)], None),
    ],
)
def test_a_device_has_less_after_a_claim(
    resources: list[Json], requests: list[Json], expected: list[str] | None
) -> None:
    assert left(resources, requests) == expected


BLOCKED: t.Mapping[str, set[str]] = {
    "ReadOnlyShared": {"ReadWriteExclusive"},
    "ReadWriteShared": {"WriteExclusive", "ReadWriteExclusive"},
    "WriteExclusive": {"ReadWriteShared", "WriteExclusive", "ReadWriteExclusive"},
    "ReadWriteExclusive": set(ACCESS_MODES),
}
EVERYTHING = {
    "allowReadOnlyShared": True,
    "allowReadWriteShared": True,
    "allowWriteExclusive": True,
}


@pytest.mark.parametrize("second", ACCESS_MODES)
@pytest.mark.parametrize("first", ACCESS_MODES)
def test_modes_of_access_get_along_or_not(first: str, second: str) -> None:
    memory = {"name": "memory", "accessMode": EVERYTHING}
    claims = [
        claim(f"c{number}", amount("memory", "accessMode", mode))
        for number, mode in enumerate((first, second))
    ]
    result = allocate({"objects": [pool(memory), *claims]})
    assert (result["outcome"] == "allocated") is (first not in BLOCKED[second])


def test_a_mode_that_is_not_allowed_becomes_the_next_stricter_one() -> None:
    memory = {"name": "memory", "accessMode": {"allowWriteExclusive": True}}
    result = allocate(
        {"objects": [pool(memory), claim("c", amount("memory", "accessMode", "ReadOnlyShared"))]}
    )
    [given_device] = result["allocations"][0]["allocations"]
    assert given_device["allocations"] == [{"name": "memory", "allocation": "WriteExclusive"}]


def test_one_device_is_not_for_two_writers() -> None:
    """The prototype's two exclusive claims on a node with one foozer."""
    resources = [
        {"name": "foozer", "accessMode": EVERYTHING},
        {"name": "cores", "counter": {"capacity": 8}},
        {"name": "memory", "quantity": {"capacity": "64Gi"}},
    ]
    wanted = [
        amount("foozer", "accessMode", "WriteExclusive"),
        amount("cores", "counter", 1),
        amount("memory", "quantity", "8Gi"),
    ]
    result = allocate({"objects": [pool(*resources), claim("a", *wanted), claim("b", *wanted)]})
    assert result["outcome"] == "infeasible"
    [found] = allocate({"objects": [pool(*resources), claim("a", *wanted)]})["allocations"]
    assert found["allocations"][0]["allocations"] == [
        {"name": "cores", "allocation": "1"},
        {"name": "memory", "allocation": "8Gi"},
        {"name": "foozer", "allocation": "WriteExclusive"},
    ]


amounts = st.integers(0, 1000)


@given(amounts, st.integers(1, 50), amounts, st.integers(0, 2000))
def test_a_portion_is_the_least_that_the_policy_allows(
    minimum: int, step: int, wanted: int, maximum: int
) -> None:
    portion = Capacity(5000, minimum=minimum, step=step, maximum=maximum).portion(wanted)
    allowed = [value for value in range(minimum, maximum + 1, step) if value >= wanted]
    assert portion == (allowed[0] if allowed else None)


@given(st.lists(amounts, max_size=5).map(sorted), amounts)
def test_a_portion_is_the_next_valid_value(values: list[int], wanted: int) -> None:
    portion = Capacity(5000, default=7, values=tuple(values)).portion(wanted)
    if values:
        assert portion == min((value for value in values if value >= wanted), default=None)
    assert Capacity(5000, default=7, values=tuple(values)).portion(None) == 7
