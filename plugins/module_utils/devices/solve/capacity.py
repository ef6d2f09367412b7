# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Number of units of each shape that can have devices together; exact, for few shapes.

All vectors of unit counts that fit into one component are enumerated for each kind of components.
Sums of these over all components are the vectors that fit into all. So a proof that one unit is too
many takes no search over devices, and any smaller count is looked up in the sums.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...solving.limits import Limits
from ..model.model import Claim, Instance, Unit
from ..model.objective import Objective
from ..model.usage import Usage
from .columns.components import ComponentKind, UnitGroup, groups_of, kinds_of
from .node_solver import solve_node
from .search import Candidates, shape_of

# Limits of the vectors tried in one component, and of their sums over components.
_MAX_OF_A_CELL = 500
_MAX_SUMS = 2_000_000

# Units of each group.
Numbers = tuple[int, ...]


class TooMany(Exception):
    """There are too many vectors of unit counts to enumerate."""


class Capacity:
    """Vectors of an instance's units that its nodes can hold."""

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

        Their claims are those of ``instance``, which has the same devices.
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
            largest = _Cell(self._instance, self._groups, kind, limits).largest()
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


class _Cell:
    """Vectors that one component can hold."""

    def __init__(
        self, instance: Instance, groups: t.Sequence[UnitGroup], kind: ComponentKind, limits: Limits
    ) -> None:
        self._claims, self._groups, self._kind, self._limits = instance.claims, groups, kind, limits
        self._usage, self._candidates = Usage(kind.instance), Candidates(kind.instance)

    def largest(self) -> list[Numbers]:
        """The maximal vectors of unit counts that fit. Raises TooMany."""
        fits: dict[Numbers, bool] = {(0,) * len(self._groups): True}
        waiting = list(fits)
        largest: list[Numbers] = []
        for numbers in waiting:
            is_largest = True
            for group in self._kind.groups:
                more = _one_more(numbers, group)
                if more not in fits:
                    if len(fits) > _MAX_OF_A_CELL:
                        raise TooMany
                    fits[more] = more[group] <= len(self._groups[group].units) and self._fits(more)
                    if fits[more]:
                        waiting.append(more)
                is_largest = is_largest and not fits[more]
            if is_largest:
                largest.append(numbers)
        return largest

    def _fits(self, numbers: Numbers) -> bool:
        claims: list[Claim] = []
        for group, count in enumerate(numbers):
            for claim in self._groups[group].units[0].claims:
                claims += [self._claims[claim]] * count
        unit = Unit(tuple(range(len(claims))))
        [node] = self._kind.instance.nodes
        task = dataclasses.replace(self._kind.instance, claims=tuple(claims), units=(unit,))
        answer = solve_node(task, self._usage, self._candidates, unit, node.name, self._limits)
        if answer == "unknown":
            raise TooMany
        return answer != "infeasible"


def _one_more(numbers: Numbers, group: int) -> Numbers:
    return (*numbers[:group], numbers[group] + 1, *numbers[group + 1 :])


def _within(numbers: t.Sequence[int], most: t.Sequence[int]) -> bool:
    return all(number <= there for number, there in zip(numbers, most))
