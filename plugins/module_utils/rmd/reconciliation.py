# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""RmdWorkloads of a cluster and its RMD daemons, reconciled with statuses in one task."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..base import documents
from ..base.argspec import KUBERNETES, PROGRESS, RMD, ArgumentSpec
from ..base.boundary import Finding, warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput
from ..base.json_types import MutableObject
from ..base.manifests import Manifest
from ..base.whole_files import make_folder
from ..kube.apply.steps import Applying
from ..kube.client import Kube
from ..kube.resource.conditions import Failure
from ..kube.resource.run import Report, ResourceKind, Run, Work
from ..kube.source import CONTROLLERS, NODES, images_of, images_with, read_source
from .cluster import Reconciled, reconcile_objects
from .manifests import API_VERSION, RMD_CONFIGS, RMD_NODE_STATES, RMD_PODS, RMD_WORKLOADS
from .statuses import APPLY_SET

# The `rmd` role labels the namespace as wattwise-rmd; an equal name would remove its labels.
FIELD_MANAGER = "wattwise-rmd-workloads"
_KIND = ResourceKind(API_VERSION, "RmdWorkload", FIELD_MANAGER)
SOURCES = {
    "nodes": NODES,
    "rmd_workloads": RMD_WORKLOADS,
    "rmd_node_states": RMD_NODE_STATES,
    "rmd_configs": RMD_CONFIGS,
    "rmd_pods": RMD_PODS,
}
# The Deployment of rmd-operator has no label that every version keeps.
_ALL_CONTROLLERS = CONTROLLERS._replace(query={})

SPEC = KUBERNETES.merge(
    PROGRESS,
    ArgumentSpec(
        {
            "endpoints": {"type": "dict", "default": {}},
            "pod_selector": {"type": "str", "default": "name=rmd-pod"},
            "namespace": {"type": "str", "default": "rmd-system"},
            "require_capacity": {"type": "bool", "default": False},
            "daemons": {
                "type": "dict",
                "default": {},
                "options": dict(RMD.options),
                "required_by": dict(RMD.required_by),
            },
            "prune_max": {"type": "float", "default": 0.3},
            "force": {"type": "bool", "default": False},
            "assume": {"type": "list", "elements": "raw", "default": []},
            "run_dir": {"type": "path", "required": True},
        }
    ),
)


def reconcile(parameters: Parameters, context: Context = Context()) -> Result:
    """Reconcile all daemons with the RmdWorkloads, and write node states and statuses.

    A cluster without RMD costs one read. If too few daemons answered, the error is raised after the
    results of the others are written.
    """
    options = SPEC.complete(parameters)
    kube = Kube.connect(options)
    applying = Applying(kube, context, [*options["assume"], *namespace_manifests(options)])
    run = Run(_KIND, kube, options, context, None, applying)
    return Work(_KIND, _steps, _report, _result).execute(run)


def _steps(run: Run) -> t.Iterator[Reconciled]:
    """Read, visit the daemons, write the node states."""
    options, applying = run.given, run.applying
    folder = Path(options["run_dir"])
    make_folder(folder)
    objects = _read(run.kube, run.context, options)
    if not options["endpoints"] and not any(objects[name] for name in SOURCES if name != "nodes"):
        return
    run.write(namespace_manifests(options))
    found = reconcile_objects(objects, options, run.context)
    documents.write(_document(options), "rmd", found.document)
    applying.add({name: found.result[name] for name in ("changed", "diff")})
    applying.apply(_of_node_states(options, found.document["node_states"]))
    yield found
    if found.failure is not None:
        raise found.failure


def _document(options: Parameters) -> str:
    return str(Path(options["run_dir"]) / "rmd.json")


def _report(run: Run, reached: Reconciled | None, failure: Failure | None) -> Report:
    """The visits, and the statuses of workloads, daemons and nodes; none for a missing RMD."""
    if reached is None:
        return Report({"daemons": 0, "workloads": 0, "results": [], "statuses": []})
    statuses = reached.document["statuses"]
    fields = {**reached.result, "statuses": statuses, "path": _document(run.given)}
    # In check mode their node states may be missing.
    return Report(fields, () if run.context.check_mode else statuses)


def _result(fields: Result, applied: Result) -> Result:
    """The result of the module, in which ``results`` are those of the daemons."""
    return {**fields, **applied, "results": fields["results"], "objects": applied["results"]}


def _read(kube: Kube, context: Context, options: Parameters) -> dict[str, list[MutableObject]]:
    """Objects of SOURCES by name. Raises InvalidInput beside rmd-operator."""
    sources = {**SOURCES, "controllers": _ALL_CONTROLLERS}

    def read(name: str) -> tuple[list[MutableObject], list[Finding]]:
        selector = options["pod_selector"] if name == "rmd_pods" else None
        return read_source(kube, sources[name], selector)

    found = kube.in_parallel(read, list(sources))
    warn_of(sorted((each for _items, findings in found for each in findings), key=str), context)
    objects = {name: items for name, (items, _findings) in zip(sources, found)}
    rivals = images_with(images_of(objects.pop("controllers")), "rmd-operator")
    if rivals and not options["force"]:
        raise InvalidInput(
            f"rmd-operator runs in this cluster ({rivals}) and writes the same workloads; scale it "
            "to zero, or set rmd_workloads_force to true."
        )
    return objects


def namespace_manifests(options: Parameters) -> list[Manifest]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options["namespace"]}}]


def _of_node_states(options: Parameters, manifests: t.Sequence[Manifest]) -> Parameters:
    """The step that keeps one RmdNodeState for each daemon."""
    kind = {"api_version": API_VERSION, "kind": "RmdNodeState", "namespace": options["namespace"]}
    return {
        "manifests": list(manifests),
        "prune": APPLY_SET,
        "prune_kinds": [kind],
        "prune_owner_kinds": ["Node"],
        "prune_max": options["prune_max"],
    }
