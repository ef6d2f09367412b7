# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Demand that a seed generates: office days, nights of batch jobs, bursts, holidays, a full fleet.

The trace begins on a Monday at midnight. Pods of each kind arrive at random (a Poisson process)
at a rate that follows the hour; by Little's law, rate times duration is the number that runs.
"""

from __future__ import annotations

import datetime
import random
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.trace import (
    QualityOfService,
    Trace,
    TracePod,
    sorted_trace,
)

_HOUR, _DAY = 3600.0, 86400.0
_GIBIBYTE = 1 << 30
_MONDAY = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC).timestamp()
_WORKING_DAYS = range(5)


@dataclass(frozen=True)
class Pattern:
    """Shares of the fleet's cores that each kind of pod requests at its peak.

    ``steady`` pods run day and night, ``office`` pods on working days, ``nightly`` ones from 22 to
    4 o'clock. A burst of ``burst`` comes ``bursts_a_day`` times, all pods within a minute.
    ``holidays`` are days, counted from 0, on which nobody works.
    """

    steady: float = 0.1
    office: float = 0.0
    nightly: float = 0.0
    burst: float = 0.0
    bursts_a_day: float = 0.0
    holidays: frozenset[int] = frozenset()


PATTERNS: t.Mapping[str, Pattern] = {
    "office": Pattern(office=0.4),
    "nights": Pattern(nightly=0.5),
    "bursts": Pattern(office=0.15, burst=0.15, bursts_a_day=6.0),
    "holidays": Pattern(office=0.4, nightly=0.2, holidays=frozenset({2, 3})),
    "full": Pattern(steady=0.3, office=0.65, nightly=0.5),
    "mixed": Pattern(office=0.3, nightly=0.3, burst=0.05, bursts_a_day=4.0),
}


class _Kind(t.NamedTuple):
    """Millicores and GiB of each equally likely shape, class, and mean duration in seconds."""

    shapes: tuple[tuple[int, int], ...]
    qos: QualityOfService
    duration: float


_STEADY = _Kind(
    ((1000, 2), (2000, 8), (4000, 8), (4000, 32), (8000, 32), (16000, 48)), "guaranteed", 3 * _DAY
)
_OFFICE = _Kind(
    ((500, 1), (1000, 4), (2000, 4), (4000, 16), (6000, 12), (12000, 24)), "burstable", 4 * _HOUR
)
_BATCH = _Kind(((2000, 4), (4000, 8), (8000, 16), (16000, 64)), "best_effort", 0.5 * _HOUR)


def synthetic_trace(pattern: Pattern, cores: float, days: int, seed: int) -> Trace:
    """A trace for a fleet of this many cores. The same arguments give the same trace."""
    generator = _Generator(random.Random(seed), cores, days * _DAY)
    generator.there_already(_STEADY, pattern.steady)
    generator.flow(_STEADY, pattern.steady, lambda _time: 1.0)
    generator.flow(_OFFICE, pattern.office, lambda time: _office(time, pattern.holidays))
    generator.flow(_BATCH, pattern.nightly, _night)
    generator.bursts(_BATCH, pattern.burst, pattern.bursts_a_day)
    return sorted_trace(generator.pods, _MONDAY)


def _office(time: float, holidays: frozenset[int]) -> float:
    """Rises from 7 to 9 o'clock and falls from 17 to 19 o'clock; a twentieth remains."""
    day = int(time // _DAY)
    if day % 7 not in _WORKING_DAYS or day in holidays:
        return 0.05
    hour = time % _DAY / _HOUR
    return max(0.05, min(1.0, (hour - 7) / 2, (19 - hour) / 2))


def _night(time: float) -> float:
    hour = time % _DAY / _HOUR
    return 1.0 if hour >= 22 or hour < 4 else 0.0


class _Generator:
    def __init__(self, chance: random.Random, cores: float, end: float) -> None:
        self._chance, self._millicores, self._end = chance, 1000 * cores, end
        self.pods: list[TracePod] = []

    def there_already(self, kind: _Kind, share: float) -> None:
        """Pods of the first moment."""
        for _pod in range(round(self._number(kind, share))):
            self._add(kind, 0.0)

    def flow(self, kind: _Kind, share: float, level: t.Callable[[float], float]) -> None:
        """Pods at a rate that follows the level, by thinning of the highest rate."""
        rate = self._number(kind, share) / kind.duration
        time = self._chance.expovariate(rate) if rate > 0 else self._end
        while time < self._end:
            if self._chance.random() < level(time):
                self._add(kind, time)
            time += self._chance.expovariate(rate)

    def bursts(self, kind: _Kind, share: float, a_day: float) -> None:
        """Pods of one shape within a minute, several times a day."""
        time = self._chance.expovariate(a_day / _DAY) if share > 0 and a_day > 0 else self._end
        while time < self._end:
            shape = self._chance.choice(kind.shapes)
            for _pod in range(round(share * self._millicores / shape[0])):
                self._add(kind, time + self._chance.uniform(0.0, 60.0), shape)
            time += self._chance.expovariate(a_day / _DAY)

    def _number(self, kind: _Kind, share: float) -> float:
        """Pods of the kind that run at once at its peak."""
        mean = sum(millicores for millicores, _gibibytes in kind.shapes) / len(kind.shapes)
        return share * self._millicores / mean

    def _add(self, kind: _Kind, arrival: float, shape: tuple[int, int] | None = None) -> None:
        millicores, gibibytes = shape or self._chance.choice(kind.shapes)
        duration = self._chance.expovariate(1.0 / kind.duration)
        arrival = min(float(round(arrival)), self._end)
        departure = min(float(round(arrival + max(duration, 10.0))), self._end)
        requests = (("cpu", millicores), ("memory", gibibytes * _GIBIBYTE))
        self.pods.append(TracePod(arrival, departure, requests, kind.qos))
