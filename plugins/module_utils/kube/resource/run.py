# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Runs by options, by a resource, or for all resources of a kind.

The steps of a run are a generator. It yields a frozen value whenever the status has more to say,
so that a failed run reports the last one. Statuses are written in every case, then Events about
changed conditions, and the finalizer.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.argspec import KUBERNETES, ArgumentSpec, Options
from ...base.context import Context, Parameters, Result
from ...base.errors import InvalidInput, WattwiseError
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...base.manifests import MANAGED_BY_LABEL, MANAGER, Manifest, manifest_of
from ..apply.live import LiveObjects
from ..apply.steps import Applying
from ..client import Kube
from . import finalizer
from .conditions import Failure, status_manifest
from .events import Note, Reporter
from .spec_options import in_words_of_manifest, of_manifest

NOT_FOUND: Result = {"changed": False, "found": False, "diff": [], "results": [], "pruned": []}
Value = t.TypeVar("Value")


class Failed(WattwiseError):
    """A run that ended early, with the reason of a condition."""

    def __init__(self, reason: str, message: str, **fields: t.Any) -> None:
        super().__init__(message, **fields)
        self.reason = reason


class Gone(WattwiseError):
    """The resource was deleted during the run, so there is no status to write."""


@dataclass(frozen=True)
class ResourceKind:
    """A kind of resource that describes runs.

    ``options`` have the names of its spec; None for a kind whose spec has other names. Events are
    of ``component``; without one there are none. ``finalizer`` keeps resources whose deletion needs
    a run; empty for a kind without one.
    """

    api_version: str
    kind: str
    field_manager: str
    options: ArgumentSpec | None = None
    component: str = ""
    finalizer: str = ""

    def find(self, kube: Kube, given: Parameters) -> Object | None:
        """The resource of a run; None if there is nothing to do for it.

        Raises UnknownKind if its CRD is missing.
        """
        return self.unless_gone(kube.find(self.resource_path(kube, given)))

    def unless_gone(self, found: Object | None) -> Object | None:
        """The resource; None if it is being deleted, and does not wait for a run."""
        waits = finalizer.has(found, self.finalizer)
        return None if finalizer.is_ending(found) and not waits else found

    def resource_path(self, kube: Kube, given: Parameters) -> str:
        """Path of the resource of a run. Raises UnknownKind if its CRD is missing."""
        return kube.resource(self.api_version, self.kind).path(given["name"], given["namespace"])


@dataclass(frozen=True)
class Run:
    """The setting of one run.

    ``resource`` is None for a run by options or for all resources of the kind.
    """

    resource_kind: ResourceKind
    kube: Kube
    given: Parameters
    context: Context
    resource: Object | None
    applying: Applying

    @property
    def reference(self) -> dict[str, str]:
        """The resource as owner of objects."""
        kind = {"api_version": self.resource_kind.api_version, "kind": self.resource_kind.kind}
        return {**kind, "name": self.given["name"], "namespace": self.given["namespace"]}

    @property
    def generation(self) -> int:
        """The generation of the resource; 0 for options."""
        found = member(self.resource, "metadata", "generation")
        return found if isinstance(found, int) else 0

    @property
    def stored_status(self) -> dict[str, t.Any]:
        """The status of the run before."""
        found = member(self.resource, "status")
        return found if isinstance(found, dict) else {}

    @property
    def is_new_spec(self) -> bool:
        """Whether the resource changed since its last run.

        Then its old objects are unwanted, regardless of their number. Without a change only the
        cluster can have changed, perhaps by mistake.
        """
        applied = self.stored_status.get("appliedGeneration")
        return self.resource is not None and applied != member(
            self.resource, "metadata", "generation"
        )

    def read(self, read: t.Callable[[str, str, t.Any], Value]) -> Value:
        """The checked values of namespace, name and spec. Raises Failed."""
        spec, options = self.given["spec"], self.resource_kind.options
        try:
            if self.resource is not None and options is not None:
                spec = of_manifest(options, self.resource.get("spec"))
            return read(self.given["namespace"], self.given["name"], spec)
        except InvalidInput as error:
            raise Failed(f"Invalid{self.resource_kind.kind}", str(error)) from error

    def write(self, manifests: t.Sequence[Object], **how: t.Any) -> None:
        """Apply manifests as the field manager of the kind. Raises WattwiseError."""
        if manifests:
            manager = {"field_manager": self.resource_kind.field_manager}
            self.applying.apply({"manifests": list(manifests), **manager, **how})

    def write_status(self, status: Object) -> None:
        """Write the status of the resource before the end of the run. Raises WattwiseError."""
        self.write(self.status_manifests(status), status=True)

    def status_manifests(self, status: Object) -> list[Manifest]:
        """The status in the form of kube_apply; none without a resource."""
        if self.resource is None:
            return []
        kind, metadata = self.resource_kind, self.resource["metadata"]
        return [status_manifest(kind.api_version, kind.kind, metadata, status)]

    @property
    def reporter(self) -> Reporter:
        """Writes Events in the name of the kind's component."""
        return Reporter(self.kube, self.context, self.resource_kind.component)

    def keep_finalizer(self, is_needed: bool) -> None:
        """Add or remove the finalizer of the kind. Raises ApiError."""
        kind = self.resource_kind
        if finalizer.has(self.resource, kind.finalizer) == is_needed:
            return
        path = kind.resource_path(self.kube, self.given)
        is_written = self.context.check_mode or finalizer.keep(
            self.kube, path, kind.finalizer, is_needed, kind.field_manager
        )
        self.applying.add({"changed": is_written})

    def check_kept(self) -> None:
        """Whether the finalizer still keeps the resource, for work that its deletion has to undo.

        The run of the deletion may be over, and would not see that work. Raises WattwiseError.
        """
        kind, given = self.resource_kind, self.given
        found = self.kube.find(kind.resource_path(self.kube, given))
        is_same = member(found, "metadata", "uid") == member(self.resource, "metadata", "uid")
        if not is_same or finalizer.is_ending(found) or not finalizer.has(found, kind.finalizer):
            raise WattwiseError(
                f"{kind.kind} {given['namespace']}/{given['name']} was deleted or lost its "
                f"finalizer {kind.finalizer} during the run, so nothing more was written"
            )

    def owner(self, config_map: str) -> dict[str, str]:
        """Owner of the objects: the resource, else a ConfigMap, which is then made."""
        namespace = self.given["namespace"]
        if self.resource is not None:
            return self.reference
        self.write([owner_manifest(namespace, config_map)])
        owner = {"api_version": "v1", "kind": "ConfigMap", "name": config_map}
        return {**owner, "namespace": namespace}

    def failure(self, error: WattwiseError) -> Failure:
        """An error in the words of the resource, or of options."""
        reason, sentence = "ReconcileError", str(error)
        if isinstance(error, Failed):
            reason = error.reason
        if self.resource is not None and self.resource_kind.options is not None:
            sentence = in_words_of_manifest(self.resource_kind.options)(sentence)
        return Failure(reason, sentence)


@dataclass(frozen=True)
class Report:
    """The outcome of a run.

    ``fields`` are those of its result. ``statuses`` are manifests of the statuses that are due; a
    refused one stops no other, and with ``on_error: report`` does not fail the run. ``live`` are
    objects that the run has just read. ``notes`` are warnings about other objects, by reason.
    ``keeps_finalizer`` says whether the deletion of the resource has to wait for a run; None
    leaves the finalizer as it is.
    """

    fields: Result
    statuses: t.Sequence[Manifest] = ()
    on_error: t.Literal["fail", "report"] = "fail"
    live: LiveObjects | None = None
    notes: t.Mapping[str, t.Sequence[Note]] = field(default_factory=dict)
    keeps_finalizer: bool | None = None


def found_result(fields: Result, applied: Result) -> Result:
    """The result of a run whose resource or options were found."""
    return {**fields, **applied, "found": True}


@dataclass(frozen=True)
class Work(t.Generic[Value]):
    """The work of a kind of resource.

    ``steps`` yields what the run has reached, and raises WattwiseError. ``report`` makes the
    outcome of the last yielded value (None if there is none). ``result`` joins its fields and the
    results of all applied objects.
    """

    kind: ResourceKind
    steps: t.Callable[[Run], t.Iterator[Value]]
    report: t.Callable[[Run, t.Optional[Value], t.Optional[Failure]], Report]
    result: t.Callable[[Result, Result], Result] = found_result

    def reconcile(self, kube: Kube, given: Parameters, context: Context) -> Result:
        """The run by option ``spec``, else by the resource. Raises WattwiseError as ``execute``."""
        resource = None
        if given["spec"] is None:
            resource = self.kind.find(kube, given)
            if resource is None:
                return dict(NOT_FOUND)
        return self.execute(
            Run(self.kind, kube, given, context, resource, Applying(kube, context, []))
        )

    def execute(self, run: Run) -> Result:
        """Execute the steps, then write what is due: statuses, Events, the finalizer.

        Raises WattwiseError, with the results of all steps so far. With ``on_error: report`` an
        error of a run by a resource is only in its status and in the result.
        """
        reached: Value | None = None
        failed: WattwiseError | None = None
        try:
            for value in self.steps(run):
                reached = value
        except Gone:
            return {**run.applying.result, "found": False}
        except WattwiseError as error:
            failed = error
        failure = None if failed is None else run.failure(failed)
        report = self.report(run, reached, failure)
        _write(run, report)
        found = self.result(report.fields, run.applying.result)
        if failed is None or failure is None:
            return found
        if run.resource is None or run.given["on_error"] == "fail":
            failed.fields.update(found)
            raise failed
        return {**found, "failure": failure.sentence}


def _write(run: Run, report: Report) -> None:
    """Write statuses, then Events about a written status, and the finalizer last."""
    before = len(run.applying.result["results"])
    if report.statuses:
        manager = run.resource_kind.field_manager
        given = {"manifests": list(report.statuses), "status": True, "field_manager": manager}
        run.applying.apply({**given, "on_error": report.on_error}, report.live)
    written = run.applying.result["results"][before:]
    if run.resource is not None and any(one["action"] != "unchanged" for one in written):
        _tell(run, run.resource, report)
    if report.keeps_finalizer is not None:
        run.keep_finalizer(report.keeps_finalizer)


def _tell(run: Run, resource: Object, report: Report) -> None:
    if run.resource_kind.component:
        for manifest in report.statuses:
            run.reporter.tell_transitions(resource, manifest["status"]["conditions"])
        for reason, notes in report.notes.items():
            run.reporter.tell_each(resource, reason, notes)


def run_options(name: str, spec: ArgumentSpec, more: Options) -> ArgumentSpec:
    """Options of a run by ``spec`` or by a resource; ``name`` is also that of the namespace."""
    return KUBERNETES.merge(
        ArgumentSpec(
            {
                "namespace": {"type": "str", "default": name},
                "name": {"type": "str", "default": name},
                "spec": {"type": "dict", "options": dict(spec.options)},
                **more,
                "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
                "on_error": {"type": "str", "default": "fail", "choices": ["report", "fail"]},
            }
        )
    )


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


def owner_manifest(namespace: str, name: str) -> Manifest:
    """The ConfigMap that owns the objects of a run by options."""
    return manifest_of("v1", "ConfigMap", name, namespace, {MANAGED_BY_LABEL: MANAGER})
