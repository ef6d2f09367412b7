# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pricing problem: the best content of a component at given prices.

The model is that of optimal.py for one component. Claims for one device each are aggregated: one
request for as many devices as there are claims stands for all of them. If a device can be shared
there are several such requests, each with at most one portion of each device.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t
from dataclasses import dataclass, field

from ....base.libraries import cp_model
from ...model.model import Alternative, Claim, ClaimAllocation, Instance, Pick, Request, Unit
from ...model.objective import Objective
from ...model.usage import Usage
from ..fleet_model import FleetModel, Work
from ..search import Candidates, State
from .components import ComponentKind, UnitGroup

# Levels that are sums over components: rank, watts, fragmentation and closeness.
SUMS = slice(-5, -1)
# Deterministic time of CP-SAT, about seconds, for one solve of one component.
_WORK_FOR_A_CELL = 0.5
# Devices that requests may use, counted for each request, up to which a component has one model.
_MAX_USES = 4_000
_UNLIMITED = 10**9

# Group of each unit, and its claims' devices by position within the component.
Content = tuple[tuple[int, tuple[ClaimAllocation, ...]], ...]


class TooLarge(Exception):
    """A component is too large for a model."""


@dataclass(frozen=True)
class Pattern:
    """A pattern: the number of units of each group in a component of a kind, and its costs.

    ``costs`` are rank, watts, fragmentation and closeness beyond those of an empty component.
    """

    kind: int
    counts: tuple[tuple[int, int], ...]
    costs: tuple[int, ...]
    content: Content = field(compare=False, repr=False)


class Costs:
    """Evaluates contents of the components of one kind."""

    def __init__(
        self, instance: Instance, groups: t.Sequence[UnitGroup], kind: ComponentKind
    ) -> None:
        self._claims, self._groups, self._kind = instance.claims, groups, kind
        self._empty = Objective(kind.instance).values([])[SUMS]
        self._known: dict[t.Hashable, tuple[int, ...]] = {}

    def pattern(self, number: int, content: Content) -> Pattern:
        """The content as a pattern of the kind with this number."""
        counts: dict[int, int] = {}
        for group, _given in content:
            counts[group] = counts.get(group, 0) + 1
        key = tuple((group, tuple(map(_key, given))) for group, given in content)
        if key not in self._known:
            self._known[key] = self._costs(content)
        return Pattern(number, tuple(sorted(counts.items())), self._known[key], content)

    def _costs(self, content: Content) -> tuple[int, ...]:
        claims: list[Claim] = []
        units: list[Unit] = []
        for group, _given in content:
            unit = self._groups[group].units[0]
            first = len(claims)
            claims += [self._claims[claim] for claim in unit.claims]
            units.append(Unit(tuple(range(first, len(claims)))))
        task = dataclasses.replace(self._kind.instance, claims=tuple(claims), units=tuple(units))
        values = Objective(task).values([one for _group, given in content for one in given])
        return tuple(value - empty for value, empty in zip(values[SUMS], self._empty))


def _key(allocation: ClaimAllocation) -> t.Hashable:
    return tuple(
        (one.request, one.alternative, one.device, tuple(sorted(one.portions.items())))
        for one in allocation.chosen
    )


@dataclass(frozen=True)
class Prices:
    """Value of a unit of each group, and weight of each level of SUMS.

    ``before`` are the weights of fixed levels.
    """

    rewards: t.Sequence[int]
    weights: t.Sequence[int]
    before: t.Sequence[int] = ()


class PricingProblem:
    """The model of one kind of components; each solve has other prices. Raises TooLarge."""

    def __init__(
        self, instance: Instance, groups: t.Sequence[UnitGroup], kind: ComponentKind
    ) -> None:
        self._instance, self._groups, self._kind = instance, groups, kind
        [self._node] = kind.instance.nodes
        self._usage = Usage(kind.instance)
        self._candidates = Candidates(kind.instance)
        self._claims: list[Claim] = []
        self._units: list[Unit] = []
        # Group of each unit, and the alternative for which it aggregates claims.
        self._meaning: dict[int, tuple[int, int | None]] = {}
        # Largest number of units of each group in the component.
        self._maximum: dict[int, int] = {}
        self._uses = 0
        for group in kind.groups:
            self._add_group(group)
        task = dataclasses.replace(
            kind.instance, claims=tuple(self._claims), units=tuple(self._units)
        )
        objective = Objective(task)
        self._fleet = fleet = FleetModel(
            State(task, self._usage, self._candidates),
            objective,
            [(unit, (self._node.name,)) for unit in self._units],
            lambda unit: self._meaning[id(unit)][1] is not None,
        )
        constants = fleet.constants()
        constants[-3] -= objective.left_whole(self._usage)
        self._levels = [term + more for term, more in zip(fleet.terms[SUMS], constants[SUMS])]
        self._counts = self._add_counts()
        self._ceilings = {
            group: fleet.model.new_int_var(0, self._maximum[group], "") for group in self._counts
        }
        for group, count in self._counts.items():
            fleet.model.add(count <= self._ceilings[group])

    def best(self, prices: Prices, units: t.Sequence[int], work: Work) -> tuple[int, Content]:
        """Lower bound on the value of any content, and the content of the least value found.

        An empty component has the value 0. ``units`` limits the units of each group.
        """
        worth = sum(
            weight * level for weight, level in zip(prices.weights, self._levels) if weight
        ) - sum(prices.rewards[group] * count for group, count in self._counts.items())
        if isinstance(worth, int):
            return min(0, worth), ()
        self._fleet.model.minimize(worth)
        for group, ceiling in self._ceilings.items():
            ceiling.proto.domain[1] = min(units[group], self._maximum[group])
        solver, status = work.solve(self._fleet.model, min(_WORK_FOR_A_CELL, work.left))
        bound = solver.best_objective_bound
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return self._least(prices), ()
        content = self._content(lambda variable: int(solver.value(variable)))
        return min(0, math.ceil(bound - 1e-6)), content

    def _least(self, prices: Prices) -> int:
        """Trivial bound: all units, at no cost."""
        rewards = ((prices.rewards[group], self._maximum[group]) for group in self._counts)
        return -sum(max(0, reward) * most for reward, most in rewards)

    def _add_group(self, group: int) -> None:
        units = self._groups[group].units
        claims = [self._instance.claims[claim] for claim in units[0].claims]
        self._maximum[group] = min(len(units), self._most(claims))
        if self._maximum[group] == 0:
            return
        if len(claims) == 1 and self._is_countable(claims[0]):
            for number, alternative in enumerate(claims[0].requests[0].alternatives):
                many = dataclasses.replace(alternative, maximum=self._maximum[group])
                claim = Claim("", "", (Request("", (many,)),))
                for _time in range(self._times(alternative, self._maximum[group])):
                    self._add_unit(group, number, [claim])
            return
        for _copy in range(self._maximum[group]):
            self._add_unit(group, None, claims)

    def _add_unit(self, group: int, way: int | None, claims: t.Sequence[Claim]) -> None:
        first = len(self._claims)
        self._claims += claims
        # The model orders equivalent units only if they have equal priorities.
        unit = Unit(tuple(range(first, len(self._claims))), priority=group)
        self._units.append(unit)
        self._meaning[id(unit)] = group, way
        self._uses += sum(
            len(self._candidates.of(one.matcher, self._node.name))
            for claim in claims
            for one in claim.alternatives
        )
        if self._uses > _MAX_USES:
            raise TooLarge

    def _is_countable(self, claim: Claim) -> bool:
        return (
            claim.is_for_one_device
            and not claim.constraints
            and claim.limit != 0
            and not any(
                one.admin or one.whole or one.totals or one.ceilings or one.access
                for one in claim.alternatives
            )
        )

    def _times(self, alternative: Alternative, most: int) -> int:
        """Largest number of the claims on one device."""
        candidates = self._candidates.of(alternative.matcher, self._node.name)
        times = (self._times_on(device, alternative) for device in candidates)
        return min(most, max(times, default=0))

    def _most(self, claims: t.Sequence[Claim]) -> int:
        """Largest number of units with this request in the component."""
        requests = [request for claim in claims for request in claim.requests]
        return min(sum(map(self._most_of, request.alternatives)) for request in requests)

    def _most_of(self, alternative: Alternative) -> int:
        if alternative.admin:
            return _UNLIMITED
        candidates = self._candidates.of(alternative.matcher, self._node.name)
        total = sum(self._times_on(device, alternative) for device in candidates)
        return total if alternative.every_device else total // max(1, alternative.count)

    def _times_on(self, device: int, alternative: Alternative) -> int:
        """Number of such requests that can share a device."""
        portions = self._usage.portions(device, alternative)
        if portions is None:
            return 0
        if not self._kind.instance.devices[device].shareable:
            return 1
        if alternative.shared and alternative.totals:
            return _UNLIMITED
        fitting = (
            self._usage.left(device, name) // amount
            for name, amount in portions.items()
            if amount and "=" not in name
        )
        return min(fitting, default=_UNLIMITED)

    def _add_counts(self) -> dict[int, t.Any]:
        """Number of units of each group in the component; aggregated ones add their rank."""
        nodes = self._fleet.nodes
        found: dict[int, t.Any] = {}
        for place in nodes.places:
            group, way = self._meaning[id(place.unit)]
            if way is None:
                found[group] = found.get(group, 0) + place.here
        ranks = []
        for use in nodes.uses:
            group, way = self._meaning[id(nodes.place_of(use.member).unit)]
            if way is not None:
                found[group] = found.get(group, 0) + use.chosen
                ranks += [way * use.chosen] if way else []
        self._levels[0] += sum(ranks)
        return found

    def _content(self, value: t.Callable[[t.Any], int]) -> Content:
        found: list[tuple[int, tuple[ClaimAllocation, ...]]] = []
        given = self._fleet.nodes.allocations(value)
        for place in self._fleet.nodes.places:
            if not value(place.here):
                continue
            group, way = self._meaning[id(place.unit)]
            own = given[place.first : place.first + len(place.unit.claims)]
            if way is None:
                found.append((group, own))
                continue
            for chosen in own[0].chosen:
                one = Pick(0, way, chosen.device, chosen.portions)
                found.append((group, (ClaimAllocation(place.node, (one,)),)))
        return tuple(found)
