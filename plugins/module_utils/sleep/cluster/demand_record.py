# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The demand and the switches that the runs of a fleet recorded.

Arrivals are the creation times of pods that the last record did not have; departures are noticed
by the run after them. The record is written when something changed, and else once an hour, so that
a longer gap is a time without a record.
"""

from __future__ import annotations

import functools
import hashlib
import math
import typing as t
from dataclasses import dataclass, field, replace

from ...base.boundary import Subject, guarded, subject_of
from ...base.fields import lenient
from ...base.json_types import Object
from ...base.units import parse_time
from ...scheduling.pod_reader import held_requests, is_daemon, is_finished
from ..demand import Demand
from .timeline import Counts, with_counts

_DAY = 86400.0
_HEARTBEAT_SECONDS = 3600.0
_MAX_EVENTS = 20_000
_MAX_PODS = 20_000
_MAX_DAYS = 14
_MAX_HOLES = 200
_MAX_STANDBY_SHARE = 0.5

Event = tuple[float, int]
Requests = dict[str, float]


@dataclass
class MachineHistory:
    """Times of switches to off in the last day, of the last wake, and of the sleep that lasts.

    ``saved_watts`` is what the present or last sleep saves: ``idle_watts`` less standby.
    ``standby_watts`` was measured while the machine was off, None if it never was; ``is_probed``
    says that it was tried in this sleep. ``left_alone_until`` is the end of a rest after a failed
    switch. ``cycles`` are all switches to off; wakes are late if the first boot missed its time.
    """

    off: list[float] = field(default_factory=list)
    woken: float = 0.0
    asleep_since: float | None = None
    saved_watts: float = 0.0
    idle_watts: float = 0.0
    standby_watts: float | None = None
    is_probed: bool = False
    saved_joules: float = 0.0
    left_alone_until: float = 0.0
    cycles: int = 0
    wakes_in_time: int = 0
    wakes_late: int = 0

    def fell_asleep(self, now: float, idle_watts: float, standby_watts: float) -> None:
        """``standby_watts`` is assumed, unless it was measured before."""
        self.off = [at for at in self.off if at > now - _DAY] + [now]
        self.asleep_since, self.idle_watts, self.is_probed = now, idle_watts, False
        measured = self.standby_watts
        self.saved_watts = max(0.0, idle_watts - (standby_watts if measured is None else measured))
        self.cycles += 1

    def measured(self, standby_watts: float | None) -> None:
        """Note the power draw while it is off, which counts for the whole present sleep.

        Some BMCs go on to report the last power draw of a machine that is off.
        """
        self.is_probed = True
        if standby_watts is not None and standby_watts <= _MAX_STANDBY_SHARE * self.idle_watts:
            self.standby_watts = standby_watts
            self.saved_watts = self.idle_watts - standby_watts

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
    """Everything that outlives a run, apart from the annotations of Nodes.

    ``changed_machines`` are those whose history this run changed.
    """

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
    changed_machines: set[str] = field(default_factory=set)

    def machine(self, name: str) -> MachineHistory:
        """The history of a machine, to be changed."""
        self.is_changed = True
        self.changed_machines.add(name)
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

    def merged_into(self, stored: SleepRecord) -> SleepRecord:
        """The record that another run stored meanwhile, with what this run did.

        The pods of the other run stay: those that it did not have arrive in the next run.
        """
        own = {name: self.machines[name] for name in self.changed_machines}
        days = {
            day: max(stored.dry_days.get(day, one), one, key=lambda each: each["saved_joules"])
            for day, one in self.dry_days.items()
        }
        return replace(
            stored,
            machines={**stored.machines, **own},
            dry_days={**stored.dry_days, **days},
            is_changed=True,
            changed_machines=self.changed_machines,
        )

    def forget_older_half(self) -> bool:
        """Forget the older half of the events, at last the pods; whether there was any."""
        moments = sorted(at for at, _shape in (*self.arrivals, *self.departures))
        if not moments and not self.present:
            return False
        if moments:
            self.since = math.nextafter(moments[len(moments) // 2], math.inf)
        else:
            self.present = {}
        self._bound()
        return True

    def forget_machines(self, names: t.Container[str]) -> None:
        """Forget machines whose Nodes are gone."""
        self.machines = {name: one for name, one in self.machines.items() if name in names}

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
        """Note the machines of the fleet and its demand, if they changed."""
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


def record_of_body(body: Object, now: float) -> SleepRecord:
    """The record of a stored body; an unreadable history is left out with its machine.

    Raises an error of any kind if anything else is unreadable.
    """
    shapes = [{str(key): _number(value) for key, value in one.items()} for one in body["shapes"]]
    count = len(shapes)

    def events(name: str) -> list[Event]:
        return [(_number(at), int(shape)) for at, shape in body[name] if 0 <= int(shape) < count]

    histories = {
        str(name): guarded(Subject("Node", str(name)), functools.partial(_history, one, now))
        for name, one in body["machines"].items()
    }
    return SleepRecord(
        since=min(now, _number(body["since"])),
        at=min(now, _number(body["at"])),
        shapes=shapes,
        arrivals=events("arrivals"),
        departures=events("departures"),
        holes=[(_number(start), _number(end)) for start, end in body["holes"]],
        present={str(key): int(one) for key, one in body["present"].items() if 0 <= one < count},
        machines={name: one for name, one in histories.items() if isinstance(one, MachineHistory)},
        dry_days={
            str(day): {key: _number(one[key]) for key in ("most_asleep", "watts", "saved_joules")}
            for day, one in body["dry_days"].items()
        },
        timeline=[
            Counts(_number(at), *(int(_number(one)) for one in counts))
            for at, *counts in body["timeline"]
        ],
        is_stored=True,
    )


def _history(given: Object, now: float) -> MachineHistory:
    """A history that promises no rest for longer than a day."""
    asleep_since = given["asleep_since"]

    def positive(name: str) -> float:
        return max(0.0, _number(given[name]))

    return MachineHistory(
        off=[min(now, _number(at)) for at in given["off"]],
        woken=min(now, _number(given["woken"])),
        asleep_since=None if asleep_since is None else _number(asleep_since),
        saved_watts=positive("saved_watts"),
        idle_watts=positive("idle_watts"),
        standby_watts=None if given["standby_watts"] is None else positive("standby_watts"),
        is_probed=given["is_probed"] is True,
        saved_joules=positive("saved_joules"),
        left_alone_until=min(now + _DAY, _number(given["left_alone_until"])),
        cycles=int(positive("cycles")),
        wakes_in_time=int(positive("wakes_in_time")),
        wakes_late=int(positive("wakes_late")),
    )


def _number(given: t.Any) -> float:
    """Raises ValueError."""
    found = lenient.number(given)
    if found is None:
        raise ValueError("it is no number")
    return found


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
