# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Feasibility of attaching volumes that pods share on a node.

A shared volume is attached once for all pods on the node. Volumes of drivers without shared volumes
add up, so they are an ordinary resource and need no check.
"""

from __future__ import annotations

import typing as t

from ...scheduling.feasibility import TOO_MANY_VOLUMES
from ...scheduling.model import Attachable, Disk, Node, Shape, SharedVolumes
from .node_contents import IMPOSSIBLE, NO_DRAW, Draw, NodeCheck, Pods, Sum

# Larger than any limit, and small enough for sums over all nodes.
_MORE_THAN_ENOUGH = 1 << 30


class AttachedVolumesCheck(NodeCheck[SharedVolumes, Attachable]):
    """The check of the volumes that pods share; ``kinds[n]`` is the free number of each node."""

    def draw(self, node: int, pods: Pods) -> Draw:
        disks: set[Disk] = set()
        new: dict[str, int] = {}
        for volumes, number in zip(self.of_group.values(), pods):
            if number:
                disks.update(volumes.disks)
                for driver, own in volumes.own_disks:
                    new[driver] = new.get(driver, 0) + number * own
        for disk in disks - self.kinds[node].present:
            new[disk.driver] = new.get(disk.driver, 0) + 1
        left = dict(self.kinds[node].left)
        possible = all(number <= left[driver] for driver, number in new.items() if number)
        return NO_DRAW if possible else IMPOSSIBLE

    def sums(self) -> list[Sum]:
        """The pods' own volumes by driver, because shared volumes may take no room."""
        drivers = sorted(
            {own[0] for volumes in self.of_group.values() for own in volumes.own_disks}
        )
        return [
            Sum(
                {
                    group: dict(volumes.own_disks).get(driver, 0)
                    for group, volumes in self.of_group.items()
                },
                [min(dict(each.left)[driver], _MORE_THAN_ENOUGH) for each in self.kinds],
            )
            for driver in drivers
        ]

    def reason(self, group: int) -> str:
        return TOO_MANY_VOLUMES


def attached_volumes_check(
    shapes: t.Sequence[Shape], nodes: t.Sequence[Node]
) -> AttachedVolumesCheck | None:
    """The check of a problem; None if no driver with a limit attaches a shared volume."""
    of_group = {
        group: shape.shared_volumes
        for group, shape in enumerate(shapes)
        if shape.shared_volumes and (shape.shared_volumes.disks or shape.shared_volumes.own_disks)
    }
    attachable = [node.attachable for node in nodes if node.attachable is not None]
    return AttachedVolumesCheck(of_group, attachable) if of_group and attachable else None
