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


def write(run_dir: str, fleet: PowerFleet, outcome: Outcome) -> None:
    """Replace the file of the last run. Raises InvalidInput where it cannot be written."""
    prometheus.write(str(metrics_folder(run_dir) / "run.prom"), render(fleet, outcome))


def render(fleet: PowerFleet, outcome: Outcome) -> str:
    """The figures of one run."""
    summary, labels = outcome.summary, {"power_fleet": fleet.key}
    families: list[tuple[str, str, list[tuple[dict[str, str], float]]]] = [
        (
            "wattwise_power_fleet_last_run_timestamp_seconds",
            "When the last run of the fleet began.",
            [({}, outcome.began.timestamp())],
        ),
        (
            "wattwise_power_fleet_last_run_seconds",
            "How long the last run of the fleet took.",
            [({}, outcome.seconds)],
        ),
        (
            "wattwise_power_fleet_last_run_failed",
            "Whether a step of the last run failed.",
            [({}, float(outcome.failure is not None))],
        ),
        (
            "wattwise_power_fleet_step_seconds",
            "How long each step of the last run took.",
            [({"step": step["name"]}, step["seconds"]) for step in outcome.steps],
        ),
        (
            "wattwise_power_fleet_interval_seconds",
            "How often a run is to begin.",
            [({}, fleet.interval_seconds)],
        ),
        (
            "wattwise_power_fleet_pods",
            "Waiting pods that the last run found, and what became of them.",
            _pods(outcome),
        ),
        ("wattwise_power_fleet_watts", "Watts of the last plan.", _watts(summary)),
        (
            "wattwise_power_fleet_gap",
            "Relative gap between the last plan and its lower bound.",
            [({}, float(summary["gap"]))] if "gap" in summary else [],
        ),
    ]
    return "".join(
        prometheus.family(name, text, samples, labels)
        for name, text, samples in families
        if samples
    )


def _pods(outcome: Outcome) -> list[tuple[dict[str, str], float]]:
    if outcome.unplaced is None:
        return []
    found = {
        "found": outcome.waiting,
        "bound": outcome.summary.get("bound", 0),
        "unplaced": len(outcome.unplaced),
    }
    return [({"state": state}, float(count)) for state, count in found.items()]


def _watts(summary: t.Mapping[str, t.Any]) -> list[tuple[dict[str, str], float]]:
    watts = summary.get("watts") or {}
    return [({"of": name}, float(value)) for name, value in watts.items() if value is not None]
