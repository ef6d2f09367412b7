# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One neutral task of giving devices to claims, whatever API it was written in.

This is the seam between readers and allocators. A reader (k8srm/reader.py, dra/reader.py) builds an
``Instance``; an allocator is a function ``(Instance, Limits) -> Allocation`` that stands in
allocator.STRATEGIES and knows no API, no CEL and no Kubernetes object. Everything is immutable and
in a canonical order:

- Nodes are in the order of their names.
- Devices are in *published order*, that in which upstream's depth-first search tries them: by
  driver and pool name, pools with binding conditions last, then slices by name, then as listed;
  those of the prototype as they are listed.
  A device is named by its position in ``Instance.devices``.
- Claims are in the order of the input. A claim is named by its position in ``Instance.claims``.
- Amounts are integers, thousandths of the unit (values.THOUSANDTHS).

What selectors say is settled before: ``Matcher.devices`` are the devices that an alternative may
use by driver, selectors, taints and state. Equal alternatives share one Matcher *object*, so its
position (``Alternative.matcher``) is the shape by which an allocator groups claims. What changes
while devices are given (who has which device, counters, capacities, constraints) is kept in
usage.Usage and constraints.Constraints, which an allocator may use.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.cel.values import Attribute, rounded_up

Amounts = t.Mapping[str, int]
Outcome = t.Literal["allocated", "infeasible", "unknown"]


@dataclass(frozen=True)
class Node:
    """A node, and what it costs in milliwatts to use it where nothing runs on it yet."""

    name: str
    labels: t.Mapping[str, str] = field(default_factory=dict)
    wake_milliwatts: int = 0


@dataclass(frozen=True)
class Counter:
    """Something that the devices of one pool share, such as the memory of a partitioned GPU."""

    driver: str
    pool: str
    counter_set: str
    name: str
    capacity: int


@dataclass(frozen=True)
class Capacity:
    """An amount of a device, and which portions of it claims may have.

    ``default`` is what a claim gets that names no amount; None stands for the whole. A portion is
    the next of ``values``, or at least ``minimum`` and then a whole number of ``step`` more, at the
    most ``maximum``. Source: CapacityRequestPolicy of resource.k8s.io/v1. A block size of the
    prototype is ``step``.
    """

    amount: int
    default: int | None = None
    values: tuple[int, ...] = ()
    minimum: int = 0
    step: int = 1
    maximum: int | None = None

    def portion(self, requested: int | None) -> int | None:
        """What a request of this amount (None: of no amount) takes; None where it gets nothing."""
        if requested is None:
            return self.amount if self.default is None else self.default
        if self.values:
            return next((value for value in self.values if value >= requested), None)
        portion = self.minimum + rounded_up(max(0, requested - self.minimum), self.step)
        return portion if self.maximum is None or portion <= self.maximum else None


@dataclass(frozen=True)
class Access:
    """How often a resource of a device is in use in each mode, and which modes it allows.

    Modes: ReadOnlyShared, ReadWriteShared, WriteExclusive, ReadWriteExclusive.
    """

    allowed: frozenset[str]
    in_use: Amounts


@dataclass(frozen=True)
class Device:
    """A device, or one of the equal devices that a pool only counts.

    ``nodes`` are the names of the nodes from which it can be used: one for a local device, several
    for one on a network. ``consumes`` names counters by position in ``Instance.counters`` with the
    amount that the device takes as soon as somebody has it. A ``shareable`` device can be in
    several claims, each of which takes portions of its capacities; any other is in one claim only,
    wholly. ``milliwatts`` is what it draws in use, where that is known.
    """

    driver: str
    pool: str
    name: str
    nodes: frozenset[str]
    attributes: t.Mapping[str, Attribute] = field(default_factory=dict)
    capacities: t.Mapping[str, Capacity] = field(default_factory=dict)
    consumes: tuple[tuple[int, int], ...] = ()
    shareable: bool = False
    access: t.Mapping[str, Access] = field(default_factory=dict)
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    binds_to_node: bool = False
    milliwatts: int = 0

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


class Matcher(t.Protocol):
    """Which devices an alternative may use, before anything is given to anybody."""

    @property
    def devices(self) -> tuple[int, ...]:
        """Positions of the devices, ascending."""

    @property
    def errors(self) -> t.Mapping[int, str]:
        """Devices of which nobody can tell whether they are among them, each with the reason."""

    def why_not(self, device: int) -> str:
        """Why the device is not among them, in the prototype's words; "" if it is."""


@dataclass(frozen=True)
class Alternative:
    """One way to satisfy a request: so many devices that a matcher accepts.

    From ``count`` to ``maximum`` devices are taken, as few as do; with ``every_device`` all that
    match on the node, at least one. ``portions`` are amounts of each device that is shareable (see
    Capacity.portion), with ``None`` values never in it. ``totals`` are amounts that the chosen
    devices must have together, at the most ``ceilings``: whole devices unless ``shared``, which
    takes portions of shareable ones. ``access`` is the mode in which a resource of each device is
    used. With ``admin`` devices are looked at, not taken: whoever has them, keeps them.
    ``unsettled`` names nodes with devices of which nobody can tell whether they match.
    """

    matcher: int
    count: int = 1
    maximum: int = 1
    name: str = ""
    every_device: bool = False
    portions: Amounts = field(default_factory=dict)
    totals: Amounts = field(default_factory=dict)
    ceilings: Amounts = field(default_factory=dict)
    shared: bool = False
    whole: bool = False
    access: t.Mapping[str, str] = field(default_factory=dict)
    admin: bool = False
    unsettled: frozenset[str] = frozenset()

    def shape(self) -> t.Hashable:
        """A key that is equal for alternatives that ask for the same, whatever their names."""
        amounts = (self.portions, self.totals, self.ceilings, self.access)
        flags = (self.every_device, self.shared, self.whole, self.admin, self.unsettled)
        return self.matcher, self.count, self.maximum, flags, *map(_items, amounts)


def _items(mapping: t.Mapping[str, t.Any]) -> tuple[tuple[str, t.Any], ...]:
    return tuple(sorted(mapping.items()))


@dataclass(frozen=True)
class Request:
    """What is asked for under one name: the first of the alternatives that can be had."""

    name: str
    alternatives: tuple[Alternative, ...]

    def shape(self) -> t.Hashable:
        """A key that is equal for requests for the same, whatever their names."""
        return tuple(alternative.shape() for alternative in self.alternatives)


@dataclass(frozen=True)
class Constraint:
    """What the devices of some alternatives must have in common, or must not.

    ``match``: one value of ``attribute`` that all of them have. ``distinct``: no value in two of
    them. A device without the attribute satisfies neither. ``members`` are pairs of positions
    (request, alternative) within the claim.
    """

    kind: t.Literal["match", "distinct"]
    attribute: str
    members: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Claim:
    """Requests that are satisfied together or not at all. At most ``limit`` devices in all."""

    namespace: str
    name: str
    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...] = ()
    uid: str = ""
    limit: int | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def shape(self) -> t.Hashable:
        """A key that is equal for claims that ask for the same."""
        return self.limit, self.constraints, tuple(request.shape() for request in self.requests)


@dataclass(frozen=True)
class Unit:
    """Claims that need one node: those of a pod, of pods that share a claim, or one alone.

    ``nodes`` restricts the nodes by name (None: any). ``common`` are constraints across the claims:
    kind, attribute, and members as triples (position in ``claims``, request, alternative).
    """

    name: str
    claims: tuple[int, ...]
    nodes: frozenset[str] | None = None
    priority: int = 0
    common: tuple[tuple[str, str, frozenset[tuple[int, int, int]]], ...] = ()


@dataclass(frozen=True)
class Held:
    """A device, or a portion of one, that somebody has already.

    ``whole`` is for a shareable device of which nobody else can have a portion.
    """

    device: int
    portions: Amounts = field(default_factory=dict)
    admin: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Instance:
    """The whole task; see the description of this file.

    Each claim is in one unit, or in none and then gets nothing.

    ``unsettled`` names nodes where nobody can tell yet what "every device" is, with the reason:
    a pool is being published.
    """

    nodes: tuple[Node, ...]
    devices: tuple[Device, ...]
    counters: tuple[Counter, ...]
    matchers: tuple[Matcher, ...]
    claims: tuple[Claim, ...]
    units: tuple[Unit, ...]
    held: tuple[Held, ...] = ()
    unsettled: t.Mapping[str, str] = field(default_factory=dict)

    def nodes_of(self, unit: Unit) -> tuple[Node, ...]:
        """The nodes on which the unit may be, in the order of their names."""
        if unit.nodes is None:
            return self.nodes
        return tuple(node for node in self.nodes if node.name in unit.nodes)


@dataclass(frozen=True)
class Chosen:
    """One device for one request: positions of both and of the alternative."""

    request: int
    alternative: int
    device: int
    portions: Amounts = field(default_factory=dict)


@dataclass(frozen=True)
class ClaimAllocation:
    """What one claim gets, in the order of its requests, and the node for which it is chosen."""

    node: str
    chosen: tuple[Chosen, ...]


@dataclass(frozen=True)
class Level:
    """One level of the objective: its value and how good it could be at the best."""

    level: str
    value: float
    bound: float


@dataclass(frozen=True)
class Conflicting:
    """Part of a minimal conflict: so many devices for a request of each of these claims."""

    claims: tuple[int, ...]
    request: int
    count: int


@dataclass(frozen=True)
class Allocation:
    """An allocator's answer. ``claims`` has an entry for each claim, None where it gets nothing.

    ``errors`` says of claims that get nothing which selector failed on a device that they may have.

    ``allocated`` means that every claim is satisfied, ``infeasible`` that it is proven that not all
    can be, ``unknown`` that a limit ended the search before either was known.
    """

    outcome: Outcome
    claims: tuple[ClaimAllocation | None, ...]
    objective: tuple[Level, ...] = ()
    conflict: tuple[Conflicting, ...] = ()
    stopped_by: str = "completed"
    errors: t.Mapping[int, str] = field(default_factory=dict)
