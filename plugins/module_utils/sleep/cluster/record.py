# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The state of a machine in an annotation of its Node, as a person can read it.

A kubelet may write the annotations of its own Node, so a record is hostile until it was read here.
It decides about its own machine only.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ...base import strict_json
from ...base.boundary import InvalidField, shown
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...base.units import format_time, parse_time
from ..machine import Phase

ANNOTATION = "wattwise.github.io/sleep"
HOLD = "wattwise.github.io/hold"

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
NOT_REMEDIATED = "remediation.medik8s.io/exclude-from-remediation"
# Marks for which other programs leave a Node alone, with the part of its metadata that has them.
PAUSES: t.Mapping[str, t.Literal["annotations", "labels"]] = {
    SCALE_DOWN_DISABLED: "annotations",
    NOT_REMEDIATED: "labels",
}

_PHASES = {phase.value: phase for phase in Phase if phase is not Phase.AWAKE}
_MAX_LENGTH = 2048
_MAX_ATTEMPTS = 100
_MAX_OWNER_LENGTH = 317
# Longer deadlines than any switch has; a kubelet could claim a boot without end.
_MAX_DEADLINE_SECONDS = 7200.0


@dataclass(frozen=True)
class NodeRecord:
    """The phase of a machine that is not simply awake. Times are seconds since the epoch.

    ``owner`` is the run that wrote it. ``attempts`` counts the requests to switch. ``cordoned`` and
    ``excluded`` say that the cordon and the label of the Node are ours, so that they are taken away
    at the wake. ``paused`` are our marks of PAUSES.
    """

    phase: Phase
    since: float
    owner: str
    deadline: float | None = None
    attempts: int = 0
    cordoned: bool = False
    excluded: bool = False
    reason: str = ""
    paused: tuple[str, ...] = ()

    @property
    def is_assumed(self) -> bool:
        """Whether no run wrote it, because the annotation and the taint of the Node disagree."""
        return not self.owner

    def as_annotation(self) -> str:
        """The JSON text."""
        fields: dict[str, t.Any] = {
            "phase": self.phase.value,
            "since": _text_of(self.since),
            "owner": self.owner,
            "attempts": self.attempts,
            "cordoned": self.cordoned,
            "excluded": self.excluded,
            "paused": list(self.paused),
            "reason": self.reason,
        }
        if self.deadline is not None:
            fields["deadline"] = _text_of(self.deadline)
        return strict_json.format_compact(fields)


def read_record(node: Object, now: float) -> NodeRecord | None:
    """The record of a Node, None without one. Raises InvalidField.

    A time in the future is now, and a deadline is at most two hours away, so that no annotation
    promises room or a rest for longer.
    """
    field = f"metadata.annotations[{ANNOTATION}]"
    given = member(node, "metadata", "annotations", ANNOTATION)
    if given is None:
        return None
    if not isinstance(given, str) or len(given) > _MAX_LENGTH:
        raise InvalidField(field, f"it must be a text of at most {_MAX_LENGTH} characters")
    try:
        body = strict_json.parse(given.encode())
    except ValueError as error:
        raise InvalidField(field, f"it is not JSON ({error}); remove it") from error
    phase = member(body, "phase")
    if not isinstance(phase, str) or phase not in _PHASES:
        raise InvalidField(f"{field}.phase", f"{shown(phase)} is none of {', '.join(_PHASES)}")
    attempts = member(body, "attempts")
    if isinstance(attempts, bool) or not isinstance(attempts, int):
        attempts = 0
    deadline = member(body, "deadline")
    owner, reason = member(body, "owner"), member(body, "reason")
    paused = member(body, "paused")
    return NodeRecord(
        _PHASES[phase],
        min(now, _moment(member(body, "since"), f"{field}.since")),
        owner[:_MAX_OWNER_LENGTH] if isinstance(owner, str) else "",
        None
        if deadline is None
        else min(now + _MAX_DEADLINE_SECONDS, _moment(deadline, f"{field}.deadline")),
        min(max(attempts, 0), _MAX_ATTEMPTS),
        member(body, "cordoned") is True,
        member(body, "excluded") is True,
        reason[:_MAX_LENGTH] if isinstance(reason, str) else "",
        tuple(name for name in PAUSES if isinstance(paused, list) and name in paused),
    )


def is_held(node: Object) -> bool:
    """Whether the hold annotation keeps the machine as it is; the value false lifts the hold."""
    given = member(node, "metadata", "annotations", HOLD)
    return given is not None and given != "false"


def _moment(given: t.Any, field: str) -> float:
    if not isinstance(given, str):
        raise InvalidField(field, f"{shown(given)} is not a time such as 2026-01-31T12:00:00Z")
    return parse_time(given, field).timestamp()


def _text_of(moment: float) -> str:
    found = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
    return format_time(found)
