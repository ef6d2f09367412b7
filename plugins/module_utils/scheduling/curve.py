# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A node's electrical power over its CPU use."""

from __future__ import annotations

import bisect
import math
import typing as t
from dataclasses import dataclass

from ..base.boundary import InvalidField, shown

# Beyond any machine. All curves are one table, in which one absurd curve would reduce the precision
# of the others.
_MAX_POINTS = 1_000
_MAX_CORES = 100_000
_MAX_WATTS = 1_000_000
_MIN_STEP_CORES = 1e-6


@dataclass(frozen=True)
class Curve:
    """Piecewise linear and of any shape: ``watts[i]`` at ``cores[i]``, cores strictly ascending."""

    cores: tuple[float, ...]
    watts: tuple[float, ...]

    def watts_at(self, cores: float) -> float:
        """Interpolated watts, clamped at both ends."""
        if not self.covers(cores):
            return self.watts[0] if cores < self.cores[0] else self.watts[-1]
        right = min(max(bisect.bisect_right(self.cores, cores), 1), len(self.cores) - 1)
        left_cores, left_watts = self.cores[right - 1], self.watts[right - 1]
        share = (cores - left_cores) / (self.cores[right] - left_cores)
        return left_watts + share * (self.watts[right] - left_watts)

    def covers(self, cores: float) -> bool:
        """Whether the curve covers this CPU use."""
        return self.cores[0] <= cores <= self.cores[-1]


def read_curve(given: t.Any, path: str) -> Curve:
    """A curve from ``{"cpu": [cores], "watts": [W]}``. Raises InvalidField."""
    if not isinstance(given, dict) or not {"cpu", "watts"} <= given.keys():
        raise InvalidField(path, "a power curve is {cpu: [cores], watts: [watts]}")
    cores = _numbers(given["cpu"], f"{path}.cpu", _MAX_CORES)
    watts = _numbers(given["watts"], f"{path}.watts", _MAX_WATTS)
    if len(cores) != len(watts):
        problem = f"{len(cores)} values of cpu and {len(watts)} of watts; give one for each"
        raise InvalidField(path, problem)
    if len(cores) < 2:
        raise InvalidField(path, "a power curve needs at least two points")
    if any(right - left < _MIN_STEP_CORES for left, right in zip(cores, cores[1:])):
        raise InvalidField(f"{path}.cpu", "the values must ascend, by 0.000001 or more")
    return Curve(cores, watts)


def _numbers(values: t.Any, path: str, most: int) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)) or len(values) > _MAX_POINTS:
        raise InvalidField(path, f"it must be a list of at most {_MAX_POINTS} numbers")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidField(path, f"{shown(value)} is not a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidField(path, f"{value} is not finite; leave the node without a curve")
        if not 0 <= value <= most:
            raise InvalidField(path, f"{shown(value)} is not from 0 to {most}")
    return tuple(map(float, values))
