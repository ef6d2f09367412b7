# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Plan for one daemon's wanted workloads, computed without requests."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base.units import format_cpu_list
from .workload import REST, SUCCESSFUL, Desired, Stored

_UNKNOWN_CPUS = (
    "it is for all CPUs, and the daemon does not list them (GET /v1/cache/l3); name the "
    "CPUs instead"
)
Action = t.Literal["unchanged", "create", "change", "replace", "delete", "conflict"]


@dataclass(frozen=True)
class Step:
    """The planned step of one workload.

    ``reason`` is the cause of a conflict. An unchanged workload may have one too, if it keeps CPUs
    that another one wants.
    """

    action: Action
    uuid: str
    desired: Desired | None = None
    stored: Stored | None = None
    reason: str = ""


def plan(
    stored: t.Sequence[Stored],
    desired: t.Sequence[Desired],
    absent: t.Collection[str] = (),
    machine_cpus: frozenset[int] | None = None,
) -> list[Step]:
    """A step for each wanted workload, in their order, then for each uuid to delete.

    Workloads with another uuid are never touched; their CPUs are taken. ``machine_cpus`` are the
    machine's CPUs, if known.
    """
    by_uuid = {item.uuid: item for item in stored if item.uuid}
    wanted = [_with_all_cores(item, machine_cpus) for item in desired]
    steps = {item.uuid: _step(item, by_uuid.get(item.uuid)) for item in wanted}
    for item in wanted:
        if steps[item.uuid].action == "unchanged":
            steps[item.uuid] = replace(steps[item.uuid], reason=_rivals(item, wanted))
    reasons = _reasons(wanted, stored, frozenset(absent), machine_cpus, steps)
    for uuid, reason in reasons.items():
        steps[uuid] = replace(steps[uuid], action="conflict", reason=reason)
    deletions = [_deletion(by_uuid[uuid]) for uuid in absent if uuid in by_uuid]
    return [steps[item.uuid] for item in wanted] + deletions


def _with_all_cores(desired: Desired, machine_cpus: frozenset[int] | None) -> Desired:
    if not desired.all_cores or machine_cpus is None:
        return desired
    cpus = machine_cpus - desired.reserved
    return replace(desired, cpus=cpus, core_ids=(format_cpu_list(cpus),))


def _step(desired: Desired, stored: Stored | None) -> Step:
    if stored is None:
        return Step("create", desired.uuid, desired)
    reason = _foreign(stored, "changed")
    if reason:
        return Step("conflict", desired.uuid, desired, stored, reason)
    is_moved = desired.cpus != stored.cpus or bool(stored.task_ids)
    if is_moved or stored.status != SUCCESSFUL:
        return Step("replace", desired.uuid, desired, stored)
    if not desired.settings.differs_from(stored.settings):
        return Step("unchanged", desired.uuid, desired, stored)
    action: Action = "change" if _can_be_patched(desired, stored) else "replace"
    return Step(action, desired.uuid, desired, stored)


def _can_be_patched(desired: Desired, stored: Stored) -> bool:
    """Whether a PATCH works: it keeps unnamed values, and needs a difference."""
    wanted, present = desired.settings, stored.settings
    if wanted.policy:
        return True
    if wanted.cache is None and present.cache is not None:
        return False
    if wanted.pstate is None and present.pstate is not None:
        return False
    return (wanted.cache, wanted.mba, wanted.pstate) != (present.cache, present.mba, present.pstate)


def _deletion(stored: Stored) -> Step:
    reason = _foreign(stored, "deleted")
    return Step("conflict" if reason else "delete", stored.uuid, None, stored, reason)


def _foreign(stored: Stored, done: str) -> str:
    if stored.origin in ("", REST):
        return ""
    return f"it was made by {stored.origin} and can be {done} only by it"


def _reasons(
    desired: t.Sequence[Desired],
    stored: t.Sequence[Stored],
    absent: frozenset[str],
    machine_cpus: frozenset[int] | None,
    steps: t.Mapping[str, Step],
) -> dict[str, str]:
    """Why wanted workloads are impossible, by uuid, including those that such a one blocks."""
    reasons = {uuid: step.reason for uuid, step in steps.items() if step.action == "conflict"}
    for item in desired:
        reason = _missing_cpus(item, machine_cpus) or _rivals(item, desired)
        if reason and steps[item.uuid].action != "unchanged":
            reasons.setdefault(item.uuid, reason)
    while True:
        staying = [
            item
            for item in stored
            if item.uuid in reasons or not (item.uuid in steps or item.uuid in absent)
        ]
        blocked = {
            item.uuid: holder
            for item in desired
            if item.uuid not in reasons and (holder := _holder(item, staying))
        }
        if not blocked:
            return reasons
        reasons.update(blocked)


def _missing_cpus(desired: Desired, machine_cpus: frozenset[int] | None) -> str:
    if machine_cpus is None:
        return _UNKNOWN_CPUS if desired.all_cores else ""
    missing = desired.cpus - machine_cpus
    if not missing:
        return "" if desired.cpus else "all CPUs of the machine are reserved"
    return (
        f"the machine has no CPU {format_cpu_list(missing)} (it has "
        f"{format_cpu_list(machine_cpus)}); correct the core ids"
    )


def _rivals(desired: Desired, others: t.Sequence[Desired]) -> str:
    for other in others:
        shared = desired.cpus & other.cpus
        if other is not desired and shared:
            return (
                f"CPU {format_cpu_list(shared)} is also requested by {other.uuid!r}; "
                "remove it from one of them"
            )
    return ""


def _holder(desired: Desired, staying: t.Sequence[Stored]) -> str:
    for other in staying:
        shared = desired.cpus & (other.cpus or frozenset())
        if other.uuid != desired.uuid and shared:
            return (
                f"CPU {format_cpu_list(shared)} belongs to the workload {other.shown} of the "
                "daemon; remove it from one of them"
            )
    return ""
