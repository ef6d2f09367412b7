# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Telling a pod, and whoever watches it, what was decided about it: a condition and an event."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube, Object
from ansible_collections.wattwise.kube.plugins.module_utils.kube.events import Event, tell_once

_STRATEGIC_MERGE = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Condition:
    """A condition of a pod, in the words of the API; ``status`` is True or False as text."""

    type: str
    status: str
    reason: str
    message: str


def stored_condition(pod: Object, condition_type: str) -> Object:
    """The condition as it stands in the pod; empty where there is none."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == condition_type), {})


def tell(
    kube: Kube, context: Context, pod: Object, condition: Condition, event: Event
) -> frozenset[str]:
    """Write event and condition unless the condition stands there already.

    Returns which of its fields changed; none of them also where the pod was gone or replaced
    meanwhile. Raises ApiError.
    """
    stored = stored_condition(pod, condition.type)
    wanted = dict(vars(condition))
    changed = frozenset(key for key, value in wanted.items() if stored.get(key) != value)
    if not changed or context.check_mode:
        return changed
    if "status" in changed:
        wanted["lastTransitionTime"] = format_time(context.now())
    # First the event: the condition is what keeps the next run from telling it again.
    tell_once(kube, context, pod, condition.message, event)
    return changed if _write(kube, pod, wanted) else frozenset()


def _write(kube: Kube, pod: Object, condition: Object) -> bool:
    """Set the condition; False where the pod was gone or replaced before that."""
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
