# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Placers that choose for one pod at a time, as schedulers do, for comparison with ``optimal``.

Pods come in the order of kube-scheduler's queue: by descending priority, then by name, because the
input has no creation times. Each goes to the node with the highest score, the first by name among
equal ones. A pod that fits nowhere is tried again after others were placed. All nodes are scored,
regardless of their number. A gang with a pod that does not fit is left out, and placing starts
again.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.libraries import numpy
from ...scheduling.model import Pod
from ...scheduling.peer_view import PeerPod
from ...solving.arrays import Booleans, Integers
from ..model.assignment import Assignment, incomplete_gangs
from ..model.problem import Problem
from ..model.repair import settled
from .score_plugins import (
    BalancedAllocation,
    ClusterView,
    LeastAllocated,
    MinimizePower,
    Peaks,
    ScorePlugin,
    asks_for_cpu,
)

if t.TYPE_CHECKING:
    from numpy.typing import NDArray

    Table = NDArray[t.Any]

# WAO's preset, in addition to kube-scheduler's default plugins.
_MINIMIZE_POWER_WEIGHT = 20
_Plugins = t.Sequence[tuple[ScorePlugin, int]]


def greedy(problem: Problem) -> Assignment:
    """Each pod to the node where it adds the least power, without rounding."""

    def turns() -> _Turns:
        assignment = Assignment(problem)
        return _Turns(problem, assignment, _AddedWatts(assignment))

    return _with_whole_gangs(problem, turns)


def minimize_power(problem: Problem) -> Assignment:
    """Like wao-scheduler with its preset: MinimizePower and kube-scheduler's plugins.

    A pod whose containers name no CPU is not placed.
    """
    plugins: _Plugins = [
        (MinimizePower(), _MINIMIZE_POWER_WEIGHT),
        (LeastAllocated(), 1),
        (BalancedAllocation(), 1),
    ]
    return _by_scores(problem, plugins, admits=asks_for_cpu)


def peaks(problem: Problem) -> Assignment:
    """Like kube-scheduler with PEAKS as its only score."""
    return _by_scores(problem, [(Peaks(problem.instance.nodes), 1)])


def spread(problem: Problem) -> Assignment:
    """Like kube-scheduler by its scores for resources: LeastAllocated and BalancedAllocation."""
    return _by_scores(problem, [(LeastAllocated(), 1), (BalancedAllocation(), 1)])


@dataclass
class _Lane:
    """Cache for equal pods: raw scores and room of each node, after this number of bindings."""

    raw: Table
    has_room: Booleans
    bindings: int


class _Turns:
    """One pod after the other, each to the best node by the chooser."""

    def __init__(
        self, problem: Problem, room: Assignment | _PlainRoom, chooser: _AddedWatts | _Profile
    ) -> None:
        self._problem, self.room, self._chooser = problem, room, chooser
        self._all_nodes: Integers = numpy.arange(len(problem.instance.nodes))
        self._bound: list[int] = []
        self._lanes: dict[tuple[int, PeerPod], _Lane] = {}

    def take(self, admits: t.Callable[[Pod], bool], left_out: t.Collection[int]) -> None:
        """Place all admitted pods that fit; the others are tried again.

        Groups that are ``left_out`` stay unplaced.
        """
        group_of = {
            id(pod): index
            for index, group in enumerate(self._problem.groups)
            if index not in left_out
            for pod in group.pods
        }
        waiting = [
            (group_of[id(pod)], pod)
            for pod in self._problem.instance.pods
            if id(pod) in group_of and admits(pod)
        ]
        before = -1
        while before != len(self._bound):
            before = len(self._bound)
            waiting = [(group, pod) for group, pod in waiting if not self._place(group, pod)]

    def _place(self, group: int, pod: Pod) -> bool:
        lane = self._lane(group, pod)
        nodes = lane.has_room.nonzero()[0]
        if not len(nodes):
            return False
        node = int(nodes[self._chooser.best(lane.raw[:, nodes])])
        self.room.place(group, node)
        self._chooser.bind(pod, node)
        self._bound.append(node)
        return True

    def _lane(self, group: int, pod: Pod) -> _Lane:
        """Cache for the pod, updated for the nodes that have changed since.

        With rules between pods, a binding can change the room of any node, and with it the power
        draw of unmet preferences.
        """
        key = (group, pod.peer_view)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(
                self._chooser.raw_scores(group, pod, self._all_nodes),
                self.room.fits(group, self._all_nodes),
                len(self._bound),
            )
        elif lane.bindings < len(self._bound):
            changed = numpy.unique(self._bound[lane.bindings :])
            related = self._all_nodes if self._problem.relations is not None else changed
            scored = related if self._chooser.knows_relations else changed
            lane.raw[:, scored] = self._chooser.raw_scores(group, pod, scored)
            lane.has_room[related] = self.room.fits(group, related)
            lane.bindings = len(self._bound)
        return lane


class _PlainRoom:
    """Resources alone, for pods without rules between them; faster than an Assignment."""

    def __init__(self, problem: Problem) -> None:
        self._limit = problem.limit
        self._free = problem.free.tolist()
        self._asked = [
            [(resource, amount) for resource, amount in enumerate(row) if amount]
            for row in problem.request.tolist()
        ]
        self.counts: Integers = numpy.zeros_like(problem.limit)

    def fits(self, group: int, nodes: Integers) -> Booleans:
        """Whether one more pod of the group fits on each of these nodes."""
        asked = self._asked[group]
        enough = [
            all(free[resource] >= amount for resource, amount in asked)
            for free in map(self._free.__getitem__, nodes.tolist())
        ]
        is_open = self._limit[group, nodes] > 0
        found: Booleans = is_open & numpy.array(enough, dtype=bool)
        return found

    def place(self, group: int, node: int) -> None:
        """Put one pod of the group on the node."""
        self.counts[group, node] += 1
        for resource, amount in self._asked[group]:
            self._free[node][resource] -= amount


class _AddedWatts:
    """The least added power, by the cost function of ``optimal``."""

    # Whether a raw score depends on the pods of other nodes.
    knows_relations = True

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment

    def raw_scores(self, group: int, pod: Pod, nodes: Integers) -> Table:
        """One row for each score."""
        return self._assignment.added_cost(group, nodes)[None, :]

    def best(self, raw: Table) -> int:
        """The position of the best of one or more nodes."""
        return int(raw[0].argmin())

    def bind(self, pod: Pod, node: int) -> None:
        """Nothing, because the assignment has the state."""


class _Profile:
    """The highest sum of weighted scores of plugins."""

    knows_relations = False

    def __init__(self, problem: Problem, plugins: _Plugins) -> None:
        self._plugins = plugins
        self._view = ClusterView(problem.instance.nodes)

    def raw_scores(self, group: int, pod: Pod, nodes: Integers) -> Table:
        listed = nodes.tolist()
        rows = [
            [plugin.score(pod, node, self._view) for node in listed]
            for plugin, _weight in self._plugins
        ]
        return numpy.array(rows, dtype=numpy.int64)

    def best(self, raw: Table) -> int:
        totals: Integers | int = sum(
            weight * plugin.normalized(scores)
            for scores, (plugin, weight) in zip(raw, self._plugins)
        )
        return int(numpy.argmax(totals))

    def bind(self, pod: Pod, node: int) -> None:
        self._view.bind(pod, node)


def _any(pod: Pod) -> bool:
    return True


def _by_scores(
    problem: Problem, plugins: _Plugins, admits: t.Callable[[Pod], bool] = _any
) -> Assignment:

    def turns() -> _Turns:
        room = _PlainRoom(problem) if problem.relations is None else Assignment(problem)
        return _Turns(problem, room, _Profile(problem, plugins))

    return _with_whole_gangs(problem, turns, admits)


def _with_whole_gangs(
    problem: Problem, turns: t.Callable[[], _Turns], admits: t.Callable[[Pod], bool] = _any
) -> Assignment:
    """The first attempt without incomplete gangs; the groups of those are left out of the next."""
    left_out: set[int] = set()
    while True:
        attempt = turns()
        attempt.take(admits, left_out)
        counts = attempt.room.counts
        gangs = incomplete_gangs(Assignment(problem, counts))
        if not gangs:
            return settled(problem, counts)
        left_out.update(group for gang in gangs for group in gang)
