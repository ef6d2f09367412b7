# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Steps ``store`` and ``restore``: a plan that a person approves before it is bound."""

from __future__ import annotations

from ...scheduling.plan import Plan
from .. import stored_plan
from ..run import Run


def store_plan(run: Run) -> None:
    """Store the plan with the documents that binding and the report read."""
    with run.log.step("store") as (step, context):
        plan = run.folder.this("plan")
        bodies = {**run.folder.made(stored_plan.KINDS), "plan": plan}
        stored = stored_plan.store(
            lambda: run.kube, run.options["store"], bodies, check_mode=context.check_mode
        )
        run.log.results["stored_plan"] = stored.as_dict()
        step.changed = True
        step.counts = {name: getattr(stored, name) for name in ("pods", "moves", "bytes")}


def restore_plan(run: Run) -> Plan:
    """The stored plan, whose run continues with its documents."""
    with run.log.step("restore") as (step, context):
        bodies = stored_plan.restore(lambda: run.kube, run.options["restore"], context.now())
        with run.log.documents():
            run.folder.restore(bodies)
        plan = Plan.from_document(bodies["plan"])
        step.counts = {"documents": len(bodies), "pods": len(plan.placements)}
        return plan
