# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pools of the prototype (devmgmtproto.k8s.io/v1alpha1) as devices and counters.

There are three models: pools that count equal devices, pools of devices that consume resources of
the pool, and the successor's with shared resources. A field identifies the model.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.boundary import shown
from ...base.units import parse_quantity
from ...cel.values import (
    Attribute,
    Quantity,
    demand_of,
    is_short_text,
    parse_version,
    rounded_up,
    scalar_of,
    supply_of,
)
from ..model.findings import ApiObject, Field, Findings, likely_name, too_many
from ..model.model import Access, Capacity, Counter, Device
from ..model.usage import ACCESS_MODES

_POOL_FIELDS = frozenset(
    "nodeName driver attributes count devices resources sharedResources".split()
)
_DEVICE_FIELDS = frozenset(
    "name attributes requests resources sharedResourcesConsumed claimResourcesProvided".split()
)
_RESOURCE_FIELDS = frozenset("name capacity blockSize counter quantity block accessMode".split())
# Far more than any node has; a typo in a count must not exhaust the memory.
_MAX_DEVICES = 10_000
# cel/selector.py bounds evaluations by these.
_MAX_ATTRIBUTES, _MAX_TEXT_LENGTH = 64, 256
_SCALARS: t.Mapping[str, type] = {
    **dict.fromkeys(("stringValue", "string"), str),
    **dict.fromkeys(("intValue", "int"), int),
    **dict.fromkeys(("boolValue", "bool"), bool),
}
# Resources of a pool or a device; an A100 has 15.
_MAX_RESOURCES = 256


@dataclass
class Pools:
    """Content of all pools, in the order in which they are listed: see Task.pools."""

    findings: Findings
    every_node: frozenset[str]
    devices: list[Device] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    pools: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)
    counted: set[str] = field(default_factory=set)

    def add(self, obj: ApiObject) -> None:
        """Read one DevicePool; nothing of a refused pool stays. Raises InvalidInput."""
        before = len(self.devices), len(self.counters), len(self.pools)
        try:
            self._read(obj)
        except BaseException:
            del self.devices[before[0] :]
            del self.counters[before[1] :]
            del self.pools[before[2] :]
            self.counted.discard(obj.name)
            raise

    def _read(self, obj: ApiObject) -> None:
        spec = obj["spec"]
        self.findings.unknown_fields(spec, _POOL_FIELDS)
        self.findings.refuse_if_serious(obj)
        driver, node = spec["driver"], spec["nodeName"]
        if not isinstance(driver.value, str) or not driver.value:
            raise driver.error("the driver is missing; name one")
        if node.value is not None and not isinstance(node.value, str):
            raise node.error(f"{shown(node.value)} is not the name of a node")
        nodes = frozenset([node.value]) if node.value else self.every_node
        shared = self._counters(spec)
        base = attributes_of(spec["attributes"])
        self.pools.append((driver.value, obj.name, nodes))
        for device in self._devices(spec):
            self.devices.append(
                Device(
                    driver.value,
                    obj.name,
                    device.value["name"],
                    nodes,
                    attributes={**base, **attributes_of(device["attributes"])},
                    consumes=_consumption(device, shared, self.counters),
                    **self._own_resources(device),
                )
            )

    def _counters(self, spec: Field) -> dict[str, tuple[int, int]]:
        """Position and block size of each resource that the pool's devices share."""
        found: dict[str, tuple[int, int]] = {}
        for key in ("resources", "sharedResources"):
            for name, resource in self._resources(spec[key]):
                block = demand_of(
                    resource.value.get("blockSize", "1"), f"{resource.where}.blockSize"
                )
                capacity = supply_of(resource.value.get("capacity"), f"{resource.where}.capacity")
                found[name] = len(self.counters), max(1, block)
                pool = str(spec.value["driver"]), spec.obj.name
                self.counters.append(Counter(*pool, "", name, capacity))
        return found

    def _own_resources(self, device: Field) -> dict[str, t.Any]:
        """The amounts that claims can have of the device itself."""
        capacities: dict[str, Capacity] = {}
        access: dict[str, Access] = {}
        for key in ("resources", "claimResourcesProvided"):
            for name, resource in self._resources(device[key]):
                if "accessMode" in resource.value:
                    access[name] = _access(resource["accessMode"])
                else:
                    capacities[name] = _capacity(resource)
        return {"capacities": capacities, "access": access, "shareable": bool(capacities or access)}

    def _devices(self, spec: Field) -> t.Sequence[Field]:
        obj, listed, count = spec.obj, spec["devices"], spec["count"].value
        if listed.value is None:
            # Upstream's encoder leaves a count of zero out.
            count = 0 if count is None else count
            if isinstance(count, bool) or not isinstance(count, int) or count > _MAX_DEVICES:
                problem = f"{shown(count)} is not a number of devices up to {_MAX_DEVICES}"
                raise spec["count"].error(problem)
            self.counted.add(obj.name)
            names = map(str, range(max(0, count)))
            return [Field(obj, f"spec.devices[{name}]", {"name": name}) for name in names]
        if not isinstance(listed.value, list) or len(listed.value) > _MAX_DEVICES:
            raise listed.error(f"must be a list of up to {_MAX_DEVICES} devices")
        if count is not None and count != len(listed.value):
            problem = f"it is {shown(count)}, but {len(listed.value)} devices are listed"
            raise spec["count"].error(problem)
        present: set[str] = set()
        devices = listed.items()
        for device in devices:
            name = device["name"]
            if not isinstance(name.value, str) or not name.value:
                raise name.error("the name is missing")
            if name.value in present:
                raise name.error(f"{name.value!r} is also the name of another device")
            present.add(name.value)
            self.findings.unknown_fields(device, _DEVICE_FIELDS)
        self.findings.refuse_if_serious(obj)
        return devices

    def _resources(self, listed: Field) -> t.Iterator[tuple[str, Field]]:
        """Resources from a list or, as some samples write them, from a mapping of amounts."""
        obj, where = listed.obj, listed.where
        if isinstance(listed.value, dict):
            listed = Field(
                obj,
                where,
                [{"name": name, "capacity": amount} for name, amount in listed.value.items()],
            )
            problem = "is a mapping"
            self.findings.add(obj, where, problem, "a list of name and capacity", serious=False)
        names: set[str] = set()
        for item in listed.items(_MAX_RESOURCES, too_many("resources")):
            self.findings.unknown_fields(item, _RESOURCE_FIELDS)
            self.findings.refuse_if_serious(obj)
            name = item.value.get("name")
            if not isinstance(name, str) or not name or name in names:
                raise item["name"].error(f"{shown(name)} is not a name or is listed twice")
            names.add(name)
            yield name, Field(obj, f"{where}.{name}", item.value)


def _consumption(
    device: Field, shared: t.Mapping[str, tuple[int, int]], counters: t.Sequence[Counter]
) -> tuple[tuple[int, int], ...]:
    """Consumption of the pool's resources by a device: position of the counter and amount."""
    found: dict[int, int] = {}
    for key in ("requests", "sharedResourcesConsumed"):
        for resource, wanted in amounts_of(device[key]).items():
            if resource not in shared:
                meant = likely_name(resource, shared)
                raise wanted.error(
                    "the pool has no such resource, so that no limit would ever bind"
                    + (f"; probably {meant} is meant" if meant else "")
                )
            counter, block = shared[resource]
            amount = rounded_up(wanted.read(demand_of), block)
            if amount > counters[counter].capacity:
                raise wanted.error(f"{wanted.value} is more than the pool has")
            found[counter] = amount
    return tuple(sorted(found.items()))


def attributes_of(listed: Field) -> dict[str, Attribute]:
    """Attributes by name, from a list of names with typed values. Raises InvalidInput."""
    found: dict[str, Attribute] = {}
    for item in listed.items(_MAX_ATTRIBUTES, "{count} attributes; the limit is {most}"):
        name = item["name"].value
        if not isinstance(name, str) or not name or not is_short_text(name, _MAX_TEXT_LENGTH):
            raise item["name"].error("the name is missing or too long")
        found[name] = _attribute(item)
    return found


def _attribute(item: Field) -> Attribute:
    kinds = [key for key, value in item.value.items() if key != "name" and value is not None]
    if len(kinds) != 1:
        raise item.error(f"an attribute has exactly one value, not {len(kinds)}")
    [kind] = kinds
    value, place = item.value[kind], f"{item.where}.{kind}"
    if kind in _SCALARS:
        return scalar_of(value, _SCALARS[kind], _MAX_TEXT_LENGTH, place)
    if kind in ("quantityValue", "quantity"):
        return Quantity(parse_quantity(value, place))
    if kind in ("semVerValue", "versionValue", "version"):
        return parse_version(value, place)
    raise item[kind].error(
        "there is no such type of attribute; write stringValue, intValue, quantityValue or "
        "semVerValue"
    )


def _capacity(resource: Field) -> Capacity:
    """A resource with capacity and block size, or one of model 2's kinds of it."""
    kind = next((name for name in ("counter", "quantity", "block") if name in resource.value), None)
    body = resource.value if kind is None else resource.value[kind]
    if not isinstance(body, dict):
        raise resource[str(kind)].error("must be a mapping with a capacity")
    default = "1m" if kind == "quantity" else "1"
    block = demand_of(
        body.get("blockSize", body.get("size", default)), f"{resource.where}: block size"
    )
    amount = supply_of(body.get("capacity"), f"{resource.where}: capacity")
    return Capacity(amount, default=0, step=max(1, block))


def _access(given: Field) -> Access:
    """Allowed modes, and how often each is in use, both by model 2's names."""
    if not isinstance(given.value, dict):
        raise given.error("must be a mapping of what is allowed and in use")
    allows = {
        "ReadOnlyShared": "allowReadOnlyShared",
        "ReadWriteShared": "allowReadWriteShared",
        "WriteExclusive": "allowWriteExclusive",
    }
    allowed = {mode for mode, key in allows.items() if given.value.get(key)}
    counts = {mode: given.value.get(mode[0].lower() + mode[1:], 0) for mode in ACCESS_MODES}
    for mode, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**31:
            raise given[mode].error(f"{shown(count)} is not a number of uses")
    in_use = {mode: count for mode, count in counts.items() if count}
    return Access(frozenset(allowed | {"ReadWriteExclusive"}), in_use)


def amounts_of(given: Field) -> dict[str, Field]:
    """Amounts by name, from a mapping or a list of name and capacity."""
    amounts = given.value
    if isinstance(amounts, list):
        items = (item.value for item in given.items())
        amounts = {
            str(item.get("name")): item.get("capacity", item.get("amount")) for item in items
        }
    return dict(Field(given.obj, given.where, amounts).members())
