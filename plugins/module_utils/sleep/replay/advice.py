# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What the fleet never needs: machines to retire, and what one more of a type would bring.

Every answer is a replay of the same demand on a smaller or larger fleet. A machine may be retired
if no further pod would have waited, and the others hold the peak of the requests with spare room.
Machines that draw most for each core at full use go first. Machines of one type are tried together,
so the number of replays grows with the types rather than with the machines.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ...base.errors import InvalidInput
from ...base.libraries import numpy
from ...scheduling.model import Node
from ..machine import Machine
from ..rules import SleepRules
from .decided import DecidedPolicy
from .outcome import Outcome
from .policies import FewestWatts, Spread
from .scenario import Scenario, build_scenario
from .simulation import Simulation
from .trace import Trace

_YEAR_SECONDS = 365.25 * 86400
_JOULES_PER_KWH = 3.6e6
ONE_MORE = "one-more"


@dataclass(frozen=True)
class Fleet:
    """Nodes without the pods of the trace, their machines, and the type of each by name."""

    nodes: tuple[Node, ...]
    machines: tuple[Machine, ...]
    types: t.Mapping[str, str]

    def without(self, names: t.Collection[str]) -> Fleet:
        pairs = [pair for pair in zip(self.nodes, self.machines) if pair[0].name not in names]
        nodes, machines = zip(*pairs)
        return replace(self, nodes=nodes, machines=machines)

    def with_one_more(self, like: str) -> Fleet:
        """The fleet with another machine that equals one of it."""
        index = [node.name for node in self.nodes].index(like)
        node = replace(self.nodes[index], name=ONE_MORE)
        machine = replace(self.machines[index], name=ONE_MORE, protection="")
        return replace(self, nodes=(*self.nodes, node), machines=(*self.machines, machine))


@dataclass(frozen=True)
class Options:
    """``spare`` is the share of the peak requests that must remain beyond them."""

    spare: float = 0.1
    use_of_requests: float = 0.8
    rules: SleepRules = field(default_factory=SleepRules)


class Retired(t.NamedTuple):
    """A machine to retire, with its saving when all machines before it are gone."""

    name: str
    kwh_a_year: float


class OneMore(t.NamedTuple):
    """Change of energy with one more machine of a type, and of the number of pods that wait."""

    type: str
    machines: int
    kwh_a_year: float
    waiting_pods: int


@dataclass(frozen=True)
class Advice:
    """``today``: default scheduler, all awake; ``awake``: fewest watts, all awake; ``asleep``:
    machines sleep. ``remaining`` and ``remaining_asleep`` are the latter two after retirement.
    """

    scenario: Scenario
    today: Outcome
    awake: Outcome
    asleep: Outcome
    remaining: Outcome
    remaining_asleep: Outcome
    retired: tuple[Retired, ...]
    one_more: tuple[OneMore, ...]


def advise(fleet: Fleet, trace: Trace, options: Options) -> Advice:
    """Advice by replays; the fleet has one machine at least. Raises InvalidInput."""
    return _Advising(fleet, trace, options).advice()


def kwh_a_year(joules: float, seconds: float) -> float:
    """Energy of a year at the mean power of a time."""
    return joules / _JOULES_PER_KWH * _YEAR_SECONDS / seconds if seconds > 0 else 0.0


class _Advising:
    """The replays of one advice."""

    def __init__(self, fleet: Fleet, trace: Trace, options: Options) -> None:
        self._fleet, self._trace, self._options = fleet, trace, options
        self._scenario = self._built(fleet)
        if self._scenario.oversized == len(trace.pods):
            raise InvalidInput("No pod of the demand fits on any machine of the snapshot")
        self._awake = Simulation(self._scenario, FewestWatts()).run()
        self._peak = _peak_requests(self._scenario)

    def advice(self) -> Advice:
        retired, remaining = self._retirement()
        smaller = self._built(self._fleet.without({each.name for each in retired}))
        today, asleep, remaining_asleep = (
            Simulation(scenario, policy).run()
            for scenario, policy in (
                (self._scenario, Spread()),
                (self._scenario, DecidedPolicy(self._options.rules)),
                (smaller, DecidedPolicy(self._options.rules)),
            )
        )
        return Advice(
            self._scenario,
            today,
            self._awake,
            asleep,
            remaining,
            remaining_asleep,
            tuple(retired),
            tuple(self._one_more_of_each()),
        )

    def _built(self, fleet: Fleet) -> Scenario:
        use = self._options.use_of_requests
        return build_scenario(fleet.nodes, fleet.machines, self._trace, use)

    def _replayed(self, fleet: Fleet) -> Outcome:
        return Simulation(self._built(fleet), FewestWatts()).run()

    def _retirement(self) -> tuple[list[Retired], Outcome]:
        """The machines to retire in order, and the replay without them."""
        retired: list[Retired] = []
        current = self._awake
        for block in self._blocks():
            gone = [each.name for each in retired]
            count, outcome = self._most_of(block, gone)
            if outcome is not None:
                saved = (current.total_joules - outcome.total_joules) / count
                each_saves = kwh_a_year(saved, current.seconds)
                retired += [Retired(name, each_saves) for name in block[:count]]
                current = outcome
        return retired, current

    def _most_of(self, block: list[str], gone: list[str]) -> tuple[int, Outcome | None]:
        """The largest number of machines of a block that can go too, by bisection."""
        best: tuple[int, Outcome | None] = 0, None
        low, high, count = 0, len(block), len(block)
        while low < high:
            outcome = self._without([*gone, *block[:count]])
            if outcome is None:
                high = count - 1
            else:
                low, best = count, (count, outcome)
            count = (low + high + 1) // 2
        return best

    def _without(self, names: list[str]) -> Outcome | None:
        """The replay without these machines; None if they are needed."""
        if len(names) >= len(self._fleet.nodes):
            return None
        fleet = self._fleet.without(names)
        kept = [index for index, node in enumerate(self._fleet.nodes) if node.name not in names]
        room = numpy.maximum(self._scenario.problem.free[kept], 0).sum(axis=0)
        if (room < (1 + self._options.spare) * self._peak).any():
            return None
        outcome = self._replayed(fleet)
        more_wait = int((outcome.waited > 0).sum()) > int((self._awake.waited > 0).sum())
        return None if more_wait or outcome.unplaced > self._awake.unplaced else outcome

    def _blocks(self) -> list[list[str]]:
        """Names of equal machines without protection, the least efficient first."""
        costs = self._scenario.problem.costs
        blocks: dict[tuple[t.Any, ...], list[str]] = {}
        for index, node in enumerate(self._fleet.nodes):
            if not self._fleet.machines[index].protection:
                per_core = float(costs.heights[index, -1] / costs.knots[index, -1])
                key = (-per_core, self._fleet.types[node.name], str(sorted(node.free.items())))
                blocks.setdefault(key, []).append(node.name)
        return [sorted(blocks[key]) for key in sorted(blocks)]

    def _one_more_of_each(self) -> t.Iterator[OneMore]:
        by_type: dict[str, list[str]] = {}
        for node in self._fleet.nodes:
            by_type.setdefault(self._fleet.types[node.name], []).append(node.name)
        before = self._awake
        for name, members in sorted(by_type.items()):
            after = self._replayed(self._fleet.with_one_more(members[0]))
            joules = after.total_joules - before.total_joules
            waiting = int((after.waited > 0).sum()) - int((before.waited > 0).sum())
            yield OneMore(name, len(members), kwh_a_year(joules, before.seconds), waiting)


def _peak_requests(scenario: Scenario) -> t.Any:
    """The most that is requested at once, of each resource, by pods that fit somewhere.

    Departures come before arrivals of the same moment; a pod without duration departs after them.
    """
    problem = scenario.problem
    changes = []
    for pod, group in zip(scenario.trace.pods, scenario.group_of):
        if group is not None:
            is_brief = pod.departure <= pod.arrival
            changes += [(pod.arrival, 1, group), (pod.departure, 2 if is_brief else 0, group)]
    level = numpy.zeros(len(problem.resources), dtype=numpy.int64)
    peak = level.copy()
    for _time, change, group in sorted(changes):
        level = level + (1 if change == 1 else -1) * problem.request[group]
        peak = numpy.maximum(peak, level)
    return peak
