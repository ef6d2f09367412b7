# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Column generation over patterns of components, for thousands of units of any kind.

The restricted master is a linear program over the number of components of each kind with each
pattern. Its dual prices define a pricing problem for each kind (pricing_problem.py), which adds
improving patterns until there are none. The best patterns for any prices prove a Lagrangian bound,
so the bound holds even if a limit ends the work. For an integer answer, a dive fixes the integer
part of the solution and solves the rest again; an integer program over all generated patterns is
tried too. This is done level by level, with earlier levels fixed at their values in the answer.
"""

from __future__ import annotations

import math
import typing as t

from ....solving.linear import LinearModel, Solution, solve
from ...model.model import ClaimAllocation, Instance, Pick
from ...model.objective import WHOLE, Objective
from ..fleet_model import Work
from .components import ComponentKind, UnitGroup, groups_of, kinds_of
from .pricing_problem import SUMS, Costs, Pattern, Prices, PricingProblem, TooLarge

_MAX_KINDS = 200
# Limits of solutions of the linear program for one level, and for the integers of one level.
_MAX_ROUNDS = 60
_MAX_DIVES = 60
_ROUNDS_OF_A_DIVE = 5
# Factor by which the weight of fixed levels in a dive exceeds that in the linear program.
_EMPHASIS = 1.5
# Nodes of HiGHS' search: counted, so that equal input gives an equal answer.
_BRANCHING_NODES = 100
_ROUNDING = 1e-6

Claims = list[t.Optional[ClaimAllocation]]

# Scale of integer prices in the models of components.
SCALE = 10**5
# Number of components with each pattern, by position.
PatternCounts = dict[int, int]


class Columns(t.NamedTuple):
    """An answer, and the bound of each level but the last, of names."""

    claims: Claims
    bounds: list[int]


def generate_columns(
    instance: Instance,
    objective: Objective,
    start: t.Callable[[Claims], Claims],
    floors: t.Callable[[Claims], t.Sequence[int]],
    work: Work,
) -> Columns | None:
    """The best answer found; None if components are too large or too many, or not separate.

    ``start`` adds to an answer the units that fit into it; ``floors`` are known bounds for answers
    that are as good as this one.
    """
    groups = groups_of(instance)
    kinds = kinds_of(instance, objective, groups)
    if kinds is None or len(kinds) > _MAX_KINDS:
        return None
    try:
        models = [PricingProblem(instance, groups, kind) for kind in kinds]
    except TooLarge:
        return None
    return _ColumnGeneration(instance, objective, groups, kinds, models, work).run(start, floors)


class _ColumnGeneration:
    def __init__(
        self,
        instance: Instance,
        objective: Objective,
        groups: t.Sequence[UnitGroup],
        kinds: t.Sequence[ComponentKind],
        models: t.Sequence[PricingProblem],
        work: Work,
    ) -> None:
        self._instance, self._objective = instance, objective
        self._groups, self._kinds, self._models, self._work = groups, kinds, models, work
        self._master = Master(instance, objective, groups, kinds)
        self._held: PatternCounts = {}
        self._nothing: Claims = [None] * len(instance.claims)
        self._constants = objective.values(self._nothing)
        self._costs = [Costs(instance, groups, kind) for kind in kinds]
        for number, costs in enumerate(self._costs):
            self._master.add(costs.pattern(number, ()))

    def run(
        self, start: t.Callable[[Claims], Claims], floors: t.Callable[[Claims], t.Sequence[int]]
    ) -> Columns:
        satisfied = self._master.satisfied
        values = self._objective.values
        known = floors(self._nothing)
        bounds = [self._solve(level, known[level]) for level in range(satisfied)]
        best = start(self._answer())
        if values(best)[:satisfied] != bounds:
            best = min(best, start(self._nothing), key=values)
        self._learn(best)
        known = floors(best)
        bounds += [
            self._solve(level, known[level]) for level in range(satisfied, self._master.levels)
        ]
        best = min(best, self._answer(), key=values)
        return Columns(best, [min(pair) for pair in zip(bounds, values(best))])

    # Answers as patterns, and patterns as answers.

    def _learn(self, claims: Claims) -> None:
        """Set an answer as the incumbent."""
        component_of = {
            device: (number, position)
            for number, kind in enumerate(self._kinds)
            for position, component in enumerate(kind.components)
            for device in component.devices
        }
        contents: dict[tuple[int, int], list[t.Any]] = {}
        for number, group in enumerate(self._groups):
            for unit in group.units:
                found = [one for claim in unit.claims if (one := claims[claim]) is not None]
                if found:
                    key = component_of[found[0].chosen[0].device]
                    contents.setdefault(key, []).append((number, self._within(*key, found)))
        self._held = {}
        for (kind, _cell), content in sorted(contents.items(), key=lambda item: item[0]):
            index = self._master.add(self._costs[kind].pattern(kind, tuple(content)))
            self._held[index] = self._held.get(index, 0) + 1

    def _within(
        self, kind: int, position: int, given: t.Sequence[ClaimAllocation]
    ) -> tuple[ClaimAllocation, ...]:
        components = self._kinds[kind].components
        position_of = {device: index for index, device in enumerate(components[position].devices)}
        return tuple(_moved(one, components[0].node, position_of) for one in given)

    def _answer(self) -> Claims:
        claims = list(self._nothing)
        waiting = [list(group.units[::-1]) for group in self._groups]
        components = [iter(kind.components) for kind in self._kinds]
        patterns = self._master.patterns
        for index in sorted(self._held, key=lambda one: -len(patterns[one].content)):
            pattern = patterns[index]
            for _time in range(self._held[index]):
                component = next(components[pattern.kind])
                device_of = dict(enumerate(component.devices))
                for group, given in pattern.content:
                    for claim, one in zip(waiting[group].pop().claims, given):
                        claims[claim] = _moved(one, component.node, device_of)
        return claims

    # Levels.

    def _solve(self, level: int, floor: int) -> int:
        """Improve a level as far as possible; return its bound."""
        fixed = [self._master.value(self._held, before) for before in range(level)]
        least = floor - self._constants[level]
        weights = self._master.only(level)
        if self._value(level) > least:
            least = self._generate(level, self._master.rest({}, fixed), least, weights)
        # Patterns that suffice for the fractional solution may not suffice for an integer one.
        dearest = max(abs(self._master.cost(one, level)) for one in self._master.patterns)
        insisting = [max(weight, float(dearest)) for weight in weights[:level]]
        for tried in (weights, [*insisting, *weights[level:]]):
            if self._value(level) > least:
                self._take_if_better(level, fixed, self._dive(tried))
        if self._value(level) > least:
            self._take_if_better(level, fixed, self._whole(level, fixed))
        return least + self._constants[level]

    def _value(self, level: int) -> int:
        return self._master.value(self._held, level)

    def _take_if_better(self, level: int, fixed: t.Sequence[int], held: PatternCounts) -> None:
        value = self._master.value
        kept = all(value(held, before) <= most for before, most in enumerate(fixed))
        if kept and value(held, level) < self._value(level):
            self._held = held

    def _generate(self, level: int, rest: Rest, least: int, weights: list[float]) -> int:
        """Add patterns as long as they improve the level; return its bound.

        ``weights`` become the weights of all levels up to this one, by the prices.
        """
        only = self._master.only(level)
        for _round in range(_MAX_ROUNDS):
            model = self._master.model(only, rest, integer=False)
            solution = solve(model, self._work.limits)
            if not solution.duals or not solution.is_optimal or self._work.left <= 0:
                break
            bound, added = self._price(only, rest, solution)
            least = max(least, self._master.rounded_up(bound / SCALE, level))
            before = self._master.prices(only, rest, solution)[0].before
            weights[:level] = [_EMPHASIS * weight / SCALE for weight in before]
            reached = sum(cost * value for cost, value in zip(model.cost, solution.values))
            if not added or self._master.rounded_up(reached, level) <= least:
                break
        return least

    def _price(
        self, weights: t.Sequence[float], rest: Rest, solution: Solution
    ) -> tuple[int, bool]:
        """A bound in parts of SCALE by a solution's prices, and whether patterns were added."""
        prices, bound = self._master.prices(weights, rest, solution)
        before = len(self._master.patterns)
        for number, model in enumerate(self._models):
            if rest.components[number]:
                least, content = model.best(prices, rest.units, self._work)
                bound += least * rest.components[number]
                self._master.add(self._costs[number].pattern(number, content))
        return bound, len(self._master.patterns) > before

    def _dive(self, weights: t.Sequence[float]) -> PatternCounts:
        """Dive: fix the integer part of a solution, then that of the rest, and so on.

        Levels are weighted and not fixed, because the rest seldom reaches them exactly.
        """
        held: PatternCounts = {}
        for _dive in range(_MAX_DIVES):
            rest = self._master.rest(held, ())
            for _round in range(_ROUNDS_OF_A_DIVE):
                model = self._master.model(weights, rest, integer=False)
                solution = solve(model, self._work.limits)
                if not solution.duals or not solution.is_optimal or self._work.left <= 0:
                    return held
                if not self._price(weights, rest, solution)[1]:
                    break
            more = self._whole_part(solution, rest)
            if not more:
                break
            for index, count in more.items():
                held[index] = held.get(index, 0) + count
        return held

    def _whole_part(self, solution: Solution, rest: Rest) -> PatternCounts:
        """The integer part of each pattern's value; if all are 0, one of the largest value."""
        patterns = self._master.patterns
        used = {
            index: value
            for index, value in enumerate(solution.values)
            if patterns[index].content and value > _ROUNDING
        }
        whole = {index: math.floor(value + _ROUNDING) for index, value in used.items()}
        if any(whole.values()):
            return {index: count for index, count in whole.items() if count}
        fitting = [index for index in used if fits(patterns[index], rest)]
        return {max(fitting, key=lambda index: used[index]): 1} if fitting else {}

    def _whole(self, level: int, fixed: t.Sequence[int]) -> PatternCounts:
        """The best integer solution over the known patterns."""
        rest = self._master.rest({}, fixed)
        model = self._master.model(self._master.only(level), rest, integer=True)
        solution = solve(model, self._work.limits, _BRANCHING_NODES)
        return {index: round(value) for index, value in enumerate(solution.values) if round(value)}


def _moved(given: ClaimAllocation, node: str, positions: t.Mapping[int, int]) -> ClaimAllocation:
    """The claim with other positions of its devices, on another node."""
    chosen = (
        Pick(one.request, one.alternative, positions[one.device], one.portions)
        for one in given.chosen
    )
    return ClaimAllocation(node, tuple(chosen))


class Rest(t.NamedTuple):
    """The undecided rest: components of each kind, units of each group, earlier levels."""

    components: tuple[int, ...]
    units: tuple[int, ...]
    levels: tuple[int, ...]


def fits(pattern: Pattern, rest: Rest) -> bool:
    """Whether the units of a pattern are left."""
    return all(count <= rest.units[group] for group, count in pattern.counts)


class Master:
    """Restricted master: all known patterns, and their costs on each level except names."""

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
