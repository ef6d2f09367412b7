# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Transitions of the conditions of a status.

Source: https://github.com/kubernetes/community/blob/main/contributors/devel/sig-architecture/
api-conventions.md#typical-status-properties
"""

from __future__ import annotations

import datetime

from ...base.json_types import MutableObject, Object
from ...base.units import format_time


def with_transition_times(
    desired: Object, current: Object, now: datetime.datetime
) -> MutableObject:
    """The desired status; a condition with equal status keeps its lastTransitionTime."""
    known = _by_type(current)
    conditions: list[MutableObject] = []
    for condition in desired.get("conditions") or []:
        before = known.get(condition["type"], {})
        same = before.get("status") == condition["status"] and before.get("lastTransitionTime")
        moment = before["lastTransitionTime"] if same else format_time(now)
        conditions.append({"lastTransitionTime": moment, **condition})
    return {**desired, "conditions": conditions} if conditions else dict(desired)


def conditions_moved(before: Object, after: Object) -> bool:
    """Whether a condition appeared, disappeared or changed its status."""
    return {key: item.get("status") for key, item in _by_type(before).items()} != {
        key: item.get("status") for key, item in _by_type(after).items()
    }


def _by_type(status: Object) -> dict[str, Object]:
    """Conditions by type; invalid entries are left out."""
    conditions = status.get("conditions")
    return {
        item["type"]: item
        for item in (conditions if isinstance(conditions, list) else [])
        if isinstance(item, dict) and isinstance(item.get("type"), str)
    }
