# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One daemon's run: read, plan, check, write."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass

from ...base.errors import TargetFailure
from ...base.fields.lenient import member, whole
from .cache import machine_cpus
from .outcome import Outcome
from .plan import Step, plan
from .state import DaemonState
from .workload import Desired, FormerWorkload, Wire
from .writes import write


@dataclass(frozen=True)
class DesiredState:
    """Wanted workloads of one daemon, and uuids to delete.

    ``known`` are our former workloads there; ``shows_caches`` requests its caches afterwards.
    """

    desired: t.Sequence[Desired] = ()
    absent: t.Collection[str] = ()
    known: t.Sequence[FormerWorkload] = ()
    shows_caches: bool = False
    wire: Wire | None = None
    require_capacity: bool = False
    check_mode: bool = False


async def reconcile(daemon: DaemonState, wanted: DesiredState) -> list[Outcome]:
    """The outcome of each step. Raises TargetFailure if the daemon cannot be read."""
    daemon.stored = await daemon.rmd.workloads()
    outcomes = [Outcome(step, stored=step.stored) for step in await _prepared_steps(daemon, wanted)]
    for outcome in outcomes:
        if outcome.step.reason:
            outcome.fail(TargetFailure("conflict", outcome.step.reason))
        if outcome.step.action == "unchanged":
            outcome.response = "Success: 200"
        elif outcome.is_open and outcome.step.desired is not None:
            await _check(daemon, wanted, outcome, outcome.step.desired)
    due = [outcome for outcome in outcomes if outcome.is_open]
    if wanted.check_mode:
        for outcome in due:
            outcome.changed = True
    else:
        await write(daemon, due)
    if wanted.shows_caches and (daemon.rmd.requests_that_write or not daemon.caches):
        with contextlib.suppress(TargetFailure):  # the writes count without them
            await daemon.read_caches()
    return outcomes


async def _prepared_steps(daemon: DaemonState, wanted: DesiredState) -> list[Step]:
    """The plan, after the inputs of its writes were read and lost groups were freed."""
    present = {item.uuid for item in daemon.stored}
    forgotten = [item for item in wanted.known if item.uuid not in present]
    if any(desired.all_cores for desired in wanted.desired):
        await daemon.read_caches()
    steps = _plan(daemon, wanted)
    if not forgotten and not any(step.action in ("create", "change", "replace") for step in steps):
        return steps
    await daemon.read_wire()
    if not daemon.caches:
        await daemon.read_caches()
    for item in () if wanted.check_mode else forgotten:
        await daemon.free_group(item)
    return _plan(daemon, wanted)


def _plan(daemon: DaemonState, wanted: DesiredState) -> list[Step]:
    cpus = machine_cpus(daemon.caches) if daemon.caches else None
    return plan(daemon.stored, wanted.desired, wanted.absent, cpus)


async def _check(
    daemon: DaemonState, wanted: DesiredState, outcome: Outcome, desired: Desired
) -> None:
    """The checks before any write."""
    if daemon.wire == "0.2" and desired.settings.mba != (None, None):
        text = "this daemon is RMD v0.2, which knows no memory bandwidth; remove mba"
        outcome.fail(TargetFailure("refused", text))
    elif wanted.require_capacity and outcome.step.action == "create":
        await _require_capacity(daemon, outcome, desired)


async def _require_capacity(daemon: DaemonState, outcome: Outcome, desired: Desired) -> None:
    cache = desired.settings.cache
    try:
        if desired.settings.policy:
            cache = await _of_policy(daemon, desired.settings.policy)
        if cache is None:
            return
        scores = await daemon.rmd.hospitality(*cache)
    except TargetFailure as problem:
        outcome.fail(problem)
        return
    own = [item.id for item in daemon.caches if item.cpus & desired.cpus] or list(scores)
    full = [str(number) for number in own if not scores.get(number)]
    if full:
        text = f"Not enough cache left on cache_id {full[0]}"
        await daemon.look_again(text)
        explained = daemon.explained(text)
        outcome.fail(TargetFailure("refused", f"nothing was sent: {explained}"))


async def _of_policy(daemon: DaemonState, name: str) -> tuple[int, int] | None:
    """v0.3 cannot score by a policy's name, so the request has its numbers."""
    policy = (await daemon.rmd.policies()).get(name)
    most, least = (whole(member(policy, "cache", key)) for key in ("max", "min"))
    return None if most is None or least is None else (most, least)
