# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""ResourceSlices of resource.k8s.io/v1 as devices in published order, with their counters.

Upstream's rules hold: only slices of the latest generation that reaches a node count, and
incomplete or inconsistent pools give nothing. An unknown field makes its pool unusable, by name, because it may
restrict the use of a device.

Each slice is read within a boundary. A defect makes only its own pool unusable.
"""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import shown
from ansible_collections.wattwise.kube.plugins.module_utils.cel.values import demand_of, supply_of
from ansible_collections.wattwise.kube.plugins.module_utils.devices.dra import values as dra_values
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.fields import (
    Json,
    items_of,
    mapping_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.findings import (
    Finding,
    Findings,
    Given,
    guarded,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import (
    Counter,
    Device,
    Node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.node_selector import (
    selected,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.instance import Taint

PoolKey = tuple[str, str]
# By counter set and name: the position of a counter.
Positions = dict[tuple[str, str], int]

# partitionTypeAttribute names the attribute by which people count partitions, nothing more.
_SLICE_FIELDS = frozenset(
    "driver pool nodeName nodeSelector allNodes perDeviceNodeSelection devices sharedCounters "
    "partitionTypeAttribute".split()
)
_POOL_FIELDS = frozenset("name generation resourceSliceCount".split())
_DEVICE_FIELDS = frozenset(
    "name attributes capacity consumesCounters allowMultipleAllocations taints bindingConditions "
    "bindingFailureConditions bindsToNode nodeName nodeSelector allNodes".split()
)
_SET_FIELDS = frozenset({"name", "counters"})
_COUNTER_FIELDS = frozenset({"value"})
_CONSUMPTION_FIELDS = frozenset({"counterSet", "counters"})
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes")
# Source: the constants of resource.k8s.io/v1.
_LONGEST_DRIVER, _LONGEST_POOL, _LONGEST_DEVICE = 63, 253, 63
_MOST_DEVICES, _MOST_DEVICES_WITH_MORE = 128, 64
_MOST_SETS, _MOST_COUNTERS, _MOST_CONSUMPTIONS = 8, 32, 2
_MOST_CONDITIONS = 4
# Fields that halve the number of devices of a slice; attributes that are lists do so too.
_COSTLY_FIELDS = ("taints", "consumesCounters")


@dataclass(frozen=True)
class Published:
    """Further fields of a device; ``unusable`` is the reason why it is never allocated."""

    taints: tuple[Taint, ...] = ()
    unusable: str = ""
    local: bool = False
    selector: t.Any = None


_Read = tuple[Device, Published]


class _Reach(t.NamedTuple):
    """The nodes that reach a device, whether it is local to one, and its node selector."""

    nodes: frozenset[str] = frozenset()
    local: bool = False
    selector: t.Any = None


@dataclass(frozen=True)
class _Slice:
    """A slice with a known pool, and its pool's generation and number of slices."""

    given: Given
    spec: Json
    key: PoolKey
    generation: int
    count: int


@dataclass
class Slices:
    """All devices in published order, with their further fields by position."""

    findings: Findings
    nodes: tuple[Node, ...]
    devices: list[Device] = field(default_factory=list)
    published: list[Published] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    pools: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)
    unsettled: dict[str, str] = field(default_factory=dict)
    sources: dict[PoolKey, Given] = field(default_factory=dict)

    @cached_property
    def positions(self) -> dict[tuple[str, str, str], int]:
        """Positions of devices by driver, pool and name, when all slices are read."""
        return {
            (device.driver, device.pool, device.name): index
            for index, device in enumerate(self.devices)
        }

    def read(self, slices: t.Sequence[Given]) -> None:
        """Read all slices."""
        pools: dict[PoolKey, list[_Slice]] = {}
        for given in slices:
            found = guarded(given, lambda: _identified(given))  # noqa: B023 - called at once
            if isinstance(found, Finding):
                self.findings.note(found)
            else:
                pools.setdefault(found.key, []).append(found)
        latest = [(key, _latest(pools[key])) for key in pools]
        latest.sort(key=lambda item: (_has_binding_conditions(item[1]), item[0]))
        for key, current in latest:
            self.sources[key] = current[0].given
            self._add_pool(key, current)
            for older, nodes in self._older(pools[key], current):
                self._add_pool(key, older, nodes)

    def _older(
        self, slices: list[_Slice], current: list[_Slice]
    ) -> t.Iterator[tuple[list[_Slice], frozenset[str]]]:
        """Older generations, with the nodes that only they reach, and wholly.

        Kubernetes takes the latest generation among the slices that reach a node, and looks for a
        newer one elsewhere only if these are fewer than the pool's slices. Source: GatherPools in
        k8s.io/dynamic-resource-allocation 0.37.2.
        """
        newest = current[0].generation
        readable = all(-1 not in (one.generation, one.count) for one in slices)
        if len(current) == len(slices) or not readable:
            return
        taken = frozenset().union(*map(self._relevant, current))
        for generation in sorted({one.generation for one in slices} - {newest}, reverse=True):
            group = _latest([one for one in slices if one.generation == generation])
            relevant = [self._relevant(one) for one in group]
            reached = frozenset().union(*relevant)
            alike: dict[tuple[int, ...], set[str]] = {}
            for node in reached - taken:
                seen = tuple(index for index, nodes in enumerate(relevant) if node in nodes)
                alike.setdefault(seen, set()).add(node)
            for seen in sorted(alike):
                if len(seen) == group[seen[0]].count:
                    yield [group[index] for index in seen], frozenset(alike[seen])
            taken |= reached

    def _relevant(self, one: _Slice) -> frozenset[str]:
        """The nodes whose pools include a slice; counters matter to every node."""
        every = frozenset(node.name for node in self.nodes)
        if one.spec.get("sharedCounters"):
            return every
        base = guarded(one.given, lambda: self._reach(one.given, one.spec, "spec"))
        if isinstance(base, Finding):
            return every
        devices = self._named_devices(one) if one.spec.get("perDeviceNodeSelection") else ()
        return base.nodes.union(*(device.nodes for device, _published in devices))

    def _add_pool(
        self, key: PoolKey, slices: list[_Slice], only: frozenset[str] | None = None
    ) -> None:
        """Add a pool's devices, on some nodes only if it is one of its older generations.

        A device that a newer generation has as well stays with that, because there is only one.
        """
        faults = list(self._faults(slices))
        read: list[_Read] = []
        counters: list[Counter] = []
        if not faults:
            positions = self._read_counters(slices, counters)
            for one in slices:
                found = guarded(one.given, lambda: self._read_devices(one, positions))  # noqa: B023
                if isinstance(found, Finding):
                    faults.append(found)
                else:
                    read += found
        for fault in faults:
            self.findings.note(fault)
        reason = f"pool {key[1]} is invalid: {faults[0].problem}" if faults else ""
        if faults:
            counters, read = [], [one for given in slices for one in self._named_devices(given)]
        elif {one.count for one in slices} != {len(slices)}:
            reason = f"pool {key[1]} is incomplete: {len(slices)} of {slices[0].count} slices"
        if only is not None:
            newer = {one.name for one in self.devices if (one.driver, one.pool) == key}
            read = [
                (dataclasses.replace(device, nodes=device.nodes & only), published)
                for device, published in read
                if device.name not in newer
            ]
        self.counters += counters
        for device, published in read:
            self.devices.append(device)
            self.published.append(dataclasses.replace(published, unusable=reason))
        reached = frozenset().union(*(device.nodes for device, _published in read))
        self.pools.append((*key, reached))
        for node in reached if reason else ():
            self.unsettled.setdefault(node, reason)

    def _faults(self, slices: list[_Slice]) -> t.Iterator[Finding]:
        """Defects of each slice, and of all slices of the pool together."""
        names: set[str] = set()
        sets: dict[str, frozenset[str]] = {}
        sound = True
        for one in slices:
            for check in (
                lambda: _check_fields(one),  # noqa: B023 - called at once
                lambda: _check_names(one, slices[0], names),  # noqa: B023
                lambda: _check_sets(one, sets),  # noqa: B023
                lambda: self._reach(one.given, one.spec, "spec"),  # noqa: B023
            ):
                found = guarded(one.given, check)
                if isinstance(found, Finding):
                    sound = False
                    yield found
        for one in slices if sound else ():
            found = guarded(one.given, lambda: _check_consumption(one, sets))  # noqa: B023
            if isinstance(found, Finding):
                yield found

    def _read_counters(self, slices: list[_Slice], counters: list[Counter]) -> Positions:
        """Add the counters of a checked pool; return their positions."""
        positions: Positions = {}
        for one in slices:
            for item in one.spec.get("sharedCounters") or ():
                for name, amount in (item.get("counters") or {}).items():
                    positions[item["name"], name] = len(self.counters) + len(counters)
                    value = supply_of(amount["value"], "spec.sharedCounters")
                    counters.append(Counter(*one.key, item["name"], name, value))
        return positions

    def _read_devices(self, one: _Slice, counters: Positions) -> list[_Read]:
        """The devices of a slice. Raises InvalidInput."""
        base = self._reach(one.given, one.spec, "spec")
        return [
            self._device(one, item, f"spec.devices[{index}]", base, counters)
            for index, item in enumerate(one.spec.get("devices") or ())
        ]

    def _device(
        self, one: _Slice, item: Json, where: str, base: _Reach, counters: Positions
    ) -> _Read:
        given = one.given
        apart = one.spec.get("perDeviceNodeSelection")
        nodes, local, selector = self._reach(given, item, where) if apart else base
        read = _device_fields(given, one.key[0], item, where)
        read["consumes"] = _consumption(item, where, counters)
        taints = dra_values.taints_of(given, item.get("taints"), f"{where}.taints")
        published = Published(taints, "", local, selector)
        return Device(*one.key, item["name"], nodes, **read), published

    def _named_devices(self, one: _Slice) -> t.Iterator[_Read]:
        """The devices of a pool that is invalid, as far as they have names and nodes."""
        base = guarded(one.given, lambda: self._reach(one.given, one.spec, "spec"))
        for item in _devices_of(one):
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                apart = one.spec.get("perDeviceNodeSelection")
                reach = (
                    guarded(one.given, lambda: self._reach(one.given, item, "spec.devices"))  # noqa: B023
                    if apart
                    else base
                )
                nodes = frozenset() if isinstance(reach, Finding) else reach.nodes
                yield Device(*one.key, item["name"], nodes), Published()

    def _reach(self, given: Given, item: Json, where: str) -> _Reach:
        """Raises Defect."""
        name, selector = item.get("nodeName"), item.get("nodeSelector")
        if name:
            return _Reach(frozenset([_text(given, name, f"{where}.nodeName", _LONGEST_POOL)]), True)
        if selector:
            nodes = selected(given, selector, f"{where}.nodeSelector", self.nodes)
            return _Reach(nodes, False, selector)
        every = frozenset(node.name for node in self.nodes) if item.get("allNodes") else frozenset()
        return _Reach(every)


def _identified(given: Given) -> _Slice:
    """The slice with its pool, which a slice must name."""
    spec = mapping_of(given, given.manifest.get("spec"), "spec")
    pool = mapping_of(given, spec.get("pool"), "spec.pool")
    driver = _text(given, spec.get("driver"), "spec.driver", _LONGEST_DRIVER)
    name = _text(given, pool.get("name"), "spec.pool.name", _LONGEST_POOL)
    generation, count = pool.get("generation", 0), pool.get("resourceSliceCount", 0)
    readable = [one if _is_count(one) else -1 for one in (generation or 0, count or 0)]
    return _Slice(given, spec, (driver, name), *readable)


def _is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _text(given: Given, value: t.Any, where: str, most: int) -> str:
    """A name. Raises Defect."""
    if not isinstance(value, str) or not value:
        raise given.error(where, "the name is missing")
    if len(value) > most or not value.isascii():
        raise given.error(where, f"{shown(value)} is not a name of up to {most} characters")
    return value


def _latest(slices: list[_Slice]) -> list[_Slice]:
    """The slices of the latest generation, by name, and slices with an unreadable generation."""
    newest = max(one.generation for one in slices)
    current = (one for one in slices if one.generation in (newest, -1))
    return sorted(current, key=lambda one: one.given.name)


def _has_binding_conditions(slices: t.Sequence[_Slice]) -> bool:
    return any(
        isinstance(device, dict) and device.get("bindingConditions")
        for one in slices
        for device in _devices_of(one)
    )


def _devices_of(one: _Slice) -> t.Sequence[t.Any]:
    listed = one.spec.get("devices")
    return listed if isinstance(listed, list) else ()


def _check_fields(one: _Slice) -> None:
    """Refuse unknown fields of a slice and of its members. Raises Defect."""
    given, spec = one.given, one.spec
    dra_values.refuse_unknown(given, spec, _SLICE_FIELDS, "spec")
    dra_values.refuse_unknown(given, spec["pool"], _POOL_FIELDS, "spec.pool")
    for index, item in enumerate(items_of(given, spec.get("devices"), "spec.devices")):
        where = f"spec.devices[{index}]"
        dra_values.refuse_unknown(given, item, _DEVICE_FIELDS, where)
        place = f"{where}.consumesCounters"
        for part in items_of(given, item.get("consumesCounters"), place):
            _check_counters(given, part, _CONSUMPTION_FIELDS, place)
    for index, item in enumerate(
        items_of(given, spec.get("sharedCounters"), "spec.sharedCounters")
    ):
        _check_counters(given, item, _SET_FIELDS, f"spec.sharedCounters[{index}]")


def _check_counters(given: Given, item: Json, known: frozenset[str], where: str) -> None:
    dra_values.refuse_unknown(given, item, known, where)
    counters = mapping_of(given, item.get("counters"), f"{where}.counters")
    if len(counters) > _MOST_COUNTERS:
        raise given.error(f"{where}.counters", f"more than {_MOST_COUNTERS} counters")
    for name, amount in counters.items():
        place = f"{where}.counters.{name}"
        body = mapping_of(given, amount, place)
        dra_values.refuse_unknown(given, body, _COUNTER_FIELDS, place)
        supply_of(body.get("value"), f"{place}.value")


def _check_names(one: _Slice, first: _Slice, names: set[str]) -> None:
    """Refuse devices without a unique name, and inconsistent slices."""
    given = one.given
    if -1 in (one.generation, one.count):
        raise given.error("spec.pool", "generation and resourceSliceCount are whole numbers")
    if one.count != first.count:
        problem = f"it is {one.count} here and {first.count} in {first.given}"
        raise given.error("spec.pool.resourceSliceCount", problem)
    devices = items_of(given, one.spec.get("devices"), "spec.devices")
    costly = any(
        any(map(device.get, _COSTLY_FIELDS)) or dra_values.has_lists(device.get("attributes"))
        for device in devices
    )
    most = _MOST_DEVICES_WITH_MORE if costly else _MOST_DEVICES
    if len(devices) > most:
        raise given.error(
            "spec.devices", f"{len(devices)} devices in a slice; the API allows {most}"
        )
    for index, device in enumerate(devices):
        where = f"spec.devices[{index}].name"
        name = _text(given, device.get("name"), where, _LONGEST_DEVICE)
        if name in names:
            raise given.error(where, f"the device name {name!r} is listed twice")
        names.add(name)


def _check_sets(one: _Slice, sets: dict[str, frozenset[str]]) -> None:
    """Note the counter sets of a slice; each is defined once in its pool. Raises Defect."""
    given, where = one.given, "spec.sharedCounters"
    items = items_of(given, one.spec.get("sharedCounters"), where)
    if len(items) > _MOST_SETS:
        raise given.error(where, f"more than {_MOST_SETS} counter sets")
    for index, item in enumerate(items):
        name = _text(given, item.get("name"), f"{where}[{index}].name", _LONGEST_DEVICE)
        if name in sets:
            raise given.error(f"{where}[{index}]", f"the counter set {name!r} is listed twice")
        sets[name] = frozenset(mapping_of(given, item.get("counters"), where))


def _check_consumption(one: _Slice, sets: t.Mapping[str, frozenset[str]]) -> None:
    """Refuse devices that consume counters that their pool lacks. Raises Defect."""
    given = one.given
    for index, device in enumerate(items_of(given, one.spec.get("devices"), "spec.devices")):
        place = f"spec.devices[{index}].consumesCounters"
        consumed = items_of(given, device.get("consumesCounters"), place)
        if len(consumed) > _MOST_CONSUMPTIONS:
            raise given.error(place, f"more than {_MOST_CONSUMPTIONS} counter sets")
        drawn = [_text(given, part.get("counterSet"), place, _LONGEST_DEVICE) for part in consumed]
        if len(set(drawn)) < len(drawn):
            raise given.error(place, "a counter set is listed twice")
        for name, part in zip(drawn, consumed):
            if name not in sets:
                raise given.error(place, f"the pool has no counter set {name}")
            for counter in part.get("counters") or ():
                if counter not in sets[name]:
                    raise given.error(place, f"the pool has no counter {name}/{counter}")


def _device_fields(given: Given, driver: str, item: Json, where: str) -> dict[str, t.Any]:
    attributes = dra_values.attributes_of(given, item.get("attributes"), where, driver)
    capacities = dra_values.capacities_of(given, item.get("capacity"), where)
    if len(attributes) + len(capacities) > dra_values.MOST_VALUES:
        most = dra_values.MOST_VALUES
        raise given.error(where, f"more than {most} attributes and capacities")
    return {
        "attributes": attributes,
        "capacities": capacities,
        "shareable": _truth(given, item, "allowMultipleAllocations", where),
        "binding_conditions": _conditions(given, item, "bindingConditions", where),
        "binding_failure_conditions": _conditions(given, item, "bindingFailureConditions", where),
        "binds_to_node": _truth(given, item, "bindsToNode", where),
    }


def _truth(given: Given, item: Json, key: str, where: str) -> bool:
    value = item.get(key)
    if value not in (None, True, False):
        raise given.error(f"{where}.{key}", f"{shown(value)} is neither true nor false")
    return bool(value)


def _conditions(given: Given, item: Json, key: str, where: str) -> tuple[str, ...]:
    value = item.get(key) or []
    place = f"{where}.{key}"
    if not isinstance(value, list) or len(value) > _MOST_CONDITIONS:
        raise given.error(place, f"must be a list of up to {_MOST_CONDITIONS} conditions")
    return tuple(_text(given, name, place, _LONGEST_POOL + 64) for name in value)


def _consumption(item: Json, where: str, counters: Positions) -> tuple[tuple[int, int], ...]:
    """Counters that a device consumes; the pool is checked."""
    return tuple(
        sorted(
            (
                counters[part["counterSet"], name],
                demand_of(amount["value"], f"{where}.consumesCounters.{name}"),
            )
            for part in item.get("consumesCounters") or ()
            for name, amount in (part.get("counters") or {}).items()
        )
    )
