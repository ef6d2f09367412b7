# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A Lease of the cluster as a lock against concurrent runs.

The rules are those of leader election in Kubernetes components. Clocks of two hosts are never
compared. A waiting run considers a holder gone when the Lease was unchanged for its whole duration
by the clock of the waiting run, and a holder stops earlier by its own clock.

A run that writes nothing takes no Lease. The Lease is read first and taken with the first write,
conditionally on the version that was read. Every writer changes the Lease, so a success proves that
no other run wrote in between. Otherwise the work starts again, with the Lease held from the
beginning.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import typing as t
import uuid

from ..base.context import Context, Parameters, Result, utc_now
from ..base.errors import ApiError, WattwiseError
from ..base.json_types import MutableObject
from .client import Guard, Kube

# Lease of all work that binds or evicts pods or allocates devices.
NAME = "wattwise-binding"
DURATION_SECONDS = 15
# Shares of the duration: renewal, stop of a holder without renewal, and limit of one request.
_RENEWED_AFTER, _GIVEN_UP_AFTER, _ONE_REQUEST = 1 / 3, 2 / 3, 1 / 5
_MAX_PAUSE_SECONDS = 1.0


class HasResult(t.Protocol):
    """The work that was done, as a value."""

    def as_result(self) -> Result: ...


Done = t.TypeVar("Done", bound="HasResult | Result")


class LeaseHeld(WattwiseError):
    """Another run holds the Lease and did not release it in time."""


class LeaseLost(WattwiseError):
    """The Lease could not be renewed, so another run may hold it now."""


class NotAlone(WattwiseError):
    """Another run may have written since the Lease was read, so the state must be read again."""


def alone(
    kube: Kube,
    options: Parameters,
    context: Context,
    work: t.Callable[[Guard | None], Done],
    name: str = NAME,
) -> Done:
    """Run ``work`` so that no other run changes the state between its reads and writes.

    ``options`` are those of argspec.LEASE. ``work`` reads all state that its writes depend on, and
    writes through clients with the given guard (``Kube.guarded``), which is None in check mode. If
    another run wrote meanwhile, ``work`` is called a second time; the first call then wrote
    nothing. Raises LeaseHeld, and LeaseLost with the work that was done in its fields.
    """
    if context.check_mode:
        return work(None)
    namespace, timeout = options["lease_namespace"], options["lease_timeout"]
    with Lease(kube, namespace, name, timeout) as lease:
        done: Done | None = None
        try:
            done = work(lease.guard)
        except WattwiseError:
            if not lease.is_late:
                raise
        if done is None or lease.is_late:
            lease.acquire()
            done = work(lease.guard)
        if lease.prevented is not None:
            fields = done if isinstance(done, dict) else done.as_result()
            raise LeaseLost(str(lease.prevented), **fields)
        return done


def _seconds() -> float:
    """A clock that continues during suspend, if the platform has one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Lease:
    """Context manager that reads the Lease, and releases it at the end if it was taken.

    ``guard`` takes it with the first write. ``acquire`` takes it at once and waits up to
    ``wait_seconds`` for another holder. Raises LeaseHeld and ApiError.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        wait_seconds: float,
        clock: t.Callable[[], float] = _seconds,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self._kube = kube
        self._quick = kube.impatient(DURATION_SECONDS * _ONE_REQUEST)
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._title = f"Lease {namespace}/{name}"
        self._name = name
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._sleep = sleep
        self.holder = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._stored: MutableObject = {}
        self._seen: str | None = None
        self._seen_at = 0.0
        self._renewed = 0.0
        self._held = False
        self._lost = ""
        # A write was attempted after another run had the Lease since it was read.
        self.is_late = False
        # A write was refused because the Lease was lost.
        self.prevented: LeaseLost | None = None
        self._taking = threading.Lock()
        self._done = threading.Event()
        self._renewing = threading.Thread(target=self._renew_until_done, daemon=True)

    def __enter__(self) -> Lease:
        self._look()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._done.set()
        if self._held:
            self._renewing.join()
        if self._held and not self._lost:
            self._release()

    def guard(self) -> float:
        """Seconds that a write may take; called before each attempt.

        Raises NotAlone and LeaseLost.
        """
        with self._taking:
            if not self._held and not self.is_late:
                self.is_late = not self._is_free() or not self._claim()
            if not self._held:
                raise NotAlone(f"another run had the {self._title} meanwhile; run again")
        return self._remaining()

    def acquire(self) -> None:
        """Take the Lease as soon as its holder releases it or is gone. Raises LeaseHeld."""
        started, pause = self._clock(), 0.1
        self._look()
        while not (self._is_free() or self._is_over()) or not self._claim():
            if self._clock() - started + pause > self._wait_seconds:
                raise LeaseHeld(self._who_holds())
            self._sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)
            self._look()
        self.is_late = False

    def renew(self) -> None:
        """Renew the Lease; the thread of the lock does this every few seconds."""
        with contextlib.suppress(ApiError):
            if not self._write(self._quick, {**self._stored["spec"], "renewTime": _now()}):
                self._lost = "another client took or deleted it"

    def _remaining(self) -> float:
        age = self._clock() - self._renewed
        if not self._lost and age > DURATION_SECONDS * _GIVEN_UP_AFTER:
            self._lost = f"it could not be renewed for {age:.0f} s"
        if self._lost:
            self.prevented = LeaseLost(
                f"{self._title} was lost ({self._lost}), so nothing more was written; run again"
            )
            raise self.prevented
        return DURATION_SECONDS - age

    def _renew_until_done(self) -> None:
        pause = DURATION_SECONDS * _RENEWED_AFTER
        while not self._done.wait(pause) and not self._lost:
            before = self._renewed
            self.renew()
            late = self._renewed == before
            pause = _MAX_PAUSE_SECONDS if late else DURATION_SECONDS * _RENEWED_AFTER

    def _look(self) -> None:
        found = self._kube.find(self._path) or {}
        version = str((found.get("metadata") or {}).get("resourceVersion", ""))
        if version != self._seen:
            self._seen, self._seen_at = version, self._clock()
        self._stored = found

    def _is_free(self) -> bool:
        return not (self._stored.get("spec") or {}).get("holderIdentity")

    def _is_over(self) -> bool:
        duration = self._stored["spec"].get("leaseDurationSeconds") or DURATION_SECONDS
        return self._clock() - self._seen_at > duration

    def _claim(self) -> bool:
        """Become the holder, unless the Lease has changed since it was read."""
        now = _now()
        spec = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": DURATION_SECONDS,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        if self._stored:
            transitions = (self._stored.get("spec") or {}).get("leaseTransitions") or 0
            spec["leaseTransitions"] = transitions + 1
        self._held = self._write(self._kube, spec)
        if self._held:
            self._renewing.start()
        return self._held

    def _write(self, kube: Kube, spec: MutableObject) -> bool:
        """Replace exactly the version that was read; False if it changed before. Raises ApiError.

        The repetition of a request whose answer was lost is refused if the first one succeeded.
        """
        sent = self._clock()
        try:
            self._stored = self._put(kube, spec)
        except ApiError as error:
            if 400 <= error.status < 500 and error.status not in (404, 409):
                raise
            found = kube.find(self._path) or {}
            if (found.get("spec") or {}).get("holderIdentity") != self.holder:
                # Status 0: the request itself may be lost.
                if error.status in (0, 404, 409):
                    return False
                raise
            self._stored = found
            if found["spec"].get("renewTime") != spec["renewTime"]:
                raise
        self._renewed = sent
        return True

    def _put(self, kube: Kube, spec: MutableObject) -> MutableObject:
        if self._stored:
            return kube.request("PUT", self._path, {**self._stored, "spec": spec})
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": spec,
        }
        return kube.request("POST", self._collection, body)

    def _release(self) -> None:
        # After a failure the Lease expires by itself or belongs to another run.
        spec = {**self._stored["spec"], "holderIdentity": "", "renewTime": _now()}
        with contextlib.suppress(ApiError):
            self._put(self._quick, spec)

    def _who_holds(self) -> str:
        spec = self._stored.get("spec") or {}
        holder = spec.get("holderIdentity") or "an unknown client"
        return (
            f"{holder} holds the {self._title}, last renewed {spec.get('renewTime', 'just now')}: "
            "another run is active; run again when it has ended"
        )


def _now() -> str:
    return utc_now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
