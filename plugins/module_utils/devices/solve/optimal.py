# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The optimal strategy: all units and all nodes at once, level by level, each with its bound.

Counting comes first: the nodes of each unit if it were alone, and the number of claims for one
device each that can be matched. A greedy answer follows, unit by unit. The remaining gap is solved
exactly if a model of everything is of moderate size; else the greedy answer stands.
"""

from __future__ import annotations

import typing as t

from ...solving.limits import Limits
from ..model.model import Allocation, ClaimAllocation, Instance, Outcome, Unit
from ..model.objective import Objective
from ..model.usage import Usage
from .columns.column_generation import Columns, generate_columns
from .counting import SHARE, Needs, counted_out
from .fleet_model import Descent, FleetModel, Work
from .matching import match_plain_claims
from .node_solver import solve_node
from .plain_fleet import solve_plain
from .search import Candidates, State, equal_units, first_failing, shape_of

# Limit of pairs of a device and a claim that may use it, for one model of everything.
_MAX_OF_A_MODEL = 20_000
# Limit of pairs of a unit and a node that are solved alone, to find infeasible ones.
_MAX_ALONE = 2_000

Claims = list[t.Optional[ClaimAllocation]]
Options = list[tuple[Unit, tuple[str, ...]]]


def solve(instance: Instance, limits: Limits) -> Allocation:
    """The best answer by the levels of objective.py, with the proven bound of each.

    ``unknown`` if a limit ended the work before a decision whether all can be satisfied.
    """
    return _Optimal(instance, limits).run()


class _Optimal:
    def __init__(self, instance: Instance, limits: Limits) -> None:
        self.instance, self.limits = instance, limits
        self.candidates = Candidates(instance)
        self.objective = Objective(instance)
        self.needs = Needs(instance, self.objective)
        self.work = Work(limits.seconds, limits)

    def run(self) -> Allocation:
        plain = solve_plain(self.instance, self.objective, self.limits)
        options = [] if plain else self._options()
        if plain is None and not self._is_moderate(options):
            plain = solve_plain(self.instance, self.objective, self.limits, may_wake=True)
        if plain is not None:
            self.work.enough = plain.complete
            return self._answer(plain.claims, plain.bounds)
        if not self._is_moderate(options):
            return self._by_column_generation(options)
        claims = self._best_start(options)
        floors = self._floors(options, claims)
        claims, bounds = self._solve(options, claims, floors)
        return self._answer(_in_order(self.instance, self.objective, claims), bounds)

    def _by_column_generation(self, options: Options) -> Allocation:
        """The answer for a task that is too large for one model."""
        generated = generate_columns(
            self.instance,
            self.objective,
            lambda claims: self._start(options, claims),
            lambda claims: self._floors(options, claims),
            self.work,
        )
        if generated is None:
            # The greedy answer stands, with the bounds from counting.
            claims = self._best_start(options)
            generated = Columns(claims, self._floors(options, claims))
        values = self.objective.values(generated.claims)
        self.work.enough = all(map(int.__eq__, generated.bounds, values[:-1]))
        return self._answer(
            _in_order(self.instance, self.objective, generated.claims), [*generated.bounds, 0]
        )

    def _options(self) -> Options:
        """The nodes on which each unit could be if it were alone."""
        state = self._state()
        shapes = {shape_of(self.instance, unit): unit for unit in self.instance.units}
        exact = len(shapes) * len(self.instance.nodes) <= _MAX_ALONE
        nodes_of: dict[t.Hashable, tuple[str, ...]] = {}
        for shape, unit in shapes.items():
            nodes_of[shape] = tuple(
                node.name
                for node in self.instance.nodes_of(unit)
                if not (
                    solve_node(state, unit, node.name, self.limits) == "infeasible"
                    if exact
                    else counted_out(state, unit, node.name)
                )
            )
        return [(unit, nodes_of[shape_of(self.instance, unit)]) for unit in self.instance.units]

    def _state(self) -> State:
        return State(self.instance, Usage(self.instance), self.candidates)

    def _best_start(self, options: Options) -> Claims:
        """The best of some greedy answers: in order, or large units first, or small ones."""
        nothing: Claims = [None] * len(self.instance.claims)
        found = self._start(options, nothing)
        if all(found[claim] is not None for unit, _nodes in options for claim in unit.claims):
            return found
        small_first = sorted(options, key=lambda option: self._share(option[0]))
        others = [self._start(order, nothing) for order in (small_first, small_first[::-1])]
        return min([found, *others], key=self.objective.values)

    def _share(self, unit: Unit) -> int:
        return sum(self.needs.share([claim], 1) for claim in unit.claims)

    def _start(self, options: Options, given: Claims) -> Claims:
        """Unit by unit, the highest priority first, on the first node that can satisfy it.

        Existing allocations stay.
        """
        claims = list(given)
        state = self._state()
        for claim, allocation in enumerate(given):
            state.usage.change(self.instance.claims[claim], allocation, taken=True)
        # Devices are never given back here, so if a unit failed, an equal one fails too.
        passed: dict[t.Hashable, int] = {}
        for unit, nodes in sorted(options, key=lambda option: -option[0].priority):
            if claims[unit.claims[0]] is not None:
                continue
            shape = shape_of(self.instance, unit)
            while (position := passed.setdefault(shape, 0)) < len(nodes):
                found = solve_node(state, unit, nodes[position], self.limits)
                if isinstance(found, str):
                    passed[shape] += 1
                    continue
                for claim, allocation in zip(unit.claims, found):
                    claims[claim] = allocation
                    state.usage.change(self.instance.claims[claim], allocation, taken=True)
                break
        return claims

    def _floors(self, options: Options, start: Claims) -> list[int]:
        """Lower bounds, by counting, of answers that are as good as the start."""
        needs = self.needs
        possible: dict[int, list[int]] = {priority: [] for priority in self.objective.priorities}
        for unit, nodes in options:
            possible[unit.priority] += unit.claims if nodes else ()
        satisfied = [-needs.most(claims) for claims in possible.values()]
        if len(possible) == 1:
            matching = match_plain_claims(self.instance, Usage(self.instance))
            everybody = sum(len(unit.claims) for unit, _nodes in options)
            satisfied = [max(satisfied[0], sum(matching.left_over) - everybody)]
        claims = [claim for of_priority in possible.values() for claim in of_priority]
        given = sum(start[claim] is not None for claim in claims)
        # A better answer may satisfy fewer claims, if these have a higher priority.
        certain = given if len(possible) == 1 or given == len(claims) else 0
        taken = needs.share(claims, certain) - needs.there[SHARE]
        untouched = self.objective.left_whole(Usage(self.instance))
        return [*satisfied, 0, 0, max(untouched, taken), 0, 0]

    def _is_moderate(self, options: Options) -> bool:
        size = 0
        for unit, nodes in options:
            for node in nodes:
                for alternative in self.instance.alternatives_of(unit):
                    size += len(self.candidates.of(alternative.matcher, node))
                if size > _MAX_OF_A_MODEL:
                    return False
        return True

    def _solve(
        self, options: Options, claims: Claims, floors: t.Sequence[int]
    ) -> tuple[Claims, list[int]]:
        """The exact answer, by a model of everything."""
        open_options = [option for option in options if option[1]]
        if not open_options:
            return claims, self.objective.values(claims)
        fleet = FleetModel(self._state(), self.objective, open_options)
        descent = Descent(fleet, self.work, floors)
        return descent.run(claims, self.objective.values), descent.bounds

    def _answer(self, claims: Claims, bounds: t.Sequence[int]) -> Allocation:
        values = self.objective.values(claims)
        wanted = dict.fromkeys(self.objective.priorities, 0)
        for unit in self.instance.units:
            wanted[unit.priority] -= len(unit.claims)
        outcome: Outcome = "unknown"
        if all(value == whole for value, whole in zip(values, wanted.values())):
            outcome = "allocated"
        elif any(bound > whole for bound, whole in zip(bounds, wanted.values())):
            outcome = "infeasible"
        stopped_by = "completed"
        if not self.work.enough:
            stopped_by = "work_limit" if self.limits.patience() > 0 else "wall_clock"
        levels = self.objective.levels(values, bounds)
        errors = self._errors(claims)
        return Allocation(outcome, tuple(claims), levels, stopped_by=stopped_by, errors=errors)

    def _errors(self, claims: Claims) -> dict[int, str]:
        """Errors of claims that get nothing, whose selector fails on a reachable device."""
        found: dict[int, str] = {}
        if not any(matcher.errors for matcher in self.instance.matchers):
            return found
        state = self._state()
        for unit in self.instance.units:
            for node in self.instance.nodes_of(unit) if claims[unit.claims[0]] is None else ():
                failed = first_failing(state, unit, node.name)
                if failed is not None:
                    found.setdefault(failed.claim, str(failed))
        return found


def _in_order(instance: Instance, objective: Objective, claims: Claims) -> Claims:
    """Reorder equivalent units so that the first gets the first devices."""

    def place(unit: Unit) -> tuple[int, list[int]]:
        found = [allocation for claim in unit.claims if (allocation := claims[claim])]
        if not found:
            return len(objective.node_rank), []
        devices = [chosen.device for allocation in found for chosen in allocation.chosen]
        return objective.node_rank[found[0].node], devices

    ordered: Claims = list(claims)
    for group in equal_units(instance, instance.units):
        given = sorted((place(unit), unit.claims) for unit in group)
        for unit, (_place, source) in zip(group, given):
            for claim, other in zip(unit.claims, source):
                ordered[claim] = claims[other]
    return ordered
