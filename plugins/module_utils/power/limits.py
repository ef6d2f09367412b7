# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""How long a strategy may work. Work is counted; the clock is only a safety net."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field


@dataclass
class Limits:
    """Seconds of wall clock, and the seed of everything random.

    ``hit`` becomes True when the clock ended something before its counted work was done: only
    then may equal input give different answers.
    """

    seconds: float
    seed: int = 0
    clock: t.Callable[[], float] = time.monotonic
    hit: bool = False
    _start: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.clock()

    def left(self) -> float:
        """Seconds until the end, never negative."""
        return max(0.0, self.seconds - (self.clock() - self._start))

    def expired(self) -> bool:
        """Whether the time is over; remembers that it was."""
        self.hit = self.hit or self.left() <= 0
        return self.hit
