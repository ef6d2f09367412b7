# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks that move only by sleeping."""

from __future__ import annotations

import asyncio
import contextvars

from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import Pace


class FakeTime:
    """``pace`` is the duration of a visit; ``slept`` are its pauses, in seconds."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self.seconds = 0.0
        self.wall = wall
        self.slept: list[float] = []
        self.pace = Pace(
            clock=lambda: self.seconds,
            wall=lambda: self.wall + self.seconds,
            sleep=self._sleep,
            jitter=lambda: 0.5,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class TaskTime:
    """A clock of its own for each target, so that the pauses of one are no time for another."""

    def __init__(self) -> None:
        self._seconds = contextvars.ContextVar("seconds", default=0.0)
        self.pace = Pace(clock=self._seconds.get, sleep=self._sleep, jitter=lambda: 0.5)

    async def _sleep(self, seconds: float) -> None:
        self._seconds.set(self._seconds.get() + seconds)
        await asyncio.sleep(0)
