# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Event-driven simulation of machines and pods under a policy.

Energy is integrated exactly: the draw of every machine is constant between two events. Events of
one moment come in this order: departures, machines that finish a boot or a shutdown, arrivals, the
policy's tick. A pod that waited keeps its duration, so no policy saves by delaying work.
"""

from __future__ import annotations

import enum
import heapq
import typing as t
from collections import defaultdict
from dataclasses import replace

from ...base.libraries import numpy
from ...power.model.assignment import Assignment
from ..machine import Machine, Phase
from .outcome import Outcome, Timeline, most_in_a_day
from .scenario import Scenario

if t.TYPE_CHECKING:
    from ...solving.arrays import Booleans, Floats, Integers

SAMPLE_SECONDS = 300.0
_HOUR, _DAY = 3600.0, 86400.0
_MILLICORES = 1000
_MICROCORES = 1_000_000


class Policy(t.Protocol):
    """Chooses nodes for pods, and switches machines through the simulation's methods.

    ``tick`` is called every ``interval_seconds``.
    """

    name: str
    interval_seconds: float

    def choose(self, simulation: Simulation, group: int) -> int | None:
        """The node for a pod of the group, among awake nodes on which it fits."""

    def arrived(self, simulation: Simulation, group: int) -> None:
        """A pod has arrived and is not placed yet."""

    def departed(self, simulation: Simulation, group: int) -> None:
        """A pod has ended."""

    def unplaced(self, simulation: Simulation) -> None:
        """Pods wait, after an event that might have placed them."""

    def tick(self, simulation: Simulation) -> None:
        """The interval is over."""


class _Kind(enum.IntEnum):
    DEPARTURE = 0
    SWITCHED = 1
    ARRIVAL = 2
    TICK = 3
    SAMPLE = 4


class _Running:
    """Where pods run."""

    def __init__(self) -> None:
        self._pods: dict[tuple[int, int], dict[int, None]] = defaultdict(dict)
        self.node_of: dict[int, int] = {}

    def first(self, group: int, node: int) -> int:
        """The pod of the group that has been on the node for the longest time."""
        return next(iter(self._pods[group, node]))

    def put(self, pod: int, group: int, node: int) -> None:
        self._pods[group, node][pod] = None
        self.node_of[pod] = node

    def take(self, pod: int, group: int) -> int:
        node = self.node_of.pop(pod)
        del self._pods[group, node][pod]
        return node


class Simulation:
    """The state at ``now``. Policies read it, and change it by the methods without underscore."""

    def __init__(self, scenario: Scenario, policy: Policy) -> None:
        self.scenario, self.policy = scenario, policy
        self.problem = scenario.problem
        self.now = scenario.start
        self.assignment = Assignment(self.problem)
        self.machines: list[Machine] = list(scenario.machines)
        self.awake: Booleans = numpy.array(
            [machine.phase is Phase.AWAKE for machine in self.machines], dtype=bool
        )
        #: Waiting pods, oldest first, with the time since which they wait.
        self.waiting: dict[int, float] = {}
        #: Machines that boot as soon as their shutdown has ended.
        self.wake_later: set[int] = set()
        self.evictions = 0
        self._events: list[tuple[float, int, int]] = []
        self._running = _Running()
        self._started: set[int] = set()
        groups = enumerate(scenario.group_of)
        #: Groups of the pods that fit somewhere.
        self._group_of = {pod: group for pod, group in groups if group is not None}
        self._ledger = _Ledger(self)

    def run(self) -> Outcome:
        """Simulate until the last departure of the trace."""
        start = self.scenario.start
        for pod in self._group_of:
            self._schedule(start + self.scenario.trace.pods[pod].arrival, _Kind.ARRIVAL, pod)
        self._schedule(start + self.policy.interval_seconds, _Kind.TICK, 0)
        self._schedule(start, _Kind.SAMPLE, 0)
        while self._events and self._events[0][0] <= self.scenario.end:
            self._ledger.advance(self._events[0][0])
            self._moment()
        self._ledger.advance(self.scenario.end)
        return self._ledger.outcome()

    def group(self, pod: int) -> int:
        """The group of a pod that fits somewhere."""
        return self._group_of[pod]

    def open_nodes(self, group: int) -> Integers:
        """Awake nodes on which one more pod of the group fits."""
        nodes = self.awake.nonzero()[0]
        return nodes[self.assignment.fits(group, nodes)]

    def waiting_counts(self) -> tuple[Integers, Floats]:
        """Number of waiting pods of each group, and the seconds that the oldest has waited."""
        counts = numpy.zeros(len(self.problem.groups), dtype=numpy.int64)
        waited = numpy.zeros(len(self.problem.groups))
        for pod, since in self.waiting.items():
            group = self.group(pod)
            counts[group] += 1
            waited[group] = max(waited[group], self.now - since)
        return counts, waited

    def in_phase(self, *phases: Phase) -> list[int]:
        """Nodes whose machines are in one of these phases."""
        return [node for node, machine in enumerate(self.machines) if machine.phase in phases]

    def wake(self, node: int) -> None:
        """Boot a machine that sleeps or shuts down; any other is left as it is."""
        machine = self.machines[node]
        if machine.phase is Phase.GOING_OFF:
            self.wake_later.add(node)
        elif machine.phase is Phase.ASLEEP:
            until = self.now + machine.switching.boot_seconds
            self._set(node, replace(machine, phase=Phase.WAKING, since=self.now, deadline=until))
            self._schedule(until, _Kind.SWITCHED, node)

    def switch_off(self, node: int) -> None:
        """Shut an awake machine without pods down. Raises ValueError for any other."""
        machine = self.machines[node]
        if machine.phase is not Phase.AWAKE or self.assignment.pods[node]:
            raise ValueError(
                f"{machine.name} is {machine.phase.value} and has {self.assignment.pods[node]} pods"
            )
        recent = tuple(each for each in machine.switched_off if self.now - each < _DAY)
        self._ledger.switched_off(node)
        off = (*recent, self.now)
        self._set(node, replace(machine, phase=Phase.GOING_OFF, since=self.now, switched_off=off))
        self._schedule(self.now + machine.switching.shutdown_seconds, _Kind.SWITCHED, node)

    def move(self, group: int, source: int, target: int) -> None:
        """Evict a pod, which starts at once on the target. Raises ValueError if it does not fit."""
        if not self.awake[target] or not self.assignment.fits(group, numpy.array([target]))[0]:
            raise ValueError(f"a pod of group {group} does not fit on {self.machines[target].name}")
        pod = self._running.first(group, source)
        self._take(pod)
        self._put(pod, target)
        self.evictions += 1

    def evict(self, group: int, node: int) -> None:
        """Evict a pod, which waits until the policy has a node for it."""
        pod = self._running.first(group, node)
        self._take(pod)
        self.waiting[pod] = self.now
        self.evictions += 1

    def _place_waiting(self) -> None:
        """Give nodes to waiting pods, largest CPU requests first."""
        trace = self.scenario.trace
        full: set[int] = set()
        order = sorted(self.waiting, key=lambda pod: -trace.pods[pod].requested("cpu"))
        for pod in order:
            group = self.group(pod)
            if group in full:
                continue
            node = self.policy.choose(self, group)
            if node is None:
                full.add(group)
                continue
            self._ledger.waited(pod, self.now - self.waiting.pop(pod))
            self._put(pod, node)
            if pod not in self._started:
                self._started.add(pod)
                each = trace.pods[pod]
                end = self.now + each.departure - each.arrival
                self._schedule(end, _Kind.DEPARTURE, pod)
        self._ledger.note_waits_for_boots()

    def tick_at(self, time: float) -> None:
        """Call the policy's tick at a time as well."""
        self._schedule(time, _Kind.TICK, 1)

    def _schedule(self, time: float, kind: _Kind, subject: int) -> None:
        heapq.heappush(self._events, (time, int(kind), subject))

    def _moment(self) -> None:
        """All events of this moment."""
        concerns_waiting = False
        while self._events and self._events[0][0] <= self.now:
            _time, kind, subject = heapq.heappop(self._events)
            if kind >= _Kind.TICK and concerns_waiting:
                self._flush()
                concerns_waiting = False
            if kind == _Kind.DEPARTURE:
                self._depart(subject)
            elif kind == _Kind.SWITCHED:
                self._switched(subject)
            elif kind == _Kind.ARRIVAL:
                self.waiting[subject] = self.now
                self.policy.arrived(self, self.group(subject))
            elif kind == _Kind.TICK:
                self.policy.tick(self)
                if not subject:
                    self._schedule(self.now + self.policy.interval_seconds, _Kind.TICK, 0)
            else:
                self._ledger.sample()
                self._schedule(self.now + SAMPLE_SECONDS, _Kind.SAMPLE, 0)
            concerns_waiting |= kind < _Kind.SAMPLE
        if concerns_waiting:
            self._flush()

    def _flush(self) -> None:
        if self.waiting:
            self._place_waiting()
        if self.waiting:
            before = self.evictions
            self.policy.unplaced(self)
            if self.evictions > before:  # moves have made room, which is there at once
                self._place_waiting()

    def _depart(self, pod: int) -> None:
        if pod in self._running.node_of:
            self._take(pod)
        elif pod in self.waiting:  # evicted, and without a node since
            self._ledger.waited(pod, self.now - self.waiting.pop(pod))
        self.policy.departed(self, self.group(pod))

    def _switched(self, node: int) -> None:
        machine = self.machines[node]
        phase = Phase.AWAKE if machine.phase is Phase.WAKING else Phase.ASLEEP
        self._set(node, replace(machine, phase=phase, since=self.now, deadline=None))
        if phase is Phase.ASLEEP and node in self.wake_later:
            self.wake_later.discard(node)
            self.wake(node)

    def _set(self, node: int, machine: Machine) -> None:
        self.machines[node] = machine
        self.awake[node] = machine.phase is Phase.AWAKE
        self._ledger.draws(node)

    def _put(self, pod: int, node: int) -> None:
        group = self.group(pod)
        self.assignment.place(group, node)
        self._running.put(pod, group, node)
        self._ledger.draws(node)

    def _take(self, pod: int) -> None:
        group = self.group(pod)
        node = self._running.take(pod, group)
        self.assignment.place(group, node, -1)
        self._ledger.draws(node)


class _Ledger:
    """Integrals over time, and counts."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        scenario = simulation.scenario
        machines, pods = len(scenario.machines), len(scenario.trace.pods)
        self._draw: Floats = numpy.zeros(machines)
        self._joules: Floats = numpy.zeros(machines)
        self._awake_seconds: Floats = numpy.zeros(machines)
        self._core_seconds: Floats = numpy.zeros(machines)
        self._waited: Floats = numpy.zeros(pods)
        self._for_boot: Booleans = numpy.zeros(pods, dtype=bool)
        self._joules_by_hour: list[float] = []
        self._switches: list[list[float]] = [[] for _machine in range(machines)]
        self._timeline = Timeline()
        cpu = scenario.problem.resources.index("cpu") if "cpu" in scenario.problem.resources else -1
        self._cpu = cpu
        for node in range(machines):
            self.draws(node)

    def advance(self, time: float) -> None:
        """Let time pass until then."""
        simulation = self._simulation
        passed = time - simulation.now
        if passed > 0:
            self._joules += passed * self._draw
            # Samples are events of every whole hour, so that no passed time spans two.
            hour = int((simulation.now - simulation.scenario.start) // _HOUR)
            self._joules_by_hour += [0.0] * (hour + 1 - len(self._joules_by_hour))
            self._joules_by_hour[hour] += passed * float(self._draw.sum())
            self._awake_seconds += passed * simulation.awake
            self._core_seconds += passed / _MICROCORES * simulation.assignment.use
            simulation.now = time

    def draws(self, node: int) -> None:
        """Note the draw of a machine after a change."""
        machine = self._simulation.machines[node]
        if machine.phase is Phase.ASLEEP:
            watts = machine.switching.standby_watts
        elif machine.phase is Phase.WAKING:
            watts = machine.switching.boot_watts
        elif machine.phase is Phase.GOING_OFF:
            watts = machine.switching.shutdown_watts
        else:
            watts = float(self._simulation.assignment.cost[node])
        self._draw[node] = watts

    def switched_off(self, node: int) -> None:
        self._switches[node].append(self._simulation.now)

    def waited(self, pod: int, seconds: float) -> None:
        self._waited[pod] += seconds

    def note_waits_for_boots(self) -> None:
        """Note the waiting pods that a machine would take if it were awake."""
        simulation = self._simulation
        for pod in simulation.waiting:
            fitting = simulation.problem.limit[simulation.group(pod)] > 0
            self._for_boot[pod] |= bool((fitting & ~simulation.awake).any())

    def sample(self) -> None:
        simulation, line = self._simulation, self._timeline
        line.times.append(simulation.now)
        line.awake.append(int(simulation.awake.sum()))
        placed = simulation.assignment.counts.sum(axis=1)
        requested = simulation.problem.request[:, self._cpu] if self._cpu >= 0 else 0 * placed
        line.cores.append(float(placed @ requested) / _MILLICORES)

    def outcome(self) -> Outcome:
        simulation = self._simulation
        for pod, since in simulation.waiting.items():
            self._waited[pod] += simulation.now - since
        return Outcome(
            policy=simulation.policy.name,
            seconds=simulation.scenario.end - simulation.scenario.start,
            joules=self._joules,
            awake_seconds=self._awake_seconds,
            core_seconds=self._core_seconds,
            switches_off=numpy.array([len(times) for times in self._switches], dtype=numpy.int64),
            most_cycles_a_day=max(map(most_in_a_day, self._switches), default=0),
            waited=self._waited,
            for_boot=self._for_boot,
            unplaced=len(simulation.waiting) + simulation.scenario.oversized,
            evictions=simulation.evictions,
            timeline=self._timeline,
            joules_by_hour=tuple(self._joules_by_hour),
        )
