# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Steps that store a plan and restore it, after a person approved it: of pods to bind, and of
machines to switch off.
"""

from __future__ import annotations

from ...scheduling.plan import Plan
from ...sleep.cluster.sleep_plan import SleepPlan
from .. import stored_plan
from ..run import Run


def store_plan(run: Run) -> None:
    """Store the plan with the documents that binding and the report read."""
    _store(run, "store", stored_plan.PLACEMENT)


def store_sleep_plan(run: Run) -> None:
    """Store the plan of machines to switch off."""
    _store(run, "store_sleep", stored_plan.SLEEP)


def restore_plan(run: Run) -> Plan:
    """The stored plan, whose run continues with its documents."""
    with run.log.step("restore") as (step, context):
        options, kind = run.options["restore"], stored_plan.PLACEMENT
        bodies = stored_plan.restore(lambda: run.kube, options, kind, context.now())
        with run.log.documents():
            run.folder.restore(bodies)
        plan = Plan.from_document(bodies["plan"])
        step.counts = {"documents": len(bodies), "pods": len(plan.placements)}
        return plan


def restore_sleep_plan(run: Run) -> SleepPlan:
    """The stored plan of machines, which this run compares with its own readings."""
    with run.log.step("restore_sleep") as (step, context):
        options, kind = run.options["restore"], stored_plan.SLEEP
        bodies = stored_plan.restore(lambda: run.kube, options, kind, context.now())
        plan = SleepPlan.from_document(bodies["sleep_plan"])
        step.counts = {"machines": len(plan.machines)}
        return plan


def _store(run: Run, name: str, kind: stored_plan.PlanKind) -> None:
    with run.log.step(name) as (step, context):
        plan = run.folder.this(kind.document)
        bodies = {**run.folder.made(kind.others), kind.document: plan}
        stored = stored_plan.store(
            lambda: run.kube, run.options["store"], kind, bodies, check_mode=context.check_mode
        )
        run.log.results[f"stored_{kind.document}"] = stored.as_dict()
        step.changed = True
        step.counts = {**stored.counts, "bytes": stored.bytes}
