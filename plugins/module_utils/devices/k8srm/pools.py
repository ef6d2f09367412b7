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

from ...base.boundary import InvalidField, shown
from ...base.errors import InvalidInput
from ...base.json_types import Object
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
from ..model.fields import at_most, items_of, mapping_of
from ..model.findings import ApiObject, Findings, likely_name
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
    """Content of all pools, in the order in which they are listed."""

    findings: Findings
    every_node: frozenset[str]
    devices: list[Device] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    counted: set[str] = field(default_factory=set)

    def add(self, obj: ApiObject) -> None:
        """Read one DevicePool; nothing of a refused pool stays. Raises InvalidInput."""
        before = len(self.devices), len(self.counters), len(self.names)
        try:
            self._read(obj)
        except BaseException:
            del self.devices[before[0] :]
            del self.counters[before[1] :]
            del self.names[before[2] :]
            self.counted.discard(obj.name)
            raise

    def _read(self, obj: ApiObject) -> None:
        spec = mapping_of(obj, obj.manifest.get("spec"), "spec")
        self.findings.unknown_fields(obj, spec, _POOL_FIELDS, "spec")
        self.findings.refuse_if_serious(obj)
        driver = spec.get("driver")
        if not isinstance(driver, str) or not driver:
            raise obj.error("spec.driver", "the driver is missing; name one")
        node = spec.get("nodeName")
        if node is not None and not isinstance(node, str):
            raise obj.error("spec.nodeName", f"{shown(node)} is not the name of a node")
        nodes = frozenset([node]) if node else self.every_node
        shared = self._counters(obj, driver, spec)
        base = attributes_of(obj, spec.get("attributes"), "spec.attributes")
        self.names.append(obj.name)
        for index, device in enumerate(_devices(obj, spec, self)):
            where = f"spec.devices[{index}]"
            own = attributes_of(obj, device.get("attributes"), f"{where}.attributes")
            self.devices.append(
                Device(
                    driver,
                    obj.name,
                    str(device["name"]),
                    nodes,
                    attributes={**base, **own},
                    consumes=_consumption(obj, device, shared, self.counters, where),
                    **self._own_resources(obj, device, where),
                )
            )

    def _counters(self, obj: ApiObject, driver: str, spec: Object) -> dict[str, tuple[int, int]]:
        """Position and block size of each resource that the pool's devices share."""
        found: dict[str, tuple[int, int]] = {}
        for name in ("resources", "sharedResources"):
            where = f"spec.{name}"
            for resource in _resources(obj, spec.get(name), where, self.findings):
                place = f"{where}.{resource['name']}"
                block = demand_of(resource.get("blockSize", "1"), f"{place}.blockSize")
                capacity = supply_of(resource.get("capacity"), f"{place}.capacity")
                found[resource["name"]] = len(self.counters), max(1, block)
                self.counters.append(Counter(driver, obj.name, "", resource["name"], capacity))
        return found

    def _own_resources(self, obj: ApiObject, device: Object, where: str) -> dict[str, t.Any]:
        """The amounts that claims can have of the device itself."""
        capacities: dict[str, Capacity] = {}
        access: dict[str, Access] = {}
        for name in ("resources", "claimResourcesProvided"):
            for resource in _resources(obj, device.get(name), f"{where}.{name}", self.findings):
                place = f"{where}.{name}.{resource['name']}"
                if "accessMode" in resource:
                    access[resource["name"]] = _access(resource["accessMode"], place)
                else:
                    capacities[resource["name"]] = _capacity(resource, place)
        return {"capacities": capacities, "access": access, "shareable": bool(capacities or access)}


def _devices(obj: ApiObject, spec: Object, pools: Pools) -> t.Sequence[Object]:
    listed, count = spec.get("devices"), spec.get("count")
    if listed is None:
        # Upstream's encoder leaves a count of zero out.
        count = 0 if count is None else count
        if isinstance(count, bool) or not isinstance(count, int) or count > _MAX_DEVICES:
            raise obj.error(
                "spec.count", f"{shown(count)} is not a number of devices up to {_MAX_DEVICES}"
            )
        pools.counted.add(obj.name)
        return [{"name": str(number)} for number in range(max(0, count))]
    if not isinstance(listed, list) or len(listed) > _MAX_DEVICES:
        raise obj.error("spec.devices", f"must be a list of up to {_MAX_DEVICES} devices")
    if count is not None and count != len(listed):
        problem = f"it is {shown(count)}, but {len(listed)} devices are listed"
        raise obj.error("spec.count", problem)
    names: set[str] = set()
    for index, device in enumerate(listed):
        where = f"spec.devices[{index}]"
        name = mapping_of(obj, device, where).get("name")
        if not isinstance(name, str) or not name:
            raise obj.error(f"{where}.name", "the name is missing")
        if name in names:
            raise obj.error(f"{where}.name", f"{name!r} is also the name of another device")
        names.add(name)
        pools.findings.unknown_fields(obj, device, _DEVICE_FIELDS, where)
    pools.findings.refuse_if_serious(obj)
    return listed


def _consumption(
    obj: ApiObject,
    device: Object,
    shared: t.Mapping[str, tuple[int, int]],
    counters: t.Sequence[Counter],
    where: str,
) -> tuple[tuple[int, int], ...]:
    """Consumption of the pool's resources by a device: position of the counter and amount."""
    found: dict[int, int] = {}
    for name in ("requests", "sharedResourcesConsumed"):
        for resource, wanted in amounts_of(obj, device.get(name), f"{where}.{name}").items():
            place = f"{where}.{name}.{resource}"
            if resource not in shared:
                meant = likely_name(resource, shared)
                raise obj.error(
                    place,
                    "the pool has no such resource, so that no limit would ever bind"
                    + (f"; probably {meant} is meant" if meant else ""),
                )
            counter, block = shared[resource]
            amount = rounded_up(demand_of(wanted, place), block)
            if amount > counters[counter].capacity:
                raise obj.error(place, f"{wanted} is more than the pool has")
            found[counter] = amount
    return tuple(sorted(found.items()))


def attributes_of(obj: ApiObject, value: t.Any, where: str) -> dict[str, Attribute]:
    """Attributes by name, from a list of names with typed values. Raises InvalidInput."""
    found: dict[str, Attribute] = {}
    items = items_of(obj, value, where)
    if len(items) > _MAX_ATTRIBUTES:
        raise obj.error(where, f"{len(items)} attributes; the limit is {_MAX_ATTRIBUTES}")
    for index, item in enumerate(items):
        name = item.get("name")
        if not isinstance(name, str) or not name or not is_short_text(name, _MAX_TEXT_LENGTH):
            raise obj.error(f"{where}[{index}].name", "the name is missing or too long")
        found[name] = _attribute(obj, item, f"{where}[{index}]")
    return found


def _attribute(obj: ApiObject, item: Object, where: str) -> Attribute:
    kinds = [key for key in item if key != "name" and item[key] is not None]
    if len(kinds) != 1:
        raise obj.error(where, f"an attribute has exactly one value, not {len(kinds)}")
    [kind] = kinds
    value, place = item[kind], f"{where}.{kind}"
    if kind in _SCALARS:
        return scalar_of(value, _SCALARS[kind], _MAX_TEXT_LENGTH, place)
    if kind in ("quantityValue", "quantity"):
        return Quantity(parse_quantity(value, place))
    if kind in ("semVerValue", "versionValue", "version"):
        return parse_version(value, place)
    raise obj.error(
        f"{where}.{kind}",
        "there is no such type of attribute; write stringValue, intValue, quantityValue or "
        "semVerValue",
    )


def _capacity(resource: Object, where: str) -> Capacity:
    """A resource with capacity and block size, or one of model 2's kinds of it."""
    kind = next((name for name in ("counter", "quantity", "block") if name in resource), None)
    body = resource if kind is None else resource[kind]
    if not isinstance(body, dict):
        raise InvalidInput(f"{where}.{kind}: must be a mapping with a capacity")
    default = "1m" if kind == "quantity" else "1"
    block = demand_of(body.get("blockSize", body.get("size", default)), f"{where}: block size")
    amount = supply_of(body.get("capacity"), f"{where}: capacity")
    return Capacity(amount, default=0, step=max(1, block))


def _access(body: t.Any, where: str) -> Access:
    """Allowed modes, and how often each is in use, both by model 2's names."""
    if not isinstance(body, dict):
        raise InvalidInput(f"{where}.accessMode: must be a mapping of what is allowed and in use")
    allows = {
        "ReadOnlyShared": "allowReadOnlyShared",
        "ReadWriteShared": "allowReadWriteShared",
        "WriteExclusive": "allowWriteExclusive",
    }
    allowed = {mode for mode, key in allows.items() if body.get(key)} | {"ReadWriteExclusive"}
    counts = {mode: body.get(mode[0].lower() + mode[1:], 0) for mode in ACCESS_MODES}
    for mode, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**31:
            raise InvalidField(
                f"{where}.accessMode.{mode}", f"{shown(count)} is not a number of uses"
            )
    return Access(frozenset(allowed), {mode: count for mode, count in counts.items() if count})


def _resources(
    obj: ApiObject, value: t.Any, where: str, findings: Findings
) -> t.Iterator[dict[str, t.Any]]:
    """Resources from a list or, as some samples write them, from a mapping of amounts."""
    if isinstance(value, dict):
        findings.add(obj, where, "is a mapping", "a list of name and capacity", serious=False)
        value = [{"name": name, "capacity": amount} for name, amount in value.items()]
    names: set[str] = set()
    items = at_most(obj, items_of(obj, value, where), _MAX_RESOURCES, "resources", where)
    for index, item in enumerate(items):
        findings.unknown_fields(obj, item, _RESOURCE_FIELDS, f"{where}[{index}]")
        findings.refuse_if_serious(obj)
        name = item.get("name")
        if not isinstance(name, str) or not name or name in names:
            raise obj.error(
                f"{where}[{index}].name", f"{shown(name)} is not a name or is listed twice"
            )
        names.add(name)
        yield dict(item)


def amounts_of(obj: ApiObject, value: t.Any, where: str) -> dict[str, t.Any]:
    """Amounts by name, from a mapping or a list of name and capacity."""
    if isinstance(value, list):
        return {
            str(item.get("name")): item.get("capacity", item.get("amount"))
            for item in items_of(obj, value, where)
        }
    return mapping_of(obj, value, where)
