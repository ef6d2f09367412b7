# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods that wait for the cheapest hour in which they still end in time.

The annotations are a tenant's: they may delay the tenant's own pod, by a week at most, and nothing
else. A pod whose annotations cannot be used is placed at once, with a finding.
"""

from __future__ import annotations

import bisect
import datetime
import functools
import itertools
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, InvalidField, guarded, subject_of
from ..base.fields.lenient import member, text
from ..base.json_types import Object
from ..base.units import format_time, parse_duration, parse_time
from ..scheduling.plan import UnplacedPod
from ..scheduling.pod_reader import is_pending
from .series import PriceSeries

FINISH_BY = "wattwise.github.io/finish-by"
EXPECTED_DURATION = "wattwise.github.io/expected-duration"
MAX_DELAY_SECONDS = 7 * 86400.0
_DEVICES = ("resourceClaims", "deviceClaims")
# A pod may take longer than it is said to.
_SPARE = 1.1
# Two starts whose mean prices differ by less are equal.
_TOLERANCE = 1e-6

PodName = tuple[str, str]


class Wish(t.NamedTuple):
    """The annotations of a pod: seconds since the epoch, and seconds."""

    finish_by: float
    duration: float


@dataclass(frozen=True)
class Deferral:
    """Which pods wait, by a series and the time.

    A pod starts early enough to end ``margin_seconds`` before its time, at 1.1 of its duration.
    """

    series: PriceSeries
    margin_seconds: float
    scheduler_name: str
    now: float

    def waiting(self, pods: t.Iterable[t.Any]) -> tuple[dict[PodName, UnplacedPod], list[Finding]]:
        """The pods to place that wait, with the reason, and findings about annotations."""
        waiting: dict[PodName, UnplacedPod] = {}
        findings: list[Finding] = []
        starts: dict[Wish, float] = {}
        for pod in pods:
            subject = subject_of(pod, "Pod")
            wish = guarded(subject, functools.partial(self._wish_of, pod))
            if wish is None:
                continue
            if isinstance(wish, Finding):
                findings.append(wish)
                continue
            if wish not in starts:
                starts[wish] = self.start(wish)
            if starts[wish] > self.now:
                found = _unplaced(pod, wish, starts[wish])
                waiting[found.namespace, found.pod] = found
        return waiting, findings

    def _wish_of(self, pod: Object) -> Wish | None:
        """None for a pod without a deadline, or not to place. Raises InvalidField."""
        annotations = member(pod, "metadata", "annotations")
        if not isinstance(annotations, dict) or FINISH_BY not in annotations:
            return None
        return wish_of(pod) if is_pending(pod, self.scheduler_name) else None

    def start(self, wish: Wish) -> float:
        """The cheapest start that still ends in time; the present if that is past."""
        latest = wish.finish_by - _SPARE * wish.duration - self.margin_seconds
        return cheapest_start(self.series, self.now, latest, wish.duration)


def without(pods: t.Iterable[t.Any], waiting: t.Container[PodName]) -> list[t.Any]:
    """The pods that do not wait."""
    return [pod for pod in pods if _name(pod) not in waiting]


def wish_of(pod: Object) -> Wish:
    """The annotations of a pod. Raises InvalidField."""
    for name in _DEVICES:
        if member(pod, "spec", name):
            raise InvalidField(
                f"spec.{name}", "devices are given at once; leave the annotation out"
            )
    annotations = member(pod, "metadata", "annotations")
    where = f"metadata.annotations[{FINISH_BY}]"
    finish_by = parse_time(annotations[FINISH_BY], where).timestamp()
    given = annotations.get(EXPECTED_DURATION)
    duration = parse_duration(given, f"metadata.annotations[{EXPECTED_DURATION}]")
    if not 0 < duration <= MAX_DELAY_SECONDS:
        raise InvalidField(
            f"metadata.annotations[{EXPECTED_DURATION}]", "it is not from 1s to 168h"
        )
    created = parse_time(member(pod, "metadata", "creationTimestamp"), "metadata.creationTimestamp")
    if finish_by - created.timestamp() > MAX_DELAY_SECONDS:
        raise InvalidField(where, "it is more than a week after the creation of the pod")
    return Wish(finish_by, duration)


def cheapest_start(series: PriceSeries, earliest: float, latest: float, seconds: float) -> float:
    """The start with the lowest mean price, the first of equal ones; the earliest without a choice.

    The mean changes its slope only where a price begins at the start or at the end, so that no
    other start has to be tried.
    """
    if latest <= earliest:
        return earliest
    pieces = list(series.pieces(earliest, latest + seconds))
    edges = [piece.start for piece in pieces] + [pieces[-1].end]
    average = series.average
    costs = [
        0.0,
        *itertools.accumulate((each.price - average) * (each.end - each.start) for each in pieces),
    ]

    def cost_until(time: float) -> float:
        index = min(max(0, bisect.bisect_right(edges, time) - 1), len(pieces) - 1)
        return costs[index] + (pieces[index].price - average) * (time - edges[index])

    starts = {earliest, latest, *edges, *(edge - seconds for edge in edges)}
    found = [
        (cost_until(start + seconds) - cost_until(start), start)
        for start in sorted(starts)
        if earliest <= start <= latest
    ]
    largest = max(abs(piece.price - average) for piece in pieces)
    best = min(cost for cost, _start in found) + _TOLERANCE * largest * seconds
    return next(start for cost, start in found if cost <= best)


def _name(pod: t.Any) -> PodName:
    namespace, name = (text(member(pod, "metadata", part)) for part in ("namespace", "name"))
    return namespace or "default", name


def _unplaced(pod: Object, wish: Wish, start: float) -> UnplacedPod:
    return UnplacedPod(
        *_name(pod),
        f"It starts at {_time(start)}, the cheapest time after which it still ends before "
        f"{_time(wish.finish_by)}.",
        text(member(pod, "metadata", "uid")) or None,
        starts=_time(start),
    )


def _time(seconds: float) -> str:
    return format_time(datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc))
