# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Conditions and events that report a decision about a pod."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube, Object

_STRATEGIC_MERGE = "application/strategic-merge-patch+json"
# Limit of the API for notes.
_LONGEST_NOTE = 1024
_LONGEST_NAME = 253 - len(".") - 16


@dataclass(frozen=True)
class Condition:
    """A condition of a pod in the terms of the API; ``status`` is True or False as text."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True)
class Event:
    """Event about a condition; ``type`` is Normal or Warning."""

    type: str
    reason: str
    action: str
    reporter: str


def stored_condition(pod: Object, condition_type: str) -> Object:
    """The condition in the pod's status; empty if there is none."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == condition_type), {})


def tell(
    kube: Kube, context: Context, pod: Object, condition: Condition, event: Event
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
    _create_event(kube, _event(pod, condition.message, event, context))
    return changed if _write(kube, pod, wanted) else frozenset()


def _create_event(kube: Kube, event: Object) -> None:
    path = f"/apis/events.k8s.io/v1/namespaces/{event['metadata']['namespace']}/events"
    try:
        kube.request("POST", path, event)
    except ApiError as error:
        if error.status != 409:  # an interrupted earlier run wrote it
            raise


def _write(kube: Kube, pod: Object, condition: Object) -> bool:
    """Set the condition; False if the pod was deleted or replaced before."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
    body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}}
    try:
        kube.request("PATCH", path, body, _STRATEGIC_MERGE)
    except ApiError as error:
        if error.status in (404, 409):
            return False
        raise
    return True


def _event(pod: Object, message: str, event: Event, context: Context) -> Object:
    metadata = pod["metadata"]
    digest = hashlib.sha256(f"{metadata['uid']} {message}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name'][:_LONGEST_NAME]}.{digest}",
            "namespace": metadata["namespace"],
        },
        "eventTime": context.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": event.type,
        "reason": event.reason,
        "action": event.action,
        "note": message[:_LONGEST_NOTE],
        "reportingController": event.reporter,
        "reportingInstance": event.reporter,
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
    }
