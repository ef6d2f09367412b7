# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""ResourceSlices of resource.k8s.io/v1 as devices in published order, with their counters.

Upstream's rules: of a pool only the slices of the latest generation count; a pool that lacks slices
is incomplete and gives nothing; one that contradicts itself is invalid and gives nothing. A field
that is not known here makes its device unusable, by name: it may say who must not have it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ansible_collections.wattwise.kube.plugins.module_utils.devices import dra_values
from ansible_collections.wattwise.kube.plugins.module_utils.devices.findings import (
    Findings,
    Given,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.k8srm_pools import (
    Json,
    items_of,
    mapping_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model import (
    Counter,
    Device,
    Node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.node_selector import selected
from ansible_collections.wattwise.kube.plugins.module_utils.devices.values import (
    demand_of,
    supply_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import Taint

PoolKey = tuple[str, str]

_SLICE_FIELDS = frozenset(
    "driver pool nodeName nodeSelector allNodes perDeviceNodeSelection devices "
    "sharedCounters".split()
)
_DEVICE_FIELDS = frozenset(
    "name attributes capacity consumesCounters allowMultipleAllocations taints bindingConditions "
    "bindingFailureConditions bindsToNode nodeName nodeSelector allNodes".split()
)
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes")
_MOST_DEVICES, _MOST_DEVICES_WITH_MORE = 128, 64
_MOST_SETS, _MOST_COUNTERS, _MOST_CONSUMPTIONS, _MOST_VALUES = 8, 32, 2, 32
# The fields that halve the number of devices that a slice may hold.
_COSTLY_FIELDS = ("taints", "consumesCounters")


@dataclass(frozen=True)
class Published:
    """What a device says beside what every allocator needs; ``unusable`` is why nobody gets it."""

    taints: tuple[Taint, ...] = ()
    unusable: str = ""
    local: bool = False
    selector: t.Any = None


@dataclass
class Slices:
    """All devices in published order, with what else is known of them by position."""

    findings: Findings
    nodes: tuple[Node, ...]
    devices: list[Device] = field(default_factory=list)
    published: list[Published] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    pools: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)
    unsettled: dict[str, str] = field(default_factory=dict)

    @cached_property
    def positions(self) -> dict[tuple[str, str, str], int]:
        """Positions of devices by driver, pool and name, when all slices are read."""
        return {
            (device.driver, device.pool, device.name): index
            for index, device in enumerate(self.devices)
        }

    def read(self, slices: t.Sequence[Given]) -> None:
        """Read all slices."""
        pools: dict[PoolKey, list[Given]] = {}
        for given in slices:
            spec = mapping_of(given, given.manifest.get("spec"), "spec")
            pool = mapping_of(given, spec.get("pool"), "spec.pool")
            if not spec.get("driver") or not pool.get("name"):
                self.findings.add(given, "spec", "the driver or the pool's name is missing")
                continue
            pools.setdefault((str(spec["driver"]), str(pool["name"])), []).append(given)
        latest = [(key, _latest(pools[key])) for key in pools]
        latest.sort(key=lambda item: (_has_binding_conditions(item[1]), item[0]))
        for key, current in latest:
            self._add_pool(key, current)

    def _add_pool(self, key: PoolKey, slices: list[Given]) -> None:
        reason = self._fault(key, slices)
        counters: dict[tuple[str, str], int] = {}
        try:
            for given in slices:
                self._add_counters(key, given, counters)
        except InvalidInput as error:
            self.findings.add(slices[0], "spec.sharedCounters", str(error))
            reason = reason or f"pool {key[1]} is invalid"
        reached: frozenset[str] = frozenset()
        for given in slices:
            spec = given.manifest["spec"]
            base = self._reach(given, spec, "spec")
            for index, device in enumerate(spec.get("devices") or []):
                where = f"spec.devices[{index}]"
                reached |= self._add_device(key, given, device, where, base, counters, reason)
        self.pools.append((*key, reached))
        if reason:
            for node in reached:
                self.unsettled.setdefault(node, reason)

    def _fault(self, key: PoolKey, slices: list[Given]) -> str:
        """Why the pool gives nothing, "" if it does."""
        wanted = slices[0].manifest["spec"]["pool"].get("resourceSliceCount")
        names: set[str] = set()
        for given in slices:
            spec = given.manifest["spec"]
            unknown = sorted(spec.keys() - _SLICE_FIELDS)
            if unknown:
                self.findings.add(given, f"spec.{unknown[0]}", "unsupported")
                return f"unsupported: {unknown[0]}"
            problem = _slice_fault(given, spec, names)
            if problem:
                self.findings.add(given, "spec.devices", problem)
                return f"pool {key[1]} is invalid: {problem}"
        if not isinstance(wanted, int) or len(slices) != wanted:
            return f"pool {key[1]} is incomplete: {len(slices)} of {wanted} slices"
        return ""

    def _add_counters(self, key: PoolKey, given: Given, known: dict[tuple[str, str], int]) -> None:
        sets = items_of(given, given.manifest["spec"].get("sharedCounters"), "spec.sharedCounters")
        if len(sets) > _MOST_SETS:
            raise given.error("spec.sharedCounters", f"more than {_MOST_SETS} counter sets")
        for item in sets:
            amounts = mapping_of(given, item.get("counters"), "spec.sharedCounters.counters")
            if len(amounts) > _MOST_COUNTERS:
                raise given.error("spec.sharedCounters", f"more than {_MOST_COUNTERS} counters")
            for name, amount in amounts.items():
                place = (str(item.get("name")), str(name))
                where = f"{given}: counter {'/'.join(place)}"
                if place in known:
                    raise given.error(
                        "spec.sharedCounters", f"{'/'.join(place)} stands there twice"
                    )
                known[place] = len(self.counters)
                value = supply_of((amount or {}).get("value"), where)
                self.counters.append(Counter(*key, *place, value))

    def _add_device(
        self,
        key: PoolKey,
        given: Given,
        item: Json,
        where: str,
        base: tuple[frozenset[str], bool, t.Any],
        counters: t.Mapping[tuple[str, str], int],
        reason: str,
    ) -> frozenset[str]:
        """Append a device; what is wrong with it makes only this one unusable."""
        nodes, local, selector = base
        read: dict[str, t.Any] = {}
        taints: tuple[Taint, ...] = ()
        try:
            if given.manifest["spec"].get("perDeviceNodeSelection"):
                nodes, local, selector = self._reach(given, item, where)
            unknown = sorted(item.keys() - _DEVICE_FIELDS)
            if unknown:
                raise given.error(f"{where}.{unknown[0]}", "unsupported")
            read = _device_fields(given, key[0], item, where)
            read["consumes"] = _consumption(given, item, where, counters)
            taints = dra_values.taints_of(given, item.get("taints"), f"{where}.taints")
        except InvalidInput as error:
            problem = str(error).partition(where)[2].lstrip(".: ")
            self.findings.add(given, where, problem)
            reason = reason or problem
        self.devices.append(Device(*key, str(item.get("name")), nodes, **read))
        self.published.append(Published(taints, reason, local, selector))
        return nodes

    def _reach(self, given: Given, item: Json, where: str) -> tuple[frozenset[str], bool, t.Any]:
        """The nodes that reach a device, whether it is local to one, and its node selector."""
        if item.get("nodeName"):
            return frozenset([str(item["nodeName"])]), True, None
        if item.get("nodeSelector"):
            selector = item["nodeSelector"]
            try:
                nodes = selected(given, selector, f"{where}.nodeSelector", self.nodes)
            except InvalidInput as error:
                self.findings.add(given, f"{where}.nodeSelector", str(error))
                return frozenset(), False, None
            return nodes, False, selector
        every = frozenset(node.name for node in self.nodes) if item.get("allNodes") else frozenset()
        return every, False, None


def _latest(slices: list[Given]) -> list[Given]:
    """The slices of the latest generation, by name."""

    def generation(given: Given) -> int:
        return int(given.manifest["spec"]["pool"].get("generation") or 0)

    newest = max(map(generation, slices))
    return sorted((one for one in slices if generation(one) == newest), key=lambda one: one.name)


def _has_binding_conditions(slices: t.Sequence[Given]) -> bool:
    return any(
        device.get("bindingConditions")
        for given in slices
        for device in given.manifest["spec"].get("devices") or []
    )


def _slice_fault(given: Given, spec: Json, names: set[str]) -> str:
    devices = items_of(given, spec.get("devices"), "spec.devices")
    costly = any(device.get(key) for device in devices for key in _COSTLY_FIELDS)
    most = _MOST_DEVICES_WITH_MORE if costly else _MOST_DEVICES
    if len(devices) > most:
        return f"{len(devices)} devices in a slice that may have {most}"
    for device in devices:
        name = device.get("name")
        if not name or name in names:
            return f"the device name {name!r} is missing or stands there twice"
        names.add(str(name))
    return ""


def _device_fields(given: Given, driver: str, item: Json, where: str) -> dict[str, t.Any]:
    attributes = mapping_of(given, item.get("attributes"), f"{where}.attributes")
    capacities = mapping_of(given, item.get("capacity"), f"{where}.capacity")
    if len(attributes) + len(capacities) > _MOST_VALUES:
        raise given.error(where, f"more than {_MOST_VALUES} attributes and capacities")
    return {
        "attributes": {
            dra_values.qualified(name, driver): dra_values.attribute(
                given, value, f"{where}.attributes.{name}"
            )
            for name, value in attributes.items()
        },
        "capacities": {
            # A claim asks for a capacity by the name as it is published.
            name: dra_values.capacity(given, value, f"{where}.capacity.{name}")
            for name, value in capacities.items()
        },
        "shareable": bool(item.get("allowMultipleAllocations")),
        "binding_conditions": tuple(item.get("bindingConditions") or ()),
        "binding_failure_conditions": tuple(item.get("bindingFailureConditions") or ()),
        "binds_to_node": bool(item.get("bindsToNode")),
    }


def _consumption(
    given: Given, item: Json, where: str, counters: t.Mapping[tuple[str, str], int]
) -> tuple[tuple[int, int], ...]:
    place = f"{where}.consumesCounters"
    found: dict[int, int] = {}
    consumed = items_of(given, item.get("consumesCounters"), place)
    if len(consumed) > _MOST_CONSUMPTIONS:
        raise given.error(place, f"more than {_MOST_CONSUMPTIONS} counter sets")
    for part in consumed:
        amounts = mapping_of(given, part.get("counters"), f"{place}.counters")
        for name, amount in amounts.items():
            key = (str(part.get("counterSet")), str(name))
            if key not in counters:
                raise given.error(place, f"the pool has no counter {'/'.join(key)}")
            found[counters[key]] = demand_of(
                (amount or {}).get("value"), f"{given}: {place}.{name}"
            )
    return tuple(sorted(found.items()))
