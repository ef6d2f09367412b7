# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Restricted master: a linear program over the counts of patterns; see column_generation.py."""

from __future__ import annotations

import math
import typing as t

from ....solving.linear import LinearModel, Solution
from ...model.model import Instance
from ...model.objective import WHOLE, Objective
from .components import ComponentKind, UnitGroup
from .pricing_problem import SUMS, Pattern, Prices

# Scale of integer prices in the models of components.
SCALE = 10**5
_ROUNDING = 1e-6

# Number of components with each pattern, by position.
PatternCounts = dict[int, int]


class Rest(t.NamedTuple):
    """The undecided rest: components of each kind, units of each group, earlier levels."""

    components: tuple[int, ...]
    units: tuple[int, ...]
    levels: tuple[int, ...]


def fits(pattern: Pattern, rest: Rest) -> bool:
    """Whether the units of a pattern are left."""
    return all(count <= rest.units[group] for group, count in pattern.counts)


class Master:
    """All known patterns, and their costs on each level except names."""

    def __init__(
        self,
        instance: Instance,
        objective: Objective,
        groups: t.Sequence[UnitGroup],
        kinds: t.Sequence[ComponentKind],
    ) -> None:
        self.groups, self.kinds = groups, kinds
        self.patterns: list[Pattern] = []
        self.priorities = objective.priorities
        self.satisfied = len(self.priorities)
        self.levels = self.satisfied + len(range(*SUMS.indices(6)))
        self._priority_of = [self.priorities.index(group.units[0].priority) for group in groups]
        self._steps = self._smallest_steps(instance, objective)
        self._index: dict[Pattern, int] = {}

    def _smallest_steps(self, instance: Instance, objective: Objective) -> list[int]:
        """For each level a common divisor of the differences between answers."""
        claims = [0] * self.satisfied
        for group, priority in zip(self.groups, self._priority_of):
            claims[priority] = math.gcd(claims[priority], len(group.units[0].claims))
        watts = {device.milliwatts for device in instance.devices}
        shares = {0 if device.consumes else WHOLE for device in instance.devices}
        steps = [
            *claims,
            1,
            math.gcd(*watts, *objective.wake.values()),
            math.gcd(*shares, *objective.shares.values()),
            1,
        ]
        return [step or 1 for step in steps]

    def add(self, pattern: Pattern) -> int:
        """The position of a pattern, which is added if it is new."""
        index = self._index.setdefault(pattern, len(self.patterns))
        if index == len(self.patterns):
            self.patterns.append(pattern)
        return index

    def cost(self, pattern: Pattern, level: int) -> int:
        if level >= self.satisfied:
            return pattern.costs[level - self.satisfied]
        return -sum(
            count * len(self.groups[group].units[0].claims)
            for group, count in pattern.counts
            if self._priority_of[group] == level
        )

    def value(self, held: PatternCounts, level: int) -> int:
        """The value of an answer on a level, relative to the empty answer."""
        return sum(count * self.cost(self.patterns[index], level) for index, count in held.items())

    def rest(self, held: PatternCounts, fixed: t.Sequence[int]) -> Rest:
        """The rest after these patterns; ``fixed`` are the earlier levels."""
        components = [len(kind.components) for kind in self.kinds]
        units = [len(group.units) for group in self.groups]
        for index, times in held.items():
            pattern = self.patterns[index]
            components[pattern.kind] -= times
            for group, count in pattern.counts:
                units[group] -= times * count
        levels = (value - self.value(held, level) for level, value in enumerate(fixed))
        return Rest(tuple(components), tuple(units), tuple(levels))

    def only(self, level: int) -> list[float]:
        """Weights by which one level counts alone."""
        return [float(one == level) for one in range(self.levels)]

    def model(self, weights: t.Sequence[float], rest: Rest, *, integer: bool) -> LinearModel:
        """Columns of all patterns; rows of all kinds, of all groups, and of earlier levels.

        ``weights`` are the weights of levels.
        """
        counted = [(level, weight) for level, weight in enumerate(weights) if weight]
        model = LinearModel()
        of_kind: list[list[tuple[int, float]]] = [[] for _kind in self.kinds]
        of_group: list[list[tuple[int, float]]] = [[] for _group in self.groups]
        for pattern in self.patterns:
            most = rest.components[pattern.kind] if fits(pattern, rest) else 0
            cost = sum(weight * self.cost(pattern, level) for level, weight in counted)
            column = model.column(0, most, cost, integer=integer)
            of_kind[pattern.kind].append((column, 1))
            for group, count in pattern.counts:
                of_group[group].append((column, count))
        for terms, components in zip(of_kind, rest.components):
            model.at_most(terms, components)
        for terms, units in zip(of_group, rest.units):
            model.at_most(terms, units)
        for before, value in enumerate(rest.levels):
            costs = [self.cost(pattern, before) for pattern in self.patterns]
            model.at_most([(column, cost) for column, cost in enumerate(costs) if cost], value)
        return model

    def prices(
        self, weights: t.Sequence[float], rest: Rest, solution: Solution
    ) -> tuple[Prices, int]:
        """The dual prices of a solution of ``model``, and the value of ``rest`` at these prices.

        The sum of this value and the best patterns at these prices, times the components, is a
        bound on the weighted levels, in parts of SCALE.
        """
        duals = [min(0, round(dual * SCALE)) for dual in solution.duals]
        of_groups = duals[len(self.kinds) : len(self.kinds) + len(self.groups)]
        of_levels = duals[len(self.kinds) + len(self.groups) :]
        scaled = [round(weight * SCALE) for weight in weights]
        for before, dual in enumerate(of_levels):
            scaled[before] -= dual
        rewards = [
            dual + scaled[priority] * len(group.units[0].claims)
            for dual, priority, group in zip(of_groups, self._priority_of, self.groups)
        ]
        worth = sum(dual * count for dual, count in zip(of_groups, rest.units))
        worth += sum(dual * value for dual, value in zip(of_levels, rest.levels))
        return Prices(rewards, scaled[self.satisfied :], scaled[: len(of_levels)]), worth

    def rounded_up(self, value: float, level: int) -> int:
        """The smallest possible value of a level that is not below a value."""
        step = self._steps[level]
        return step * math.ceil((value - _ROUNDING) / step)
