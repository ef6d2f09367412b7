# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocations of a cluster's devices at every moment, whatever happens between two requests."""

from __future__ import annotations

import collections
import contextlib
import time
import typing as t
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.bind.binding import Outcome
from ansible_collections.wattwise.kube.plugins.module_utils.devices import reconciliation
from ansible_collections.wattwise.kube.plugins.module_utils.devices.adapter import pod_nodes
from ansible_collections.wattwise.kube.plugins.module_utils.devices.adapter.cluster import (
    Change,
    Pods,
    Report,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.adapter.pod_nodes import (
    NOT_PLANNED,
    NOT_WITHIN_LIMITS,
    Room,
    hindrance,
    narrowed,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.k8srm.ledger import (
    Reservation,
    state_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.task import Refusal
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.scope import Scope
from support.carried_out_plans import plan_of
from support.device_objects import device_claim, device_pool, manifest
from support.examples import examples
from support.stored_objects import StoredObjects

Json = dict[str, t.Any]
# Pods of either gate wait for separate runs, which compete for the same devices.
GATES = ("example.com/even", "example.com/odd")


class Killed(BaseException):
    """A run ends here."""


def gated_pod(name: str, claim: str, gate: str) -> Json:
    text = f"[{{claimName: {claim}}}]"
    spec = {"containers": [{"name": "main"}], "schedulingGates": [{"name": gate}]}
    annotations = {"wattwise.github.io/device-claims": text}
    return manifest("v1", "Pod", name, spec, namespace="default", annotations=annotations)


def a_node(name: str) -> Json:
    node = manifest("v1", "Node", name, {})
    conditions = [{"type": "Ready", "status": "True"}]
    return {**node, "status": {"allocatable": {"pods": "100"}, "conditions": conditions}}


def contested(pods: int, count: int) -> StoredObjects:
    """Two nodes with two pools each, three devices a node, and pods that want more."""
    store = StoredObjects()
    for node in ("n1", "n2"):
        store.add(a_node(node))
        store.add(device_pool(f"{node}-counted", node, "d", count=1))
        store.add(device_pool(f"{node}-listed", node, "d", devices=[{"name": "a"}, {"name": "b"}]))
    for number in range(pods):
        wanted = count if number < 2 else 1
        store.add(device_claim(f"c{number}", driver="d", minDeviceCount=wanted))
        store.add(gated_pod(f"p{number}", f"c{number}", GATES[number % 2]))
    return store


def run(store: StoredObjects, gate: str) -> Json:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kube, "connect", lambda *_args: store)
        patch.setattr(reconciliation, "alone", lambda _kube, _options, _context, work: work(None))
        patch.setattr(time, "sleep", lambda _seconds: None)
        return reconciliation.reconcile(
            {"strategy": "first_fit", "gate": gate, "api_group": "devmgmtproto.k8s.io"}
        )


def give(
    store: StoredObjects, plan: Json, scope: Scope | None = None, *, is_approved: bool = False
) -> Json:
    """A run for the pods of the first gate, with a plan."""
    options = {"strategy": "first_fit", "gate": GATES[0], "api_group": "devmgmtproto.k8s.io"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconciliation, "alone", lambda _kube, _options, _context, work: work(None))
        return reconciliation.give_devices(
            t.cast("Kube", store),
            plan_of(plan),
            reconciliation.SPEC.complete(options),
            Context(),
            scope,
            is_approved=is_approved,
        ).as_result()


def pinned(result: Json) -> dict[str, str]:
    """Pods that the run sent to their node, and the node."""
    return {one["name"]: one["detail"] for one in result["changes"] if (one["action"]) == "pinned"}


def test_pods_and_nodes_outside_of_the_scope_get_nothing() -> None:
    store = contested(pods=3, count=1)
    scope = Scope(frozenset({"n2"}), frozenset({("default", "p2")}))
    result = give(store, {}, scope)
    assert pinned(result) == {"p2": "on node n2"}
    assert result["errors"] == []
    waiting = {obj["metadata"]["name"] for obj in of_kind(store, "Pod") if gates_of(obj)}
    assert waiting == {"p0", "p1"}


def test_only_pods_of_an_approved_plan_get_devices_and_only_on_their_nodes() -> None:
    """n1 has lost its devices, n3 is gone, p2 is not the planned pod, p8 is newer than the plan."""
    store = contested(pods=9, count=1)
    for pool in of_kind(store, "DevicePool"):
        if pool["spec"]["nodeName"] == "n1":
            del store.objects[pool["metadata"]["uid"]]
    planned = {
        "p0": {"node": "n1"},
        "p2": {"node": "n2", "uid": "of the planned pod"},
        "p4": {"node": "n3"},
        "p6": {"node": "n2"},
    }
    placements = [{"namespace": "default", "pod": name, **one} for name, one in planned.items()]
    plan = {"placements": placements}
    approved = give(store, plan, is_approved=True)
    assert pinned(approved) == {"p6": "on node n2"}
    told = {one["name"]: one["message"] for one in approved["pods"]}
    nodes, outside = "0/2 nodes are available:", "node(s) outside of the approved plan."
    assert told == {
        "p0": f"{nodes} 1 c0: no pool, 1 {outside}",
        "p4": f"{nodes} 2 {outside}",
        "p6": None,
    }
    assert not give(store, plan, is_approved=True)["changed"]
    assert pinned(give(store, plan)).keys() >= {"p0", "p2"}


def gates_of(obj: Json) -> list[Json]:
    return t.cast("list[Json]", obj["spec"].get("schedulingGates") or [])


def of_kind(store: StoredObjects, kind: str) -> list[Json]:
    """Current objects; unlike a request, this read triggers no event."""
    return [obj for obj in store.objects.values() if obj["kind"] == kind]


def given_twice(store: StoredObjects) -> Iterator[str]:
    """Devices with more claims than permitted."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for claim in of_kind(store, "DeviceClaim"):
        for item in claim.get("status", {}).get("allocations", ()):
            device = item["devicePoolName"], item.get("deviceName", "")
            counts[device] += item.get("deviceCount", 1)
    yield from (f"{device} {count} times" for device, count in counts.items() if count > 1)


def not_in_the_ledger(store: StoredObjects) -> Iterator[str]:
    """Claims with devices of a pool whose reservation does not list all of them."""
    reserved = {
        (pool["metadata"]["name"], entry["claimUID"]): entry["allocations"]
        for pool in of_kind(store, "DevicePool")
        for entry in pool.get("status", {}).get("reservations", ())
    }
    for claim in of_kind(store, "DeviceClaim"):
        given = claim.get("status", {}).get("allocations", [])
        for pool in {item["devicePoolName"] for item in given}:
            if reserved.get((pool, claim["metadata"]["uid"])) != given:
                yield f"{pool} does not show what {claim['metadata']['name']} has"


def free(store: StoredObjects) -> int:
    return sum(pool["status"]["availableDevices"] for pool in of_kind(store, "DevicePool"))


# After this many requests the run is killed, a run for the same pods or for the others intervenes,
# or a pod ends.
Event = tuple[int, str]
EVENTS = st.lists(
    st.tuples(st.integers(0, 16), st.sampled_from(["kill", "same", "other", "end"])), max_size=4
)


@examples(80)
@given(st.lists(EVENTS, min_size=1, max_size=3), st.integers(1, 8), st.integers(1, 3))
def test_nothing_between_two_requests_gives_a_device_twice(
    runs: list[list[Event]], pods: int, count: int
) -> None:
    store = contested(pods, count)
    events: list[str] = []
    gates: list[str] = []

    def run_of(gate: str) -> None:
        gates.append(gate)
        try:
            run(store, gate)
        finally:
            gates.pop()

    def happen() -> None:
        event = events.pop(0) if events else ""
        if event == "kill":
            raise Killed
        if event in ("same", "other"):
            with contextlib.suppress(Killed):
                run_of(gates[-1] if event == "same" else other(gates[-1]))
        if event == "end":
            left = store.list("/api/v1/pods")
            if left:
                store.objects[left[0]["metadata"]["uid"]]["status"] = {"phase": "Succeeded"}

    def check() -> None:
        assert list(given_twice(store)) == []
        assert list(not_in_the_ledger(store)) == []

    store.before_request, store.after_write = happen, check
    for number, planned in enumerate(runs):
        events[:] = [one for wait, event in planned for one in (*[""] * wait, event)]
        with contextlib.suppress(Killed):
            run_of(GATES[number % 2])
    events.clear()
    for gate in (*GATES, *GATES):
        run_of(gate)
    waiting = [pod for pod in store.list("/api/v1/pods") if not pod["spec"].get("nodeName")]
    assert not waiting or free(store) < 2 * count
    before = versions(store)
    for gate in GATES:
        assert run(store, gate)["changed"] is False
    assert versions(store) == before


def other(gate: str) -> str:
    return GATES[1 - GATES.index(gate)]


def versions(store: StoredObjects) -> dict[str, str]:
    return {key: obj["metadata"]["resourceVersion"] for key, obj in store.objects.items()}


def waiting_with_volume() -> Json:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {"schedulerName": "ours", "containers": [{"name": "main"}], "volumes": [claim]}
    pod = manifest("v1", "Pod", "p", spec, namespace="default")
    pod["metadata"]["uid"] = "uid-of-p"
    return pod


def test_a_pod_with_volumes_gets_devices_on_its_planned_node_alone() -> None:
    key, pod = ("default", "p"), waiting_with_volume()
    unplanned = Pods({key: pod}, "ours", "gate")
    assert hindrance(pod, unplanned) == "unsupported: spec.volumes.persistentVolumeClaim"
    planned = Pods({key: pod}, "ours", "gate", planned={key: "n2"})
    assert hindrance(pod, planned) == ""
    room = Room([a_node("n1"), a_node("n2")], planned)
    assert room.why_not(key) == {"n1": NOT_PLANNED}
    gone = Room([a_node("n1")], planned)
    assert gone.why_not(key) == {"n1": NOT_PLANNED}


HOT = "node(s) in rack r1 (inlet of 35 °C, limit 32 °C)"


def limited(**plan: t.Any) -> Json:
    """A plan with a limit of all nodes."""
    limit = {"kind": "fleet", "name": "", "nodes": ["n1", "n2"], "limit_watts": 500.0}
    return {"limits": [{**limit, "beside_watts": 0.0}], **plan}


def test_a_pod_of_the_plan_gets_a_node_with_a_power_limit_only_if_it_is_planned_there() -> None:
    key, pod = ("default", "p"), waiting_with_volume()
    del pod["spec"]["volumes"]
    nodes = [a_node("n1"), a_node("n2"), a_node("n3")]

    def why_not(given: Json, planned: dict[tuple[str, str], str]) -> dict[str, str]:
        limits: Json = {"limited": {"n1", "n2"}, "closed": {"n3": HOT}}
        pods = Pods({key: given}, "ours", "gate", planned=planned, **limits)
        return dict(Room(nodes, pods).why_not(key))

    assert why_not(pod, {key: "n2"}) == {"n1": NOT_WITHIN_LIMITS, "n3": HOT}
    assert why_not(pod, {}) == {"n1": NOT_WITHIN_LIMITS, "n2": NOT_WITHIN_LIMITS, "n3": HOT}
    # Its own scheduler asks for limits; a hot rack is none for it, either.
    gated = {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": "gate"}]}}
    assert why_not(gated, {}) == {"n3": HOT}


def test_no_pod_gets_devices_in_a_rack_that_a_limit_closes() -> None:
    store = contested(pods=3, count=1)
    result = give(store, {"closed": {"n1": HOT}})
    assert pinned(result) == {"p0": "on node n2", "p2": "on node n2"}
    both = give(contested(pods=1, count=1), {"closed": {"n1": HOT, "n2": HOT}})
    assert pinned(both) == {}
    [told] = both["pods"]
    assert told["message"] == f"0/2 nodes are available: 2 {HOT}."


def test_a_planned_pod_whose_devices_are_gone_gets_none_elsewhere_beyond_a_limit() -> None:
    planned = {"placements": [{"namespace": "default", "pod": "p0", "node": "n2"}]}
    for plan, expected in ((planned, {"p0": "on node n1"}), (limited(**planned), {})):
        store = contested(pods=1, count=1)
        for pool in ("n2-counted", "n2-listed"):
            del store.objects[next(path for path in store.objects if path.endswith(f"/{pool}"))]
        result = give(store, plan)
        assert pinned(result) == expected
    assert NOT_WITHIN_LIMITS in result["pods"][0]["message"]
    assert pinned(give(contested(pods=1, count=1), limited(**planned))) == {"p0": "on node n2"}


def test_a_pod_with_its_devices_waits_while_a_limit_closes_their_node() -> None:
    """As after a run that ended between the allocation and the binding."""
    store = contested(pods=1, count=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_nodes, "_pin", _end)
        with pytest.raises(Killed):
            give(store, {})
    result = give(store, {"closed": {"n1": HOT, "n2": HOT}})
    assert pinned(result) == {}
    [error] = result["errors"]
    assert error["detail"] == f"its devices are on node n1: {HOT}"
    assert pinned(give(store, {})) == {"p0": "on node n1"}


def _end(*_given: t.Any) -> None:
    raise Killed


@pytest.mark.parametrize("is_told", [False, True])
def test_a_volume_that_was_not_made_in_time_is_not_waited_for_again(
    monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    """The devices become free either way, and only a full node is read again."""
    key, pod = ("default", "p"), waiting_with_volume()

    def refuse(_kube: Kube, _context: Context, given: t.Any, **_options: t.Any) -> t.Any:
        return [Outcome(one, "skipped", "no room", is_told) for one in given]

    monkeypatch.setattr(pod_nodes, "bind_all", refuse)
    pods = Pods({key: pod}, "ours", "gate", planned={key: "n2"})
    kube = t.cast("Kube", StoredObjects())
    sent = pod_nodes.send_to_nodes(kube, Context(), Report(), pods, {key: "n2"})
    assert (sent.refused, sent.skipped) == ([key], [] if is_told else [key])
    assert sent.reasons == ({key: "no room"} if is_told else {})


def test_pods_that_got_their_devices_do_not_wait_and_others_have_the_better_reason() -> None:
    waiting = {("a", name): "needs devices" for name in ("bound", "pinned", "none", "late", "odd")}
    pods = [
        {"namespace": "a", "name": "none", "node": None, "message": "0/2 nodes"},
        {"namespace": "a", "name": "late", "node": "n1", "message": None},
    ]
    changes = [
        Change("bound", "Pod", "a", "bound"),
        Change("pinned", "Pod", "a", "pinned"),
        Change("explained", "Pod", "a", "none"),
        Change("allocated", "ResourceClaim", "a", "odd"),
    ]
    problems = [Refusal("Pod", "a", "late", "no volume")]
    reconciled = reconciliation.Reconciled({"pods": pods}, changes, problems)
    assert reconciled.left_without(waiting) == {
        ("a", "none"): "0/2 nodes",
        ("a", "late"): "no volume",
        ("a", "odd"): "needs devices",
    }


@pytest.mark.parametrize("seconds", [-1.0, 3601.0, float("nan")])
def test_a_wait_for_volumes_that_is_negative_or_too_long_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="volume_timeout: .* is not from 0 to 3600 seconds"):
        options = reconciliation.SPEC.complete({"volume_timeout": seconds})
        reconciliation.give_devices(t.cast("Kube", StoredObjects()), None, options, Context())


def test_all_ends_with_as_many_free_as_at_the_beginning() -> None:
    store = contested(12, 1)
    run(store, GATES[0])
    assert free(store) == 0
    for obj in store.objects.values():
        if obj["kind"] == "Pod":
            obj["status"] = {"phase": "Succeeded"}
    run(store, GATES[0])
    assert free(store) == 6
    assert list(given_twice(store)) == []


def test_pools_are_read_before_claims_and_claims_before_pods() -> None:
    """Otherwise a device would seem free because its claim was read too late, or a pod seem to have
    ended.
    """
    store = contested(1, 1)
    run(store, GATES[0])
    pools, claims, pods = map(store.listed.index, ("devicepools", "deviceclaims", "pods"))
    assert pools < claims < pods


ONE = {"allocations": [{"devicePoolName": "p", "deviceName": "a"}]}
OTHER = {"allocations": [{"devicePoolName": "p", "deviceName": "b"}]}


@pytest.mark.parametrize(
    ("version", "status", "expected"),
    [
        ("1", {}, "open"),
        ("2", {}, "void"),
        ("2", ONE, "kept"),
        ("1", OTHER, "void"),
        (None, {}, "void"),
    ],
)
def test_what_a_reservation_is_worth(version: str | None, status: Json, expected: str) -> None:
    claim = {**device_claim("c", driver="d"), "status": status}
    claim["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    reservation = Reservation.for_claim(claim, "n", (), ONE)
    assert Reservation.of(reservation.entry()) == reservation
    claim["metadata"]["resourceVersion"] = version
    found = state_of(reservation, None if version is None else claim, lambda *_pod: False)
    assert found == expected


def test_affinity_is_narrowed_in_every_alternative() -> None:
    zones = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "ab"
    ]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    result = narrowed({required: {"nodeSelectorTerms": zones}}, "n1")
    here = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    assert result == {
        required: {"nodeSelectorTerms": [{**term, "matchFields": here} for term in zones]}
    }
    assert narrowed({}, "n1") == {required: {"nodeSelectorTerms": [{"matchFields": here}]}}
