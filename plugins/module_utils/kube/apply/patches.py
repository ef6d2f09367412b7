# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Patches of server-side apply, and waits for objects that are being deleted.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

import datetime
import time
import typing as t
from dataclasses import dataclass, field

from ...base.context import Context
from ...base.errors import ApiError, WattwiseError
from ...base.json_types import MutableObject, Object
from ...base.manifests import Identity, Manifest, identity
from ...base.units import format_time
from ..client import APPLY_CONTENT_TYPE, Kube, delete_object
from .applied import is_applied
from .change import Change, conflict_sentence


def with_transition_times(
    desired: Object, current: Object, now: datetime.datetime
) -> MutableObject:
    """The desired status; a condition with equal status keeps its lastTransitionTime.

    Source: https://github.com/kubernetes/community/blob/main/contributors/devel/sig-architecture/
    api-conventions.md#typical-status-properties
    """
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


GOING_DEFINITION = "create not allowed while custom resource definition is terminating"
READY_POLL_SECONDS = 0.2
_RETURNING_SECONDS = 10.0
_MAX_CONFLICTS = 3


@dataclass
class Patches:
    """Writes of one call. ``leaving_kinds`` are groups and kinds whose CRD is being deleted."""

    kube: Kube
    options: t.Mapping[str, t.Any]
    context: Context
    leaving_kinds: set[tuple[str, str]] = field(default_factory=set)

    def patch(self, path: str, manifest: Manifest, force: bool) -> tuple[MutableObject, bool]:
        query: dict[str, str | int] = {
            "fieldManager": self.options["field_manager"],
            "fieldValidation": "Strict",
            "force": "true" if force else "false",
        }
        if self.context.check_mode:
            query["dryRun"] = "All"
        deadline = time.monotonic() + min(_RETURNING_SECONDS, self.options["wait_timeout"])
        conflicts = 0
        while True:
            try:
                answer = self.kube.send("PATCH", path, manifest, APPLY_CONTENT_TYPE, query)
                return answer.body, answer.status == 201
            except ApiError as error:
                is_coming = GOING_DEFINITION in str(error) and not self.context.check_mode
                if is_coming and time.monotonic() < deadline:
                    # The definition is new, and the handler of its predecessor still answers.
                    time.sleep(READY_POLL_SECONDS)
                    continue
                if error.status != 409:
                    raise
                sentence = conflict_sentence(error, identity(manifest))
                if sentence:
                    raise WattwiseError(sentence) from error
                conflicts += 1
                if conflicts == _MAX_CONFLICTS:
                    raise

    def recreate(self, path: str, manifest: Manifest, before: MutableObject) -> MutableObject:
        """Delete an immutable object, and create it again after the deletion."""
        delete_object(self.kube, path, before, self.context.check_mode)
        if self.context.check_mode:
            return manifest
        self._wait_for_deletion(path, before)
        after, _created = self.patch(path, manifest, force=True)
        return after

    def wait_for_successor(self, path: str, before: MutableObject) -> MutableObject | None:
        try:
            return self._wait_for_deletion(path, before)
        except WattwiseError:
            if before["kind"] == "CustomResourceDefinition":
                # Kubernetes 1.34 would accept objects of this kind and forget them later.
                spec = before["spec"]
                self.leaving_kinds.add((spec["group"], spec["names"]["kind"]))
            raise

    def _wait_for_deletion(self, path: str, before: MutableObject) -> MutableObject | None:
        """The object at this place after the deletion of this one."""
        deadline = time.monotonic() + self.options["wait_timeout"]
        found: MutableObject | None = before
        while found is not None and found["metadata"]["uid"] == before["metadata"]["uid"]:
            if time.monotonic() > deadline:
                raise WattwiseError(
                    f"{identity(before)} is being deleted, and was still there after "
                    f"{self.options['wait_timeout']:g} s; check its finalizers, and run again"
                )
            time.sleep(READY_POLL_SECONDS)
            found = self.kube.find(path)
        return found

    def apply_status(
        self, manifest: Manifest, before: MutableObject | None, path: str, this: Identity
    ) -> Change:
        # Deleted since it was read, so the status is obsolete.
        uid = manifest["metadata"].get("uid")
        if uid and (before is None or before["metadata"]["uid"] != uid):
            return Change(this, "unchanged", before, before)
        if before is None:
            if self.context.check_mode:
                return Change(this, "configured", None, manifest, is_change=False)
            raise WattwiseError(
                f"{this}: the object does not exist, so its status cannot be written"
            )
        status = with_transition_times(
            manifest.get("status") or {}, before.get("status") or {}, self.context.now()
        )
        body = {
            "apiVersion": this.api_version,
            "kind": this.kind,
            "metadata": {"name": this.name, "namespace": this.namespace or None},
            "status": status,
        }
        if is_applied(body, before, self.options["field_manager"], "status"):
            return Change(this, "unchanged", before, before, is_change=False)
        try:
            after, _created = self.patch(f"{path}/status", body, force=True)
        except ApiError as error:
            if uid and error.status == 404:
                return Change(this, "unchanged", None, None)
            raise
        moved = conditions_moved(before.get("status") or {}, after.get("status") or {})
        same = before.get("status") == after.get("status")
        return Change(this, "unchanged" if same else "configured", before, after, is_change=moved)
