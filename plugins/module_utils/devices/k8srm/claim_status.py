# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Statuses of claims as values: their users, their devices, or the reason why they have none."""

from __future__ import annotations

import typing as t

from ...base.json_types import MutableObject
from ..model.findings import ApiObject, Key
from .ledger import (
    Reservation,
    User,
    allocations_of,
    check_devices,
    check_texts,
    check_users,
    json_of,
)

_GIVEN_FIELDS = ("allocations", "classConfigs", "claimConfigs", "nodeName")


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
