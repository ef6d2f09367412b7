# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The work of kube_apply: parameters, order, pruning and result.

Server-side apply decides what counts as a change; this file decides order and permissions.
"""

from __future__ import annotations

import threading
import typing as t
from dataclasses import dataclass, field

from ...base.argspec import KUBERNETES, PROGRESS, ArgumentSpec
from ...base.boundary import shown_text
from ...base.context import Context, Parameters, Result
from ...base.errors import ApiError, InvalidInput, WattwiseError
from ...base.json_types import MutableObject
from ...base.manifests import Identity, Manifest, identity, in_phases, read_file, read_manifests
from ..client import Kube, Resource, UnknownKind, delete_object
from ..crd_schema import CrdValidator, stored_object_problem
from ..resource.finalizer import is_ending
from .applied import is_applied
from .change import (
    Change,
    desired_part,
    foreign_manager,
    is_immutable,
    is_refusal,
    summary_sentence,
)
from .live import LiveObjects
from .patches import GOING_DEFINITION, Patches
from .prune import Pruning, prune
from .waiting import wait_until_ready, wait_until_served

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
        if before is not None and this.kind in _AWAITED and is_ending(before):
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


SPEC = KUBERNETES.merge(
    PROGRESS,
    ArgumentSpec(
        {
            "manifests": {"type": "raw"},
            "secret_manifests": {
                "type": "list",
                "elements": "dict",
                "no_log": True,
                "secret_keys": ["data", "stringData"],
            },
            "src": {"type": "list", "elements": "path"},
            "src_key": {"type": "str", "no_log": False},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "field_manager": {"type": "str", "default": "wattwise"},
            "force_conflicts": {"type": "bool", "default": False},
            "foreign": {"type": "str", "default": "apply", "choices": ["apply", "refuse", "adopt"]},
            "recreate": {"type": "bool", "default": False},
            "status": {"type": "bool", "default": False},
            "prune": {"type": "str"},
            "prune_kinds": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "api_version": {"type": "str", "required": True},
                    "kind": {"type": "str", "required": True},
                    "namespace": {"type": "str"},
                },
            },
            "prune_owner_kinds": {"type": "list", "elements": "str"},
            "prune_max": {"type": "float", "default": 0.3},
            "owner": {
                "type": "dict",
                "options": {
                    "api_version": {"type": "str", "required": True},
                    "kind": {"type": "str", "required": True},
                    "namespace": {"type": "str"},
                    "name": {"type": "str", "required": True},
                },
            },
            "assume": {"type": "list", "elements": "raw", "default": []},
            "concurrency": {"type": "int", "default": 16},
            "on_error": {"type": "str", "default": "fail", "choices": ["report", "fail"]},
            "wait": {"type": "bool", "default": False},
            "wait_timeout": {"type": "float", "default": 120.0},
        },
        required_one_of=(("manifests", "src", "secret_manifests"),),
        required_by={"prune_kinds": ("prune",), "prune_owner_kinds": ("prune",)},
    ),
)


def apply(
    parameters: Parameters,
    context: Context = Context(),
    kube: Kube | None = None,
    live: LiveObjects | None = None,
) -> Result:
    """Create, change, delete and prune objects by ``parameters`` (of SPEC).

    ``kube`` is an existing connection of the caller, ``live`` are the objects that it just read.

    Returns ``changed``, ``diff``, ``results`` in the order of the input and ``pruned``. Raises
    WattwiseError with the same fields if an object failed; with ``on_error: report`` only if the
    object is not the cause.
    """
    options = SPEC.complete(parameters)
    manifests = read_manifests(options["manifests"] or [])
    manifests += read_manifests(options["secret_manifests"] or [], "secret_manifests")
    for path in options["src"] or ():
        manifests += read_file(path, options["src_key"])
    return apply_manifests(kube or Kube.connect(options), manifests, options, context, live)


def apply_manifests(
    kube: Kube,
    manifests: list[Manifest],
    options: Parameters,
    context: Context,
    live: LiveObjects | None = None,
) -> Result:
    """Like ``apply``, with manifests as values; objects in ``live`` are not read again."""
    run = _prepare(kube, options, context, manifests)
    run.live = live or LiveObjects()
    phases = in_phases(manifests)
    for phase in reversed(phases) if options["state"] == "absent" else phases:
        changes = run.run_phase(phase)
        if phase[0]["kind"] == "CustomResourceDefinition" and not context.check_mode:
            _wait_for_definitions(run, phase, changes)
    pruned = _prune(run, manifests)
    if options["wait"] and not run.failed and not context.check_mode:
        awaited = manifests if options["state"] == "present" else []
        wait_until_ready(run.kube, [run.path_of(item) for item in awaited], options["wait_timeout"])
    return _result(run, manifests, pruned)


def _prepare(
    kube: Kube, options: t.Mapping[str, t.Any], context: Context, manifests: list[Manifest]
) -> ApplyRun:
    assumed: list[Manifest] = []
    if context.check_mode:
        assumed = [*manifests, *_assumed(options["assume"])]
    if options["owner"]:
        _set_owner(kube, options["owner"], manifests, context.check_mode)
    return ApplyRun(
        kube,
        options,
        context,
        validators=[
            CrdValidator(item) for item in assumed if item["kind"] == "CustomResourceDefinition"
        ],
        assumed_namespaces=frozenset(
            item["metadata"]["name"] for item in assumed if item["kind"] == "Namespace"
        ),
        total=len(manifests),
    )


def _assumed(given: t.Sequence[t.Any]) -> t.Iterator[Manifest]:
    for item in given:
        yield from read_file(item) if isinstance(item, str) else read_manifests(item, "assume")


def _set_owner(
    kube: Kube, owner: t.Mapping[str, t.Any], manifests: list[Manifest], check_mode: bool
) -> None:
    """Add an owner reference to every manifest for the garbage collector.

    A namespaced owner can own only objects in its namespace.
    """
    resource = kube.resource(owner["api_version"], owner["kind"])
    found = kube.find(resource.path(owner["name"], owner["namespace"]))
    if found is None:
        if check_mode:
            return
        raise InvalidInput(f"owner: there is no {owner['kind']} {owner['name']}; make it first")
    reference = {
        "apiVersion": owner["api_version"],
        "kind": owner["kind"],
        "name": owner["name"],
        "uid": found["metadata"]["uid"],
    }
    for manifest in manifests:
        if not owner["namespace"] or _is_in(kube, manifest, owner["namespace"]):
            manifest["metadata"].setdefault("ownerReferences", []).append(reference)


def _is_in(kube: Kube, manifest: Manifest, namespace: str) -> bool:
    try:
        namespaced = kube.resource(manifest["apiVersion"], manifest["kind"]).namespaced
    except UnknownKind:  # in check mode, an earlier task would install it
        return True
    return namespaced and (manifest["metadata"].get("namespace") or "default") == namespace


def _wait_for_definitions(
    run: ApplyRun, phase: t.Sequence[Manifest], changes: t.Sequence[Change]
) -> None:
    applied = [item for item, change in zip(phase, changes) if change.action != "failed"]
    if run.options["state"] == "present":
        timeout = run.options["wait_timeout"]
        wait_until_ready(run.kube, [run.path_of(item) for item in applied], timeout)
        wait_until_served(run.kube, applied, timeout)
    run.kube.forget_resources()


def _prune(run: ApplyRun, manifests: t.Sequence[Manifest]) -> list[Change]:
    if not run.options["prune"] or run.options["state"] == "absent" or run.is_failure:
        return []
    pruning = Pruning(
        label_value=run.options["prune"],
        kinds=tuple(
            (item["api_version"], item["kind"], item["namespace"])
            for item in run.options["prune_kinds"] or []
        ),
        owner_kinds=frozenset(run.options["prune_owner_kinds"] or [])
        | ({run.options["owner"]["kind"]} if run.options["owner"] else frozenset()),
        maximum_share=run.options["prune_max"],
    )
    return prune(run.kube, pruning, manifests, run.live, run.context.check_mode)


def _result(run: ApplyRun, manifests: t.Sequence[Manifest], pruned: list[Change]) -> Result:
    order = {identity(manifest): index for index, manifest in enumerate(manifests)}
    changes = sorted(run.changes, key=lambda change: order[change.identity])
    result: Result = {
        "changed": any(change.is_effective for change in [*changes, *pruned]),
        "diff": [change.diff() for change in [*changes, *pruned] if change.is_effective],
        "results": [change.as_dict() for change in changes],
        "pruned": [change.as_dict() for change in pruned],
    }
    if run.is_failure:
        raise WattwiseError(summary_sentence(changes), **result)
    if run.failed:
        run.context.warn(summary_sentence(changes))
    return result
