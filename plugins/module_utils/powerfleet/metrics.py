# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Metrics of a fleet's runs, in addition to those of its machines and its plan."""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

from ..base import metrics as prometheus
from ..base import whole_files
from ..base.errors import InvalidInput
from ..base.json_types import Object
from ..scheduling.plan import Plan, is_comparable
from .resource import PowerFleet
from .settings import METERING_FILE, metrics_folder
from .status import Outcome

Samples = list[tuple[dict[str, str], float]]
Family = tuple[str, str, Samples]

_FILE = "run.prom"
# Name of a state → name in the summary of the run.
_NODES = {"configured": "configured", "read": "fresh", "stale": "stale", "failing": "failed"}
_PHASES = ("awake", "draining", "going_off", "asleep", "waking", "quarantined")


def write(
    run_dir: str, fleet: PowerFleet, outcome: Outcome, succeeded_at: datetime.datetime | None
) -> None:
    """Replace the file of the last run. Raises InvalidInput if it cannot be written."""
    text = render(fleet, outcome, succeeded_at)
    if fleet.spec["metering"]["source"] == "none":
        _remove(metrics_folder(run_dir) / METERING_FILE)
    prometheus.write(str(metrics_folder(run_dir) / _FILE), text)


def write_suspended(run_dir: str, fleet: PowerFleet) -> None:
    """Write only that the fleet is suspended, without former runs. Raises InvalidInput."""
    folder = metrics_folder(run_dir)
    whole_files.make_folder(folder)
    for path in folder.glob("*.prom"):
        if path.name != _FILE:
            _remove(path)
    prometheus.write(str(folder / _FILE), _rendered(fleet, _of_fleet(fleet)))


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"Cannot remove {path} ({error.strerror}); make the run folder writable"
        ) from error


def render(
    fleet: PowerFleet, outcome: Outcome, succeeded_at: datetime.datetime | None = None
) -> str:
    """The metrics of one run; ``succeeded_at`` is the begin of the last run without a failure."""
    families = [*_of_fleet(fleet), *_of_run(outcome, succeeded_at), *_of_plan(outcome)]
    families += _of_limits((outcome.summary.get("limiting") or {}).get("domains") or ())
    return _rendered(fleet, [*families, *_of_sleep(outcome.summary.get("sleep") or {})])


def saved_watts(plan: Plan | None) -> dict[str, float]:
    """Power that a plan saves against comparable plans, by their strategy."""
    if plan is None:
        return {}
    nodes = [one.node for one in plan.placements]
    return {
        one["strategy"]: one["watts_after"] - plan.watts["after"]
        for one in plan.comparison or ()
        if is_comparable(one, nodes, plan.unpriced)
    }


def _rendered(fleet: PowerFleet, families: t.Iterable[Family]) -> str:
    labels = {"power_fleet": fleet.key}
    return "".join(
        prometheus.family(
            f"wattwise_power_fleet_{name}",
            text,
            samples,
            labels,
            "counter" if name.endswith("_total") else "gauge",
        )
        for name, text, samples in families
        if samples
    )


def _single(value: float) -> Samples:
    return [({}, float(value))]


def _of_fleet(fleet: PowerFleet) -> list[Family]:
    suspended = float(fleet.is_suspended)
    return [
        ("suspended", "Whether the fleet is suspended.", _single(suspended)),
        ("interval_seconds", "Interval of the runs.", _single(fleet.interval_seconds)),
    ]


def _of_run(outcome: Outcome, succeeded_at: datetime.datetime | None) -> list[Family]:
    steps = [({"step": step["name"]}, float(step["seconds"])) for step in outcome.steps]
    failures = [
        ({"step": step["name"]}, float(step.get("failure") is not None)) for step in outcome.steps
    ]
    began, failed = outcome.began.timestamp(), float(outcome.failure is not None)
    succeeded: Samples = [] if succeeded_at is None else _single(succeeded_at.timestamp())
    return [
        ("last_run_timestamp_seconds", "When the last run of the fleet began.", _single(began)),
        ("last_success_timestamp_seconds", "When the last run without failure began.", succeeded),
        ("last_run_seconds", "Duration of the last run.", _single(outcome.seconds)),
        ("last_run_failed", "Whether a step of the last run failed.", _single(failed)),
        ("step_seconds", "Duration of each step of the last run.", steps),
        ("step_failed", "Whether the step of the last run failed.", failures),
        ("nodes", "Nodes of the fleet, and what the last run had of them.", _nodes(outcome)),
    ]


def _of_plan(outcome: Outcome) -> list[Family]:
    summary = outcome.summary
    gap: Samples = _single(summary["gap"]) if "gap" in summary else []
    saved = [({"against": name}, watts) for name, watts in outcome.saved_watts.items()]
    return [
        ("pods", "Waiting pods of the last run, and what became of them.", _pods(outcome)),
        ("watts", "Power draw of the last plan.", _watts(summary)),
        ("saved_watts", "Watts that the last plan saves against another strategy.", saved),
        ("gap_ratio", "Relative gap between the last plan and its lower bound.", gap),
        *_of_domains(summary.get("limits") or (), _PLANNED_LIMITS),
    ]


# Of a domain with a limit: name of the family, its text, and the member of the domain.
_PLANNED_LIMITS = (
    ("limit_watts", "Limit of the power of a rack or of the fleet.", "limit_watts"),
    (
        "limited_watts",
        "Power draw of a rack or of the fleet with a limit, by the last plan.",
        "watts_after",
    ),
)
_MEASURED_WATTS = (
    (
        "limit_measured_watts",
        "Measured power draw of a rack, of the fleet, or of a node above its limit.",
        "watts",
    ),
)
_INLETS = (
    (
        "limit_allowed_watts",
        "Power that a rack may still draw for its inlet.",
        "limit_watts",
    ),
    ("limit_celsius", "Inlet limit of a rack.", "limit_celsius"),
    ("limit_measured_celsius", "Hottest inlet of a rack that counts.", "celsius"),
)
_REMEDIES = (
    ("limit_capped_machines", "Machines with a cap for a limit.", "capped"),
    ("limit_evicted_pods", "Pods that the last run evicted for a limit.", "evicted"),
)


def _of_limits(domains: t.Sequence[Object]) -> list[Family]:
    """Domains of limits, as the last run measured them."""
    inlets = [one for one in domains if one["kind"] == "inlet"]
    others = [one for one in domains if one["kind"] != "inlet"]
    return [
        *_of_domains(others, _MEASURED_WATTS),
        *_of_domains(inlets, _INLETS),
        *_of_domains(domains, _REMEDIES),
    ]


def _of_domains(
    domains: t.Sequence[Object], families: t.Iterable[tuple[str, str, str]]
) -> list[Family]:
    labels = [{"kind": one["kind"], "domain": one["name"]} for one in domains]
    return [
        (
            name,
            text,
            [
                (own, float(one[key]))
                for own, one in zip(labels, domains)
                if one.get(key) is not None
            ],
        )
        for name, text, key in families
    ]


def _of_sleep(sleep: Object) -> list[Family]:
    if not sleep:
        return []
    phases = [({"phase": phase}, float(sleep[phase])) for phase in _PHASES]
    wakes = [({"outcome": name}, float(sleep[f"wakes_{name}"])) for name in ("in_time", "late")]
    reserve = sleep["reserve"].get("cpu", 0.0) / 1000
    return [
        ("sleep_machines", "Machines of the fleet by phase of sleep.", phases),
        ("sleep_reserve_cores", "CPUs that awake machines keep free.", _single(reserve)),
        ("sleep_wakes_total", "Machines that were woken, in time or late.", wakes),
        *((name, text, _single(sleep[key])) for name, text, key in _SAVED),
    ]


_SAVED = (
    ("sleep_cycles_total", "Switches to off.", "cycles"),
    ("sleep_saved_watts", "Power that sleep saves.", "saved_watts"),
    ("sleep_saved_joules_total", "Energy that sleep saved.", "saved_joules"),
)


def _nodes(outcome: Outcome) -> Samples:
    summary = outcome.summary
    return [
        ({"state": state}, float(summary[name]))
        for state, name in _NODES.items()
        if name in summary
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


def _watts(summary: Object) -> Samples:
    watts = summary.get("watts") or {}
    return [({"of": name}, float(value)) for name, value in watts.items() if value is not None]
