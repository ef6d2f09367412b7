# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Minimal conflicts: irreducible sets of requests of a unit that no node can satisfy together.

A deletion filter removes each request without which the rest stays infeasible. Equivalent claims
are one group with a number that is found by bisection, so that 33 claims for 32 devices take 6
solves instead of 33.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...solving.limits import Limits
from ..model.model import Claim, ConflictPart, Instance, Request, Unit
from ..model.objective import Objective
from .columns.components import ComponentKind, UnitGroup, groups_of, kinds_of
from .node_solver import solve_node
from .search import State, shape_of

# Number of devices kept of a request, by position of the claim in the unit, and of the request.
Kept = dict[tuple[int, int], int]

# Limits of the vectors tried in one component, and of their sums over components.
_MAX_OF_A_CELL = 500
_MAX_SUMS = 2_000_000
# Units of each group.
Numbers = tuple[int, ...]


def minimal_conflict(instance: Instance, unit: Unit, limits: Limits) -> tuple[ConflictPart, ...]:
    """Requests that no node can satisfy together; with one device fewer of any, one could.

    Empty if the unit can be satisfied, or if the limit ends the work before a proof that it cannot.
    Existing allocations count, other units do not.
    """
    return _Filter(instance, unit, limits).run()


def conflict_between_units(instance: Instance, limits: Limits) -> tuple[ConflictPart, ...]:
    """Irreducible requests of several units that all nodes together cannot satisfy.

    Empty too if counting the capacity of components does not prove it, as with devices or counters
    of several nodes.
    """
    claims = tuple(claim for unit in instance.units for claim in unit.claims)
    return _FilterBetween(instance, Unit(claims), limits).run()


class _Filter:
    def __init__(self, instance: Instance, unit: Unit, limits: Limits) -> None:
        self.instance, self.unit, self.limits = instance, unit, limits
        self.state = State.of(instance)
        self.nodes = [node.name for node in instance.nodes_of(unit)]
        # Known answers of each node.
        self.capacities: dict[str, list[Capacity]] = {}

    def run(self) -> tuple[ConflictPart, ...]:
        kept: Kept = {
            (position, number): max(one.count for one in request.alternatives)
            for position, claim in enumerate(self.unit.claims)
            for number, request in enumerate(self.instance.claims[claim].requests)
        }
        if not self._impossible(kept):
            return ()
        for group in self._groups():
            kept = self._fewest(kept, [[key for key in kept if key[0] == one] for one in group])
        for group in self._groups():
            requests = self.instance.claims[self.unit.claims[group[0]]].requests
            for number in range(len(requests) if len(requests) > 1 else 0):
                here = [[(one, number)] for one in group if (one, number) in kept]
                kept = self._fewest(kept, here)
        settled: set[t.Hashable] = set()
        for key in list(kept):
            kind = self._kind(kept, key)
            if kind not in settled:
                least = self._smallest(kept, key)
                # If one of several equal parts needs all its devices, so do the others.
                if least == kept:
                    settled.add(kind)
                kept = least
        return self._described(kept)

    def _groups(self) -> list[list[int]]:
        """Positions of equivalent claims."""
        groups: dict[t.Hashable, list[int]] = {}
        for position in range(len(self.unit.claims)):
            groups.setdefault(self._shape(position), []).append(position)
        return list(groups.values())

    def _fewest(self, kept: Kept, removable: list[list[tuple[int, int]]]) -> Kept:
        """The conflict without as many of these equal parts as possible, the last ones first."""

        def without(number: int) -> Kept:
            gone = {key for part in removable[len(removable) - number :] for key in part}
            return {key: count for key, count in kept.items() if key not in gone}

        # Usually none can be left out, so the first step tries one, the next two more.
        low, high, step = 0, len(removable), 1
        while low < high:
            asked = min(low + step, high)
            if self._impossible(without(asked)):
                low, step = asked, 2 * step
            else:
                high, step = asked - 1, max(1, (asked - 1 - low + 1) // 2)
        return without(low)

    def _kind(self, kept: Kept, key: tuple[int, int]) -> t.Hashable:
        """A key that is equal for interchangeable requests."""
        position, number = key
        beside = tuple(item for item in kept.items() if item[0][0] == position)
        return self._shape(position), number, tuple((other[1], count) for other, count in beside)

    def _shape(self, position: int) -> t.Hashable:
        return self.instance.claims[self.unit.claims[position]].shape()

    def _smallest(self, kept: Kept, key: tuple[int, int]) -> Kept:
        """The conflict with the smallest number of devices for one request."""
        low, high = 1, kept[key]
        while low < high:
            middle = (low + high) // 2
            if self._impossible({**kept, key: middle}):
                high = middle
            else:
                low = middle + 1
        return {**kept, key: high}

    def _impossible(self, kept: Kept) -> bool:
        """Whether it is proven that no node satisfies the kept requests."""
        if not kept:
            return False
        instance, unit = self._reduced(kept)
        for node in list(self.nodes):
            if not self._has_no_room(instance, unit, node):
                # The same node probably decides the next question too.
                self.nodes.remove(node)
                self.nodes.insert(0, node)
                return False
        return True

    def _has_no_room(self, instance: Instance, unit: Unit, node: str) -> bool:
        """Whether it is proven that a node does not satisfy a unit."""
        apart = [Unit((claim,)) for claim in unit.claims]
        room = self._room(node, instance, apart) if len(apart) > 1 else None
        if room is None:
            state = self.state._replace(instance=instance)
            return solve_node(state, unit, node, self.limits) == "infeasible"
        return not room

    def _room(self, key: str, instance: Instance, units: t.Sequence[Unit]) -> bool | None:
        """Whether units have room separately, by known answers or by counting on some nodes."""
        for known in self.capacities.get(key, ()):
            holds = known.holds(instance, units)
            if holds is not None:
                return holds
        here = tuple(node for node in instance.nodes if key in ("", node.name))
        task = dataclasses.replace(instance, nodes=here, units=tuple(units))
        self.capacities.setdefault(key, []).append(Capacity(task, self.limits))
        return self.capacities[key][-1].holds(instance, units)

    def _reduced(self, kept: Kept) -> tuple[Instance, Unit]:
        """The instance with only the kept requests of the unit's claims."""
        claims = list(self.instance.claims)
        positions: list[int] = []
        for position, claim in enumerate(self.unit.claims):
            numbers = [number for one, number in kept if one == position]
            if numbers:
                positions.append(position)
                counts = {number: kept[position, number] for number in numbers}
                claims[claim] = _reduced_claim(self.instance.claims[claim], counts)
        left = tuple(self.unit.claims[position] for position in positions)
        unit = dataclasses.replace(self.unit, claims=left)
        return dataclasses.replace(self.instance, claims=tuple(claims)), unit

    def _described(self, kept: Kept) -> tuple[ConflictPart, ...]:
        """Grouped: one entry for equivalent claims with the same number of devices."""
        groups: dict[tuple[t.Hashable, int, int], list[int]] = {}
        for (position, number), count in kept.items():
            claim = self.unit.claims[position]
            key = self.instance.claims[claim].shape(), number, count
            groups.setdefault(key, []).append(claim)
        return tuple(
            ConflictPart(tuple(claims), number, count)
            for (_shape, number, count), claims in groups.items()
        )


class _Unproven(Exception):
    """The lack of devices in a conflict cannot be counted."""


class _FilterBetween(_Filter):
    """Instance in which each unit has separate claims."""

    def run(self) -> tuple[ConflictPart, ...]:
        self._unit_of = {claim: unit for unit in self.instance.units for claim in unit.claims}
        self.nodes = [""]
        try:
            return super().run()
        except _Unproven:
            return ()

    def _shape(self, position: int) -> t.Hashable:
        claim = self.unit.claims[position]
        unit = self._unit_of[claim]
        return shape_of(self.instance, unit), unit.claims.index(claim)

    def _has_no_room(self, instance: Instance, unit: Unit, node: str) -> bool:
        kept = set(unit.claims)
        units = []
        for one in self.instance.units:
            claims = tuple(claim for claim in one.claims if claim in kept)
            if claims:
                units.append(Unit(claims, one.nodes))
        room = self._room(node, instance, units)
        if room is None:
            raise _Unproven
        return not room


def _reduced_claim(claim: Claim, counts: t.Mapping[int, int]) -> Claim:
    order = {number: rank for rank, number in enumerate(sorted(counts))}
    constraints = (
        dataclasses.replace(
            constraint,
            members=frozenset(
                (order[request], alternative)
                for request, alternative in constraint.members
                if request in order
            ),
        )
        for constraint in claim.constraints
    )
    return dataclasses.replace(
        claim,
        requests=tuple(
            _reduced_request(claim.requests[number], counts[number]) for number in order
        ),
        constraints=tuple(constraints),
    )


def _reduced_request(request: Request, count: int) -> Request:
    """The request with at most this number of devices in each alternative."""
    return dataclasses.replace(
        request,
        alternatives=tuple(
            dataclasses.replace(one, count=min(one.count, count)) for one in request.alternatives
        ),
    )


class TooMany(Exception):
    """There are too many vectors of unit counts to enumerate."""


class Capacity:
    """Vectors of an instance's units that its nodes can hold; exact, for few shapes.

    All vectors of unit counts that fit into one component are enumerated for each kind of
    components. Sums of these over all components are the vectors that fit into all. So a proof that
    one unit is too many takes no search over devices, and any smaller count is looked up.
    """

    def __init__(self, instance: Instance, limits: Limits) -> None:
        self._instance = instance
        units = tuple(dataclasses.replace(unit, priority=0) for unit in instance.units)
        self._groups = groups_of(dataclasses.replace(instance, units=units))
        shapes = [shape_of(instance, group.units[0]) for group in self._groups]
        self._position = {shape: number for number, shape in enumerate(shapes)}
        self._asked = tuple(len(group.units) for group in self._groups)
        try:
            self._sums = self._of_everything(limits)
        except TooMany:
            self._sums = None

    def holds(self, instance: Instance, units: t.Iterable[Unit]) -> bool | None:
        """Whether these units have devices together; None if unknown.

        ``instance`` has the claims of these units, and the same devices as the counted one.
        """
        numbers = [0] * len(self._groups)
        for unit in units:
            group = self._position.get(shape_of(instance, unit))
            if group is None:
                return None
            numbers[group] += 1
        if self._sums is None or not _within(numbers, self._asked):
            return None
        return any(_within(numbers, sums) for sums in self._sums)

    def _of_everything(self, limits: Limits) -> set[Numbers] | None:
        # The power draw of an unused node does not matter here.
        nodes = (dataclasses.replace(node, wake_milliwatts=0) for node in self._instance.nodes)
        awake = dataclasses.replace(self._instance, nodes=tuple(nodes))
        kinds = kinds_of(awake, Objective(awake), self._groups)
        if kinds is None:
            return None
        found: set[Numbers] = {(0,) * len(self._groups)}
        sums = 0
        for kind in kinds:
            largest = _largest(self._instance, self._groups, kind, limits)
            for _component in kind.components:
                sums += len(found) * len(largest)
                if sums > _MAX_SUMS:
                    raise TooMany
                found = {
                    tuple(map(min, self._asked, map(int.__add__, one, more)))
                    for one in found
                    for more in largest
                }
                if self._asked in found:
                    return {self._asked}
        return found


def _largest(
    instance: Instance, groups: t.Sequence[UnitGroup], kind: ComponentKind, limits: Limits
) -> list[Numbers]:
    """The maximal vectors of unit counts that one component can hold. Raises TooMany."""
    state = State.of(kind.instance)
    [node] = kind.instance.nodes

    def is_held(numbers: Numbers) -> bool:
        claims: list[Claim] = []
        for group, count in enumerate(numbers):
            for claim in groups[group].units[0].claims:
                claims += [instance.claims[claim]] * count
        unit = Unit(tuple(range(len(claims))))
        task = dataclasses.replace(kind.instance, claims=tuple(claims), units=(unit,))
        answer = solve_node(state._replace(instance=task), unit, node.name, limits)
        if answer == "unknown":
            raise TooMany
        return answer != "infeasible"

    fits: dict[Numbers, bool] = {(0,) * len(groups): True}
    waiting = list(fits)
    largest: list[Numbers] = []
    for numbers in waiting:
        is_largest = True
        for group in kind.groups:
            more = _one_more(numbers, group)
            if more not in fits:
                if len(fits) > _MAX_OF_A_CELL:
                    raise TooMany
                fits[more] = more[group] <= len(groups[group].units) and is_held(more)
                if fits[more]:
                    waiting.append(more)
            is_largest = is_largest and not fits[more]
        if is_largest:
            largest.append(numbers)
    return largest


def _one_more(numbers: Numbers, group: int) -> Numbers:
    return (*numbers[:group], numbers[group] + 1, *numbers[group + 1 :])


def _within(numbers: t.Sequence[int], most: t.Sequence[int]) -> bool:
    return all(number <= there for number, there in zip(numbers, most))
