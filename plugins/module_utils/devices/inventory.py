# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Devices by node with their holders, for people, from the objects of either API.

Devices that consume the same counters are one divided device, such as a GPU in partitions. Its
scale is the counters of single slices (``memory-slice-0`` and so on), so that each partition has
its place. Without these it is the memory, else the counter that most of the devices consume.
"""

from __future__ import annotations

import itertools
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
from .model.model import Amounts, Counter, Device, HeldDevice, Node
from .model.task import labels_of
from .solve.columns.components import DisjointSets

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


_Taken = dict[int, list[_Use]]


def inventory(given_objects: t.Sequence[ApiObject]) -> Inventory:
    """The inventory of the objects; unreadable objects are among the problems."""
    found = Inventory()
    by_kind: dict[str, list[ApiObject]] = defaultdict(list)
    for obj in given_objects:
        by_kind[obj.kind].append(obj)
    nodes = tuple(
        Node(obj.name, labels_of(obj, Findings()))
        for obj in sorted(by_kind["Node"], key=lambda obj: obj.name)
    )
    _add_dra(found, nodes, by_kind)
    _add_prototype(found, nodes, by_kind)
    return found


def _add_dra(
    found: Inventory, nodes: tuple[Node, ...], by_kind: t.Mapping[str, list[ApiObject]]
) -> None:
    """ResourceSlices, with the allocations of ResourceClaims."""
    findings = Findings()
    slices = dra_slices.Slices(findings, nodes)
    slices.read(by_kind["ResourceSlice"])
    taken: _Taken = defaultdict(list)
    for obj in by_kind["ResourceClaim"]:
        users = objects(member(obj.manifest, "status", "reservedFor"))
        pods = [text(user.get("name")) for user in users if user.get("resource") == "pods"]
        _note(found, taken, obj, pods, obj.attempt(dra_status.held_devices, slices, findings))
    found.problems += map(str, findings.found)
    unusable = {place: one.unusable for place, one in enumerate(slices.published)}
    _sort(found, slices.devices, slices.counters, taken, unusable)


def _add_prototype(
    found: Inventory, nodes: tuple[Node, ...], by_kind: t.Mapping[str, list[ApiObject]]
) -> None:
    """DevicePools, with the allocations of DeviceClaims."""
    pools = k8srm_pools.Pools(Findings(), frozenset(node.name for node in nodes))
    read = [obj.attempt(pools.add) for obj in by_kind["DevicePool"]]
    found.problems += [str(one) for one in read if one is not None]
    taken: _Taken = defaultdict(list)
    for obj in (*by_kind["DeviceClaim"], *by_kind["DevicePrivilegedClaim"]):
        named = member(obj.manifest, "status", "podNames")
        pods = [text(name) for name in named] if isinstance(named, list) else []
        held = obj.attempt(k8srm_status.held_devices, pools, taken.keys())
        _note(found, taken, obj, pods, held)
    _sort(found, pools.devices, pools.counters, taken, {})


def _note(
    found: Inventory,
    taken: _Taken,
    obj: ApiObject,
    pods: t.Sequence[str],
    held: t.Sequence[HeldDevice] | Defect,
) -> None:
    """Note the devices of a claim; admin access takes nothing."""
    if isinstance(held, Defect):
        found.problems.append(str(held))
        return
    held = [one for one in held if not one.admin]
    if held:
        names = tuple(f"{obj.namespace}/{name}" for name in pods)
        found.holders.append(Holder(f"{obj.namespace}/{obj.name}", names))
    for one in held:
        taken[one.device].append(_Use(len(found.holders) - 1, one.portions))


def _sort(
    found: Inventory,
    devices: t.Sequence[Device],
    counters: t.Sequence[Counter],
    taken: t.Mapping[int, t.Sequence[_Use]],
    unusable: t.Mapping[int, str],
) -> None:
    families = _families(counters)
    for group in _groups(devices, counters):
        first, uses = devices[group[0]], taken.get(group[0], ())
        name = next(iter(first.nodes)) if len(first.nodes) == 1 else NETWORK
        node = found.nodes.setdefault(name, NodeDevices())
        if first.consumes:
            node.divided.append(_divided_by_counters(group, devices, counters, families, taken))
        elif first.shareable and first.capacities:
            node.divided.append(_divided_by_portions(first, uses))
        else:
            holders = tuple(one.holder for one in uses)
            why = unusable.get(group[0], "")
            node.whole.append(WholeDevice(first.driver, first.pool, first.name, holders, why))


def _groups(devices: t.Sequence[Device], counters: t.Sequence[Counter]) -> list[list[int]]:
    """Positions of devices that consume the same counters, directly or through others."""
    parts = DisjointSets(len(counters))
    for device in devices:
        parts.join(counter for counter, _amount in device.consumes)
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, device in enumerate(devices):
        is_divided = bool(device.consumes)
        key = ("counter", parts.root(device.consumes[0][0])) if is_divided else ("device", place)
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
    sizes = ((one.name, holder, dict(one.consumes).get(scale, 0)) for one, holder in held)
    parts = _parts_in_slices(held, slices, scale, capacity) if slices else _parts(sizes)
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


def _parts(sizes: t.Iterable[tuple[str, int, int]]) -> t.Iterator[Partition]:
    """Consecutive places by device, holder and size, because no counter defines them."""
    first = 0
    for device, holder, size in sizes:
        yield Partition(device, holder, first, size)
        first += size


def _divided_by_portions(device: Device, taken: t.Sequence[_Use]) -> DividedDevice:
    """A device whose capacity claims share in portions."""
    amount = min(device.capacities, key=lambda name: ("memory" not in name, name))
    capacity = device.capacities[amount].amount
    sizes = [(device.name, one.holder, one.portions.get(amount, 0)) for one in taken]
    return DividedDevice(
        device.driver,
        device.pool,
        device.name,
        units=capacity,
        slices=False,
        amount=amount,
        used=quantity_text(sum(size for _name, _holder, size in sizes)),
        capacity=quantity_text(capacity),
        parts=tuple(_parts(sizes)),
    )


def _common_name(names: t.Sequence[str], otherwise: str) -> str:
    """Common prefix of the names of a divided device: ``gpu-0`` of ``gpu-0-mig-1g.5gb-0``."""
    words = zip(*(name.split("-") for name in names))
    common = itertools.takewhile(lambda alternatives: len(set(alternatives)) == 1, words)
    return "-".join(word for word, *_same in common) or otherwise or names[0]
