# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Execution of one daemon's plan: delete, change, create, and restore after a failed change."""

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
from .workload import Desired, FormerWorkload, JsonObject, Stored, Wire, body_of, with_all_bandwidth

_WRITING = ("create", "change", "replace", "delete")
_LOST = (
    ". The daemon lost its database, and the previous workloads' groups still hold ways: remove"
    " them on the machine (rmdir in /sys/fs/resctrl) and restart the daemon"
)
# Prefixes of answers to a PATCH that was refused without any effect.
_UNTOUCHED = ("Failed to validate", "404:", "200:")
Part = t.TypeVar("Part")
# Prefixes of responses: upstream's word for a definite refusal, and another for a request that was
# not tried or not answered, such as during an outage. Pods may be deleted after the first, never
# after the second.
REFUSED_RESPONSE = "Fail: "
FAILED_RESPONSE = "Failed: "


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


@dataclass
class Run:
    """One daemon's state during the execution of its plan."""

    rmd: Rmd
    wanted: DesiredState
    stored: list[Stored] = field(default_factory=list)
    caches: list[Cache] = field(default_factory=list)
    wire: Wire = "0.2"
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    forgotten: t.Sequence[FormerWorkload] = ()
    unreclaimed: bool = False
    _writes_at_reading: int = 0

    async def reconcile(self) -> list[Outcome]:
        """Read, plan, write. Raises TargetFailure if the daemon cannot be read."""
        self.stored = await self.rmd.workloads()
        present = {item.uuid for item in self.stored}
        self.forgotten = [item for item in self.wanted.known if item.uuid not in present]
        if any(desired.all_cores for desired in self.wanted.desired):
            await self._read_caches()
        steps = self._plan()
        if self.forgotten or any(step.action in _WRITING[:3] for step in steps):
            await self._prepare()
            await self._reclaim()
            steps = self._plan()
        self.outcomes = {step.uuid: Outcome(step, stored=step.stored) for step in steps}
        for step in steps:
            if step.reason:
                self._fail(step, TargetFailure("conflict", step.reason))
            if step.action == "unchanged":
                self.outcomes[step.uuid].response = "Success: 200"
        await self._check(steps)
        await self._write([step for step in steps if self._is_open(step)])
        if self.wanted.shows_caches and (self.rmd.requests_that_write or not self.caches):
            with contextlib.suppress(TargetFailure):  # the writes count without them
                await self._read_caches()
        return [self.outcomes[step.uuid] for step in steps]

    def _plan(self) -> list[Step]:
        cpus = machine_cpus(self.caches) if self.caches else None
        return plan(self.stored, self.wanted.desired, self.wanted.absent, cpus)

    async def _prepare(self) -> None:
        """Input of writes: the daemon's version, and its caches if available."""
        self.wire = self.wanted.wire or await self.rmd.wire(self.stored)
        if not self.caches:
            await self._read_caches()

    async def _read_caches(self) -> None:
        self._writes_at_reading = self.rmd.requests_that_write
        try:
            self.caches = await self.rmd.caches()
        except Refused:  # may be forbidden, or impossible without a class; the daemon checks
            self.caches = []

    async def _reclaim(self) -> None:
        """Free the groups of workloads that the daemon lost with its database.

        It does not know groups without workloads, but a workload of the same name takes the group
        over, and removes it on deletion. If not even the smallest workload fits, the groups stay.
        """
        if self.wanted.check_mode:
            return
        for item in self.forgotten:
            await self._free_group(item)

    async def _free_group(self, item: FormerWorkload) -> None:
        try:
            body = body_of(item.uuid, item.core_ids, item.smallest, self.wire)
            await self.rmd.delete((await self.rmd.create(body)).id)
        except Refused:
            self.unreclaimed = True

    def _is_open(self, step: Step) -> bool:
        return step.action in _WRITING and self.outcomes[step.uuid].problem is None

    def _fail(self, step: Step, problem: TargetFailure) -> None:
        outcome = self.outcomes[step.uuid]
        outcome.problem = problem
        if problem.reason not in ("refused", "conflict"):
            outcome.response = FAILED_RESPONSE + problem.detail
        elif isinstance(problem, Refused):
            outcome.response = REFUSED_RESPONSE + problem.text
        else:
            outcome.response = REFUSED_RESPONSE + problem.detail

    async def _check(self, steps: t.Sequence[Step]) -> None:
        """The checks before any write."""
        for step in steps:
            desired = step.desired
            if desired is None or not self._is_open(step):
                continue
            if self.wire == "0.2" and desired.settings.mba != (None, None):
                text = "this daemon is RMD v0.2, which knows no memory bandwidth; remove mba"
                self._fail(step, TargetFailure("refused", text))
            elif self.wanted.require_capacity and step.action == "create":
                await self._require_capacity(step, desired)

    async def _require_capacity(self, step: Step, desired: Desired) -> None:
        cache = desired.settings.cache
        try:
            if desired.settings.policy:
                cache = await self._of_policy(desired.settings.policy)
            if cache is None:
                return
            scores = await self.rmd.hospitality(*cache)
        except TargetFailure as problem:
            self._fail(step, problem)
            return
        own = [item.id for item in self.caches if item.cpus & desired.cpus] or list(scores)
        full = [str(number) for number in own if not scores.get(number)]
        if full:
            text = f"Not enough cache left on cache_id {full[0]}"
            await self._look_again(text)
            self._fail(step, TargetFailure("refused", "nothing was sent: " + self._explained(text)))

    async def _of_policy(self, name: str) -> tuple[int, int] | None:
        """v0.3 cannot score by a policy's name, so the request has its numbers."""
        policy = (await self.rmd.policies()).get(name)
        most, least = (whole(member(policy, "cache", key)) for key in ("max", "min"))
        return None if most is None or least is None else (most, least)

    async def _write(self, steps: t.Sequence[Step]) -> None:
        """First all steps that free resources, then changes (shrinking ones first), then creations.

        If the daemon is lost midway, the remaining steps fail with the same reason.
        """
        if self.wanted.check_mode:
            for step in steps:
                self.outcomes[step.uuid].changed = True
            return
        changes = sorted((step for step in steps if step.action == "change"), key=_growth)
        work: list[tuple[Step, t.Callable[[Step], t.Awaitable[None]]]] = [
            *((step, self._delete) for step in steps if step.action in ("delete", "replace")),
            *((step, self._change) for step in changes),
            *((step, self._create) for step in steps if step.action in ("create", "replace")),
        ]
        lost: TargetFailure | None = None
        for step, act in work:
            outcome = self.outcomes[step.uuid]
            if outcome.problem is not None:
                continue
            if lost is not None:
                self._fail(step, lost)
                continue
            try:
                await act(step)
            except Refused as refused:
                refused.explain(self._explained(refused.text), outcome.note)
                self._fail(step, refused)
            except TargetFailure as failure:
                if not await self._took_effect(step):
                    lost = failure
                    self._fail(step, failure)

    async def _delete(self, step: Step) -> None:
        stored = _required(step.stored)
        was_there = await self.rmd.delete(stored.id)
        if not was_there and stored.settings.cache is not None:
            # It existed a moment ago, so the daemon lost its database meanwhile.
            self.wire = self.wanted.wire or await self.rmd.wire(self.stored)
            await self._free_group(
                FormerWorkload(stored.uuid, stored.core_ids, stored.settings.cache)
            )
        outcome = self.outcomes[step.uuid]
        outcome.changed, outcome.stored, outcome.response = True, None, "Success: 200"
        self.stored.remove(stored)

    async def _change(self, step: Step) -> None:
        desired, before = _required(step.desired), _required(step.stored)
        settings = with_all_bandwidth(desired.settings, before.settings)
        body = body_of(step.uuid, before.core_ids, settings, self.wire)
        body["core_ids"] = list(before.core_ids)  # the daemon would treat other forms as other CPUs
        try:
            after = await self._sent(self.rmd.change(before.id, body))
        except Refused as refused:
            if not refused.text.startswith(_UNTOUCHED):
                await self._restore(step, before)
            raise
        self._succeed(step, after, 200)

    async def _create(self, step: Step) -> None:
        desired = _required(step.desired)
        body = body_of(step.uuid, desired.core_ids, desired.settings, self.wire)
        try:
            after = await self._sent(self.rmd.create(body))
        except Refused:
            if step.stored is not None:
                await self._post_again(step, step.stored)
            raise
        self._succeed(step, after, 201)

    async def _sent(self, request: t.Awaitable[Stored]) -> Stored:
        """The answer of a write; a refusal for lack of ways leads to a look at the free ones."""
        try:
            return await request
        except Refused as refused:
            await self._look_again(refused.text)
            raise

    async def _look_again(self, text: str) -> None:
        """Read the caches at the moment of a refusal: this run's writes have changed them."""
        if "Not enough cache" in text and self.rmd.requests_that_write != self._writes_at_reading:
            try:
                await self._read_caches()
            except TargetFailure:
                self.caches = []

    async def _restore(self, step: Step, before: Stored) -> None:
        """Restore after a failed PATCH, which releases the hardware but stays in the database."""
        await self.rmd.delete(before.id)
        self.stored.remove(before)
        await self._post_again(step, before)

    async def _post_again(self, step: Step, before: Stored) -> None:
        outcome = self.outcomes[step.uuid]
        try:
            outcome.stored = await self.rmd.create(_body_of_stored(before, self.wire))
        except TargetFailure as failure:
            outcome.stored, outcome.changed = None, True
            outcome.note = f"; the previous workload could not be restored: {failure.detail}"
            return
        outcome.changed = False
        self.stored.append(outcome.stored)
        outcome.note = f"; the previous workload was restored (id {outcome.stored.id})"

    async def _took_effect(self, step: Step) -> bool:
        """Whether a write with a lost answer took effect, as far as the daemon answers."""
        if step.desired is None:
            return False
        try:
            found = [item for item in await self.rmd.workloads() if item.uuid == step.uuid]
        except TargetFailure:
            return False
        if not found or plan(found, [step.desired])[0].action != "unchanged":
            return False
        self._succeed(step, found[0], 200)
        return True

    def _succeed(self, step: Step, after: Stored, status: int) -> None:
        outcome = self.outcomes[step.uuid]
        outcome.changed, outcome.stored = True, after
        outcome.response = f"Success: {status}"
        self.stored = [item for item in self.stored if item is not step.stored] + [after]

    def _explained(self, text: str) -> str:
        meaning = explained(text, self.wire, self.stored, self.caches)
        return meaning + _LOST if self.unreclaimed and "Not enough cache" in text else meaning


def _growth(step: Step) -> int:
    """Number of additional ways of a change."""
    after, before = _required(step.desired).settings, _required(step.stored).settings
    return (after.cache or (0, 0))[0] - (before.cache or (0, 0))[0]


def _required(part: Part | None) -> Part:
    """A part that a step of this kind always has; without it the plan is wrong."""
    if part is None:
        raise ValueError("a step lacks what its action works on")
    return part


def _body_of_stored(stored: Stored, wire: Wire) -> JsonObject:
    return body_of(stored.uuid, stored.core_ids, stored.settings, wire)
