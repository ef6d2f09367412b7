# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A task of device allocation, independent of both APIs.

This is the interface between readers and allocators. A reader (k8srm/reader.py, dra/reader.py)
builds an ``Instance``. An allocator is a function ``(Instance, Limits) -> Allocation``, registered
in allocation.STRATEGIES, and knows no API, no CEL and no Kubernetes object. Everything is immutable
and in a canonical order:

- Nodes are in the order of their names.
- Devices are in *published order*, the order of upstream's depth-first search: by driver and pool
  name, pools with binding conditions last, then slices by name, then as listed; devices of the
  prototype as listed. A device is named by its position in ``Instance.devices``.
- Claims are in the order of the input. A claim is named by its position in ``Instance.claims``.
- Amounts are integers, thousandths of the unit (values.THOUSANDTHS).

Selectors are evaluated before: ``Matcher.devices`` are the devices that an alternative may use by
driver, selectors, taints and state. Equal alternatives share one Matcher *object*, so its position
(``Alternative.matcher``) is the shape by which an allocator groups claims. State that changes
during allocation (holders of devices, counters, capacities, constraints) is in usage.Usage and
usage.Constraints, which an allocator may use.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...cel.values import Attribute, rounded_up

Amounts = t.Mapping[str, int]
Outcome = t.Literal["allocated", "infeasible", "unknown"]


@dataclass(frozen=True)
class Node:
    """A node, and the milliwatts that it costs to use it if nothing runs on it yet."""

    name: str
    labels: t.Mapping[str, str] = field(default_factory=dict)
    wake_milliwatts: int = 0


@dataclass(frozen=True)
class Counter:
    """A resource that the devices of one pool share, such as the memory of a partitioned GPU."""

    driver: str
    pool: str
    counter_set: str
    name: str
    capacity: int


@dataclass(frozen=True)
class Capacity:
    """An amount of a device, and the portions of it that claims may have.

    ``default`` is the portion of a claim that names no amount; None stands for the whole. A portion
    is the next of ``values``, or at least ``minimum`` plus a whole number of ``step``, at most
    ``maximum``. Source: CapacityRequestPolicy of resource.k8s.io/v1. A block size of the prototype
    is ``step``.
    """

    amount: int
    default: int | None = None
    values: tuple[int, ...] = ()
    minimum: int = 0
    step: int = 1
    maximum: int | None = None

    def portion(self, requested: int | None) -> int | None:
        """The portion for a request of this amount (None: no amount); None if it gets nothing."""
        if requested is None:
            return self.amount if self.default is None else self.default
        if self.values:
            return next((value for value in self.values if value >= requested), None)
        portion = self.minimum + rounded_up(max(0, requested - self.minimum), self.step)
        return portion if self.maximum is None or portion <= self.maximum else None


@dataclass(frozen=True)
class Access:
    """Modes that a resource of a device allows, and how often each is in use.

    Modes: ReadOnlyShared, ReadWriteShared, WriteExclusive, ReadWriteExclusive.
    """

    allowed: frozenset[str]
    in_use: Amounts


@dataclass(frozen=True)
class Device:
    """A device, or one of the equal devices that a pool only counts.

    ``nodes`` are the names of the nodes from which it can be used: one for a local device, several
    for one on a network. ``consumes`` names counters by position in ``Instance.counters`` with the
    amount that the device takes while it is allocated. A ``shareable`` device can be in several
    claims, each of which takes portions of its capacities; any other is in one claim only,
    completely. ``milliwatts`` is its power in use, if known.
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


# Reasons why a device does not match a request, in the prototype's words, for both APIs.
WRONG_DRIVER = "claim and pool driver do not match"
NOT_MET = "constraints not met"


class Matcher(t.Protocol):
    """Devices that an alternative may use, before any allocation."""

    @property
    def devices(self) -> tuple[int, ...]:
        """Positions of the devices, ascending."""

    @property
    def errors(self) -> t.Mapping[int, str]:
        """Devices that are undecided, each with the reason."""

    def why_not(self, device: int) -> str:
        """Why the device does not match, in the prototype's words; "" if it does."""


@dataclass(frozen=True)
class Alternative:
    """One way to satisfy a request by devices that a matcher accepts.

    From ``count`` to ``maximum`` devices are taken, as few as suffice; with ``every_device`` all
    that match on the node, at least one. ``portions`` are amounts of each device that is shareable
    (see Capacity.portion), with ``None`` values never in it. ``totals`` are amounts that the chosen
    devices must have together, at most ``ceilings``; whole devices count, or with ``shared``
    portions of shareable devices. ``access`` is the mode in which a resource of each device is
    used. With ``admin`` access is administrative, and the devices stay with their holders.
    ``unsettled`` names nodes with devices whose match is undecided.
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
        """A key that is equal for equivalent alternatives, independent of their names."""
        amounts = (self.portions, self.totals, self.ceilings, self.access)
        flags = (self.every_device, self.shared, self.whole, self.admin, self.unsettled)
        return self.matcher, self.count, self.maximum, flags, *map(_items, amounts)


def _items(mapping: t.Mapping[str, t.Any]) -> tuple[tuple[str, t.Any], ...]:
    return tuple(sorted(mapping.items()))


@dataclass(frozen=True)
class Request:
    """A named request, for the first available of its alternatives."""

    name: str
    alternatives: tuple[Alternative, ...]

    def shape(self) -> t.Hashable:
        """A key that is equal for equivalent requests, independent of their names."""
        return tuple(alternative.shape() for alternative in self.alternatives)


@dataclass(frozen=True)
class Constraint:
    """A constraint that devices of some alternatives have a common value, or have none.

    ``match``: one value of ``attribute`` that all of them have. ``distinct``: no value in two of
    them. A device without the attribute satisfies neither. ``members`` are pairs of positions
    (request, alternative) within the claim.
    """

    kind: t.Literal["match", "distinct"]
    attribute: str
    members: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Claim:
    """Requests that are satisfied together or not at all, with at most ``limit`` devices in all."""

    namespace: str
    name: str
    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...] = ()
    uid: str = ""
    limit: int | None = None

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The alternatives of all requests."""
        return tuple(one for request in self.requests for one in request.alternatives)

    @property
    def is_for_one_device(self) -> bool:
        """Whether the claim gets exactly one device by each alternative."""
        return len(self.requests) == 1 and all(
            one.count == one.maximum == 1 and not one.every_device for one in self.alternatives
        )

    def alternative(self, pick: Pick) -> Alternative:
        """The alternative for which a device is chosen."""
        return self.requests[pick.request].alternatives[pick.alternative]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def shape(self) -> t.Hashable:
        """A key that is equal for equivalent claims."""
        return self.limit, self.constraints, tuple(request.shape() for request in self.requests)


@dataclass(frozen=True)
class Unit:
    """Claims that need one node: those of a pod, of pods that share a claim, or a single claim.

    ``nodes`` restricts the nodes by name (None: any).
    """

    claims: tuple[int, ...]
    nodes: frozenset[str] | None = None
    priority: int = 0


@dataclass(frozen=True)
class HeldDevice:
    """A device, or a portion of one, that is allocated already.

    ``whole`` marks a shareable device without portions for others.
    """

    device: int
    portions: Amounts = field(default_factory=dict)
    admin: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Instance:
    """The whole task; see the description of this file.

    Each claim is in one unit, or in none and then gets nothing.

    ``unsettled`` names nodes on which "every device" is not defined yet, with the reason: a pool is
    being published.
    """

    nodes: tuple[Node, ...]
    devices: tuple[Device, ...]
    counters: tuple[Counter, ...]
    matchers: tuple[Matcher, ...]
    claims: tuple[Claim, ...]
    units: tuple[Unit, ...]
    held: tuple[HeldDevice, ...] = ()
    unsettled: t.Mapping[str, str] = field(default_factory=dict)

    def alternatives_of(self, unit: Unit) -> list[Alternative]:
        """The alternatives of all claims of a unit."""
        return [one for claim in unit.claims for one in self.claims[claim].alternatives]

    def nodes_of(self, unit: Unit) -> tuple[Node, ...]:
        """The nodes on which the unit may be, in the order of their names."""
        if unit.nodes is None:
            return self.nodes
        return tuple(node for node in self.nodes if node.name in unit.nodes)


@dataclass(frozen=True)
class Pick:
    """One device for one request: positions of both and of the alternative."""

    request: int
    alternative: int
    device: int
    portions: Amounts = field(default_factory=dict)


@dataclass(frozen=True)
class ClaimAllocation:
    """The devices of one claim, in the order of its requests, and the node that they are for."""

    node: str
    chosen: tuple[Pick, ...]


@dataclass(frozen=True)
class Level:
    """One level of the objective: its value and the bound on the best value."""

    level: str
    value: float
    bound: float


@dataclass(frozen=True)
class ConflictPart:
    """Part of a minimal conflict: ``count`` devices for a request of each of these claims."""

    claims: tuple[int, ...]
    request: int
    count: int


@dataclass(frozen=True)
class Allocation:
    """An allocator's answer. ``claims`` has an entry for each claim, None if it gets nothing.

    ``errors`` has the selector that failed on a possible device, for claims that get nothing.
    ``allocated`` means that every claim is satisfied, ``infeasible`` that this is proven
    impossible, ``unknown`` that a limit ended the search before either was known.
    """

    outcome: Outcome
    claims: tuple[ClaimAllocation | None, ...]
    objective: tuple[Level, ...] = ()
    conflict: tuple[ConflictPart, ...] = ()
    stopped_by: str = "completed"
    errors: t.Mapping[int, str] = field(default_factory=dict)
