# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Repair after interrupted runs, and release after ended pods; ledger.py has the protocol."""

from __future__ import annotations

import typing as t

from ...base.json_types import MutableObject
from ..adapter.cluster import Pods
from ..model.findings import Key
from .claim_status import (
    devices_text,
    named,
    node_of,
    used_by,
    users_of,
    with_devices,
    without_devices,
)
from .ledger import Reservation, User, allocations_of, state_of
from .store import Store


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
