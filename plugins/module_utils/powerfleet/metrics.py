# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Figures of a fleet's runs for Prometheus, beside those of its machines and its plan."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base import metrics as prometheus
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import PowerFleet
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.settings import (
    metrics_folder,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.status import Outcome

Samples = list[tuple[dict[str, str], float]]
Family = tuple[str, str, Samples]


def write(run_dir: str, fleet: PowerFleet, outcome: Outcome) -> None:
    """Replace the file of the last run. Raises InvalidInput where it cannot be written."""
    prometheus.write(str(metrics_folder(run_dir) / "run.prom"), render(fleet, outcome))


def render(fleet: PowerFleet, outcome: Outcome) -> str:
    """The figures of one run."""
    labels = {"power_fleet": fleet.key}
    families = [*_of_run(fleet, outcome), *_of_plan(outcome)]
    return "".join(
        prometheus.family(f"wattwise_power_fleet_{name}", text, samples, labels)
        for name, text, samples in families
        if samples
    )


def _of_run(fleet: PowerFleet, outcome: Outcome) -> list[Family]:
    steps = [({"step": step["name"]}, float(step["seconds"])) for step in outcome.steps]
    began, failed = outcome.began.timestamp(), float(outcome.failure is not None)
    return [
        ("last_run_timestamp_seconds", "When the last run of the fleet began.", [({}, began)]),
        ("last_run_seconds", "Duration of the last run.", [({}, outcome.seconds)]),
        ("last_run_failed", "Whether a step of the last run failed.", [({}, failed)]),
        ("step_seconds", "Duration of each step of the last run.", steps),
        ("interval_seconds", "Interval of the runs.", [({}, fleet.interval_seconds)]),
    ]


def _of_plan(outcome: Outcome) -> list[Family]:
    summary = outcome.summary
    gap: Samples = [({}, float(summary["gap"]))] if "gap" in summary else []
    return [
        ("pods", "Waiting pods of the last run, and what became of them.", _pods(outcome)),
        ("watts", "Watts of the last plan.", _watts(summary)),
        ("gap", "Relative gap between the last plan and its lower bound.", gap),
    ]


def _pods(outcome: Outcome) -> Samples:
    if outcome.unplaced is None:
        return []
    found = {
        "found": outcome.waiting,
        "bound": outcome.summary.get("bound", 0),
        "unplaced": len(outcome.unplaced),
    }
    return [({"state": state}, float(count)) for state, count in found.items()]


def _watts(summary: t.Mapping[str, t.Any]) -> Samples:
    watts = summary.get("watts") or {}
    return [({"of": name}, float(value)) for name, value in watts.items() if value is not None]
