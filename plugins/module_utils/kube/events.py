# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Events of objects, for people, and conditions that report a decision about a pod.

``tell_once`` needs only the permission to create, and writes one Event for each sentence, ignoring its
numbers; it suits objects of tenants. ``tell_again`` keeps one Event for each object and reason, and
updates its text and count.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from dataclasses import dataclass

from ..base.context import Context
from ..base.errors import ApiError, InvalidInput
from ..base.json_types import MutableObject
from ..base.units import format_time, parse_time
from .client import Kube

# Limit of notes in the API.
_MAX_NOTE_LENGTH = 1024
_MAX_NAME_LENGTH = 253 - len(".") - 16
_WORD = re.compile(r"[^\W\d]+")
# Namespace that the API requires for Events of cluster-scoped objects.
_NAMESPACE = "default"
# A recently updated Event suffices.
QUIET_SECONDS = 300.0


@dataclass(frozen=True)
class Event:
    """Content of an Event; ``type`` is Normal or Warning."""

    type: str
    reason: str
    action: str
    reporter: str


def tell_once(kube: Kube, context: Context, obj: MutableObject, note: str, event: Event) -> None:
    """Write an Event about an object, unless an equal one exists.

    Raises ApiError. Numbers are ignored in the comparison, because counts of nodes change with
    every pod.
    """
    if context.check_mode:
        return
    metadata = obj["metadata"]
    # Equal for sentences that differ only in numbers and in the order of parts.
    said = " ".join([event.reason, *sorted(set(_WORD.findall(note)))])
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": _name(metadata, said),
            "namespace": metadata["namespace"],
        },
        "eventTime": context.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": event.type,
        "reason": event.reason,
        "action": event.action,
        "note": note[:_MAX_NOTE_LENGTH],
        "reportingController": event.reporter,
        "reportingInstance": event.reporter,
        "regarding": _reference(obj),
    }
    path = f"/apis/events.k8s.io/v1/namespaces/{metadata['namespace']}/events"
    _create(kube, path, body, (409,))  # an earlier run wrote it


def tell_again(kube: Kube, context: Context, obj: MutableObject, note: str, event: Event) -> bool:
    """Write an Event about an object, or update the one of its reason; return whether it wrote.

    An Event updated less than QUIET_SECONDS ago stays unchanged. Raises ApiError.
    """
    metadata, now = obj["metadata"], context.now()
    namespace = metadata.get("namespace") or _NAMESPACE
    # The text of Events of the group events.k8s.io is immutable.
    collection = f"/api/v1/namespaces/{namespace}/events"
    path = f"{collection}/{_name(metadata, event.reason)}"
    found = kube.find(path)
    if context.check_mode or (found is not None and _is_young(found, now)):
        return False
    moving = {
        "message": note[:_MAX_NOTE_LENGTH],
        "lastTimestamp": format_time(now),
        "count": 1 + _count(found),
        "type": event.type,
    }
    if found is not None:
        version = {"resourceVersion": found["metadata"].get("resourceVersion")}
        kube.patch_same(path, {"metadata": version, **moving})
        return True
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _name(metadata, event.reason), "namespace": namespace},
        "involvedObject": _reference(obj),
        "reason": event.reason,
        "action": event.action,
        "source": {"component": event.reporter},
        "reportingComponent": event.reporter,
        "reportingInstance": event.reporter,
        "firstTimestamp": format_time(now),
        **moving,
    }
    _create(kube, collection, body, (404, 409))  # another client wrote it since
    return True


def _create(kube: Kube, path: str, body: MutableObject, accepted: tuple[int, ...]) -> None:
    """Create an Event; an error with an accepted status is none. Raises ApiError."""
    try:
        kube.request("POST", path, body)
    except ApiError as error:
        if error.status not in accepted:
            raise


def _name(metadata: MutableObject, key: str) -> str:
    digest = hashlib.sha256(f"{metadata['uid']} {key}".encode()).hexdigest()[:16]
    return f"{metadata['name'][:_MAX_NAME_LENGTH]}.{digest}"


def _reference(obj: MutableObject) -> MutableObject:
    metadata = obj["metadata"]
    named = {key: metadata[key] for key in ("namespace", "name", "uid") if key in metadata}
    version = metadata.get("resourceVersion")
    return {
        "apiVersion": obj.get("apiVersion", "v1"),
        "kind": obj.get("kind", "Pod"),
        **named,
        **({"resourceVersion": version} if version else {}),
    }


def _count(found: MutableObject | None) -> int:
    count = (found or {}).get("count")
    return count if isinstance(count, int) and count >= 0 else 0


def _is_young(found: MutableObject, now: datetime.datetime) -> bool:
    try:
        moment = parse_time(found.get("lastTimestamp") or "")
    except InvalidInput:
        return False
    return 0 <= (now - moment).total_seconds() < QUIET_SECONDS


_STRATEGIC_MERGE = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Condition:
    """A condition of a pod in the terms of the API; ``status`` is True or False as text."""

    type: str
    status: str
    reason: str
    message: str


def stored_condition(pod: MutableObject, condition_type: str) -> MutableObject:
    """The condition in the pod's status; empty if there is none."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == condition_type), {})


def tell(
    kube: Kube, context: Context, pod: MutableObject, condition: Condition, event: Event
) -> frozenset[str]:
    """Write event and condition unless the pod already has the condition.

    Returns the changed fields of the condition; none if the pod was deleted or replaced meanwhile.
    Raises ApiError.
    """
    stored = stored_condition(pod, condition.type)
    wanted = dict(vars(condition))
    changed = frozenset(key for key, value in wanted.items() if stored.get(key) != value)
    if not changed or context.check_mode:
        return changed
    if "status" in changed:
        wanted["lastTransitionTime"] = format_time(context.now())
    # The event is first, because the condition keeps the next run from repeating it.
    tell_once(kube, context, pod, condition.message, event)
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
    body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [wanted]}}
    return changed if kube.patch_same(path, body, _STRATEGIC_MERGE) else frozenset()
