# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""How long a strategy may work. Work is counted; clocks are only a safety net."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field

# The wall clock ends the work after this times the limit.
_PATIENCE = 10.0


@dataclass
class Limits:
    """Seconds of processor time, and the seed of everything random.

    On a machine that others keep busy the same work takes longer. That shall not change the answer,
    so the wall clock ends it only after several times as long. ``hit`` becomes True when a clock
    ended something before its counted work was done: only then may equal input give different
    answers.
    """

    seconds: float
    seed: int = 0
    processor: t.Callable[[], float] = time.process_time
    wall: t.Callable[[], float] = time.monotonic
    hit: bool = False
    _start: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        self._start = (self.processor(), self.wall())

    def left(self) -> float:
        """Seconds of processor time until the end, never negative."""
        return max(0.0, min(self._processor_left(), self._wall_left()))

    def patience(self) -> float:
        """Seconds of wall clock after which work that is not finished has to end."""
        return max(0.0, min(_PATIENCE * self._processor_left(), self._wall_left()))

    def _processor_left(self) -> float:
        return self.seconds - (self.processor() - self._start[0])

    def _wall_left(self) -> float:
        return _PATIENCE * self.seconds - (self.wall() - self._start[1])

    def expired(self) -> bool:
        """Whether the time is over; remembers that it was."""
        self.hit = self.hit or self.left() <= 0
        return self.hit
