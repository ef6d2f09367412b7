# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The next transition of one machine, from what its Node, its BMC and the decision say.

A run may be killed after any write. So nothing is remembered between transitions except the record
on the Node: a request that may not have been sent is sent again, because the power switch sends
nothing to a machine that has its state.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, replace

from ...base.errors import InvalidInput
from ..machine import Phase
from .record import NodeRecord

# The node lifecycle controller needs up to 50 s to see that a kubelet does not answer any more.
_STALE_SECONDS = 120.0

Action = t.Literal["none", "evict", "switch_off", "switch_on", "cycle"]


@dataclass(frozen=True)
class Patience:
    """Seconds until a phase is late, and the number of requests to switch before it is given up."""

    drain_timeout: float = 600.0
    shutdown_timeout: float = 300.0
    boot_timeout: float = 600.0
    max_attempts: int = 3

    def __post_init__(self) -> None:
        """Raises InvalidInput."""
        for name in ("drain_timeout", "shutdown_timeout", "boot_timeout"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 < value <= 7200):
                raise InvalidInput(f"sleep: {name} is {value}; give seconds above 0, at most 7200")
        if not 1 <= self.max_attempts <= 10:
            raise InvalidInput(f"sleep: max_attempts is {self.max_attempts}; give 1 to 10")


@dataclass(frozen=True)
class NodeView:
    """One machine at one moment.

    ``answered_at`` is the last time at which the kubelet surely answered, in seconds since the epoch.
    ``power`` is the PowerState of its BMC, None if unknown. ``pods`` are the pods that must leave
    before it is switched off. ``held`` keeps it as it is. ``blocked`` is a sentence why it must not
    be switched off now, empty if it may. ``is_cordoned`` and ``is_excluded`` say that its Node has a
    cordon, and the label that takes it out of the count of its zone. ``came`` is a pod because of
    which this run did not send the first request to shut down. ``pauses`` are marks of PAUSES that a
    sleep adds. ``has_volumes`` says that volumes are attached to it, which nothing detaches by force.
    ``request_seconds`` are those that the last request of this run to its BMC took: the phase began
    with the write before it, and the switch only with its end.
    """

    name: str
    record: NodeRecord | None = None
    is_ready: bool = True
    answered_at: float = 0.0
    power: str | None = None
    pods: tuple[str, ...] = ()
    held: bool = False
    blocked: str = ""
    is_cordoned: bool = False
    is_excluded: bool = False
    came: str = ""
    pauses: tuple[str, ...] = ()
    has_volumes: bool = False
    request_seconds: float = 0.0

    @property
    def phase(self) -> Phase:
        return Phase.AWAKE if self.record is None else self.record.phase

    @property
    def is_on(self) -> bool:
        return self.power in ("On", "PoweringOn")


@dataclass(frozen=True)
class Intent:
    """What the decision says about one machine, with its sentence."""

    action: t.Literal["stay", "off", "wake"] = "stay"
    reason: str = ""


@dataclass(frozen=True)
class Change:
    """A transition, or an action within a phase.

    ``record`` None is awake. ``is_written`` is false where the Node is that already. ``word`` and
    ``reason`` say why; ``is_warning`` says that a person should look. ``is_out_of_service`` lets the
    control plane detach the volumes by force.
    """

    name: str
    record: NodeRecord | None
    action: Action
    word: str
    reason: str
    is_warning: bool = False
    is_written: bool = True
    is_out_of_service: bool = False

    @property
    def phase(self) -> Phase:
        return Phase.AWAKE if self.record is None else self.record.phase


def next_change(
    view: NodeView, intent: Intent, patience: Patience, now: float, owner: str
) -> Change | None:
    """The transition that is due now; None if the machine is as it should be."""
    return _Machine(view, intent, patience, now, owner).next_change()


class _Machine:
    """One machine and the rules about it."""

    def __init__(
        self, view: NodeView, intent: Intent, patience: Patience, now: float, owner: str
    ) -> None:
        self.view, self.intent, self.patience = view, intent, patience
        self.now, self.owner = now, owner

    def next_change(self) -> Change | None:
        by_phase = {
            Phase.AWAKE: self._awake,
            Phase.DRAINING: self._draining,
            Phase.GOING_OFF: self._going_off,
            Phase.ASLEEP: self._asleep,
            Phase.WAKING: self._waking,
            Phase.QUARANTINED: self._quarantined,
        }
        return by_phase[self.view.phase]()

    @property
    def _record(self) -> NodeRecord:
        if self.view.record is None:
            raise AssertionError
        return self.view.record

    @property
    def _is_late(self) -> bool:
        deadline = self._record.deadline
        return deadline is not None and self.now > deadline + self.view.request_seconds

    @property
    def _is_back(self) -> bool:
        """Whether the kubelet has answered since the phase began, or so long that it surely does.

        A power state that is unknown does not contradict it.
        """
        if not self.view.is_ready or self.view.power == "Off":
            return False
        since = self._record.since
        return self.view.answered_at > since or self.now - since > _STALE_SECONDS

    def _to(
        self,
        phase: Phase,
        action: Action,
        word: str,
        reason: str,
        timeout: float | None = None,
        attempts: int = 0,
        is_warning: bool = False,
    ) -> Change:
        view = self.view
        before = view.record or NodeRecord(
            phase,
            self.now,
            self.owner,
            cordoned=not view.is_cordoned,
            excluded=not view.is_excluded,
            paused=view.pauses,
        )
        record = replace(
            before,
            phase=phase,
            since=self.now,
            owner=self.owner,
            deadline=None if timeout is None else self.now + timeout,
            attempts=attempts,
            reason=reason,
        )
        return Change(view.name, record, action, word, reason, is_warning)

    def _to_awake(self, word: str, reason: str, is_warning: bool = False) -> Change:
        return Change(self.view.name, None, "none", word, reason, is_warning)

    def _again(self, action: Action, word: str, reason: str) -> Change:
        return Change(self.view.name, self._record, action, word, reason, is_written=False)

    def _to_waking(self, word: str, reason: str) -> Change:
        """A machine that is on without its Node has a boot that failed."""
        action: Action = "cycle" if self.view.is_on else "switch_on"
        timeout = self.patience.boot_timeout
        return self._to(Phase.WAKING, action, word, reason, timeout, attempts=1)

    def _awake(self) -> Change | None:
        view, intent = self.view, self.intent
        if view.held:
            return None
        if intent.action == "off" and not view.blocked:
            timeout = self.patience.drain_timeout
            return self._to(Phase.DRAINING, "none", "draining", intent.reason, timeout)
        if intent.action == "wake" and not view.is_ready and view.power == "Off":
            return self._to_waking("waking", intent.reason)
        return None

    def _draining(self) -> Change | None:
        view = self.view
        if view.power == "Off" and not view.is_ready:
            return self._to(
                Phase.ASLEEP, "none", "by_hand", "It was switched off while it was being emptied."
            )
        if view.held:
            return self._to_awake("hold", "A hold keeps it awake.")
        if self.intent.action != "off":
            return self._to_awake("needed", "It is needed again, and stays awake.")
        if view.blocked:
            return self._to_awake("blocked", view.blocked)
        if not view.pods:
            timeout = self.patience.shutdown_timeout
            return self._to(
                Phase.GOING_OFF, "switch_off", "going_off", self._record.reason, timeout, attempts=1
            )
        if self._is_late:
            return self._to_awake(
                "not_emptied", f"{len(view.pods)} pods did not leave in time.", is_warning=True
            )
        return self._again("evict", "draining", f"{len(view.pods)} pods have to leave.")

    def _going_off(self) -> Change | None:
        view, record = self.view, self._record
        if view.power == "Off":
            return self._to(Phase.ASLEEP, "none", "asleep", "Its BMC says that it is off.")
        if view.came:
            return self._to_awake(
                "pods", f"{view.came} came since the decision, so it was not switched off."
            )
        if view.power is None and not view.is_ready:
            return None  # The BMC does not answer, and the machine may well be off.
        # The request may have been sent, so that the machine is left to its shutdown: awake, it
        # would take pods while it goes down.
        is_kept = self.intent.action == "wake" or view.held or view.blocked or view.pods
        may_send = not is_kept
        if not self._is_late:
            if view.power is None or not may_send:
                return None
            return self._again("switch_off", "going_off", "It is asked to shut down.")
        if view.power is not None and may_send and record.attempts < self.patience.max_attempts:
            timeout = self.patience.shutdown_timeout
            word, reason = "late", "It did not shut down in time, and is asked again."
            attempts = record.attempts + 1
            return self._to(
                Phase.GOING_OFF, "switch_off", word, reason, timeout, attempts, is_warning=True
            )
        if view.is_ready and view.pods:
            return self._to_awake("pods", f"{view.pods[0]} came before it was switched off.")
        if view.is_ready:
            reason = (
                "It does not shut down; check that its operating system obeys the power button."
            )
            return self._to_awake("not_off", reason, is_warning=True)
        return self._quarantine("It did not shut down, and its Node is not ready.")

    def _asleep(self) -> Change | None:
        view = self.view
        if self._is_back:
            reason = (
                "Its Node is ready, though its annotation or its taint says otherwise."
                if self._record.is_assumed
                else "It was switched on by hand, and its Node is ready."
            )
            return self._to_awake("by_hand", reason)
        if view.is_on:
            timeout = self.patience.boot_timeout
            return self._to(
                Phase.WAKING, "none", "by_hand", "It was switched on by hand.", timeout, attempts=1
            )
        if self.intent.action == "wake" and not view.held:
            return self._to_waking("waking", self.intent.reason)
        return _detaching(view, self._record, self.now)

    def _waking(self) -> Change | None:
        if self._is_back:
            return self._to_awake("awake", "It was woken, and its Node is ready.")
        # Without an answer of the BMC no boot has failed.
        if not self._is_late or self.view.power is None:
            if self.view.is_on:
                return None
            return self._again("switch_on", "waking", "It is asked to switch on.")
        if self._record.attempts >= self.patience.max_attempts:
            tried = self._record.attempts
            return self._quarantine(f"Its Node was not ready after {tried} boots.")
        return self._to(
            Phase.WAKING,
            "cycle" if self.view.is_on else "switch_on",
            "late",
            "Its Node was not ready in the boot time; it is tried again.",
            self.patience.boot_timeout,
            self._record.attempts + 1,
            is_warning=True,
        )

    def _quarantined(self) -> Change | None:
        if self._is_back:
            return self._to_awake("repaired", "Its Node is ready again.")
        if self.intent.action == "wake" and not self.view.held:
            return self._to_waking("waking", self.intent.reason)
        return None

    def _quarantine(self, reason: str) -> Change:
        return self._to(Phase.QUARANTINED, "none", "quarantined", reason, is_warning=True)


def _detaching(view: NodeView, record: NodeRecord, now: float) -> Change | None:
    """The change that detaches by force the volumes of a machine that is surely off.

    A BMC may be wrong, but then the kubelet answers.
    """
    is_silent = not view.is_ready and now - record.since > _STALE_SECONDS
    if view.held or not view.has_volumes or view.power != "Off" or not is_silent:
        return None
    reason = "It is off, and volumes are still attached to it; they are detached by force."
    return Change(view.name, record, "none", "volumes", reason, is_out_of_service=True)
