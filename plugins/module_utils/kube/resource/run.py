# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Runs by options or by a resource, whose status is written in every case."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.argspec import ArgumentSpec
from ...base.context import Parameters, Result
from ...base.errors import InvalidInput, WattwiseError
from ...base.fields.lenient import member
from ...base.json_types import MutableObject, Object
from ...base.manifests import MANAGED_BY_LABEL, MANAGER, same_object
from ..apply.steps import Applying
from ..client import Kube
from .conditions import Failure
from .spec_options import in_words_of_manifest, of_manifest

NOT_FOUND: Result = {"changed": False, "found": False, "diff": [], "results": [], "pruned": []}


class Failed(WattwiseError):
    """A run that ended early, with the reason of a condition."""

    def __init__(self, reason: str, message: str, **fields: t.Any) -> None:
        super().__init__(message, **fields)
        self.reason = reason


class Gone(WattwiseError):
    """The resource was deleted during the run, so there is no status to write."""


class Run(t.Protocol):
    """One run: ``steps`` do the work, ``result`` has the changes and the status."""

    applying: Applying

    @property
    def resource(self) -> Object | None:
        """The resource; None for a run by options."""

    def steps(self) -> None:
        """Execute all steps. Raises WattwiseError."""

    def result(self, failure: Failure | None) -> Result:
        """The results so far, with ``status``."""


@dataclass(frozen=True)
class ResourceKind:
    """A kind of resource that describes a run.

    ``options`` have the names of its spec; None for a kind whose spec has other names.
    """

    api_version: str
    kind: str
    field_manager: str
    options: ArgumentSpec | None = None

    def reconcile(
        self, kube: Kube, given: Parameters, run_of: t.Callable[[Object | None], Run]
    ) -> Result:
        """The run by option ``spec``, else by the resource. Raises WattwiseError as ``told``."""
        if given["spec"] is not None:
            return self._made(run_of(None))
        resource = self.find(kube, given)
        if resource is None:
            return dict(NOT_FOUND)
        return self.told(run_of(resource), given["on_error"])

    def find(self, kube: Kube, given: Parameters) -> Object | None:
        """The resource of a run; None if it is missing or being deleted."""
        place = self.resource_path(kube, given["namespace"], given["name"])
        found = kube.find(place)
        return None if member(found, "metadata", "deletionTimestamp") else found

    def resource_path(self, kube: Kube, namespace: str, name: str) -> str:
        """Path of a resource. Raises UnknownKind if its CRD is missing."""
        return kube.resource(self.api_version, self.kind).path(name, namespace)

    def read(
        self, resource: Object | None, spec: t.Any, read: t.Callable[[Object], t.Any]
    ) -> t.Any:
        """The checked values of a resource or of options. Raises Failed."""
        try:
            options = t.cast("ArgumentSpec", self.options)
            given = spec if resource is None else of_manifest(options, resource.get("spec"))
            return read(given)
        except InvalidInput as error:
            raise Failed(f"Invalid{self.kind}", str(error)) from error

    def _made(self, run: Run) -> Result:
        """A run by options. Raises WattwiseError as ``told``."""
        try:
            run.steps()
        except WattwiseError as error:
            error.fields.update(run.result(_failure(error, str)))
            raise
        return run.result(None)

    def told(self, run: Run, on_error: str) -> Result:
        """A run by a resource, whose status is then written.

        Raises WattwiseError, with the results of all steps so far.
        """
        failed: WattwiseError | None = None
        failure: Failure | None = None
        try:
            run.steps()
        except Gone:
            return {**run.applying.result, "found": False}
        except WattwiseError as error:
            worded = str if self.options is None else in_words_of_manifest(self.options)
            failed, failure = error, _failure(error, worded)
        found = run.result(failure)
        self.write_status(run, found["status"])
        found = {**found, **run.applying.result}
        if failed is None or failure is None:
            return found
        if on_error == "fail":
            failed.fields.update(found)
            raise failed
        return {**found, "failure": failure.sentence}

    def write_status(self, run: Run, status: Object) -> None:
        """Write the status of the resource, unless it was deleted. Raises WattwiseError."""
        resource = t.cast("Object", run.resource)
        manifest = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": same_object(resource["metadata"]),
            "status": status,
        }
        how = {"manifests": [manifest], "status": True, "field_manager": self.field_manager}
        run.applying.apply(how)

    def owner(self, run: Run, namespace: str, name: str, config_map: str) -> dict[str, str]:
        """Owner of the objects: the resource, else a ConfigMap."""
        if run.resource is not None:
            owner = {"api_version": self.api_version, "kind": self.kind, "name": name}
            return {**owner, "namespace": namespace}
        manifest = owner_manifest(namespace, config_map)
        run.applying.apply({"manifests": [manifest], "field_manager": self.field_manager})
        owner = {"api_version": "v1", "kind": "ConfigMap", "name": config_map}
        return {**owner, "namespace": namespace}


def is_new_spec(resource: Object | None) -> bool:
    """Whether the resource changed since its last run.

    Then its old objects are unwanted, regardless of their number. Without a change only the cluster
    can have changed, perhaps by mistake.
    """
    applied = member(resource, "status", "appliedGeneration")
    return resource is not None and applied != member(resource, "metadata", "generation")


def generation_of(resource: Object | None) -> int:
    """The generation of a resource; 0 for options."""
    found = member(resource, "metadata", "generation")
    return found if isinstance(found, int) else 0


def stored_status(resource: Object | None) -> MutableObject:
    """The status of the run before."""
    found = member(resource, "status")
    return found if isinstance(found, dict) else {}


def missing_keys(kube: Kube, namespace: str, name: str, keys: t.Sequence[str]) -> str:
    """Missing keys of an external Secret, as a sentence; empty if there are none."""
    found = kube.read_secret(namespace, name)
    missing = [key for key in keys if found is None or not found[0].get(key)]
    if not missing:
        return ""
    return (
        f"The Secret {namespace}/{name} must have {', '.join(missing)}, and "
        f"{'there is no such Secret' if found is None else 'it has not'}; make it first, for "
        "example with cert-manager"
    )


def owner_manifest(namespace: str, name: str) -> MutableObject:
    """The ConfigMap that owns the objects of a run by options."""
    metadata = {"name": name, "namespace": namespace, "labels": {MANAGED_BY_LABEL: MANAGER}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _failure(error: WattwiseError, worded: t.Callable[[str], str]) -> Failure:
    reason = error.reason if isinstance(error, Failed) else "ReconcileError"
    return Failure(reason, worded(str(error)))
