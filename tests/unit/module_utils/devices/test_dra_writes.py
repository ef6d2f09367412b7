# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of a pod, writes to them, and contested devices."""

from __future__ import annotations

import datetime
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.devices.dra.pods import (
    PodClaims,
    claims_made,
    claims_of_pod,
    with_made_claims,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.dra.slices import Slices
from ansible_collections.wattwise.kube.plugins.module_utils.devices.dra.writes import (
    FINALIZER,
    consumers,
    contested,
    finalizer_patch,
    is_reserved_for,
    is_used_only_by,
    readiness,
    reservation_patch,
    room_for_consumers,
    withdrawal_patch,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.findings import (
    ApiObject,
    Findings,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import Node
from support.device_objects import dra_device, exactly, manifest, resource_claim, resource_slice

Json = dict[str, t.Any]
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def pod(*claims: Json, made: list[Json] | None = None) -> ApiObject:
    found = manifest("v1", "Pod", "p", {"resourceClaims": list(claims)}, namespace="default")
    found["metadata"]["uid"] = "uid-of-p"
    found["status"] = {"resourceClaimStatuses": made}
    return ApiObject(found)


def claim(name: str = "c", **metadata: t.Any) -> ApiObject:
    found = resource_claim(name, exactly("r", "gpu"))
    found["metadata"] |= {"resourceVersion": "7", **metadata}
    return ApiObject(found)


def holding(name: str, *devices: str, pool: str = "n1", **more: t.Any) -> ApiObject:
    """A claim with these devices; ``more`` are further fields of each result."""
    found = claim(name)
    results = [
        {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": device, **more}
        for device in devices
    ]
    status = {"allocation": {"devices": {"results": results}}}
    return ApiObject({**found.manifest, "status": status})


def slices(*objects: Json) -> Slices:
    read = Slices(Findings(), (Node("n1"),))
    read.read([ApiObject(item) for item in objects])
    return read


class TestClaimsOfAPod:
    NAMED: t.ClassVar[Json] = {"name": "gpu", "resourceClaimName": "c"}
    FROM_TEMPLATE: t.ClassVar[Json] = {"name": "gpu", "resourceClaimTemplateName": "t"}
    TEMPLATES = (("default", "t"),)

    def look(self, given: ApiObject, *claims: ApiObject) -> PodClaims:
        by_key = {(one.namespace, one.name): one for one in claims}
        return claims_of_pod(given, by_key, self.TEMPLATES)

    def test_a_named_claim_is_found_once(self) -> None:
        named = claim()
        twice = pod(self.NAMED, {**self.NAMED, "name": "again"})
        assert self.look(twice, named) == PodClaims((named,))

    def test_one_that_is_missing_or_on_its_way_out_is_told(self) -> None:
        given = pod(self.NAMED)
        assert self.look(given).problem == "there is no ResourceClaim default/c"
        leaving = claim(deletionTimestamp="2026-01-01T00:00:00Z")
        assert self.look(given, leaving).problem.endswith("is being deleted")

    def test_one_from_a_template_is_waited_for(self) -> None:
        found = self.look(pod(self.FROM_TEMPLATE))
        assert found.awaited and "has not been made from its template yet" in found.problem
        made = claim("p-gpu-1", ownerReferences=[{"controller": True, "uid": "uid-of-p"}])
        status = [{"name": "gpu", "resourceClaimName": "p-gpu-1"}]
        assert self.look(pod(self.FROM_TEMPLATE, made=status), made) == PodClaims((made,))

    def test_without_its_template_nobody_makes_one(self) -> None:
        found = self.look(pod({"name": "gpu", "resourceClaimTemplateName": "none"}))
        assert found == PodClaims(problem="there is no ResourceClaimTemplate default/none")

    def test_a_claim_that_only_has_the_right_name_is_not_taken(self) -> None:
        other = claim("p-gpu-1", ownerReferences=[{"controller": True, "uid": "another"}])
        status = [{"name": "gpu", "resourceClaimName": "p-gpu-1"}]
        found = self.look(pod(self.FROM_TEMPLATE, made=status), other)
        assert "was not made for this pod" in found.problem

    def test_one_that_was_made_counts_before_the_pod_is_told(self) -> None:
        made = claim(
            "p-gpu-1",
            annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
            ownerReferences=[{"controller": True, "uid": "uid-of-p"}],
        )
        told = with_made_claims(pod(self.FROM_TEMPLATE), claims_made([made, claim()]))
        assert self.look(told, made) == PodClaims((made,))
        assert with_made_claims(told, claims_made([made])).manifest == told.manifest

    def test_the_controller_may_find_that_none_is_needed(self) -> None:
        given = pod(self.FROM_TEMPLATE, made=[{"name": "gpu"}])
        assert self.look(given) == PodClaims()


class TestWrites:
    def test_a_claim_is_allocated_and_reserved_in_one_write_of_what_was_read(self) -> None:
        patch = reservation_patch(claim(), {"devices": {"results": []}}, [pod()], NOON)
        assert patch == {
            "metadata": {"uid": "uid-of-c", "resourceVersion": "7"},
            "status": {
                "allocation": {
                    "devices": {"results": []},
                    "allocationTimestamp": "2026-01-01T12:00:00Z",
                },
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-of-p"}],
            },
        }

    def test_another_pod_joins_those_that_are_there(self) -> None:
        held = holding("c", "d0")
        patch = reservation_patch(held, None, [pod()], NOON)
        assert patch is not None
        joined = ApiObject({**held.manifest, "status": patch["status"]})
        assert "allocation" not in patch["status"] and is_reserved_for(joined, pod())
        assert reservation_patch(joined, None, [pod()], NOON) is None
        assert is_used_only_by(joined, ["uid-of-p"]) and not is_used_only_by(joined, ["other"])
        assert room_for_consumers(joined) == 255 and len(consumers(joined)) == 1

    def test_the_finalizer_is_added_once_and_keeps_others(self) -> None:
        patch = finalizer_patch(claim(finalizers=["other"]))
        assert patch is not None and patch["metadata"]["finalizers"] == ["other", FINALIZER]
        assert finalizer_patch(claim(finalizers=[FINALIZER])) is None

    def test_devices_are_taken_back_with_the_last_reservation(self) -> None:
        held = holding("c", "d0")
        both = [{"resource": "pods", "name": name, "uid": name} for name in ("p", "q")]
        held.manifest["status"]["reservedFor"] = both
        assert withdrawal_patch(held, ["p"])["status"] == {"reservedFor": both[1:]}
        nothing = {"allocation": None, "reservedFor": None}
        assert withdrawal_patch(held, ["p", "q"])["status"] == nothing


class TestBindingConditions:
    CONDITIONS: t.ClassVar[Json] = {
        "bindingConditions": ["attached", "powered"],
        "bindingFailureConditions": ["broken"],
    }

    def state(self, *conditions: str, since: datetime.datetime = NOON) -> tuple[str, str]:
        held = holding("c", "d0", **self.CONDITIONS)
        held.manifest["status"]["allocation"]["allocationTimestamp"] = since.isoformat()
        listed = [{"type": name, "status": "True"} for name in conditions]
        listed += [{"type": "broken", "status": "False"}] if "broken" not in conditions else []
        device = {"driver": "gpu.example.com", "pool": "n1", "device": "d0", "conditions": listed}
        held.manifest["status"]["devices"] = [device]
        found = readiness(held, NOON)
        return found.state, found.detail

    def test_a_device_without_any_is_ready(self) -> None:
        assert readiness(holding("c", "d0"), NOON).state == "ready"

    def test_all_of_them_must_be_true(self) -> None:
        state, detail = self.state("attached")
        assert state == "waiting" and detail.endswith("waits for its condition powered")
        assert self.state("attached", "powered") == ("ready", "")

    def test_one_failure_is_enough(self) -> None:
        state, detail = self.state("attached", "powered", "broken")
        assert state == "failed" and detail.endswith("has the condition broken")

    def test_nobody_waits_for_ever(self) -> None:
        state, detail = self.state(since=NOON - datetime.timedelta(seconds=601))
        assert state == "failed" and detail.endswith("for more than 600 s")


class TestContested:
    def test_a_device_that_two_claims_have(self) -> None:
        there = slices(resource_slice("n1", [dra_device("d0"), dra_device("d1")]))
        claims = [holding("a", "d0"), holding("b", "d0", "d1"), holding("c", "d1")]
        assert contested(claims, there) == {
            ("default", "a"): "gpu.example.com/n1/d0 also belongs to default/b",
            ("default", "b"): "gpu.example.com/n1/d1 also belongs to default/c",
            ("default", "c"): "gpu.example.com/n1/d1 also belongs to default/b",
        }

    def test_looking_and_what_is_published_no_longer_disturb_nobody(self) -> None:
        there = slices(resource_slice("n1", [dra_device("d0")]))
        claims = [holding("a", "d0"), holding("b", "d0", adminAccess=True)]
        assert contested([*claims, holding("c", "old"), holding("d", "old")], there) == {}

    @pytest.mark.parametrize(("memory", "fine"), [("5", True), ("6", False)])
    def test_a_shared_device_is_contested_where_its_capacity_is_exceeded(
        self, memory: str, fine: bool
    ) -> None:
        shared = dra_device(
            "d0", allowMultipleAllocations=True, capacity={"memory": {"value": "10"}}
        )
        there = slices(resource_slice("n1", [shared]))
        claims = [
            holding(name, "d0", shareID=name, consumedCapacity={"memory": memory}) for name in "ab"
        ]
        assert (contested(claims, there) == {}) == fine

    def test_partitions_that_take_more_than_their_device_has(self) -> None:
        counters = {"memory": {"value": "10"}}
        parts = [
            dra_device(
                name,
                consumesCounters=[{"counterSet": "gpu", "counters": {"memory": {"value": "6"}}}],
            )
            for name in ("half", "other", "third")
        ]
        sets = [{"name": "gpu", "counters": counters}]
        there = slices(resource_slice("n1", parts, sharedCounters=sets))
        assert contested([holding("a", "half")], there) == {}
        found = contested([holding("a", "half"), holding("b", "other")], there)
        assert found.keys() == {("default", "a"), ("default", "b")}
        assert "allocations exceed the counter gpu/memory of pool n1" in found["default", "a"]
