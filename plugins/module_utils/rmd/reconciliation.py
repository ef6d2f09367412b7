# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""RmdWorkloads of a cluster and its RMD daemons, reconciled with statuses in one task."""

from __future__ import annotations

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
from ..kube.common_sources import CONTROLLERS, NODES, images_of, images_with
from ..kube.source import read_source
from .cluster import reconcile_objects
from .sources import RMD_CONFIGS, RMD_NODE_STATES, RMD_PODS, RMD_WORKLOADS
from .statuses import APPLY_SET

# The `rmd` role labels the namespace as wattwise-rmd; an equal name would remove its labels.
FIELD_MANAGER = "wattwise-rmd-workloads"
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
    folder = Path(options["run_dir"])
    make_folder(folder)
    document = str(folder / "rmd.json")
    objects = _read(kube, context, options)
    if not options["endpoints"] and not any(objects[name] for name in SOURCES if name != "nodes"):
        nothing = {"daemons": 0, "workloads": 0, "results": [], "objects": [], "pruned": []}
        nothing["statuses"] = []
        return {"changed": False, "diff": [], **nothing}
    namespace = namespace_manifests(options)
    applying = Applying(kube, context, [*options["assume"], *namespace])
    applying.apply({"manifests": namespace, "field_manager": FIELD_MANAGER})
    found = reconcile_objects(objects, options, context)
    documents.write(document, "rmd", found.document)
    applying.add({name: found.result[name] for name in ("changed", "diff")})
    _write(applying, options, found.document, context)
    applied = applying.result
    result = {
        **found.result,
        **applied,
        "results": found.result["results"],
        "objects": applied["results"],
        "statuses": found.document["statuses"],
        "path": document,
    }
    if found.failure is not None:
        found.failure.fields.update(result)
        raise found.failure
    return result


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


def _write(applying: Applying, options: Parameters, manifests: Result, context: Context) -> None:
    """Keep one RmdNodeState for each daemon, and write the results of workloads and daemons."""
    applying.apply(
        {
            "manifests": manifests["node_states"],
            "prune": APPLY_SET,
            "prune_kinds": [
                {
                    "api_version": "intel.com/v1alpha1",
                    "kind": "RmdNodeState",
                    "namespace": options["namespace"],
                }
            ],
            "prune_owner_kinds": ["Node"],
            "prune_max": options["prune_max"],
        }
    )
    if not context.check_mode:
        applying.apply(
            {
                "manifests": manifests["statuses"],
                "status": True,
                "field_manager": FIELD_MANAGER,
            }
        )
