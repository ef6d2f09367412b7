# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Components: independent parts of a fleet, because no unit has devices of two of them.

Devices are in one component if they consume the same set of counters, or if one unit may need
several of them: all devices that it may use on a node, or those with the same value if its devices
must have a common one. Components that are equal device by device are one kind. So a fleet is a few
kinds of components, and equivalent units are one group.
"""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass, field

from ....cel.values import identities
from ...model.model import NOT_MET, Claim, Counter, Device, HeldDevice, Instance, Unit
from ...model.objective import CounterSet, Objective, localities
from ..search import equal_units

Description = tuple[t.Hashable, ...]


@dataclass(frozen=True)
class UnitGroup:
    """Equivalent units of equal priority, and the devices that they may use."""

    units: tuple[Unit, ...]
    usable: frozenset[int]


@dataclass(frozen=True)
class Component:
    """Devices of a node by position, ascending."""

    node: str
    devices: tuple[int, ...]


@dataclass(frozen=True)
class ComponentKind:
    """Equal components: a content of one, by positions within it, is a content of all.

    ``instance`` is the first of them as a task without claims; ``groups`` are the groups that may
    have devices of it, by position.
    """

    components: tuple[Component, ...]
    instance: Instance
    groups: tuple[int, ...]


@dataclass(frozen=True)
class _ComponentMatcher:
    """A matcher of a component."""

    devices: tuple[int, ...]
    errors: t.Mapping[int, str] = field(default_factory=dict)

    def why_not(self, device: int) -> str:
        return "" if device in self.devices else NOT_MET


def groups_of(instance: Instance) -> list[UnitGroup]:
    """Groups of equivalent units, in the order of the first of each group."""
    accepting = [frozenset(matcher.devices) for matcher in instance.matchers]
    return [
        UnitGroup(tuple(units), frozenset().union(*(accepting[one] for one in matchers)))
        for units in equal_units(instance, instance.units)
        for matchers in [_matchers(instance, units[0])]
    ]


def _matchers(instance: Instance, unit: Unit) -> set[int]:
    return {alternative.matcher for alternative in instance.alternatives_of(unit)}


def kinds_of(
    instance: Instance, objective: Objective, groups: t.Sequence[UnitGroup]
) -> list[ComponentKind] | None:
    """The kinds of components; None if several nodes share devices or counters."""
    names = {node.name for node in instance.nodes}
    node_of: list[str | None] = []
    for device in instance.devices:
        here = device.nodes & names
        if len(here) > 1:
            return None
        node_of.append(next(iter(here), None))
    parts = DisjointSets(len(instance.devices))
    for devices in objective.partitions.values():
        if len({node_of[device] for device in devices}) > 1:
            return None
        parts.join(devices)
    for group in groups:
        _join(instance, group, node_of, parts)
    for node, cost in objective.wake.items():
        # The power draw of an unused node is paid once for the whole node.
        if cost:
            parts.join(device for device, here in enumerate(node_of) if here == node)
    return _Classifier(instance, objective, groups).of(parts.components(node_of))


def _join(
    instance: Instance, group: UnitGroup, node_of: t.Sequence[str | None], parts: DisjointSets
) -> None:
    """Join the devices that one unit of a group may need together."""
    unit = group.units[0]
    claims = [instance.claims[claim] for claim in unit.claims]
    if len(claims) == 1 and claims[0].is_for_one_device:
        return
    attribute = _common_attribute(claims)
    together: dict[t.Hashable, list[int]] = {}
    for device in sorted(group.usable):
        node = node_of[device]
        if node is None or (unit.nodes is not None and node not in unit.nodes):
            continue
        keys: t.Collection[t.Hashable] = ("",)
        if attribute is not None:
            value = instance.devices[device].attributes.get(attribute)
            keys = () if value is None else identities(value)
        for key in keys:
            together.setdefault((node, key), []).append(device)
    for devices in together.values():
        parts.join(devices)


def _common_attribute(claims: t.Sequence[Claim]) -> str | None:
    """An attribute with one common value over all devices of a unit."""
    if len(claims) != 1:
        return None
    [claim] = claims
    members = {
        (number, way)
        for number, request in enumerate(claim.requests)
        for way in range(len(request.alternatives))
    }
    if any(one.every_device for one in claim.alternatives):
        return None
    return next(
        (
            one.attribute
            for one in claim.constraints
            if one.kind == "match" and one.members >= members
        ),
        None,
    )


class DisjointSets:
    """Disjoint sets of positions, such as of devices (union-find)."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def join(self, members: t.Iterable[int]) -> None:
        """Make the sets of these members one."""
        first: int | None = None
        for member in members:
            root = self.root(member)
            if first is None:
                first = root
            elif root != first:
                first, later = min(first, root), max(first, root)
                self._parent[later] = first

    def root(self, device: int) -> int:
        """The smallest member of the set."""
        while self._parent[device] != device:
            self._parent[device] = self._parent[self._parent[device]]
            device = self._parent[device]
        return device

    def components(self, node_of: t.Sequence[str | None]) -> list[Component]:
        # All devices of a component are on the node of the first one.
        found: dict[int, tuple[str, list[int]]] = {}
        for device, node in enumerate(node_of):
            if node is not None:
                found.setdefault(self.root(device), (node, []))[1].append(device)
        return [Component(node, tuple(devices)) for node, devices in found.values()]


@dataclass
class _Classifier:
    """Describes components; equal descriptions mean equal components."""

    instance: Instance
    objective: Objective
    groups: t.Sequence[UnitGroup]
    _accepted_by: dict[int, list[int]] = field(default_factory=dict)
    _held: dict[int, list[HeldDevice]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        units = [group.units[0] for group in self.groups]
        for number in sorted(set().union(*(_matchers(self.instance, unit) for unit in units))):
            for device in self.instance.matchers[number].devices:
                self._accepted_by.setdefault(device, []).append(number)
        for held in self.instance.held:
            self._held.setdefault(held.device, []).append(held)
        claims = [self.instance.claims[claim] for unit in units for claim in unit.claims]
        self._compared = sorted({one.attribute for claim in claims for one in claim.constraints})
        self._spread = any(len(unit.claims) > 1 for unit in units) or not all(
            claim.is_for_one_device for claim in claims
        )

    def of(self, components: t.Sequence[Component]) -> list[ComponentKind]:
        alike: dict[Description, list[Component]] = {}
        for component in components:
            if any(device in self._accepted_by for device in component.devices):
                alike.setdefault(self._description(component), []).append(component)
        return [
            ComponentKind(tuple(of_kind), self._task(of_kind[0]), self._groups_of(of_kind[0]))
            for of_kind in alike.values()
        ]

    def _groups_of(self, component: Component) -> tuple[int, ...]:
        return tuple(
            number
            for number, group in enumerate(self.groups)
            if (group.units[0].nodes is None or component.node in group.units[0].nodes)
            and not group.usable.isdisjoint(component.devices)
        )

    def _description(self, component: Component) -> Description:
        counters = self._counters(component)
        renamed: dict[tuple[str, t.Hashable], int] = {}
        devices = []
        for position in component.devices:
            device = self.instance.devices[position]
            held = [
                (tuple(sorted(one.portions.items())), one.admin, one.whole)
                for one in self._held.get(position, ())
            ]
            devices.append(
                (
                    tuple(self._accepted_by.get(position, ())),
                    tuple((counters[counter], amount) for counter, amount in device.consumes),
                    tuple(held),
                    self._attributes(device, renamed),
                    tuple(sorted(device.capacities.items())) if device.capacities else (),
                    device.shareable,
                    repr(sorted(device.access.items())) if device.access else "",
                    device.milliwatts,
                )
            )
        sets: dict[CounterSet, int] = {}
        left = tuple(
            (sets.setdefault(_set_of(counter), len(sets)), counter.capacity)
            for counter in (self.instance.counters[position] for position in counters)
        )
        unsettled = component.node in self.instance.unsettled, self._unsettled_groups(component)
        wake = self.objective.wake[component.node]
        return tuple(devices), left, unsettled, wake, self._groups_of(component)

    def _unsettled_groups(self, component: Component) -> tuple[int, ...]:
        """Groups for every device, if "every device" is undefined on this node."""
        return tuple(
            number
            for number, group in enumerate(self.groups)
            if any(
                component.node in alternative.unsettled
                for alternative in self.instance.alternatives_of(group.units[0])
            )
        )

    def _attributes(
        self, device: Device, renamed: dict[tuple[str, t.Hashable], int]
    ) -> Description:
        """Attribute values of devices, numbered in the order in which the component shows them."""
        values = {
            name: identities(device.attributes[name])
            for name in self._compared
            if name in device.attributes
        }
        if self._spread:
            values |= {f"/{kind}": value for kind, value in localities(device).items()}
        return tuple(
            (
                name,
                frozenset(
                    renamed.setdefault((name, value), len(renamed))
                    for value in sorted(found, key=repr)
                ),
            )
            for name, found in values.items()
        )

    def _counters(self, component: Component) -> dict[int, int]:
        """Positions within the component of all counters of its sets."""
        sets: dict[CounterSet, None] = {}
        for position in component.devices:
            for counter, _amount in self.instance.devices[position].consumes:
                sets[_set_of(self.instance.counters[counter])] = None
        counters = [counter for key in sets for counter in self.objective.counters_of[key]]
        return {counter: number for number, counter in enumerate(counters)}

    def _task(self, component: Component) -> Instance:
        counters = self._counters(component)
        position_of = {device: number for number, device in enumerate(component.devices)}
        devices = []
        for position in component.devices:
            device = self.instance.devices[position]
            consumes = tuple((counters[counter], amount) for counter, amount in device.consumes)
            devices.append(dataclasses.replace(device, consumes=consumes))
        accepted: dict[int, list[int]] = {}
        for device_number, position in enumerate(component.devices):
            for matcher in self._accepted_by.get(position, ()):
                accepted.setdefault(matcher, []).append(device_number)
        return Instance(
            tuple(node for node in self.instance.nodes if node.name == component.node),
            tuple(devices),
            tuple(self.instance.counters[counter] for counter in counters),
            tuple(
                _ComponentMatcher(tuple(accepted.get(number, ())))
                for number in range(len(self.instance.matchers))
            ),
            (),
            (),
            tuple(
                dataclasses.replace(held, device=position_of[position])
                for position in component.devices
                for held in self._held.get(position, ())
            ),
            {node: why for node, why in self.instance.unsettled.items() if node == component.node},
        )


def _set_of(counter: Counter) -> CounterSet:
    return counter.driver, counter.pool, counter.counter_set
