# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Condition and event of a pod without a node.

Cluster autoscalers act on the condition PodScheduled=False with reason Unschedulable.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.context import Context
from ..base.json_types import MutableObject
from .client import Kube
from .events import Condition, Event, stored_condition, tell

_REPORTER = "wattwise.github.io/placement"


@dataclass(frozen=True)
class Unplaced:
    """A pod without a node in the plan. ``uid`` None means the present pod of this name."""

    namespace: str
    pod: str
    message: str
    uid: str | None = None

    @property
    def condition_reason(self) -> str:
        """Reason of the condition; autoscalers add nodes for this one alone."""
        return "Unschedulable"

    @property
    def event(self) -> Event:
        return Event("Warning", "FailedScheduling", "Scheduling", _REPORTER)


_TYPE, _STATUS = "PodScheduled", "False"


def is_marked(pod: MutableObject, unplaced: Unplaced) -> bool:
    """Whether the pod already had the condition when it was read."""
    stored = stored_condition(pod, _TYPE)
    told = (stored.get("status"), stored.get("reason"), stored.get("message"))
    is_same = unplaced.uid in (None, "", pod["metadata"].get("uid"))
    return is_same and told == (_STATUS, unplaced.condition_reason, unplaced.message)


def mark(kube: Kube, context: Context, unplaced: Unplaced) -> MutableObject | None:
    """Write condition and event; None if the pod already has the condition.

    A ``transition`` changes more than the text. Raises ApiError.
    """
    pod = kube.find(f"/api/v1/namespaces/{unplaced.namespace}/pods/{unplaced.pod}")
    if pod is None or not _still_waits(pod, unplaced.uid):
        return None
    condition = Condition(_TYPE, _STATUS, unplaced.condition_reason, unplaced.message)
    changed = tell(kube, context, pod, condition, unplaced.event)
    if not changed:
        return None
    return {
        "namespace": unplaced.namespace,
        "pod": unplaced.pod,
        "message": unplaced.message,
        "transition": bool(changed & {"status", "reason"}),
    }


def _still_waits(pod: MutableObject, uid: str | None) -> bool:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    if uid not in (None, "", metadata["uid"]):
        return False
    return not spec.get("nodeName") and not metadata.get("deletionTimestamp")
