# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Objects of the prototype (devmgmtproto.k8s.io/v1alpha1) in a cluster: a reconciliation.View.

ledger.py describes how concurrent runs, and runs after an interruption, stay correct. Pools are
read before claims, so that a pool never shows less than the claims have.
"""

from __future__ import annotations

import copy
import typing as t

from ...base.context import Context
from ...base.errors import ApiError, InvalidInput
from ...base.json_types import MutableObject
from ...kube.client import Kube
from ...kube.unschedulable import Unplaced
from ...scheduling.pod_reader import is_pending
from ..adapter.cluster import Pods, UnitAllocation
from ..adapter.pod_nodes import Room, hindrance, narrowed
from ..model.findings import ApiObject, Defect, Key
from .ledger import (
    Reservation,
    User,
    allocations_of,
    devices_text,
    named,
    node_of,
    state_of,
    used_by,
    users_of,
    with_devices,
    without_devices,
)
from .pod_claims import asks, claim_of, read_items
from .store import Store


class PrototypeView:
    """See reconciliation.View. The objects are read at once, which raises ApiError."""

    def __init__(self, kube: Kube, context: Context) -> None:
        self._kube, self._context = kube, context
        self._store = store = Store(kube, context)
        self.report, self._claims, self._ledger = store.report, store.claims, store.ledger
        self._pods = Pods({}, "", "")
        self._claims_of: dict[Key, list[str]] = {}

    def settle(self, pods: Pods, room: t.Callable[[], Room]) -> None:
        """Find the claims of each pod, finish or undo interrupted allocations, and release."""
        self._pods = pods
        for key, pod in pods.by_key.items():
            items = self.report.read(ApiObject(pod), self._items)
            if isinstance(items, Defect):
                self.report.refuse("Pod", key, str(items))
            elif items is not None:
                self._read_pod(key, pod, items)
        Recovery(self._store, pods, self._claims_of).run()

    def _items(self, obj: ApiObject) -> list[MutableObject] | str | None:
        """The claims of the pod; a sentence if it must get nothing, None if it has none.

        Raises InvalidInput if they cannot be read.
        """
        pod = obj.manifest
        if not asks(pod) or pod["metadata"].get("deletionTimestamp"):
            return None
        if self._pods.is_left_to_others(pod):
            return None
        return hindrance(pod, self._pods) or read_items(pod)

    def _read_pod(self, key: Key, pod: MutableObject, items: list[MutableObject] | str) -> None:
        try:
            if isinstance(items, str):
                raise InvalidInput(items)
            claims = [
                claim_of(pod, item, number, self._store.find) for number, item in enumerate(items)
            ]
            uids = [self._store.stored(claim)["metadata"]["uid"] for claim in claims]
        except (InvalidInput, ApiError) as error:
            self.report.refuse("Pod", key, str(error))
            return
        self._claims_of[key] = list(dict.fromkeys(uids))

    # Input of the solver, and writing of its answer.

    def objects(self) -> list[ApiObject]:
        """Readable pools, classes, drivers, claims, and pods that wait for devices."""
        # Also reservations of claims that another client is writing, or that are gone.
        reserved = [
            one.as_claim()
            for uid, one in self._ledger.claims().items()
            if not allocations_of(self._claims.get(uid) or {})
        ]
        pods = [
            self._as_prototype(key, uids)
            for key, uids in self._claims_of.items()
            if not self._store.is_stale(uids)
            and not all(allocations_of(self._claims[uid]) for uid in uids)
        ]
        claims = [*self._claims.values(), *self._store.unreadable.values(), *reserved]
        objects = [*self._store.states.valid, *self._store.others, *claims, *pods]
        return [ApiObject(obj) for obj in objects]

    def _as_prototype(self, key: Key, uids: t.Sequence[str]) -> MutableObject:
        """The pod with its claims in the prototype's field, near its existing devices."""
        pod = self._pods.by_key[key]
        spec = copy.deepcopy(pod["spec"])
        names = [self._claims[uid]["metadata"]["name"] for uid in uids]
        spec["deviceClaims"] = [{"name": name, "claimName": name} for name in names]
        for node in {node_of(self._claims[uid]) for uid in uids} - {""}:
            affinity = spec.get("affinity") or {}
            near = narrowed(affinity.get("nodeAffinity") or {}, node)
            spec["affinity"] = {**affinity, "nodeAffinity": near}
        return {**pod, "spec": spec}

    def placed(self) -> dict[Key, str]:
        """The nodes of pods that have all devices and no node yet."""
        found: dict[Key, str] = {}
        for key, uids in self._claims_of.items():
            claims = [self._claims[uid] for uid in uids]
            if self._pods.by_key[key]["spec"].get("nodeName") or self._store.is_stale(uids):
                continue
            if not all(map(allocations_of, claims)):
                continue
            found_on = (node_of(one) or self._store.node_of_devices(one) for one in claims)
            nodes = set(filter(None, found_on))
            if len(nodes) == 1:
                found[key] = nodes.pop()
            else:
                said = ", ".join(sorted(nodes)) or "no node"
                text = f"its claims have devices for {said}; it needs one node"
                self.report.refuse("Pod", key, text)
        return found

    def give(self, allocations: t.Sequence[UnitAllocation]) -> list[UnitAllocation]:
        """Reserve in the pools, then write the claims; see ledger.py."""
        reservations: dict[str, Reservation] = {}
        for unit in allocations:
            users = [User.of(self._pods.by_key[key]) for key in unit.pods]
            for claim_result in unit.claims:
                claim = self._claims[claim_result.uid]
                one = Reservation.for_claim(claim, unit.node, users, claim_result.result)
                reservations[claim_result.uid] = one
                self._ledger.enter(one)
        self._store.write_pools()
        whole = self._wholly_reserved(allocations, reservations)
        wanted = {
            one.uid: with_devices(self._claims[one.uid], reservations[one.uid])
            for unit in whole
            for one in unit.claims
        }
        for unit in whole:
            wanted |= self._shared_by(unit, wanted)
        written = self._store.write_claims(wanted)
        for uid in written & reservations.keys():
            claim = self._claims[uid]
            self._store.change("allocated", claim, after=devices_text(claim))
        missing = wanted.keys() - written
        return [
            unit
            for unit in whole
            if missing.isdisjoint(uid for key in unit.pods for uid in self._claims_of[key])
        ]

    def _wholly_reserved(
        self, allocations: t.Sequence[UnitAllocation], reservations: t.Mapping[str, Reservation]
    ) -> list[UnitAllocation]:
        """The units that all their pools have; reservations of other units are removed."""
        whole: list[UnitAllocation] = []
        lost: list[str] = []
        for unit in allocations:
            pools = [pool for one in unit.claims for pool in reservations[one.uid].pools]
            if self._store.is_stale(pools):
                lost += [one.uid for one in unit.claims]
            else:
                whole.append(unit)
        for uid in lost:
            self._ledger.remove(uid)
        if lost:
            self._store.write_pools()
        return whole

    def _shared_by(
        self, unit: UnitAllocation, wanted: t.Mapping[str, MutableObject]
    ) -> dict[str, MutableObject]:
        """Claims of the unit's pods that have devices already, with the pods as users."""
        found: dict[str, MutableObject] = {}
        for key in unit.pods:
            user = User.of(self._pods.by_key[key])
            for uid in self._claims_of[key]:
                if uid in {one.uid for one in unit.claims}:
                    continue
                status = found.get(uid) or wanted.get(uid) or self._claims[uid].get("status") or {}
                users = User.listed(status.get("reservedFor"))
                if user not in users:
                    found[uid] = used_by(self._claims[uid], [*users, user])
        return found

    def take_back(self, pods: t.Sequence[Key]) -> None:
        """Release the devices of pods that did not get their node."""
        wanted: dict[str, MutableObject] = {}
        for key in pods:
            user = User.of(self._pods.by_key[key])
            for uid in self._claims_of[key]:
                claim = self._claims[uid]
                left = [one for one in users_of(claim) if one != user]
                reason = ("NodeRefused", f"the node did not accept pod {key[1]}")
                wanted[uid] = used_by(claim, left) if left else without_devices(claim, *reason)
        before = {uid: devices_text(self._claims[uid]) for uid in wanted}
        for uid in self._store.write_claims(wanted):
            if not allocations_of(self._claims[uid]):
                self._ledger.remove(uid)
                self._store.change("released", self._claims[uid], before[uid])
        if wanted:
            self._store.write_pools()

    def explain(self, reasons: t.Mapping[Key, str]) -> None:
        """Set the condition Allocated of claims that get nothing, and conditions of pods."""
        if self.report.contended:
            return
        wanted: dict[str, MutableObject] = {}
        for key, reason in reasons.items():
            for uid in self._claims_of.get(key, ()):
                claim = self._claims[uid]
                if not allocations_of(claim) and uid not in self._store.stale:
                    wanted[uid] = without_devices(claim, "Unsatisfiable", reason)
        self._store.write_claims(wanted)
        pods = self._pods.by_key
        unplaced = [
            Unplaced(*key, reason, pods[key]["metadata"]["uid"])
            for key, reason in reasons.items()
            if is_pending(pods[key], self._pods.scheduler_name)
        ]
        self.report.explain(self._kube, self._context, unplaced)


class Recovery:
    """Writes of one attempt before it allocates; ``claims_of`` has the claims of waiting pods."""

    def __init__(self, store: Store, pods: Pods, claims_of: t.Mapping[Key, list[str]]) -> None:
        self._store, self._pods, self._claims_of = store, pods, claims_of
        self._claims, self._ledger = store.claims, store.ledger

    def run(self) -> None:
        """Finish or undo interrupted allocations, and release. Raises ApiError."""
        self._forget_ended_pods()
        self._settle_open()
        self._clean_ledger()
        self._join_users()

    def _forget_ended_pods(self) -> None:
        """Release claims whose last pod has ended; claims that no run of ours allocated stay."""
        wanted: dict[str, MutableObject] = {}
        released: list[str] = []
        for uid, claim in self._claims.items():
            users = users_of(claim)
            alive = [user for user in users if self._is_alive(claim, user)]
            if len(alive) == len(users):
                continue
            wanted[uid] = used_by(claim, alive)
            if not alive and allocations_of(claim):
                reason = ("Released", f"{named(users)} ended")
                wanted[uid] = without_devices(claim, *reason)
                released.append(uid)
        before = {uid: devices_text(self._claims[uid]) for uid in released}
        for uid in self._store.write_claims(wanted) & set(released):
            self._store.change("released", self._claims[uid], before[uid])

    def _is_alive(self, claim: MutableObject, user: User) -> bool:
        return self._pods.is_alive(claim["metadata"]["namespace"], user.uid)

    def _settle_open(self) -> None:
        """Allocate complete reservations of waiting pods; void incomplete ones by a new version."""
        opened = {
            uid: reservation
            for uid, reservation in self._ledger.claims().items()
            if uid in self._claims
            and self._state(reservation) == "open"
            and self._is_ours(reservation)
        }
        whole = {uid for uid, one in opened.items() if self._ledger.is_complete(one)}
        finished = {
            uid
            for uids in self._claims_of.values()
            if all(uid in whole or allocations_of(self._claims[uid]) for uid in uids)
            for uid in uids
            if uid in whole
        }
        wanted = {
            uid: with_devices(self._claims[uid], one)
            if uid in finished
            else without_devices(
                self._claims[uid],
                "Interrupted",
                f"the reservation for version {one.version} was released",
            )
            for uid, one in opened.items()
        }
        for uid in self._store.write_claims(wanted):
            after = devices_text(self._claims[uid])
            if not after:
                self._ledger.remove(uid)
                after = "released the reservation of an interrupted run"
            self._store.change("repaired", self._claims[uid], after=after)

    def _is_ours(self, reservation: Reservation) -> bool:
        """Whether all its pods wait for this run; other runs handle their own open reservations."""
        alive = [
            (reservation.namespace, user.name)
            for user in reservation.users
            if self._pods.is_alive(reservation.namespace, user.uid)
        ]
        return self._claims_of.keys() >= set(alive)

    def _state(self, reservation: Reservation) -> str:
        if reservation.uid in self._store.unreadable:
            return "kept"
        return state_of(reservation, self._claims.get(reservation.uid), self._pods.is_alive)

    def _clean_ledger(self) -> None:
        """Remove void reservations, and add missing ones of allocated claims."""
        for pool, reservation in self._ledger.all():
            if reservation.uid not in self._store.stale and self._state(reservation) == "void":
                self._ledger.remove(reservation.uid, [pool])
        for uid, claim in self._claims.items():
            if not allocations_of(claim) or uid in self._store.stale:
                continue
            status = claim["status"]
            entered = Reservation.for_claim(
                claim, status.get("nodeName") or "", users_of(claim), status
            )
            for pool in entered.pools & self._ledger.by_pool.keys():
                if uid not in self._ledger.by_pool[pool]:
                    self._ledger.by_pool[pool][uid] = entered

    def _join_users(self) -> None:
        """Add later pods to the users of claims that have their devices."""
        wanted: dict[str, MutableObject] = {}
        for key, uids in list(self._claims_of.items()):
            pod = self._pods.by_key[key]
            user = User.of(pod)
            if not all(allocations_of(self._claims[uid]) for uid in uids):
                continue
            elsewhere = {node_of(self._claims[uid]) for uid in uids} - {
                "",
                pod["spec"].get("nodeName"),
            }
            if pod["spec"].get("nodeName") and elsewhere:
                text = f"the devices of its claims are on another node, {elsewhere.pop()}"
                self._store.report.refuse("Pod", key, text)
                continue
            for uid in uids:
                listed = wanted.get(uid) or self._claims[uid]["status"]
                users = User.listed(listed.get("reservedFor"))
                if user not in users:
                    wanted[uid] = used_by(self._claims[uid], [*users, user])
        for uid in self._store.write_claims(wanted):
            names = named(users_of(self._claims[uid]))
            self._store.change("reserved", self._claims[uid], after=f"for {names}")
