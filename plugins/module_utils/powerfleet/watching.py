# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The watcher: requests a run of a fleet after a relevant change in the cluster.

A request is two annotations on the PowerFleet, which ansible-operator watches. The watcher also
replaces a reconcile period that ansible-operator cannot read, because it prevents all runs, tells
of fleets whose runs do not come, and begins the runs of deleted fleets, which ansible-operator
skips. It writes nothing else, decides nothing, and keeps nothing: a run reads the cluster itself.
The next run of the interval finds changes during an absence of the watcher; only waiting pods,
which are urgent, are requested again at its start.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import math
import os
import signal
import sys
import threading
import time
import typing as t
from dataclasses import dataclass, field

from ..base.context import Context, utc_now
from ..base.errors import ApiError, InvalidInput, WattwiseError
from ..base.texts import shown_text
from ..base.units import format_time
from ..kube.client import Kube
from ..kube.watch import Change, Collection
from . import reasons, resource, stalling
from .ending import EndingRuns, Say
from .resource import PowerFleet
from .serving import MetricsServer, parser_of
from .stalling import FleetView, Stalls, view_fleet
from .status import HEARTBEAT_SECONDS

# Delay from the first change on, in which two hundred pods are created.
GATHERING_SECONDS = 2.0
# Pause between two requests for a fleet.
SPACING_SECONDS = 5.0


class Request(t.NamedTuple):
    """One fleet and the reasons of its request."""

    fleet: str
    reasons: frozenset[str]


@dataclass
class _Fleet:
    """Pending reasons of a fleet, their begin, and the last request for each reason."""

    wanted: set[str] = field(default_factory=set)
    since: float = 0.0
    asked: float = float("-inf")
    asked_for: dict[str, float] = field(default_factory=dict)

    @property
    def due(self) -> float:
        if not self.wanted:
            return float("inf")
        return max(self.since + GATHERING_SECONDS, self.asked + SPACING_SECONDS)


class Requests:
    """Pending requests. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._fleets: dict[str, _Fleet] = {}

    def add(self, fleet: str, reason: str, now: float) -> None:
        """Note a change that concerns the fleet."""
        kept = self._fleets.setdefault(fleet, _Fleet())
        if not kept.wanted:
            kept.since = now
        kept.wanted.add(reason)

    @property
    def next_at(self) -> float:
        """Time of the next due request; infinite without one."""
        return min((kept.due for kept in self._fleets.values()), default=float("inf"))

    def take(self, now: float, repeat_seconds: t.Callable[[str], float]) -> list[Request]:
        """The due requests, each to be sent once.

        A request replaces the one before it, which may be unserved. So it repeats the reasons of
        the last ``repeat_seconds`` of its fleet, within which a run begins anyway.
        """
        taken = []
        for fleet, kept in self._fleets.items():
            if kept.due > now:
                continue
            longest = repeat_seconds(fleet)
            kept.asked_for = {
                reason: at for reason, at in kept.asked_for.items() if now - at < longest
            }
            taken.append(Request(fleet, frozenset(kept.wanted) | frozenset(kept.asked_for)))
            kept.asked_for |= dict.fromkeys(kept.wanted, now)
            kept.asked, kept.wanted = now, set()
        return taken

    def put_back(self, request: Request, now: float) -> None:
        """Make a request that could not be sent due again, after the usual pause."""
        for reason in request.reasons:
            self.add(request.fleet, reason, now)

    def forget(self, fleet: str) -> None:
        """Remove a deleted fleet."""
        self._fleets.pop(fleet, None)


FIELD_MANAGER = "wattwise-watcher"
PORT, HEALTH_PORT = 9092, 9093
HEARTBEAT_VARIABLE = "WATTWISE_HEARTBEAT_SECONDS"
_PATCH_TIMEOUT_SECONDS = 10.0
_REPEAT_SECONDS = 10.0
# Much longer than a request to an API server that does not answer.
_STUCK_SECONDS = 60.0


class Watcher:
    """Watches one cluster for all of its fleets; every collection in a thread of its own."""

    def __init__(
        self,
        kube: Kube,
        say: Say,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        run_command: t.Sequence[str] = (),
    ) -> None:
        """``run_command`` begins a run of a deleted fleet, as in ``ending.EndingRuns``."""
        self._kube, self._say = kube, say
        self._fleets: dict[str, PowerFleet] = {}
        self._requests = Requests()
        self._stalls = Stalls(heartbeat_seconds)
        self._endings = EndingRuns(run_command, say)
        # Guards all four, and is notified of every change to them.
        self._changed = threading.Condition()
        # Fleets whose period ansible-operator cannot read, and the times to write it.
        self._stuck: dict[str, float] = {}
        self._watches: dict[reasons.Source, threading.Event] = {}
        self._all_fleets = Collection(
            kube, resource.ALL, view_fleet, self._fleet_changed, say=self._say
        )
        self._collections: dict[reasons.Source, Collection[t.Any]] = {}
        self._turned_at = time.monotonic()
        self._crash: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        """Watch and request until ``stop`` is set. Raises the error of a failed thread."""
        self._start(self._all_fleets, stop)
        while not stop.is_set() and self._crash is None:
            with self._changed:
                left = self._requests.next_at - time.monotonic()
                # Polling, because nothing notifies of stop and of the time.
                self._changed.wait(min(max(left, 0.0), 0.5))
                self._endings.turn(time.monotonic())
                due = self._requests.take(time.monotonic(), self._interval_of)
                fleets_now = dict(self._fleets)
                stuck = self._take_stuck(time.monotonic())
                stalls = self._stalls.take(time.monotonic())
            work = [
                *(functools.partial(self._free, fleet) for fleet in stuck),
                *(functools.partial(self._tell_stall, seen) for seen in stalls),
                *(functools.partial(self._ask, fleets_now.get(one.fleet), one) for one in due),
            ]
            for step in work:
                self._turned_at = time.monotonic()
                step()
            self._turned_at = time.monotonic()
        self._endings.stop()
        for ended in self._watches.values():
            ended.set()
        if self._crash is not None:
            raise self._crash

    def is_alive(self) -> bool:
        """Whether it still does its work; a restart helps if not."""
        return time.monotonic() - self._turned_at < _STUCK_SECONDS

    def is_watching(self) -> bool:
        """Whether it knows all fleets, and the API server answers on each watch."""
        now = time.monotonic()
        with self._changed:
            others = list(self._collections.values())
        return self._all_fleets.is_current(now) and all(
            each.is_current(now) or each.is_refused for each in others
        )

    def metrics(self) -> str:
        """Its metrics in the Prometheus text format."""
        with self._changed:
            return self._stalls.exposition(time.monotonic())

    def _start(self, collection: Collection[t.Any], stop: threading.Event) -> None:
        def run() -> None:
            try:
                collection.run(stop)
            except BaseException as error:  # noqa: BLE001 - the main thread raises it
                self._crash = error

        threading.Thread(target=run, daemon=True).start()

    def _fleet_changed(self, change: Change[FleetView]) -> None:
        with self._changed:
            key = "/".join(change.key)
            if change.after is not None and change.after.is_ending:
                self._endings.add(key, time.monotonic())
            else:
                self._endings.forget(key)
            if change.after is None or change.after.is_ending:
                self._fleets.pop(key, None)
                self._stuck.pop(key, None)
                self._requests.forget(key)
                self._stalls.forget(key)
            else:
                self._fleets[key] = change.after.fleet
                self._stalls.see(change.after, time.monotonic())
                if resource.period_is_readable(change.after.fleet):
                    self._stuck.pop(key, None)
                else:
                    self._stuck[key] = time.monotonic()
            wanted = set(reasons.sources_of(self._fleets.values()))
            for source in self._watches.keys() - wanted:
                self._watches.pop(source).set()
                self._collections.pop(source)
            for source in wanted - self._watches.keys():
                self._watches[source] = threading.Event()
                self._collections[source] = self._collection(source)
                self._start(self._collections[source], self._watches[source])

    def _collection(self, source: reasons.Source) -> Collection[t.Any]:
        tell = functools.partial(self._object_changed, source)
        return Collection(self._kube, source.path, source.view, tell, source.parameters, self._say)

    def _object_changed(self, source: reasons.Source, change: Change[t.Any]) -> None:
        with self._changed:
            for fleet in source.concerned(change, self._fleets.values()):
                self._requests.add(fleet, source.reason, time.monotonic())
            self._changed.notify_all()

    def _take_stuck(self, now: float) -> list[PowerFleet]:
        """Repeat each write until a change of the fleet shows a readable period."""
        due = [key for key, at in self._stuck.items() if at <= now]
        self._stuck.update(dict.fromkeys(due, now + _REPEAT_SECONDS))
        return [self._fleets[key] for key in due]

    def _free(self, fleet: PowerFleet) -> None:
        try:
            kube = self._kube.impatient(_PATCH_TIMEOUT_SECONDS)
            if resource.keep_period(kube, fleet, FIELD_MANAGER):
                self._say(f"replaced the unreadable reconcile period of {fleet.key}")
        except ApiError as error:
            self._say(f"cannot replace the unreadable reconcile period of {fleet.key}: {error}")

    def _tell_stall(self, seen: FleetView) -> None:
        key, now = seen.fleet.key, time.monotonic()
        try:
            kube = self._kube.impatient(_PATCH_TIMEOUT_SECONDS)
            # Read again, because the watch may be late.
            found = stalling.read(kube, seen.fleet)
            if found is None:
                return
            with self._changed:
                self._stalls.see(found, now)
                is_stalled = self._stalls.is_stalled(key, now)
            if is_stalled != found.is_told and stalling.write(
                kube, found, is_stalled, FIELD_MANAGER, Context(warn=self._say)
            ):
                self._say(f"{key} is {'stalled' if is_stalled else 'no longer stalled'}")
        except ApiError as error:
            self._say(f"cannot tell whether {key} is stalled: {error}")

    def _interval_of(self, fleet: str) -> float:
        return self._fleets[fleet].interval_seconds if fleet in self._fleets else 0.0

    def _ask(self, fleet: PowerFleet | None, request: Request) -> None:
        if fleet is None or fleet.is_suspended:
            return
        names = ",".join(sorted(request.reasons))
        annotations = {resource.REQUESTED_AT: _now(), resource.REQUESTED_FOR: names}
        try:
            kube = self._kube.impatient(_PATCH_TIMEOUT_SECONDS)
            if resource.annotate(kube, fleet, annotations, FIELD_MANAGER):
                self._say(f"asked {request.fleet} for a run: {names}")
        except ApiError as error:
            self._say(f"cannot ask {request.fleet} for a run: {error}")
            with self._changed:
                self._requests.put_back(request, time.monotonic())


def _now() -> str:
    return format_time(utc_now())


def _say(text: str) -> None:
    sys.stdout.write(f"{_now()} {shown_text(text, 2000)}\n")
    sys.stdout.flush()


def main(arguments: t.Sequence[str] | None = None) -> int:
    """The container's program: 0 after a signal to end, 1 with one sentence if it fails.

    The kubeconfig in $WATTWISE_KUBECONFIG names the API server; a pod without it uses its own.
    """
    parser = parser_of("watcher", str(__doc__).partition("\n")[0], PORT, HEALTH_PORT)
    parser.add_argument("--run", nargs="+", default=(), help="begins a run of a deleted fleet")
    chosen = parser.parse_args(arguments)
    try:
        kube = Kube.of_program(os.environ)
        watcher = Watcher(kube, _say, _heartbeat_seconds(), chosen.run)
        _say(f"watching {kube.host}")
        asyncio.run(_watch(watcher, chosen))
    except WattwiseError as error:
        _say(str(error))
        return 1
    return 0


async def _watch(watcher: Watcher, chosen: argparse.Namespace) -> None:
    """Watch and serve until a signal, or until one of both fails."""
    loop, stop = asyncio.get_running_loop(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    checks = {"/healthz": watcher.is_alive, "/readyz": watcher.is_watching}
    server = MetricsServer(watcher.metrics, checks)

    def began(port: int, health_port: int) -> None:
        _say(f"serving metrics on port {port}, health on port {health_port}")

    ports = (chosen.port, chosen.health_port)
    serving = asyncio.ensure_future(server.run(chosen.address, ports, began))
    watching = loop.run_in_executor(None, watcher.run, stop)
    await asyncio.wait({serving, watching}, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    server.stop()
    await watching
    await serving


def _heartbeat_seconds() -> float:
    """The age at which a run without news stores its time. Raises InvalidInput."""
    given = os.environ.get(HEARTBEAT_VARIABLE) or str(HEARTBEAT_SECONDS)
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        text = shown_text(given, 100)
        raise InvalidInput(f"${HEARTBEAT_VARIABLE} is {text!r}; give seconds, such as 300")
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
