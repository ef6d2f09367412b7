# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Needs of pods over several nodes together: devices of a network.

As in node_contents.py a feasibility check decides which pods can be placed together, but over all
nodes at once. Nodes of one class are interchangeable for these pods, so only pod counts per class
matter. Axes: K groups of the feasibility check, C classes, N nodes.
"""

from __future__ import annotations

import functools
import math
import typing as t
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

from ...base.libraries import numpy
from ...solving.arrays import Floats, Integers
from .node_contents import NO_DRAW, Asked, Draw, Pods, most_feasible
from .relation_rules import Rule
from .topology_counts import Counts, TopologyCount


class Total(t.NamedTuple):
    """An additive resource over all nodes: the need of a pod of each group, and the supply."""

    needed: t.Mapping[int, int]
    there: int


@dataclass(frozen=True, eq=False)
class FleetCheck(ABC, t.Generic[Asked]):
    """Pods of some groups on all nodes, other resources aside.

    ``of_group`` is the demand of one pod of each group. ``class_of[n]`` is the class of a node.
    ``pods`` has a number for each group and class, group by group.
    """

    of_group: t.Mapping[int, Asked]
    class_of: t.Sequence[int]

    @cached_property
    def groups(self) -> tuple[int, ...]:
        return tuple(self.of_group)

    @cached_property
    def classes(self) -> int:
        return max(self.class_of) + 1

    @property
    def draws(self) -> bool:
        return False

    @abstractmethod
    def draw(self, pods: Pods) -> Draw: ...

    def alone(self, group: int, of_class: int, number: int = 1) -> Pods:
        """Pods of one group on nodes of one class."""
        pods = [0] * (len(self.groups) * self.classes)
        pods[self.groups.index(group) * self.classes + of_class] = number
        return tuple(pods)

    def least_alone(self, group: int, of_class: int) -> float:
        """Lower bound on the power draw that each pod adds, independent of other pods."""
        return 0.0

    @abstractmethod
    def totals(self) -> list[Total]:
        """Necessary, not sufficient conditions."""

    @abstractmethod
    def reason(self, group: int) -> str: ...


@dataclass(frozen=True, eq=False)
class FleetRule(Rule):
    """A feasibility check as a rule.

    ``numbers[k]`` is the topology count of the check's group k by node; ``count[k]`` are all its
    pods.

    ``floor[k, n]`` is the power draw of each pod alone; the power draw of pods together beyond this
    is their *excess*, which is never negative.
    """

    check: FleetCheck[t.Any]
    numbers: tuple[TopologyCount, ...]
    count: tuple[int, ...]
    _known: dict[Pods, Draw] = field(default_factory=dict)

    @cached_property
    def class_of(self) -> Integers:
        return numpy.array(self.check.class_of)

    @property
    def classes(self) -> int:
        return self.check.classes

    def draw(self, pods: Pods) -> Draw:
        if not any(pods):
            return NO_DRAW
        if pods not in self._known:
            self._known[pods] = self.check.draw(pods)
        return self._known[pods]

    def pods(self, counts: Counts) -> Pods:
        """The pods of each group by class (K · C)."""
        return self._summed(self._by_node(counts))

    def pods_of(self, counts: Integers) -> Pods:
        """The same of the pods of all groups by node."""
        return self._summed(counts[list(self.check.groups)])

    def _by_node(self, counts: Counts) -> Integers:
        return numpy.array([each.at_nodes(counts) for each in self.numbers])

    def _summed(self, by_node: Integers) -> Pods:
        found = numpy.zeros((len(by_node), self.classes), dtype=numpy.int64)
        for row, there in zip(found, by_node):
            numpy.add.at(row, self.class_of, there)
        return tuple(found.ravel().tolist())

    @cached_property
    def floor(self) -> Floats:
        check = self.check
        of_class = [
            [check.least_alone(group, one) for one in range(self.classes)] for group in check.groups
        ]
        floor = numpy.array(of_class)[:, self.class_of]
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
        return [self._most_alone(group, one) for one in range(self.classes)]

    def _most_alone(self, group: int, of_class: int) -> int:
        limit = self.count[self.check.groups.index(group)]
        alone = functools.partial(self.check.alone, group, of_class)
        return most_feasible(lambda number: self.draw(alone(number)).watts < math.inf, limit)

    def most(self, group: int) -> Integers:
        return numpy.array(self.most_of_class(group))[self.class_of]

    def room(self, counts: Counts, group: int) -> Integers:
        """1 if there is room for one more or for several."""
        pods = numpy.array(self.pods(counts))
        more = [pods + self.check.alone(group, one) for one in range(self.classes)]
        is_open = [self.draw(tuple(each.tolist())).watts < math.inf for each in more]
        return numpy.array(is_open, dtype=numpy.int64)[self.class_of]

    def holds(self, counts: Counts) -> bool | None:
        return self.watts(counts) < math.inf

    def reason(self, group: int, node: int) -> str:
        return self.check.reason(group)
