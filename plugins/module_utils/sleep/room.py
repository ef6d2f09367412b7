# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Free room of machines, and shapes packed into it; packed room is gone.

Axes: N nodes, R resources, which are those of the problem and those of the reserve.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.libraries import numpy

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats, Integers
    from .state import FleetState

_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Shape:
    """``count`` pods that each request ``requests[r]``; ``allowed`` are nodes open to them.

    ``group`` is the group of waiting pods.
    """

    requests: Floats
    count: int
    allowed: Booleans | None = None
    group: int | None = None

    @property
    def total(self) -> Floats:
        """Requests of all of them."""
        return self.requests * self.count


class Room:
    """Free amounts ``free[n, r]`` of some of the nodes."""

    def __init__(self, free: Floats, nodes: Booleans) -> None:
        self.free = numpy.where(nodes[:, None], free, -1.0)
        self._scale = numpy.maximum(free.max(axis=0, initial=0.0), 1.0)

    def copy(self) -> Room:
        """The same room, packed apart."""
        other = Room.__new__(Room)
        other.free, other._scale = self.free.copy(), self._scale
        return other

    def only(self, nodes: t.Sequence[int]) -> Room:
        """The room of these nodes alone, packed apart."""
        other = self.copy()
        others = numpy.full(len(self.free), True)
        others[nodes] = False
        other.free[others] = -1.0
        return other

    def capacity(self, shape: Shape) -> Integers:
        """Number of pods of the shape that each node could take alone."""
        asked = shape.requests > 0
        if not asked.any():
            most: Integers = numpy.where((self.free >= 0).all(axis=1), shape.count, 0)
        else:
            ratio = (self.free[:, asked] + _TOLERANCE) / shape.requests[asked]
            most = numpy.floor(ratio.min(axis=1)).clip(0, shape.count).astype(numpy.int64)
        if shape.allowed is not None:
            most = numpy.where(shape.allowed, most, 0)
        return most

    def pack(self, shape: Shape) -> Shape:
        """Put as many pods of the shape as fit, and give the rest.

        The node with the least room is filled first, so that large room stays whole.
        """
        capacity = self.capacity(shape)
        order = numpy.argsort((self.free / self._scale).sum(axis=1), kind="stable")
        taken = numpy.zeros_like(capacity)
        upto = numpy.minimum(numpy.cumsum(capacity[order]), shape.count)
        taken[order] = numpy.diff(upto, prepend=0)
        self.free -= taken[:, None] * shape.requests
        left = shape.count - (int(upto[-1]) if len(upto) else 0)
        return replace(shape, count=left)

    def pack_all(self, shapes: t.Iterable[Shape]) -> list[Shape]:
        """The shapes without room, after all were packed in this order."""
        return [left for left in map(self.pack, shapes) if left.count]


@dataclass(frozen=True)
class Amounts:
    """Amounts by node: ``capacity`` without the pods of the assignment, ``free`` beside them."""

    names: tuple[str, ...]
    capacity: Floats
    free: Floats

    def vector(self, amounts: t.Mapping[str, float]) -> Floats:
        """Amounts by name as a row."""
        return numpy.array([amounts.get(name, 0.0) for name in self.names])

    def of_group(self, state: FleetState, group: int) -> Floats:
        """Requests of one pod of a group as a row; resources of the problem come first."""
        row = numpy.zeros(len(self.names))
        request = state.assignment.problem.request[group]
        row[: len(request)] = request
        return row


def amounts_of(state: FleetState, names: t.Iterable[str]) -> Amounts:
    """The amounts of the problem's resources, and of further ones by name."""
    problem = state.assignment.problem
    further = [name for name in sorted(set(names)) if name not in problem.resources]
    nodes = problem.instance.nodes
    beside = numpy.array(
        [[float(node.free.get(name, 0)) for name in further] for node in nodes]
    ).reshape(len(nodes), len(further))
    capacity = numpy.hstack([problem.free.astype(float), beside])
    free = numpy.hstack([state.assignment.free.astype(float), beside])
    return Amounts((*problem.resources, *further), capacity, free)
