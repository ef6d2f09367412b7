# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Limits of a strategy's work. Work is counted; clocks are only a safety net."""

from __future__ import annotations

import math
import time
import typing as t
from dataclasses import dataclass, field

from ..base.argspec import ArgumentSpec
from ..base.context import Parameters
from ..base.errors import InvalidInput

LIMITS = ArgumentSpec(
    {"time_limit": {"type": "float", "default": 10.0}, "seed": {"type": "int", "default": 0}}
)
# Largest seed of both solvers.
_MAX_SEED = (1 << 31) - 1
# Factor of the limit at which the wall clock ends the work.
_PATIENCE = 10.0


@dataclass
class Limits:
    """Seconds of processor time, and the seed of all random numbers.

    On a busy machine the same work takes longer. To keep the answer equal, the wall clock ends it
    only after several times the limit. ``hit`` becomes True if a clock ended work before its
    counted amount; only then equal input may give different answers.
    """

    seconds: float
    seed: int = 0
    processor: t.Callable[[], float] = time.process_time
    wall: t.Callable[[], float] = time.monotonic
    hit: bool = False
    _start: tuple[float, float] = field(init=False)

    @classmethod
    def of(cls, parameters: Parameters) -> Limits:
        """The limits of options of LIMITS, starting now. Raises InvalidInput."""
        seconds, seed = parameters["time_limit"], parameters["seed"]
        if not (math.isfinite(seconds) and seconds > 0):
            raise InvalidInput(
                f"time_limit: {seconds} is not allowed; it must be greater than 0 seconds"
            )
        if not 0 <= seed <= _MAX_SEED:
            raise InvalidInput(
                f"seed: {seed} is not allowed; it must be 0 or more, and at most {_MAX_SEED}"
            )
        return cls(seconds, seed)

    def __post_init__(self) -> None:
        self._start = (self.processor(), self.wall())

    def begin(self) -> Limits:
        """The same limits for work that begins now; the wall clock goes on."""
        self._start = (self.processor(), self._start[1])
        return self

    def is_too_late(self) -> bool:
        """Whether the wall clock ends even the preparation of the work, which is remembered."""
        self.hit = self.hit or self._wall_left() <= 0
        return self.hit

    def left(self) -> float:
        """Seconds of processor time until the end, never negative."""
        return max(0.0, min(self._processor_left(), self._wall_left()))

    def patience(self) -> float:
        """Seconds of wall clock after which unfinished work must end."""
        return max(0.0, min(_PATIENCE * self._processor_left(), self._wall_left()))

    def _processor_left(self) -> float:
        return self.seconds - (self.processor() - self._start[0])

    def _wall_left(self) -> float:
        return _PATIENCE * self.seconds - (self.wall() - self._start[1])

    def expired(self) -> bool:
        """Whether the time is over, which is remembered."""
        self.hit = self.hit or self.left() <= 0
        return self.hit
