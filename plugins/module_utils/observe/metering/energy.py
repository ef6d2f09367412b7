# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Energy of workloads by parts of time, from the growth of Kepler's counters.

A counter that fell restarted at zero, and its value is its growth; the energy between its last
reading and the restart is not attributed. So a sum never exceeds the counters.
"""

from __future__ import annotations

import datetime
import math
import typing as t
from dataclasses import dataclass

from ...base.context import Result
from ...base.errors import InvalidInput
from ...base.json_types import Object
from ...base.units import format_time, parse_time
from ...scheduling.workload import Workload
from .kepler import Zones

# The joules of a period change little in this time and share of it, and they are expensive for
# Prometheus.
_HOLDS_SECONDS = 300.0
_HOLDS_SHARE = 1 / 288
# Growth of several runs is merged into one part of up to this share of the period.
_PART_SHARE = 1 / 24


@dataclass(frozen=True)
class Part:
    """Joules of workloads from ``begin`` to ``end``.

    A workload without kind and name stands for the ended pods of its namespace.
    """

    begin: datetime.datetime
    end: datetime.datetime
    joules: t.Mapping[Workload, float]

    def as_dict(self) -> Result:
        """The part in metering.json."""
        return {
            "begin": format_time(self.begin),
            "end": format_time(self.end),
            "workloads": [
                {
                    "namespace": workload.namespace,
                    "workload_kind": workload.kind,
                    "workload": workload.name,
                    "joules": round(joules, 3),
                }
                for workload, joules in sorted(self.joules.items())
            ],
        }


def growth(before: Zones, now: Zones) -> float:
    """Growth of counters in joules; a new zone began at zero."""
    return math.fsum(
        joules - before[zone] if joules >= before.get(zone, math.inf) else joules
        for zone, joules in now.items()
    )


def parts_of(document: Object, now: datetime.datetime) -> list[Part]:
    """The parts in a metering document; none if one has an impossible time."""
    parts: list[Part] = []
    for given in document.get("energy") or ():
        try:
            begin, end = parse_time(given["begin"]), parse_time(given["end"])
        except InvalidInput:
            return []
        if not begin < end <= now or (parts and begin < parts[-1].end):
            return []
        joules = {
            Workload(one["namespace"], one["workload_kind"], one["workload"]): float(one["joules"])
            for one in given["workloads"]
        }
        parts.append(Part(begin, end, joules))
    return parts


def is_due(parts: t.Sequence[Part], now: datetime.datetime, period: float) -> bool:
    """Whether to query Prometheus again for the joules of the last period."""
    if not parts:
        return True
    # Less than the period if Prometheus has no more, or the period was shorter before.
    counted = _seconds(parts[-1].begin, parts[-1].end)
    holds = max(_HOLDS_SECONDS, counted * _HOLDS_SHARE)
    return counted > period or _seconds(parts[-1].end, now) >= holds


def extended(parts: t.Sequence[Part], new: Part, period: float) -> list[Part]:
    """The parts with a new one appended, without those that ended before the last period."""
    kept = of_last_period(parts, new.end, period)
    if kept and _seconds(kept[-1].begin, new.end) <= period * _PART_SHARE:
        last = kept.pop()
        joules = dict(last.joules)
        add(joules, new.joules)
        new = Part(last.begin, new.end, joules)
    return [*kept, new]


def add(sums: dict[Workload, float], more: t.Mapping[Workload, float]) -> None:
    """Add joules to the sums of their workloads."""
    for workload, joules in more.items():
        sums[workload] = sums.get(workload, 0.0) + joules


def of_last_period(parts: t.Iterable[Part], now: datetime.datetime, period: float) -> list[Part]:
    """The parts that ended in the last period, in seconds here and above."""
    return [part for part in parts if _seconds(part.end, now) < period]


def _seconds(earlier: datetime.datetime, later: datetime.datetime) -> float:
    return (later - earlier).total_seconds()
