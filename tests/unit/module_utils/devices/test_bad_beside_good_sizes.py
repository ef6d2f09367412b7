# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An object with very many parts, or with an enormous amount, changes nothing for all others."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import (
    STRATEGIES,
    allocate,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import (
    Allocation,
    Instance,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.device_objects import (
    Json,
    attributes,
    device_pool,
    dra_class,
    dra_device,
    exactly,
    manifest,
    pod,
    resource_claim,
    resource_slice,
)

GOOD_CLAIMS = [f"good-{number}" for number in range(6)]
CAPACITY = {"m": {"value": "8Gi"}}
DRA_GOOD = [
    resource_slice("n1", [dra_device(f"gpu-{n}", capacity=CAPACITY) for n in range(4)]),
    resource_slice("n2", [dra_device(f"gpu-{n}", capacity=CAPACITY) for n in range(4)]),
    dra_class("gpu", "device.driver == 'gpu.example.com'"),
    *(resource_claim(name, exactly("r", "gpu")) for name in GOOD_CLAIMS),
]
FLAT_GOOD = [
    device_pool("p1", "n1", "d", count=4, attributes=attributes(model="m")),
    device_pool("p2", "n2", "d", count=4, attributes=attributes(model="m")),
    *(pod(name, [{"name": "c", "template": {"driver": "d"}}]) for name in GOOD_CLAIMS),
]
LONG = " && ".join(f"device.driver != '{number}'" for number in range(330))
AMOUNTS = ["7Ei", "1e18", str(2**63 - 1), "10E", "1e21", "1e300"]


def odd_claim(**more: t.Any) -> Json:
    return resource_claim("odd", exactly("r", "gpu", **more))


def odd_pod(*claims: Json) -> Json:
    return pod("odd", [{"name": f"c{n}", "template": one} for n, one in enumerate(claims)])


def odd_slice(device: Json, **more: t.Any) -> Json:
    return resource_slice("n9", [device], driver="odd.example.com", **more)


def numbered(count: int, value: t.Any = "1") -> dict[str, t.Any]:
    return {f"a{number}": value for number in range(count)}


def many_of_dra() -> dict[str, Json]:
    many = 5000
    texts = [f"{LONG} && device.driver != 'x{number}'" for number in range(32)]
    names = [{"name": f"c{n}", "resourceClaimTemplateName": "t"} for n in range(many)]
    return {
        "requests": resource_claim("odd", *(exactly(f"r{n}", "gpu") for n in range(many))),
        "alternatives": resource_claim(
            "odd",
            {
                "name": "r",
                "firstAvailable": [
                    {"name": f"s{n}", "deviceClassName": "gpu"} for n in range(many)
                ],
            },
        ),
        "selectors": resource_claim("odd", exactly("r", "gpu", *map(str, range(many)))),
        "long selectors": resource_claim("odd", exactly("r", "gpu", *texts)),
        "tolerations": odd_claim(tolerations=[{"operator": "Exists"}] * many),
        "constraints": resource_claim(
            "odd", exactly("r", "gpu"), constraints=[{"matchAttribute": "a/b"}] * many
        ),
        "amounts": odd_claim(capacity={"requests": numbered(many)}),
        "claims": manifest("v1", "Pod", "odd", {"resourceClaims": names}, namespace="default"),
        "devices": resource_slice(
            "n9", [dra_device(f"d{n}") for n in range(many)], driver="odd.example.com"
        ),
        "attributes": odd_slice(dra_device("d", attributes=numbered(many, 1))),
        "counters": odd_slice(
            dra_device("d"),
            sharedCounters=[{"name": "s", "counters": numbered(many, {"value": "1"})}],
        ),
        "counter sets": odd_slice(
            dra_device("d"),
            sharedCounters=[{"name": f"s{n}", "counters": {}} for n in range(many)],
        ),
    }


def many_of_the_prototype() -> dict[str, Json]:
    many = 5000
    one = {"driver": "d"}
    texts = [f"{LONG.replace('device.driver', 'device.model')} && {n} > 0" for n in range(32)]
    return {
        "requests": odd_pod({"claims": [{"name": f"r{n}", **one} for n in range(many)]}),
        "alternatives": odd_pod({"claims": [{"name": "r", "oneOf": [one] * many}]}),
        "all of": odd_pod({"claims": [{"name": "r", "allOf": [one] * many}]}),
        "selectors": odd_pod(
            {
                "claims": [
                    {"name": f"r{n}", **one, "constraints": text} for n, text in enumerate(texts)
                ]
            }
        ),
        "matched": odd_pod({**one, "matchAttributes": list(numbered(many))}),
        "distinct": odd_pod({**one, "distinctAttributes": list(numbered(many))}),
        "amounts": odd_pod({**one, "requests": numbered(many)}),
        "limits": odd_pod({**one, "limits": numbered(many)}),
        "claims": odd_pod(*([one] * many)),
        "devices": device_pool("odd", "n9", "odd", count=10**9),
        "attributes": device_pool(
            "odd", "n9", "odd", count=1, attributes=attributes(**numbered(many))
        ),
        "resources": device_pool(
            "odd", "n9", "odd", devices=[{"name": "x", "resources": numbered(many)}]
        ),
        "shared resources": device_pool(
            "odd", "n9", "odd", sharedResources=numbered(many), devices=[{"name": "x"}]
        ),
    }


def placed(objects: list[Json], **more: t.Any) -> tuple[dict[str, str | None], Json]:
    """The nodes of the good claims or pods, and the result."""
    result = allocate({"objects": objects, "on_error": "report", **more})
    found = {one["name"]: one["node"] for one in (*result["claims"], *result["pods"])}
    return {name: found.get(name) for name in GOOD_CLAIMS}, result


def alone(objects: list[Json], odd: Json) -> list[Json]:
    """The good objects; claims are asked for by pods if the odd object is one."""
    if odd["kind"] == "Pod" and objects is DRA_GOOD:
        pods = [
            manifest(
                "v1",
                "Pod",
                name,
                {"resourceClaims": [{"name": "c", "resourceClaimName": name}]},
                namespace="default",
            )
            for name in GOOD_CLAIMS
        ]
        return [*objects, *pods]
    return objects


CASES = [
    *((DRA_GOOD, name, odd) for name, odd in many_of_dra().items()),
    *((FLAT_GOOD, name, odd) for name, odd in many_of_the_prototype().items()),
]


@pytest.mark.parametrize(
    ("objects", "odd"),
    [(objects, odd) for objects, _name, odd in CASES],
    ids=[f"{'dra' if objects is DRA_GOOD else 'k8srm'}-{name}" for objects, name, _odd in CASES],
)
def test_an_object_with_very_many_parts_is_a_finding_and_touches_no_other(
    objects: list[Json], odd: Json
) -> None:
    good = alone(objects, odd)
    before, expected = placed(good)
    assert expected["outcome"] == "allocated" and None not in before.values()
    start = time.process_time()
    after, result = placed([*good, odd])
    # Two seconds are far more than reading 5,000 parts takes, and far less than solving them.
    assert time.process_time() - start < 2
    assert after == before
    assert {one["name"] for one in result["findings"]} == {odd["metadata"]["name"]}


def enormous(amount: str) -> dict[str, tuple[list[Json], Json]]:
    shared = [{"name": "s", "counters": {"m": {"value": amount}}}]
    consumed = [{"counterSet": "s", "counters": {"m": {"value": amount}}}]
    limits = {"default": "1", "validRange": {"min": "1", "max": amount, "step": "1"}}
    capacity = {"m": {"value": amount}}
    shareable = {"m": {"value": amount, "requestPolicy": limits}}
    resource = {"name": "memory", "capacity": amount}
    counter = {"name": "m", "capacity": amount}
    part = {"name": "x", "sharedResourcesConsumed": {"m": amount}}
    asked = [{"resource": "memory", "quantity": {"request": amount}}]
    return {
        "claim": (DRA_GOOD, odd_claim(capacity={"requests": {"m": amount}})),
        "counter": (
            DRA_GOOD,
            odd_slice(dra_device("d", consumesCounters=consumed), sharedCounters=shared),
        ),
        "capacity": (DRA_GOOD, odd_slice(dra_device("d", capacity=capacity))),
        "policy": (
            DRA_GOOD,
            odd_slice(dra_device("d", allowMultipleAllocations=True, capacity=shareable)),
        ),
        "amount": (FLAT_GOOD, odd_pod({"driver": "d", "requests": {"memory": amount}})),
        "listed amount": (FLAT_GOOD, odd_pod({"driver": "d", "requests": asked})),
        "resource": (
            FLAT_GOOD,
            device_pool("odd", "n9", "odd", devices=[{"name": "x", "resources": [resource]}]),
        ),
        "shared resource": (
            FLAT_GOOD,
            device_pool("odd", "n9", "odd", sharedResources=[counter], devices=[part]),
        ),
    }


@pytest.mark.parametrize("place", list(enormous("1")))
@pytest.mark.parametrize("amount", AMOUNTS)
def test_an_enormous_amount_touches_no_other(amount: str, place: str) -> None:
    objects, odd = enormous(amount)[place]
    before, _expected = placed(objects, time_limit=2.0)
    after, result = placed([*objects, odd], time_limit=2.0)
    assert None not in after.values()
    assert len(after) == len(before)
    found = {one["name"]: one["node"] for one in (*result["claims"], *result["pods"])}
    assert found.get("odd") is None


@pytest.mark.parametrize("count", [33, 10_000, 2**31, 2**63 - 1, 10**19, 10**30])
def test_an_enormous_count_touches_no_other(count: int) -> None:
    for objects, odd in (
        (DRA_GOOD, odd_claim(count=count)),
        (FLAT_GOOD, odd_pod({"driver": "d", "minDeviceCount": count})),
    ):
        after, _result = placed([*objects, odd], time_limit=2.0)
        assert None not in after.values()


def test_the_time_limit_begins_before_the_objects_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The strategy gets the clock that ran while the objects were read."""
    spent: list[float] = []
    strategy = STRATEGIES["first_fit"]

    def measured(instance: Instance, limits: Limits) -> Allocation:
        spent.append(limits.seconds - limits.left())
        return strategy(instance, limits)

    monkeypatch.setitem(STRATEGIES, "first_fit", measured)
    texts = [f"{LONG} && device.driver != 'x{number}'" for number in range(4)]
    claim = resource_claim("long", exactly("r", "gpu", *texts))
    start = time.process_time()
    result = allocate({"objects": [*DRA_GOOD, claim], "strategy": "first_fit"})
    assert result["outcome"] == "allocated"
    # Reading takes most of the time of a run with so few devices.
    assert spent[0] > (time.process_time() - start) / 2
