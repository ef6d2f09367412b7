# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Application of workloads on many daemons, the work of rmd_workload."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.argspec import ArgumentSpec
from ...base.context import (
    Context,
    Parameters,
    ProgressCallback,
    Result,
    difference,
    ignore_progress,
)
from ...base.errors import InvalidInput, TargetError
from ...fleet.visits import Client, FleetOptions, Target, error_of, visit
from ...nodeconfig.poll import conclude, fleet_options, warn_of_plain_http
from .client import Rmd
from .run import DaemonState, DesiredState, Outcome, reconcile
from .targets import daemon_spec, daemon_targets, wire_of
from .workload import Desired, Stored, desired_of, uuid_of

Options = dict[str, t.Any]

WORKLOAD_OPTIONS: Options = {
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": "default"},
    "core_ids": {"type": "list", "elements": "str", "default": []},
    "all_cores": {"type": "bool", "default": False},
    "reserved_core_ids": {"type": "list", "elements": "str", "default": []},
    "policy": {"type": "str"},
    "cache": {"type": "dict", "options": {"max": {"type": "int"}, "min": {"type": "int"}}},
    "mba": {"type": "dict", "options": {"percentage": {"type": "int"}, "mbps": {"type": "int"}}},
    "pstate": {
        "type": "dict",
        "options": {"ratio": {"type": "float"}, "monitoring": {"type": "str"}},
    },
}

_WORKLOADS: Options = {"type": "list", "elements": "dict", "options": WORKLOAD_OPTIONS}

SPEC = ArgumentSpec(
    {
        "workload": {"type": "dict", "options": WORKLOAD_OPTIONS},
        "workloads": _WORKLOADS,
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "require_capacity": {"type": "bool", "default": False},
    },
    mutually_exclusive=(("workload", "workloads"),),
).merge(daemon_spec(workloads=_WORKLOADS))


@dataclass(frozen=True)
class Visit:
    """Outcome of one daemon: an outcome for each workload, or the reason of a failure."""

    target: Target
    outcomes: t.Sequence[Outcome] = ()
    error: TargetError | None = None
    state: DaemonState | None = None

    @classmethod
    def lost(cls, name: str, error: TargetError) -> Visit:
        """The outcome of an unreachable daemon."""
        return cls(Target(name, ""), error=error)

    @property
    def errors(self) -> list[TargetError]:
        own = [self.error] if self.error else []
        return own + [
            error_of(
                self.target.name, self.target.endpoint, item.problem, f"workload {item.step.uuid}: "
            )
            for item in self.outcomes
            if item.problem is not None
        ]


def reconcile_daemons(
    targets: t.Sequence[Target],
    wanted: t.Sequence[DesiredState],
    options: FleetOptions,
    progress: ProgressCallback = ignore_progress,
) -> list[Visit]:
    """Reconcile each daemon with its goal; one visit for each target, in their order."""
    by_name = {target.name: item for target, item in zip(targets, wanted)}

    async def work(client: Client, target: Target) -> Visit:
        goal = by_name[target.name]
        daemon = DaemonState(Rmd(client), goal.wire)
        return Visit(target, await reconcile(daemon, goal), state=daemon)

    answers = visit(targets, work, options, progress)
    return [
        Visit(target, error=answer) if isinstance(answer, TargetError) else answer
        for target, answer in zip(targets, answers)
    ]


def apply_workloads(parameters: Parameters, context: Context = Context()) -> Result:
    """Create, change or delete workloads; ``results``, ``errors`` and a diff.

    Raises InvalidInput, and WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    fleet = fleet_options(options)
    targets = daemon_targets(options, options["targets"], "workloads")
    wanted = [_wanted(options, target, context) for target in targets]
    warn_of_plain_http(targets, context)
    visits = reconcile_daemons(targets, wanted, fleet, context.progress)
    results = [result_of(item, outcome) for item in visits for outcome in item.outcomes]
    errors = [error for item in visits for error in item.errors]
    return conclude(
        options,
        len(targets),
        errors,
        {"results": results, "diff": workload_changes(visits)},
        changed=any(result["changed"] for result in results),
    )


def _wanted(options: Parameters, target: Target, context: Context) -> DesiredState:
    own = target.extra["workloads"]
    shared = options["workloads"]
    if shared is None and options["workload"] is not None:
        shared = [options["workload"]]
    given = [*(shared or ()), *(own or ())]
    if not given:
        raise InvalidInput(
            f"No workload is given for {target.name}; give workload, workloads, or workloads of "
            "the target"
        )
    uuids = [uuid_of(item["namespace"], item["name"]) for item in given]
    if len(set(uuids)) < len(uuids):
        raise InvalidInput(f"{target.name}: two workloads have one name; give each its own")
    absent = options["state"] == "absent"
    desired: list[Desired] = [] if absent else [desired_of(item, item["name"]) for item in given]
    return DesiredState(
        desired,
        uuids if absent else (),
        wire=wire_of(options),
        require_capacity=options["require_capacity"],
        check_mode=context.check_mode,
    )


def result_of(item: Visit, outcome: Outcome) -> Result:
    """The entry in ``results``."""
    stored, desired, action = outcome.stored, outcome.step.desired, outcome.step.action
    return {
        "name": item.target.name,
        "workload": outcome.step.uuid,
        "action": "failed" if outcome.has_failed else _DONE.get(action, action),
        "id": stored.id if stored else None,
        "cos_name": stored.cos_name if stored else None,
        "status": stored.status if stored else None,
        "response": outcome.response,
        "changed": outcome.changed,
        "core_ids": list(stored.core_ids) if stored else list(desired.core_ids) if desired else [],
    }


_DONE = {"create": "created", "change": "changed", "replace": "replaced", "delete": "deleted"}


def workload_changes(visits: t.Sequence[Visit]) -> list[dict[str, t.Any]]:
    """The ``diff`` of a result: changes, made or planned, by target and workload."""
    changes = (
        (
            f"{item.target.name}: {outcome.step.uuid}",
            _shown(outcome.step.stored),
            _shown(outcome.step.desired),
        )
        for item in visits
        for outcome in item.outcomes
        if outcome.changed
    )
    return difference("workloads", changes)


def _shown(item: Desired | Stored | None) -> t.Any:
    return "" if item is None else {"core_ids": list(item.core_ids), **item.settings.as_dict()}
