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
from ...base.json_types import Object
from ...cel.values import demand_of, supply_of
from ...scheduling.model import Taint
from ..model.findings import ApiObject, Defect, Findings
from ..model.model import Counter, Device, Node
from ..model.node_selector import selected
from . import values as dra_values
from .generations import (
    MAX_POOL_LENGTH,
    Generation,
    PoolKey,
    Slice,
    devices_of,
    identified,
    latest,
    text_of,
)

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


class _Reach(t.NamedTuple):
    """The nodes that reach a device, whether it is local to one, and its node selector."""

    nodes: frozenset[str] = frozenset()
    local: bool = False
    selector: t.Any = None


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
            found = obj.attempt(identified)
            if isinstance(found, Defect):
                self.findings.note(found)
            else:
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
        base = one.obj.attempt(self._reach, one.spec, "spec")
        if isinstance(base, Defect):
            return None
        devices = self._named_devices(one) if one.spec.get("perDeviceNodeSelection") else ()
        return base.nodes.union(*(device.nodes for device, _published in devices))

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
            found = one.obj.attempt(self._reach, one.spec, "spec")
            if isinstance(found, Defect):
                generation.faults.append(found)
        positions = self._read_counters(generation.slices, counters)
        for index, one in enumerate(generation.slices if not generation.faults else ()):
            if not generation.is_fed(index):
                yield list(self._named_devices(one))
                continue
            read = one.obj.attempt(self._read_devices, one, positions)
            if isinstance(read, Defect):
                generation.faults.append(read)
            else:
                yield read

    def _read_counters(self, slices: t.Sequence[Slice], counters: list[Counter]) -> Positions:
        """Add the counters of a checked pool; return their positions."""
        positions: Positions = {}
        for one in slices:
            for item in one.spec.get("sharedCounters") or ():
                for name, amount in (item.get("counters") or {}).items():
                    positions[item["name"], name] = len(self.counters) + len(counters)
                    value = supply_of(amount["value"], "spec.sharedCounters")
                    counters.append(Counter(*one.key, item["name"], name, value))
        return positions

    def _read_devices(self, obj: ApiObject, one: Slice, counters: Positions) -> list[_Entry]:
        """The devices of a slice. Raises InvalidInput."""
        base = self._reach(obj, one.spec, "spec")
        return [
            self._device(one, item, f"spec.devices[{index}]", base, counters)
            for index, item in enumerate(one.spec.get("devices") or ())
        ]

    def _device(
        self, one: Slice, item: Object, where: str, base: _Reach, counters: Positions
    ) -> _Entry:
        obj = one.obj
        apart = one.spec.get("perDeviceNodeSelection")
        nodes, local, selector = self._reach(obj, item, where) if apart else base
        read = _device_fields(obj, one.key[0], item, where)
        read["consumes"] = _consumption(item, where, counters)
        taints = dra_values.taints_of(obj, item.get("taints"), f"{where}.taints")
        published = Publication(taints, "", local, selector)
        return Device(*one.key, item["name"], nodes, **read), published

    def _named_devices(self, one: Slice) -> t.Iterator[_Entry]:
        """The devices of a pool that is invalid, as far as they have names and nodes."""
        base = one.obj.attempt(self._reach, one.spec, "spec")
        apart = one.spec.get("perDeviceNodeSelection")
        for item in _named(one):
            reach = base
            if apart:
                reach = one.obj.attempt(self._reach, item, "spec.devices")
            nodes = frozenset() if isinstance(reach, Defect) else reach.nodes
            yield Device(*one.key, item["name"], nodes), Publication()

    def _reach(self, obj: ApiObject, item: Object, where: str) -> _Reach:
        """Raises Defect."""
        name, selector = item.get("nodeName"), item.get("nodeSelector")
        if name:
            return _Reach(
                frozenset([text_of(obj, name, f"{where}.nodeName", MAX_POOL_LENGTH)]), True
            )
        if selector:
            nodes = selected(obj, selector, f"{where}.nodeSelector", self.nodes)
            return _Reach(nodes, False, selector)
        return _Reach(self._every if item.get("allNodes") else frozenset())


def _named(one: Slice) -> t.Iterator[Object]:
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


def _device_fields(obj: ApiObject, driver: str, item: Object, where: str) -> dict[str, t.Any]:
    attributes = dra_values.attributes_of(obj, item.get("attributes"), where, driver)
    capacities = dra_values.capacities_of(obj, item.get("capacity"), where)
    if len(attributes) + len(capacities) > dra_values.MAX_VALUES:
        most = dra_values.MAX_VALUES
        raise obj.error(where, f"more than {most} attributes and capacities")
    return {
        "attributes": attributes,
        "capacities": capacities,
        "shareable": _truth(obj, item, "allowMultipleAllocations", where),
        "binding_conditions": _conditions(obj, item, "bindingConditions", where),
        "binding_failure_conditions": _conditions(obj, item, "bindingFailureConditions", where),
        "binds_to_node": _truth(obj, item, "bindsToNode", where),
    }


def _truth(obj: ApiObject, item: Object, key: str, where: str) -> bool:
    value = item.get(key)
    if value not in (None, True, False):
        raise obj.error(f"{where}.{key}", f"{shown(value)} is neither true nor false")
    return bool(value)


def _conditions(obj: ApiObject, item: Object, key: str, where: str) -> tuple[str, ...]:
    value = item.get(key) or []
    place = f"{where}.{key}"
    if not isinstance(value, list) or len(value) > _MAX_CONDITIONS:
        raise obj.error(place, f"must be a list of up to {_MAX_CONDITIONS} conditions")
    return tuple(text_of(obj, name, place, MAX_POOL_LENGTH + 64) for name in value)


def _consumption(item: Object, where: str, counters: Positions) -> tuple[tuple[int, int], ...]:
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
