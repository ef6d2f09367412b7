# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The assignment as a mixed-integer model, solved level by level.

Hosts that no level distinguishes are one class, so a thousand hosts of five kinds in twenty racks
are a hundred columns for each demand. Each level is an integer sum; the next level is solved among
the optima of the earlier ones.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t
from dataclasses import dataclass, field

from ...solving.limits import Limits
from ...solving.linear import LinearModel, Solution, Terms, solve

# Costs of one host in one demand, by level.
Costs = t.Mapping[str, int]


@dataclass(frozen=True)
class Demand:
    """Number of hosts for some equal items together; None for all that fit, at least one."""

    is_master: bool
    count: int | None


@dataclass(frozen=True)
class HostClass:
    """Hosts that are equal to the model.

    ``costs`` has an entry for each demand that the hosts fit. ``rack`` None is not known.
    """

    size: int
    rack: str | None
    costs: t.Mapping[int, Costs]


@dataclass(frozen=True)
class Problem:
    """Demands, classes, existing masters by rack, and the levels in their order.

    ``most_of_a_rack`` bounds the masters of each rack; hosts of unknown rack are then no masters.
    """

    demands: tuple[Demand, ...]
    classes: tuple[HostClass, ...]
    levels: tuple[str, ...] = ()
    masters_of_racks: t.Mapping[str | None, int] = field(default_factory=dict)
    most_of_a_rack: int | None = None


@dataclass(frozen=True)
class Level:
    """One level of the answer: its value and its lower bound."""

    name: str
    value: int
    bound: float

    def as_dict(self) -> dict[str, t.Any]:
        """The entry of results; an unknown bound is None."""
        bound = self.bound if math.isfinite(self.bound) else None
        return {"level": self.name, "value": self.value, "bound": bound}


@dataclass(frozen=True)
class Counts:
    """Number of hosts of each class for each demand, by (class, demand)."""

    taken: t.Mapping[tuple[int, int], int]
    levels: tuple[Level, ...]
    is_proven: bool


# Integrality tolerance.
_WHOLE = 1e-6

# Internal level of the model: even spread of masters over racks.
SPREAD = "spread"


class _Model:
    """Columns and rows of a problem; ``x`` are the columns by (class, demand)."""

    def __init__(self, problem: Problem, *, elastic: bool) -> None:
        self.problem = problem
        self.linear = LinearModel()
        self.x = {
            (index, demand): self.linear.column(0, each.size, integer=True)
            for index, each in enumerate(problem.classes)
            for demand in sorted(each.costs)
            if self._may_take(each, demand)
        }
        self.shortages: list[int] = []
        self._add_rows(elastic)
        self.spread: Terms = ()

    def _may_take(self, each: HostClass, demand: int) -> bool:
        bounded = self.problem.most_of_a_rack is not None and self.problem.demands[demand].is_master
        return not (bounded and each.rack is None)

    def _add_rows(self, elastic: bool) -> None:
        linear = self.linear
        of_class: dict[int, list[tuple[int, float]]] = {}
        of_demand: dict[int, list[tuple[int, float]]] = {}
        for (index, demand), column in self.x.items():
            of_class.setdefault(index, []).append((column, 1.0))
            of_demand.setdefault(demand, []).append((column, 1.0))
        for index, terms in of_class.items():
            linear.at_most(terms, self.problem.classes[index].size)
        for position, each in enumerate(self.problem.demands):
            terms = of_demand.get(position, [])
            least = 1 if each.count is None else each.count
            if elastic:
                self.shortages.append(linear.column(0, least, 1.0, integer=True))
                terms = [*terms, (self.shortages[-1], 1.0)]
            if each.count is None:
                linear.at_least(terms, least)
            else:
                linear.equal(terms, least)
        if self.problem.most_of_a_rack is not None:
            for rack, terms in self._masters_by_rack().items():
                there = self.problem.masters_of_racks.get(rack, 0)
                linear.at_most(terms, max(0, self.problem.most_of_a_rack - there))

    def _masters_by_rack(self) -> dict[str | None, list[tuple[int, float]]]:
        found: dict[str | None, list[tuple[int, float]]] = {}
        for (index, demand), column in self.x.items():
            if self.problem.demands[demand].is_master:
                rack = self.problem.classes[index].rack
                found.setdefault(rack, []).append((column, 1.0))
        return found

    def add_spread(self) -> None:
        """The pairs of masters in one rack: a convex cost, so its steps are taken in order."""
        masters = sum(each.count or 0 for each in self.problem.demands if each.is_master)
        terms: list[tuple[int, float]] = []
        for rack, columns in self._masters_by_rack().items():
            there = self.problem.masters_of_racks.get(rack, 0)
            steps = [self.linear.column(0, 1) for _master in range(masters)]
            terms.extend((step, float(there + index)) for index, step in enumerate(steps))
            self.linear.equal([*columns, *((step, -1.0) for step in steps)], 0)
        self.spread = [(column, cost) for column, cost in terms if cost]

    def terms_of(self, level: str) -> Terms:
        if level == SPREAD:
            return self.spread
        return [
            (column, float(cost))
            for (index, demand), column in self.x.items()
            if (cost := self.problem.classes[index].costs[demand].get(level, 0))
        ]


def shortages(problem: Problem, limits: Limits) -> tuple[int, ...] | None:
    """Missing hosts of each demand, minimised in total; None if time ends first."""
    model = _Model(problem, elastic=True)
    solution = solve(model.linear, limits)
    if not solution.is_optimal:
        return None
    return tuple(round(solution.values[column]) for column in model.shortages)


def _solve_whole(linear: LinearModel, limits: Limits) -> Solution:
    """The integer optimum.

    With one group of masters the model is a network, and with more it nearly is one: the vertices
    of its relaxation are integral, which is several times as fast as branching.
    """
    relaxed = dataclasses.replace(linear, integer=[False] * len(linear.integer))
    solution = solve(relaxed, limits)
    pairs = zip(linear.integer, solution.values)
    if solution.is_optimal and all(
        abs(value - round(value)) < _WHOLE for is_whole, value in pairs if is_whole
    ):
        return solution
    return solve(linear, limits)


def best_counts(problem: Problem, limits: Limits) -> Counts | None:
    """The best counts by all levels; None if time ends before the first answer.

    The problem must be feasible by ``shortages``.
    """
    model = _Model(problem, elastic=False)
    if SPREAD in problem.levels:
        model.add_spread()
    values: tuple[float, ...] = ()
    levels = []
    is_proven = True
    for name in problem.levels:
        terms = model.terms_of(name)
        bound = 0.0
        if terms or not values:
            model.linear.cost = [0.0] * len(model.linear.cost)
            for column, cost in terms:
                model.linear.cost[column] = cost
            solution = _solve_whole(model.linear, limits)
            is_proven = is_proven and solution.is_optimal
            values = solution.values or values
            bound = solution.bound
        if not values:
            return None
        value = round(sum(cost * values[column] for column, cost in terms))
        levels.append(Level(name, value, value if is_proven else bound))
        if terms:
            model.linear.at_most(terms, value)
    taken = {pair: round(values[column]) for pair, column in model.x.items()}
    return Counts({pair: n for pair, n in taken.items() if n}, tuple(levels), is_proven)
