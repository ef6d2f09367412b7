# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The demand and the switches that runs recorded, in one ConfigMap of bounded size.

Arrivals are the creation times of pods that the last record did not have; departures are noticed
by the run after them. The ConfigMap is written when something changed, and else once an hour, so
that a longer gap is a time without a record.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import typing as t
from dataclasses import dataclass, field

from ...base import compressed
from ...base.boundary import guarded, subject_of
from ...base.errors import ApiError
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...base.units import parse_time
from ...kube.client import Kube
from ...scheduling.pod_reader import held_requests, is_daemon, is_finished
from ..demand import Demand
from .timeline import Counts, with_counts

NAME = "wattwise-sleep"
_KEY = "record.gz"
_DAY = 86400.0
_HEARTBEAT_SECONDS = 3600.0
_MAX_EVENTS = 20_000
_MAX_PODS = 20_000
_MAX_DAYS = 14
_MAX_HOLES = 200

Event = tuple[float, int]
Requests = dict[str, float]


@dataclass
class MachineHistory:
    """Times of switches to off in the last day, of the last wake, and of the sleep that lasts.

    ``saved_watts`` is what the present sleep saves: idle less standby, as measured for this
    machine. ``left_alone_until`` is the end of a rest after a failed switch. ``cycles`` are all
    switches to off; wakes are late if the first boot missed its time.
    """

    off: list[float] = field(default_factory=list)
    woken: float = 0.0
    asleep_since: float | None = None
    saved_watts: float = 0.0
    saved_joules: float = 0.0
    left_alone_until: float = 0.0
    cycles: int = 0
    wakes_in_time: int = 0
    wakes_late: int = 0

    def fell_asleep(self, now: float, saved_watts: float) -> None:
        self.off = [at for at in self.off if at > now - _DAY] + [now]
        self.asleep_since, self.saved_watts = now, saved_watts
        self.cycles += 1

    def woke(self, now: float) -> None:
        self.saved_joules = self.joules(now)
        self.asleep_since, self.woken = None, now

    def booted(self, is_late: bool) -> None:
        """Count the first boot of a wake."""
        self.wakes_late += is_late
        self.wakes_in_time += not is_late

    def joules(self, now: float) -> float:
        """Energy saved until now."""
        asleep = 0.0 if self.asleep_since is None else max(0.0, now - self.asleep_since)
        return self.saved_joules + asleep * self.saved_watts


@dataclass
class SleepRecord:
    """Everything that outlives a run, apart from the annotations of Nodes."""

    since: float
    at: float
    shapes: list[Requests] = field(default_factory=list)
    arrivals: list[Event] = field(default_factory=list)
    departures: list[Event] = field(default_factory=list)
    holes: list[tuple[float, float]] = field(default_factory=list)
    present: dict[str, int] = field(default_factory=dict)
    machines: dict[str, MachineHistory] = field(default_factory=dict)
    dry_days: dict[str, dict[str, float]] = field(default_factory=dict)
    timeline: list[Counts] = field(default_factory=list)
    is_changed: bool = False
    is_stored: bool = False

    def machine(self, name: str) -> MachineHistory:
        return self.machines.setdefault(name, MachineHistory())

    def observe(self, pods: t.Iterable[Object], now: float) -> None:
        """Note the pods that came and went since the last record."""
        shapes = {_key(shape): index for index, shape in enumerate(self.shapes)}
        if self.is_stored and now - self.at > 2 * _HEARTBEAT_SECONDS:
            self.holes = [*self.holes, (self.at, now)][-_MAX_HOLES:]
            self.is_changed = True
        present: dict[str, int] = {}
        for pod in pods:
            known = guarded(subject_of(pod, "Pod"), functools.partial(_demanded, pod))
            if not isinstance(known, tuple) or len(present) >= _MAX_PODS:
                continue
            uid, created, requests = known
            if uid in self.present:
                present[uid] = self.present[uid]
                continue
            key = _key(requests)
            if key not in shapes:
                shapes[key] = len(self.shapes)
                self.shapes.append(requests)
            present[uid] = shapes[key]
            self.is_changed = True
            if self.is_stored and created >= self.since:
                self.arrivals.append((min(created, now), shapes[key]))
        for uid, shape in self.present.items():
            if uid not in present:
                self.departures.append((now, shape))
                self.is_changed = True
        self.present = present
        self._bound()

    def _bound(self) -> None:
        """Forget the oldest events beyond the limit, and say since when the record is whole."""
        for events in (self.arrivals, self.departures):
            if len(events) > _MAX_EVENTS:
                events.sort()
                self.since = max(self.since, events[len(events) - _MAX_EVENTS][0])
        self.arrivals = [one for one in self.arrivals if one[0] >= self.since]
        self.departures = [one for one in self.departures if one[0] >= self.since]
        self._forget_shapes()

    def _forget_shapes(self) -> None:
        """Drop shapes that no event and no pod has any more; tenants choose them."""
        shapes = {shape for _at, shape in (*self.arrivals, *self.departures)}
        kept = sorted(shapes.union(self.present.values()))
        if len(kept) == len(self.shapes):
            return
        index = {shape: number for number, shape in enumerate(kept)}
        self.shapes = [self.shapes[shape] for shape in kept]
        self.arrivals = [(at, index[shape]) for at, shape in self.arrivals]
        self.departures = [(at, index[shape]) for at, shape in self.departures]
        self.present = {uid: index[shape] for uid, shape in self.present.items()}

    def demand(self) -> Demand:
        """The record in the form that the decision reads."""
        demand = Demand(self.since)
        for at, shape in self.arrivals:
            demand.arrived(at, self.shapes[shape])
        for at, shape in self.departures:
            demand.departed(at, self.shapes[shape])
        for start, end in self.holes:
            demand.unobserved(start, end)
        return demand

    def note_dry_run(self, now: float, day: str, count: int, watts: float) -> None:
        """Note what a dry run would have let sleep, in machines and watts.

        The power that was noted before counts until now, at most for an hour without a record.
        """
        seconds = min(max(0.0, now - self.at), _HEARTBEAT_SECONDS) if self.is_stored else 0.0
        before = self.dry_days[max(self.dry_days)] if self.dry_days else {}
        is_same = day in self.dry_days and before.get("watts") == watts
        if is_same and seconds < _HEARTBEAT_SECONDS:
            return
        entry = self.dry_days.setdefault(
            day, {"most_asleep": 0, "watts": watts, "saved_joules": 0.0}
        )
        entry["saved_joules"] += before.get("watts", 0.0) * seconds
        entry["most_asleep"] = max(entry["most_asleep"], count)
        entry["watts"] = watts
        self.dry_days = dict(sorted(self.dry_days.items())[-_MAX_DAYS:])
        self.is_changed = True

    def note_counts(self, counts: Counts) -> None:
        """Note the machines of the cluster and its demand, if they changed."""
        before, self.timeline = self.timeline, with_counts(self.timeline, counts)
        self.is_changed |= self.timeline != before

    def is_due(self, now: float) -> bool:
        """Whether the record must be written."""
        return self.is_changed or not self.is_stored or now - self.at >= _HEARTBEAT_SECONDS

    def as_body(self) -> dict[str, t.Any]:
        return {
            "since": self.since,
            "at": self.at,
            "shapes": self.shapes,
            "arrivals": self.arrivals,
            "departures": self.departures,
            "holes": self.holes,
            "present": self.present,
            "machines": {name: vars(one) for name, one in self.machines.items()},
            "dry_days": self.dry_days,
            "timeline": [[*vars(one).values()] for one in self.timeline],
        }


def read_record_of(kube: Kube, namespace: str, now: float) -> SleepRecord:
    """The record of former runs; a new one if there is none, or none that can be read.

    Raises ApiError.
    """
    found = kube.find(_path(namespace))
    if found is None:
        return SleepRecord(now, now)
    try:
        packed = base64.b64decode(member(found, "binaryData", _KEY) or "", validate=True)
        return record_of_body(compressed.unpack(packed))
    except (ValueError, TypeError, KeyError, IndexError):
        return SleepRecord(now, now, is_changed=True)


def write_record(kube: Kube, namespace: str, record: SleepRecord, now: float) -> bool:
    """Write the record if it is due; whether it was. Raises ApiError."""
    if not record.is_due(now):
        return False
    record.at = now
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace},
        "binaryData": {_KEY: base64.b64encode(compressed.pack(record.as_body())).decode()},
    }
    path = _path(namespace)
    try:
        kube.request("PUT", path, body)
    except ApiError as error:
        if error.status != 404:
            raise
        kube.request("POST", path.rpartition("/")[0], body)
    return True


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"


def record_of_body(body: Object) -> SleepRecord:
    """The record of a stored body. Raises KeyError, TypeError and ValueError."""
    shapes = [{str(key): float(value) for key, value in one.items()} for one in body["shapes"]]
    count = len(shapes)

    def events(name: str) -> list[Event]:
        return [(float(at), int(shape)) for at, shape in body[name] if 0 <= int(shape) < count]

    return SleepRecord(
        since=float(body["since"]),
        at=float(body["at"]),
        shapes=shapes,
        arrivals=events("arrivals"),
        departures=events("departures"),
        holes=[(float(start), float(end)) for start, end in body["holes"]],
        present={str(key): int(one) for key, one in body["present"].items() if 0 <= one < count},
        machines={str(name): MachineHistory(**one) for name, one in body["machines"].items()},
        dry_days={str(day): dict(one) for day, one in body["dry_days"].items()},
        timeline=[Counts(float(at), *map(int, counts)) for at, *counts in body["timeline"]],
        is_stored=True,
    )


def _demanded(pod: Object) -> tuple[str, float, Requests] | None:
    """A pod's key, the time of its creation and its requests; None if it is no demand."""
    if is_finished(pod) or is_daemon(pod):
        return None
    metadata = pod["metadata"]
    requests = {name: float(amount) for name, amount in held_requests(pod).items()}
    requests["pods"] = 1.0
    uid = hashlib.sha256(str(metadata.get("uid") or metadata["name"]).encode()).hexdigest()[:12]
    return uid, parse_time(metadata["creationTimestamp"]).timestamp(), requests


def _key(requests: Requests) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(requests.items()))
