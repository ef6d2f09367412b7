# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A Lease of the cluster as a lock, for what two runs must not do at the same time.

The rules are those of leader election in Kubernetes' own components. Clocks of two hosts are never
compared: a holder counts as gone when its Lease has stood unchanged for the Lease's whole duration,
by the clock of the one who waits, and a holder stops before that by its own clock.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import typing as t
import uuid

from ansible_collections.wattwise.kube.plugins.module_utils.context import utc_now
from ansible_collections.wattwise.kube.plugins.module_utils.errors import (
    ApiError,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube import Answer, Kube, Object, Query

DURATION_SECONDS = 15
# Of the duration: when it is renewed, and when a holder that cannot renew it stops.
_RENEWED_AFTER, _GIVEN_UP_AFTER = 1 / 3, 2 / 3
_LONGEST_PAUSE_SECONDS = 1.0


class LeaseHeld(WattwiseError):
    """Another run holds the Lease, and did not give it back in time."""


class LeaseLost(WattwiseError):
    """The Lease could not be renewed: another run may hold it now."""


class _Guarded(Kube):
    """A client of a server that asks ``check`` before it changes anything."""

    def __init__(self, kube: Kube, check: t.Callable[[], None]) -> None:
        vars(self).update(vars(kube))
        self._check = check

    def send(
        self,
        method: str,
        path: str,
        body: t.Any = None,
        content_type: str | None = None,
        query: Query | None = None,
    ) -> Answer:
        if method != "GET":
            self._check()
        return super().send(method, path, body, content_type, query)


class Lease:
    """Context manager; inside it nobody else who asks for this Lease is inside.

    ``wait_seconds`` is how long another holder is waited for. Whoever works inside writes through
    ``guarded``, or calls ``check`` before each write. Raises LeaseHeld and ApiError.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        wait_seconds: float,
        monotonic: t.Callable[[], float] = time.monotonic,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self._kube = kube
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._title = f"Lease {namespace}/{name}"
        self._name = name
        self._wait_seconds = wait_seconds
        self._monotonic = monotonic
        self._sleep = sleep
        self.holder = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._stored: Object = {}
        self._renewed = 0.0
        self._lost = ""
        self._done = threading.Event()
        self._renewing = threading.Thread(target=self._renew_until_done, daemon=True)

    def __enter__(self) -> Lease:
        self._acquire()
        self._renewing.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._done.set()
        self._renewing.join()
        if not self._lost:
            self._release()

    def check(self) -> None:
        """Raise LeaseLost where another run may hold the Lease by now."""
        age = self._monotonic() - self._renewed
        if not self._lost and age > DURATION_SECONDS * _GIVEN_UP_AFTER:
            self._lost = f"it could not be renewed for {age:.0f} s"
        if self._lost:
            raise LeaseLost(
                f"{self._title} was lost ({self._lost}), so nothing more was written; run again"
            )

    def guarded(self) -> Kube:
        """The same server, to which nothing is written once the Lease is lost (LeaseLost)."""
        return _Guarded(self._kube, self.check)

    def renew(self) -> None:
        """Say that we are still there; the thread of the lock does it every few seconds."""
        try:
            self._write({**self._stored["spec"], "renewTime": _now()})
        except ApiError as error:
            if error.status in (404, 409):
                self._lost = "somebody else took or deleted it"

    def _renew_until_done(self) -> None:
        while not self._done.wait(DURATION_SECONDS * _RENEWED_AFTER) and not self._lost:
            self.renew()

    def _acquire(self) -> None:
        started = self._monotonic()
        seen, seen_at, pause = "", started, 0.1
        while not self._try(seen, seen_at):
            version = self._stored["metadata"]["resourceVersion"] if self._stored else ""
            if version != seen:
                seen, seen_at = version, self._monotonic()
            if self._monotonic() - started + pause > self._wait_seconds:
                raise LeaseHeld(self._who_holds())
            self._sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _try(self, seen: str, seen_at: float) -> bool:
        """Take the Lease where it is free; else ``_stored`` is what stands in the way."""
        now = _now()
        ours = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": DURATION_SECONDS,
            "acquireTime": now,
            "renewTime": now,
        }
        self._stored = self._kube.find(self._path) or {}
        try:
            if not self._stored:
                self._create({**ours, "leaseTransitions": 0})
                return True
            spec = self._stored.get("spec") or {}
            if spec.get("holderIdentity") and not self._is_over(spec, seen, seen_at):
                return False
            self._write({**ours, "leaseTransitions": (spec.get("leaseTransitions") or 0) + 1})
        except ApiError as error:
            if error.status != 409:
                raise
            return False  # somebody was quicker
        return True

    def _is_over(self, spec: Object, seen: str, seen_at: float) -> bool:
        duration = spec.get("leaseDurationSeconds") or DURATION_SECONDS
        unchanged = self._stored["metadata"]["resourceVersion"] == seen
        return unchanged and self._monotonic() - seen_at > duration

    def _create(self, spec: Object) -> None:
        sent = self._monotonic()
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": spec,
        }
        self._stored = self._kube.request("POST", self._collection, body)
        self._renewed = sent

    def _write(self, spec: Object) -> None:
        """Replace exactly what was read. Raises ApiError, 409 where it changed since."""
        sent = self._monotonic()
        self._stored = self._kube.request("PUT", self._path, {**self._stored, "spec": spec})
        self._renewed = sent

    def _release(self) -> None:
        # Where that fails, it ends by itself, or is somebody else's.
        with contextlib.suppress(ApiError):
            self._write({**self._stored["spec"], "holderIdentity": "", "renewTime": _now()})

    def _who_holds(self) -> str:
        spec = self._stored.get("spec") or {}
        holder = spec.get("holderIdentity") or "somebody else"
        return (
            f"{holder} holds the {self._title}, last renewed {spec.get('renewTime', 'just now')}: "
            "another run is at work; run again when it is done"
        )


def _now() -> str:
    return utc_now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
