# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The linear relaxation: fractional pods on fractional nodes of a node class.

The power draw of a node is cut into convex runs, and each run has its own share of the class's
nodes, with its own pods and resources. That is the tightest linear model of one kind of node
(Balas' disjunctive one). Without it slots, memory and power-off would leave a wide gap. Its duals
are prices for lower_bound.py, its solution is a start for construction.py.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ...base.libraries import numpy
from ...scheduling.model import MICROCORES_PER_CORE
from ...solving.arrays import Floats, Integers
from ...solving.limits import Limits
from ...solving.linear import LinearModel, Solution, solve
from ..model.node_functions import Points
from ..model.problem import Problem
from .awake_nodes import fewest_awake
from .node_classes import NodeClass

# A pod more is worth more than any node's power draw, one of a higher priority ten times that.
_PRIORITY_FACTOR = 10.0
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Share:
    """Number of nodes of a node class in one of its runs (None: asleep), with the sum of their pods
    of each group. ``resource`` has the price of a unit of each resource of these nodes."""

    node_class: int
    run: int | None
    nodes: float
    pods: Floats
    resource: Floats


@dataclass(frozen=True)
class Relaxation:
    """Price of one pod of each group, and loads of the node classes.

    ``awake`` is the price of an awake node that could sleep, because so many must be awake.
    """

    node_classes: t.Sequence[NodeClass]
    pod: Floats
    awake: float
    shares: tuple[Share, ...]


@dataclass
class _Piece:
    """The columns and rows of one share."""

    node_class: int
    run: int | None
    nodes: int
    pods: dict[int, int]
    resource_rows: dict[int, tuple[int, float]]


class _Builder:
    """The model, with the indices that map its solution to the problem."""

    def __init__(
        self, problem: Problem, node_classes: t.Sequence[NodeClass], most: Integers
    ) -> None:
        self.problem = problem
        self.node_classes = node_classes
        self.most = most
        self.model = LinearModel()
        self.pieces: list[_Piece] = []
        self.group_rows: list[int] = []
        self.awake_row: int | None = None
        watts = float(problem.costs.heights.max(initial=0.0)) + problem.costs.standby_watts
        preference = problem.preference
        if preference is not None:
            watts += float(preference.max(initial=0.0))
        self._pod_worth = 10.0 * (watts + 1.0)

    def build(self) -> None:
        for index, node_class in enumerate(self.node_classes):
            self._add_class(index, node_class)
        self._add_groups()

    def _add_class(self, index: int, node_class: NodeClass) -> None:
        problem, model = self.problem, self.model
        size = float(len(node_class.nodes))
        priced = bool(problem.costs.priced[node_class.middle])
        runs: list[tuple[int | None, Points]] = list(enumerate(node_class.runs))
        if problem.costs.sleeper[node_class.middle]:
            idle = float(
                problem.costs.watts(
                    node_class.nodes[:1] * 0 + node_class.middle,
                    problem.costs.base[node_class.middle],
                )[0]
            )
            runs.append((None, [(0.0, problem.costs.standby_watts - idle)]))
        shares = []
        for run, points in runs:
            piece = _Piece(index, run, model.column(0.0, size, points[0][1]), {}, {})
            shares.append((piece.nodes, 1.0))
            self.pieces.append(piece)
            self._add_pods(piece, node_class)
            self._limit_resources(piece, node_class)
            if priced and run is not None:
                self._add_watts(piece, points)
        model.equal(shares, size)

    def _add_pods(self, piece: _Piece, node_class: NodeClass) -> None:
        problem = self.problem
        limit = problem.limit[:, node_class.nodes].mean(axis=1)
        preference = problem.preference
        priced = bool(problem.costs.priced[node_class.middle])
        for group in (limit > 0).nonzero()[0].tolist():
            if piece.run is None and problem.is_workload[group]:
                continue
            cost = 0.0 if priced else self._pod_worth / _PRIORITY_FACTOR
            if preference is not None:
                cost += float(preference[group, node_class.middle])
            upper = min(float(limit[group]) * len(node_class.nodes), float(self.most[group]))
            piece.pods[group] = self.model.column(0.0, upper, cost)

    def _limit_resources(self, piece: _Piece, node_class: NodeClass) -> None:
        problem, model = self.problem, self.model
        limit = problem.limit[:, node_class.nodes].mean(axis=1)
        free = numpy.maximum(problem.free[node_class.nodes], 0).mean(axis=0)
        groups = list(piece.pods)
        for resource in range(len(problem.resources)):
            request = problem.request[groups, resource]
            largest = float(request.max(initial=0))
            if largest and (request * limit[groups]).sum() > free[resource]:
                terms = [
                    (column, amount / largest)
                    for column, amount in zip(piece.pods.values(), request.tolist())
                    if amount
                ]
                terms.append((piece.nodes, -float(free[resource]) / largest))
                piece.resource_rows[resource] = (model.at_most(terms, 0.0), largest)

    def _add_watts(self, piece: _Piece, points: Points) -> None:
        """The pods' use equals the use of the run's start and its segments, as far as filled."""
        model = self.model
        use: list[tuple[int, float]] = [
            (column, int(self.problem.use[group]) / MICROCORES_PER_CORE)
            for group, column in piece.pods.items()
        ]
        use.append((piece.nodes, -points[0][0]))
        for left, right in zip(points, points[1:]):
            width = right[0] - left[0]
            segment = model.column(0.0, math.inf, (right[1] - left[1]) / width)
            model.at_most([(segment, 1.0), (piece.nodes, -width)], 0.0)
            use.append((segment, -1.0))
        model.equal(use, 0.0)

    def keeps_too_few_awake(self, solution: Solution) -> bool:
        """Whether fewer nodes are awake than the pods need; then a row forbids that."""
        sleeper = self.problem.costs.sleeper
        awake = [
            piece.nodes
            for piece in self.pieces
            if piece.run is not None and sleeper[self.node_classes[piece.node_class].middle]
        ]
        fewest = fewest_awake(self.problem, self.most)
        if not awake or sum(solution.values[column] for column in awake) >= fewest - _ROUNDING:
            return False
        self.awake_row = self.model.at_least([(column, 1.0) for column in awake], fewest)
        return True

    def _add_groups(self) -> None:
        model = self.model
        by_group: list[list[tuple[int, float]]] = [[] for _group in self.problem.groups]
        for piece in self.pieces:
            for group, column in piece.pods.items():
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
        """Shares and prices from the solution."""
        pod = numpy.array([solution.duals[row] for row in self.group_rows], dtype=float)
        awake = 0.0 if self.awake_row is None else max(solution.duals[self.awake_row], 0.0)
        shares = tuple(self._share(piece, solution) for piece in self.pieces)
        return Relaxation(self.node_classes, pod, awake, shares)

    def _share(self, piece: _Piece, solution: Solution) -> Share:
        pods = numpy.zeros(len(self.problem.groups))
        pods[list(piece.pods)] = [solution.values[column] for column in piece.pods.values()]
        resource = numpy.zeros(len(self.problem.resources))
        for index, (row, scale) in piece.resource_rows.items():
            resource[index] = max(-solution.duals[row], 0.0) / scale
        return Share(piece.node_class, piece.run, solution.values[piece.nodes], pods, resource)


def relax(
    problem: Problem, node_classes: t.Sequence[NodeClass], most: Integers, limits: Limits
) -> Relaxation | None:
    """Place at most ``most[g]`` pods of each group; None if the time did not suffice."""
    builder = _Builder(problem, node_classes, most)
    builder.build()
    solution = solve(builder.model, limits)
    if solution.is_optimal and builder.keeps_too_few_awake(solution):
        solution = solve(builder.model, limits)
    if not solution.is_optimal or not solution.duals:
        return None
    return builder.read(solution)
