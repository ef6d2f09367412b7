# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Collectors that do not run, with the message of their container or of its runtime."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ...base.boundary import Finding, guarded, shown_text, subject_of
from ...base.fields.lenient import member, objects
from . import names

CRASHING, WAITING = "crashing", "waiting"
_MAX_MESSAGE_LENGTH = 400
_MAX_REASON_LENGTH = 60
# Transient reasons of a waiting container.
_COMING = ("ContainerCreating", "PodInitializing", "")


@dataclass(frozen=True)
class Trouble:
    """A pod that does not run. ``kind`` is crashing, or waiting forever."""

    group: str
    pod: str
    node: str
    kind: str
    message: str


def troubles(pods: t.Iterable[t.Any]) -> list[Trouble]:
    """The collectors that crash or wait forever, by name. Pods are unchecked."""
    found: list[Trouble] = []
    for pod in pods:
        read = guarded(subject_of(pod, "Pod"), functools.partial(_trouble, pod))
        if read is not None and not isinstance(read, Finding):
            found.append(read)
    return sorted(found, key=lambda one: (one.group, one.pod))


def _trouble(pod: t.Any) -> Trouble | None:
    for status in objects(member(pod, "status", "containerStatuses")):
        found = _of_container(status)
        if found is not None:
            return _named(pod, *found)
    for condition in objects(member(pod, "status", "conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _named(pod, WAITING, str(condition.get("message", "it is not scheduled")))
    return None


def _named(pod: t.Any, kind: str, message: str) -> Trouble:
    node = member(pod, "spec", "nodeName")
    return Trouble(
        group=str(member(pod, "metadata", "labels", names.GROUP_LABEL) or ""),
        pod=subject_of(pod, "Pod").name,
        node=shown_text(node, 253) if isinstance(node, str) else "",
        kind=kind,
        message=shown_text(" ".join(message.split()), _MAX_MESSAGE_LENGTH),
    )


def _of_container(status: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
    """Whether one container crashes or waits, and its last message."""
    reason = str(member(status, "state", "waiting", "reason") or "")
    ended = member(status, "state", "terminated") or member(status, "lastState", "terminated")
    is_again = ended and status.get("ready") is not True and reason in _COMING
    if reason == "CrashLoopBackOff" or is_again:
        return CRASHING, _last_words(ended)
    if reason not in _COMING:
        told = member(status, "state", "waiting", "message") or ""
        return WAITING, f"{shown_text(reason, _MAX_REASON_LENGTH)}: {told}"
    return None


def _last_words(ended: t.Any) -> str:
    code = member(ended, "exitCode")
    words = str(member(ended, "message") or "").strip()
    # The error is at the end of a log, so the beginning is cut.
    words = words[-_MAX_MESSAGE_LENGTH + 40 :]
    exits = f"exit code {code}" if isinstance(code, int) else "unknown exit code"
    return f"{exits}: {words}" if words else f"{exits}, without a message"
