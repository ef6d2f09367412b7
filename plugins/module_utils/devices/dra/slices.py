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

from ...base.boundary import shown
from ...cel.values import demand_of, supply_of
from ...scheduling.model import Taint
from ..model.findings import ApiObject, Defect, Field, Findings
from ..model.model import Counter, Device, Node
from ..model.node_selector import selected
from . import values as dra_values
from .generations import MAX_POOL_LENGTH, Generation, PoolKey, Slice, devices_of, identified, latest

# By counter set and name: the position of a counter.
Positions = dict[tuple[str, str], int]

_MAX_CONDITIONS = 4
# By positions of slices: the nodes that see just these; None for all.
_Views = dict[tuple[int, ...], t.Optional[frozenset[str]]]


@dataclass(frozen=True)
class Publication:
    """Further fields of a device; ``unusable`` is the reason why it is never allocated."""

    taints: tuple[Taint, ...] = ()
    unusable: str = ""
    local: bool = False
    selector: t.Any = None


_Entry = tuple[Device, Publication]
# The nodes that reach a device, and how it says so.
_Reach = tuple[frozenset[str], Publication]


@dataclass
class Slices:
    """All devices in published order, with their further fields by position."""

    findings: Findings
    nodes: tuple[Node, ...]
    devices: list[Device] = field(default_factory=list)
    published: list[Publication] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    pools: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)
    unsettled: dict[str, str] = field(default_factory=dict)
    sources: dict[PoolKey, ApiObject] = field(default_factory=dict)

    @cached_property
    def positions(self) -> dict[tuple[str, str, str], int]:
        """Positions of devices by driver, pool and name, when all slices are read."""
        return {
            (device.driver, device.pool, device.name): index
            for index, device in enumerate(self.devices)
        }

    @cached_property
    def _every(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes)

    def read(self, slices: t.Sequence[ApiObject]) -> None:
        """Read all slices."""
        pools: dict[PoolKey, list[Slice]] = {}
        for obj in slices:
            found = self.findings.read(obj, identified)
            if not isinstance(found, Defect):
                pools.setdefault(found.key, []).append(found)
        newest = [(key, latest(pools[key])) for key in pools]
        newest.sort(key=lambda item: (_has_binding_conditions(item[1]), item[0]))
        for key, current in newest:
            self.sources[key] = current[0].obj
            self._add_pool(key, pools[key], current)

    def _add_pool(self, key: PoolKey, slices: list[Slice], current: list[Slice]) -> None:
        """Add a pool's devices; one name is one device, the newest that some node can use."""
        kept: dict[str, _Entry] = {}
        for generation, views in self._generations(slices, current):
            for device, published in self._devices(generation, views):
                other = kept.get(device.name)
                if other is None or (other[1].unusable and not published.unusable):
                    kept[device.name] = device, published
        self.devices += [device for device, _published in kept.values()]
        self.published += [published for _device, published in kept.values()]
        self.pools.append(
            (*key, frozenset().union(*(device.nodes for device, _published in kept.values())))
        )

    def _generations(
        self, slices: list[Slice], current: list[Slice]
    ) -> t.Iterator[tuple[Generation, _Views]]:
        """The generations, newest first, with the slices that nodes see of each.

        A node sees the newest of the generations that reach it.
        """
        names = [device["name"] for one in slices for device in _named(one)]
        is_whole = all(one.count == len(slices) for one in slices) and len(current) == len(slices)
        is_unreadable = any(-1 in (one.generation, one.count) for one in slices)
        if is_unreadable or (is_whole and len(names) == len(set(names))):
            yield Generation(current, is_newest=True), {tuple(range(len(current))): None}
            return
        relevant = {id(one): self._relevant(one) for one in slices}
        named = (nodes for nodes in relevant.values() if nodes is not None)
        left = self._every.union(*named)
        for number in sorted({one.generation for one in slices}, reverse=True):
            group = latest([one for one in slices if one.generation == number])
            seen: dict[str, list[int]] = {}
            for index, one in enumerate(group):
                nodes = relevant[id(one)]
                for node in left if nodes is None else left & nodes:
                    seen.setdefault(node, []).append(index)
            alike: dict[tuple[int, ...], set[str]] = {}
            for node, indexes in seen.items():
                alike.setdefault(tuple(indexes), set()).add(node)
            is_newest = number == current[0].generation
            views: _Views = {indexes: frozenset(alike[indexes]) for indexes in sorted(alike)}
            if is_newest or views:
                yield Generation(group, is_newest=is_newest), views
            left -= seen.keys()

    def _relevant(self, one: Slice) -> frozenset[str] | None:
        """The nodes that a slice reaches; None, for all, if that is unreadable."""
        base = one.attempt(self._reach_of)
        if isinstance(base, Defect):
            return None
        devices = self._named_devices(one) if one.is_divided else ()
        return base[0].union(*(device.nodes for device, _published in devices))

    def _devices(self, generation: Generation, views: _Views) -> t.Iterator[_Entry]:
        """The devices of a generation on the nodes that can use them, else with the reason."""
        counters: list[Counter] = []
        read = list(self._read_slices(generation, counters))
        if generation.faults:
            counters, read = [], [list(self._named_devices(one)) for one in generation.slices]
        reasons = {seen: generation.reason(seen) for seen in views}
        if not generation.is_newest and set(reasons.values()) <= {None}:
            return
        for fault in (*generation.faults, *generation.partial):
            self.findings.note(fault)
        self.counters += counters
        for seen, reason in reasons.items():
            if not reason:
                continue
            nodes = views[seen]
            if nodes is None:
                nodes = frozenset().union(*(one.nodes for slice_ in read for one, _more in slice_))
            for node in nodes:
                self.unsettled.setdefault(node, reason)
        for index, devices in enumerate(read):
            seen_by = [(reason, views[seen]) for seen, reason in reasons.items() if index in seen]
            yield from _judged(devices, seen_by, generation)

    def _read_slices(
        self, generation: Generation, counters: list[Counter]
    ) -> t.Iterator[list[_Entry]]:
        """The devices of each slice; more faults are noted."""
        if generation.faults:
            return
        for one in generation.slices:
            found = one.attempt(self._reach_of)
            if isinstance(found, Defect):
                generation.faults.append(found)
        positions = self._read_counters(generation.slices, counters)
        for index, one in enumerate(generation.slices if not generation.faults else ()):
            if not generation.is_fed(index):
                yield list(self._named_devices(one))
                continue
            read = one.attempt(self._read_devices, positions)
            if isinstance(read, Defect):
                generation.faults.append(read)
            else:
                yield read

    def _read_counters(self, slices: t.Sequence[Slice], counters: list[Counter]) -> Positions:
        """Add the counters of a checked pool; return their positions."""
        positions: Positions = {}
        for one in slices:
            for item in one.spec["sharedCounters"].items():
                for name, amount in item["counters"].members():
                    positions[item.value["name"], name] = len(self.counters) + len(counters)
                    value = supply_of(amount["value"].value, amount.where)
                    counters.append(Counter(*one.key, item.value["name"], name, value))
        return positions

    def _read_devices(self, one: Slice, counters: Positions) -> list[_Entry]:
        """The devices of a slice. Raises InvalidInput."""
        base = self._reach(one.spec)
        return [
            self._device(one, item, self._reach(item) if one.is_divided else base, counters)
            for item in one.spec["devices"].items()
        ]

    def _device(self, one: Slice, item: Field, reach: _Reach, counters: Positions) -> _Entry:
        nodes, published = reach
        read = _device_fields(item, one.key[0])
        read["consumes"] = _consumption(item, counters)
        taints = dra_values.taints_of(item["taints"])
        device = Device(*one.key, item.value["name"], nodes, **read)
        return device, dataclasses.replace(published, taints=taints)

    def _named_devices(self, one: Slice) -> t.Iterator[_Entry]:
        """The devices of a pool that is invalid, as far as they have names and nodes."""
        base = one.attempt(self._reach_of)
        for item in _named(one):
            reach = base
            if one.is_divided:
                reach = one.attempt(self._reach_of, Field(one.obj, "spec.devices", item))
            nodes = frozenset() if isinstance(reach, Defect) else reach[0]
            yield Device(*one.key, item["name"], nodes), Publication()

    def _reach_of(self, one: Slice, device: Field | None = None) -> _Reach:
        return self._reach(device or one.spec)

    def _reach(self, item: Field) -> _Reach:
        """The nodes that a slice or device names. Raises Defect."""
        if item["nodeName"].value:
            name = dra_values.name_in(item["nodeName"], MAX_POOL_LENGTH)
            return frozenset([name]), Publication(local=True)
        selector = item["nodeSelector"]
        if selector.value:
            return selected(selector, self.nodes), Publication(selector=selector.value)
        return self._every if item["allNodes"].value else frozenset(), Publication()


def _named(one: Slice) -> t.Iterator[dict[str, t.Any]]:
    for item in devices_of(one):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item


def _judged(
    devices: t.Sequence[_Entry],
    seen_by: t.Sequence[tuple[str | None, frozenset[str] | None]],
    generation: Generation,
) -> t.Iterator[_Entry]:
    """The devices of a slice on the nodes that can use it, or on others with the reason.

    A slice that reaches no node stays, because claims may hold its devices.
    """
    reasons = [reason for reason, _nodes in seen_by if reason]
    usable = [nodes for reason, nodes in seen_by if reason == ""]
    for device, published in devices:
        if None in usable:
            yield device, published
            continue
        nodes = device.nodes.intersection(frozenset().union(*filter(None, usable)))
        if nodes:
            yield dataclasses.replace(device, nodes=nodes), published
        elif reasons or generation.is_newest:
            yield device, dataclasses.replace(published, unusable=(reasons or [""])[0])


def _has_binding_conditions(slices: t.Sequence[Slice]) -> bool:
    return any(
        isinstance(device, dict) and device.get("bindingConditions")
        for one in slices
        for device in devices_of(one)
    )


def _device_fields(item: Field, driver: str) -> dict[str, t.Any]:
    attributes = dra_values.attributes_of(item["attributes"], driver)
    capacities = dra_values.capacities_of(item["capacity"])
    most = dra_values.MAX_VALUES
    item.limit(
        len(attributes) + len(capacities), most, "more than {most} attributes and capacities"
    )
    return {
        "attributes": attributes,
        "capacities": capacities,
        "shareable": _truth(item["allowMultipleAllocations"]),
        "binding_conditions": _conditions(item["bindingConditions"]),
        "binding_failure_conditions": _conditions(item["bindingFailureConditions"]),
        "binds_to_node": _truth(item["bindsToNode"]),
    }


def _truth(field: Field) -> bool:
    if field.value not in (None, True, False):
        raise field.error(f"{shown(field.value)} is neither true nor false")
    return bool(field.value)


def _conditions(field: Field) -> tuple[str, ...]:
    given = field.value or []
    if not isinstance(given, list) or len(given) > _MAX_CONDITIONS:
        raise field.error(f"must be a list of up to {_MAX_CONDITIONS} conditions")
    names = (Field(field.obj, field.where, name) for name in given)
    return tuple(dra_values.name_in(name, MAX_POOL_LENGTH + 64) for name in names)


def _consumption(device: Field, counters: Positions) -> tuple[tuple[int, int], ...]:
    """Counters that a device consumes; the pool is checked."""
    return tuple(
        sorted(
            (counters[part.value["counterSet"], name], demand_of(one["value"].value, one.where))
            for part in device["consumesCounters"].items()
            for name, one in part["counters"].members()
        )
    )
