# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The demand that runs recorded: pods that came and went, and times without a record.

The reserve needs *net growth*: the requests of the pods that arrived within a window, less those
of the pods that departed in it. Statistics at a time use only records before the last full hour,
so they are computed once an hour.
"""

from __future__ import annotations

import bisect
import math
import typing as t
from dataclasses import dataclass

from ..base.libraries import numpy

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats

HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY
# Records before this are forgotten: demand changes with seasons.
_MEMORY = 8 * WEEK
# Pods that came yesterday count half of those that came today (the half-life of VPA's recommender).
_HALF_LIFE = DAY
# Neighbours of an hour of the week that are pooled with it, in seconds.
_NEIGHBOURS = HOUR
# A pool needs samples of as many days, lest one odd day decides.
_MIN_DAYS = 3
_ORDINARY = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})

Requests = t.Mapping[str, float]


class Growth(t.NamedTuple):
    """A quantile of net growth of pods that request the same ``devices``.

    ``total`` is what they request together, ``largest`` what the largest pod requests, and
    ``typical`` what the mean pod requests.
    """

    devices: frozenset[str]
    total: dict[str, float]
    largest: dict[str, float]
    typical: dict[str, float]


class Quantiles(t.NamedTuple):
    """Quantiles of net ``growth`` and of the size of ``pods``, as shares of the largest
    ``machine``, whose amounts are sorted by name."""

    growth: float
    pods: float
    machine: tuple[tuple[str, float], ...]


@dataclass
class _Series:
    """Requests of the pods with the same devices: changes by ascending time."""

    names: tuple[str, ...]
    arrivals: Floats
    requests: Floats
    times: Floats
    levels: Floats

    def growth(self, ends: Floats, window: float) -> Floats:
        """Net growth (ends, names) within the window before each of the times, inclusive."""
        return self._level(ends) - self._level(ends - window)

    def _level(self, times: Floats) -> Floats:
        return self.levels[numpy.searchsorted(self.times, times, side="right")]


class Demand:
    """A record that grows. Times are seconds since the epoch.

    ``since`` is the time at which recording began. Pods that were there already are no arrivals.
    """

    def __init__(self, since: float) -> None:
        self.since = since
        self._arrivals: list[tuple[float, tuple[tuple[str, float], ...]]] = []
        self._departures: list[tuple[float, tuple[tuple[str, float], ...]]] = []
        self._holes: list[tuple[float, float]] = []
        #: Names of all requested resources.
        self.names: set[str] = set()
        self._memo: dict[tuple[float, Quantiles], list[Growth]] = {}
        self._memo_hour = -math.inf

    def __len__(self) -> int:
        """Number of the events that are kept, at most those of twice the memory."""
        return len(self._arrivals) + len(self._departures)

    def arrived(self, at: float, requests: Requests) -> None:
        """Record a pod's arrival; one from before the record began is ignored."""
        self._insert(self._arrivals, at, requests)

    def departed(self, at: float, requests: Requests) -> None:
        """Record that a pod's requests ended."""
        self._insert(self._departures, at, requests)

    def unobserved(self, start: float, end: float) -> None:
        """Note that nobody recorded in this time; no window that touches it counts."""
        if end > start:
            self._holes.append((start, end))
            self._changed(start)

    def _insert(
        self,
        records: list[tuple[float, tuple[tuple[str, float], ...]]],
        at: float,
        requests: Requests,
    ) -> None:
        amounts = tuple(sorted((name, value) for name, value in requests.items() if value > 0))
        if not (math.isfinite(at) and at >= self.since and amounts):
            return
        self.names.update(name for name, _amount in amounts)
        record = (at, amounts)
        if not records or records[-1] <= record:
            records.append(record)
        else:
            bisect.insort(records, record)
        newest = records[-1][0]
        if records[0][0] < newest - 2 * _MEMORY:  # rarely, as a list moves all that it keeps
            del records[: bisect.bisect_left(records, (newest - _MEMORY,))]
        self._changed(at)

    def _changed(self, at: float) -> None:
        if at < self._memo_hour:
            self._memo.clear()

    def seconds_before(self, now: float) -> float:
        """Time recorded before ``now``, without holes."""
        lost = sum(max(0.0, min(end, now) - max(start, self.since)) for start, end in self._holes)
        return max(0.0, now - self.since - lost)

    def growth(self, now: float, window: float, quantiles: Quantiles) -> list[Growth]:
        """The quantile, over past arrivals, of growth within a window before each of them.

        Arrivals of this hour of the week and its neighbours count if there are enough of them, else
        those of this hour of the day, else all. Devices that hardly any recent pod requested have
        no growth: its pods are among those that the quantile leaves out.
        """
        hour = math.floor(now / HOUR) * HOUR
        if hour != self._memo_hour:
            self._memo.clear()
            self._memo_hour = hour
        key = window, quantiles
        if key not in self._memo:
            self._memo[key] = self._growth(hour, window, quantiles)
        return self._memo[key]

    def _growth(self, hour: float, window: float, quantiles: Quantiles) -> list[Growth]:
        found = []
        all_series = self._series(hour)
        recent = {devices: _recency(each.arrivals, hour) for devices, each in all_series.items()}
        everything = sum(float(weights.sum()) for weights in recent.values())
        for devices, series in all_series.items():
            ends, weights = series.arrivals, recent[devices]
            sound = self._is_whole(ends, window)
            if not sound.any() or weights.sum() < (1 - quantiles.pods) * everything:
                continue
            pool = _pool(ends, sound, hour + HOUR / 2, quantiles.growth)
            grown = numpy.maximum(series.growth(ends[pool], window), 0.0)
            total = numpy.quantile(grown, quantiles.growth, axis=0, method="higher")
            requests = series.requests[pool]
            largest = _recurring(series, weights * sound, quantiles)
            total = numpy.maximum(total, largest)
            mean = requests.sum(axis=0) / numpy.maximum((requests > 0).sum(axis=0), 1)
            found.append(
                Growth(
                    devices,
                    *(
                        dict(zip(series.names, map(float, values)))
                        for values in (total, largest, numpy.minimum(mean, total))
                    ),
                )
            )
        return found

    def _is_whole(self, ends: Floats, window: float) -> Booleans:
        """Whether the window before each time was recorded completely."""
        whole = ends - window >= self.since
        for start, end in self._holes:
            whole &= (ends <= start) | (ends - window >= end)
        return whole

    def _series(self, until: float) -> dict[frozenset[str], _Series]:
        arrivals, departures = (
            records[
                bisect.bisect_left(records, (until - _MEMORY,)) : bisect.bisect_left(
                    records, (until,)
                )
            ]
            for records in (self._arrivals, self._departures)
        )
        kinds: dict[frozenset[str], tuple[list[t.Any], list[t.Any]]] = {}
        for index, records in enumerate((arrivals, departures)):
            for record in records:
                devices = frozenset(name for name, _amount in record[1]) - _ORDINARY
                kinds.setdefault(devices, ([], []))[index].append(record)
        return {
            devices: _series_of(*records)
            for devices, records in sorted(kinds.items(), key=lambda item: sorted(item[0]))
            if records[0]
        }


def _series_of(arrivals: list[t.Any], departures: list[t.Any]) -> _Series:
    names = tuple(
        sorted({name for _at, amounts in arrivals + departures for name, _amount in amounts})
    )
    column = {name: index for index, name in enumerate(names)}
    table = numpy.zeros((len(arrivals) + len(departures), len(names)))
    for row, (_at, amounts) in enumerate(arrivals + departures):
        for name, value in amounts:
            table[row, column[name]] = value
    requests = table[: len(arrivals)].copy()
    table[len(arrivals) :] *= -1
    times = numpy.array([at for at, _amounts in arrivals + departures], dtype=float)
    order = numpy.argsort(times, kind="stable")
    levels = numpy.zeros((len(times) + 1, len(names)))
    numpy.cumsum(table[order], axis=0, out=levels[1:])
    ends = numpy.array([at for at, _amounts in arrivals], dtype=float)
    return _Series(names, ends, requests, times[order], levels)


def _pool(ends: Floats, sound: Booleans, centre: float, quantile: float) -> Booleans:
    """The most specific pool of arrivals with enough samples on enough days."""
    needed = 2 / max(1 - quantile, 1e-3)
    for period in (WEEK, DAY):
        distance = numpy.abs((ends - centre + period / 2) % period - period / 2)
        pool = sound & (distance <= HOUR / 2 + _NEIGHBOURS)
        days = numpy.unique(numpy.floor((ends[pool] - centre) / period + 0.5))
        if pool.sum() >= needed and len(days) >= _MIN_DAYS:
            return pool
    return sound


def _recency(arrivals: Floats, now: float) -> Floats:
    """Weights that halve with each half-life of age."""
    return numpy.exp2((arrivals - now) / _HALF_LIFE)


def _recurring(series: _Series, weights: Floats, quantiles: Quantiles) -> Floats:
    """Requests of the pod at the quantile of size; a size is the largest share of a machine."""
    sizes = dict(quantiles.machine)
    column = numpy.array([max(sizes.get(name, 0.0), 1e-9) for name in series.names])
    size = (series.requests / column).max(axis=1)
    order = numpy.argsort(size, kind="stable")
    upto = numpy.cumsum(weights[order])
    index = int(numpy.searchsorted(upto, quantiles.pods * upto[-1]))
    found: Floats = series.requests[order[min(index, len(order) - 1)]]
    return found
