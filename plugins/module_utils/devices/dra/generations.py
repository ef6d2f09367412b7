# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Generations of a pool's ResourceSlices: what makes a pool invalid or incomplete, and where.

Kubernetes judges a pool for each node, by the slices that reach the node. Source: GatherPools in
k8s.io/dynamic-resource-allocation 0.37.2.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...cel.values import supply_of
from ..model.findings import ApiObject, Defect, Field
from .values import has_lists, name_in

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


@dataclass(frozen=True)
class Slice:
    """A slice with a known pool, and its pool's generation and number of slices."""

    obj: ApiObject
    spec: Field
    key: PoolKey
    generation: int
    count: int

    @property
    def is_divided(self) -> bool:
        """Whether each device names its nodes."""
        return bool(self.spec["perDeviceNodeSelection"].value)

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
    """What is wrong with slices that reach one node together."""
    names: set[str] = set()
    for one in slices:
        found = one.attempt(_check_names, slices[0], names)
        if found is not None:
            return found
    return None


def identified(obj: ApiObject) -> Slice:
    """The slice with its pool, which a slice must name."""
    spec, pool = obj["spec"], obj["spec"]["pool"]
    driver = name_in(spec["driver"], _MAX_DRIVER_LENGTH)
    name = name_in(pool["name"], MAX_POOL_LENGTH)
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
    for device in one.spec["devices"].items():
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
        supply_of(counter["value"].value, f"{counter.where}.value")


def _check_devices(one: Slice) -> None:
    """Refuse unreadable numbers, too many devices and devices without a name. Raises Defect."""
    if -1 in (one.generation, one.count):
        raise one.spec["pool"].error("generation and resourceSliceCount are whole numbers")
    listed = one.spec["devices"]
    devices = listed.items()
    costly = any(
        any(map(device.value.get, _COSTLY_FIELDS)) or has_lists(device.value.get("attributes"))
        for device in devices
    )
    most = _MAX_DEVICES_WITH_MORE if costly else _MAX_DEVICES
    listed.limit(len(devices), most, "{count} devices in a slice; the API allows {most}")
    for device in devices:
        name_in(device["name"], _MAX_DEVICE_LENGTH)


def _check_names(one: Slice, first: Slice, names: set[str]) -> None:
    """Refuse slices with another number of slices, or with a name twice. Raises Defect."""
    if one.count != first.count:
        problem = f"it is {one.count} here and {first.count} in {first.obj}"
        raise one.spec["pool"]["resourceSliceCount"].error(problem)
    for device in one.spec["devices"].items():
        name = device["name"]
        if name.value in names:
            raise name.error(f"the device name {name.value!r} is listed twice")
        names.add(name.value)


def _check_sets(one: Slice, sets: dict[str, frozenset[str]]) -> None:
    """Note the counter sets of a slice; each is defined once in its pool. Raises Defect."""
    for item in one.spec["sharedCounters"].items(_MAX_SETS, "more than {most} counter sets"):
        name = name_in(item["name"], _MAX_DEVICE_LENGTH)
        if name in sets:
            raise item.error(f"the counter set {name!r} is listed twice")
        sets[name] = frozenset(item["counters"].mapping())


def _check_consumption(one: Slice, sets: t.Mapping[str, frozenset[str]]) -> None:
    """Refuse devices that consume counters that their pool lacks. Raises Defect."""
    for device in one.spec["devices"].items():
        listed = device["consumesCounters"]
        consumed = listed.items(_MAX_CONSUMPTIONS, "more than {most} counter sets")
        drawn = [name_in(part["counterSet"], _MAX_DEVICE_LENGTH) for part in consumed]
        if len(set(drawn)) < len(drawn):
            raise listed.error("a counter set is listed twice")
        for name, part in zip(drawn, consumed):
            if name not in sets:
                raise listed.error(f"the pool has no counter set {name}")
            for counter in part["counters"].mapping():
                if counter not in sets[name]:
                    raise listed.error(f"the pool has no counter {name}/{counter}")
