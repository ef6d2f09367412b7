# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Change of one object: the single source of changed, diff and results."""

from __future__ import annotations

import copy
import json
import re
import typing as t
from dataclasses import dataclass

from ...base.errors import ApiError
from ...base.json_types import MutableObject
from ...base.manifests import MANAGED_BY_LABEL, Identity

Action = t.Literal["created", "configured", "unchanged", "deleted", "failed"]

# Messages of most kinds, and of pods.
_IMMUTABLE = re.compile("field is immutable|updates may not change fields")
# Unauthenticated, forbidden, unavailable and overloaded concern no single object.
_REFUSALS = frozenset({400, 404, 409, 413, 422})
_BOOKKEEPING = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


@dataclass(frozen=True)
class Change:
    """One object before and after.

    ``is_change`` is False for observations, which never make a task changed. ``is_refusal`` is True
    if the failure is caused by the object, not by the server or a missing permission.
    """

    identity: Identity
    action: Action
    before: MutableObject | None
    after: MutableObject | None
    error: str | None = None
    is_change: bool = True
    is_refusal: bool = False

    @property
    def is_effective(self) -> bool:
        """Whether the change makes the task changed."""
        return self.is_change and self.action in ("created", "configured", "deleted")

    def as_dict(self) -> dict[str, str]:
        """The entry in ``results``."""
        entry = {
            "api_version": self.identity.api_version,
            "kind": self.identity.kind,
            "namespace": self.identity.namespace,
            "name": self.identity.name,
            "action": self.action,
        }
        return entry if self.error is None else {**entry, "error": self.error}

    def diff(self) -> dict[str, str]:
        """The entry in ``diff``, in Ansible's form."""
        return {
            "before_header": f"{self.identity} (before)",
            "after_header": f"{self.identity} (after)",
            "before": _shown(self.before, self.identity.kind),
            "after": _shown(self.after, self.identity.kind),
        }


def without_bookkeeping(obj: MutableObject) -> MutableObject:
    """The object without fields that the API server maintains."""
    metadata = {
        key: value for key, value in obj.get("metadata", {}).items() if key not in _BOOKKEEPING
    }
    return {**obj, "metadata": metadata}


def desired_part(obj: MutableObject) -> MutableObject:
    """The part of the object that an application can change: no server-maintained fields, no
    status.
    """
    return {key: value for key, value in without_bookkeeping(obj).items() if key != "status"}


def _shown(obj: MutableObject | None, kind: str) -> str:
    if obj is None:
        return ""
    shown = copy.deepcopy(without_bookkeeping(obj))
    if kind == "Secret":
        for part in ("data", "stringData"):
            if part in shown:
                shown[part] = dict.fromkeys(shown[part], "(hidden)")
    shown["metadata"].get("annotations", {}).pop(
        "kubectl.kubernetes.io/last-applied-configuration", None
    )
    return json.dumps(shown, indent=2, sort_keys=True, allow_nan=False) + "\n"


def foreign_manager(obj: MutableObject, field_manager: str) -> str | None:
    """Manager of an object that ``field_manager`` never applied; None if it did.

    Managers of the status subresource, such as the API server, do not count.
    """
    managers = [
        entry["manager"]
        for entry in obj["metadata"].get("managedFields") or []
        if not entry.get("subresource")
    ]
    if field_manager in managers:
        return None
    labels = obj["metadata"].get("labels") or {}
    by_label = labels.get(MANAGED_BY_LABEL)
    return str(by_label or (managers[0] if managers else "an unknown manager"))


def conflict_sentence(error: ApiError, identity: Identity) -> str | None:
    """A server-side apply conflict as one sentence, or None for another kind of 409."""
    causes = [
        cause
        for cause in error.fields.get("causes", [])
        if cause.get("reason") == "FieldManagerConflict"
    ]
    if not causes:
        return None
    parts = [f"{cause['field']} ({cause['message']})" for cause in causes[:5]]
    return (
        f"{identity}: another manager owns {', '.join(parts)}; leave these fields out, or set "
        "force_conflicts to take them over"
    )


def is_immutable(error: ApiError) -> bool:
    """Whether the API refused a change only because of immutable fields."""
    causes = error.fields.get("causes") or []
    return bool(causes) and all(_IMMUTABLE.search(cause.get("message") or "") for cause in causes)


def is_refusal(error: Exception) -> bool:
    """Whether an error concerns only the object that was sent."""
    if not isinstance(error, ApiError):
        return True
    return error.status in _REFUSALS or "namespace_terminating" in error.fields


def summary_sentence(changes: t.Sequence[Change]) -> str:
    """Message of a failed task."""
    failures = [change for change in changes if change.action == "failed"]
    sentence = f"{len(failures)} of {len(changes)} objects failed: {failures[0].error}"
    if len(failures) > 1:
        sentence += f" (and {len(failures) - 1} more, see results)"
    return sentence
