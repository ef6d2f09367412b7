# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces: what is read from a file, what is refused, and what a seed generates."""

from __future__ import annotations

import datetime

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.trace import (
    GPU,
    Trace,
    TracePod,
    read_trace,
)
from bench.kit.sleep_demand import PATTERNS, Pattern, synthetic_trace

HEAD = "arrival_seconds,departure_seconds,cpu_milli,memory_mib,gpus,qos"
GIB = 1 << 30
HOUR, DAY = 3600.0, 86400.0


def read(*lines: str) -> Trace:
    return read_trace([f"{line}\n" for line in lines], "demand.csv")


def test_a_trace_is_sorted_by_arrival() -> None:
    trace = read(HEAD, "60,90.5,500,1024,0,BE", "", "0,100,2000,2048,1,LS")
    assert trace.pods == (
        TracePod(0, 100, (("cpu", 2000), ("memory", 2 * GIB), (GPU, 1)), "guaranteed"),
        TracePod(60, 90.5, (("cpu", 500), ("memory", GIB)), "best_effort"),
    )
    assert trace.seconds == 100
    assert trace.without(GPU).pods[0].requests == (("cpu", 2000), ("memory", 2 * GIB))
    assert trace.clipped({"cpu": 1000}).pods[0].requested("cpu") == 1000


def test_columns_may_come_in_any_order_and_name_other_resources() -> None:
    trace = read(
        "workload,example.com/fpga,memory_mib,cpu_milli,departure_seconds,arrival_seconds",
        "web,2,0,0,5,5",
    )
    assert trace.pods == (TracePod(5, 5, (("example.com/fpga", 2),), "burstable", "web"),)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "demand.csv: the trace has no pod"),
        ((HEAD,), "demand.csv: the trace has no pod"),
        (("a,b", "1,2"), "line 1: the trace has no column arrival_seconds, departure_seconds"),
        ((f"{HEAD},qos", "0,1,1,1,0,LS,LS"), "line 1: two columns have the same name"),
        ((f"{HEAD},cpu", "0,1,1,1,0,LS,4"), "line 1: the column cpu is that of another one"),
        ((f"{HEAD},{GPU}", "0,1,1,1,0,LS,4"), f"line 1: the column {GPU} is that of another one"),
        ((HEAD, "9,3,100,10,0,LS"), "line 2: the pod departs at 3 s, before it arrives at 9 s"),
        ((HEAD, "0,3,100,10,0,LS", "1,,100,10,0,LS"), "line 3: departure_seconds is empty"),
        ((HEAD, "0,3,100"), "line 2: 3 fields, but the first line names 6 columns"),
        ((HEAD, "0,3,lots,10,0,LS"), "line 2: cpu_milli is 'lots', not a number"),
        ((HEAD, "0,3,nan,10,0,LS"), "line 2: cpu_milli is nan; give a number from 0 to 1e+09"),
        ((HEAD, "0,3,-1,10,0,LS"), "line 2: cpu_milli is -1; give a number from 0"),
        ((HEAD, "0,3,1e300,10,0,LS"), "line 2: cpu_milli is 1e300; give a number from 0"),
        ((HEAD, "0,1e12,1,10,0,LS"), "line 2: departure_seconds is 1e12; give a number from 0"),
        ((HEAD, "0,3,1,10,0.5,LS"), "line 2: gpus is '0.5', not a whole number"),
        ((HEAD, "0,3,1,10,0,gold"), "line 2: qos is 'gold'; give guaranteed, burstable"),
        ((HEAD, '0,3,1,10,0,"LS'), "line 2: not readable as CSV"),
    ],
)
def test_a_bad_trace_is_one_sentence_with_the_line(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(*lines)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def running(trace: Trace, hours: float) -> float:
    """Cores that run at a time after the start."""
    at = hours * HOUR
    return (
        sum(pod.requested("cpu") for pod in trace.pods if pod.arrival <= at < pod.departure) / 1000
    )


def test_a_seed_repeats_its_trace() -> None:
    first, second, other = (synthetic_trace(PATTERNS["mixed"], 500, 3, seed) for seed in (1, 1, 2))
    assert first == second
    assert first != other
    began = datetime.datetime.fromtimestamp(first.start, datetime.UTC)
    assert (began.weekday(), began.hour) == (0, 0)


@pytest.mark.parametrize("name", PATTERNS)
def test_pods_arrive_before_they_depart_within_the_days(name: str) -> None:
    trace = synthetic_trace(PATTERNS[name], 300, 7, 5)
    assert all(0 <= pod.arrival <= pod.departure <= 7 * DAY for pod in trace.pods)


def test_demand_follows_the_hours() -> None:
    office = synthetic_trace(Pattern(office=0.4), 1000, 7, 3)
    assert running(office, 14) == pytest.approx(410, rel=0.3)  # Monday, with steady pods
    assert running(office, 14 + 5 * 24) < 250  # Saturday
    free = synthetic_trace(Pattern(office=0.4, holidays=frozenset({0})), 1000, 7, 3)
    assert running(free, 14) < 250
    nights = synthetic_trace(Pattern(steady=0.0, nightly=0.5), 1000, 3, 3)
    assert running(nights, 25) == pytest.approx(500, rel=0.3)
    assert running(nights, 14) == 0
    full = synthetic_trace(PATTERNS["full"], 1000, 7, 3)
    assert max(running(full, hour) for hour in range(24)) > 900


def test_a_burst_comes_within_a_minute() -> None:
    pattern = Pattern(steady=0.0, burst=0.1, bursts_a_day=3.0)
    arrivals = [pod.arrival for pod in synthetic_trace(pattern, 1000, 2, 7).pods]
    first = [arrival for arrival in arrivals if arrival <= arrivals[0] + 60]
    assert len(first) >= 100 / 16
