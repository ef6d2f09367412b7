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
from ..kube.common_sources import CONTROLLERS, NODES, images_of, images_with
from ..kube.source import Source, read_source
from .reconciliation import SPEC as DAEMONS
from .reconciliation import Reconciled, reconcile_objects
from .sources import RMD_CONFIGS, RMD_NODE_STATES, RMD_PODS, RMD_WORKLOADS

# The ApplySet of the RmdNodeStates; rmd.statuses labels them with it.
NODE_STATES = "wattwise-rmd-node-states"
# Role rmd labels the namespace as wattwise-rmd; an equal name would remove its labels.
FIELD_MANAGER = "wattwise-rmd-workloads"
_OF_RMD: t.Mapping[str, Source] = {
    "rmd_workloads": RMD_WORKLOADS,
    "rmd_node_states": RMD_NODE_STATES,
    "rmd_configs": RMD_CONFIGS,
    "rmd_pods": RMD_PODS,
}
# The Deployment of rmd-operator has no label that every version keeps.
_ALL_CONTROLLERS = "!wattwise.github.io/none"

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
    objects = _read(kube, options, context)
    rivals = images_with(images_of(objects.pop("controllers")), "rmd-operator")
    if rivals and not options["force"]:
        raise InvalidInput(
            f"rmd-operator runs in this cluster ({rivals}) and writes the same workloads; scale it "
            "to zero, or set rmd_workloads_force to true."
        )
    if not options["endpoints"] and not any(objects[part] for part in _OF_RMD):
        nothing = {"daemons": 0, "workloads": 0, "results": [], "objects": [], "pruned": []}
        nothing["statuses"] = []
        return {"changed": False, "diff": [], **nothing}
    namespace = namespace_manifests(options)
    applying = Applying(kube, context, [*options["assume"], *namespace])
    applying.apply({"manifests": namespace, "field_manager": FIELD_MANAGER})
    given = _of_daemons(options, str(folder / "rmd.json"))
    done = reconcile_objects(objects, given, documents.new_run(), context)
    applying.add({"changed": done.result.get("changed"), "diff": done.result.get("diff")})
    _write(applying, options, done, context)
    written = applying.result
    results = {"results": done.result["results"], "objects": written["results"]}
    result = {**done.result, **written, **results, "statuses": done.statuses}
    if done.failure is not None:
        done.failure.fields.update(result)
        raise done.failure
    return result


def _read(kube: Kube, options: Parameters, context: Context) -> dict[str, list[MutableObject]]:
    """Nodes, objects of RMD, pods of its daemons, and controllers; the lists of a snapshot."""
    sources = {"nodes": NODES, **_OF_RMD, "controllers": CONTROLLERS}
    selectors = {"rmd_pods": options["pod_selector"], "controllers": _ALL_CONTROLLERS}

    def read(name: str) -> tuple[list[MutableObject], list[Finding]]:
        return read_source(kube, sources[name], selectors.get(name))

    found = kube.in_parallel(read, list(sources))
    warn_of(sorted((one for _items, left_out in found for one in left_out), key=str), context)
    return {name: items for name, (items, _left_out) in zip(sources, found)}


def namespace_manifests(options: Parameters) -> list[Manifest]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options["namespace"]}}]


def _of_daemons(options: Parameters, path: str) -> Parameters:
    """The options of the daemons' reconciliation, whose document the report reads."""
    given = {name: options[name] for name in ("endpoints", "namespace", "require_capacity")}
    # Its lists come from the API, not from a snapshot.
    return DAEMONS.complete({**options["daemons"], **given, "snapshot": "", "path": path})


def _write(applying: Applying, options: Parameters, done: Reconciled, context: Context) -> None:
    """Keep one RmdNodeState for each daemon, and write the statuses of workloads and daemons."""
    kind = {"api_version": "intel.com/v1alpha1", "kind": "RmdNodeState"}
    applying.apply(
        {
            "manifests": list(done.node_states),
            "prune": NODE_STATES,
            "prune_kinds": [{**kind, "namespace": options["namespace"]}],
            "prune_owner_kinds": ["Node"],
            "prune_max": options["prune_max"],
        }
    )
    if not context.check_mode:
        statuses = {"manifests": list(done.statuses), "status": True}
        applying.apply({**statuses, "field_manager": FIELD_MANAGER})
