# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Non-additive needs of pods: runs of cache ways and devices of a node, devices of a network.

A feasibility check decides which pods can be on a node together, or on all nodes at once; a rule
calls it for the placers, and caches its answers. Nodes of one class are interchangeable for pods of
a check of the fleet, so only pod counts per class matter.
Axes: K groups of the feasibility check, C classes, N nodes.
"""

from __future__ import annotations

import functools
import math
import typing as t
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

from ...base.libraries import numpy
from ...solving.arrays import Booleans, Floats, Integers
from .relation_rules import Rule
from .topology_counts import Counts, TopologyCount

Pods = tuple[int, ...]
Asked = t.TypeVar("Asked")
Kind = t.TypeVar("Kind", bound=t.Hashable)


class Draw(t.NamedTuple):
    """Power draw of pods beyond a node's curve, infinite if they cannot be there together.

    ``least_watts`` are at most ``watts``, and monotone in the pods, so infeasibility by them is
    final. ``watts`` may be infinite if unknown.
    """

    watts: float
    least_watts: float


NO_DRAW = Draw(0.0, 0.0)
IMPOSSIBLE = Draw(math.inf, math.inf)


class Sum(t.NamedTuple):
    """An additive resource: the need of one pod of each group, and the supply of each node."""

    needed: t.Mapping[int, int]
    there: t.Sequence[int]


def most_feasible(is_feasible: t.Callable[[int], bool], limit: int) -> int:
    """The largest feasible number up to the limit, by bisection after doubling."""
    low, high = 0, 1
    while high <= limit and is_feasible(high):
        low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_feasible(middle) else (low, middle)
    return low


@dataclass(frozen=True, eq=False)
class NodeCheck(ABC, t.Generic[Asked, Kind]):
    """Pods of some groups on one node, other resources aside. ``pods`` has a number for each.

    ``of_group`` is the demand of one pod of each group. Nodes of one of the ``kinds[n]`` are equal.
    """

    of_group: t.Mapping[int, Asked]
    kinds: t.Sequence[Kind]
    words: t.ClassVar[str]

    @cached_property
    def groups(self) -> tuple[int, ...]:
        return tuple(self.of_group)

    @abstractmethod
    def draw(self, node: int, pods: Pods) -> Draw: ...

    def least_alone(self, node: int, group: int) -> float:
        """Lower bound on the power draw that each pod adds, independent of other pods."""
        return 0.0

    @abstractmethod
    def sums(self) -> list[Sum]:
        """Necessary, not sufficient conditions: the part that linear models can express."""

    def reason(self, group: int) -> str:
        """Why a node has no room for a pod of the group."""
        return self.words


@dataclass(frozen=True, eq=False)
class ContentRule(Rule):
    """A feasibility check as a rule.

    ``numbers[k]`` is the topology count of the check's group k by node; ``count[k]`` are all its
    pods. Power counts on ``priced`` nodes only.

    ``floor[k, n]`` is the power draw of each pod alone, a linear cost. The power draw of pods
    together beyond these are their *excess*, which is never negative.
    """

    check: NodeCheck[t.Any, t.Any]
    numbers: tuple[TopologyCount, ...]
    count: tuple[int, ...]
    priced: Booleans
    _known: dict[tuple[int, Pods], Draw] = field(default_factory=dict)
    # The pods of the last question about the room of each group, and its answer.
    _rooms: dict[int, tuple[Integers, Integers]] = field(default_factory=dict)

    @cached_property
    def _kind_of(self) -> list[int]:
        """A number for the kind of each node."""
        number: dict[t.Hashable, int] = {}
        return [number.setdefault(kind, len(number)) for kind in self.check.kinds]

    @cached_property
    def _first(self) -> list[int]:
        """One node of each kind."""
        found: dict[int, int] = {}
        for node, kind in enumerate(self._kind_of):
            found.setdefault(kind, node)
        return list(found.values())

    def fits(self, node: int, pods: Pods) -> bool:
        return self.draw(node, pods).watts < math.inf

    def draw(self, node: int, pods: Pods) -> Draw:
        """Answer of the feasibility check, computed once for equal nodes."""
        if not any(pods):
            return NO_DRAW
        key = self._kind_of[node], pods
        if key not in self._known:
            self._known[key] = self.check.draw(node, pods)
        return self._known[key]

    def _alone(self, group: int, number: int = 1) -> Pods:
        return tuple(number * (each == group) for each in self.check.groups)

    @cached_property
    def floor(self) -> Floats:
        check = self.check
        of_kind = [[check.least_alone(n, group) for n in self._first] for group in check.groups]
        floor = numpy.array(of_kind)[:, self._kind_of]
        return numpy.where(self.priced & (floor < math.inf), floor, 0.0)

    @cached_property
    def draws(self) -> bool:
        """Whether there are any watts."""
        return bool(self.floor.any()) or any(
            0 < self.draw(node, self._alone(group)).watts < math.inf
            for node in self.priced.nonzero()[0].tolist()
            for group in self.check.groups
        )

    def _watts_at(self, nodes: t.Iterable[int], pods: Integers) -> list[float]:
        """Power draw of these pods (K, n) on each of some nodes."""
        there = map(tuple, pods.T.tolist())
        return [self.draw(node, each).watts for node, each in zip(nodes, there)]

    def watts(self, counts: Counts) -> Floats:
        """Power draw of the pods on each node."""
        pods = self.pods(counts)
        watts = numpy.zeros(self.nodes)
        nodes = numpy.flatnonzero(pods.any(axis=0) & self.priced)
        watts[nodes] = self._watts_at(nodes.tolist(), pods[:, nodes])
        return watts

    def excess(self, counts: Counts) -> float:
        """The power draw of all nodes beyond the floor."""
        if not self.draws:
            return 0.0
        return float(self.watts(counts).sum() - (self.floor * self.pods(counts)).sum())

    def added_excess(self, counts: Counts, group: int, nodes: Integers, number: int) -> Floats:
        """Added excess of a number of further pods of the group on each of these nodes alone."""
        position = self.check.groups.index(group)
        before = self.pods(counts)[:, nodes]
        after = before.copy()
        after[position] += number
        added = numpy.zeros(len(nodes))
        at = self.priced[nodes] & (after[position] >= 0)
        listed = nodes[at].tolist()
        pairs = zip(self._watts_at(listed, after[:, at]), self._watts_at(listed, before[:, at]))
        added[at] = [more - less for more, less in pairs]
        added[at] -= number * self.floor[position, nodes[at]]
        return added

    def most(self, group: int) -> Integers:
        """Number of pods of the group alone that each node could take."""
        of_kind = [self._most_alone(node, group) for node in self._first]
        return numpy.array(of_kind, dtype=numpy.int64)[self._kind_of]

    def _most_alone(self, node: int, group: int) -> int:
        limit = self.count[self.check.groups.index(group)]
        return most_feasible(lambda number: self.fits(node, self._alone(group, number)), limit)

    def pods(self, counts: Counts) -> Integers:
        """The pods of each group by node (K, N)."""
        return numpy.array([each.at_nodes(counts) for each in self.numbers])

    def room(self, counts: Counts, group: int) -> Integers:
        """1 if there is room for one more or for several."""
        pods = self.pods(counts)
        nowhere: Integers = numpy.zeros(self.nodes, dtype=numpy.int64)
        before, last = self._rooms.get(group, (pods - 1, nowhere))
        changed = (pods != before).any(axis=0).nonzero()[0]
        more, room = pods[:, changed], last.copy()
        more[self.check.groups.index(group)] += 1
        room[changed] = [each < math.inf for each in self._watts_at(changed.tolist(), more)]
        self._rooms[group] = pods, room
        return room

    def holds(self, counts: Counts) -> bool | None:
        pods = self.pods(counts)
        occupied = numpy.flatnonzero(pods.any(axis=0)).tolist()
        return all(self.fits(node, tuple(pods[:, node].tolist())) for node in occupied)

    def reason(self, group: int, node: int) -> str:
        return self.check.reason(group)


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
    words: t.ClassVar[str]

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

    def reason(self, group: int) -> str:
        """Why a node has no room for a pod of the group."""
        return self.words


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

    def draw(self, pods: Pods) -> Draw:
        if not any(pods):
            return NO_DRAW
        if pods not in self._known:
            self._known[pods] = self.check.draw(pods)
        return self._known[pods]

    def pods(self, counts: Counts) -> Pods:
        """The pods of each group by class (K · C)."""
        by_node = self._by_node(counts)
        found = numpy.zeros((len(by_node), self.check.classes), dtype=numpy.int64)
        for row, there in zip(found, by_node):
            numpy.add.at(row, self.class_of, there)
        return tuple(found.ravel().tolist())

    def _by_node(self, counts: Counts) -> Integers:
        return numpy.array([each.at_nodes(counts) for each in self.numbers])

    @cached_property
    def floor(self) -> Floats:
        check = self.check
        of_class = [
            [check.least_alone(group, one) for one in range(check.classes)]
            for group in check.groups
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
        return [self._most_alone(group, one) for one in range(self.check.classes)]

    def _most_alone(self, group: int, of_class: int) -> int:
        limit = self.count[self.check.groups.index(group)]
        alone = functools.partial(self.check.alone, group, of_class)
        return most_feasible(lambda number: self.draw(alone(number)).watts < math.inf, limit)

    def most(self, group: int) -> Integers:
        return numpy.array(self.most_of_class(group))[self.class_of]

    def room(self, counts: Counts, group: int) -> Integers:
        """1 if there is room for one more or for several."""
        pods = numpy.array(self.pods(counts))
        more = [pods + self.check.alone(group, one) for one in range(self.check.classes)]
        is_open = [self.draw(tuple(each.tolist())).watts < math.inf for each in more]
        return numpy.array(is_open, dtype=numpy.int64)[self.class_of]

    def holds(self, counts: Counts) -> bool | None:
        return self.watts(counts) < math.inf

    def reason(self, group: int, node: int) -> str:
        return self.check.reason(group)
