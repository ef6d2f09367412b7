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
from ...base.libraries import yaml
from ...cel.values import demand_of, quantity_text
from ..model.findings import ApiObject, Field
from ..model.model import Amounts, ClaimAllocation, Device, HeldDevice, Instance
from ..model.usage import ACCESS_MODES
from .claims import Origin
from .classes import configs_of
from .pools import Pools

_KEYS_OF_A_NODE = ("DeviceClaimResults", "NodeName")


def held_devices(obj: ApiObject, pools: Pools, taken: t.AbstractSet[int]) -> list[HeldDevice]:
    """The devices in the status of a claim. Raises InvalidInput."""
    held: list[HeldDevice] = []
    for item in obj["status"]["allocations"].items():
        amounts = _amounts(item)
        admin = obj.kind == "DevicePrivilegedClaim" or bool(item.value.get("adminAccess"))
        held += [
            HeldDevice(device, _portions(pools.devices[device], amounts), admin)
            for device in _devices(item, pools, taken)
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


def _devices(item: Field, pools: Pools, taken: t.AbstractSet[int]) -> list[int]:
    pool = item.value.get("devicePoolName")
    there = [index for index, device in enumerate(pools.devices) if device.pool == pool]
    given_names = [one.value.get("deviceName") for one in (*item["allocations"].items(), item)]
    if not all(name is None or isinstance(name, str) for name in given_names):
        raise item.error("deviceName must be a text")
    names = [name for name in given_names if name]
    if pool in pools.counted or not names:
        count = item.value.get("deviceCount", len(names) or 1)
        free = [index for index in there if index not in taken]
        if not isinstance(count, int) or not 0 <= count <= len(free):
            problem = f"it has {shown(count)} devices of pool {shown(pool)}, which do not exist"
            raise item.error(problem)
        return free[:count]
    found = [index for index in there if pools.devices[index].name in names]
    if len(found) != len(set(names)):
        raise item.error(f"pool {shown(pool)} has no device {', '.join(map(str, names))}")
    return found


def _amounts(item: Field) -> dict[str, int]:
    found: dict[str, int] = {}
    listed = item["allocations"]
    for part in (each.value for each in listed.items()):
        if "name" not in part:
            continue
        name, amount = str(part["name"]), part.get("allocation")
        if amount in ACCESS_MODES:
            found[f"{name}={amount}"] = 1
        else:
            found[name] = demand_of(amount, listed.where)
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

    def of(self, claim: int, allocation: ClaimAllocation) -> dict[str, t.Any]:
        """``allocations``, and the configurations of the claim and its classes, if any."""
        counts: dict[tuple[str, bool], dict[str, t.Any]] = {}
        entries: list[dict[str, t.Any]] = []
        for chosen in allocation.chosen:
            device = self.instance.devices[chosen.device]
            admin = self.instance.claims[claim].alternative(chosen).admin
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
        chosen = dict.fromkeys((one.request, one.alternative) for one in allocation.chosen)
        for request, alternative in chosen:
            detail, device_class = self.origins[claim][request][alternative]
            found["claimConfigs"] += configs_of(detail)
            if device_class is not None:
                found["classConfigs"] += configs_of(device_class.spec)
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


def render(result: Object, verbose: bool) -> str:
    """The result in the prototype's format, `format: k8srm`: allocations and node results.

    The short form has a line for each node, whether it satisfies all claims. The full form is YAML
    with the keys in alphabetical order, as the prototype's.
    """
    allocations = [
        entry for claim in result["allocations"] if claim for entry in claim.get("allocations", [])
    ]
    results = result["node_results"]
    if verbose:
        told = _yaml([{key: one[key] for key in _KEYS_OF_A_NODE} for one in results])
    else:
        told = "".join(f"{_line(one)}\n" for one in results)
    return (
        f"ALLOCATIONS\n-----------\n{_yaml(allocations) if allocations else ''}\n"
        f"NODE RESULTS\n------------\n{told}"
    )


def _line(result: Object) -> str:
    unsatisfied = [
        claim["claimName"] for claim in result["DeviceClaimResults"] if claim["best"] < 0
    ]
    if unsatisfied:
        return f"{result['NodeName']}: could not satisfy these claims: {', '.join(unsatisfied)}"
    return f"{result['NodeName']}: satisfied all claims with score {result['score']}"


def _yaml(value: t.Any) -> str:
    return str(yaml.safe_dump(value, default_flow_style=False, sort_keys=True))
