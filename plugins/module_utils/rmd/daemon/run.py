# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One daemon's run: read, plan, check, write, and restore after a failed change."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, field

from ...base.errors import TargetFailure
from ...base.fields.lenient import member, whole
from .cache import Cache, machine_cpus
from .client import Refused, Rmd
from .explain import explained
from .plan import Step, plan
from .workload import Desired, FormerWorkload, Stored, Wire, body_of, with_all_bandwidth

_LOST = (
    ". The daemon lost its database, and the previous workloads' groups still hold ways: remove"
    " them on the machine (rmdir in /sys/fs/resctrl) and restart the daemon"
)
_FULL = "Not enough cache"


@dataclass
class DaemonState:
    """The content of one daemon, and the connection to it.

    ``fixed_wire`` is the version by the user, if any. ``unreclaimed`` means that groups of lost
    workloads stay.
    """

    rmd: Rmd
    fixed_wire: Wire | None = None
    stored: list[Stored] = field(default_factory=list)
    caches: list[Cache] = field(default_factory=list)
    wire: Wire = "0.2"
    unreclaimed: bool = False
    _writes_at_reading: int = 0

    async def read_wire(self) -> None:
        self.wire = self.fixed_wire or await self.rmd.wire(self.stored)

    async def read_caches(self) -> None:
        self._writes_at_reading = self.rmd.requests_that_write
        try:
            self.caches = await self.rmd.caches()
        except Refused:  # may be forbidden, or impossible without a class; the daemon checks
            self.caches = []

    async def look_again(self, text: str) -> None:
        """Read the caches at the moment of a refusal: this run's writes have changed them."""
        if _FULL in text and self.rmd.requests_that_write != self._writes_at_reading:
            try:
                await self.read_caches()
            except TargetFailure:
                self.caches = []

    async def sent(self, request: t.Awaitable[Stored]) -> Stored:
        """The answer of a write; a refusal for lack of ways leads to a look at the free ones."""
        try:
            return await request
        except Refused as refused:
            await self.look_again(refused.text)
            raise

    async def free_group(self, item: FormerWorkload) -> None:
        """Free the group of a workload that the daemon lost with its database.

        It does not know groups without workloads, but a workload of the same name takes the group
        over, and removes it on deletion. If not even the smallest workload fits, the group stays.
        """
        try:
            body = body_of(item.uuid, item.core_ids, item.smallest, self.wire)
            await self.rmd.delete((await self.rmd.create(body)).id)
        except Refused:
            self.unreclaimed = True

    async def took_effect(self, step: Step) -> Stored | None:
        """The workload of a write with a lost answer that took effect, if the daemon answers."""
        if step.desired is None:
            return None
        try:
            found = [item for item in await self.rmd.workloads() if item.uuid == step.uuid]
        except TargetFailure:
            return None
        is_there = bool(found) and plan(found, [step.desired])[0].action == "unchanged"
        return found[0] if is_there else None

    def explained(self, text: str) -> str:
        """A message of the daemon with its meaning."""
        meaning = explained(text, self.wire, self.stored, self.caches)
        return meaning + _LOST if self.unreclaimed and _FULL in text else meaning


_WRITING = ("create", "change", "replace", "delete")
# Prefixes of responses: upstream's word for a definite refusal, and another for a request that was
# not tried or not answered, such as during an outage. Pods may be deleted after the first, never
# after the second.
REFUSED_RESPONSE = "Fail: "
FAILED_RESPONSE = "Failed: "


@dataclass
class Outcome:
    """Outcome of one step.

    ``stored`` is the daemon's present workload. ``problem`` is the reason of a failure, ``note``
    the action after it.
    """

    step: Step
    response: str = ""
    note: str = ""
    stored: Stored | None = None
    problem: TargetFailure | None = None
    changed: bool = False

    @property
    def is_open(self) -> bool:
        """Whether its write is still to do."""
        return self.step.action in _WRITING and self.problem is None

    @property
    def has_failed(self) -> bool:
        """Whether its step failed; an unchanged workload may have a problem, too."""
        return self.problem is not None and self.step.action != "unchanged"

    def fail(self, problem: TargetFailure) -> None:
        self.problem = problem
        is_refused = problem.reason in ("refused", "conflict")
        words = problem.text if is_refused and isinstance(problem, Refused) else problem.detail
        self.response = (REFUSED_RESPONSE if is_refused else FAILED_RESPONSE) + words

    def succeed(self, stored: Stored | None, status: int) -> None:
        self.changed, self.stored = True, stored
        self.response = f"Success: {status}"


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
