# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Statuses of custom resources, and their conditions."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.errors import told_text
from ...base.fields.lenient import member, objects
from ...base.json_types import MutableObject, Object
from ...base.manifests import Manifest, same_object

Condition = MutableObject


@dataclass(frozen=True)
class Failure:
    """Why a run ended early, as reason and sentence of a condition."""

    reason: str
    sentence: str


def status_of_generation(
    failure: Failure | None, generation: int, stored: Object
) -> dict[str, t.Any]:
    """The start of a status: the generation of this run, and that of the last applied spec."""
    applied = generation if failure is None else stored.get("appliedGeneration")
    own = {"appliedGeneration": applied} if failure is None or applied else {}
    return {"observedGeneration": generation, **own}


def reconciled(failure: Failure | None, remarks: t.Sequence[str] = ()) -> Condition:
    """The condition Reconciled, of the last run, with remarks on the spec."""
    if failure is not None:
        return condition("Reconciled", "False", failure.reason, failure.sentence)
    text = " ".join(["The last run applied the whole spec.", *(f"Note: {one}." for one in remarks)])
    return condition("Reconciled", "True", "ReconcileSuccess", text)


def has_condition(obj: t.Any, name: str) -> bool:
    """Whether the status of an object of others has this condition as True."""
    return any(
        (one.get("type"), one.get("status")) == (name, "True")
        for one in objects(member(obj, "status", "conditions"))
    )


def stored_condition(stored: Object, name: str) -> Condition | None:
    """A condition as the status has it, without its times; None if it has no readable one."""
    for each in objects(stored.get("conditions")):
        parts = [each.get(part) for part in ("status", "reason", "message")]
        texts = [part for part in parts if isinstance(part, str)]
        if each.get("type") == name and len(texts) == len(parts):
            return condition(name, *texts)
    return None


def kept(stored: Object, name: str) -> Condition:
    """A condition unchanged, because the run ended before it."""
    never = condition(name, "Unknown", "NotYet", "No run has finished yet.")
    return stored_condition(stored, name) or never


def condition(name: str, status: str, reason: str, message: str) -> Condition:
    """A condition with a message of limited length; kube_apply adds its lastTransitionTime."""
    return {"type": name, "status": status, "reason": reason, "message": told_text(message)}


def of_generation(conditions: t.Iterable[Condition], generation: int) -> list[Condition]:
    """The conditions, with the generation of the resource that they are about."""
    return [{**each, "observedGeneration": generation} for each in conditions]


def status_manifest(api_version: str, kind: str, metadata: Object, status: Object) -> Manifest:
    """The status of exactly this object in the form of kube_apply."""
    head = {"apiVersion": api_version, "kind": kind, "metadata": same_object(metadata)}
    return {**head, "status": status}


def changed_status(api_version: str, kind: str, obj: Object, status: Object) -> Manifest | None:
    """The status of an object; None if only times of transition differ from the stored one."""
    stored = member(obj, "status") or {}
    if are_stored(stored, status["conditions"]) and all(
        (stored.get(name) or None) == (status.get(name) or None)
        for name in {*stored, *status} - {"conditions"}
    ):
        return None
    return status_manifest(api_version, kind, obj["metadata"], status)


def are_stored(stored: Object, conditions: t.Iterable[Condition]) -> bool:
    """Whether a status has these conditions; it may have others, and has times of transition."""
    known = {str(each.get("type")): each for each in objects(stored.get("conditions"))}
    return all(
        known.get(each["type"], {}).get(key) == value
        for each in conditions
        for key, value in each.items()
    )
