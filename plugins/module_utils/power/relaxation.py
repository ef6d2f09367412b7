# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The linear relaxation: parts of pods may be placed, and nodes cost their convex envelope.

Its duals are the prices for lower_bound.py; its solution, rounded down, is a start.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    MICROCORES_PER_CORE,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits import Limits
from ansible_collections.wattwise.kube.plugins.module_utils.power.linear import (
    LinearModel,
    Solution,
    solve,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.lower_bound import Prices
from ansible_collections.wattwise.kube.plugins.module_utils.power.node_functions import (
    NodeFunctions,
    lower_hull,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.problem import Problem

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.int64]

_ROUNDING = 1e-6
# A pod more is worth more than any node's watts, one of a higher priority ten times that.
_PRIORITY_FACTOR = 10.0


@dataclass(frozen=True)
class Relaxation:
    """Whole pods in the relaxed solution, and what pods, cores and resources are worth in it."""

    counts: Integers
    prices: Prices


class _Builder:
    """The model, with the indices that lead back from its solution to the problem."""

    def __init__(self, problem: Problem, functions: NodeFunctions, most: Integers) -> None:
        self.problem = problem
        self.functions = functions
        self.most = most
        self.model = LinearModel()
        self.pod_columns: dict[tuple[int, int], int] = {}
        self.resource_rows: dict[tuple[int, int], tuple[int, float]] = {}
        self.use_rows: dict[int, int] = {}
        self.group_rows: list[int] = []
        watts = float(functions.watts.max(initial=0.0)) + problem.costs.standby_watts
        self._pod_worth = 10.0 * (watts + 1.0)

    def build(self) -> None:
        for node in range(len(self.problem.instance.nodes)):
            self._add_node(node)
        self._add_groups()

    def _add_node(self, node: int) -> None:
        problem, model = self.problem, self.model
        limits = problem.limit[:, node].tolist()
        priced = bool(problem.costs.priced[node])
        cost = 0.0 if priced else self._pod_worth / _PRIORITY_FACTOR
        columns = [
            (group, model.column(0.0, min(limit, int(self.most[group])), cost))
            for group, limit in enumerate(limits)
            if limit > 0
        ]
        self.pod_columns.update({(group, node): column for group, column in columns})
        for resource in range(len(problem.resources)):
            self._add_resource(node, resource, columns)
        if priced:
            self._add_watts(node, columns)

    def _add_resource(self, node: int, resource: int, columns: list[tuple[int, int]]) -> None:
        problem, model = self.problem, self.model
        requests = [(column, int(problem.request[group, resource])) for group, column in columns]
        free = int(problem.free[node, resource])
        largest = max((amount for _column, amount in requests), default=0)
        if largest and sum(amount * model.upper[column] for column, amount in requests) > free:
            terms = [(column, amount / largest) for column, amount in requests if amount]
            row = model.at_most(terms, max(free, 0) / largest)
            self.resource_rows[node, resource] = (row, float(largest))

    def _add_watts(self, node: int, columns: list[tuple[int, int]]) -> None:
        model, costs = self.model, self.problem.costs
        points = self.functions.points(node)
        if costs.sleeper[node]:
            points = [(0.0, costs.standby_watts), *points]
        hull = lower_hull(_lowest_each(points))
        terms = [
            (column, int(self.problem.use[group]) / MICROCORES_PER_CORE)
            for group, column in columns
        ]
        for left, right in zip(hull, hull[1:]):
            width = right[0] - left[0]
            terms.append((model.column(0.0, width, (right[1] - left[1]) / width), -1.0))
        self.use_rows[node] = model.equal(terms, 0.0)

    def _add_groups(self) -> None:
        model = self.model
        by_group: list[list[tuple[int, float]]] = [[] for _group in self.problem.groups]
        for (group, _node), column in self.pod_columns.items():
            by_group[group].append((column, 1.0))
        levels = self.problem.levels
        for rank, level in enumerate(levels):
            worth = self._pod_worth * _PRIORITY_FACTOR ** min(len(levels) - 1 - rank, 3)
            for group in level:
                by_group[group].append((model.column(0.0, math.inf, worth), 1.0))
        self.group_rows = [
            model.equal(terms, int(self.most[group])) for group, terms in enumerate(by_group)
        ]

    def read(self, solution: Solution) -> Relaxation:
        """Counts and prices from the solution."""
        numpy = require("numpy")
        problem = self.problem
        counts = numpy.zeros_like(problem.limit)
        for (group, node), column in self.pod_columns.items():
            counts[group, node] = math.floor(solution.values[column] + _ROUNDING)
        core = numpy.zeros(len(problem.instance.nodes))
        for node, row in self.use_rows.items():
            core[node] = -solution.duals[row]
        resource = numpy.zeros(problem.free.shape)
        for (node, index), (row, scale) in self.resource_rows.items():
            resource[node, index] = max(-solution.duals[row], 0.0) / scale
        pod = numpy.array([solution.duals[row] for row in self.group_rows])
        return Relaxation(counts, Prices(pod, core, resource))


def _lowest_each(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of points with equal cores the lowest."""
    lowest: dict[float, float] = {}
    for cores, watts in points:
        lowest[cores] = min(watts, lowest.get(cores, math.inf))
    return sorted(lowest.items())


def relax(
    problem: Problem, functions: NodeFunctions, most: Integers, limits: Limits
) -> Relaxation | None:
    """Place at most ``most[g]`` pods of each group; None where the time did not suffice."""
    builder = _Builder(problem, functions, most)
    builder.build()
    solution = solve(builder.model, limits)
    if not solution.is_optimal or not solution.duals:
        return None
    return builder.read(solution)
