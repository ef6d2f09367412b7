# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The placement as a mixed-integer model, for small fleets.

Each node's curve is cut into convex runs. A single run needs no binary variable: its segments are
lower limits of the power draw. Several runs each have a share of the added use, and one is chosen,
which is the tightest linear formulation (Balas' disjunctive one).
"""

from __future__ import annotations

import math
import typing as t

from ...base.libraries import numpy
from ...scheduling.model import MICROCORES_PER_CORE
from ...solving.arrays import Integers
from ...solving.limits import Limits
from ...solving.linear import ABSOLUTE_GAP, LinearModel, Solution, Terms, solve
from ..model.node_functions import NodeFunctions, Points, convex_runs
from ..model.problem import Problem
from .loop_formulas import LoopFormulas
from .no_good_cuts import NoGoodCuts
from .relation_rows import RelationRows

_ROUNDS_OF_CUTS = 30


class _Mode(t.NamedTuple):
    """A mode of a node, of which exactly one is chosen."""

    points: Points
    chosen: int


class PlacementModel:
    """Counts of pods by group and node within what fits; ``nodes`` are indices into the problem.

    At most ``most[g]`` pods of each group are placed.
    """

    def __init__(
        self, problem: Problem, functions: NodeFunctions, nodes: t.Sequence[int], most: Integers
    ) -> None:
        self.problem = problem
        self.functions = functions
        self.nodes = nodes
        self.model = LinearModel()
        self.columns: dict[tuple[int, int], int] = {}
        self._offset = 0.0
        for node in nodes:
            for group, limit in enumerate(problem.limit[:, node].tolist()):
                if min(limit, int(most[group])) > 0:
                    self.columns[group, node] = self.model.column(
                        0.0, min(limit, int(most[group])), integer=True
                    )
        self._by_node: dict[int, list[tuple[int, int]]] = {node: [] for node in nodes}
        self._by_group: dict[int, list[int]] = {group: [] for group in range(len(most))}
        for (group, node), column in self.columns.items():
            self._by_node[node].append((group, column))
            self._by_group[group].append(column)
        for group, columns in self._by_group.items():
            self.model.at_most([(column, 1.0) for column in columns], int(most[group]))
        for node in nodes:
            self._limit_resources(node)
        self._cuts = NoGoodCuts(problem, self.model, self.columns)
        self._rows: RelationRows | None = None
        self._orders: LoopFormulas | None = None
        if problem.relations is not None:
            self._rows = RelationRows(self.model, self.columns, problem.relations)
            self._rows.add_rules(problem.count.tolist())
            self._orders = LoopFormulas(problem.relations, self.model, self.columns)

    @property
    def integer_columns(self) -> int:
        return sum(self.model.integer)

    def _limit_resources(self, node: int) -> None:
        problem = self.problem
        for resource in range(len(problem.resources)):
            requests = [
                (column, int(problem.request[group, resource]))
                for group, column in self._by_node[node]
            ]
            # Units of the greatest common divisor keep the numbers small and exact.
            unit = math.gcd(*(amount for _column, amount in requests)) or 1
            free = max(int(problem.free[node, resource]), 0) // unit
            terms = [(column, amount // unit) for column, amount in requests if amount]
            if sum(amount * self.model.upper[column] for column, amount in terms) > free:
                self.model.at_most(terms, free)

    def placed_in(self, groups: t.Iterable[int]) -> Terms:
        """The number of pods of these groups that are placed."""
        return [(column, 1.0) for group in groups for column in self._by_group[group]]

    def on_unpriced_nodes(self) -> Terms:
        """The number of pods on unpriced nodes."""
        priced = self.problem.costs.priced
        return [
            (column, 1.0) for (_group, node), column in self.columns.items() if not priced[node]
        ]

    def keep_placed(self, placed: Integers) -> None:
        """Add rows that place at least ``placed[g]`` pods of each group."""
        for group, number in enumerate(placed.tolist()):
            if number:
                self.model.at_least(self.placed_in([group]), number)

    def minimize(self, terms: Terms) -> None:
        """Set this sum as the objective."""
        self.model.cost = [0.0] * len(self.model.cost)
        for column, coefficient in terms:
            self.model.cost[column] += coefficient

    def minimize_cost(self) -> None:
        """Set the power draw of priced nodes and the cost of unmet preferences as the objective.

        Adds to the model: call it once.
        """
        preference = self.problem.preference
        self.minimize(
            []
            if preference is None
            else [
                (column, float(preference[group, node]))
                for (group, node), column in self.columns.items()
            ]
        )
        self._cuts.add_watts()
        if self._rows is not None:
            self._rows.add_caps()
        for node in self.nodes:
            if self.problem.costs.priced[node]:
                self._add_watts(node)

    def bound(self, solution: Solution) -> float:
        """The lower bound on the cost."""
        return solution.bound + self._offset

    def _add_watts(self, node: int) -> None:
        points = self.functions.points(node)
        # Differences to the present watts keep the numbers small.
        self._offset += points[0][1]
        points = [(cores, watts - points[0][1]) for cores, watts in points]
        use = [
            (column, int(self.problem.use[group]) / MICROCORES_PER_CORE)
            for group, column in self._by_node[node]
        ]
        runs = convex_runs(points)
        sleeps = bool(self.problem.costs.sleeper[node])
        if len(runs) == 1 and not sleeps:
            self._add_convex(points, use)
            return
        modes = [_Mode(run, self.model.column(0.0, 1.0, integer=True)) for run in runs]
        if sleeps:
            modes.append(self._asleep(node, points))
        shares = [share for mode in modes for share in self._add_mode(mode)]
        self.model.equal([(mode.chosen, 1.0) for mode in modes], 1.0)
        self.model.equal([*use, *((column, -weight) for column, weight in shares)], 0.0)

    def _asleep(self, node: int, points: Points) -> _Mode:
        """Standby power for any use of daemons without workload; awake only with workload."""
        model, problem = self.model, self.problem
        chosen = model.column(0.0, 1.0, integer=True)
        workload = [column for group, column in self._by_node[node] if problem.is_workload[group]]
        for column in workload:
            upper = model.upper[column]
            model.at_most([(column, 1.0), (chosen, upper)], upper)
        model.at_least([*((column, 1.0) for column in workload), (chosen, 1.0)], 1.0)
        awake_now = float(self.functions.watts[node, 0])
        standby = problem.costs.standby_watts - awake_now
        return _Mode([(cores, standby) for cores, _watts in (points[0], *points[1:][-1:])], chosen)

    def _add_convex(self, points: Points, use: Terms) -> None:
        watts = self.model.column(-math.inf, math.inf, 1.0)
        for start, height, slope in _segments(points):
            terms = [(watts, 1.0), *((column, -slope * cores) for column, cores in use)]
            self.model.at_least(terms, height - slope * start)

    def _add_mode(self, mode: _Mode) -> list[tuple[int, float]]:
        """The added use in this mode, as the use at the mode's start and the rest."""
        model, chosen = self.model, mode.chosen
        first, width = mode.points[0][0], mode.points[-1][0] - mode.points[0][0]
        beyond = model.column(0.0, width)
        watts = model.column(-math.inf, math.inf, 1.0)
        model.at_most([(beyond, 1.0), (chosen, -width)], 0.0)
        for start, height, slope in _segments(mode.points):
            at_first = height - slope * (start - first)
            model.at_least([(watts, 1.0), (chosen, -at_first), (beyond, -slope)], 0.0)
        return [(beyond, 1.0), (chosen, first)]

    def counts(self, solution: Solution) -> Integers:
        """Pods by group and node of the whole problem."""
        counts = numpy.zeros_like(self.problem.limit)
        for (group, node), column in self.columns.items():
            counts[group, node] = round(solution.values[column])
        return counts

    def solve(
        self, limits: Limits, branching_nodes: int, open_gap: float = ABSOLUTE_GAP
    ) -> Solution:
        """The solution, with lazy rows for infeasible contents and for missing orders of binding.

        A few rounds may not find all rows; the bound is valid in any case.
        """
        solution = solve(self.model, limits, branching_nodes, open_gap)
        for _round in range(_ROUNDS_OF_CUTS):
            if not (solution.is_optimal and self._add_cuts(solution)):
                break
            solution = solve(self.model, limits, branching_nodes, open_gap)
        return solution

    def _add_cuts(self, solution: Solution) -> bool:
        if self._cuts.add(solution.values):
            return True
        return self._orders is not None and self._orders.add(self.counts(solution), solution.values)


def _segments(points: Points) -> t.Iterator[tuple[float, float, float]]:
    """(start, height, slope) of each segment; a flat one for a single point."""
    if len(points) == 1:
        yield (*points[0], 0.0)
    for left, right in zip(points, points[1:]):
        yield (*left, (right[1] - left[1]) / (right[0] - left[0]))
