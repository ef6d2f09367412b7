# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""ResourceSlices of resource.k8s.io/v1 as devices in published order, with their counters.

Upstream's rules hold: only slices of the latest generation that reaches a node count, and
incomplete or inconsistent pools give nothing. Kubernetes judges a pool for each node, by the slices
that reach the node. Source: GatherPools in k8s.io/dynamic-resource-allocation 0.37.2. An unknown
field makes its pool unusable, by name, because it may restrict the use of a device.

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
from ..model.task import selected
from . import values as dra_values

if t.TYPE_CHECKING:
    P = t.ParamSpec("P")
T = t.TypeVar("T")

PoolKey = tuple[str, str]

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
# Source: the constants of resource.k8s.io/v1.
_MAX_DRIVER_LENGTH, MAX_POOL_LENGTH, _MAX_DEVICE_LENGTH = 63, 253, 63
_MAX_DEVICES, _MAX_DEVICES_WITH_MORE = 128, 64
_MAX_SETS, _MAX_COUNTERS, _MAX_CONSUMPTIONS = 8, 32, 2
# Fields that halve the number of devices of a slice; attributes that are lists do so too.
_COSTLY_FIELDS = ("taints", "consumesCounters")

# By counter set and name: the position of a counter.
Positions = dict[tuple[str, str], int]
_MAX_CONDITIONS = 4
# By positions of slices: the nodes that see just these; None for all.
_Views = dict[tuple[int, ...], t.Optional[frozenset[str]]]


@dataclass(frozen=True)
class Slice:
    """A slice with a known pool, and its pool's generation and number of slices."""

    obj: ApiObject
    spec: Field
    key: PoolKey
    generation: int
    count: int

    @cached_property
    def devices(self) -> list[Field]:
        """Its devices. Raises Defect."""
        return self.spec["devices"].items()

    @property
    def is_divided(self) -> bool:
        """Whether each device names its nodes."""
        return bool(self.spec.value.get("perDeviceNodeSelection"))

    def attempt(
        self, read: t.Callable[t.Concatenate[Slice, P], T], *more: P.args, **named: P.kwargs
    ) -> T | Defect:
        """The result of ``read`` for the slice, or its defect."""
        return self.obj.attempt(lambda _obj: read(self, *more, **named))


class Generation:
    """Slices of one generation of a pool, by name, and what is wrong with them.

    ``faults`` make the pool invalid on every node, wherever the slice is.
    """

    def __init__(self, slices: t.Sequence[Slice], *, is_newest: bool) -> None:
        self.slices = slices
        self.is_newest = is_newest
        self.faults: list[Defect] = []
        self.partial: list[Defect] = []
        sets: dict[str, frozenset[str]] = {}
        for one in slices:
            found = [one.attempt(_check_fields), one.attempt(_check_devices)]
            found.append(one.attempt(_check_sets, sets))
            self.faults += filter(None, found)
        self._unfed = [] if self.faults else list(_unfed(slices))

    def is_fed(self, index: int) -> bool:
        """Whether the pool has all counters that a slice's devices consume."""
        return not self.faults and self._unfed[index] is None

    def reason(self, seen: t.Sequence[int]) -> str | None:
        """Why nodes that these slices reach can use none of their devices; "" if they can.

        None if the nodes ignore the slices, because a newer generation replaces them.
        """
        if self.faults:
            return self._invalid(self.faults[0])
        slices = [self.slices[index] for index in seen]
        counted: t.Sequence[int] = seen
        if len(seen) != slices[0].count:
            if not self.is_newest:
                return None
            counted = range(len(self.slices))
        found = _inconsistent(slices)
        if found is None and len(counted) != slices[0].count:
            count = f"{len(counted)} of {slices[0].count} slices"
            return f"pool {slices[0].key[1]} is incomplete: {count}"
        unfed = self._unfed if len(counted) == len(self.slices) else _unfed(slices)
        found = found or next((one for one in unfed if one is not None), None)
        if found is None:
            return ""
        if found not in self.partial:
            self.partial.append(found)
        return self._invalid(found)

    def _invalid(self, found: Defect) -> str:
        return f"pool {self.slices[0].key[1]} is invalid: {found.problem}"


def _unfed(slices: t.Sequence[Slice]) -> t.Iterator[Defect | None]:
    """For each slice, which counter its devices consume that none of the slices has."""
    sets: dict[str, frozenset[str]] = {}
    for one in slices:
        _check_sets(one, sets)
    for one in slices:
        yield one.attempt(_check_consumption, sets)


def _inconsistent(slices: t.Sequence[Slice]) -> Defect | None:
    """The problems of slices that reach one node together."""
    names: set[str] = set()
    for one in slices:
        found = one.attempt(_check_names, slices[0], names)
        if found is not None:
            return found
    return None


def identified(obj: ApiObject) -> Slice:
    """The slice with its pool, which a slice must name."""
    spec, pool = obj["spec"], obj["spec"]["pool"]
    driver = dra_values.name_in(spec["driver"], _MAX_DRIVER_LENGTH)
    name = dra_values.name_in(pool["name"], MAX_POOL_LENGTH)
    numbers = (pool[key].value or 0 for key in ("generation", "resourceSliceCount"))
    return Slice(obj, spec, (driver, name), *(one if _is_count(one) else -1 for one in numbers))


def _is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def latest(slices: list[Slice]) -> list[Slice]:
    """The slices of the latest generation, by name, and slices with an unreadable generation."""
    newest = max(one.generation for one in slices)
    current = (one for one in slices if one.generation in (newest, -1))
    return sorted(current, key=lambda one: one.obj.name)


def devices_of(one: Slice) -> t.Sequence[t.Any]:
    listed = one.spec["devices"].value
    return listed if isinstance(listed, list) else ()


def _check_fields(one: Slice) -> None:
    """Refuse unknown fields of a slice and of its members. Raises Defect."""
    one.spec.mapping(_SLICE_FIELDS)
    one.spec["pool"].mapping(_POOL_FIELDS)
    for device in one.devices:
        device.mapping(_DEVICE_FIELDS)
        consumed = device["consumesCounters"]
        for part in consumed.items():
            _check_counters(Field(part.obj, consumed.where, part.value), _CONSUMPTION_FIELDS)
    for item in one.spec["sharedCounters"].items():
        _check_counters(item, _SET_FIELDS)


def _check_counters(item: Field, known: frozenset[str]) -> None:
    item.mapping(known)
    counters = item["counters"]
    counters.limit(len(counters.mapping()), _MAX_COUNTERS, "more than {most} counters")
    for _name, counter in counters.members():
        counter.mapping(_COUNTER_FIELDS)
        counter["value"].read(supply_of)


def _check_devices(one: Slice) -> None:
    """Refuse unreadable numbers, too many devices and devices without a name. Raises Defect."""
    if -1 in (one.generation, one.count):
        raise one.spec["pool"].error("generation and resourceSliceCount are whole numbers")
    costly = any(
        any(map(device.value.get, _COSTLY_FIELDS))
        or dra_values.has_lists(device.value.get("attributes"))
        for device in one.devices
    )
    most = _MAX_DEVICES_WITH_MORE if costly else _MAX_DEVICES
    problem = "{count} devices in a slice; the API allows {most}"
    one.spec["devices"].limit(len(one.devices), most, problem)
    for device in one.devices:
        dra_values.name_in(device["name"], _MAX_DEVICE_LENGTH)


def _check_names(one: Slice, first: Slice, names: set[str]) -> None:
    """Refuse slices with another number of slices, or with a name twice. Raises Defect."""
    if one.count != first.count:
        problem = f"it is {one.count} here and {first.count} in {first.obj}"
        raise one.spec["pool"]["resourceSliceCount"].error(problem)
    for device in one.devices:
        name = device.value["name"]
        if name in names:
            raise device["name"].error(f"the device name {name!r} is listed twice")
        names.add(name)


def _check_sets(one: Slice, sets: dict[str, frozenset[str]]) -> None:
    """Note the counter sets of a slice; each is defined once in its pool. Raises Defect."""
    for item in one.spec["sharedCounters"].items(_MAX_SETS, "more than {most} counter sets"):
        name = dra_values.name_in(item["name"], _MAX_DEVICE_LENGTH)
        if name in sets:
            raise item.error(f"the counter set {name!r} is listed twice")
        sets[name] = frozenset(item["counters"].mapping())


def _check_consumption(one: Slice, sets: t.Mapping[str, frozenset[str]]) -> None:
    """Refuse devices that consume counters that their pool lacks. Raises Defect."""
    for device in one.devices:
        listed = device["consumesCounters"]
        consumed = listed.items(_MAX_CONSUMPTIONS, "more than {most} counter sets")
        drawn = [dra_values.name_in(part["counterSet"], _MAX_DEVICE_LENGTH) for part in consumed]
        if len(set(drawn)) < len(drawn):
            raise listed.error("a counter set is listed twice")
        for name, part in zip(drawn, consumed):
            if name not in sets:
                raise listed.error(f"the pool has no counter set {name}")
            for counter in part["counters"].mapping():
                if counter not in sets[name]:
                    raise listed.error(f"the pool has no counter {name}/{counter}")


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
            for item in one.spec.value.get("sharedCounters") or ():
                for name, amount in (item.get("counters") or {}).items():
                    positions[item["name"], name] = len(self.counters) + len(counters)
                    value = supply_of(amount["value"], "spec.sharedCounters")
                    counters.append(Counter(*one.key, item["name"], name, value))
        return positions

    def _read_devices(self, one: Slice, counters: Positions) -> list[_Entry]:
        """The devices of a slice. Raises InvalidInput."""
        base = self._reach(one.spec)
        return [
            self._device(one, item, self._reach(item) if one.is_divided else base, counters)
            for item in one.devices
        ]

    def _device(self, one: Slice, item: Field, reach: _Reach, counters: Positions) -> _Entry:
        nodes, published = reach
        read = _device_fields(item, one.key[0])
        read["consumes"] = _consumption(item, counters)
        taints = dra_values.taints_of(item["taints"])
        device = Device(*one.key, item.value["name"], nodes, **read)
        return device, dataclasses.replace(published, taints=taints) if taints else published

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
        "shareable": _truth(item, "allowMultipleAllocations"),
        "binding_conditions": _conditions(item, "bindingConditions"),
        "binding_failure_conditions": _conditions(item, "bindingFailureConditions"),
        "binds_to_node": _truth(item, "bindsToNode"),
    }


def _truth(device: Field, key: str) -> bool:
    value = device.value.get(key)
    if value not in (None, True, False):
        raise device[key].error(f"{shown(value)} is neither true nor false")
    return bool(value)


def _conditions(device: Field, key: str) -> tuple[str, ...]:
    given = device.value.get(key) or []
    if not isinstance(given, list) or len(given) > _MAX_CONDITIONS:
        raise device[key].error(f"must be a list of up to {_MAX_CONDITIONS} conditions")
    names = (Field(device.obj, device[key].where, name) for name in given)
    return tuple(dra_values.name_in(name, MAX_POOL_LENGTH + 64) for name in names)


def _consumption(device: Field, counters: Positions) -> tuple[tuple[int, int], ...]:
    """Counters that a device consumes; the pool is checked."""
    return tuple(
        sorted(
            (counters[part["counterSet"], name], demand_of(amount["value"], "consumesCounters"))
            for part in device.value.get("consumesCounters") or ()
            for name, amount in (part.get("counters") or {}).items()
        )
    )
