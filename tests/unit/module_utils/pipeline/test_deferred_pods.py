# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole run with prices: a pod with a deadline waits for its hour, and is bound in it."""

from __future__ import annotations

import datetime
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.reconciliation import (
    reconcile_fleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.run import Run
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.steps import sleep
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.steps.cluster import Cluster
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.steps.prices import read_prices
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.plan import Plan
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.step import SleepInputs
from support.binding_api import Json, node, pod
from support.small_fleet import Fleet

HOUR = datetime.timedelta(hours=1)
NOW = datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.UTC)
START = format_time(NOW + 3 * HOUR)


@pytest.fixture
def prices(tmp_path: Path) -> Json:
    """Three hours from now energy is cheap for an hour."""
    path = tmp_path / "prices.csv"
    rows = [
        f"{format_time(NOW + HOUR * hour)},{10 if hour == 3 else 80}" for hour in range(-24, 12)
    ]
    path.write_text("\n".join(["time,price", *rows]), encoding="utf-8")
    return {"path": str(path), "defer_pods": True}


def job(name: str, finish_by: str) -> Json:
    made = pod(name)
    made["metadata"]["creationTimestamp"] = format_time(NOW - HOUR)
    made["metadata"]["annotations"] = {
        "wattwise.github.io/finish-by": finish_by,
        "wattwise.github.io/expected-duration": "1h",
    }
    return made


def run(fleet: Fleet, now: datetime.datetime, **options: t.Any) -> Json:
    warnings: list[str] = []
    with fleet.cluster.serve() as api:
        context = Context(warn=warnings.append, now=lambda: now)
        result = reconcile_fleet({"host": api.url, **options}, context)
    return {**result, "warnings": warnings}


def condition(fleet: Fleet, name: str) -> Json:
    conditions = fleet.cluster.pods["shop", name]["status"]["conditions"]
    return t.cast("Json", next(one for one in conditions if one["type"] == "PodScheduled"))


def test_a_job_waits_for_its_hour_and_then_runs(tmp_path: Path, prices: Json) -> None:
    fleet = Fleet()
    fleet.cluster.add(job("late", format_time(NOW + 8 * HOUR)), pod("now"))
    folder = {"run_dir": str(tmp_path / "run"), "prices": prices}
    result = run(fleet, NOW, **folder)
    assert (fleet.cluster.place_of("late"), fleet.cluster.place_of("now") is None) == (None, False)
    told = condition(fleet, "late")
    # Cluster autoscalers add nodes for the reason Unschedulable alone.
    assert (told["status"], told["reason"]) == ("False", "Deferred")
    assert f"starts at {START}" in told["message"]
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert [(one["pod"], one["starts"]) for one in plan["unplaced"]] == [("late", START)]
    assert Plan.from_document(plan).unplaced[0].starts == START
    [step] = [step for step in result["steps"] if step["name"] == "prices"]
    assert step["counts"] == {"prices": 36, "deferred": 1}
    assert "prices" in result["documents"]
    # The next run writes nothing.
    assert not run(fleet, NOW + HOUR, **folder)["changed"]
    run(fleet, NOW + 3 * HOUR, **folder)
    assert fleet.cluster.place_of("late") is not None


def test_a_bad_annotation_delays_nothing_and_is_told(prices: Json) -> None:
    fleet = Fleet()
    fleet.cluster.add(job("odd", "tomorrow"), job("late", format_time(NOW + 8 * HOUR)))
    result = run(fleet, NOW, prices=prices)
    assert fleet.cluster.place_of("odd") is not None
    assert fleet.cluster.place_of("late") is None
    assert any(
        "Pod shop/odd" in warning and "RFC 3339" in warning for warning in result["warnings"]
    )


@pytest.mark.parametrize("change", [{"defer_pods": False}, {"path": "/nowhere/prices.csv"}])
def test_without_prices_or_the_option_nothing_waits(prices: Json, change: Json) -> None:
    fleet = Fleet()
    fleet.cluster.add(job("late", format_time(NOW + 8 * HOUR)))
    run(fleet, NOW, prices={**prices, **change})
    assert fleet.cluster.place_of("late") is not None


def test_pods_with_a_deadline_need_no_reserve_while_prices_are_unreadable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each failure of the source would record the same pods as arrivals once more."""
    given: list[SleepInputs] = []

    def run_sleep(_kube: t.Any, inputs: SleepInputs, *_others: t.Any) -> t.NoReturn:
        given.append(inputs)
        raise InvalidInput("Enough.")

    monkeypatch.setattr(sleep, "run_sleep", run_sleep)
    options = {
        "steps": ["snapshot", "read", "merge", "predict", "sleep"],
        "host": "http://127.0.0.1:1",
        "prices": {"path": "/nowhere/prices.csv", "defer_pods": True},
        "sleep": {"select": "kubernetes.io/hostname"},
    }
    fleet_run = Run(options, Context())
    known = sleep.FleetKnowledge(prices=read_prices(fleet_run))
    with pytest.raises(InvalidInput):
        sleep.sleep_machines(fleet_run, Cluster({"nodes": [node("n1")]}), known)
    assert (given[0].fleet.deferral, given[0].defers_pods) == (None, True)
