# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Policies without a decision: all machines awake, and idle machines off after a delay."""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ..machine import Phase
from .simulation import Policy, Simulation

if t.TYPE_CHECKING:
    from ...solving.arrays import Floats, Integers

_SCORE = 100
_TICK_SECONDS = 300.0
_SCORED = ("cpu", "memory")


class Spread:
    """kube-scheduler's LeastAllocated and BalancedAllocation; all machines stay awake."""

    name = "default scheduler, all awake"
    interval_seconds = _TICK_SECONDS

    def choose(self, simulation: Simulation, group: int) -> int | None:
        nodes = simulation.open_nodes(group)
        if not len(nodes):
            return None
        return int(nodes[default_scores(simulation, group, nodes).argmax()])

    def arrived(self, simulation: Simulation, group: int) -> None:
        pass

    def departed(self, simulation: Simulation, group: int) -> None:
        pass

    def unplaced(self, simulation: Simulation) -> None:
        pass

    def tick(self, simulation: Simulation) -> None:
        pass


def default_scores(simulation: Simulation, group: int, nodes: Integers) -> Floats:
    """The sum of kube-scheduler's scores for resources, without rounding to whole points."""
    problem = simulation.problem
    scored = [problem.resources.index(name) for name in _SCORED if name in problem.resources]
    total = numpy.maximum(problem.free[nodes][:, scored], 1).astype(float)
    before = 1.0 - simulation.assignment.free[nodes][:, scored] / total
    after = before + problem.request[group, scored] / total
    least_allocated = (1.0 - after).mean(axis=1)
    gained = before.std(axis=1) - after.std(axis=1)
    scores: Floats = _SCORE * (least_allocated + 0.75 + gained / 4)
    return scores


class FewestWatts(Spread):
    """Each pod to the node where it adds the fewest watts; all machines stay awake."""

    name = "fewest watts, all awake"

    def choose(self, simulation: Simulation, group: int) -> int | None:
        nodes = simulation.open_nodes(group)
        if not len(nodes):
            return None
        return int(nodes[simulation.assignment.added_cost(group, nodes).argmin()])


class DelayedOff(FewestWatts):
    """A machine without pods is switched off after a delay, and woken when pods wait."""

    interval_seconds = 60.0

    def __init__(self, delay_seconds: float = 600.0) -> None:
        self.name = f"fewest watts, idle machines off after {delay_seconds / 60:g} min"
        self._delay = delay_seconds
        self._idle_since: dict[int, float] = {}

    def unplaced(self, simulation: Simulation) -> None:
        wake_for_waiting(simulation)

    def tick(self, simulation: Simulation) -> None:
        idle = set((simulation.awake & (simulation.assignment.pods == 0)).nonzero()[0].tolist())
        self._idle_since = {
            node: self._idle_since.get(node, simulation.now) for node in sorted(idle)
        }
        for node, since in list(self._idle_since.items()):
            is_free = not simulation.machines[node].protection
            if is_free and simulation.now - since >= self._delay:
                del self._idle_since[node]
                simulation.switch_off(node)


def wake_for_waiting(simulation: Simulation) -> None:
    """Wake machines for the waiting pods: each time the one that would draw least with the pod.

    Machines that boot already are room for as many pods as they hold, once.
    """
    problem = simulation.problem
    coming = simulation.in_phase(Phase.WAKING) + sorted(simulation.wake_later)
    asleep = [
        node
        for node in simulation.in_phase(Phase.ASLEEP, Phase.GOING_OFF)
        if node not in simulation.wake_later
    ]
    room = {node: problem.free[node].copy() for node in coming}
    counts, _waited = simulation.waiting_counts()
    cpu = problem.resources.index("cpu") if "cpu" in problem.resources else 0
    for group in sorted(counts.nonzero()[0].tolist(), key=lambda g: -int(problem.request[g, cpu])):
        request = problem.request[group]
        for _pod in range(int(counts[group])):
            node = next(
                (
                    each
                    for each, free in room.items()
                    if (free >= request).all() and problem.limit[group, each] > 0
                ),
                None,
            )
            if node is None:
                fitting = [each for each in asleep if problem.limit[group, each] > 0]
                if not fitting:
                    break
                node = min(fitting, key=lambda each: _watts_with(simulation, group, each))
                asleep.remove(node)
                room[node] = problem.free[node].copy()
                simulation.wake(node)
            room[node] -= request


def _watts_with(simulation: Simulation, group: int, node: int) -> float:
    """Draw of an empty node with one pod of the group."""
    one = numpy.array([node])
    return float(simulation.assignment.cost[node] + simulation.assignment.added_cost(group, one)[0])


__all__ = ["DelayedOff", "FewestWatts", "Policy", "Spread", "default_scores", "wake_for_waiting"]
