# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Needs of pods over several nodes together: devices of a network.

As in node_contents.py a feasibility check decides which pods can be placed together, but over all
nodes at once. Nodes of one class are interchangeable for these pods, so only pod counts per class
matter. Axes: K groups of the feasibility check, C classes, N nodes.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ...base.libraries import numpy
from ...solving.arrays import Booleans, Floats, Integers
from .node_contents import NO_DRAW, Draw, Pods, most_feasible
from .topology_counts import Counts, TopologyCount


class Total(t.NamedTuple):
    """An additive resource over all nodes: the need of a pod of each group, and the supply."""

    needed: t.Mapping[int, int]
    there: int


class FleetFeasibilityCheck(t.Protocol):
    """Pods of some groups on all nodes, other resources aside.

    ``pods`` has a number for each group and class, group by group. ``class_of[n]`` is the class of
    a node. ``least_alone`` is the lower bound on the power draw that each pod of a group adds in a
    class, independent of other pods. ``totals`` are necessary, not sufficient.
    """

    @property
    def groups(self) -> tuple[int, ...]: ...

    @property
    def class_of(self) -> t.Sequence[int]: ...

    @property
    def draws(self) -> bool: ...

    def draw(self, pods: Pods) -> Draw: ...

    def least_alone(self, group: int, of_class: int) -> float: ...

    def totals(self) -> list[Total]: ...

    def reason(self, group: int) -> str: ...


@dataclass
class FleetRule:
    """A feasibility check as a rule.

    ``numbers[k]`` is the topology count of the check's group k by node; ``count[k]`` are all its
    pods.

    ``floor[k, n]`` is the power draw of each pod alone; the power draw of pods together beyond this
    is their *excess*, which is never negative.
    """

    check: FleetFeasibilityCheck
    topology_counts: t.Sequence[TopologyCount]
    numbers: tuple[int, ...]
    count: tuple[int, ...]
    _known: dict[Pods, Draw] = field(default_factory=dict)

    @property
    def groups(self) -> frozenset[int]:
        return frozenset(self.check.groups)

    @cached_property
    def class_of(self) -> Integers:
        return numpy.array(self.check.class_of)

    @cached_property
    def classes(self) -> int:
        return int(self.class_of.max()) + 1

    def draw(self, pods: Pods) -> Draw:
        if not any(pods):
            return NO_DRAW
        if pods not in self._known:
            self._known[pods] = self.check.draw(pods)
        return self._known[pods]

    def pods(self, counts: Counts) -> Pods:
        """The pods of each group by class (K · C)."""
        by_node = self._by_node(counts)
        found = numpy.zeros((len(by_node), self.classes), dtype=numpy.int64)
        for row, there in zip(found, by_node):
            numpy.add.at(row, self.class_of, there)
        return tuple(found.ravel().tolist())

    def _by_node(self, counts: Counts) -> Integers:
        there = [counts[number][self.topology_counts[number].domain_of] for number in self.numbers]
        return numpy.array(there)

    @cached_property
    def floor(self) -> Floats:
        by_class = [
            [self.check.least_alone(group, one) for one in range(self.classes)]
            for group in self.check.groups
        ]
        floor = numpy.array(by_class)[:, self.class_of]
        return numpy.where(floor < math.inf, floor, 0.0)

    def watts(self, counts: Counts) -> float:
        """Power draw of all pods."""
        return self.draw(self.pods(counts)).watts

    def excess(self, counts: Counts) -> float:
        """The power draw beyond the floor."""
        if not self.check.draws:
            return 0.0
        return self.watts(counts) - float((self.floor * self._by_node(counts)).sum())

    def most_of_class(self, group: int) -> list[int]:
        """Number of pods of the group alone that the nodes of each class could take together."""
        position = self.check.groups.index(group)
        return [self._most(position, one) for one in range(self.classes)]

    def _most(self, position: int, of_class: int) -> int:
        def does(number: int) -> bool:
            alone = [0] * (len(self.count) * self.classes)
            alone[position * self.classes + of_class] = number
            return self.draw(tuple(alone)).watts < math.inf

        return most_feasible(does, self.count[position])

    def most(self, group: int) -> Integers:
        return numpy.array(self.most_of_class(group))[self.class_of]

    def room(self, counts: Counts, group: int) -> Integers:
        """1 if there is room for one more or for several."""
        pods = self.pods(counts)
        first = self.check.groups.index(group) * self.classes
        is_open = numpy.zeros(self.classes, dtype=numpy.int64)
        for one in range(self.classes):
            more = list(pods)
            more[first + one] += 1
            is_open[one] = self.draw(tuple(more)).watts < math.inf
        return is_open[self.class_of]

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        return numpy.ones(len(self.class_of), dtype=bool)

    def holds(self, counts: Counts) -> bool | None:
        return self.watts(counts) < math.inf

    def reason(self, group: int, node: int) -> str:
        return self.check.reason(group)
