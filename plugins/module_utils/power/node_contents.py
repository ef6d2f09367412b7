# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What pods need of one node that does not add up: runs of cache ways, devices.

An oracle says which pods can be on a node together; a rule asks it for the placers, and remembers.
Axes: K groups that the oracle knows, N nodes.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.power.tallies import Counts, Tally

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.int64]
    Booleans = NDArray[numpy.bool_]

Pods = tuple[int, ...]


class NodeOracle(t.Protocol):
    """Pods of some groups on one node, other resources aside. ``pods`` has a number for each.

    ``watts`` are what they draw beside the node's curve, infinite where they cannot be there
    together. ``least_watts`` are never more than that, infinite where it is, and never fall as
    there are more pods: so what is impossible stays so. Nodes of one ``kind`` are alike.
    """

    @property
    def groups(self) -> tuple[int, ...]: ...

    def kind(self, node: int) -> t.Hashable: ...

    def watts(self, node: int, pods: Pods) -> float: ...

    def least_watts(self, node: int, pods: Pods) -> float: ...

    def reason(self, group: int) -> str: ...


@dataclass
class _Room:
    """Which nodes take one more pod of a group, as of so many changes of each node."""

    is_open: Booleans
    as_of: Integers


@dataclass
class ContentRule:
    """An oracle as a rule. ``numbers[k]`` is the tally that counts group k of the oracle by node;
    ``count[k]`` are all its pods."""

    oracle: NodeOracle
    tallies: t.Sequence[Tally]
    numbers: tuple[int, ...]
    count: tuple[int, ...]
    _known: dict[tuple[t.Hashable, Pods], float] = field(default_factory=dict)
    _rooms: dict[int, _Room] = field(default_factory=dict)
    _last: Integers | None = None
    _changes: Integers | None = None

    @property
    def groups(self) -> frozenset[int]:
        return frozenset(self.oracle.groups)

    @property
    def nodes(self) -> int:
        return len(self.tallies[self.numbers[0]].domain_of)

    def fits(self, node: int, pods: Pods) -> bool:
        return self.least_watts(node, pods) < math.inf

    def least_watts(self, node: int, pods: Pods) -> float:
        """What the oracle says, asked once for nodes that are alike."""
        key = self.oracle.kind(node), pods
        if key not in self._known:
            self._known[key] = self.oracle.least_watts(node, pods) if any(pods) else 0.0
        return self._known[key]

    def most(self, group: int) -> Integers:
        """How many pods of the group alone each node could take."""
        numpy = require("numpy")
        position = self.oracle.groups.index(group)
        by_kind: dict[t.Hashable, int] = {}
        found = []
        for node in range(self.nodes):
            kind = self.oracle.kind(node)
            if kind not in by_kind:
                by_kind[kind] = self._most_alone(node, position)
            found.append(by_kind[kind])
        return t.cast("Integers", numpy.array(found, dtype=numpy.int64))

    def _most_alone(self, node: int, position: int) -> int:
        """By bisection, after doubling a number that does."""

        def does(number: int) -> bool:
            alone = [0] * len(self.count)
            alone[position] = number
            return self.fits(node, tuple(alone))

        low, high = 0, 1
        while high <= self.count[position] and does(high):
            low, high = high, 2 * high
        high = min(high, self.count[position] + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if does(middle) else (low, middle)
        return low

    def pods(self, counts: Counts) -> Integers:
        """The pods of each group by node (K, N)."""
        numpy = require("numpy")
        return t.cast(
            "Integers",
            numpy.array([counts[each][self.tallies[each].domain_of] for each in self.numbers]),
        )

    def room(self, counts: Counts, group: int) -> Integers:
        """1 where there is room for one more or for several."""
        numpy = require("numpy")
        pods = self._note(counts)
        changes = t.cast("Integers", self._changes)
        if group not in self._rooms:
            self._rooms[group] = _Room(
                numpy.zeros(self.nodes, dtype=bool), numpy.full(self.nodes, -1)
            )
        room, position = self._rooms[group], self.oracle.groups.index(group)
        for node in (room.as_of != changes).nonzero()[0].tolist():
            more = pods[:, node].copy()
            more[position] += 1
            room.is_open[node] = self.fits(node, tuple(more.tolist()))
        room.as_of = changes.copy()
        return t.cast("Integers", room.is_open.astype(numpy.int64))

    def _note(self, counts: Counts) -> Integers:
        """The pods, after counting the changes of each node since the last time."""
        numpy, pods = require("numpy"), self.pods(counts)
        if self._last is None or self._changes is None:
            self._changes = numpy.zeros(self.nodes, dtype=numpy.int64)
        else:
            self._changes = self._changes + (pods != self._last).any(axis=0)
        self._last = pods
        return pods

    def may_leave(self, counts: Counts, group: int) -> Booleans:
        return t.cast("Booleans", require("numpy").ones(self.nodes, dtype=bool))

    def holds(self, counts: Counts) -> bool | None:
        pods = self.pods(counts)
        occupied = require("numpy").flatnonzero(pods.any(axis=0)).tolist()
        return all(self.fits(node, tuple(pods[:, node].tolist())) for node in occupied)

    def reason(self, group: int, node: int) -> str:
        return self.oracle.reason(group)
