# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods with a deadline: they wait for their cheapest hour, and never end late."""

from __future__ import annotations

import datetime
import itertools
import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.prices.deferral import (
    Deferral,
    Window,
    Wish,
    awaited_window,
    cheapest_starts,
    without,
    without_deadline,
)
from ansible_collections.wattwise.kube.plugins.module_utils.prices.series import PriceSeries
from support.examples import each_seed

HOUR, DAY = 3600.0, 86400.0
START = 1_750_000_000.0 // DAY * DAY


def moment(seconds: float) -> str:
    return format_time(datetime.datetime.fromtimestamp(seconds, datetime.UTC))


def hourly(*prices: float) -> PriceSeries:
    return PriceSeries(tuple(START + HOUR * hour for hour in range(len(prices))), prices)


# Cheap from 3 to 5 o'clock.
NIGHT = hourly(*[50.0] * 3, 10.0, 20.0, *[60.0] * 19)


def pod(name: str = "job", created: float = START, **annotations: t.Any) -> dict[str, t.Any]:
    given = {f"wattwise.github.io/{key.replace('_', '-')}": one for key, one in annotations.items()}
    return {
        "metadata": {
            "name": name,
            "namespace": "batch",
            "uid": f"uid-{name}",
            "creationTimestamp": moment(created),
            "annotations": given,
        },
        "spec": {"schedulerName": "wattwise", "containers": []},
    }


def deferral(now: float = START, series: PriceSeries = NIGHT, margin: float = 1800.0) -> Deferral:
    return Deferral(series, margin, "wattwise", now)


def test_a_job_waits_for_its_cheapest_hour_with_the_reason() -> None:
    job = pod(finish_by=moment(START + 8 * HOUR), expected_duration="1h")
    waiting, findings = deferral().waiting([job, pod("other")])
    assert not findings
    [one] = waiting.values()
    assert (one.namespace, one.pod, one.uid) == ("batch", "job", "uid-job")
    assert one.starts == moment(START + 3 * HOUR)  # the only start within the cheapest hour
    assert one.condition_reason == "Deferred"
    assert one.message == (
        f"It starts at {moment(START + 3 * HOUR)}, the cheapest time after which it still ends "
        f"before {moment(START + 8 * HOUR)}."
    )
    assert without([job, pod("other")], waiting) == [pod("other")]
    assert without_deadline([job, pod("other")]) == [pod("other")]


@pytest.mark.parametrize(
    ("finish_hours", "now_hours"), [(2.0, 0.0), (-5.0, 0.0), (8.0, 3.0), (8.0, 6.5)]
)
def test_a_job_starts_at_once_without_a_cheaper_hour_in_time(
    finish_hours: float, now_hours: float
) -> None:
    job = pod(finish_by=moment(START + finish_hours * HOUR), expected_duration="1h")
    assert deferral(START + now_hours * HOUR).waiting([job]) == ({}, [])


def test_pods_that_run_or_belong_to_another_scheduler_are_left_alone() -> None:
    wish: dict[str, t.Any] = {
        "finish_by": moment(START + 8 * HOUR),
        "expected_duration": "1h",
    }
    running, other = pod("running", **wish), pod("other", **wish)
    running["spec"]["nodeName"] = "node-1"
    other["spec"]["schedulerName"] = "default-scheduler"
    assert deferral().waiting([running, other]) == ({}, [])


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({"finish_by": "tomorrow", "expected_duration": "1h"}, "RFC 3339"),
        ({"finish_by": 5, "expected_duration": "1h"}, "RFC 3339"),
        # 18:00 of a tenant in Brussels is not 18:00 UTC: the pod would end late.
        ({"finish_by": moment(START + 8 * HOUR)[:-1], "expected_duration": "1h"}, "no offset"),
        ({"finish_by": "2025-06-16", "expected_duration": "1h"}, "no offset"),
        ({"finish_by": moment(START + HOUR)}, "not a duration"),
        ({"finish_by": moment(START + HOUR), "expected_duration": "soon"}, "not a duration"),
        ({"finish_by": moment(START + HOUR), "expected_duration": "-1h"}, "from 1s to 168h"),
        ({"finish_by": moment(START + HOUR), "expected_duration": "0"}, "from 1s to 168h"),
        ({"finish_by": moment(START + HOUR), "expected_duration": "1ns"}, "from 1s to 168h"),
        ({"finish_by": moment(START + HOUR), "expected_duration": "9999h"}, "from 1s to 168h"),
        ({"finish_by": moment(START + 8 * DAY), "expected_duration": "1h"}, "more than a week"),
        ({"finish_by": "9999-12-31T23:00:00Z", "expected_duration": "1h"}, "more than a week"),
    ],
)
def test_annotations_that_a_tenant_wrote_badly_are_told_and_delay_nothing(
    annotations: dict[str, t.Any], problem: str
) -> None:
    sound = pod("sound", finish_by=moment(START + 8 * HOUR), expected_duration="1h")
    waiting, findings = deferral().waiting([pod(**annotations), sound, {"metadata": None}])
    assert [name for _namespace, name in waiting] == ["sound"]
    [finding] = findings
    assert problem in finding.problem
    assert (finding.subject.name, finding.subject.namespace) == ("job", "batch")


def test_a_pod_with_devices_does_not_wait() -> None:
    job = pod(finish_by=moment(START + 8 * HOUR), expected_duration="1h")
    job["spec"]["resourceClaims"] = [{"name": "gpu"}]
    waiting, [finding] = deferral().waiting([job])
    assert not waiting
    assert finding.field == "spec.resourceClaims"


def test_a_job_over_two_hours_takes_the_cheapest_pair() -> None:
    series = hourly(50.0, 5.0, 60.0, 20.0, 10.0, 60.0)
    start = START + 3 * HOUR
    assert cheapest_starts(series, START, START + 5 * HOUR, 2 * HOUR) == Window(start, start)
    half = START + 3.5 * HOUR
    assert cheapest_starts(series, START, START + 5 * HOUR, 1.5 * HOUR) == Window(half, half)


def test_of_equal_starts_the_first_count_also_of_equal_days() -> None:
    whole = cheapest_starts(hourly(*[0.1] * 24), START, START + 5 * DAY, HOUR)
    assert whole == Window(START, START + 5 * DAY)
    half = cheapest_starts(NIGHT, START, START + 5 * DAY, HOUR / 2)
    assert half == Window(START + 3 * HOUR, START + 3.5 * HOUR)


def test_many_short_jobs_are_spread_over_the_cheapest_hour_and_keep_their_starts() -> None:
    """They would be one burst otherwise, for which sleeping machines must wake."""
    jobs = [
        pod(f"job-{index}", finish_by=moment(START + 8 * HOUR), expected_duration="10m")
        for index in range(60)
    ]
    first = {name: one.starts for name, one in deferral().waiting(jobs)[0].items()}
    begun: list[int] = []
    for now in (START + 300.0 * run for run in range(30, 60)):
        waiting, _findings = deferral(now).waiting(jobs)
        assert {name: one.starts for name, one in waiting.items()}.items() <= first.items()
        left = [one for one in jobs if ("batch", one["metadata"]["name"]) in waiting]
        begun.append(len(jobs) - len(left))
        jobs = left
    assert sum(begun[:6]) == 0
    assert sum(begun[6:18]) == 60
    assert max(begun) < 20


def test_what_is_left_of_the_cheapest_hour_is_no_reason_to_begin_in_it() -> None:
    series = hourly(10.0, 90.0, 50.0)
    now, latest = START + HOUR - 60.0, START + 5 * HOUR
    # Neither for a pod that has just come, nor for one that found no node in its hour.
    for created in (now, START - 3 * HOUR):
        window = awaited_window(series, Wish(0.0, HOUR, created), now, latest)
        assert window is not None
        assert window.first == START + 2 * HOUR


def test_equal_prices_delay_nothing() -> None:
    flat = hourly(*[0.1] * 24)
    for now in (START, START + 0.3 * HOUR, START + 7.7 * HOUR):
        assert awaited_window(flat, Wish(0.0, HOUR, START), now, START + 9 * HOUR) is None


@each_seed(60)
def test_no_start_at_any_minute_is_cheaper(seed: int) -> None:
    draw = random.Random(seed)
    series = hourly(*[draw.uniform(-50, 150) for _hour in range(draw.randint(1, 30))])
    earliest = START + draw.randint(-20, 40) * 900.0
    latest = earliest + draw.randint(0, 100) * 900.0
    seconds = draw.randint(1, 40) * 900.0
    window = cheapest_starts(series, earliest, latest, seconds)
    assert earliest <= window.first <= window.last <= latest
    start = window.at(draw.random())
    best = min(
        series.mean(each, each + seconds)
        for each in itertools.takewhile(
            lambda time: time <= latest, itertools.count(earliest, 900.0)
        )
    )
    assert series.mean(start, start + seconds) <= best + 1e-3


@each_seed(30)
def test_a_job_never_ends_late_whatever_becomes_of_the_prices(seed: int) -> None:
    """Runs come within the margin; the series changes, ends and has holes between them."""
    draw = random.Random(seed)
    margin = draw.uniform(300.0, 3600.0)
    duration = draw.uniform(60.0, 12 * HOUR)
    wish = Wish(START + draw.uniform(0.0, 1.5 * DAY), duration, START)
    share = draw.random()
    now = START
    while True:
        times = sorted(draw.sample(range(-48, 96), draw.randint(1, 60)))
        prices = tuple(draw.uniform(-50.0, 150.0) for _hour in times)
        series = PriceSeries(tuple(START + HOUR * hour for hour in times), prices)
        if deferral(now, series, margin).start(wish, share) <= now:
            break
        now += draw.uniform(margin / 2, margin)
    is_possible = START + 1.1 * duration + margin <= wish.finish_by
    assert now + duration <= wish.finish_by if is_possible else now == START
