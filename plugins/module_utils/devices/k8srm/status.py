# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The status of a DeviceClaim: read as existing allocation, written as a new one."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.boundary import shown
from ...base.fields.lenient import member, objects
from ...base.json_types import Object
from ...cel.values import demand_of, quantity_text
from ..model.fields import items_of, mapping_of
from ..model.findings import ApiObject
from ..model.model import Amounts, ClaimAllocation, Device, HeldDevice, Instance
from ..model.usage import ACCESS_MODES
from .claims import Origin
from .classes import configs_of
from .pools import Pools


def held_devices(obj: ApiObject, pools: Pools, taken: t.AbstractSet[int]) -> list[HeldDevice]:
    """The devices in the status of a claim. Raises InvalidInput."""
    status = mapping_of(obj, obj.manifest.get("status"), "status")
    admin = obj.kind == "DevicePrivilegedClaim"
    held: list[HeldDevice] = []
    for index, item in enumerate(items_of(obj, status.get("allocations"), "status.allocations")):
        where = f"status.allocations[{index}]"
        amounts = _amounts(obj, item, where)
        held += [
            HeldDevice(
                device,
                _portions(pools.devices[device], amounts),
                admin or bool(item.get("adminAccess")),
            )
            for device in _devices(obj, item, pools, taken, where)
        ]
    return held


def held_for_safety(obj: ApiObject, pools: Pools, taken: t.AbstractSet[int]) -> list[HeldDevice]:
    """All devices that a claim with an unreadable status may have, as far as the status names them.

    If a device has no readable name, the whole pool of the entry counts.
    """
    if obj.kind == "DevicePrivilegedClaim":
        return []
    held: list[HeldDevice] = []
    for item in objects(member(obj.manifest, "status", "allocations")):
        pool = item.get("devicePoolName")
        there = [
            index
            for index, device in enumerate(pools.devices)
            if device.pool == pool and index not in taken
        ]
        named = [item.get("deviceName")]
        named += [part.get("deviceName") for part in objects(item.get("allocations"))]
        named = [name for name in named if isinstance(name, str)]
        found = [index for index in there if pools.devices[index].name in named]
        held += [HeldDevice(index, {}, whole=True) for index in found or there]
    return held


def _devices(
    obj: ApiObject, item: Object, pools: Pools, taken: t.AbstractSet[int], where: str
) -> list[int]:
    pool = item.get("devicePoolName")
    there = [index for index, device in enumerate(pools.devices) if device.pool == pool]
    parts = items_of(obj, item.get("allocations"), f"{where}.allocations")
    given_names = [one.get("deviceName") for one in (*parts, item)]
    if not all(name is None or isinstance(name, str) for name in given_names):
        raise obj.error(where, "deviceName must be a text")
    names = [name for name in given_names if name]
    if pool in pools.counted or not names:
        count = item.get("deviceCount", len(names) or 1)
        free = [index for index in there if index not in taken]
        if not isinstance(count, int) or not 0 <= count <= len(free):
            raise obj.error(
                where, f"it has {shown(count)} devices of pool {shown(pool)}, which do not exist"
            )
        return free[:count]
    found = [index for index in there if pools.devices[index].name in names]
    if len(found) != len(set(names)):
        raise obj.error(where, f"pool {shown(pool)} has no device {', '.join(map(str, names))}")
    return found


def _amounts(obj: ApiObject, item: Object, where: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in items_of(obj, item.get("allocations"), f"{where}.allocations"):
        if "name" not in part:
            continue
        name, amount = str(part["name"]), part.get("allocation")
        if amount in ACCESS_MODES:
            found[f"{name}={amount}"] = 1
        else:
            found[name] = demand_of(amount, f"{where}.allocations")
    return found


def _portions(device: Device, amounts: Amounts) -> Amounts:
    if amounts or not device.shareable:
        return amounts
    return {name: capacity.amount for name, capacity in device.capacities.items()}


@dataclass(frozen=True)
class Results:
    """Writes allocations in the form of a DeviceClaim's status."""

    instance: Instance
    counted: frozenset[str]
    origins: t.Sequence[t.Sequence[t.Sequence[Origin]]]
    sources: t.Sequence[ApiObject]

    def of(self, claim: int, allocation: ClaimAllocation) -> dict[str, t.Any]:
        """``allocations``, and the configurations of the claim and its classes, if any."""
        counts: dict[tuple[str, bool], dict[str, t.Any]] = {}
        entries: list[dict[str, t.Any]] = []
        for chosen in allocation.chosen:
            device = self.instance.devices[chosen.device]
            admin = self.instance.alternative(claim, chosen).admin
            looked_at = {"adminAccess": True} if admin else {}
            if device.pool not in self.counted:
                entries.append({**_named(device, chosen.portions), **looked_at})
                continue
            if (device.pool, admin) not in counts:
                entry = {"devicePoolName": device.pool, "deviceCount": 0, **looked_at}
                counts[device.pool, admin] = entry
                entries.append(entry)
            counts[device.pool, admin]["deviceCount"] += 1
        configs = self._configs(claim, allocation)
        return {"allocations": entries, **{key: found for key, found in configs.items() if found}}

    def _configs(self, claim: int, allocation: ClaimAllocation) -> dict[str, list[Object]]:
        """The references to configurations of the chosen alternatives."""
        found: dict[str, list[Object]] = {"classConfigs": [], "claimConfigs": []}
        obj = self.sources[claim]
        for request, alternative in dict.fromkeys(
            (chosen.request, chosen.alternative) for chosen in allocation.chosen
        ):
            detail, device_class = self.origins[claim][request][alternative]
            found["claimConfigs"] += configs_of(obj, detail, "spec")
            if device_class is not None:
                found["classConfigs"] += configs_of(device_class.obj, device_class.spec, "spec")
        return found


def _named(device: Device, portions: Amounts) -> dict[str, t.Any]:
    entry: dict[str, t.Any] = {"devicePoolName": device.pool, "deviceName": device.name}
    parts = []
    for name, amount in portions.items():
        resource, equals, mode = name.partition("=")
        if not amount:
            continue
        parts.append({"name": resource, "allocation": mode if equals else quantity_text(amount)})
    return {**entry, "allocations": parts} if parts else entry
