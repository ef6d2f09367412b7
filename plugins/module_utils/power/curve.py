# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A node's electrical power over its CPU use."""

from __future__ import annotations

import bisect
import math
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput


@dataclass(frozen=True)
class Curve:
    """Piecewise linear and of any shape: ``watts[i]`` at ``cores[i]``, cores strictly ascending."""

    cores: tuple[float, ...]
    watts: tuple[float, ...]

    def watts_at(self, cores: float) -> float:
        """Interpolated watts; beyond either end those of the end."""
        if not self.covers(cores):
            return self.watts[0] if cores < self.cores[0] else self.watts[-1]
        right = min(max(bisect.bisect_right(self.cores, cores), 1), len(self.cores) - 1)
        left_cores, left_watts = self.cores[right - 1], self.watts[right - 1]
        share = (cores - left_cores) / (self.cores[right] - left_cores)
        return left_watts + share * (self.watts[right] - left_watts)

    def covers(self, cores: float) -> bool:
        """Whether the curve says anything about this CPU use."""
        return self.cores[0] <= cores <= self.cores[-1]


def read_curve(given: t.Any, where: str) -> Curve:
    """A curve from ``{"cpu": [cores], "watts": [W]}``. Raises InvalidInput, naming ``where``."""
    if not isinstance(given, dict) or not {"cpu", "watts"} <= given.keys():
        raise InvalidInput(f"{where}: a power curve is {{cpu: [cores], watts: [watts]}}")
    cores = _finite_numbers(given["cpu"], f"{where}.cpu")
    watts = _finite_numbers(given["watts"], f"{where}.watts")
    if len(cores) != len(watts):
        raise InvalidInput(
            f"{where}: {len(cores)} values of cpu and {len(watts)} of watts; give one for each"
        )
    if len(cores) < 2:
        raise InvalidInput(f"{where}: a power curve needs at least two points")
    if any(right <= left for left, right in zip(cores, cores[1:])):
        raise InvalidInput(f"{where}.cpu: the values must ascend, each one once")
    if cores[0] < 0 or min(watts) < 0:
        raise InvalidInput(f"{where}: neither CPU use nor watts can be negative")
    return Curve(cores, watts)


def _finite_numbers(values: t.Any, where: str) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)):
        raise InvalidInput(f"{where} must be a list of numbers")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidInput(f"{where}: {value!r} is not a number")
        if not math.isfinite(value):
            raise InvalidInput(f"{where}: {value} is not finite; leave the node without a curve")
    return tuple(map(float, values))
