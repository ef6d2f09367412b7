# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""RmdWorkloads of a cluster and its RMD daemons, reconciled with statuses in one task."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..base import documents
from ..base.argspec import KUBERNETES, PROGRESS, RMD, ArgumentSpec
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, WattwiseError
from ..base.manifests import Manifest
from ..base.whole_files import make_folder
from ..kube.apply.steps import Applying
from ..kube.client import Kube
from ..kube.common_sources import images_with
from ..rmd import reconciliation
from ..snapshot.snapshot import take

# The ApplySet of the RmdNodeStates; rmd.statuses labels them with it.
NODE_STATES = "wattwise-rmd-node-states"
# Role rmd labels the namespace as wattwise-rmd; an equal name would remove its labels.
FIELD_MANAGER = "wattwise-rmd-workloads"
_PARTS = ("rmd_workloads", "rmd_node_states", "rmd_configs", "rmd_pods")
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
    snapshot, document = str(folder / "rmd-snapshot.json"), str(folder / "rmd.json")
    selectors = {"rmd_pods": options["pod_selector"], "controllers": _ALL_CONTROLLERS}
    include = [*_PARTS, "controllers"]
    taken = take({"include": include, "selectors": selectors, "path": snapshot}, context, kube)
    rivals = images_with(taken["controllers"], "rmd-operator")
    if rivals and not options["force"]:
        raise InvalidInput(
            f"rmd-operator runs in this cluster ({rivals}) and writes the same workloads; scale it "
            "to zero, or set rmd_workloads_force to true."
        )
    counts = taken["counts"]
    if not options["endpoints"] and not any(counts[part] for part in _PARTS):
        nothing = {"daemons": 0, "workloads": 0, "results": [], "objects": [], "pruned": []}
        nothing["statuses"] = []
        return {"changed": False, "diff": [], **nothing}
    namespace = namespace_manifests(options)
    applying = Applying(kube, context, [*options["assume"], *namespace])
    applying.apply({"manifests": namespace, "field_manager": FIELD_MANAGER})
    found, failure = _reconciled(_of_daemons(options, snapshot, document), context)
    applying.add({"changed": found.get("changed"), "diff": found.get("diff")})
    statuses = _write(applying, options, document, context)
    objects = applying.result
    result = {**found, **objects, "results": found["results"], "objects": objects["results"]}
    result["statuses"] = statuses
    if failure is not None:
        failure.fields.update(result)
        raise failure
    return result


def _reconciled(parameters: Parameters, context: Context) -> tuple[Result, WattwiseError | None]:
    """Results of the daemons, and the error if too few of them answered."""
    try:
        return reconciliation.reconcile(parameters, context), None
    except WattwiseError as error:
        if "path" not in error.fields:  # it ended before any answer of a daemon
            raise
        return error.fields, error


def namespace_manifests(options: Parameters) -> list[Manifest]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options["namespace"]}}]


def _of_daemons(options: Parameters, snapshot: str, document: str) -> dict[str, t.Any]:
    return {
        **options["daemons"],
        "endpoints": options["endpoints"],
        "namespace": options["namespace"],
        "require_capacity": options["require_capacity"],
        "snapshot": snapshot,
        "path": document,
    }


def _write(
    applying: Applying, options: Parameters, document: str, context: Context
) -> list[Manifest]:
    """Keep one RmdNodeState for each daemon, and write the results of workloads and daemons.

    Returns the statuses.
    """
    manifests = documents.load(document, "rmd")
    applying.apply(
        {
            "manifests": manifests["node_states"],
            "prune": NODE_STATES,
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
    statuses: list[Manifest] = manifests["statuses"]
    return statuses
