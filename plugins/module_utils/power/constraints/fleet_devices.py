# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Feasibility of claims for devices of several nodes; see fleet_contents.py."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from functools import cached_property

from ...scheduling.model import Node, Shape
from .device_claims import ClaimTask
from .device_feasibility import CANNOT_ALLOCATE, draw_of, groups_of_units, keys_of
from .fleet_contents import Total
from .node_contents import Draw, Pods

if t.TYPE_CHECKING:
    from .device_claims import ClaimBook


@dataclass
class DeviceFleet:
    """Claims of one API that compete for such devices. ``keys`` belong to one pod of each group.

    Nodes of one class reach the same devices, and power counts equally.
    """

    task: ClaimTask
    keys: t.Mapping[int, str]
    nodes: t.Sequence[Node]

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(self.keys)

    @property
    def shared(self) -> list[list[int]]:
        """Groups that form one unit, which is on one node."""
        return groups_of_units(self.task, self.keys)

    @cached_property
    def _classes(self) -> dict[t.Hashable, int]:
        """The first node of each class, by position."""
        first: dict[t.Hashable, int] = {}
        for position in range(len(self.nodes)):
            first.setdefault(self._kind(position), position)
        return first

    def _kind(self, node: int) -> t.Hashable:
        units = [self.task.units[key][0] for key in dict.fromkeys(self.keys.values())]
        given = self.nodes[node]
        return self.task.joint_feasibility.reach(given.name, units), given.curve is None

    @cached_property
    def class_of(self) -> list[int]:
        number = {kind: position for position, kind in enumerate(self._classes)}
        return [number[self._kind(node)] for node in range(len(self.nodes))]

    @cached_property
    def _names(self) -> list[str]:
        return [self.nodes[first].name for first in self._classes.values()]

    @cached_property
    def _unpriced(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes if node.curve is None)

    @property
    def draws(self) -> bool:
        return any(device.milliwatts for device in self.task.task.instance.devices)

    def draw(self, pods: Pods) -> Draw:
        places: dict[str, list[int]] = {}
        given: dict[str, int] = {}
        classes = len(self._names)
        for index, number in enumerate(pods):
            key, node = list(self.keys.values())[index // classes], self._names[index % classes]
            if key in self.task.shared:
                number = min(number, 1 - given.get(key, 0))
            before = given.get(key, 0)
            given[key] = before + number
            places.setdefault(node, []).extend(self.task.units[key][before : before + number])
        found = self.task.joint_feasibility.on_nodes(places, self._unpriced)
        return draw_of(found)

    def least_alone(self, group: int, of_class: int) -> float:
        """As on one node: power that counts once for several pods is not a single pod's."""
        if self.task.may_share(self.keys[group]):
            return 0.0
        alone = [0] * (len(self.keys) * len(self._names))
        alone[self.groups.index(group) * len(self._names) + of_class] = 1
        return self.draw(tuple(alone)).least_watts

    def totals(self) -> list[Total]:
        """Devices of each set that is exactly the set of some request."""
        joint = self.task.joint_feasibility
        return [
            Total(needed, joint.free(devices)) for devices, needed in self.task.needed(self.keys)
        ]

    def reason(self, group: int) -> str:
        return CANNOT_ALLOCATE


def device_fleets(
    claims: ClaimBook | None, shapes: t.Sequence[Shape], nodes: t.Sequence[Node]
) -> list[DeviceFleet]:
    """One check for each set of claims that compete for devices of several nodes."""
    found = []
    for position, task in enumerate(claims.tasks if claims else ()):
        keys = keys_of(shapes, position)
        for fleet in task.fleets:
            own = {group: key for group, key in keys.items() if key in fleet}
            if own:
                found.append(DeviceFleet(task, own, nodes))
    return found
