# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Bipartite matching of claims with devices or volumes, by augmenting paths, or a conflict.

Equal claims are one group and equal devices one class, so thousands of them are a flow through a
small graph. If a claim stays unmatched, all claims reachable from it are a conflict: all devices
that they may use are taken, and the claims are one more than these (Hall's theorem). It is minimal,
because without any one of them the others can be matched along the path from the unmatched claim.
"""

from __future__ import annotations

import typing as t
from collections import deque
from dataclasses import dataclass, field


@dataclass
class Matching:
    """Groups of claims against classes of devices; ``flow`` is the number of matches between them.

    ``groups`` are the positions of claims of each group, ``classes`` the devices of each class,
    ``usable`` the classes of each group, the best first. A matched device stays matched, but another
    claim may get it.
    """

    groups: t.Sequence[t.Sequence[int]]
    classes: t.Sequence[t.Sequence[int]]
    usable: t.Sequence[t.Sequence[int]]
    flow: dict[tuple[int, int], int] = field(default_factory=dict)
    left_over: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._free = [len(devices) for devices in self.classes]
        self.left_over = [len(claims) for claims in self.groups]
        self._groups_of: list[list[int]] = [[] for _class in self.classes]
        for group, classes in enumerate(self.usable):
            for one in classes:
                self._groups_of[one].append(group)
        for group in range(len(self.groups)):
            while self.left_over[group] and self._augment(group):
                pass

    def _augment(self, start: int) -> bool:
        """Satisfy claims of a group along an augmenting path; False if there is none."""
        came_from, end = self._explore(start)
        if end is None:
            return False
        path: list[tuple[int, int]] = []
        one: int | None = end
        while one is not None:
            group, before = came_from[one]
            path.append((group, one))
            one = before
        amount = min(self.left_over[start], self._free[end])
        for (_group, taken_from), (mover, _to) in zip(path[1:], path):
            amount = min(amount, self.flow[mover, taken_from])
        for index, (group, one) in enumerate(path):
            self.flow[group, one] = self.flow.get((group, one), 0) + amount
            if index + 1 < len(path):
                self.flow[group, path[index + 1][1]] -= amount
        self._free[end] -= amount
        self.left_over[start] -= amount
        return True

    def _explore(self, start: int) -> tuple[dict[int, tuple[int, int | None]], int | None]:
        """Reachable classes, each with its group and previous class, and a free class."""
        came_from: dict[int, tuple[int, int | None]] = {}
        waiting: deque[tuple[int, int | None]] = deque([(start, None)])
        seen = {start}
        while waiting:
            group, before = waiting.popleft()
            for one in self.usable[group]:
                if one in came_from:
                    continue
                came_from[one] = group, before
                if self._free[one]:
                    return came_from, one
                for other in self._groups_of[one]:
                    if other not in seen and self.flow.get((other, one)):
                        seen.add(other)
                        waiting.append((other, one))
        return came_from, None

    def conflict(self) -> list[tuple[int, int]]:
        """Groups in conflict with their numbers of claims; empty if all can be matched."""
        start = next((group for group, left in enumerate(self.left_over) if left), None)
        if start is None:
            return []
        reached, _end = self._explore(start)
        counts: dict[int, int] = {start: 1}
        for one in reached:
            for group in self._groups_of[one]:
                matched = self.flow.get((group, one), 0)
                if matched:
                    counts[group] = counts.get(group, 0) + matched
        return sorted(counts.items())
