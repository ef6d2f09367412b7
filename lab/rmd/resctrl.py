# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's resctrl file system: groups with CPUs, tasks and cache masks.

It belongs to the machine, not to the daemon, and survives the daemon's restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lab.rmd.host import Host

ROOT = "."


class CommitError(Exception):
    """The kernel refused; `str()` is Go's text of the error."""


@dataclass
class Group:
    """`masks` are, by cache id, the ways that its CPUs and tasks may fill."""

    masks: dict[int, int]
    cpus: set[int] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)


class Resctrl:
    """All groups of a host by name, including the root."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.groups: dict[str, Group] = {}
        self.clear()

    def clear(self) -> None:
        """The state after the machine's boot: only the root."""
        full = dict.fromkeys(self.host.caches, self.host.full)
        self.groups.clear()
        self.groups[ROOT] = Group(full, set(self.host.cpus))

    def write(
        self, name: str, masks: Mapping[int, int], cpus: Iterable[int], tasks: Iterable[str]
    ) -> None:
        """Make or change a group: directory, CPUs, tasks, schemata, in this order.

        Raises CommitError; a group that this call made is removed again.
        """
        is_new = name not in self.groups
        if is_new and len(self.groups) >= self.host.kernel_closids:
            raise CommitError(f"mkdir /sys/fs/resctrl/{name}: no space left on device")
        group = self.groups.setdefault(name, Group({}))
        try:
            self._assign(name, set(cpus))
        except CommitError:
            if is_new:
                del self.groups[name]
            raise
        for other in self.groups.values():
            other.tasks.difference_update(tasks)
        group.tasks.update(tasks)
        group.masks = dict(masks)

    def remove(self, name: str) -> None:
        """Remove a group; its CPUs and tasks go back to the root."""
        group = self.groups.pop(name)
        root = self.groups[ROOT]
        root.cpus |= group.cpus
        root.tasks |= group.tasks

    def release(self, name: str, cpus: Iterable[int], tasks: Iterable[str]) -> None:
        """Take CPUs and tasks out of a group, and remove it if it is then empty."""
        group = self.groups[name]
        self._assign(name, group.cpus - set(cpus))
        group.tasks -= set(tasks)
        if not group.cpus and not group.tasks:
            self.remove(name)

    def _assign(self, name: str, cpus: set[int]) -> None:
        """Set a group's CPUs: each CPU is in one group; the CPUs that the group loses go to the
        root.
        """
        if not cpus <= self.host.cpus:
            raise CommitError(f"write /sys/fs/resctrl/{name}/cpus: invalid argument")
        group = self.groups[name]
        if name != ROOT:
            self.groups[ROOT].cpus |= group.cpus - cpus
        for other in self.groups.values():
            if other is not group:
                other.cpus -= cpus
        group.cpus = cpus
