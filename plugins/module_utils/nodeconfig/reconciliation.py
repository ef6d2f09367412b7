# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""NodeConfigs of a cluster, rendered and applied from their templates in one task."""

from __future__ import annotations

import base64
import typing as t
from pathlib import Path

from ..base import documents
from ..base.argspec import KUBERNETES, PROGRESS, ArgumentSpec
from ..base.boundary import Finding, warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput
from ..base.fields.lenient import member
from ..base.json_types import MutableObject
from ..base.manifests import MANAGED_BY_LABEL, MANAGER, Manifest
from ..base.whole_files import make_folder
from ..kube.apply.live import LiveObjects
from ..kube.apply.steps import Applying
from ..kube.client import Kube
from ..kube.resource.conditions import Failure
from ..kube.resource.run import Report, ResourceKind, Run, Work, owner_manifest
from ..kube.source import (
    CONTROLLERS,
    NODES,
    NOTHING,
    Parts,
    Source,
    images_of,
    images_with,
    read_source,
)
from .nodeconfig import (
    API_VERSIONS,
    GROUPS,
    NODE_CONFIG_TEMPLATES,
    NODE_CONFIGS,
    TLS_FINGERPRINT_ANNOTATION,
    trim_node_config,
)
from .template_source import APPLY_SET
from .templates import Rendered, render_templates

_KIND = ResourceKind(API_VERSIONS[0], "NodeConfig", "wattwise-node-configs")
# ConfigMap that owns the inventory's Secrets and templates, and their ApplySet.
INVENTORY = "wattwise-inventory"

SPEC = KUBERNETES.merge(
    PROGRESS,
    ArgumentSpec(
        {
            "namespace": {"type": "str", "default": "wao-system"},
            "secrets": {
                "type": "list",
                "elements": "dict",
                "no_log": True,
                "secret_keys": ["password", "token"],
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "username": {"type": "str", "required": True},
                    "password": {"type": "str", "required": True, "no_log": True},
                    "ca": {"type": "str"},
                    "tls_fingerprint": {"type": "str"},
                },
            },
            "templates": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "annotations": {"type": "dict", "default": {}},
                    "spec": {"type": "dict", "required": True},
                },
            },
            "tls_fingerprints": {"type": "dict", "default": {}},
            "wao_group": {"type": "str", "default": GROUPS[0], "choices": list(GROUPS)},
            "prune_max": {"type": "float", "default": 0.3},
            "force": {"type": "bool", "default": False},
            "assume": {"type": "list", "elements": "raw", "default": []},
            "path": {"type": "path"},
        }
    ),
)


def reconcile(parameters: Parameters, context: Context = Context()) -> Result:
    """Apply Secrets and templates, and a NodeConfig for each node that a template selects.

    Raises WattwiseError, with the results of all steps so far, if a step fails; a NodeConfig or a
    status that the API server refuses is a failure of that object only.
    """
    options = SPEC.complete(parameters)
    kube = Kube.connect(options)
    applying = Applying(kube, context, [*options["assume"], *_namespace(options)])
    return _execute(Run(_KIND, kube, options, context, None, applying), _steps)


class _Applied(t.NamedTuple):
    """Rendered templates whose NodeConfigs are applied; ``live`` are objects that did not change."""

    rendered: Rendered
    live: LiveObjects | None


def _execute(run: Run, steps: t.Callable[[Run], t.Iterator[_Applied]]) -> Result:
    """Execute the steps, and write the statuses of templates and NodeConfigs."""
    return Work(_KIND, steps, _report, lambda fields, applied: {**applied, **fields}).execute(run)


def _steps(run: Run) -> t.Iterator[_Applied]:
    """Read, apply the inventory, render, apply."""
    options, applying, context = run.given, run.applying, run.context
    cluster = _read(run.kube, context, options["force"])
    applying.apply({"manifests": _namespace(options)})
    if applying.apply(_of_inventory(options)) and not context.check_mode:
        stored, _findings = read_source(run.kube, NODE_CONFIG_TEMPLATES, None)
        cluster.parts.objects["node_config_templates"] = stored
    yield _applied(run, _render(options, cluster.parts.objects, context), cluster.live)


def _report(_run: Run, reached: _Applied | None, _failure: Failure | None) -> Report:
    """The statuses; one that the API server refuses is a failure of that object only."""
    if reached is None:
        return Report({})
    fields = reached.rendered.as_result()
    return Report(fields, reached.rendered.statuses, on_error="report", live=reached.live)


class Followed(t.NamedTuple):
    """The result of ``follow_templates``, and the unchanged parts of the cluster that it read."""

    result: Result
    parts: Parts


def follow_templates(kube: Kube, context: Context = Context()) -> Followed:
    """Apply a NodeConfig for each node that a template of the cluster selects.

    Objects of an inventory are not touched: its Secrets, templates and pinned certificates stay.
    Raises as ``reconcile`` does.
    """
    options = SPEC.complete({})
    cluster = _read(kube, context, force=False)
    snapshot = cluster.parts.objects
    rendered = _render(options, snapshot, context)
    pinned = {
        (config["apiVersion"], config["metadata"].get("namespace"), config["metadata"]["name"]): pin
        for config in snapshot["node_configs"]
        for pin in [member(config, "metadata", "annotations", TLS_FINGERPRINT_ANNOTATION)]
        if isinstance(pin, str)
    }
    for config in rendered.node_configs:
        metadata = config["metadata"]
        pin = pinned.get((config["apiVersion"], metadata.get("namespace"), metadata["name"]))
        if pin is not None:
            annotations = {TLS_FINGERPRINT_ANNOTATION: pin, **(metadata.get("annotations") or {})}
            metadata["annotations"] = annotations
    run = Run(_KIND, kube, options, context, None, Applying(kube, context, ()))
    # This run is automatic, so another writer's value would stay forever. NodeConfigs without a
    # template are not rendered.
    result = _execute(run, lambda run: iter([_applied(run, rendered, cluster.live, force=True)]))
    is_as_read = all(one["action"] == "unchanged" for one in result["results"])
    return Followed(result, cluster.parts if is_as_read and not result["pruned"] else NOTHING)


class _Cluster(t.NamedTuple):
    """The input of rendering, with the NodeConfigs as stored by the API server as well."""

    parts: Parts
    live: LiveObjects


def _read(kube: Kube, context: Context, force: bool) -> _Cluster:
    """Raises InvalidInput beside wao-core."""
    live = LiveObjects()

    def kept(node_config: MutableObject) -> MutableObject:
        live.add(node_config)
        return trim_node_config(node_config)

    sources = {
        "nodes": NODES,
        "node_config_templates": NODE_CONFIG_TEMPLATES,
        "controllers": CONTROLLERS,
        "node_configs": NODE_CONFIGS._replace(trim=kept),
    }

    def read(source: Source) -> tuple[list[MutableObject], list[Finding]]:
        return read_source(kube, source, None)

    found = kube.in_parallel(read, list(sources.values()))
    live.collections.update(NODE_CONFIGS.paths)
    objects = {name: items for name, (items, _findings) in zip(sources, found)}
    findings = [finding for _items, findings in found for finding in findings]
    warn_of(findings, context)
    rivals = images_with(images_of(objects.pop("controllers")), "wao-controller")
    if rivals and not force:
        raise InvalidInput(
            f"wao-core runs in this cluster ({rivals}) and writes the same NodeConfigs; scale it "
            "to zero, or set node_configs_force to true."
        )
    return _Cluster(Parts(objects, findings), live)


def _applied(run: Run, rendered: Rendered, live: LiveObjects, force: bool = False) -> _Applied:
    """Apply the NodeConfigs."""
    given = _of_templates(run.given, rendered.node_configs)
    changed = run.applying.apply({**given, "force_conflicts": force}, live)
    return _Applied(rendered, None if changed else live)


def _render(
    options: Parameters, snapshot: t.Mapping[str, list[MutableObject]], context: Context
) -> Rendered:
    pins = options["tls_fingerprints"]
    rendered = render_templates(snapshot, _templates(options), pins, context)
    if options["path"]:
        make_folder(Path(options["path"]).parent)
        documents.write(options["path"], "node_configs", rendered.as_document())
    return rendered


def _namespace(options: Parameters) -> list[Manifest]:
    name = options["namespace"]
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "wattwise.kube"}},
        },
        owner_manifest(name, INVENTORY),
    ]


def _metadata(name: str, options: Parameters) -> Manifest:
    return {
        "name": name,
        "namespace": options["namespace"],
        "labels": {
            MANAGED_BY_LABEL: MANAGER,
            "applyset.kubernetes.io/part-of": INVENTORY,
        },
    }


def _templates(options: Parameters) -> list[Manifest]:
    return [
        {
            "apiVersion": f"{options['wao_group']}/v1beta1",
            "kind": "NodeConfigTemplate",
            "metadata": {**_metadata(given["name"], options), "annotations": given["annotations"]},
            "spec": given["spec"],
        }
        for given in options["templates"]
    ]


def _secret(given: Parameters, options: Parameters) -> Manifest:
    data = {
        "username": given["username"],
        "password": given["password"],
        "ca.crt": given["ca"],
        "tls_fingerprint": given["tls_fingerprint"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/basic-auth",
        "metadata": _metadata(given["name"], options),
        "data": {
            key: base64.b64encode(text.encode()).decode()
            for key, text in data.items()
            if text or key in ("username", "password")
        },
    }


def _of_inventory(options: Parameters) -> Result:
    """The step that applies Secrets and templates of the inventory."""
    namespace = options["namespace"]
    kinds = [("v1", "Secret"), (f"{options['wao_group']}/v1beta1", "NodeConfigTemplate")]
    return {
        "manifests": _templates(options),
        "secret_manifests": [_secret(given, options) for given in options["secrets"]],
        "owner": {
            "api_version": "v1",
            "kind": "ConfigMap",
            "namespace": namespace,
            "name": INVENTORY,
        },
        "prune": INVENTORY,
        "prune_kinds": [
            {"api_version": version, "kind": kind, "namespace": namespace}
            for version, kind in kinds
        ],
        "prune_max": options["prune_max"],
    }


def _of_templates(options: Parameters, node_configs: t.Sequence[Manifest]) -> Result:
    """The step that applies NodeConfigs and removes those without a node."""
    # Templates made by people may be of the other group.
    versions = [f"{options['wao_group']}/v1beta1", *(each["apiVersion"] for each in node_configs)]
    return {
        "manifests": list(node_configs),
        "prune": APPLY_SET,
        "prune_kinds": [
            {"api_version": version, "kind": "NodeConfig"} for version in dict.fromkeys(versions)
        ],
        "prune_owner_kinds": ["NodeConfigTemplate"],
        "prune_max": options["prune_max"],
        "on_error": "report",
    }
