# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Application of objects by server-side apply.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

import threading
import typing as t
from dataclasses import dataclass, field

from ...base.boundary import shown_text
from ...base.context import Context
from ...base.errors import ApiError, WattwiseError
from ...base.json_types import MutableObject
from ...base.manifests import Identity, Manifest, identity
from ..client import Kube, Resource, UnknownKind, delete_object
from ..crd_schema import CrdValidator, stored_object_problem
from .applied import is_applied
from .change import Change, desired_part, foreign_manager, is_immutable, is_refusal
from .live import LiveObjects
from .patches import GOING_DEFINITION, Patches

_LIST_FROM = 20
# New content of one of these in deletion is deleted with it.
_AWAITED = frozenset({"CustomResourceDefinition", "Namespace"})
_MAX_ERROR_LENGTH = 2000  # the message of the server quotes the refused value


@dataclass
class ApplyRun:
    """One call, with its options and the state of the cluster known so far."""

    kube: Kube
    options: t.Mapping[str, t.Any]
    context: Context
    validators: list[CrdValidator]
    assumed_namespaces: frozenset[str]
    live: LiveObjects = field(default_factory=LiveObjects)
    done: int = 0
    failed: int = 0
    total: int = 0
    changes: list[Change] = field(default_factory=list)
    counting: threading.Lock = field(default_factory=threading.Lock)
    patches: Patches = field(init=False)

    def __post_init__(self) -> None:
        self.patches = Patches(self.kube, self.options, self.context)

    def run_phase(self, manifests: t.Sequence[Manifest]) -> list[Change]:
        """Apply the objects of one phase in parallel; a failure stops no other object."""
        current = self._read_current(manifests)
        work = self._delete if self.options["state"] == "absent" else self._apply

        def one(manifest: Manifest) -> Change:
            this = identity(manifest)
            try:
                change = work(manifest, current.get(this))
            except UnknownKind as error:
                change = Change(this, "failed", None, None, str(error))
            except WattwiseError as error:
                text = shown_text(str(error), _MAX_ERROR_LENGTH)
                before = current.get(this)
                change = Change(this, "failed", before, None, text, is_refusal=is_refusal(error))
            except Exception as error:  # noqa: BLE001 - the boundary: no object stops the others
                text = f"{this} cannot be applied ({type(error).__name__})"
                change = Change(this, "failed", None, None, text, is_refusal=True)
            # Serialised, or a lower number could follow a higher one.
            with self.counting:
                self.done += 1
                self.failed += change.action == "failed"
                self.context.progress(done=self.done, total=self.total, failed=self.failed)
            return change

        changes = self.kube.in_parallel(one, manifests, self.options["concurrency"])
        self.changes += changes
        return changes

    @property
    def is_failure(self) -> bool:
        """Whether the task fails; with ``on_error: report`` refused objects do not fail it."""
        failures = [change for change in self.changes if change.action == "failed"]
        may_go_on = self.options["on_error"] == "report"
        return any(not (may_go_on and change.is_refusal) for change in failures)

    def _find(self, path: str) -> MutableObject | None:
        """The object; None also for a refused name, which the application reports."""
        try:
            return self.kube.find(path)
        except ApiError as error:
            if is_refusal(error):
                return None
            raise

    def _read_current(self, manifests: t.Sequence[Manifest]) -> dict[Identity, MutableObject]:
        """Current objects; many of one collection are read by one list."""
        collections: dict[str, list[Manifest]] = {}
        for manifest in manifests:
            try:
                resource = self._resource(manifest)
            except UnknownKind:
                continue
            namespace = manifest["metadata"].get("namespace")
            if identity(manifest) in self.live.objects or self.live.holds_all(resource, namespace):
                continue
            collections.setdefault(resource.collection(namespace), []).append(manifest)
        single: list[str] = []
        for collection, members in collections.items():
            if len(members) >= _LIST_FROM:
                self.live.add_collection(collection, self.kube.list(collection))
            else:
                single += [f"{collection}/{member['metadata']['name']}" for member in members]
        found = filter(None, self.kube.in_parallel(self._find, single))
        return {**self.live.objects, **{identity(obj): obj for obj in found}}

    def _resource(self, manifest: Manifest) -> Resource:
        """Address of the kind of a manifest; sets the default namespace."""
        resource = self.kube.resource(manifest["apiVersion"], manifest["kind"])
        if resource.namespaced:
            manifest["metadata"].setdefault("namespace", "default")
        return resource

    def _apply(self, manifest: Manifest, before: MutableObject | None) -> Change:
        this = identity(manifest)
        if (this.api_version.partition("/")[0], this.kind) in self.patches.leaving_kinds:
            raise WattwiseError(f"{this}: its CRD is still being deleted; run again")
        try:
            resource = self._resource(manifest)
        except UnknownKind:
            return self._assume(manifest, this)
        path = resource.path(this.name, this.namespace)
        if before is not None and this.kind in _AWAITED and _is_going(before):
            if self.context.check_mode:
                return Change(this, "created", None, manifest)
            before = self.patches.wait_for_successor(path, before)
        force = self.options["force_conflicts"]
        if before is not None and self.options["foreign"] != "apply":
            force = self._take_over(manifest, before) or force
        if self.options["status"]:
            return self.patches.apply_status(manifest, before, path, this)
        if before is not None and is_applied(manifest, before, self.options["field_manager"]):
            return Change(this, "unchanged", before, before)
        try:
            after, created = self.patches.patch(path, manifest, force)
        except ApiError as error:
            if self._namespace_is_coming(error, this):
                return Change(this, "created", None, manifest)
            if self.context.check_mode and GOING_DEFINITION in str(error):
                return self._assume(manifest, this)
            if before is not None and self.options["recreate"] and is_immutable(error):
                after = self.patches.recreate(path, manifest, before)
                return Change(this, "configured", before, after)
            raise
        if created:
            if not after["metadata"].get("managedFields") and not self.context.check_mode:
                # The API server records no manager for a manifest without fields, so its next
                # application would count as a change. A second application settles it now.
                after, _created = self.patches.patch(path, manifest, force)
            return Change(this, "created", None, after)
        # A status, or a new order of field managers, also changes the resource version.
        same = before is not None and desired_part(after) == desired_part(before)
        return Change(this, "unchanged" if same else "configured", before, after)

    def path_of(self, manifest: Manifest) -> str:
        """Path of the object. Raises UnknownKind."""
        metadata = manifest["metadata"]
        return self._resource(manifest).path(metadata["name"], metadata.get("namespace"))

    def _delete(self, manifest: Manifest, before: MutableObject | None) -> Change:
        this = identity(manifest)
        if before is None:
            return Change(this, "unchanged", None, None)
        path = self._resource(manifest).path(this.name, this.namespace)
        delete_object(self.kube, path, before, self.context.check_mode)
        return Change(this, "deleted", before, None)

    def _take_over(self, manifest: Manifest, before: MutableObject) -> bool:
        """Refuse or adopt an object of another manager; True if adopted."""
        manager = foreign_manager(before, self.options["field_manager"])
        if manager is None:
            return False
        this = identity(manifest)
        if self.options["foreign"] == "refuse":
            raise WattwiseError(
                f"{this} exists and is managed by {manager}; remove that installation, or allow "
                "its adoption (foreign: adopt; the crds role: crds_adopt)"
            )
        if this.kind == "CustomResourceDefinition":
            problem = stored_object_problem(self.kube, manifest)
            if problem:
                raise WattwiseError(f"{this} cannot be adopted: {problem}")
        return True

    def _assume(self, manifest: Manifest, this: Identity) -> Change:
        """In check mode, validate an object by a CRD that an earlier task would install."""
        for validator in self.validators:
            if validator.serves(this.api_version, this.kind):
                if self.options["status"]:
                    return Change(this, "configured", None, manifest, is_change=False)
                problem = validator.problem(manifest)
                if problem:
                    raise WattwiseError(f"{this} would be refused: {problem}")
                return Change(this, "created", None, manifest)
        raise UnknownKind(this.api_version, this.kind, self.kube.host)

    def _namespace_is_coming(self, error: ApiError, this: Identity) -> bool:
        return (
            self.context.check_mode
            and error.status == 404
            and this.namespace in self.assumed_namespaces
        )


def _is_going(found: MutableObject) -> bool:
    return bool(found["metadata"].get("deletionTimestamp"))
