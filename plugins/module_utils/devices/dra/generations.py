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

from ...base.boundary import shown
from ...base.json_types import Object
from ...cel.values import supply_of
from ..model.fields import items_of, mapping_of
from ..model.findings import ApiObject, Defect
from . import values as dra_values

if t.TYPE_CHECKING:
    P = t.ParamSpec("P")

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
    spec: Object
    key: PoolKey
    generation: int
    count: int

    def attempt(
        self, check: t.Callable[t.Concatenate[Slice, P], None], *more: P.args, **named: P.kwargs
    ) -> Defect | None:
        """The defect of the slice that a check finds, if any."""
        return self.obj.attempt(lambda _obj: check(self, *more, **named))


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
    spec = mapping_of(obj, obj.manifest.get("spec"), "spec")
    pool = mapping_of(obj, spec.get("pool"), "spec.pool")
    driver = text_of(obj, spec.get("driver"), "spec.driver", _MAX_DRIVER_LENGTH)
    name = text_of(obj, pool.get("name"), "spec.pool.name", MAX_POOL_LENGTH)
    generation, count = pool.get("generation", 0), pool.get("resourceSliceCount", 0)
    readable = [one if _is_count(one) else -1 for one in (generation or 0, count or 0)]
    return Slice(obj, spec, (driver, name), *readable)


def _is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def text_of(obj: ApiObject, value: t.Any, where: str, most: int) -> str:
    """A name. Raises Defect."""
    if not isinstance(value, str) or not value:
        raise obj.error(where, "the name is missing")
    if len(value) > most or not value.isascii():
        raise obj.error(where, f"{shown(value)} is not a name of up to {most} characters")
    return value


def latest(slices: list[Slice]) -> list[Slice]:
    """The slices of the latest generation, by name, and slices with an unreadable generation."""
    newest = max(one.generation for one in slices)
    current = (one for one in slices if one.generation in (newest, -1))
    return sorted(current, key=lambda one: one.obj.name)


def devices_of(one: Slice) -> t.Sequence[t.Any]:
    listed = one.spec.get("devices")
    return listed if isinstance(listed, list) else ()


def _check_fields(one: Slice) -> None:
    """Refuse unknown fields of a slice and of its members. Raises Defect."""
    obj, spec = one.obj, one.spec
    dra_values.refuse_unknown(obj, spec, _SLICE_FIELDS, "spec")
    dra_values.refuse_unknown(obj, spec["pool"], _POOL_FIELDS, "spec.pool")
    for index, item in enumerate(items_of(obj, spec.get("devices"), "spec.devices")):
        where = f"spec.devices[{index}]"
        dra_values.refuse_unknown(obj, item, _DEVICE_FIELDS, where)
        place = f"{where}.consumesCounters"
        for part in items_of(obj, item.get("consumesCounters"), place):
            _check_counters(obj, part, _CONSUMPTION_FIELDS, place)
    for index, item in enumerate(items_of(obj, spec.get("sharedCounters"), "spec.sharedCounters")):
        _check_counters(obj, item, _SET_FIELDS, f"spec.sharedCounters[{index}]")


def _check_counters(obj: ApiObject, item: Object, known: frozenset[str], where: str) -> None:
    dra_values.refuse_unknown(obj, item, known, where)
    counters = mapping_of(obj, item.get("counters"), f"{where}.counters")
    if len(counters) > _MAX_COUNTERS:
        raise obj.error(f"{where}.counters", f"more than {_MAX_COUNTERS} counters")
    for name, amount in counters.items():
        place = f"{where}.counters.{name}"
        body = mapping_of(obj, amount, place)
        dra_values.refuse_unknown(obj, body, _COUNTER_FIELDS, place)
        supply_of(body.get("value"), f"{place}.value")


def _check_devices(one: Slice) -> None:
    """Refuse unreadable numbers, too many devices and devices without a name. Raises Defect."""
    obj = one.obj
    if -1 in (one.generation, one.count):
        raise obj.error("spec.pool", "generation and resourceSliceCount are whole numbers")
    devices = items_of(obj, one.spec.get("devices"), "spec.devices")
    costly = any(
        any(map(device.get, _COSTLY_FIELDS)) or dra_values.has_lists(device.get("attributes"))
        for device in devices
    )
    most = _MAX_DEVICES_WITH_MORE if costly else _MAX_DEVICES
    if len(devices) > most:
        raise obj.error("spec.devices", f"{len(devices)} devices in a slice; the API allows {most}")
    for index, device in enumerate(devices):
        text_of(obj, device.get("name"), f"spec.devices[{index}].name", _MAX_DEVICE_LENGTH)


def _check_names(one: Slice, first: Slice, names: set[str]) -> None:
    """Refuse slices with another number of slices, or with a name twice. Raises Defect."""
    obj = one.obj
    if one.count != first.count:
        problem = f"it is {one.count} here and {first.count} in {first.obj}"
        raise obj.error("spec.pool.resourceSliceCount", problem)
    for index, device in enumerate(devices_of(one)):
        if device["name"] in names:
            problem = f"the device name {device['name']!r} is listed twice"
            raise obj.error(f"spec.devices[{index}].name", problem)
        names.add(device["name"])


def _check_sets(one: Slice, sets: dict[str, frozenset[str]]) -> None:
    """Note the counter sets of a slice; each is defined once in its pool. Raises Defect."""
    obj, where = one.obj, "spec.sharedCounters"
    items = items_of(obj, one.spec.get("sharedCounters"), where)
    if len(items) > _MAX_SETS:
        raise obj.error(where, f"more than {_MAX_SETS} counter sets")
    for index, item in enumerate(items):
        name = text_of(obj, item.get("name"), f"{where}[{index}].name", _MAX_DEVICE_LENGTH)
        if name in sets:
            raise obj.error(f"{where}[{index}]", f"the counter set {name!r} is listed twice")
        sets[name] = frozenset(mapping_of(obj, item.get("counters"), where))


def _check_consumption(one: Slice, sets: t.Mapping[str, frozenset[str]]) -> None:
    """Refuse devices that consume counters that their pool lacks. Raises Defect."""
    obj = one.obj
    for index, device in enumerate(items_of(obj, one.spec.get("devices"), "spec.devices")):
        place = f"spec.devices[{index}].consumesCounters"
        consumed = items_of(obj, device.get("consumesCounters"), place)
        if len(consumed) > _MAX_CONSUMPTIONS:
            raise obj.error(place, f"more than {_MAX_CONSUMPTIONS} counter sets")
        drawn = [
            text_of(obj, part.get("counterSet"), place, _MAX_DEVICE_LENGTH) for part in consumed
        ]
        if len(set(drawn)) < len(drawn):
            raise obj.error(place, "a counter set is listed twice")
        for name, part in zip(drawn, consumed):
            if name not in sets:
                raise obj.error(place, f"the pool has no counter set {name}")
            for counter in part.get("counters") or ():
                if counter not in sets[name]:
                    raise obj.error(place, f"the pool has no counter {name}/{counter}")
