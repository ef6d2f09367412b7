# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Electrical power of nodes over their CPU use."""

from __future__ import annotations

import bisect
import functools
import math
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import Finding, InvalidField, guarded, shown, subject_of

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

    @classmethod
    def of(cls, cores: t.Any, watts: t.Any, path: str = "curve") -> Curve:
        """A valid curve. Raises InvalidField."""
        curve = cls(
            _numbers(cores, f"{path}.cpu", _MAX_CORES), _numbers(watts, f"{path}.watts", _MAX_WATTS)
        )
        if len(curve.cores) != len(curve.watts):
            counts = f"{len(curve.cores)} values of cpu and {len(curve.watts)} of watts"
            raise InvalidField(path, f"{counts}; give one for each")
        if len(curve.cores) < 2:
            raise InvalidField(path, "a power curve needs at least two points")
        if any(right - left < _MIN_STEP_CORES for left, right in zip(curve.cores, curve.cores[1:])):
            raise InvalidField(f"{path}.cpu", "the values must ascend, by 0.000001 or more")
        return curve

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
    return Curve.of(given["cpu"], given["watts"], path)


@dataclass(frozen=True)
class Curves:
    """The curves of nodes by name, and the findings of unreadable ones."""

    by_node: t.Mapping[str, Curve] = field(default_factory=dict)
    findings: t.Sequence[Finding] = ()

    @classmethod
    def from_document(
        cls, given: t.Mapping[t.Any, t.Any], kind: str = "Node", path: str = "curve"
    ) -> Curves:
        """The curves of a curves document; ``kind`` and ``path`` name a curve in its finding."""
        by_node: dict[str, Curve] = {}
        findings: list[Finding] = []
        for name, curve in given.items():
            subject = subject_of({"name": name}, kind, "curves")
            read = guarded(subject, functools.partial(read_curve, curve, path))
            if isinstance(read, Finding):
                findings.append(read)
            else:
                by_node[name] = read
        return cls(by_node, findings)


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
