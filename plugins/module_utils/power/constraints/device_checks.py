# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Joint feasibility of pods' device claims, on a node or over several nodes of a network.

Each check has the claims of one API; its groups are demands as keys of ClaimTask.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ...scheduling.model import Node, Shape
from .contents import Draw, FleetCheck, NodeCheck, Pods, Sum, Total
from .device_claims import ClaimBook, ClaimTask

if t.TYPE_CHECKING:
    from ...devices.solve.joint_feasibility import JointAnswer

CANNOT_ALLOCATE = "cannot allocate all claims"
_MILLIWATTS = 1000.0


def _draw_of(found: JointAnswer) -> Draw:
    """The power draw of an answer; unknown ones are infinite."""
    return Draw(
        math.inf if found.milliwatts is None else found.milliwatts / _MILLIWATTS,
        math.inf if found.least is None else found.least / _MILLIWATTS,
    )


@dataclass(frozen=True, eq=False)
class NodeDevicesCheck(NodeCheck[str, t.Hashable]):
    """Claims that can be decided node by node."""

    words = CANNOT_ALLOCATE
    task: ClaimTask
    nodes: t.Sequence[Node]
    _known: dict[t.Hashable, Draw] = field(default_factory=dict)

    def draw(self, node: int, pods: Pods) -> Draw:
        number: dict[str, int] = {}
        for key, count in zip(self.of_group.values(), pods):
            if key in self.task.shared:
                number[key] = max(number.get(key, 0), min(count, 1))
            else:
                number[key] = number.get(key, 0) + count
        known = self.kinds[node], tuple(sorted(number.items()))
        if known not in self._known:
            units = [unit for key, count in known[1] for unit in self.task.units[key][:count]]
            found = self.task.joint_feasibility.on_node(self.nodes[node].name, units)
            self._known[known] = _draw_of(found)
        return self._known[known]

    def least_alone(self, node: int, group: int) -> float:
        """Pods of a unit draw nothing alone, because the unit's power counts once. The same holds
        for a device that other pods can share."""
        if self.task.may_share(self.of_group[group]):
            return 0.0
        return self.draw(node, tuple(int(other == group) for other in self.groups)).least_watts

    def sums(self) -> list[Sum]:
        """Devices of each set that is exactly the set of some request."""
        joint = self.task.joint_feasibility
        return [
            Sum(needed, [joint.free_of(node.name, devices) for node in self.nodes])
            for devices, needed in self.task.needed(self.of_group)
        ]


@dataclass(frozen=True, eq=False)
class FleetDevicesCheck(FleetCheck[str]):
    """Claims that compete for devices of several nodes.

    Nodes of one class reach the same devices, and power counts equally.
    """

    words = CANNOT_ALLOCATE
    task: ClaimTask
    nodes: t.Sequence[Node]

    @cached_property
    def _names(self) -> list[str]:
        """The first node of each class."""
        return [self.nodes[self.class_of.index(one)].name for one in range(self.classes)]

    @cached_property
    def _unpriced(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes if node.curve is None)

    @property
    def draws(self) -> bool:
        return any(device.milliwatts for device in self.task.task.instance.devices)

    def draw(self, pods: Pods) -> Draw:
        places: dict[str, list[int]] = {}
        given: dict[str, int] = {}
        keys = list(self.of_group.values())
        for index, number in enumerate(pods):
            key, node = keys[index // self.classes], self._names[index % self.classes]
            before = given.get(key, 0)
            if key in self.task.shared:
                number = min(number, 1 - before)
            given[key] = before + number
            places.setdefault(node, []).extend(self.task.units[key][before : before + number])
        return _draw_of(self.task.joint_feasibility.on_nodes(places, self._unpriced))

    def least_alone(self, group: int, of_class: int) -> float:
        """As on one node: power that counts once for several pods is not a single pod's."""
        if self.task.may_share(self.of_group[group]):
            return 0.0
        return self.draw(self.alone(group, of_class)).least_watts

    def totals(self) -> list[Total]:
        """Devices of each set that is exactly the set of some request."""
        joint = self.task.joint_feasibility
        return [
            Total(needed, joint.free(devices))
            for devices, needed in self.task.needed(self.of_group)
        ]


def fits_empty_node(claims: ClaimBook | None, shape: Shape, node: Node) -> bool:
    """Whether a node could satisfy one pod with all devices free."""
    asked = zip(shape.device_claims, claims.tasks if claims else ())
    return all(task.fits_empty_node(key, node.name) for key, task in asked if key)


def device_checks(
    claims: ClaimBook | None, shapes: t.Sequence[Shape], nodes: t.Sequence[Node]
) -> tuple[list[NodeDevicesCheck], list[FleetDevicesCheck], list[list[int]]]:
    """The checks of nodes, those of the fleet, and groups of one unit, which is on one node."""
    local: list[NodeDevicesCheck] = []
    fleets: list[FleetDevicesCheck] = []
    for position, task in enumerate(claims.tasks if claims else ()):
        keys = {
            group: shape.device_claims[position]
            for group, shape in enumerate(shapes)
            if len(shape.device_claims) > position and shape.device_claims[position]
        }
        coupled = frozenset().union(*task.fleets)
        own = {group: key for group, key in keys.items() if key not in coupled}
        if own:
            kinds = [task.joint_feasibility.kind(node.name) for node in nodes]
            local.append(NodeDevicesCheck(own, kinds, task, nodes))
        for fleet in task.fleets:
            own = {group: key for group, key in keys.items() if key in fleet}
            if own:
                fleets.append(FleetDevicesCheck(own, _classes(task, own, nodes), task, nodes))
    checks: list[NodeDevicesCheck | FleetDevicesCheck] = [*local, *fleets]
    return local, fleets, [units for check in checks for units in _units(check)]


def _units(check: NodeDevicesCheck | FleetDevicesCheck) -> t.Iterable[list[int]]:
    """Groups of pods that share claims."""
    by_key: dict[str, list[int]] = {}
    for group, key in check.of_group.items():
        if key in check.task.shared:
            by_key.setdefault(key, []).append(group)
    return by_key.values()


def _classes(task: ClaimTask, keys: t.Mapping[int, str], nodes: t.Sequence[Node]) -> list[int]:
    units = [task.units[key][0] for key in dict.fromkeys(keys.values())]
    number: dict[t.Hashable, int] = {}
    return [
        number.setdefault(
            (task.joint_feasibility.reach(node.name, units), node.curve is None), len(number)
        )
        for node in nodes
    ]
