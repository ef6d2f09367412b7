# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Conditions and events that report a decision about a pod."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.context import Context
from ..base.errors import ApiError
from ..base.json_types import MutableObject
from ..base.units import format_time
from .client import Kube
from .events import Event, tell_once

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
    return changed if _write(kube, pod, wanted) else frozenset()


def _write(kube: Kube, pod: MutableObject, condition: MutableObject) -> bool:
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
