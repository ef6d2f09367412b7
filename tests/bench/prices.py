# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The row about prices by hour: what weighing sleep and deferring jobs are worth on real days.

Each of two days of the Belgian day-ahead market (docs/examples/prices) is repeated for as long as
the demand lasts. Best-effort pods may end twelve hours later than without prices, within the
trace, and their durations are known; this is an assumption, since traces have no deadlines.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.prices.deferral import cheapest_starts
from ansible_collections.wattwise.kube.plugins.module_utils.prices.reader import read_series
from ansible_collections.wattwise.kube.plugins.module_utils.prices.series import PriceSeries
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.decided import (
    DecidedPolicy,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.outcome import Outcome
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.policies import FewestWatts
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.simulation import (
    Policy,
    Simulation,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.trace import (
    Trace,
    TracePod,
    sorted_trace,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.rules import SleepRules
from bench.kit.rows import Bench, Json, Metric, Row, metric
from bench.kit.sleep_runs import LIBRARIES, RECORDED, Case
from bench.kit.stage import Stage
from support.sleep_fleets import clipped_scenario, recorded_demand, sleeping_fleet

REPLAY = "bench.prices:replay"
FILE = Path(__file__).resolve().parents[2] / "docs/examples/prices/belgium-2024-06-25.csv"
DAYS = ("2024-06-25", "2024-06-26")
HOUR, HOURS = 3600.0, 24
SPARE_SECONDS = 12 * HOUR
DEFERRABLE = "best_effort"
AWAKE, ASLEEP, WEIGHED = "all awake", "sleep", "sleep, hours weighed"
JOULES_PER_MWH = 3.6e9


@dataclass(frozen=True)
class Run:
    """One replay; ``share`` are the CPU seconds of deferrable pods over those of all."""

    case: str
    day: str
    policy: str
    is_deferred: bool
    joules: float
    cost: float
    share: float
    share_waiting: float
    evictions: int


def repeated_day(day: str, seconds: float) -> PriceSeries:
    """The prices of a day on it and on each one after it, for longer than the time."""
    known = read_series(FILE.read_text(encoding="utf-8"), "EUR/MWh")
    first = HOURS * DAYS.index(day)
    days = int(seconds // (HOURS * HOUR)) + 3
    times = tuple(known.times[first] + HOUR * hour for hour in range(HOURS * days))
    return PriceSeries(times, known.prices[first : first + HOURS] * days, known.unit)


def deferred(trace: Trace, series: PriceSeries) -> Trace:
    """The trace with the starts of deferrable pods in their cheapest hours."""

    draw = random.Random(1)

    def moved(pod: TracePod) -> TracePod:
        seconds = pod.departure - pod.arrival
        if pod.qos != DEFERRABLE or seconds <= 0:
            return pod
        earliest = trace.start + pod.arrival
        # All replays end at the same time, so that their idle machines draw for as long.
        latest = min(earliest + SPARE_SECONDS, trace.start + trace.seconds - seconds)
        window = cheapest_starts(series, earliest, latest, seconds)
        start = window.at(draw.random()) - trace.start
        return dataclasses.replace(pod, arrival=start, departure=start + seconds)

    return sorted_trace(map(moved, trace.pods), trace.start)


def cost(outcome: Outcome, series: PriceSeries) -> float:
    """The price of the energy, in the series' currency."""
    return sum(
        joules / JOULES_PER_MWH * series.prices[hour]
        for hour, joules in enumerate(outcome.joules_by_hour)
    )


def replay(parameters: Json) -> Json:
    """A policy on a case, as a Run."""
    case, day = Case(**parameters["case"]), parameters["day"]
    trace = case.scenario().trace
    series = repeated_day(day, trace.seconds)
    trace = dataclasses.replace(trace, start=series.times[0])
    nodes, machines = sleeping_fleet(case.machines, case.seed)
    placed = deferred(trace, series) if parameters["is_deferred"] else trace
    scenario = clipped_scenario(nodes, machines, placed)
    outcome = Simulation(
        scenario, _policy(parameters["policy"], series, parameters["is_deferred"])
    ).run()
    return dataclasses.asdict(
        Run(
            case.title,
            day,
            parameters["policy"],
            parameters["is_deferred"],
            outcome.total_joules,
            cost(outcome, series),
            _share(trace),
            outcome.share_waiting,
            outcome.evictions,
        )
    )


class _WithoutReserve(DecidedPolicy):
    """Keeps no reserve for deferrable pods, as the record of a cluster leaves them out."""

    def arrived(self, simulation: Simulation, group: int) -> None:
        if simulation.scenario.qos(group) != DEFERRABLE:
            super().arrived(simulation, group)

    def departed(self, simulation: Simulation, group: int) -> None:
        if simulation.scenario.qos(group) != DEFERRABLE:
            super().departed(simulation, group)


def _policy(name: str, series: PriceSeries, is_deferred: bool) -> Policy:
    rules = SleepRules()
    if name == AWAKE:
        return FewestWatts()
    kind = _WithoutReserve if is_deferred else DecidedPolicy
    if name == ASLEEP:
        return kind(rules)
    horizon = rules.horizon_seconds
    return kind(rules, weight_at=lambda now: series.weight(now, now + horizon))


def _share(trace: Trace) -> float:
    def seconds(pod: TracePod) -> float:
        return pod.requested("cpu") * (pod.departure - pod.arrival)

    total = sum(map(seconds, trace.pods))
    return sum(seconds(pod) for pod in trace.pods if pod.qos == DEFERRABLE) / total


def cases(stage: Stage) -> Iterator[Case]:
    """The recorded demand where it is, and nights of batch jobs."""
    if recorded_demand() is not None:
        yield Case(30, RECORDED, days=0)
    yield Case(stage.size(30, 3), "mixed", days=stage.size(7, 1))


def prices(stage: Stage) -> Row:
    """The row's details are the runs."""
    found: list[Run] = []
    for case in cases(stage):
        for day in DAYS:
            for policy in (AWAKE, ASLEEP, WEIGHED):
                for is_deferred in (False, True):
                    given = {
                        "case": dataclasses.asdict(case),
                        "day": day,
                        "policy": policy,
                        "is_deferred": is_deferred,
                    }
                    run = Run(**stage.call(REPLAY, given, LIBRARIES).result)
                    stage.say(f"  {run}")
                    found.append(run)
    return Row(
        title="Prices by hour",
        work=(
            "Replays with the prices of two days of the Belgian day-ahead market: 25 June 2024, "
            "with negative prices at noon, and 26 June 2024, without."
        ),
        command="sleep.replay.simulation.Simulation(scenario, policy).run()",
        metrics=list(_metrics(found)),
        notes=[
            "Best-effort pods may end twelve hours later, and their durations are known.",
            "Savings are of the cost of the same policy without prices, network charges left out.",
        ],
        details=[dataclasses.asdict(run) for run in found],
        is_timed=False,
    )


def _metrics(found: list[Run]) -> Iterator[Metric]:
    table = {(run.case, run.day, run.policy, run.is_deferred): run for run in found}
    keys = sorted({(run.case, run.day) for run in found})

    def saved(policy: str, is_deferred: bool, than: str) -> list[float]:
        return [
            100 * (1 - table[(*key, policy, is_deferred)].cost / table[(*key, than, False)].cost)
            for key in keys
        ]

    yield metric("cost saved by weighing sleep", "%", saved(WEIGHED, False, ASLEEP))
    yield metric("cost saved by deferred pods, all awake", "%", saved(AWAKE, True, AWAKE))
    yield metric("cost saved by deferred pods, with sleep", "%", saved(ASLEEP, True, ASLEEP))
    yield metric("cost saved by both", "%", saved(WEIGHED, True, ASLEEP))


BENCHES = [Bench("prices", prices)]
