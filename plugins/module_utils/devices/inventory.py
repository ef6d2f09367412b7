# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Devices by node with their holders, for people, from the objects of either API.

Devices that consume the same counters are one divided device, such as a GPU in partitions. Its
scale is the counters of single slices (``memory-slice-0`` and so on), so that each partition has
its place. Without these it is the memory, else the counter that most of the devices consume.
"""

from __future__ import annotations

import re
import typing as t
from collections import defaultdict
from dataclasses import dataclass, field

from ..base.fields.lenient import member, objects, text
from ..cel.values import THOUSANDTHS, quantity_text
from .dra import slices as dra_slices
from .dra import status as dra_status
from .k8srm import pools as k8srm_pools
from .k8srm import status as k8srm_status
from .model.findings import ApiObject, Defect, Findings
from .model.model import Amounts, Counter, Device, Node
from .model.task import labels_of

# Devices that several nodes reach.
NETWORK = ""
_NUMBERED = re.compile(r"(.*?)([0-9]+)")
_MIN_SLICES = 2


@dataclass(frozen=True)
class Holder:
    """A claim that has devices, and its pods."""

    claim: str
    pods: tuple[str, ...]


@dataclass(frozen=True)
class Partition:
    """An interval of a divided device, held through the device of this name."""

    device: str
    holder: int
    first: float
    size: float


@dataclass(frozen=True)
class DividedDevice:
    """A device that is divided into ``units``.

    ``used`` and ``capacity`` are quantities of ``amount``.
    """

    driver: str
    pool: str
    name: str
    units: float
    slices: bool
    amount: str
    used: str
    capacity: str
    parts: tuple[Partition, ...]


@dataclass(frozen=True)
class WholeDevice:
    """A device that one holder has completely, or several have with admin access."""

    driver: str
    pool: str
    name: str
    holders: tuple[int, ...]
    unusable: str = ""


@dataclass
class NodeDevices:
    """The devices of one node."""

    whole: list[WholeDevice] = field(default_factory=list)
    divided: list[DividedDevice] = field(default_factory=list)


@dataclass
class Inventory:
    """Devices by node, their holders by position, and the problems of unreadable objects."""

    nodes: dict[str, NodeDevices] = field(default_factory=dict)
    holders: list[Holder] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class _Use(t.NamedTuple):
    holder: int
    portions: Amounts


def inventory(given_objects: t.Sequence[ApiObject]) -> Inventory:
    """The inventory of the objects; unreadable objects are among the problems."""
    found = Inventory()
    stock = _Stock(found)
    by_kind: dict[str, list[ApiObject]] = defaultdict(list)
    for obj in given_objects:
        by_kind[obj.kind].append(obj)
    nodes = tuple(
        Node(obj.name, labels_of(obj, Findings()))
        for obj in sorted(by_kind["Node"], key=lambda obj: obj.name)
    )
    stock.add_dra(nodes, by_kind)
    stock.add_prototype(nodes, by_kind)
    return found


class _Stock:
    def __init__(self, found: Inventory) -> None:
        self._found = found

    def add_dra(self, nodes: tuple[Node, ...], by_kind: t.Mapping[str, list[ApiObject]]) -> None:
        """ResourceSlices, with the allocations of ResourceClaims."""
        findings = Findings()
        slices = dra_slices.Slices(findings, nodes)
        slices.read(by_kind.get("ResourceSlice", []))
        taken: dict[int, list[_Use]] = defaultdict(list)
        for obj in by_kind.get("ResourceClaim", []):
            users = objects(member(obj.manifest, "status", "reservedFor"))
            pods = [text(user.get("name")) for user in users if user.get("resource") == "pods"]
            self._note(
                taken, obj, pods, lambda claim: dra_status.held_devices(claim, slices, findings)
            )
        self._found.problems += map(str, findings.found)
        unusable = {place: one.unusable for place, one in enumerate(slices.published)}
        self._sort(slices.devices, slices.counters, taken, unusable)

    def add_prototype(
        self, nodes: tuple[Node, ...], by_kind: t.Mapping[str, list[ApiObject]]
    ) -> None:
        """DevicePools, with the allocations of DeviceClaims."""
        pools = k8srm_pools.Pools(Findings(), frozenset(node.name for node in nodes))
        for obj in by_kind.get("DevicePool", []):
            found = obj.attempt(pools.add)
            if isinstance(found, Defect):
                self._found.problems.append(str(found))
        taken: dict[int, list[_Use]] = defaultdict(list)
        for kind in ("DeviceClaim", "DevicePrivilegedClaim"):
            for obj in by_kind.get(kind, []):
                named = member(obj.manifest, "status", "podNames")
                pods = [text(name) for name in named] if isinstance(named, list) else []
                self._note(
                    taken,
                    obj,
                    pods,
                    lambda claim: k8srm_status.held_devices(claim, pools, taken.keys()),
                )
        self._sort(pools.devices, pools.counters, taken, {})

    def _note(
        self,
        taken: dict[int, list[_Use]],
        obj: ApiObject,
        pods: t.Sequence[str],
        held_devices: t.Callable[[ApiObject], t.Sequence[t.Any]],
    ) -> None:
        """Note the devices of a claim; admin access takes nothing."""
        found = obj.attempt(held_devices)
        if isinstance(found, Defect):
            self._found.problems.append(str(found))
            return
        held = [one for one in found if not one.admin]
        if held:
            names = tuple(f"{obj.namespace}/{name}" for name in pods)
            self._found.holders.append(Holder(f"{obj.namespace}/{obj.name}", names))
        for one in held:
            taken[one.device].append(_Use(len(self._found.holders) - 1, one.portions))

    def _sort(
        self,
        devices: t.Sequence[Device],
        counters: t.Sequence[Counter],
        taken: t.Mapping[int, t.Sequence[_Use]],
        unusable: t.Mapping[int, str],
    ) -> None:
        families = _families(counters)
        for group in _groups(devices, counters):
            first = devices[group[0]]
            node = self._node_of(first)
            if first.consumes:
                drawn = _divided_by_counters(group, devices, counters, families, taken)
                node.divided.append(drawn)
            elif first.shareable and first.capacities:
                node.divided.append(_divided_by_portions(first, taken.get(group[0], ())))
            else:
                holders = tuple(one.holder for one in taken.get(group[0], ()))
                why = unusable.get(group[0], "")
                node.whole.append(WholeDevice(first.driver, first.pool, first.name, holders, why))

    def _node_of(self, device: Device) -> NodeDevices:
        name = next(iter(device.nodes)) if len(device.nodes) == 1 else NETWORK
        return self._found.nodes.setdefault(name, NodeDevices())


def _groups(devices: t.Sequence[Device], counters: t.Sequence[Counter]) -> list[list[int]]:
    """Positions of devices that consume the same counters, directly or through others."""
    leader = list(range(len(counters)))

    def find(counter: int) -> int:
        while leader[counter] != counter:
            leader[counter] = leader[leader[counter]]
            counter = leader[counter]
        return counter

    for device in devices:
        for counter, _amount in device.consumes:
            leader[find(counter)] = find(device.consumes[0][0])
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, device in enumerate(devices):
        is_divided = bool(device.consumes)
        key = ("counter", find(device.consumes[0][0])) if is_divided else ("device", place)
        groups[key].append(place)
    return list(groups.values())


def _divided_by_counters(
    group: t.Sequence[int],
    devices: t.Sequence[Device],
    counters: t.Sequence[Counter],
    families: t.Mapping[int, t.Sequence[int]],
    taken: t.Mapping[int, t.Sequence[_Use]],
) -> DividedDevice:
    first = devices[group[0]]
    used: dict[int, int] = defaultdict(int)
    drawing: dict[int, int] = defaultdict(int)
    held: list[tuple[Device, int]] = []
    for place in group:
        for counter, amount in devices[place].consumes:
            drawing[counter] += 1
            used[counter] += amount if taken.get(place) else 0
        held += [(devices[place], one.holder) for one in taken.get(place, ())[:1]]
    scale = min(
        drawing,
        key=lambda counter: (
            "memory" not in counters[counter].name or _is_slice(counters[counter]),
            -drawing[counter],
            counters[counter].name,
        ),
    )
    slices = _slices(drawing.keys(), families)
    capacity = counters[scale].capacity
    parts = _parts_in_slices(held, slices, scale, capacity) if slices else _parts(held, scale)
    return DividedDevice(
        first.driver,
        first.pool,
        _common_name([devices[place].name for place in group], counters[scale].counter_set),
        units=len(slices) or capacity,
        slices=bool(slices),
        amount=counters[scale].name,
        used=quantity_text(used[scale]),
        capacity=quantity_text(capacity),
        parts=tuple(parts),
    )


def _is_slice(counter: Counter) -> bool:
    return counter.capacity == THOUSANDTHS and bool(_NUMBERED.fullmatch(counter.name))


def _families(counters: t.Sequence[Counter]) -> dict[int, list[int]]:
    """For each slice, all slices whose names differ only in the number, in that order.

    Slices that no device consumes are included, because they have places too.
    """
    families: dict[t.Hashable, list[tuple[int, int]]] = defaultdict(list)
    for place, counter in enumerate(counters):
        match = _NUMBERED.fullmatch(counter.name)
        if match and _is_slice(counter):
            family = (counter.driver, counter.pool, counter.counter_set, match[1])
            families[family].append((int(match[2]), place))
    ordered = [[place for _number, place in sorted(family)] for family in families.values()]
    return {place: family for family in ordered for place in family}


def _slices(drawn: t.Collection[int], families: t.Mapping[int, t.Sequence[int]]) -> dict[int, int]:
    """Place by counter, of the largest family of slices that the devices consume."""
    used = [families[counter] for counter in drawn if counter in families]
    largest = max(used, key=lambda family: (len(family), family[0]), default=())
    if len(largest) < _MIN_SLICES:
        return {}
    return {counter: place for place, counter in enumerate(largest)}


def _parts_in_slices(
    held: t.Sequence[tuple[Device, int]], slices: t.Mapping[int, int], scale: int, capacity: int
) -> t.Iterator[Partition]:
    """Place of each allocated device; one without a named slice takes free ones by its amount."""
    free = set(slices.values())
    own: list[tuple[Device, int, list[int]]] = []
    for device, holder in held:
        places = sorted(
            slices[counter] for counter, _amount in device.consumes if counter in slices
        )
        free.difference_update(places)
        own.append((device, holder, places))
    for device, holder, places in own:
        if not places and capacity:
            amount = dict(device.consumes).get(scale, 0)
            places = sorted(free)[: round(len(slices) * amount / capacity)]
            free.difference_update(places)
        for first, size in _stretches(places):
            yield Partition(device.name, holder, first, size)


def _stretches(places: t.Sequence[int]) -> t.Iterator[tuple[int, int]]:
    begin = 0
    for place in range(1, len(places) + 1):
        if place == len(places) or places[place] != places[place - 1] + 1:
            yield places[begin], place - begin
            begin = place


def _parts(held: t.Sequence[tuple[Device, int]], scale: int) -> t.Iterator[Partition]:
    """Consecutive places, because no counter defines them."""
    first = 0
    for device, holder in held:
        size = dict(device.consumes).get(scale, 0)
        yield Partition(device.name, holder, first, size)
        first += size


def _divided_by_portions(device: Device, taken: t.Sequence[_Use]) -> DividedDevice:
    """A device whose capacity claims share in portions."""
    amount = min(device.capacities, key=lambda name: ("memory" not in name, name))
    capacity = device.capacities[amount].amount
    parts: list[Partition] = []
    first = 0
    for one in taken:
        size = one.portions.get(amount, 0)
        parts.append(Partition(device.name, one.holder, first, size))
        first += size
    return DividedDevice(
        device.driver,
        device.pool,
        device.name,
        units=capacity,
        slices=False,
        amount=amount,
        used=quantity_text(first),
        capacity=quantity_text(capacity),
        parts=tuple(parts),
    )


def _common_name(names: t.Sequence[str], otherwise: str) -> str:
    """Common prefix of the names of a divided device: ``gpu-0`` of ``gpu-0-mig-1g.5gb-0``."""
    words = [name.split("-") for name in names]
    common = words[0]
    for other in words:
        same = [left == right for left, right in zip(common, other)]
        common = common[: same.index(False) if False in same else len(same)]
    return "-".join(common) or otherwise or names[0]
