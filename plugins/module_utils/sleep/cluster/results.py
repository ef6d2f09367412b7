# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The result of one run of machines that sleep, for people and documents."""

from __future__ import annotations

import typing as t

from ...base.context import Result, difference
from ...base.units import format_time
from ..machine import Phase
from .bmcs import Power
from .lifecycle import Change, Intent
from .planner import Plan
from .timeline import as_columns

if t.TYPE_CHECKING:
    from .step import SleepRun


def note_dry_run(run: SleepRun, changes: t.Sequence[Change]) -> None:
    """Add the run to the account of its day."""
    if run.options.mode != "dry_run":
        return
    would = [one.name for one in changes if one.phase is Phase.DRAINING]
    watts = sum(run.histories.saved_watts(name) for name in would)
    day = format_time(run.context.now())[:10]
    run.record.note_dry_run(run.now, day, len(would), watts)


def result_of(run: SleepRun, plan: Plan, changes: t.Sequence[Change]) -> Result:
    """The result of the step."""
    own, now = run.own, run.now
    names = [name for name in own if name in run.records.records or name in plan.stay]
    names = sorted({*names, *plan.intents})
    phases = [run.records.records[name].phase for name in own if name in run.records.records]
    counts = {phase.value: phases.count(phase) for phase in Phase if phase is not Phase.AWAKE}
    machines = [_machine(run, plan, name) for name in names]
    histories = [one for name, one in run.record.machines.items() if name in own]
    written = [one for one in changes if one.is_written]
    return {
        "changed": bool(written) or run.has_moved,
        "mode": run.options.mode,
        "machines": machines,
        "transitions": [_as_dict(one) for one in written],
        "obstacle": run.obstacle or None,
        "notes": list(plan.notes),
        "reserve": dict(plan.reserve),
        "findings": [one.as_dict() for one in (*run.findings, *run.executor.problems)],
        "awake": len(own) - len(phases),
        **counts,
        "saved_joules": round(sum(one.joules(now) for one in histories), 1),
        "saved_watts": round(
            sum(one.saved_watts for one in histories if one.asleep_since is not None), 1
        ),
        "cycles": sum(one.cycles for one in histories),
        "wakes_in_time": sum(one.wakes_in_time for one in histories),
        "wakes_late": sum(one.wakes_late for one in histories),
        "plan": None if run.proposal is None else run.proposal.as_document(),
        "timeline": as_columns(run.record.timeline),
        "dry_run_days": [{"day": day, **one} for day, one in run.record.dry_days.items()],
        "diff": difference(
            "sleep", ((one.name, "", f"{one.phase.value}: {one.reason}") for one in written)
        ),
    }


def _machine(run: SleepRun, plan: Plan, name: str) -> dict[str, t.Any]:
    record = run.records.records.get(name)
    problems = {one.subject.name: one.said for one in run.executor.problems}
    intent = plan.intents.get(name, Intent())
    word, reason = plan.stay.get(name, (intent.action, intent.reason))
    if name not in plan.stay and intent.action == "stay":
        word, reason = ("share", intent.reason) if intent.reason else ("as_is", "")
    if record is not None:
        word, reason = record.phase.value, record.reason or reason
    elif intent.action == "off" and run.obstacle:
        word, reason = "obstacle", run.obstacle
    if name in problems:
        word, reason = "failed", f"Node {name}: {problems[name]}"
    return {
        "name": name,
        "phase": Phase.AWAKE.value if record is None else record.phase.value,
        "word": word,
        "reason": reason,
        "power_state": run.powers.get(name, Power()).state,
        "watts": round(run.histories.saved_watts(name), 1),
        "is_measured": name in run.inputs.idle_watts,
    }


def _as_dict(change: Change) -> dict[str, t.Any]:
    return {
        "name": change.name,
        "phase": change.phase.value,
        "word": change.word,
        "reason": change.reason,
        "warning": change.is_warning,
    }
