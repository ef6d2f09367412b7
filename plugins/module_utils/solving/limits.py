# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""How long a strategy may work. Work is counted; clocks are only a safety net."""

from __future__ import annotations

import math
import time
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Parameters
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput

LIMITS = ArgumentSpec(
    {
        "time_limit": {"type": "float", "default": 10.0},
        "seed": {"type": "int", "default": 0},
    }
)
# Of both solvers.
_GREATEST_SEED = (1 << 31) - 1
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

    @classmethod
    def of(cls, parameters: Parameters) -> Limits:
        """The limits that options of LIMITS say, from now on. Raises InvalidInput."""
        seconds, seed = parameters["time_limit"], parameters["seed"]
        if not (math.isfinite(seconds) and seconds > 0):
            raise InvalidInput(
                f"time_limit: {seconds} is not allowed; it must be greater than 0 seconds"
            )
        if not 0 <= seed <= _GREATEST_SEED:
            raise InvalidInput(
                f"seed: {seed} is not allowed; it must be 0 or more, and at most {_GREATEST_SEED}"
            )
        return cls(seconds, seed)

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
