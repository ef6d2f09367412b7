# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Writing the status of a PowerFleet, and Events for what people must see of it."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context, Result
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube import events
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply import work as applying
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    API_VERSION,
    KIND,
    RECONCILE_PERIOD,
    PowerFleet,
    path_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.status import is_due

Object = t.Mapping[str, t.Any]

FIELD_MANAGER = "wattwise-power-fleet"
_REPORTER = "wattwise.github.io/power-fleet"
_MOST_NAMED = 3


def write_status(
    kube: Kube,
    fleet: PowerFleet,
    status: Object,
    heartbeat_seconds: float | None,
    context: Context,
) -> Result:
    """Write a status that is due, with its Events; the result has changed, written and diff.

    Nothing is written where the fleet was deleted or replaced meanwhile. Raises WattwiseError.
    """
    if not is_due(status, fleet.status, heartbeat_seconds, context.now()):
        return {"changed": False, "written": False, "diff": []}
    manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": fleet.name, "namespace": fleet.namespace, "uid": fleet.uid},
        "status": dict(status),
    }
    options = applying.SPEC.complete({"status": True, "field_manager": FIELD_MANAGER})
    result = applying.apply_manifests(kube, [manifest], options, context)
    is_there = any(one["action"] != "unchanged" for one in result["results"])
    if is_there:
        _tell(kube, fleet, status, context)
    return {"changed": result["changed"], "written": is_there, "diff": result["diff"]}


def keep_period(kube: Kube, fleet: PowerFleet, context: Context) -> bool:
    """Make the interval the period of ansible-operator; whether that was another one before."""
    wanted = fleet.spec["interval"]
    if fleet.annotation(RECONCILE_PERIOD) == wanted:
        return False
    if context.check_mode:
        return True
    version = fleet.manifest["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version, "annotations": {RECONCILE_PERIOD: wanted}}}
    query = {"fieldManager": FIELD_MANAGER}
    try:
        kube.request("PATCH", path_of(fleet.namespace, fleet.name), body, MERGE_CONTENT_TYPE, query)
    except ApiError as error:
        # Changed, deleted or made anew since it was read; the next run sees what is there.
        if error.status not in (404, 409):
            raise
        return False
    return True


def tell(
    kube: Kube, fleet: PowerFleet, reason: str, note: str, context: Context, is_bad: bool = True
) -> None:
    """An Event about the fleet; a run is as good without, so a refusal is a warning."""
    event = events.Event("Warning" if is_bad else "Normal", reason, "Reconciling", _REPORTER)
    try:
        events.tell_again(kube, context, {**fleet.manifest, "kind": KIND}, note, event)
    except ApiError as error:
        context.warn(f"The Event {reason} of PowerFleet {fleet.key} could not be written: {error}")


def _tell(kube: Kube, fleet: PowerFleet, status: Object, context: Context) -> None:
    before = {
        one.get("type"): (one.get("status"), one.get("reason"))
        for one in fleet.status.get("conditions") or []
    }
    for one in status["conditions"]:
        was = before.get(one["type"], (None, None))
        if one["status"] == "False" and was != ("False", one["reason"]):
            tell(kube, fleet, one["reason"], one["message"], context)
        elif one["status"] == "True" and was[0] == "False":
            tell(kube, fleet, one["reason"], one["message"], context, is_bad=False)
    known = {one.get("node") for one in fleet.status.get("failing") or []}
    lost = [one for one in status.get("failing") or () if one["node"] not in known]
    if lost:
        named = "; ".join(f"{one['node']}: {one['message']}" for one in lost[:_MOST_NAMED])
        more = len(lost) - _MOST_NAMED
        note = f"{named}{f' (and {more} more)' if more > 0 else ''}"
        tell(kube, fleet, "MachineLost", note, context)
