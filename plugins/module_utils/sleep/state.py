# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The fleet at one moment, as the decision sees it.

Axes: G groups of equivalent pods, N nodes, as in ``power.model.problem``.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..power.model.assignment import Assignment
from .machine import Machine

if t.TYPE_CHECKING:
    from ..solving.arrays import Floats, Integers


class Budget(t.NamedTuple):
    """Pods of these groups together may be evicted at most ``allowed`` times in one decision."""

    groups: frozenset[int]
    allowed: int


@dataclass(frozen=True)
class FleetState:
    """Machines and pods. ``machines[n]`` is the machine of node n of the problem.

    ``assignment`` counts the pods that have a node. Of these, ``movable[g, n]`` may move now.
    ``waiting[g]`` pods have no node; the oldest of them has waited ``waited[g]`` seconds.
    A move of a pod of the group costs ``eviction_joules[g]``.

    The problem describes every machine as if it were awake: limits, free resources and curves of a
    sleeping one are those after its boot. Its costs know no standby (``allow_power_off`` is off).
    """

    machines: tuple[Machine, ...]
    assignment: Assignment
    movable: Integers
    waiting: Integers
    waited: Floats
    eviction_joules: Floats
    budgets: tuple[Budget, ...] = ()


class PlannedMove(t.NamedTuple):
    """One pod of ``group`` leaves node ``source`` for node ``target``."""

    group: int
    source: int
    target: int


class Transition(t.NamedTuple):
    """A machine (its node's index) is switched, for one word and one sentence of reason."""

    node: int
    word: str
    reason: str


@dataclass(frozen=True)
class Decision:
    """What to do now. All indices are those of the problem.

    The ``moves`` come before the machines in ``switch_off`` are switched. New pods go to a machine
    in ``avoid`` only if no other awake machine has room, so that it empties by departures alone.
    ``stay`` says of every other machine why it stays as it is. ``notes`` are sentences about the
    rules and the demand. ``reserve`` are the amounts, by resource, that awake machines keep free
    beside the pods.
    """

    wake: tuple[Transition, ...] = ()
    switch_off: tuple[Transition, ...] = ()
    moves: tuple[PlannedMove, ...] = ()
    avoid: tuple[Transition, ...] = ()
    stay: tuple[Transition, ...] = ()
    notes: tuple[str, ...] = ()
    reserve: t.Mapping[str, float] = field(default_factory=dict)
