# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Writes of a PowerFleet's status, and Events for people."""

from __future__ import annotations

import typing as t

from ..base.context import Context, Result
from ..base.errors import ApiError
from ..base.fields.lenient import member
from ..base.json_types import Object
from ..kube import events
from ..kube.apply import work as applying
from ..kube.client import Kube
from ..kube.resource.conditions import status_manifest
from .resource import API_VERSION, KIND, PowerFleet
from .status import MAX_LISTED, is_due

# An object, and a sentence about it.
Note = tuple[Object, str]

FIELD_MANAGER = "wattwise-power-fleet"
_REPORTER = "wattwise.github.io/power-fleet"
_MAX_NAMED = 3
# A power failure must not cause a thousand Events; the fleet's Event has the number.
_MAX_EVENTS = MAX_LISTED
# Phase of a machine → reason of the fleet's Event; the phases between are those of Nodes alone.
_PHASES = {
    "asleep": "MachinesAsleep",
    "waking": "MachinesWaking",
    "awake": "MachinesAwake",
    "quarantined": "MachinesQuarantined",
}


def write_status(
    kube: Kube,
    fleet: PowerFleet,
    status: Object,
    heartbeat_seconds: float | None,
    context: Context,
    nodes: t.Sequence[Object] = (),
) -> Result:
    """Write a status that is due, with its Events; the result has changed, written and diff.

    ``nodes`` are the cluster's nodes; each one with a lost machine gets an Event as well. Nothing
    is written if the fleet was deleted or replaced meanwhile. Raises WattwiseError.
    """
    if not is_due(status, fleet.status, heartbeat_seconds, context.now()):
        return {"changed": False, "written": False, "diff": []}
    manifest = status_manifest(API_VERSION, KIND, fleet.manifest["metadata"], dict(status))
    options = applying.SPEC.complete({"status": True, "field_manager": FIELD_MANAGER})
    result = applying.apply_manifests(kube, [manifest], options, context)
    is_there = any(one["action"] != "unchanged" for one in result["results"])
    if is_there:
        _tell_conditions(kube, fleet, status, context)
        _tell_lost(kube, fleet, status, nodes, context)
    return {"changed": result["changed"], "written": is_there, "diff": result["diff"]}


def tell(
    kube: Kube, fleet: PowerFleet, reason: str, note: str, context: Context, is_bad: bool = True
) -> None:
    """An Event about the fleet; it is optional, so a refusal is a warning."""
    event = events.Event("Warning" if is_bad else "Normal", reason, "Reconciling", _REPORTER)
    try:
        events.tell_again(kube, context, {**fleet.manifest, "kind": KIND}, note, event)
    except ApiError as error:
        context.warn(f"The Event {reason} of PowerFleet {fleet.key} could not be written: {error}")


def tell_refused(
    kube: Kube, fleet: PowerFleet, statuses: t.Iterable[Object], context: Context
) -> None:
    """Events about failed RmdWorkloads, and one about the fleet.

    ``statuses`` are manifests of changed statuses.
    """
    refused = [
        (one, f"{condition['reason']}: {condition['message']}")
        for one in statuses
        if one["kind"] == "RmdWorkload"
        for condition in one["status"]["conditions"]
        if condition["type"] == "Ready" and condition["status"] == "False"
    ]
    _tell_each(kube, fleet, "WorkloadRefused", refused, context)


def tell_switched(
    kube: Kube, fleet: PowerFleet, transitions: t.Iterable[Object], context: Context
) -> None:
    """One Event about the fleet for each phase at which machines arrived; Nodes have their own."""
    for phase, reason in _PHASES.items():
        arrived = [one for one in transitions if one["phase"] == phase]
        if arrived:
            notes = [f"{one['name']}: {one['reason']}" for one in arrived]
            is_bad = any(one["warning"] for one in arrived)
            tell(kube, fleet, reason, _shortened(notes), context, is_bad)


def _shortened(notes: t.Sequence[str]) -> str:
    """The first sentences, and the number of the others."""
    more = len(notes) - _MAX_NAMED
    return f"{'; '.join(notes[:_MAX_NAMED])}{f' (and {more} more)' if more > 0 else ''}"


def _tell_each(
    kube: Kube, fleet: PowerFleet, reason: str, told: t.Sequence[Note], context: Context
) -> None:
    """An Event about each object, up to a limit, and one about the fleet that names the first."""
    if not told:
        return
    tell(kube, fleet, reason, _shortened([f"{_key(obj)}: {note}" for obj, note in told]), context)
    event, refusals = events.Event("Warning", reason, "Reconciling", _REPORTER), []
    for obj, note in told[:_MAX_EVENTS]:
        try:
            if member(obj, "metadata", "uid"):
                events.tell_again(kube, context, dict(obj), note, event)
        except ApiError as error:
            # The namespace of one object may be terminating; the others still get their Events.
            refusals.append(f"{obj['kind']} {_key(obj)}: {error}")
    if refusals:
        context.warn(
            f"{len(refusals)} Events {reason} could not be written; the first is that of "
            f"{refusals[0]}"
        )


def _key(obj: Object) -> str:
    metadata = obj["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def _tell_conditions(kube: Kube, fleet: PowerFleet, status: Object, context: Context) -> None:
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


def _tell_lost(
    kube: Kube,
    fleet: PowerFleet,
    status: Object,
    nodes: t.Sequence[Object],
    context: Context,
) -> None:
    """Write Events about newly failing machines; both lists have the first by name."""
    stored = [one.get("node") or "" for one in fleet.status.get("failing") or []]
    # Former failures beyond the end of a full list are unknown.
    last = max(stored) if len(stored) >= MAX_LISTED else None
    lost = {
        one["node"]: one["message"]
        for one in status.get("failing") or ()
        if one["node"] not in stored and (last is None or one["node"] < last)
    }
    found = {member(node, "metadata", "name"): node for node in nodes}
    told = [
        (found.get(name, {"kind": "Node", "metadata": {"name": name}}), note)
        for name, note in lost.items()
    ]
    _tell_each(kube, fleet, "MachineLost", told, context)
