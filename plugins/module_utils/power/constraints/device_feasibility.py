# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Joint feasibility of pods' device claims on a node; see node_contents.py."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field

from ...scheduling.model import Node, Shape
from .device_claims import ClaimBook, ClaimTask
from .node_contents import Draw, Pods, Sum

if t.TYPE_CHECKING:
    from ...devices.solve.joint_feasibility import JointAnswer

CANNOT_ALLOCATE = "cannot allocate all claims"
_MILLIWATTS = 1000.0


def draw_of(found: JointAnswer) -> Draw:
    """The power draw of an answer; unknown ones are infinite."""
    return Draw(
        math.inf if found.milliwatts is None else found.milliwatts / _MILLIWATTS,
        math.inf if found.least is None else found.least / _MILLIWATTS,
    )


@dataclass
class DeviceFeasibilityCheck:
    """The claims of one API. ``keys`` are the keys of one pod of each group."""

    task: ClaimTask
    keys: t.Mapping[int, str]
    nodes: t.Sequence[Node]
    _kinds: dict[int, t.Hashable] = field(default_factory=dict)
    _known: dict[t.Hashable, JointAnswer] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(self.keys)

    @property
    def shared(self) -> list[list[int]]:
        """Groups that form one unit, which is on one node."""
        return groups_of_units(self.task, self.keys)

    def kind(self, node: int) -> t.Hashable:
        if node not in self._kinds:
            self._kinds[node] = self.task.joint_feasibility.kind(self.nodes[node].name)
        return self._kinds[node]

    def draw(self, node: int, pods: Pods) -> Draw:
        return draw_of(self._found(node, pods))

    def least_alone(self, node: int, group: int) -> float:
        """Pods of a unit draw nothing alone, because the unit's power counts once. The same holds
        for a device that other pods can share."""
        if self.task.may_share(self.keys[group]):
            return 0.0
        alone = tuple(int(other == group) for other in self.keys)
        return self.draw(node, alone).least_watts

    def sums(self) -> list[Sum]:
        """Devices of each set that is exactly the set of some request."""
        joint = self.task.joint_feasibility
        return [
            Sum(needed, [joint.free_of(node.name, devices) for node in self.nodes])
            for devices, needed in self.task.needed(self.keys)
        ]

    def _found(self, node: int, pods: Pods) -> JointAnswer:
        number: dict[str, int] = {}
        for key, count in zip(self.keys.values(), pods):
            if key in self.task.shared:
                number[key] = max(number.get(key, 0), min(count, 1))
            else:
                number[key] = number.get(key, 0) + count
        asked = tuple(sorted(number.items()))
        known = self.kind(node), asked
        if known not in self._known:
            units = [unit for key, count in asked for unit in self.task.units[key][:count]]
            self._known[known] = self.task.joint_feasibility.on_node(self.nodes[node].name, units)
        return self._known[known]

    def reason(self, group: int) -> str:
        return CANNOT_ALLOCATE


def fits_empty_node(claims: ClaimBook | None, shape: Shape, node: Node) -> bool:
    """Whether a node could satisfy one pod with all devices free."""
    asked = zip(shape.device_claims, claims.tasks if claims else ())
    return all(task.fits_empty_node(key, node.name) for key, task in asked if key)


def keys_of(shapes: t.Sequence[Shape], position: int) -> dict[int, str]:
    """Keys of one pod of each group with claims of the API at this position."""
    return {
        group: shape.device_claims[position]
        for group, shape in enumerate(shapes)
        if len(shape.device_claims) > position and shape.device_claims[position]
    }


def groups_of_units(task: ClaimTask, keys: t.Mapping[int, str]) -> list[list[int]]:
    """Groups of pods that share claims."""
    by_key: dict[str, list[int]] = {}
    for group, key in keys.items():
        if key in task.shared:
            by_key.setdefault(key, []).append(group)
    return list(by_key.values())


def device_checks(
    claims: ClaimBook | None, shapes: t.Sequence[Shape], nodes: t.Sequence[Node]
) -> list[DeviceFeasibilityCheck]:
    """One check for each API with claims that can be decided node by node."""
    found = []
    for position, task in enumerate(claims.tasks if claims else ()):
        coupled = frozenset().union(*task.fleets)
        keys = {
            group: key for group, key in keys_of(shapes, position).items() if key not in coupled
        }
        if keys:
            found.append(DeviceFeasibilityCheck(task, keys, nodes))
    return found
