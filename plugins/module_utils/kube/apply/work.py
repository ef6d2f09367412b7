# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The work of kube_apply: parameters, order, pruning and result.

Server-side apply decides what counts as a change; this file decides order and permissions.
"""

from __future__ import annotations

import typing as t

from ...base.argspec import KUBERNETES, PROGRESS, ArgumentSpec
from ...base.context import Context, Parameters, Result
from ...base.errors import InvalidInput, WattwiseError
from ...base.manifests import Manifest, identity, in_phases, read_file, read_manifests
from ..client import Kube, UnknownKind
from ..crd_schema import CrdValidator
from .change import Change, summary_sentence
from .live import LiveObjects
from .prune import Pruning, prune
from .run import ApplyRun
from .waiting import wait_until_ready, wait_until_served

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
