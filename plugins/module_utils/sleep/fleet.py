# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The fleet's machines by the roles that they can have in one decision.

Axes: N nodes, R resources.
"""

from __future__ import annotations

import typing as t
from functools import cached_property

from ..base.libraries import numpy
from .demand import DAY
from .machine import Machine, Phase
from .room import Amounts, amounts_of

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats, Integers
    from .demand import Demand
    from .rules import SleepRules
    from .state import FleetState


class Fleet:
    """Masks and watts by node. Room of a node counts for exactly one of ``open`` and ``coming``."""

    def __init__(self, state: FleetState, demand: Demand, rules: SleepRules, now: float) -> None:
        self.state, self.rules, self.now = state, rules, now
        self.machines = state.machines
        self.problem = state.assignment.problem
        self.amounts: Amounts = amounts_of(state, demand.names)
        nodes = self.problem.instance.nodes
        schedulable = numpy.array(
            [node.ready and not node.unschedulable and node.eligible for node in nodes], dtype=bool
        )
        #: Machines that take pods now.
        self.open: Booleans = self._in(Phase.AWAKE) & schedulable
        #: Machines that will take pods after the boot that runs.
        self.coming: Booleans = self._in(Phase.WAKING) & schedulable & self._mask(_is_on_time(now))
        self.awake: Booleans = self._in(Phase.AWAKE)
        self.protected: Booleans = self._mask(lambda machine: bool(machine.protection))
        asleep = self._in(Phase.ASLEEP) & schedulable & ~self.protected
        priced = numpy.array([node.curve is not None for node in nodes], dtype=bool)
        #: Machines that a decision may wake, and those that it wakes only for pods without other room.
        self.wakeable: Booleans = asleep & priced
        self.unpriced: Booleans = asleep & ~priced

    def _mask(self, test: t.Callable[[Machine], bool]) -> Booleans:
        return numpy.array([test(machine) for machine in self.machines], dtype=bool)

    def _in(self, phase: Phase) -> Booleans:
        return self._mask(lambda machine: machine.phase is phase)

    @cached_property
    def cycles(self) -> Integers:
        """Switches to off within the last day; those in the future count, as clocks may jump."""
        return numpy.array(
            [sum(at > self.now - DAY for at in machine.switched_off) for machine in self.machines],
            dtype=numpy.int64,
        )

    @cached_property
    def awake_seconds(self) -> Floats:
        """Time since the last change of phase; 0 for one in the future."""
        return numpy.array([max(0.0, self.now - machine.since) for machine in self.machines])

    @cached_property
    def standby_watts(self) -> Floats:
        return numpy.array([machine.switching.standby_watts for machine in self.machines])

    @cached_property
    def idle_watts(self) -> Floats:
        """Power draw of each node without the pods of the assignment."""
        nodes = self.state.assignment.all_nodes
        return self.problem.costs.watts(nodes, self.problem.costs.base.astype(float))

    @cached_property
    def boot_seconds(self) -> float:
        """Longest boot of a machine that may sleep."""
        boots = [each.switching.boot_seconds for each in self.machines if not each.protection]
        return max(boots, default=0.0)

    @cached_property
    def eviction_joules(self) -> Floats:
        """Price of the eviction of all pods of each node."""
        return self.state.eviction_joules @ self.state.assignment.counts


def _is_on_time(now: float) -> t.Callable[[Machine], bool]:
    """Whether a boot is still expected to end; a late machine is no room."""
    return lambda machine: machine.deadline is None or now <= machine.deadline
