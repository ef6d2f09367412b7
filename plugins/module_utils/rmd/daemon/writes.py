# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Writes of one daemon's plan: delete, change, create, and restore after a failed change."""

from __future__ import annotations

import typing as t

from ...base.errors import TargetFailure
from .client import Refused
from .outcome import Outcome
from .state import DaemonState
from .workload import FormerWorkload, Stored, body_of, with_all_bandwidth

# Prefixes of answers to a PATCH that was refused without any effect.
_UNTOUCHED = ("Failed to validate", "404:", "200:")
Part = t.TypeVar("Part")


async def write(daemon: DaemonState, outcomes: t.Sequence[Outcome]) -> None:
    """First all steps that free resources, then changes (shrinking ones first), then creations.

    If the daemon is lost midway, the remaining steps fail with the same reason.
    """
    lost: TargetFailure | None = None
    for outcome, act in _in_order(outcomes):
        if outcome.problem is not None:
            continue
        if lost is not None:
            outcome.fail(lost)
            continue
        try:
            await act(daemon, outcome)
        except Refused as refused:
            refused.explain(daemon.explained(refused.text), outcome.note)
            outcome.fail(refused)
        except TargetFailure as failure:
            found = await daemon.took_effect(outcome.step)
            if found is None:
                lost = failure
                outcome.fail(failure)
            else:
                _succeed(daemon, outcome, found, 200)


def _in_order(
    outcomes: t.Sequence[Outcome],
) -> list[tuple[Outcome, t.Callable[[DaemonState, Outcome], t.Awaitable[None]]]]:
    def of(*actions: str) -> list[Outcome]:
        return [outcome for outcome in outcomes if outcome.step.action in actions]

    return [
        *((outcome, _delete) for outcome in of("delete", "replace")),
        *((outcome, _change) for outcome in sorted(of("change"), key=_growth)),
        *((outcome, _create) for outcome in of("create", "replace")),
    ]


async def _delete(daemon: DaemonState, outcome: Outcome) -> None:
    stored = _required(outcome.step.stored)
    was_there = await daemon.rmd.delete(stored.id)
    if not was_there and stored.settings.cache is not None:
        # It existed a moment ago, so the daemon lost its database meanwhile.
        await daemon.read_wire()
        await daemon.free_group(FormerWorkload(stored.uuid, stored.core_ids, stored.settings.cache))
    outcome.succeed(None, 200)
    daemon.stored.remove(stored)


async def _change(daemon: DaemonState, outcome: Outcome) -> None:
    desired, before = _required(outcome.step.desired), _required(outcome.step.stored)
    settings = with_all_bandwidth(desired.settings, before.settings)
    body = body_of(outcome.step.uuid, before.core_ids, settings, daemon.wire)
    body["core_ids"] = list(before.core_ids)  # the daemon would treat other forms as other CPUs
    try:
        after = await daemon.sent(daemon.rmd.change(before.id, body))
    except Refused as refused:
        if not refused.text.startswith(_UNTOUCHED):
            await _restore(daemon, outcome, before)
        raise
    _succeed(daemon, outcome, after, 200)


async def _create(daemon: DaemonState, outcome: Outcome) -> None:
    desired = _required(outcome.step.desired)
    body = body_of(outcome.step.uuid, desired.core_ids, desired.settings, daemon.wire)
    try:
        after = await daemon.sent(daemon.rmd.create(body))
    except Refused:
        if outcome.step.stored is not None:
            await _post_again(daemon, outcome, outcome.step.stored)
        raise
    _succeed(daemon, outcome, after, 201)


def _succeed(daemon: DaemonState, outcome: Outcome, after: Stored, status: int) -> None:
    outcome.succeed(after, status)
    daemon.stored = [item for item in daemon.stored if item is not outcome.step.stored] + [after]


async def _restore(daemon: DaemonState, outcome: Outcome, before: Stored) -> None:
    """Restore after a failed PATCH, which releases the hardware but stays in the database."""
    await daemon.rmd.delete(before.id)
    daemon.stored.remove(before)
    await _post_again(daemon, outcome, before)


async def _post_again(daemon: DaemonState, outcome: Outcome, before: Stored) -> None:
    try:
        body = body_of(before.uuid, before.core_ids, before.settings, daemon.wire)
        outcome.stored = await daemon.rmd.create(body)
    except TargetFailure as failure:
        outcome.stored, outcome.changed = None, True
        outcome.note = f"; the previous workload could not be restored: {failure.detail}"
        return
    outcome.changed = False
    daemon.stored.append(outcome.stored)
    outcome.note = f"; the previous workload was restored (id {outcome.stored.id})"


def _growth(outcome: Outcome) -> int:
    """Number of additional ways of a change."""
    desired, stored = _required(outcome.step.desired), _required(outcome.step.stored)
    after, before = desired.settings, stored.settings
    return (after.cache or (0, 0))[0] - (before.cache or (0, 0))[0]


def _required(part: Part | None) -> Part:
    """A part that a step of this kind always has; without it the plan is wrong."""
    if part is None:
        raise ValueError("a step lacks what its action works on")
    return part
