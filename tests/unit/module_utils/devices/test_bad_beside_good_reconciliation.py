# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An odd claim, pool or pod of a cluster is left unchanged; all others get their devices."""

from __future__ import annotations

import random
import time
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.devices import reconciliation
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from support import odd_values
from support.device_objects import (
    PROTOTYPE,
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
from support.stored_objects import StoredObjects

Json = dict[str, t.Any]
# Fields that the API server itself sets.
KEEP = [
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
    ("metadata", "generation"),
    ("metadata", "deletionTimestamp"),
]
MARKS = ("resourceVersion", "claimVersion", "allocationTimestamp", "lastTransitionTime")
DRA_GROUP = "resource.k8s.io"


def a_node(name: str) -> Json:
    status = {
        "allocatable": {"cpu": "8", "pods": "100"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {**manifest("v1", "Node", name, {}, labels={}), "status": status}


def dra_pod(name: str, claim: str) -> Json:
    items = [{"name": "c", "resourceClaimName": claim}]
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "wattwise", "resourceClaims": items, "containers": [container]}
    return manifest("v1", "Pod", name, spec, namespace="default", labels={})


def held(name: str, driver: str, pool: str, device: str, *users: str) -> Json:
    """A claim with a device that has all fields that a driver may set."""
    claim = resource_claim(name, exactly("r", "odd"))
    names = {"driver": driver, "pool": pool, "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [pool]}
    result = {
        **names,
        "request": "r",
        "bindingConditions": ["attached"],
        "bindingFailureConditions": ["broken"],
    }
    claim["status"] = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "devices": [{**names, "conditions": [{"type": "attached", "status": "True"}]}],
        "reservedFor": [
            {
                "resource": "pods",
                "name": user,
                "uid": f"/api/v1/namespaces/default/pods/{user}",
            }
            for user in users
        ],
    }
    claim["metadata"] |= {
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "annotations": {"resource.kubernetes.io/pod-claim-name": "c"},
        "ownerReferences": [{"controller": True, "uid": "of-a-pod", "kind": "Pod"}],
    }
    return claim


DRA_GOOD = [
    *(a_node("n1"), a_node("n9")),
    resource_slice("n1", [dra_device(name) for name in ("d0", "d1", "d2", "d3")]),
    resource_slice("n9", [dra_device("o1"), dra_device("o2")], driver="odd.example.com"),
    dra_class("gpu", 'device.driver == "gpu.example.com"'),
    dra_class("odd", 'device.driver == "odd.example.com"'),
    resource_claim("one", exactly("r", "gpu")),
    resource_claim("two", exactly("r", "gpu", count=2)),
    held("three", "gpu.example.com", "n1", "d3", "p3"),
    *(dra_pod("p1", "one"), dra_pod("p2", "two"), dra_pod("p3", "three")),
]
DRA_ODD = {
    "a claim that has its device": (
        held("odd", "odd.example.com", "n9", "o1", "gone"),
        [dra_pod("user", "odd")],
    ),
    "a claim that waits": (resource_claim("odd", exactly("r", "odd")), [dra_pod("user", "odd")]),
    "a node": (a_node("odd"), []),
    "a pod": (
        dra_pod("odd", "odd"),
        [resource_claim("odd", exactly("r", "odd"))],
    ),
}


def run(group: str, objects: list[Json], odd: Json | None) -> tuple[StoredObjects, Json, list[str]]:
    """State of the cluster after a run, the run's result, and its warnings."""
    store = StoredObjects()
    for one in objects:
        store.add(one)
    if odd is not None:
        store.add(odd)
    warnings: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kube, "connect", lambda *_args: store)
        patch.setattr(reconciliation, "alone", lambda _kube, _options, _context, work: work(None))
        patch.setattr(time, "sleep", lambda _seconds: None)
        context = Context(warn=warnings.append)
        options = {"strategy": "first_fit", "api_group": group}
        result = reconciliation.reconcile(options, context)
    return store, result, warnings


def without_marks(value: t.Any) -> t.Any:
    """A value without the parts that depend on time and number of writes."""
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key not in MARKS}
    return value


def written(store: StoredObjects, paths: t.Collection[str]) -> dict[str, Json]:
    return {path: without_marks(store.objects[path]) for path in paths}


def spoilt(source: random.Random, good: Json, keep: t.Any = ()) -> Json:
    while True:
        found: Json = odd_values.spoilt(source, good, [*KEEP, *keep])
        if isinstance(found.get("metadata"), dict):
            return found


@each_seed(10)
@pytest.mark.parametrize("kind", DRA_ODD)
def test_all_others_get_their_devices_as_without(kind: str, seed: int) -> None:
    odd, beside = DRA_ODD[kind]
    # A claim or pod that requests or claims to have others' devices is not among them.
    device_class = ("spec", "devices", "requests", 0, "exactly", "deviceClassName")
    bad = spoilt(random.Random(f"{kind}{seed}"), odd, [device_class])
    alone, _result, _warnings = run(DRA_GROUP, DRA_GOOD, None)
    with odd_values.bounded():
        found, result, warnings = run(DRA_GROUP, [*DRA_GOOD, *beside], bad)
    assert written(found, alone.objects) == written(alone, alone.objects)
    assert all(
        found.objects[f"/api/v1/namespaces/default/pods/{name}"]["spec"]["nodeName"] == "n1"
        for name in ("p1", "p2", "p3")
    )
    assert len(warnings) == (1 if result["findings"] else 0)


def test_a_null_among_the_owners_of_a_claim_stops_no_run() -> None:
    """Reading the names of a pod's claims from their owners ended with an AttributeError."""
    odd, beside = DRA_ODD["a claim that has its device"]
    owners = [None, *odd["metadata"]["ownerReferences"]]
    bad = {**odd, "metadata": {**odd["metadata"], "ownerReferences": owners}}
    alone, _result, _warnings = run(DRA_GROUP, DRA_GOOD, None)
    found, answer, [warning] = run(DRA_GROUP, [*DRA_GOOD, *beside], bad)
    assert written(found, alone.objects) == written(alone, alone.objects)
    stored = found.objects["/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/odd"]
    assert stored["status"] == odd["status"]
    [finding] = answer["findings"]
    assert (finding["name"], finding["field"]) == ("odd", "metadata.ownerReferences[0]")
    assert "ResourceClaim default/odd" in warning


PROTOTYPE_GROUP = "devmgmtproto.k8s.io"
ANNOTATION = "wattwise.github.io/device-claims"


def prototype_pod(name: str, claim: str) -> Json:
    spec = {
        "schedulerName": "wattwise",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
    }
    text = f"[{{name: c, claimName: {claim}}}]"
    return manifest(
        "v1", "Pod", name, spec, namespace="default", labels={}, annotations={ANNOTATION: text}
    )


def prototype_path(plural: str, name: str) -> str:
    place = "namespaces/default/" if plural == "deviceclaims" else ""
    return f"/apis/{PROTOTYPE}/{place}{plural}/{name}"


def reservation(claim: str, *users: str, **allocation: t.Any) -> Json:
    return {
        "kind": "DeviceClaim",
        "namespace": "default",
        "name": claim,
        "claimUID": prototype_path("deviceclaims", claim),
        "claimVersion": "1",
        "nodeName": "n1",
        "pods": [
            {"name": user, "uid": f"/api/v1/namespaces/default/pods/{user}"} for user in users
        ],
        "allocations": [allocation],
    }


def holding(claim: str, driver: str, *users: str, **allocation: t.Any) -> Json:
    """A claim with all fields that a run writes."""
    entry = reservation(claim, *users, **allocation)
    condition = {
        "type": "Allocated",
        "status": "True",
        "reason": "Allocated",
        "message": "the devices are for node n1",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {
        "allocations": entry["allocations"],
        "nodeName": "n1",
        "reservedFor": entry["pods"],
        "podNames": list(users),
        "conditions": [condition],
        "observedGeneration": 1,
    }
    found = device_claim(claim, driver=driver)
    found["metadata"]["ownerReferences"] = [{"kind": "Pod", "uid": "of-a-pod"}]
    return {**found, "status": status}


def pool_of(name: str, driver: str, *entries: Json, **spec: t.Any) -> Json:
    condition = {"type": "Ready", "status": "True", "reason": "Valid", "message": "it is"}
    status = {"reservations": list(entries), "availableDevices": 1, "conditions": [condition]}
    return {**device_pool(name, "n1", driver, **spec), "status": status}


LISTED = {"devices": [{"name": "a"}, {"name": "b"}]}
PROTOTYPE_GOOD = [
    a_node("n1"),
    pool_of(
        "listed",
        "d",
        reservation("three", "p3", devicePoolName="listed", deviceName="b"),
        **LISTED,
    ),
    pool_of(
        "counted",
        "e",
        reservation("four", "gone", devicePoolName="counted", deviceCount=1),
        count=3,
    ),
    device_claim("one", driver="d"),
    device_claim("two", driver="e", minDeviceCount=2),
    holding("three", "d", "p3", devicePoolName="listed", deviceName="b"),
    holding("four", "e", "gone", devicePoolName="counted", deviceCount=1),
    *(prototype_pod(f"p{number}", name) for number, name in ((1, "one"), (2, "two"), (3, "three"))),
]
ODD_ENTRY = reservation("odd", "user", devicePoolName="odd", deviceName="a")
ODD_HOLDER = holding("odd", "o", "user", devicePoolName="odd", deviceName="a")
ODD_POOL = pool_of("odd", "o", ODD_ENTRY, **LISTED)
PROTOTYPE_ODD = {
    "a pool": (ODD_POOL, [ODD_HOLDER, prototype_pod("user", "odd")]),
    "a claim that has its device": (ODD_HOLDER, [ODD_POOL, prototype_pod("user", "odd")]),
    "a claim whose pod is gone": (ODD_HOLDER, [ODD_POOL]),
    "a claim that waits": (
        device_claim("odd", driver="o", minDeviceCount=1),
        [pool_of("odd", "o", **LISTED), prototype_pod("user", "odd")],
    ),
    "a node": (a_node("odd"), []),
    "a pod": (prototype_pod("odd", "odd"), [ODD_POOL, ODD_HOLDER]),
}
# Objects of others would give or take their devices.
PROTOTYPE_KEEP = [("spec", "driver"), ("spec", "nodeName")]


@each_seed(10)
@pytest.mark.parametrize("kind", PROTOTYPE_ODD)
def test_all_others_of_the_prototype_get_their_devices_as_without(kind: str, seed: int) -> None:
    odd, beside = PROTOTYPE_ODD[kind]
    bad = spoilt(random.Random(f"{kind}{seed}"), odd, PROTOTYPE_KEEP)
    alone, _result, _warnings = run(PROTOTYPE_GROUP, PROTOTYPE_GOOD, None)
    with odd_values.bounded():
        found, result, warnings = run(PROTOTYPE_GROUP, [*PROTOTYPE_GOOD, *beside], bad)
    assert written(found, alone.objects) == written(alone, alone.objects)
    for name in ("p1", "p2", "p3"):
        assert found.objects[f"/api/v1/namespaces/default/pods/{name}"]["spec"]["nodeName"] == "n1"
    assert len(warnings) == (1 if result["findings"] else 0)


@pytest.mark.parametrize("place", ["status.reservedFor", "device", "status.allocation"])
def test_what_an_unreadable_claim_may_have_is_not_given(place: str) -> None:
    """The device that it names, or all of its pool if it names none; nothing of others."""
    odd = held("odd", "odd.example.com", "n9", "o1", "gone")
    [result] = odd["status"]["allocation"]["devices"]["results"]
    wanted = 2 if place == "status.reservedFor" else 1
    if place == "status.reservedFor":
        odd["status"]["reservedFor"] = 5
    elif place == "device":
        result["device"] = None
    else:
        odd["status"]["allocation"]["devices"]["results"] = [5, {**result, "device": {}}]
    rival = resource_claim("rival", exactly("r", "odd", count=wanted))
    found, answer, [warning] = run(DRA_GROUP, [*DRA_GOOD, rival, dra_pod("p4", "rival")], odd)
    assert "nodeName" not in found.objects["/api/v1/namespaces/default/pods/p4"]["spec"]
    stored = found.objects["/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/odd"]
    assert stored["status"] == odd["status"]
    assert {one["name"] for one in answer["findings"]} == {"odd"}
    assert "ResourceClaim default/odd" in warning


@pytest.mark.parametrize("reserved", [True, False])
@pytest.mark.parametrize("place", ["reservedFor", "deviceName"])
def test_what_an_unreadable_claim_of_the_prototype_may_have_is_not_given(
    place: str, reserved: bool
) -> None:
    odd = holding("odd", "o", "gone", devicePoolName="odd", deviceName="a")
    if place == "reservedFor":
        odd["status"]["reservedFor"] = 5
    else:
        odd["status"] |= {"conditions": "none"}
        odd["status"]["allocations"][0]["deviceName"] = {}
    pool = pool_of("odd", "o", *([ODD_ENTRY] if reserved else []), **LISTED)
    # One of two devices may be free if the claim, or its reservation, names the other one.
    wanted = 2 if place == "reservedFor" else 1
    rival = device_claim("rival", driver="o", minDeviceCount=wanted)
    objects = [*PROTOTYPE_GOOD, pool, rival, prototype_pod("p4", "rival")]
    found, answer, [warning] = run(PROTOTYPE_GROUP, objects, odd)
    assert "nodeName" not in found.objects["/api/v1/namespaces/default/pods/p4"]["spec"]
    assert found.objects[prototype_path("deviceclaims", "odd")]["status"] == odd["status"]
    assert {one["name"] for one in answer["findings"]} == {"odd"}
    assert "DeviceClaim default/odd" in warning


def test_an_owner_without_uid_of_a_claim_of_the_prototype_stops_no_run() -> None:
    """Looking for the claim of a pod ended with a KeyError."""
    odd = device_claim("user-c", driver="o")
    odd["metadata"]["ownerReferences"] = [{"kind": "Pod"}]
    user = prototype_pod("user", "odd")
    user["metadata"]["annotations"] = {ANNOTATION: "[{name: c, driver: o}]"}
    alone, _result, _warnings = run(PROTOTYPE_GROUP, PROTOTYPE_GOOD, None)
    found, answer, _warnings = run(PROTOTYPE_GROUP, [*PROTOTYPE_GOOD, ODD_POOL, user], odd)
    assert written(found, alone.objects) == written(alone, alone.objects)
    assert "nodeName" not in found.objects["/api/v1/namespaces/default/pods/user"]["spec"]
    assert "the claim user-c exists, but is not of this pod" in str(answer)


def test_a_pool_whose_reservations_cannot_be_read_gives_nothing() -> None:
    odd = pool_of("odd", "o", {**ODD_ENTRY, "claimUID": 5}, **LISTED)
    rival = device_claim("rival", driver="o")
    objects = [*PROTOTYPE_GOOD, rival, prototype_pod("p4", "rival")]
    found, answer, [warning] = run(PROTOTYPE_GROUP, objects, odd)
    assert "nodeName" not in found.objects["/api/v1/namespaces/default/pods/p4"]["spec"]
    assert found.objects[prototype_path("devicepools", "odd")]["status"] == odd["status"]
    fields = [(one["name"], one["field"]) for one in answer["findings"]]
    assert fields == [("odd", "status.reservations[0].claimUID")]
    assert "DevicePool odd" in warning
