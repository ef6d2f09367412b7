# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Telling a pod, and whoever watches it, that no node was found: condition and event.

Cluster autoscalers act on the condition PodScheduled=False with reason Unschedulable.
"""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube import Kube, Object
from ansible_collections.wattwise.kube.plugins.module_utils.units import format_time

_STRATEGIC_MERGE = "application/strategic-merge-patch+json"
_REPORTER = "wattwise.github.io/placement"
# The API refuses longer notes.
_LONGEST_NOTE = 1024
_LONGEST_NAME = 253 - len(".") - 16


@dataclass(frozen=True)
class Unplaced:
    """A pod for which the plan has no node. ``uid`` None stands for whichever has the name now."""

    namespace: str
    pod: str
    message: str
    uid: str | None = None


def mark(kube: Kube, context: Context, unplaced: Unplaced) -> dict[str, t.Any] | None:
    """Write condition and event unless the condition says so already; None where nothing is to do.

    A ``transition`` is more than another text. Raises ApiError.
    """
    path = f"/api/v1/namespaces/{unplaced.namespace}/pods/{unplaced.pod}"
    pod = kube.find(path)
    if pod is None or not _still_waits(pod, unplaced.uid):
        return None
    stored = _stored_condition(pod)
    wanted = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": unplaced.message,
    }
    changed = {key for key, value in wanted.items() if stored.get(key) != value}
    if not changed:
        return None
    if "status" in changed:
        wanted["lastTransitionTime"] = format_time(context.now())
    if not context.check_mode:
        # First the event: the condition is what keeps the next run from telling it again.
        _tell(kube, pod, unplaced.message, context)
        if not _write(kube, path, pod, wanted):
            return None
    return {
        "namespace": unplaced.namespace,
        "pod": unplaced.pod,
        "message": unplaced.message,
        "transition": bool(changed & {"status", "reason"}),
    }


def _tell(kube: Kube, pod: Object, message: str, context: Context) -> None:
    event = _event(pod, message, context)
    path = f"/apis/events.k8s.io/v1/namespaces/{event['metadata']['namespace']}/events"
    try:
        kube.request("POST", path, event)
    except ApiError as error:
        if error.status != 409:  # an earlier run told it and was then interrupted
            raise


def _write(kube: Kube, path: str, pod: Object, condition: Object) -> bool:
    """Set the condition; False where the pod was gone or replaced before that."""
    body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
    try:
        kube.request("PATCH", f"{path}/status", body, _STRATEGIC_MERGE)
    except ApiError as error:
        if error.status in (404, 409):
            return False
        raise
    return True


def _still_waits(pod: Object, uid: str | None) -> bool:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    if uid not in (None, "", metadata["uid"]):
        return False
    return not spec.get("nodeName") and not metadata.get("deletionTimestamp")


def _stored_condition(pod: Object) -> Object:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == "PodScheduled"), {})


def _event(pod: Object, message: str, context: Context) -> Object:
    metadata = pod["metadata"]
    digest = hashlib.sha256(f"{metadata['uid']} {message}".encode()).hexdigest()[:16]
    name = f"{metadata['name'][:_LONGEST_NAME]}.{digest}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "eventTime": context.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": message[:_LONGEST_NOTE],
        "reportingController": _REPORTER,
        "reportingInstance": _REPORTER,
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
    }
