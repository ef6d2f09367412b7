# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of thumb and of peers, for comparison.

Sources: docent-net's cluster-bare-autoscaler 0.8 (CBA), and VMware's Distributed Power Management
(DPM, Broadcom KB 310527).
"""

from __future__ import annotations

import math
import typing as t
from collections import deque

from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import numpy
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.policies import (
    FewestWatts,
    Spread,
    default_scores,
    wake_for_waiting,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.simulation import (
    Simulation,
)

if t.TYPE_CHECKING:
    from ansible_collections.wattwise.kube.plugins.module_utils.solving.arrays import (
        Booleans,
        Floats,
        Integers,
    )

Moves = list[tuple[int, int, int]]
Choose = t.Callable[[int, "Integers"], int]

_MICROCORES_PER_MILLICORE = 1000


def moves_off(simulation: Simulation, node: int, targets: Booleans, choose: Choose) -> Moves | None:
    """Moves of all pods of a machine to awake ``targets``, largest first; None if one fits nowhere.

    ``choose`` gets a group and the nodes with room. The simulation is unchanged afterwards.
    """
    problem, assignment = simulation.problem, simulation.assignment
    moves: Moves = []
    groups = assignment.counts[:, node].nonzero()[0].tolist()
    allowed = targets & simulation.awake
    allowed[node] = False
    try:
        for group in sorted(groups, key=lambda each: -int(problem.use[each])):
            for _pod in range(int(assignment.counts[group, node])):
                nodes = allowed.nonzero()[0]
                nodes = nodes[assignment.fits(group, nodes, moving=True)]
                if not len(nodes):
                    return None
                target = choose(group, nodes)
                assignment.place(group, node, -1)
                assignment.place(group, target)
                moves.append((group, node, target))
        return moves
    finally:
        for group, source, target in reversed(moves):
            assignment.place(group, target, -1)
            assignment.place(group, source)


def free_share(simulation: Simulation, nodes: Booleans) -> float:
    """Free room of these machines as a share of the requests there: of CPU or memory, the less."""
    return _least_share(simulation, simulation.assignment.free[nodes].sum(axis=0))


def free_share_without(simulation: Simulation, node: int) -> float:
    """The free share that remains when the pods of a machine are on the others."""
    problem, assignment = simulation.problem, simulation.assignment
    others = simulation.awake.copy()
    others[node] = False
    moved = problem.free[node] - assignment.free[node]
    return _least_share(simulation, assignment.free[others].sum(axis=0) - moved)


def _least_share(simulation: Simulation, free: Integers) -> float:
    requested = (simulation.problem.free - simulation.assignment.free).sum(axis=0)
    scored = _scored(simulation)
    pairs = zip(free[scored].tolist(), requested[scored].tolist(), strict=True)
    return min((left / asked for left, asked in pairs if asked > 0), default=math.inf)


def _scored(simulation: Simulation) -> list[int]:
    resources = simulation.problem.resources
    return [resources.index(name) for name in ("cpu", "memory") if name in resources]


class ThresholdRule(FewestWatts):
    """Keeps a share of spare room awake, and packs at intervals without a price on moves.

    Packing wakes the most efficient machines that hold all requests and the spare share in sum, and
    empties all others that can be emptied.
    """

    interval_seconds = 300.0

    def __init__(self, spare: float = 0.1, packing_seconds: float = 3600.0) -> None:
        self.name = f"threshold: {spare:.0%} spare, packed every {packing_seconds / 60:g} min"
        self._spare, self._packing_seconds = spare, packing_seconds
        self._last_packing = -math.inf
        self._target: Booleans | None = None

    def unplaced(self, simulation: Simulation) -> None:
        wake_for_waiting(simulation)

    def tick(self, simulation: Simulation) -> None:
        coming = numpy.zeros(len(simulation.machines), dtype=bool)
        coming[simulation.in_phase(Phase.WAKING)] = True
        if free_share(simulation, simulation.awake | coming) < self._spare:
            wake_most_efficient(simulation)
            return
        if simulation.now - self._last_packing >= self._packing_seconds:
            self._last_packing = simulation.now
            self._target = self._machines_for_all(simulation)
            for node in self._target.nonzero()[0].tolist():
                simulation.wake(node)
                coming[node] |= not simulation.awake[node]
        if self._target is not None and not coming.any() and not simulation.waiting:
            self._pack(simulation, self._target)
            self._target = None

    def _machines_for_all(self, simulation: Simulation) -> Booleans:
        problem, assignment = simulation.problem, simulation.assignment
        scored = _scored(simulation)
        needed = (1 + self._spare) * (problem.free - assignment.free)[:, scored].sum(axis=0)
        chosen: Booleans = numpy.array(
            [bool(machine.protection) for machine in simulation.machines]
        )
        for node in sorted(
            range(len(chosen)), key=lambda each: full_watts_a_core(simulation, each)
        ):
            if (problem.free[chosen][:, scored].sum(axis=0) >= needed).all():
                break
            chosen[node] = True
        return chosen

    def _pack(self, simulation: Simulation, target: Booleans) -> None:
        assignment = simulation.assignment
        for node in (simulation.awake & ~target).nonzero()[0].tolist():
            moves = moves_off(
                simulation,
                node,
                target,
                lambda group, nodes: int(nodes[assignment.added_cost(group, nodes).argmin()]),
            )
            if moves is not None and free_share_without(simulation, node) >= self._spare:
                for move in moves:
                    simulation.move(*move)
                simulation.switch_off(node)


def wake_most_efficient(simulation: Simulation) -> None:
    """Wake the sleeping machine with the fewest watts at full use for each core."""
    asleep = simulation.in_phase(Phase.ASLEEP)
    if asleep:
        simulation.wake(min(asleep, key=lambda node: full_watts_a_core(simulation, node)))


def full_watts_a_core(simulation: Simulation, node: int) -> float:
    """Watts at full use by core."""
    costs = simulation.problem.costs
    return float(costs.heights[node, -1] / costs.knots[node, -1])


class ClusterBareAutoscaler(Spread):
    """CBA 0.8: at most one machine a round, then a cooldown of an hour.

    Down: the last eligible machine goes if the mean load is below 0.5 at the 75th percentile, and
    the requests and a tenth fit on the others in sum. Up: one machine if the load is above 0.75.
    A machine that booted stays for six hours. Evicted pods wait for the scheduler. Waiting pods
    alone wake nothing.
    """

    name = "cluster-bare-autoscaler's rule"
    interval_seconds = 300.0
    _COOLDOWN, _BOOT_COOLDOWN = 3600.0, 6 * 3600.0
    _DOWN, _UP, _PERCENTILE = 0.5, 0.75, 75
    _BUFFER = 0.1
    _MIN_NODES = 1

    def __init__(self) -> None:
        self._last_action = -math.inf

    def tick(self, simulation: Simulation) -> None:
        if simulation.now - self._last_action < self._COOLDOWN:
            return
        nodes = simulation.awake.nonzero()[0]
        load = float(numpy.percentile(_cpu_load(simulation)[nodes], self._PERCENTILE))
        if load > self._UP:
            asleep = simulation.in_phase(Phase.ASLEEP)
            if asleep:
                self._last_action = simulation.now
                simulation.wake(asleep[0])
        elif load < self._DOWN:
            self._scale_down(simulation)

    def _scale_down(self, simulation: Simulation) -> None:
        if int(simulation.awake.sum()) <= self._MIN_NODES:
            return
        for node in reversed(simulation.awake.nonzero()[0].tolist()):
            machine = simulation.machines[node]
            rested = simulation.now - machine.since >= self._BOOT_COOLDOWN
            booted = machine.since > simulation.scenario.start
            if machine.protection or (booted and not rested):
                continue
            if free_share_without(simulation, node) >= self._BUFFER:
                self._last_action = simulation.now
                counts = simulation.assignment.counts[:, node]
                for group in counts.nonzero()[0].tolist():
                    for _pod in range(int(counts[group])):
                        simulation.evict(group, node)
                simulation.switch_off(node)
            return


class DistributedPowerManagement(Spread):
    """VMware DPM: a machine goes off below 45 % over 40 min, one is woken above 81 % over 5 min.

    The use of CPU counts, and the requests of memory, whichever is more. A machine goes only if its
    pods fit on others without bringing these above 81 %. Pods that find no room wake a machine, as
    the placement of a virtual machine does.
    """

    name = "VMware DPM's rule"
    interval_seconds = 300.0
    _LOW, _HIGH = 0.63 - 0.18, 0.63 + 0.18
    _SAMPLES = 8  # 40 minutes of intervals

    def __init__(self) -> None:
        self._samples: deque[Floats] = deque(maxlen=self._SAMPLES)
        self._awake: deque[Booleans] = deque(maxlen=self._SAMPLES)

    def unplaced(self, simulation: Simulation) -> None:
        wake_for_waiting(simulation)

    def tick(self, simulation: Simulation) -> None:
        load = numpy.maximum(_cpu_load(simulation), _memory_load(simulation))
        self._samples.append(load)
        self._awake.append(simulation.awake.copy())
        is_coming = bool(simulation.in_phase(Phase.WAKING))
        if (load[simulation.awake] > self._HIGH).any():
            if not is_coming:
                wake_most_efficient(simulation)
        elif len(self._samples) == self._SAMPLES and not is_coming:
            self._power_off(simulation)

    def _power_off(self, simulation: Simulation) -> None:
        mean = numpy.mean(numpy.array(self._samples), axis=0)
        steady = numpy.all(numpy.array(self._awake), axis=0) & simulation.awake
        for node in sorted(steady.nonzero()[0].tolist(), key=lambda each: (mean[each], each)):
            if mean[node] >= self._LOW:
                return
            if simulation.machines[node].protection or int(simulation.awake.sum()) < 2:
                continue
            moves = moves_off(
                simulation,
                node,
                simulation.awake,
                lambda group, nodes: int(nodes[default_scores(simulation, group, nodes).argmax()]),
            )
            if moves is not None and self._stays_within(simulation, moves):
                for move in moves:
                    simulation.move(*move)
                simulation.switch_off(node)

    def _stays_within(self, simulation: Simulation, moves: Moves) -> bool:
        """Whether no target is above the range after the moves."""
        assignment = simulation.assignment
        for group, source, target in moves:
            assignment.place(group, source, -1)
            assignment.place(group, target)
        load = numpy.maximum(_cpu_load(simulation), _memory_load(simulation))
        for group, source, target in reversed(moves):
            assignment.place(group, target, -1)
            assignment.place(group, source)
        return all(load[target] <= self._HIGH for _group, _source, target in moves)


def _cpu_load(simulation: Simulation) -> Floats:
    """CPU use of each machine as a share of what pods may request there."""
    problem, use = simulation.problem, simulation.assignment.use
    if "cpu" not in problem.resources:
        return numpy.zeros(len(use))
    total = problem.free[:, problem.resources.index("cpu")] * _MICROCORES_PER_MILLICORE
    return use / numpy.maximum(total, 1)


def _memory_load(simulation: Simulation) -> Floats:
    problem = simulation.problem
    if "memory" not in problem.resources:
        return numpy.zeros(len(problem.free))
    memory = problem.resources.index("memory")
    total = numpy.maximum(problem.free[:, memory], 1)
    return 1.0 - simulation.assignment.free[:, memory] / total
