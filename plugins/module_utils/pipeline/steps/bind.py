# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Steps ``bind``, ``devices`` and ``evict``: the plan becomes bindings, claims and moves."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ...bind import binding
from ...devices import reconciliation as devices
from ...eviction import eviction
from ...kube import unschedulable
from ...scheduling.plan import Plan, UnplacedPod
from ...scheduling.scope import Scope
from .. import last_binding
from ..options import of_module
from ..run import Run

# Pods of the plan without a node, by namespace and name, with the reasons.
Unbound = t.Mapping[tuple[str, str], str]


def bind_pods(run: Run, plan: Plan, pods: t.Sequence[t.Any]) -> Unbound:
    """The pods of the plan that were not bound; ``pods`` come from the snapshot."""

    def keep(bindings: binding.Bindings) -> None:
        """Record the bindings with the documents of the run."""
        with run.log.documents():
            if run.folder.keep_bindings(plan.time or "", bindings, run.context.now()):
                run.with_record(last_binding.keep)

    with run.log.step("bind") as (step, context):
        options = of_module(binding.SPEC, run.options, "bind")
        unmarked = replace(plan, unplaced=_without_marked(plan.unplaced, pods))
        bindings = binding.bind(run.kube, unmarked, options, context, keep)
        result = bindings.as_result()
        step.changed = result["changed"]
        step.errors += result["errors"]
        step.counts = {
            name: len(result[name]) for name in ("bound", "unchanged", "skipped", "marked")
        }
        run.log.summary.update(bound=len(result["bound"]), skipped=len(result["skipped"]))
        run.log.diff += result["diff"]
        return bindings.still_waiting


def _without_marked(
    unplaced: t.Iterable[UnplacedPod], pods: t.Sequence[t.Any]
) -> tuple[UnplacedPod, ...]:
    """The unplaced pods that do not have their condition yet."""
    by_name = {(pod["metadata"].get("namespace"), pod["metadata"]["name"]): pod for pod in pods}

    def is_marked(one: UnplacedPod) -> bool:
        pod = by_name.get((one.namespace, one.pod))
        return pod is not None and unschedulable.is_marked(pod, one)

    return tuple(one for one in unplaced if not is_marked(one))


def give_devices(
    run: Run, plan: Plan | None, scope: Scope | None, unbound: Unbound | None
) -> Unbound | None:
    """Allocate devices and bind their pods; the planned pods that are still without a node."""
    with run.log.step("devices") as (step, context):
        options = of_module(devices.SPEC, run.options, "devices")
        given = devices.give_devices(
            run.kube,
            plan,
            options,
            context,
            scope,
            # A person approved only the stored plan.
            is_approved=run.has("restore"),
        )
        result = given.as_result()
        names = ("outcome", "changes", "pods", "errors", "conflict")
        run.log.results["devices"] = {name: result[name] for name in names}
        step.changed = result["changed"]
        step.errors += result["errors"]
        step.counts = {"changes": len(result["changes"])}
        run.log.diff += result["diff"]
        return None if unbound is None else given.left_without(unbound)


def evict_pods(run: Run, plan: Plan) -> None:
    """Move running pods by the steps of the plan."""
    with run.log.step("evict") as (step, context):
        scheduler = run.options["place"]["scheduler_name"]
        options = of_module(eviction.SPEC, run.options, "evict", scheduler_name=scheduler)
        if not plan.steps:
            return
        result = eviction.move_pods(run.kube, plan.steps, options, context).as_result()
        names = ("moves", "gain_watts", "stopped")
        run.log.results["evict"] = {name: result[name] for name in names}
        step.changed = result["changed"]
        moved = sum(move["outcome"] == "moved" for move in result["moves"])
        step.counts = {"moves": len(result["moves"]), "moved": moved}
        step.errors += [result["stopped"]] if result["stopped"] else []
        run.log.summary["moved"] = moved
        run.log.diff += result["diff"]
