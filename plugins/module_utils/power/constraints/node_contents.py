# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Non-additive needs of pods on one node: runs of cache ways, devices.

A feasibility check decides which pods can be on a node together; a rule calls it for the placers,
and caches its answers. Axes: K groups of the feasibility check, N nodes.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ...base.libraries import numpy
from ...scheduling.feasibility import CLAIM_ELSEWHERE
from ...scheduling.model import UNLIMITED
from ...solving.arrays import Booleans, Floats, Integers
from .topology_counts import Counts, TopologyCount

Pods = tuple[int, ...]


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


class NodeFeasibilityCheck(t.Protocol):
    """Pods of some groups on one node, other resources aside. ``pods`` has a number for each.

    ``least_alone`` is the lower bound on the power draw that each pod of a group adds, independent
    of other pods. ``sums`` are necessary, not sufficient: they are the part that linear models can
    express. Nodes of one ``kind`` are equal.
    """

    @property
    def groups(self) -> tuple[int, ...]: ...

    def kind(self, node: int) -> t.Hashable: ...

    def draw(self, node: int, pods: Pods) -> Draw: ...

    def least_alone(self, node: int, group: int) -> float: ...

    def sums(self) -> list[Sum]: ...

    def reason(self, group: int) -> str: ...


@dataclass
class _Room:
    """Nodes that take one more pod of a group, valid for this number of changes of each node."""

    is_open: Booleans
    as_of: Integers


@dataclass
class ContentRule:
    """A feasibility check as a rule.

    ``numbers[k]`` is the topology count of the check's group k by node; ``count[k]`` are all its
    pods. Power counts on ``priced`` nodes only.

    ``floor[k, n]`` is the power draw of each pod alone, a linear cost. The power draw of pods
    together beyond these are their *excess*, which is never negative.
    """

    check: NodeFeasibilityCheck
    topology_counts: t.Sequence[TopologyCount]
    numbers: tuple[int, ...]
    count: tuple[int, ...]
    priced: Booleans
    _known: dict[tuple[t.Hashable, Pods], Draw] = field(default_factory=dict)
    _rooms: dict[int, _Room] = field(default_factory=dict)
    _last: Integers | None = None
    _changes: Integers | None = None

    @property
    def groups(self) -> frozenset[int]:
        return frozenset(self.check.groups)

    @property
    def nodes(self) -> int:
        return len(self.topology_counts[self.numbers[0]].domain_of)

    def fits(self, node: int, pods: Pods) -> bool:
        return self.draw(node, pods).watts < math.inf

    def draw(self, node: int, pods: Pods) -> Draw:
        """Answer of the feasibility check, computed once for equal nodes."""
        if not any(pods):
            return NO_DRAW
        key = self.check.kind(node), pods
        if key not in self._known:
            self._known[key] = self.check.draw(node, pods)
        return self._known[key]

    @cached_property
    def floor(self) -> Floats:
        groups = self.check.groups
        known: dict[tuple[t.Hashable, int], float] = {}
        floor = numpy.zeros((len(groups), self.nodes))
        for node in self.priced.nonzero()[0].tolist():
            for position, group in enumerate(groups):
                key = self.check.kind(node), group
                if key not in known:
                    least = self.check.least_alone(node, group)
                    known[key] = least if least < math.inf else 0.0
                floor[position, node] = known[key]
        return floor

    @cached_property
    def draws(self) -> bool:
        """Whether there are any watts."""
        alone = [
            tuple(int(k == one) for k in range(len(self.count))) for one in range(len(self.count))
        ]
        return bool(self.floor.any()) or any(
            0 < self.draw(node, pods).watts < math.inf
            for node in self.priced.nonzero()[0].tolist()
            for pods in alone
        )

    def watts(self, counts: Counts) -> Floats:
        """Power draw of the pods on each node."""
        pods = self.pods(counts)
        watts = numpy.zeros(self.nodes)
        for node in numpy.flatnonzero(pods.any(axis=0) & self.priced).tolist():
            watts[node] = self.draw(node, tuple(pods[:, node].tolist())).watts
        return watts

    def excess(self, counts: Counts) -> float:
        """The power draw of all nodes beyond the floor."""
        if not self.draws:
            return 0.0
        return float(self.watts(counts).sum() - (self.floor * self.pods(counts)).sum())

    def added_excess(self, counts: Counts, group: int, nodes: Integers, number: int) -> Floats:
        """Added excess of a number of further pods of the group on each of these nodes alone."""
        position = self.check.groups.index(group)
        there = self.pods(counts)[:, nodes]
        added = numpy.zeros(len(nodes))
        for index, node in enumerate(nodes.tolist()):
            more = there[:, index].copy()
            more[position] += number
            if not self.priced[node] or more[position] < 0:
                continue
            before = self.draw(node, tuple(there[:, index].tolist())).watts
            after = self.draw(node, tuple(more.tolist())).watts
            added[index] = after - before - number * self.floor[position, node]
        return added

    def most(self, group: int) -> Integers:
        """Number of pods of the group alone that each node could take."""
        position = self.check.groups.index(group)
        by_kind: dict[t.Hashable, int] = {}
        found = []
        for node in range(self.nodes):
            kind = self.check.kind(node)
            if kind not in by_kind:
                by_kind[kind] = self._most_alone(node, position)
            found.append(by_kind[kind])
        return numpy.array(found, dtype=numpy.int64)

    def _most_alone(self, node: int, position: int) -> int:
        def does(number: int) -> bool:
            alone = [0] * len(self.count)
            alone[position] = number
            return self.fits(node, tuple(alone))

        return most_feasible(does, self.count[position])

    def pods(self, counts: Counts) -> Integers:
        """The pods of each group by node (K, N)."""
        return numpy.array(
            [counts[each][self.topology_counts[each].domain_of] for each in self.numbers]
        )

    def room(self, counts: Counts, group: int) -> Integers:
        """1 if there is room for one more or for several."""
        pods, changes = self._note(counts)
        if group not in self._rooms:
            self._rooms[group] = _Room(
                numpy.zeros(self.nodes, dtype=bool), numpy.full(self.nodes, -1)
            )
        room, position = self._rooms[group], self.check.groups.index(group)
        for node in (room.as_of != changes).nonzero()[0].tolist():
            more = pods[:, node].copy()
            more[position] += 1
            room.is_open[node] = self.fits(node, tuple(more.tolist()))
        room.as_of = changes.copy()
        return room.is_open.astype(numpy.int64)

    def _note(self, counts: Counts) -> tuple[Integers, Integers]:
        """The pods, and the number of changes of each node so far."""
        pods = self.pods(counts)
        if self._last is None or self._changes is None:
            self._changes = numpy.zeros(self.nodes, dtype=numpy.int64)
        else:
            self._changes = self._changes + (pods != self._last).any(axis=0)
        self._last = pods
        return pods, self._changes

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        return numpy.ones(self.nodes, dtype=bool)

    def holds(self, counts: Counts) -> bool | None:
        pods = self.pods(counts)
        occupied = numpy.flatnonzero(pods.any(axis=0)).tolist()
        return all(self.fits(node, tuple(pods[:, node].tolist())) for node in occupied)

    def reason(self, group: int, node: int) -> str:
        return self.check.reason(group)


@dataclass
class OneNodeRule:
    """Pods of ``groups`` are all on one node; ``topology count`` counts them by node."""

    topology_counts: t.Sequence[TopologyCount]
    groups: frozenset[int]
    topology_count: int
    words: str = CLAIM_ELSEWHERE

    def _there(self, counts: Counts) -> Integers:
        return counts[self.topology_count][self.topology_counts[self.topology_count].domain_of]

    def most(self, group: int) -> Integers:
        nodes = len(self.topology_counts[self.topology_count].domain_of)
        return numpy.full(nodes, UNLIMITED)

    def room(self, counts: Counts, group: int) -> Integers:
        there = self._there(counts)
        if not there.any():
            return self.most(group)
        return numpy.where(there > 0, UNLIMITED, 0)

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        return self._there(counts) >= 0

    def holds(self, counts: Counts) -> bool | None:
        return bool((self._there(counts) > 0).sum() <= 1)

    def reason(self, group: int, node: int) -> str:
        return self.words
