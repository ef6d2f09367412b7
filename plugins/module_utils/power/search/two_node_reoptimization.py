# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Optimal redistribution of the pods of two nodes.

Subset sums give all loads that a part of the pods can make, so one step evaluates every division at
once. Ties are broken randomly, with random pods, so after many steps on random pairs of nodes
hardly any gain is left.
"""

from __future__ import annotations

import random
import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Floats, Integers
from ...solving.limits import Limits
from ..bounds.loads import Loads
from ..bounds.subset_sums import NOTHING, set_bits
from ..model.assignment import Assignment
from ..model.problem import Problem

# Differences in watts below this come from rounding.
_EQUAL_WATTS = 1e-9
_STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 256


class TwoNodeReoptimization:
    """A walk over the divisions of an assignment's movable pods; other pods keep their nodes.

    Pods move freely if only resources and the node itself restrict them.
    """

    def __init__(self, loads: Loads, assignment: Assignment, limits: Limits) -> None:
        problem = loads.problem
        self._loads = loads
        self._limits = limits
        self._random = random.Random(limits.seed)
        self._units: list[int] = loads.units.tolist()
        self._request = problem.request
        self._allowed: list[list[bool]] = (problem.limit > 0).tolist()
        movable = (loads.units > 0) & problem.freely_movable
        self._fixed = numpy.where(movable[:, None], 0, assignment.counts)
        self._free = problem.free - self._fixed.T @ problem.request
        self._present: Integers = self._fixed.T @ loads.units
        self._nodes = problem.costs.priced.nonzero()[0].tolist()
        # The group of each movable pod, by node.
        groups = numpy.arange(len(problem.groups))
        self._pods: list[list[int]] = [
            numpy.repeat(groups, column).tolist() for column in (assignment.counts - self._fixed).T
        ]
        self._watts = self._tables(problem)

    def _tables(self, problem: Problem) -> dict[int, Floats]:
        awake = (self._fixed.T @ problem.is_workload).astype(bool)
        most = self._loads.most - self._present
        return {
            node: self._loads.watts(
                node, int(self._present[node]), max(int(most[node]), 0), awake=bool(awake[node])
            )
            for node in self._nodes
        }

    def counts(self) -> Integers:
        """The present assignment of the walk."""
        counts = self._fixed.copy()
        for node, pods in enumerate(self._pods):
            for group in pods:
                counts[group, node] += 1
        return counts

    def save(self, steps: int, watts: float) -> None:
        """Walk towards less power until ``watts`` W are saved."""
        self._walk(self._watts, steps, watts)

    def approach(self, wanted: t.Sequence[int], steps: int) -> None:
        """Walk towards these whole loads in steps, regardless of the power draw."""
        distance = {
            node: abs(
                numpy.arange(len(table), dtype=float) + int(self._present[node]) - wanted[node]
            )
            for node, table in self._watts.items()
        }
        at = sum(float(distance[node][self._load(node)]) for node in self._nodes)
        self._walk(distance, steps, at - _EQUAL_WATTS)

    def _load(self, node: int) -> int:
        return sum(self._units[group] for group in self._pods[node])

    def _walk(self, tables: t.Mapping[int, Floats], steps: int, to_gain: float) -> None:
        """Take steps without cost until this gain is reached."""
        if len(self._nodes) < 2:
            return
        for step in range(steps):
            look = step % _STEPS_BETWEEN_LOOKS_AT_THE_CLOCK == 0
            if to_gain <= 0 or (look and self._limits.expired()):
                return
            first, second = self._random.sample(self._nodes, 2)
            if self._pods[first] or self._pods[second]:
                to_gain -= self._step(first, second, tables)

    def _step(self, first: int, second: int, tables: t.Mapping[int, Floats]) -> float:
        """Divide the pods of two nodes; return the saving."""
        before = tables[first][self._load(first)] + tables[second][self._load(second)]
        divided = self._divide(first, second, tables[first], tables[second])
        if divided is None:
            return 0.0
        after, ours, theirs = divided
        if after > before + _EQUAL_WATTS or not (
            self._has_room(first, ours) and self._has_room(second, theirs)
        ):
            return 0.0
        self._pods[first], self._pods[second] = ours, theirs
        return float(before - after)

    def _has_room(self, node: int, pods: t.Sequence[int]) -> bool:
        taken = self._request[pods].sum(axis=0)
        return bool(((taken <= self._free[node]) | (taken == 0)).all())

    def _divide(
        self, first: int, second: int, first_cost: Floats, second_cost: Floats
    ) -> tuple[float, list[int], list[int]] | None:
        """The least cost, and the pods of each of the two nodes."""
        ours, theirs, free = self._sorted_by_choice(first, second)
        sums = NOTHING << sum(self._units[group] for group in ours)
        known = [sums]
        for group in free:
            sums |= sums << self._units[group]
            known.append(sums)
        total = self._load(first) + self._load(second)
        low, high = max(0, total - len(second_cost) + 1), min(len(first_cost) - 1, total)
        possible = set_bits(sums, low, high)
        if not len(possible):
            return None
        cost = first_cost[possible] + second_cost[total - possible]
        least = float(cost.min())
        equal = (cost <= least + _EQUAL_WATTS).nonzero()[0]
        load = int(possible[equal[self._random.randrange(len(equal))]])
        for index in range(len(free) - 1, -1, -1):
            if known[index] >> load & 1:
                theirs.append(free[index])
            else:
                ours.append(free[index])
                load -= self._units[free[index]]
        return least, ours, theirs

    def _sorted_by_choice(self, first: int, second: int) -> tuple[list[int], list[int], list[int]]:
        """Pods that only the first node may take, only the second, and either, in any order."""
        ours, theirs, free = [], [], []
        for group in self._pods[first] + self._pods[second]:
            if not self._allowed[group][second]:
                ours.append(group)
            elif not self._allowed[group][first]:
                theirs.append(group)
            else:
                free.append(group)
        self._random.shuffle(free)
        return ours, theirs, free
