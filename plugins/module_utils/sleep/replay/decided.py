# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The policy of the collection: ``decide``, asked at each interval and when pods wait."""

from __future__ import annotations

import math
import typing as t

from ...base.libraries import numpy
from ..decision import decide
from ..demand import Demand
from ..rules import SleepRules
from ..state import FleetState
from .policies import FewestWatts

if t.TYPE_CHECKING:
    from .simulation import Simulation

# Pods that arrive in one burst are one question.
_SECONDS_BETWEEN_URGENT_DECISIONS = 10.0


class DecidedPolicy(FewestWatts):
    """Carries out each decision at once; ``weight_at`` is the weight of energy at a time."""

    def __init__(
        self,
        rules: SleepRules,
        name: str = "decided",
        weight_at: t.Callable[[float], float] = lambda _now: 1.0,
    ) -> None:
        self.name, self.interval_seconds = name, rules.interval_seconds
        self._rules, self._weight_at = rules, weight_at
        self._demand: Demand | None = None
        self._avoid: list[int] = []
        self._last_urgent = -math.inf
        self._due = False

    def choose(self, simulation: Simulation, group: int) -> int | None:
        nodes = simulation.open_nodes(group)
        wanted = nodes[~numpy.isin(nodes, self._avoid)]
        nodes = wanted if len(wanted) else nodes
        if not len(nodes):
            return None
        return int(nodes[simulation.assignment.added_cost(group, nodes).argmin()])

    def arrived(self, simulation: Simulation, group: int) -> None:
        if simulation.now > simulation.scenario.start:  # the first pods were there already
            self._recorded(simulation).arrived(simulation.now, _requests(simulation, group))

    def departed(self, simulation: Simulation, group: int) -> None:
        self._recorded(simulation).departed(simulation.now, _requests(simulation, group))

    def unplaced(self, simulation: Simulation) -> None:
        next_time = self._last_urgent + _SECONDS_BETWEEN_URGENT_DECISIONS
        if simulation.now >= next_time:
            self._last_urgent = simulation.now
            self._decide(simulation)
        elif not self._due:
            self._due = True
            simulation.tick_at(next_time)

    def tick(self, simulation: Simulation) -> None:
        self._due = False
        self._decide(simulation)

    def _recorded(self, simulation: Simulation) -> Demand:
        if self._demand is None:
            self._demand = Demand(simulation.scenario.start)
        return self._demand

    def _decide(self, simulation: Simulation) -> None:
        rules = self._rules.weighed(self._weight_at(simulation.now))
        decision = decide(
            self._state(simulation), self._recorded(simulation), rules, simulation.now
        )
        self._avoid = [transition.node for transition in decision.avoid]
        for move in decision.moves:
            simulation.move(*move)
        for transition in decision.switch_off:
            simulation.switch_off(transition.node)
        for transition in decision.wake:
            simulation.wake(transition.node)

    def _state(self, simulation: Simulation) -> FleetState:
        waiting, waited = simulation.waiting_counts()
        joules = [
            self._rules.eviction_joules[simulation.scenario.qos(group)]
            for group in range(len(simulation.problem.groups))
        ]
        return FleetState(
            tuple(simulation.machines),
            simulation.assignment,
            simulation.assignment.counts,
            waiting,
            waited,
            numpy.array(joules, dtype=float),
        )


def _requests(simulation: Simulation, group: int) -> dict[str, float]:
    problem = simulation.problem
    return dict(zip(problem.resources, problem.request[group].tolist()))
