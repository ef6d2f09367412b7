# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The present state of one daemon: its workloads and caches, as read and as changed by writes."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.errors import TargetFailure
from .cache import Cache
from .client import Refused, Rmd
from .explain import explained
from .plan import Step, plan
from .workload import FormerWorkload, Stored, Wire, body_of

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
