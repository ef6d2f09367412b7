# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""How many units of each shape can have their devices together: exact, for few shapes.

Of each kind of components all numbers of units are found that fit into one. Sums of these over all
components are what fits into all. So a proof that one unit is too many takes no search over
devices, and once the sums are known, any smaller number is looked up.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import (
    Claim,
    Instance,
    Unit,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.objective import Objective
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.usage import Usage
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.columns.components import (
    Group,
    Kind,
    groups_of,
    kinds_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.node_solver import (
    solve_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.search import (
    Candidates,
    shape_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits

# Numbers of units that are tried in one component, and sums of these over components.
_MOST_OF_A_CELL = 500
_MOST_SUMS = 2_000_000

# Units of each group.
Numbers = tuple[int, ...]


class TooMany(Exception):
    """There are more numbers of units than can be looked at."""


class Capacity:
    """What the nodes of an instance can hold of its units, and of fewer of them."""

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
        """Whether these units have devices together; None where that is not known.

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
        # What it takes to wake a node does not matter here.
        nodes = (dataclasses.replace(node, wake_milliwatts=0) for node in self._instance.nodes)
        awake = dataclasses.replace(self._instance, nodes=tuple(nodes))
        kinds = kinds_of(awake, Objective(awake), self._groups)
        if kinds is None or any(group.units[0].common for group in self._groups):
            return None
        found: set[Numbers] = {(0,) * len(self._groups)}
        sums = 0
        for kind in kinds:
            largest = _Cell(self._instance, self._groups, kind, limits).largest()
            for _component in kind.components:
                sums += len(found) * len(largest)
                if sums > _MOST_SUMS:
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
    """What one component can hold."""

    def __init__(
        self, instance: Instance, groups: t.Sequence[Group], kind: Kind, limits: Limits
    ) -> None:
        self._claims, self._groups, self._kind, self._limits = instance.claims, groups, kind, limits
        self._usage, self._candidates = Usage(kind.instance), Candidates(kind.instance)

    def largest(self) -> list[Numbers]:
        """The numbers of units that fit, without those that are below others. Raises TooMany."""
        fits: dict[Numbers, bool] = {(0,) * len(self._groups): True}
        waiting = list(fits)
        largest: list[Numbers] = []
        for numbers in waiting:
            is_largest = True
            for group in self._kind.groups:
                more = _one_more(numbers, group)
                if more not in fits:
                    if len(fits) > _MOST_OF_A_CELL:
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
        unit = Unit("", tuple(range(len(claims))))
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
