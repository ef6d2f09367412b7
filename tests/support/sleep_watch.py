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
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from lab.errors import LabError
from support.sleep_day import ANNOTATION, SleepingHall

Json = dict[str, t.Any]

INTERVAL_SECONDS = 0.15
# An API server that is restarted refuses some looks.
MAX_FAILED_LOOKS = 200
_STARTS = ("On", "ForceOn")
_FORCED = ("ForceOff", "ForceRestart", "PowerCycle")
_NOT_EVICTED = ("DaemonSet", "Node")


@dataclass(frozen=True)
class Look:
    """The machines at one moment; ``pods`` are those that must leave, by node."""

    power: dict[str, Json]
    records: dict[str, Json]
    cordoned: frozenset[str]
    pods: dict[str, set[str]]

    def phase(self, name: str) -> str:
        return str(self.records.get(name, {}).get("phase", "awake"))


@dataclass
class Watcher:
    """Looks until its end; ``violations`` are sentences, ``transitions`` are counted by phases.

    Nobody may switch the machines ``protected``, nor take the cordon of those in ``cordoned``.
    """

    hall: SleepingHall
    protected: frozenset[str]
    cordoned: frozenset[str]
    max_attempts: int
    violations: list[str] = field(default_factory=list)
    transitions: Counter[tuple[str, str]] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    failed_looks: int = 0
    _last: Look | None = None
    _starts: Counter[tuple[str, str]] = field(default_factory=Counter)
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

    def entered(self, phase: str) -> int:
        """How often a machine was seen to enter the phase."""
        return sum(count for (_before, after), count in self.transitions.items() if after == phase)

    def _run(self) -> None:
        try:
            while not self._stop.wait(INTERVAL_SECONDS):
                self._turn()
        except BaseException as error:  # noqa: BLE001 - check raises it
            self._crash = error

    def _turn(self) -> None:
        self.looks += 1
        try:
            look = self._look()
        except (LabError, OSError):
            self.failed_looks += 1
            if self.failed_looks > MAX_FAILED_LOOKS:
                raise
            return
        if self._last is not None:
            self.violations += self._compare(self._last, look)
        self._last = look

    def _look(self) -> Look:
        power = self.hall.power()
        nodes = self.hall.nodes()
        annotations = {name: one["metadata"].get("annotations", {}) for name, one in nodes.items()}
        found: dict[str, set[str]] = {}
        for pod in self.hall.api.request("GET", "/api/v1/pods")["items"]:
            if _must_leave(pod):
                found.setdefault(pod["spec"]["nodeName"], set()).add(pod["metadata"]["name"])
        return Look(
            power,
            {
                name: json.loads(one[ANNOTATION])
                for name, one in annotations.items()
                if ANNOTATION in one
            },
            frozenset(name for name, one in nodes.items() if one["spec"].get("unschedulable")),
            found,
        )

    def _compare(self, before: Look, now: Look) -> t.Iterator[str]:
        for name in now.power:
            phases = before.phase(name), now.phase(name)
            if phases[0] != phases[1]:
                self.transitions[phases] += 1
            resets = now.power[name]["resets"][len(before.power[name]["resets"]) :]
            self.requests.update(resets)
            stayed = before.pods.get(name, set()) & now.pods.get(name, set())
            is_off_now = before.power[name]["is_on"] and not now.power[name]["is_on"]
            if is_off_now and stayed and "waking" not in phases:
                yield f"{name} went off under {sorted(stayed)}"
            for reset in resets:
                yield from self._of_reset(name, reset, phases, stayed, now)
            if now.records.get(name, {}).get("attempts", 0) > self.max_attempts:
                yield f"{name} is tried {now.records[name]['attempts']} times"
        for name in sorted(self.cordoned - now.cordoned):
            yield f"{name} lost the cordon of its administrator"

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
            stint = name, str(now.records.get(name, {}).get("since"))
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
