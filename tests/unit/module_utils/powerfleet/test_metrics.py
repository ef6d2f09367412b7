# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a fleet's runs for Prometheus."""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.metrics import (
    render,
    saved_watts,
    write,
    write_suspended,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.status import (
    Failure,
    Outcome,
)
from support.carried_out_plans import plan_of
from support.power_fleets import INLET, LIMITING, NOW, SLEEP, fleet, outcome
from support.promtool import lint, samples

Json = dict[str, t.Any]


def value(text: str, name: str, **labels: str) -> float:
    pairs = ",".join(
        f'{key}="{val}"' for key, val in {**labels, "power_fleet": "power/fleet"}.items()
    )
    return samples(text)[f"wattwise_power_fleet_{name}{{{pairs}}}"]


def test_the_metrics_are_such_that_prometheus_takes_them() -> None:
    steps = [
        {"name": "snapshot", "seconds": 0.11},
        {"name": "bind", "seconds": 1, "failure": "No."},
    ]
    found = outcome(steps=steps, saved_watts={"spread": 12.5}, summary={"stale": 1, "fresh": 1})
    text = render(fleet(), found, NOW)
    assert lint(text) == ""
    assert value(text, "step_seconds", step="snapshot") == 0.11
    assert value(text, "step_failed", step="snapshot") == 0
    assert value(text, "step_failed", step="bind") == 1
    assert value(text, "pods", state="bound") == 1
    assert value(text, "nodes", state="stale") == value(text, "nodes", state="read") == 1
    assert value(text, "saved_watts", against="spread") == 12.5
    assert value(text, "gap_ratio") == 0.001
    assert value(text, "last_success_timestamp_seconds") == NOW.timestamp()


def test_the_metrics_of_sleep_are_counters_and_phases() -> None:
    text = render(fleet(), outcome(summary={"sleep": SLEEP}), NOW)
    assert lint(text) == ""
    assert value(text, "sleep_machines", phase="asleep") == 2
    assert value(text, "sleep_machines", phase="quarantined") == 1
    assert value(text, "sleep_wakes_total", outcome="in_time") == 5
    assert value(text, "sleep_wakes_total", outcome="late") == 1
    assert value(text, "sleep_cycles_total") == 7
    assert value(text, "sleep_saved_joules_total") == 7.2e6
    assert value(text, "sleep_saved_watts") == 220.5
    assert value(text, "sleep_reserve_cores") == 8
    assert "# TYPE wattwise_power_fleet_sleep_cycles_total counter" in text
    assert "_sleep_" not in render(fleet(), outcome(), NOW)


def test_limits_are_beside_the_power_of_the_plan() -> None:
    rack = {"kind": "rack", "name": "r2", "limit_watts": 4000.0, "watts_after": 3950.5}
    text = render(fleet(), outcome(summary={"limits": [rack]}), NOW)
    assert lint(text) == ""
    assert value(text, "limit_watts", kind="rack", domain="r2") == 4000
    assert value(text, "limited_watts", kind="rack", domain="r2") == 3950.5
    assert "_limit" not in render(fleet(), outcome(), NOW)


def test_limits_are_beside_the_measured_power_with_caps_and_evictions() -> None:
    text = render(fleet(), outcome(summary={"limiting": LIMITING}), NOW)
    assert lint(text) == ""
    assert value(text, "limit_measured_watts", kind="rack", domain="r1") == 4120.5
    assert value(text, "limit_capped_machines", kind="fleet", domain="") == 2
    assert value(text, "limit_evicted_pods", kind="rack", domain="r1") == 0


def test_inlets_with_a_limit_have_temperatures_and_the_power_that_their_racks_may_draw() -> None:
    text = render(fleet(), outcome(summary={"limiting": {**LIMITING, "domains": [INLET]}}), NOW)
    assert lint(text) == ""
    assert value(text, "limit_celsius", kind="inlet", domain="r1") == 32
    assert value(text, "limit_measured_celsius", kind="inlet", domain="r1") == 34.4
    assert value(text, "limit_allowed_watts", kind="inlet", domain="r1") == 3900
    assert "limit_measured_watts{" not in text, "the limit of the inlet is none of its power"
    cool = {**INLET, "celsius": None, "limit_watts": None, "state": "unknown"}
    text = render(fleet(), outcome(summary={"limiting": {**LIMITING, "domains": [cool]}}), NOW)
    assert lint(text) == ""
    assert "limit_allowed_watts{" not in text and "limit_measured_celsius{" not in text


def test_a_run_that_failed_keeps_the_time_of_the_last_success() -> None:
    failed = Outcome("start", NOW, 1.0, failure=Failure("rmd", "No."))
    before = NOW - datetime.timedelta(hours=1)
    text = render(fleet(), failed, before)
    assert lint(text) == ""
    assert value(text, "last_run_failed") == 1
    assert value(text, "last_run_timestamp_seconds") == NOW.timestamp()
    assert value(text, "last_success_timestamp_seconds") == before.timestamp()
    assert "last_success" not in render(fleet(), failed, None)


def test_a_suspended_fleet_shows_no_figures_of_former_runs(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    folder.mkdir()
    write(str(tmp_path), fleet(), outcome(), NOW)
    (folder / "readings.prom").write_text("inlet_temp_celsius 20\n")
    write_suspended(str(tmp_path), fleet(suspend=True))
    [left] = folder.iterdir()
    text = left.read_text()
    assert value(text, "suspended") == 1 and value(text, "interval_seconds") == 60
    assert len(samples(text)) == 2


def compared(**parts: t.Any) -> Json:
    return {"strategy": "spread", "watts_after": 450.0, "placed": 2, "placed_unpriced": 1, **parts}


def test_a_plan_is_compared_with_plans_that_do_as_much() -> None:
    plan = {
        "placements": [{"pod": "a", "node": "n1"}, {"pod": "b", "node": "n2"}],
        "unpriced": ["n2"],
        "watts": {"after": 400.0},
        "comparison": [
            compared(),
            compared(strategy="greedy", watts_after=390.0),
            compared(strategy="peaks", placed=1),
            compared(strategy="minimize_power", placed_unpriced=2),
        ],
    }
    assert saved_watts(plan_of(plan)) == {"spread": 50.0, "greedy": -10.0}
    assert saved_watts(plan_of({**plan, "comparison": []})) == saved_watts(None) == {}
