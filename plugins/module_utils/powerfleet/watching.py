# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The watcher: requests a run of a fleet after a relevant change in the cluster.

A request is two annotations on the PowerFleet, which ansible-operator watches. The watcher also
replaces a reconcile period that ansible-operator cannot read, because it prevents all runs. It
writes nothing else, decides nothing, and keeps nothing: a run reads the cluster itself. The next
run of the interval finds changes during an absence of the watcher; only waiting pods, which are
urgent, are requested again at its start.
"""

from __future__ import annotations

import datetime
import functools
import os
import signal
import sys
import threading
import time
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import Finding
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.texts import shown_text
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
    Object,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.watch import Change, Collection
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import (
    period,
    reasons,
    resource,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.requests import (
    Request,
    Requests,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import PowerFleet

Say = t.Callable[[str], None]

FIELD_MANAGER = "wattwise-watcher"
_PATCH_TIMEOUT_SECONDS = 10.0
_REPEAT_SECONDS = 10.0


class Watcher:
    """Watches one cluster for all of its fleets; every collection in a thread of its own."""

    def __init__(self, kube: Kube, say: Say) -> None:
        self._kube, self._say = kube, say
        self._fleets: dict[str, PowerFleet] = {}
        self._requests = Requests()
        # Guards both, and is notified of every change to them.
        self._changed = threading.Condition()
        # Fleets whose period ansible-operator cannot read, and the times to write it.
        self._stuck: dict[str, float] = {}
        self._watches: dict[reasons.Source, threading.Event] = {}
        self._crash: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        """Watch and request until ``stop`` is set. Raises the error of a failed thread."""
        fleets = Collection(
            self._kube, resource.ALL, view_fleet, self._fleet_changed, say=self._say
        )
        self._start(fleets, stop)
        while not stop.is_set() and self._crash is None:
            with self._changed:
                left = self._requests.next_at - time.monotonic()
                # Polling handles signals, because the standard library cannot wait for both.
                self._changed.wait(min(max(left, 0.0), 0.5))
                due = self._requests.take(time.monotonic(), self._interval_of)
                fleets_now = dict(self._fleets)
                stuck = self._take_stuck(time.monotonic())
            for fleet in stuck:
                self._free(fleet)
            for request in due:
                self._ask(fleets_now.get(request.fleet), request)
        for ended in self._watches.values():
            ended.set()
        if self._crash is not None:
            raise self._crash

    def _start(self, collection: Collection[t.Any], stop: threading.Event) -> None:
        def run() -> None:
            try:
                collection.run(stop)
            except BaseException as error:  # noqa: BLE001 - the main thread raises it
                self._crash = error

        threading.Thread(target=run, daemon=True).start()

    def _fleet_changed(self, change: Change[PowerFleet]) -> None:
        with self._changed:
            key = "/".join(change.key)
            if change.after is None:
                self._fleets.pop(key, None)
                self._stuck.pop(key, None)
                self._requests.forget(key)
            else:
                self._fleets[key] = change.after
                if period.is_readable(change.after):
                    self._stuck.pop(key, None)
                else:
                    self._stuck[key] = time.monotonic()
            wanted = set(reasons.sources_of(self._fleets.values()))
            for source in self._watches.keys() - wanted:
                self._watches.pop(source).set()
            for source in wanted - self._watches.keys():
                self._watches[source] = threading.Event()
                self._start(self._collection(source), self._watches[source])

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
            if period.keep(kube, fleet, FIELD_MANAGER):
                self._say(f"replaced the unreadable reconcile period of {fleet.key}")
        except ApiError as error:
            self._say(f"cannot replace the unreadable reconcile period of {fleet.key}: {error}")

    def _interval_of(self, fleet: str) -> float:
        return self._fleets[fleet].interval_seconds if fleet in self._fleets else 0.0

    def _ask(self, fleet: PowerFleet | None, request: Request) -> None:
        if fleet is None or fleet.is_suspended:
            return
        names = ",".join(sorted(request.reasons))
        annotations = {resource.REQUESTED_AT: _now(), resource.REQUESTED_FOR: names}
        # The uid, so that a new fleet of the same name gets no request of the old one.
        body = {"metadata": {"uid": fleet.uid, "annotations": annotations}}
        path = resource.path_of(fleet.namespace, fleet.name)
        query = {"fieldManager": FIELD_MANAGER}
        try:
            kube = self._kube.impatient(_PATCH_TIMEOUT_SECONDS)
            kube.request("PATCH", path, body, MERGE_CONTENT_TYPE, query)
            self._say(f"asked {request.fleet} for a run: {names}")
        except ApiError as error:
            if error.status not in (404, 409):
                self._say(f"cannot ask {request.fleet} for a run: {error}")
                with self._changed:
                    self._requests.put_back(request, time.monotonic())


def view_fleet(manifest: Object) -> PowerFleet | None:
    """None for a fleet that is being deleted or unreadable, which its own runs report."""
    if resource.is_ending(manifest):
        return None
    fleet = resource.parse(manifest)
    return None if isinstance(fleet, Finding) else fleet


def _now() -> str:
    return format_time(datetime.datetime.now(datetime.timezone.utc))


def _say(text: str) -> None:
    sys.stdout.write(f"{_now()} {shown_text(text, 2000)}\n")
    sys.stdout.flush()


def main() -> int:
    """The container's program: 0 after a signal to end, 1 with one sentence if it fails.

    The kubeconfig in $WATTWISE_KUBECONFIG names the API server; a pod without it uses its own.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        kube = Kube.of_program(os.environ)
        _say(f"watching {kube.host}")
        Watcher(kube, _say).run(stop)
    except WattwiseError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
