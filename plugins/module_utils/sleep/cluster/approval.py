# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The mode ``with_approval``: machines are woken as usual, and switched off only after a person
approved the plan. A drain that has begun was approved, so that any run continues it.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ...base.fields.lenient import member, text
from ..machine import Phase
from .cluster_view import leaving_pods
from .lifecycle import Intent, NodeView
from .planner import Plan
from .sleep_plan import MachineNow, PlannedMachine, SleepPlan, refusal

if t.TYPE_CHECKING:
    from .step import SleepRun

_WORD = "approval"


def may_sleep(run: SleepRun) -> frozenset[str] | None:
    """The machines that an approved plan lets the decision switch off; None leaves it to the rules."""
    approved = run.inputs.approved
    return None if approved is None else approved.names | _draining(run)


def _draining(run: SleepRun) -> frozenset[str]:
    records = run.records.records
    return frozenset(name for name in records if records[name].phase is Phase.DRAINING)


def _proposal(run: SleepRun, plan: Plan) -> SleepPlan:
    """The machines that the run would switch off now, for an approval."""
    pods = leaving_pods(run.lists.pods)
    names = [
        one.name
        for one in run.changes(plan, run.own)
        if one.phase is Phase.DRAINING and one.name not in run.records.records
    ]
    return SleepPlan(
        tuple(
            PlannedMachine(
                name,
                _uid(run, name),
                plan.intents[name].reason,
                round(run.histories.saved_watts(name), 1),
                run.inputs.power_watts.get(name),
                _named(pods.get(name, {})),
                plan.moves[name].moves if name in plan.moves else (),
            )
            for name in sorted(names)
        )
    )


def only_approved(run: SleepRun, plan: Plan) -> Plan:
    """The plan that switches off nothing without an approval.

    Sets what the run proposes for an approval, or else the obstacle if the approved plan is refused.
    """
    approved = run.inputs.approved
    if approved is None:
        run.proposal = _proposal(run, plan)
    else:
        run.obstacle = run.obstacle or refusal(approved, _now(run, plan, approved))
    may = may_sleep(run) or _draining(run)
    waits = {name: plan.intents[name] for name in plan.off if name not in may}
    told = {view.name: _told(view, waits[view.name]) for view in run.views(plan, waits)}
    return replace(
        plan,
        intents={name: one for name, one in plan.intents.items() if name not in waits},
        moves={**plan.moves, **(approved.steps if approved is not None else {})},
        stay={**plan.stay, **told},
    )


def _told(view: NodeView, intent: Intent) -> tuple[str, str]:
    """Why a machine stays awake that the decision would switch off."""
    if view.blocked:
        return "obstacle", view.blocked
    return _WORD, f"It waits for an approval. {intent.reason}"


def _now(run: SleepRun, plan: Plan, approved: SleepPlan) -> dict[str, MachineNow]:
    views = {view.name: view for view in run.views(plan, run.own)}
    pods, own = leaving_pods(run.lists.pods), run.own
    return {
        name: MachineNow(
            _uid(run, name),
            run.records.records[name].phase if name in run.records.records else Phase.AWAKE,
            _named(pods.get(name, {})),
            run.inputs.power_watts.get(name),
            _obstacle(plan, name, views.get(name)),
        )
        for name in approved.names & own.keys()
    }


def _obstacle(plan: Plan, name: str, view: NodeView | None) -> str:
    """Why a machine would not be switched off now."""
    if name in plan.off and view is not None:
        return "It is held as it is." if view.held else view.blocked
    intent = plan.intents.get(name)
    if intent is not None and intent.reason:
        return intent.reason
    return plan.stay.get(name, ("", ""))[1] or "The rules do not select it."


def _uid(run: SleepRun, name: str) -> str:
    return text(member(run.lists.nodes[name], "metadata", "uid"))


def _named(pods: t.Mapping[str, t.Any]) -> dict[str, str]:
    return {uid: str(pod) for uid, pod in pods.items()}
