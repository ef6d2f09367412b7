# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replays of the row sleep: fleets with demand, and policies."""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.decided import (
    DecidedPolicy,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.outcome import Outcome
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.policies import (
    DelayedOff,
    FewestWatts,
    Spread,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.scenario import Scenario
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.simulation import (
    Policy,
    Simulation,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.rules import SleepRules
from bench.kit.rows import Json
from bench.kit.sleep_demand import PATTERNS, synthetic_trace
from bench.kit.sleep_optimum import lower_bound
from bench.kit.sleep_peers import ClusterBareAutoscaler, DistributedPowerManagement, ThresholdRule
from bench.kit.stage import Stage
from support.sleep_fleets import DEMAND, clipped_scenario, recorded_demand, sleeping_fleet

REPLAY = "bench.kit.sleep_runs:replay"
LIBRARIES = ["numpy", "ortools.math_opt.python.mathopt"]
RECORDED = "recorded"
BASELINE, OURS, OPTIMUM = "default scheduler", "decide", "optimum"
THRESHOLD = "threshold, 10 % spare"
QUANTILES = (0.5, 0.9, 0.95)
# Demand with several reserves, for the frontier of energy over waiting.
FRONTIERS = frozenset({RECORDED, "mixed"})
POINTS_OF_A_TIMELINE = 400

POLICIES: Mapping[str, Callable[[], Policy]] = {
    BASELINE: Spread,
    "fewest watts": FewestWatts,
    "delayed off": DelayedOff,
    THRESHOLD: ThresholdRule,
    "threshold, no spare": lambda: ThresholdRule(spare=0.0, packing_seconds=900.0),
    "cluster-bare-autoscaler": ClusterBareAutoscaler,
    "VMware DPM": DistributedPowerManagement,
    OURS: lambda: DecidedPolicy(SleepRules()),
    **{
        f"{OURS}, reserve {quantile:g}": functools.partial(
            DecidedPolicy, SleepRules(reserve_quantile=quantile)
        )
        for quantile in QUANTILES
    },
}


@dataclass(frozen=True)
class Case:
    """A fleet, and days of demand by the name of a pattern, or as recorded."""

    machines: int
    demand: str
    days: int = 7
    seed: int = 1

    @property
    def title(self) -> str:
        return f"{self.machines} machines, {self.demand}"

    def scenario(self) -> Scenario:
        nodes, machines = sleeping_fleet(self.machines, self.seed)
        if self.demand == RECORDED:
            trace = recorded_demand()
            assert trace is not None
        else:
            cores = sum(node.free["cpu"] for node in nodes) / 1000
            trace = synthetic_trace(PATTERNS[self.demand], cores, self.days, self.seed)
        return clipped_scenario(nodes, machines, trace)


@dataclass(frozen=True)
class Run:
    """One policy on one case; waiting is for boots. The bound has joules and awake alone."""

    case: str
    policy: str
    machines: int
    joules: float
    share_waiting: float = 0.0
    p99_seconds: float = 0.0
    longest_seconds: float = 0.0
    evictions: int = 0
    cycles: float = 0.0
    most_cycles: int = 0
    unplaced: int = 0
    pods: int = 0
    seconds: float = 0.0
    hours: tuple[float, ...] = ()
    awake: tuple[int, ...] = ()
    cores: tuple[float, ...] = ()

    @classmethod
    def from_json(cls, document: Json) -> Run:
        lists = {name: tuple(document[name]) for name in ("hours", "awake", "cores")}
        return cls(**{**document, **lists})


def replay(parameters: Json) -> Json:
    """A policy on a case, as a Run without its time."""
    case = Case(**parameters["case"])
    scenario = case.scenario()
    name = parameters["policy"]
    if name == OPTIMUM:
        bound = lower_bound(scenario)
        return dataclasses.asdict(Run(case.title, name, case.machines, bound.joules))
    outcome = Simulation(scenario, POLICIES[name]()).run()
    return dataclasses.asdict(_run(case, name, outcome))


def _run(case: Case, name: str, outcome: Outcome) -> Run:
    line = outcome.timeline
    step = max(1, len(line.times) // POINTS_OF_A_TIMELINE)
    start = line.times[0]
    return Run(
        case.title,
        name,
        case.machines,
        outcome.total_joules,
        outcome.share_waiting,
        outcome.wait_quantile(0.99),
        outcome.longest_wait,
        outcome.evictions,
        outcome.cycles_a_machine_and_day,
        outcome.most_cycles_a_day,
        outcome.unplaced,
        len(outcome.waited),
        hours=tuple(round((each - start) / 3600, 2) for each in line.times[::step]),
        awake=tuple(line.awake[::step]),
        cores=tuple(round(each, 1) for each in line.cores[::step]),
    )


def cases(stage: Stage) -> Iterator[Case]:
    """The recorded demand where it is, then generated ones."""
    if recorded_demand() is None:
        stage.say(f"  without the recorded demand: {DEMAND} names no file")
    else:
        for machines in (20, 30):
            yield Case(machines, RECORDED, days=0)
    for pattern in list(PATTERNS)[: len(stage.runs(len(PATTERNS)))]:
        yield Case(stage.size(30, 3), pattern, days=stage.size(7, 1))
    yield Case(stage.size(300, 6), "mixed", days=stage.size(7, 1))


def runs(stage: Stage, case: Case) -> list[Run]:
    """All policies on a case, and the bound."""
    given = {"case": dataclasses.asdict(case)}
    found = []
    for name in [*POLICIES, OPTIMUM]:
        if name.startswith(f"{OURS}, ") and (case.demand not in FRONTIERS or case.machines > 100):
            continue
        call = stage.call(REPLAY, {**given, "policy": name}, LIBRARIES)
        run = Run.from_json({**call.result, "seconds": call.seconds})
        stage.say(f"  {case.title}: {name}, {call.seconds:.1f} s")
        found.append(run)
    return found


def named(found: t.Iterable[Run]) -> dict[str, dict[str, Run]]:
    """By case, then by policy."""
    table: dict[str, dict[str, Run]] = {}
    for run in found:
        table.setdefault(run.case, {})[run.policy] = run
    return table


def saving(run: Run, baseline: Run) -> float:
    """Saved share of the baseline's energy, in per cent."""
    return 100 * (1 - run.joules / baseline.joules)
