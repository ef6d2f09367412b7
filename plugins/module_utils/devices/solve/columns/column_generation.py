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

from ....solving.linear import Solution, solve
from ...model.model import ClaimAllocation, Instance, Pick
from ...model.objective import Objective
from ..fleet_model import Work
from .components import ComponentKind, UnitGroup, groups_of, kinds_of
from .pricing_problem import Costs, PricingProblem, TooLarge
from .restricted_master import SCALE, Master, PatternCounts, Rest, fits

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
