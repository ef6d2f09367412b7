# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods that wait for the cheapest hour in which they still end in time.

The annotations are a tenant's: they may delay the tenant's own pod, by a week at most, and nothing
else. A pod whose annotations cannot be used is placed at once, with a finding.
"""

from __future__ import annotations

import datetime
import functools
import typing as t
import zlib
from dataclasses import dataclass, field

from ..base.boundary import Finding, InvalidField, guarded, subject_of
from ..base.fields.lenient import member, text
from ..base.json_types import Object
from ..base.libraries import numpy
from ..base.units import format_time, parse_duration, parse_time
from ..scheduling.plan import UnplacedPod
from ..scheduling.pod_reader import is_pending
from ..solving.arrays import Floats
from .reader import time_of
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
    created: float


@dataclass(frozen=True)
class Deferral:
    """Which pods wait, by a series and the time.

    A pod starts early enough to end ``margin_seconds`` before its time, at 1.1 of its duration.
    """

    series: PriceSeries
    margin_seconds: float
    scheduler_name: str
    now: float
    _windows: dict[Wish, Window | None] = field(default_factory=dict, compare=False)

    def waiting(self, pods: t.Iterable[t.Any]) -> tuple[dict[PodName, UnplacedPod], list[Finding]]:
        """The pods to place that wait, with the reason, and findings about annotations."""
        waiting: dict[PodName, UnplacedPod] = {}
        findings: list[Finding] = []
        for pod in pods:
            subject = subject_of(pod, "Pod")
            wish = guarded(subject, functools.partial(self._wish_of, pod))
            if wish is None:
                continue
            if isinstance(wish, Finding):
                findings.append(wish)
                continue
            start = self.start(wish, _share(pod))
            if start > self.now:
                found = _unplaced(pod, wish, start)
                waiting[found.namespace, found.pod] = found
        return waiting, findings

    def _wish_of(self, pod: Object) -> Wish | None:
        """None for a pod without a deadline, or not to place. Raises InvalidField."""
        annotations = member(pod, "metadata", "annotations")
        if not isinstance(annotations, dict) or FINISH_BY not in annotations:
            return None
        return wish_of(pod) if is_pending(pod, self.scheduler_name) else None

    def start(self, wish: Wish, share: float) -> float:
        """A cheapest start that still ends in time; the present if the pod does not wait.

        Pods that all start when an hour begins would be a burst, for which more machines must be
        awake. So each starts after another ``share`` of the window.
        """
        if wish not in self._windows:
            latest = wish.finish_by - _SPARE * wish.duration - self.margin_seconds
            self._windows[wish] = awaited_window(self.series, wish, self.now, latest)
        window = self._windows[wish]
        return self.now if window is None else window.at(share)


def without_deadline(pods: t.Iterable[t.Any]) -> list[t.Any]:
    """The pods that may not wait; the others come when it suits, so that they need no reserve."""
    return [pod for pod in pods if member(pod, "metadata", "annotations", FINISH_BY) is None]


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
    finish_by = time_of(annotations[FINISH_BY], where)
    given = annotations.get(EXPECTED_DURATION)
    duration = parse_duration(given, f"metadata.annotations[{EXPECTED_DURATION}]")
    if not 1 <= duration <= MAX_DELAY_SECONDS:
        raise InvalidField(
            f"metadata.annotations[{EXPECTED_DURATION}]", "it is not from 1s to 168h"
        )
    created = parse_time(
        member(pod, "metadata", "creationTimestamp"), "metadata.creationTimestamp"
    ).timestamp()
    if finish_by - created > MAX_DELAY_SECONDS:
        raise InvalidField(where, "it is more than a week after the creation of the pod")
    return Wish(finish_by, duration, created)


class Window(t.NamedTuple):
    """Starts that cost the same, from the first to the last one."""

    first: float
    last: float

    def at(self, share: float) -> float:
        return self.first + share * (self.last - self.first)


def awaited_window(series: PriceSeries, wish: Wish, now: float, latest: float) -> Window | None:
    """The cheapest starts for which a pod waits; None if it starts at once.

    The window is that of the pod's creation, so that it stays the same while it passes. A pod does
    not wait if its window is over, or if no time is cheaper than its first moment.
    """
    began = min(wish.created, now)
    window = cheapest_starts(series, began, latest, wish.duration)
    if window.last < now:
        began, window = now, cheapest_starts(series, now, latest, wish.duration)
    return window if window.first > began else None


def cheapest_starts(series: PriceSeries, earliest: float, latest: float, seconds: float) -> Window:
    """The first starts with the lowest mean price; the earliest alone without a choice.

    The mean changes its slope only where a price begins at the start or at the end, so that no
    other start has to be tried, and starts between two equal ones are equal.
    """
    if latest <= earliest:
        return Window(earliest, earliest)
    pieces = list(series.pieces(earliest, latest + seconds))
    edges: Floats = numpy.array([*(piece.start for piece in pieces), pieces[-1].end])
    prices: Floats = numpy.array([piece.price for piece in pieces]) - series.average
    until: Floats = numpy.concatenate([[0.0], (prices * numpy.diff(edges)).cumsum()])
    starts: Floats = numpy.unique(numpy.concatenate([[earliest, latest], edges, edges - seconds]))
    starts = starts[(starts >= earliest) & (starts <= latest)]
    costs = numpy.interp(starts + seconds, edges, until) - numpy.interp(starts, edges, until)
    is_cheap = costs <= costs.min() + _TOLERANCE * abs(prices).max() * seconds
    first = int(is_cheap.argmax())
    number = int(numpy.append(is_cheap[first:], False).argmin())
    return Window(float(starts[first]), float(starts[first + number - 1]))


def _name(pod: t.Any) -> PodName:
    namespace, name = (text(member(pod, "metadata", part)) for part in ("namespace", "name"))
    return namespace or "default", name


def _share(pod: t.Any) -> float:
    """A number from 0 to 1 that is always the same for a pod, and any other for another one."""
    return zlib.crc32("/".join(_name(pod)).encode()) / 0xFFFFFFFF


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
