# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An independent watcher of machines that sleep: what must never happen, and what did.

It compares what the BMCs accepted and the true power of the machines with Nodes and pods, and knows
nothing of the runs. Each look reads power, then Nodes, then pods. So a pod that two looks saw on a
machine was there when a request came between them.
"""

from __future__ import annotations

import json
import threading
import time
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from lab.errors import LabError
from support.sleep_day import ANNOTATION, TAINT, SleepingHall

Json = dict[str, t.Any]

INTERVAL_SECONDS = 0.2
# An API server that is restarted refuses some looks.
MAX_FAILED_LOOKS = 200
# Some pods wait until the machine that was woken for them is quarantined, on a busy computer.
MAX_WAIT_SECONDS = 400.0
_STARTS = ("On", "ForceOn")
_FORCED = ("ForceOff", "ForceRestart", "PowerCycle")
_NOT_EVICTED = ("DaemonSet", "Node")
_GOING = ("draining", "going_off")
_OF_A_RECORD = ("since", "owner", "reason", "attempts")


@dataclass(frozen=True)
class Look:
    """The machines at one moment.

    ``phases`` are the values of our taint, ``records`` the annotations. ``pods`` are those that
    must leave, by node, and ``waiting`` those without a node, by uid.
    """

    power: dict[str, Json]
    phases: dict[str, str]
    records: dict[str, str]
    cordoned: frozenset[str]
    pods: dict[str, set[str]]
    waiting: dict[str, str]

    def phase(self, name: str) -> str:
        return self.phases.get(name, "awake")


@dataclass(frozen=True)
class Bounds:
    """What no run may exceed: boots tried, machines that go off at once, sleeps of one machine."""

    attempts: int
    at_once: int
    sleeps: int


@dataclass
class Watcher:
    """Looks until its end; ``violations`` are sentences, ``transitions`` are counted by machine.

    Nobody may switch the machines ``protected``, nor take the cordon of those in ``cordoned``. The
    annotations of those in ``forged`` were written by somebody else.
    """

    hall: SleepingHall
    protected: frozenset[str]
    cordoned: frozenset[str]
    bounds: Bounds
    clock: t.Callable[[], float] = time.monotonic
    forged: set[str] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    transitions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    longest_wait: float = 0.0
    looks: int = 0
    failed_looks: int = 0
    _last: Look | None = None
    _starts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _waiting_since: dict[str, float] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _crash: BaseException | None = None

    def __enter__(self) -> Watcher:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """Raises AssertionError with all violations so far."""
        if self._crash is not None:
            raise self._crash
        assert not self.violations, "; ".join(self.violations)
        assert self.looks > self.failed_looks

    def phase(self, name: str) -> str:
        """The phase of the machine at the last look."""
        return "awake" if self._last is None else self._last.phase(name)

    def entered(self, phase: str) -> int:
        """How often a machine was seen to enter the phase."""
        return sum(count for (*_, after), count in self.transitions.items() if after == phase)

    def left(self, name: str, phase: str) -> int:
        """How often the machine was seen to leave the phase."""
        return sum(
            count
            for (machine, before, _after), count in self.transitions.items()
            if (machine, before) == (name, phase)
        )

    @property
    def sleeps(self) -> Counter[str]:
        """How often each machine was seen to fall asleep."""
        found: Counter[str] = Counter()
        for (name, _before, after), count in self.transitions.items():
            if after == "asleep":
                found[name] += count
        return found

    def _run(self) -> None:
        try:
            while not self._stop.wait(INTERVAL_SECONDS):
                self._turn()
        except BaseException as error:  # noqa: BLE001 - check raises it
            self._crash = error

    def _turn(self) -> None:
        try:
            look = self._look()
        except (LabError, OSError):
            self.failed_looks += 1
            if self.failed_looks > MAX_FAILED_LOOKS:
                raise
            return
        if self._last is not None:
            self.violations += self.compare(self._last, look)
        self._last = look
        self.looks += 1

    def _look(self) -> Look:
        power = self.hall.power()
        nodes = self.hall.nodes()
        annotations = {name: one["metadata"].get("annotations", {}) for name, one in nodes.items()}
        found: dict[str, set[str]] = {}
        pods = self.hall.api.request("GET", "/api/v1/pods")["items"]
        for pod in pods:
            if _must_leave(pod):
                found.setdefault(pod["spec"]["nodeName"], set()).add(pod["metadata"]["name"])
        return Look(
            power,
            {
                name: str(taint.get("value"))
                for name, one in nodes.items()
                for taint in one["spec"].get("taints", ())
                if taint["key"] == TAINT
            },
            {name: one[ANNOTATION] for name, one in annotations.items() if ANNOTATION in one},
            frozenset(name for name, one in nodes.items() if one["spec"].get("unschedulable")),
            found,
            {
                pod["metadata"]["uid"]: pod["metadata"]["name"]
                for pod in pods
                if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
            },
        )

    def compare(self, before: Look, now: Look) -> t.Iterator[str]:
        """What happened between two looks and must not; transitions and requests are counted."""
        for name in now.power:
            phases = before.phase(name), now.phase(name)
            if phases[0] != phases[1]:
                self.transitions[name, phases[0], phases[1]] += 1
            resets = now.power[name]["resets"][len(before.power[name]["resets"]) :]
            self.requests.update(resets)
            stayed = before.pods.get(name, set()) & now.pods.get(name, set())
            is_off_now = before.power[name]["is_on"] and not now.power[name]["is_on"]
            if is_off_now and stayed and "waking" not in phases:
                yield f"{name} went off under {sorted(stayed)}"
            if is_off_now and phases == ("awake", "awake"):
                yield f"{name} went off, and its Node did not say so"
            for reset in resets:
                yield from self._of_reset(name, reset, phases, stayed, now)
            for reset in sorted(set(resets)):
                if resets.count(reset) > 1:
                    yield f"{name} got {reset} {resets.count(reset)} times at once"
            if name not in self.forged:
                yield from self._of_record(name, now)
            if self.sleeps[name] > self.bounds.sleeps:
                yield f"{name} slept {self.sleeps[name]} times"
        for name in sorted(self.cordoned - now.cordoned):
            yield f"{name} lost the cordon of its administrator"
        going = [name for name, phase in now.phases.items() if phase in _GOING]
        if len(going) > self.bounds.at_once:
            yield f"{sorted(going)} go off at once"
        yield from self._of_waiting(now)

    def _of_record(self, name: str, now: Look) -> t.Iterator[str]:
        """What is wrong about the state that a Node tells people."""
        text = now.records.get(name)
        record = {} if text is None else json.loads(text)
        if record.get("phase", "awake") != now.phase(name):
            yield f"{name} is tainted {now.phase(name)}, and its annotation is {text}"
        elif record and not record.keys() >= set(_OF_A_RECORD):
            yield f"{name} has a record without a part: {text}"
        if record.get("attempts", 0) > self.bounds.attempts:
            yield f"{name} is tried {record['attempts']} times"

    def _of_waiting(self, now: Look) -> t.Iterator[str]:
        """Pods that have waited longer than they may."""
        moment = self.clock()
        self._waiting_since = {uid: self._waiting_since.get(uid, moment) for uid in now.waiting}
        for uid, name in now.waiting.items():
            seconds = moment - self._waiting_since[uid]
            self.longest_wait = max(self.longest_wait, seconds)
            if seconds > MAX_WAIT_SECONDS:
                yield f"{name} has waited for {seconds:.0f} s"

    def _of_reset(
        self, name: str, reset: str, phases: tuple[str, str], stayed: set[str], now: Look
    ) -> t.Iterator[str]:
        """What is wrong about one accepted request, whose record was written before it."""
        if name in self.protected:
            yield f"{name} is protected and got {reset}"
        if reset == "GracefulShutdown":
            if stayed:
                yield f"{name} was asked to shut down under {sorted(stayed)}"
            # A boot that failed is begun again with a shutdown.
            if not {"going_off", "waking"} & set(phases):
                yield f"{name} was asked to shut down while {phases[1]}"
        elif not {"waking"} & set(phases):
            yield f"{name} got {reset} while {phases[1]}"
        elif reset in _FORCED and stayed and now.power[name]["is_up"]:
            yield f"{name} got {reset} under {sorted(stayed)}"
        if reset in _STARTS:
            stint = name, now.records.get(name, "")
            self._starts[stint] += 1
            if self._starts[stint] > 1 and phases == ("waking", "waking"):
                yield f"{name} got two starts at once"


def _must_leave(pod: Json) -> bool:
    """Whether the pod runs on a machine and would be lost with it."""
    metadata = pod["metadata"]
    kinds = {one["kind"] for one in metadata.get("ownerReferences", ()) if one.get("controller")}
    return bool(
        pod["spec"].get("nodeName")
        and not metadata.get("deletionTimestamp")
        and pod["status"].get("phase") == "Running"
        and not kinds & set(_NOT_EVICTED)
    )
