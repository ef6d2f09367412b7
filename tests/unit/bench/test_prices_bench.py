# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The row prices: real days, deferred pods that end in time, and the cost of each hour."""

from __future__ import annotations

import dataclasses
import math

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.trace import Trace
from bench import prices
from bench.kit.sleep_runs import Case


@pytest.mark.parametrize("day", prices.DAYS)
def test_a_day_is_repeated(day: str) -> None:
    series = prices.repeated_day(day, 3 * 86400.0)
    assert series.prices[:24] == series.prices[24:48]
    assert len(series.prices) >= 4 * 24
    assert (min(series.prices) < 0) == (day == "2024-06-25")


def test_deferred_pods_cost_less_and_all_end_within_the_trace() -> None:
    trace = Case(3, "mixed", days=1).scenario().trace
    series = prices.repeated_day(prices.DAYS[0], trace.seconds)
    trace = dataclasses.replace(trace, start=series.times[0])
    moved = prices.deferred(trace, series)
    assert (len(moved.pods), moved.seconds) == (len(trace.pods), trace.seconds)

    def paid(pods: Trace) -> float:
        return math.fsum(
            (pod.departure - pod.arrival)
            * series.mean(pods.start + pod.arrival, pods.start + pod.departure)
            for pod in pods.pods
            if pod.departure > pod.arrival
        )

    assert paid(moved) < 0.9 * paid(trace)


def test_a_replay_prices_its_energy() -> None:
    case = dataclasses.asdict(Case(3, "mixed", days=1))
    given = {"case": case, "day": prices.DAYS[1], "is_deferred": False}
    runs = [
        prices.Run(**prices.replay({**given, "policy": policy}))
        for policy in (prices.AWAKE, prices.ASLEEP, prices.WEIGHED)
    ]
    assert runs[0].cost > runs[1].cost > 0
    assert runs[0].cost == pytest.approx(runs[0].joules / 3.6e9 * 100, rel=0.1)
    assert all(0 < run.share < 1 for run in runs)
