# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The optimum of small placement tasks, by trying every assignment.

Shares no code with the solver. The search prunes only on resources, collisions, and assignments
that place too few pods to win.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from support.placement_checker import Fleet, Value
from support.placement_rules import Json, Node, Placed, Pod, collide, plus


def optimum(parameters: Json, refused: Collection[tuple[str, str]] = ()) -> Value:
    """Value of the best assignment, with the ``refused`` pods left out; see Fleet.value."""
    fleet = Fleet(parameters)
    pods = [pod for pod in fleet.pods if pod.key not in refused]
    return _Search(fleet, pods, may_leave_out=True).best


def optimum_of_the_same_pods(parameters: Json, result: Json) -> Value:
    """Value of the best assignment that places exactly the pods that the result places."""
    fleet = Fleet(parameters)
    placed = {(entry["namespace"], entry["pod"]) for entry in result["placements"]}
    pods = [pod for pod in fleet.pods if pod.key in placed]
    return _Search(fleet, pods, may_leave_out=False).best


class _Search:
    """Depth-first search over the pods by priority, with symmetry breaking between equal pods."""

    def __init__(self, fleet: Fleet, pods: Sequence[Pod], may_leave_out: bool) -> None:
        self._fleet, self._pods = fleet, pods
        self._may_leave_out = may_leave_out
        self._open = [[node for node in fleet.nodes if fleet.is_open(node, pod)] for pod in pods]
        likeness = [pod.likeness() for pod in pods]
        self._same = [
            index > 0 and likeness[index - 1] == like for index, like in enumerate(likeness)
        ]
        self._rank = {id(node): index for index, node in enumerate(fleet.nodes)}
        self._asked = [{**pod.requests, "pods": 1} for pod in pods]
        self._free = {id(node): dict(node.free) for node in fleet.nodes}
        self._collisions = any(pod.ports or pod.disks or pod.away_from for pod in pods)
        self._demanding = bool(fleet.limits.domains) or any(
            fleet.has_order(pod) or pod.gang or pod.claims_devices for pod in pods
        )
        self._placed: list[Placed] = []
        self._chosen: list[int] = []
        self._found: Value | None = None
        self._extend()

    @property
    def best(self) -> Value:
        assert self._found is not None, "placing nothing is feasible"
        return self._found

    def _extend(self) -> None:
        position = len(self._chosen)
        if self._cannot_win(position):
            return
        if position == len(self._pods):
            self._take()
            return
        least = self._chosen[-1] if self._same[position] else -1
        for node in self._open[position]:
            if self._rank[id(node)] >= least and self._has_room(position, node):
                self._put(position, node)
                self._extend()
                self._take_back(position, node)
        if self._may_leave_out:
            self._chosen.append(len(self._rank))
            self._extend()
            self._chosen.pop()

    def _cannot_win(self, position: int) -> bool:
        """Whether placing all remaining pods would still place fewer than the best assignment."""
        if self._found is None:
            return False
        possible = itertools.chain((pod for pod, _node in self._placed), self._pods[position:])
        counts = dict.fromkeys(self._fleet.levels, 0)
        for pod in possible:
            counts[pod.priority] += 1
        return tuple(counts.values()) < self._found[0]

    def _has_room(self, position: int, node: Node) -> bool:
        free = self._free[id(node)]
        if any(
            amount > free.get(name, 0) for name, amount in self._asked[position].items() if amount
        ):
            return False
        here = (self._pods[position], node)
        others = [pod for pod, where in self._placed if where is node]
        if not self._fleet.caches.hold(node.name, [*others, here[0]]):
            return False
        if not self._have_devices([*self._placed, here]):
            return False
        if not self._fleet.volumes.hold([*self._placed, here]):
            return False
        return not self._collisions or not any(collide(here, other) for other in self._placed)

    def _have_devices(self, placed: Sequence[Placed]) -> bool:
        pods_on: dict[str, list[Pod]] = {}
        for pod, node in placed:
            pods_on.setdefault(node.name, []).append(pod)
        return self._fleet.devices.cost(pods_on) is not None

    def _put(self, position: int, node: Node) -> None:
        free = self._free[id(node)]
        for name, amount in self._asked[position].items():
            free[name] = free.get(name, 0) - amount
        self._placed.append((self._pods[position], node))
        self._chosen.append(self._rank[id(node)])

    def _take_back(self, position: int, node: Node) -> None:
        self._free[id(node)] = plus(self._free[id(node)], self._asked[position])
        self._placed.pop()
        self._chosen.pop()

    def _take(self) -> None:
        value = self._fleet.value(self._placed)
        if self._found is not None and value <= self._found:
            return
        if not self._demanding or (
            not self._fleet.wrong(self._placed) and self._fleet.can_be_bound(self._placed)
        ):
            self._found = value
