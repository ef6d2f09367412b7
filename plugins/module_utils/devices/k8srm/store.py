# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The prototype's objects of a cluster as read, and writes of their statuses.

Each write carries the resource version that was read. An object that another client wrote meanwhile
is ``stale``: it is not written, and dependent objects wait for the next attempt.
"""

from __future__ import annotations

import copy
import functools
import typing as t

from ...base.context import Context
from ...base.errors import ApiError, InvalidInput
from ...base.json_types import MutableObject
from ...kube.apply.patches import with_transition_times
from ...kube.client import Kube
from ...snapshot import snapshot
from ..adapter.cluster import Action, Report
from ..model.findings import ApiObject, Defect, Findings, Key
from ..model.model import HeldDevice, Instance
from ..model.usage import Usage
from .ledger import (
    Ledger,
    allocations_of,
    check_claim,
    check_conditions,
    check_reservations,
    key_of,
    with_condition,
)
from .pools import Pools
from .reader import CLAIM_KINDS, KINDS, VERSION
from .status import held_devices, held_for_safety

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Valid",
    "message": "the devices of the pool can be allocated",
}


class Store:
    """Pools by name and claims by uid; ``stale`` has such names and uids."""

    def __init__(self, kube: Kube, context: Context) -> None:
        # Pools first, so that a pool never shows less than the claims have.
        collections = [kube.resource(VERSION, kind).collection() for kind in KINDS]
        listing = functools.partial(kube.list, trim=snapshot.trim_device_object)
        objects = [listing(collections[0]), *kube.in_parallel(listing, collections[1:])]
        listed = dict(zip(KINDS, objects))
        self.report = Report()
        # Unreadable objects are not written, and an unreadable pool gives nothing.
        sound = [pool for pool in listed["DevicePool"] if self._is_sound(pool, check_pool)]
        self.pools = {pool["metadata"]["name"]: pool for pool in sound}
        self.states = PoolStates(self.pools.values())
        self.ledger = Ledger.of(self.pools.values())
        self.others = [*listed["DeviceClass"], *listed["DeviceDriver"]]
        self.claims: dict[str, MutableObject] = {}
        self.unreadable: dict[str, MutableObject] = {}
        self.stale: set[str] = set()
        self._kube = kube
        self._context = context
        self._uids: dict[tuple[str, Key], str] = {}
        for kind in CLAIM_KINDS:
            for claim in listed[kind]:
                if self._is_sound(claim, check_claim):
                    self._remember(claim)
                else:
                    self.unreadable[claim["metadata"]["uid"]] = claim

    def _is_sound(self, obj: MutableObject, check: t.Callable[[ApiObject], None]) -> bool:
        return not isinstance(self.report.read(ApiObject(obj), check), Defect)

    def _remember(self, claim: MutableObject) -> None:
        uid = claim["metadata"]["uid"]
        self.claims[uid] = claim
        self._uids[claim["kind"], key_of(claim)] = uid

    def find(self, namespace: str, name: str) -> MutableObject | None:
        """A claim of either kind; a DeviceClaim if both have the name.

        Raises InvalidInput if it cannot be read.
        """
        if any(key_of(claim) == (namespace, name) for claim in self.unreadable.values()):
            raise InvalidInput(f"the claim {namespace}/{name} cannot be read; see findings")
        for kind in CLAIM_KINDS:
            uid = self._uids.get((kind, (namespace, name)))
            if uid is not None:
                return self.claims[uid]
        return None

    def is_stale(self, uids: t.Collection[str]) -> bool:
        """Whether another client wrote one of these."""
        return not self.stale.isdisjoint(uids)

    def node_of_devices(self, claim: MutableObject) -> str:
        """The node of devices that were allocated by hand; "" for network devices."""
        pools = [self.pools.get(item["devicePoolName"], {}) for item in allocations_of(claim)]
        nodes = {(pool.get("spec") or {}).get("nodeName") or "" for pool in pools} - {""}
        return nodes.pop() if len(nodes) == 1 else ""

    def stored(self, claim: MutableObject) -> MutableObject:
        """The claim as it is; a claim without uid is made first. Raises ApiError."""
        if "uid" in claim["metadata"]:
            return claim
        key = key_of(claim)
        if self._context.check_mode:
            made = copy.deepcopy(claim)
            made["metadata"] |= {"uid": f"not made yet: {'/'.join(key)}", "resourceVersion": "0"}
        else:
            path = self._kube.resource(VERSION, "DeviceClaim").collection(key[0])
            made = self._kube.request("POST", path, claim)
        self._remember(made)
        self.change("created", made, after="as the pod asks")
        return made

    def write_claims(self, wanted: t.Mapping[str, MutableObject]) -> set[str]:
        """Write statuses of claims, by uid; return the claims with the wanted status."""
        items = [(uid, status) for uid, status in wanted.items() if uid not in self.stale]

        def write(item: tuple[str, MutableObject]) -> bool:
            uid, status = item
            stored = self._write_status(self.claims[uid], status)
            if stored is None:
                self.stale.add(uid)
                return False
            self.claims[uid] = stored
            return True

        done = self._kube.in_parallel(write, items)
        return {uid for (uid, _status), success in zip(items, done) if success}

    def write_pools(self) -> None:
        """Write the ledger, with the free devices of each pool."""
        available = self.states.available(self.ledger)

        def write(name: str) -> None:
            pool = self.pools[name]
            status = {
                **(pool.get("status") or {}),
                "conditions": with_condition(pool, self.states.condition(name)),
                "reservations": self.ledger.entries(name),
            }
            if name in available:
                status["availableDevices"] = available[name]
            stored = self._write_status(pool, status)
            if stored is None:
                self.stale.add(name)
            else:
                self.pools[name] = stored

        self._kube.in_parallel(write, [name for name in self.pools if name not in self.stale])

    def _write_status(self, obj: MutableObject, status: MutableObject) -> MutableObject | None:
        """The stored object; None if another client wrote it, or the write failed."""
        before = obj.get("status") or {}
        status = {**status, "observedGeneration": obj["metadata"].get("generation") or 0}
        status = with_transition_times(status, before, self._context.now())
        status = {name: value for name, value in status.items() if value not in ([], {}, None, "")}
        if status == before:
            return obj
        if self._context.check_mode:
            return {**obj, "status": status}
        namespace, name = key_of(obj)
        path = self._kube.resource(VERSION, obj["kind"]).path(name, namespace) + "/status"
        try:
            stored = self._kube.request("PUT", path, {**obj, "status": status})
        except ApiError as error:
            self.report.note_failure(error, obj["kind"], (namespace, name))
            return None
        return snapshot.trim_device_object(stored)

    def change(self, action: Action, obj: MutableObject, before: str = "", after: str = "") -> None:
        """Note a change for the user."""
        self.report.change(action, obj["kind"], key_of(obj), before, after)


def check_pool(obj: ApiObject) -> None:
    """Raise for a pool whose status cannot be read; PoolStates checks its devices."""
    check_reservations(obj)
    check_conditions(obj)


class PoolStates:
    """The readable pools, and by name the reasons why others are unreadable."""

    def __init__(self, pools: t.Iterable[MutableObject]) -> None:
        self.problems: dict[str, str] = {}
        self.valid: list[MutableObject] = []
        self._read = Pools(Findings(), frozenset())
        for pool in pools:
            problem = ApiObject(pool).attempt(self._read.add)
            if isinstance(problem, Defect):
                self.problems[pool["metadata"]["name"]] = str(problem)
            else:
                self.valid.append(pool)

    def available(self, ledger: Ledger) -> dict[str, int]:
        """Number of devices that a claim could have, for each readable pool."""
        usage = Usage(self._instance(ledger))
        counts = {pool["metadata"]["name"]: 0 for pool in self.valid}
        for index, device in enumerate(self._read.devices):
            if usage.in_use(index) or not usage.counters_allow(index):
                continue
            left = [usage.left(index, name) > 0 for name in device.capacities]
            if not device.shareable or device.access or any(left):
                counts[device.pool] += 1
        return counts

    def _instance(self, ledger: Ledger) -> Instance:
        held: list[HeldDevice] = []
        taken: set[int] = set()
        for reservation in ledger.claims().values():
            claim = ApiObject(reservation.as_claim())
            found = claim.attempt(held_devices, self._read, taken)
            if isinstance(found, Defect):
                # The pool changed under its users; the claim's reader reports it.
                found = held_for_safety(claim, self._read, taken)
            held += found
            taken.update(one.device for one in found)
        devices, counters = tuple(self._read.devices), tuple(self._read.counters)
        return Instance((), devices, counters, (), (), (), tuple(held))

    def condition(self, name: str) -> t.Mapping[str, str]:
        """The pool's condition Ready."""
        if name not in self.problems:
            return READY
        return {**READY, "status": "False", "reason": "Invalid", "message": self.problems[name]}
