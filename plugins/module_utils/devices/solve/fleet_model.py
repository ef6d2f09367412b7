# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""CP-SAT model of units over several nodes, and its lexicographic optimisation by levels."""

from __future__ import annotations

import itertools
import math
import typing as t
from dataclasses import dataclass, field

from ...base.libraries import cp_model
from ...solving.limits import Limits
from ..model.model import ClaimAllocation, Unit
from ..model.objective import WHOLE, CounterSet, Objective, localities
from .node_model import NodeModel, Place, Term, add_at_most, new_solver
from .search import State, equal_units

Places = t.Sequence[tuple[Unit, tuple[str, ...]]]

# Share of the remaining work that one level may use; unused work is left to later levels.
_SHARE_OF_A_LEVEL = 0.5


class FleetModel:
    """The model of units, each on one of its nodes or on none, with the allocations in the state.

    ``terms`` are the levels as expressions to minimise, without constant parts. A unit that
    ``is_many`` aggregates claims for one device each, so its devices need not be close.
    """

    def __init__(
        self,
        state: State,
        objective: Objective,
        places: Places,
        is_many: t.Callable[[Unit], bool] = lambda _unit: False,
    ) -> None:
        pairs = [(unit, node) for unit, nodes in places for node in nodes]
        self.nodes = NodeModel(state, pairs, optional=True)
        self.model = self.nodes.model
        self._instance, self._usage, self._objective = state.instance, state.usage, objective
        self._is_many = is_many
        self._places_of: dict[int, list[Place]] = {}
        for place in self.nodes.places:
            self._places_of.setdefault(id(place.unit), []).append(place)
        for own in self._places_of.values():
            self.model.add_at_most_one(place.here for place in own)
        self._order_equal_units([unit for unit, nodes in places if nodes])
        self.terms = [
            *self._satisfied(),
            self._rank(),
            self._watts(),
            self._fragmentation(),
            self._closeness(),
            self._names(),
        ]

    def _order_equal_units(self, units: t.Iterable[Unit]) -> None:
        """Symmetry breaking: equivalent units are on nodes in their order."""
        for group in equal_units(self._instance, units):
            ranks = [self._node_of(unit) for unit in group]
            for rank, following in itertools.pairwise(ranks):
                self.model.add(rank <= following)

    def _node_of(self, unit: Unit) -> t.Any:
        """The position of the unit's node; one more than all for a unit that is left out."""
        nodes = len(self._objective.node_rank)
        return nodes + sum(
            (self._objective.node_rank[place.node] - nodes) * place.here
            for place in self._places_of[id(unit)]
        )

    def _satisfied(self) -> list[t.Any]:
        return [
            -sum(
                len(place.unit.claims) * place.here
                for place in self.nodes.places
                if place.unit.priority == priority
            )
            for priority in self._objective.priorities
        ]

    def _rank(self) -> t.Any:
        taken = self.nodes.taken.items()
        return sum(number * one for (_claim, _request, number), one in taken if number)

    def _watts(self) -> t.Any:
        total = sum(
            self._instance.devices[device].milliwatts * in_use
            for device, in_use in self._newly_used()
        )
        here: dict[str, list[t.Any]] = {}
        for place in self.nodes.places:
            if self._objective.wake[place.node]:
                here.setdefault(place.node, []).append(place.here)
        for node, variables in here.items():
            awake = self.model.new_bool_var("")
            for variable in variables:
                self.model.add_implication(variable, awake)
            total += self._objective.wake[node] * awake
        return total

    def _newly_used(self) -> t.Iterator[tuple[int, t.Any]]:
        for device, in_use in self.nodes.in_use.items():
            if not self._usage.holders(device):
                yield device, in_use

    def _fragmentation(self) -> t.Any:
        touched = WHOLE * sum(
            in_use
            for device, in_use in self._newly_used()
            if not self._instance.devices[device].consumes
        )
        sets = [
            key
            for key, counters in self._objective.counters_of.items()
            if not self.nodes.drawn.keys().isdisjoint(counters)
        ]
        return touched - sum(self._largest(key) for key in sets)

    def _largest(self, key: CounterSet) -> t.Any:
        """The share of the largest device that is still available after all allocations."""
        picks: list[tuple[int, t.Any]] = []
        drawn: dict[int, list[Term]] = {}
        for device in self._objective.partitions[key]:
            if self._usage.holders(device) or not self._usage.counters_allow(device):
                continue
            pick = self.model.new_bool_var("")
            picks.append((device, pick))
            self.model.add(pick + self.nodes.in_use.get(device, 0) <= 1)
            for counter, amount in self._instance.devices[device].consumes:
                drawn.setdefault(counter, []).append(Term(amount, pick))
        self.model.add_at_most_one(pick for _device, pick in picks)
        for counter, parts in drawn.items():
            beside = self.nodes.drawn.get(counter, [])
            add_at_most(self.model, [*beside, *parts], self._usage.counters[counter])
        return sum(self._objective.shares[key, device] * pick for device, pick in picks)

    def _closeness(self) -> t.Any:
        """Number of values of the devices of each unit, by kind of locality, less one."""
        near: dict[tuple[int, str], dict[t.Any, t.Any]] = {}
        for use in self.nodes.uses:
            place = self.nodes.place_of(use.member)
            if not self._can_spread(place):
                continue
            for kind, values in localities(self._instance.devices[use.device]).items():
                variables = near.setdefault((place.first, kind), {})
                for value in sorted(values, key=str):
                    if value not in variables:
                        variables[value] = self.model.new_bool_var("")
                self.model.add(sum(variables[value] for value in values) >= use.chosen)
        total = 0
        for variables in near.values():
            some = self.model.new_bool_var("")
            self.model.add(sum(variables.values()) >= some)
            total += sum(variables.values()) - some
        return total

    def _can_spread(self, place: Place) -> bool:
        """Whether the unit may get more than one device."""
        if self._is_many(place.unit):
            return False
        claims = [self._instance.claims[claim] for claim in place.unit.claims]
        requests = [request for claim in claims for request in claim.requests]
        return len(requests) > 1 or any(
            alternative.every_device or alternative.maximum > 1
            for request in requests
            for alternative in request.alternatives
        )

    def _names(self) -> t.Any:
        return sum((use.device + 1) * use.chosen for use in self.nodes.uses) + sum(
            self._objective.node_rank[place.node] * place.here for place in self.nodes.places
        )

    def constants(self) -> list[int]:
        """Constant parts of the terms: the levels if no unit gets anything."""
        values = [0] * len(self.terms)
        untouched = self._objective.left_whole(self._usage)
        values[-3] = untouched + sum(
            self._objective.largest(key, self._usage)
            for key, counters in self._objective.counters_of.items()
            if not self.nodes.drawn.keys().isdisjoint(counters)
        )
        return values

    def hint(self, claims: t.Sequence[ClaimAllocation | None]) -> None:
        """Give the solver an answer as a hint."""
        chosen = {
            (claim, one.request, one.alternative, one.device)
            for claim, allocation in enumerate(claims)
            for one in (allocation.chosen if allocation else ())
        }
        for place in self.nodes.places:
            allocation = claims[place.unit.claims[0]]
            self.model.add_hint(
                place.here, allocation is not None and allocation.node == place.node
            )
        for use in self.nodes.uses:
            position, request, number = use.member
            place = self.nodes.place_of(use.member)
            claim = place.unit.claims[position - place.first]
            allocation = claims[claim]
            here = allocation is not None and allocation.node == place.node
            self.model.add_hint(use.chosen, here and (claim, request, number, use.device) in chosen)

    def allocations(self, value: t.Callable[[t.Any], int]) -> dict[int, ClaimAllocation | None]:
        """Allocation of each claim of the units; ``value`` gives the value of an expression."""
        found: dict[int, ClaimAllocation | None] = {}
        given = self.nodes.allocations(value)
        for place in self.nodes.places:
            here = value(place.here)
            for position, claim in enumerate(place.unit.claims):
                if here:
                    found[claim] = given[place.first + position]
                else:
                    found.setdefault(claim, None)
        return found


@dataclass
class Work:
    """Budget of CP-SAT's deterministic time, about seconds, and whether it was enough."""

    left: float
    limits: Limits
    enough: bool = True

    def solve(self, model: t.Any, most: float) -> tuple[t.Any, t.Any]:
        """A solver after its work of at most ``most``, and the status."""
        solver = new_solver(
            self.limits.seed, max(most, 1e-3), self.limits.patience(), presolve=True
        )
        status = solver.solve(model)
        self.left = max(0.0, self.left - solver.response_proto.deterministic_time)
        return solver, status


@dataclass
class Descent:
    """Solves the levels of a model from a known answer, each with the earlier levels fixed.

    ``floors`` are lower bounds of levels; a level at its floor needs no solve. ``bounds`` has the
    proven bound of each level, in the integers of ``terms`` and constants.
    """

    fleet: FleetModel
    work: Work
    floors: t.Sequence[int]
    bounds: list[int] = field(default_factory=list)

    def run(
        self,
        claims: t.Sequence[ClaimAllocation | None],
        values: t.Callable[[t.Sequence[ClaimAllocation | None]], t.Sequence[int]],
    ) -> list[ClaimAllocation | None]:
        """The best answer found; ``values`` are the levels of an answer."""
        best = list(claims)
        self.fleet.hint(best)
        model = self.fleet.model
        constants = self.fleet.constants()
        for index, term in enumerate(self.fleet.terms):
            value = values(best)[index]
            floor = self.floors[index]
            if isinstance(term, int):
                bound = value
            elif value <= floor:
                bound = floor
            else:
                bound, found = self._solve(term, constants[index], value, floor)
                if found is not None:
                    best = [found.get(claim, old) for claim, old in enumerate(best)]
                    value = values(best)[index]
            self.bounds.append(min(bound, value))
            if not isinstance(term, int):
                model.add(term <= value - constants[index])
        return best

    def _solve(
        self, term: t.Any, constant: int, value: int, floor: int
    ) -> tuple[int, dict[int, ClaimAllocation | None] | None]:
        """The bound of one level, and an answer better than ``value`` if there is one."""
        model = self.fleet.model
        model.minimize(term)
        solver, status = self.work.solve(model, _SHARE_OF_A_LEVEL * self.work.left)
        self.work.enough = self.work.enough and status == cp_model.OPTIMAL
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return floor, None
        bound = max(floor, math.ceil(solver.best_objective_bound - 1e-6) + constant)
        if round(solver.objective_value) + constant > value:
            return bound, None
        solution = list(solver.response_proto.solution)
        hint = model.proto.solution_hint
        hint.vars.clear()
        hint.values.clear()
        hint.vars.extend(range(len(solution)))
        hint.values.extend(solution)
        found = self.fleet.allocations(lambda variable: int(solver.value(variable)))
        return bound, found
