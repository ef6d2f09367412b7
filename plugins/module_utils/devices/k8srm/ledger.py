# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reservations of devices in the statuses of DevicePools, and the statuses of claims.

A claim may have devices of several pools, and the API server writes one object at a time. The
protocol is:

1. A reservation with all devices of the claim is written into each of its pools, with the resource
   version of the pool that was solved with. Two runs that want the same device conflict at its
   pool.
2. The claim's status gets the allocations, with the resource version of the claim that the
   reservations name (``claimVersion``). This write decides.

A reservation of a claim without allocations is *open* as long as the claim has that version: the
run that made it may still do the second step. Another run then does the second step itself if all
pools have the reservation. Otherwise it writes the claim first, so that its version moves and the
first run fails. Only a *void* reservation (the claim has another version and not these devices, or
is gone with its pods) is removed from its pools. So a pool shows all holders of its devices at any
moment.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from ...base.json_types import MutableObject, Object
from ..model.findings import ApiObject, Field, Key

State = t.Literal["kept", "open", "void"]
_RESULT_FIELDS = ("allocations", "classConfigs", "claimConfigs")
_GIVEN_FIELDS = (*_RESULT_FIELDS, "nodeName")
# Texts of a reservation, with their names in a pool.
_STORED = {
    "kind": "kind",
    "namespace": "namespace",
    "name": "name",
    "uid": "claimUID",
    "version": "claimVersion",
    "node": "nodeName",
}


@dataclass(frozen=True)
class User:
    """A pod that uses a claim, in the claim's namespace."""

    name: str
    uid: str

    @classmethod
    def of(cls, pod: MutableObject) -> User:
        """The user entry of this pod."""
        return cls(pod["metadata"]["name"], pod["metadata"]["uid"])

    @classmethod
    def listed(cls, entries: t.Sequence[t.Mapping[str, t.Any]] | None) -> tuple[User, ...]:
        """Users as the API lists them."""
        return tuple(cls(entry["name"], entry["uid"]) for entry in entries or ())


@dataclass(frozen=True)
class Reservation:
    """Devices that a claim has or will get. ``result`` is written into the claim's status."""

    kind: str
    namespace: str
    name: str
    uid: str
    version: str
    node: str
    users: tuple[User, ...]
    result: t.Mapping[str, t.Any]

    @classmethod
    def of(cls, entry: t.Mapping[str, t.Any]) -> Reservation:
        """A reservation as stored in a pool."""
        texts = {field: entry[name] for field, name in _STORED.items()}
        return cls(**texts, users=User.listed(entry.get("pods")), result=_given(entry))

    @classmethod
    def for_claim(
        cls, claim: MutableObject, node: str, users: t.Sequence[User], result: t.Mapping[str, t.Any]
    ) -> Reservation:
        """A reservation for the claim as it was read."""
        metadata = claim["metadata"]
        return cls(
            claim["kind"],
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            metadata["resourceVersion"],
            node,
            tuple(users),
            _given(result),
        )

    @property
    def pools(self) -> frozenset[str]:
        """The names of the pools that have devices for it."""
        return frozenset(item["devicePoolName"] for item in self.result["allocations"])

    def entry(self) -> MutableObject:
        """The form stored in a pool."""
        texts = {name: getattr(self, field) for field, name in _STORED.items()}
        return {**texts, "pods": [vars(user) for user in self.users], **self.result}

    def as_claim(self) -> MutableObject:
        """A claim that has the reserved devices, for the reader."""
        return {
            "apiVersion": "devmgmtproto.k8s.io/v1alpha1",
            "kind": self.kind,
            "metadata": {"name": self.name, "namespace": self.namespace, "uid": self.uid},
            "spec": {},
            "status": {"allocations": self.result["allocations"]},
        }


def _given(result: t.Mapping[str, t.Any]) -> MutableObject:
    """The part of a result that is written."""
    return {name: result[name] for name in _RESULT_FIELDS if result.get(name)}


def check_reservations(obj: ApiObject) -> None:
    """Raise unless each reservation of a pool can be read."""
    for entry in obj["status"]["reservations"].items():
        check_texts(entry, *_STORED.values())
        check_users(entry["pods"])
        check_devices(entry)
        if not entry.value.get("allocations"):
            raise entry["allocations"].error("is missing")
    json_of(obj, obj["status"].mapping())


def check_users(listed: Field) -> None:
    """Raise unless the users of a claim can be read."""
    for user in listed.items():
        check_texts(user, "name", "uid")


def check_devices(entry: Field) -> None:
    """Raise unless the devices in a claim's status or a pool's reservation can be read."""
    for item in entry["allocations"].items():
        check_texts(item, "devicePoolName")
    for name in ("classConfigs", "claimConfigs"):
        entry[name].items()
    if entry["nodeName"].value is not None:
        check_texts(entry, "nodeName")


def check_texts(item: Field, *names: str) -> None:
    """Raise unless these members of the item are texts."""
    for name in names:
        if not isinstance(item[name].value, str):
            raise item[name].error("must be a text")


def json_of(obj: ApiObject, status: Object) -> str:
    """The status in written form; raises if it cannot be read."""
    try:
        return json.dumps(status, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise obj.error("status", "cannot be written back unchanged") from error


def allocations_of(claim: MutableObject) -> list[MutableObject]:
    """The devices of the claim."""
    return (claim.get("status") or {}).get("allocations") or []


def state_of(
    reservation: Reservation, claim: MutableObject | None, is_alive: t.Callable[[str, str], bool]
) -> State:
    """State of a reservation; ``claim`` is the one with its uid, read after the pool."""
    if claim is None:
        used = any(is_alive(reservation.namespace, user.uid) for user in reservation.users)
        return "kept" if used else "void"
    if allocations_of(claim):
        return "kept" if allocations_of(claim) == reservation.result["allocations"] else "void"
    return "open" if claim["metadata"]["resourceVersion"] == reservation.version else "void"


def key_of(obj: MutableObject) -> Key:
    """Namespace and name; "" is the namespace of a cluster-scoped object."""
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]


def check_claim(obj: ApiObject) -> None:
    """Raise for a claim with an unreadable field that a write depends on.

    Fields of the API server itself (name, uid, version) are not checked.
    """
    obj["metadata"]["ownerReferences"].items()
    check_users(obj["status"]["reservedFor"])
    check_devices(obj["status"])
    check_conditions(obj)
    json_of(obj, obj["status"].mapping())


def check_conditions(obj: ApiObject) -> None:
    """Raise unless each condition of the object has a type and its other texts."""
    for item in obj["status"]["conditions"].items():
        check_texts(item, "type", "status")
        if item["lastTransitionTime"].value is not None:
            check_texts(item, "lastTransitionTime")


def node_of(claim: MutableObject) -> str:
    """The node for which the claim has its devices, "" if it is not given."""
    return str((claim.get("status") or {}).get("nodeName") or "")


def users_of(claim: MutableObject) -> list[User]:
    """The pods that use the claim, by its own status."""
    return list(User.listed((claim.get("status") or {}).get("reservedFor")))


def named(users: t.Sequence[User]) -> str:
    """Pods, for people."""
    return ", ".join(f"pod {user.name}" for user in users)


def devices_text(claim: MutableObject) -> str:
    """The devices of a claim, in one line."""
    devices = [
        f"{item['devicePoolName']}/{item['deviceName']}"
        if "deviceName" in item
        else f"{item.get('deviceCount', 1)} of {item['devicePoolName']}"
        for item in allocations_of(claim)
    ]
    return f"{', '.join(devices)} on node {node_of(claim)}" if devices else ""


def used_by(claim: MutableObject, users: t.Sequence[User]) -> MutableObject:
    """The claim's status with these pods as its users."""
    return {
        **(claim.get("status") or {}),
        "podNames": sorted({user.name for user in users}),
        "reservedFor": [vars(user) for user in sorted(users, key=lambda one: (one.name, one.uid))],
    }


def with_devices(claim: MutableObject, reservation: Reservation) -> MutableObject:
    """The claim's status with its reserved devices."""
    node = reservation.node
    condition = _allocated("True", "Allocated", f"the devices are for node {node}")
    return {
        **used_by(claim, reservation.users),
        **reservation.result,
        "nodeName": node,
        "conditions": with_condition(claim, condition),
    }


def without_devices(claim: MutableObject, reason: str, message: str) -> MutableObject:
    """The claim's status without devices and users."""
    status = used_by(claim, ())
    kept = {name: value for name, value in status.items() if name not in _GIVEN_FIELDS}
    return {**kept, "conditions": with_condition(claim, _allocated("False", reason, message))}


def _allocated(status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": "Allocated", "status": status, "reason": reason, "message": message}


def with_condition(obj: MutableObject, condition: t.Mapping[str, str]) -> list[t.Mapping[str, str]]:
    """The object's conditions with this one in place of its former one."""
    stored = (obj.get("status") or {}).get("conditions") or []
    return [*(one for one in stored if one["type"] != condition["type"]), condition]


@dataclass
class Ledger:
    """The reservations of all pools, by pool and uid of the claim."""

    by_pool: dict[str, dict[str, Reservation]] = field(default_factory=dict)

    @classmethod
    def of(cls, pools: t.Iterable[MutableObject]) -> Ledger:
        """The ledger from the pools."""
        return cls(
            {
                pool["metadata"]["name"]: {
                    entry["claimUID"]: Reservation.of(entry)
                    for entry in (pool.get("status") or {}).get("reservations") or ()
                }
                for pool in pools
            }
        )

    def all(self) -> list[tuple[str, Reservation]]:
        """Every reservation with its pool."""
        return [(pool, one) for pool, entries in self.by_pool.items() for one in entries.values()]

    def claims(self) -> dict[str, Reservation]:
        """One reservation of each claim, by uid."""
        return {reservation.uid: reservation for _pool, reservation in self.all()}

    def enter(self, reservation: Reservation) -> None:
        """Write it into each of its pools, in place of the claim's former reservation."""
        for pool in reservation.pools & self.by_pool.keys():
            self.by_pool[pool][reservation.uid] = reservation

    def remove(self, uid: str, pools: t.Collection[str] | None = None) -> None:
        """Remove the reservations of a claim from all pools or from these."""
        for pool in self.by_pool if pools is None else pools:
            self.by_pool[pool].pop(uid, None)

    def is_complete(self, reservation: Reservation) -> bool:
        """Whether each of its pools has it."""
        return all(
            self.by_pool.get(pool, {}).get(reservation.uid) == reservation
            for pool in reservation.pools
        )

    def entries(self, pool: str) -> list[MutableObject]:
        """Reservations of the pool, in an order independent of the order of writes."""
        return [
            reservation.entry()
            for reservation in sorted(
                self.by_pool[pool].values(), key=lambda one: (one.namespace, one.name, one.uid)
            )
        ]
