# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The parts of a Node that say that its machine sleeps; each transition is one patch.

The patch tests the version of the Node that was read, so that it never writes over another change.
"""

from __future__ import annotations

import typing as t

from ...base.errors import ApiError
from ...base.fields.lenient import member, objects
from ...base.json_types import MutableObject, Object
from ...kube.client import Kube
from ...scheduling.model import ASLEEP_TAINT
from .record import ANNOTATION, NodeRecord

TAINT = ASLEEP_TAINT
EXCLUDED = "node.kubernetes.io/exclude-disruption"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_JSON_PATCH = "application/json-patch+json"
# Taints of a Node whose kubelet does not answer; the node lifecycle controller sets them.
_OF_UNREACHABLE = frozenset(
    {
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/network-unavailable",
        OUT_OF_SERVICE,
        TAINT,
    }
)

Patch = list[dict[str, t.Any]]


def is_cordoned(node: Object) -> bool:
    return member(node, "spec", "unschedulable") is True


def is_excluded(node: Object) -> bool:
    return member(node, "metadata", "labels", EXCLUDED) is not None


def patch_to_record(node: Object, record: NodeRecord, is_out_of_service: bool = False) -> Patch:
    """The patch to a phase other than awake: annotation, taint, cordon and label.

    ``is_out_of_service`` lets the control plane detach volumes at once; the machine must be off.
    """
    annotations = {**_mapping(node, "annotations"), ANNOTATION: record.as_annotation()}
    labels = {EXCLUDED: "true", **_mapping(node, "labels")}
    taints = [one for one in _taints(node) if one.get("key") not in (TAINT, OUT_OF_SERVICE)]
    taints.append({"key": TAINT, "value": record.phase.value, "effect": "NoSchedule"})
    if is_out_of_service:
        taints.append({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"})
    return _patch(node, annotations, labels, taints, is_closed=True)


def patch_to_awake(node: Object, record: NodeRecord) -> Patch:
    """The patch that takes all of it away; a cordon or label that is not ours stays."""
    annotations, labels = _mapping(node, "annotations"), _mapping(node, "labels")
    annotations.pop(ANNOTATION, None)
    if record.excluded:
        labels.pop(EXCLUDED, None)
    taints = [one for one in _taints(node) if one.get("key") not in (TAINT, OUT_OF_SERVICE)]
    return _patch(node, annotations, labels, taints, is_cordoned(node) and not record.cordoned)


def awakened(node: MutableObject) -> MutableObject:
    """The Node as it is after the boot of its machine, which the decision counts with."""
    spec = {key: value for key, value in node["spec"].items() if key != "unschedulable"}
    spec["taints"] = [one for one in _taints(node) if one.get("key") not in _OF_UNREACHABLE]
    ready = [{"type": "Ready", "status": "True"}]
    return {**node, "spec": spec, "status": {**node["status"], "conditions": ready}}


def apply_patch(kube: Kube, node: Object, patch: Patch) -> MutableObject | None:
    """The new Node; None if another client changed the Node meanwhile. Raises ApiError.

    The API server refuses a test that fails with 422, and a conflict at the write with 409.
    """
    try:
        return kube.request("PATCH", path_of(node), patch, _JSON_PATCH)
    except ApiError as error:
        if error.status in (409, 422):
            found = kube.find(path_of(node))
            before = member(node, "metadata", "resourceVersion")
            if found is None or member(found, "metadata", "resourceVersion") != before:
                return None
        raise


def path_of(node: Object) -> str:
    return f"/api/v1/nodes/{node['metadata']['name']}"


def _mapping(node: Object, name: str) -> dict[str, t.Any]:
    found = member(node, "metadata", name)
    return dict(found) if isinstance(found, dict) else {}


def _taints(node: Object) -> list[dict[str, t.Any]]:
    return [dict(one) for one in objects(member(node, "spec", "taints"))]


def _patch(
    node: Object,
    annotations: dict[str, t.Any],
    labels: dict[str, t.Any],
    taints: list[dict[str, t.Any]],
    is_closed: bool,
) -> Patch:
    """Only the members that the transition changes, after the test of the version."""
    operations: Patch = [
        {
            "op": "test",
            "path": "/metadata/resourceVersion",
            "value": node["metadata"]["resourceVersion"],
        }
    ]
    for part, wanted in (("annotations", annotations), ("labels", labels)):
        if member(node, "metadata", part) is None:
            operations.append({"op": "add", "path": f"/metadata/{part}", "value": wanted})
            continue
        operations += _of_mapping(f"/metadata/{part}", _mapping(node, part), wanted)
    if taints != _taints(node):
        operations.append({"op": "add", "path": "/spec/taints", "value": taints})
    if is_closed != is_cordoned(node):
        operations.append(
            {"op": "add", "path": "/spec/unschedulable", "value": True}
            if is_closed
            else {"op": "remove", "path": "/spec/unschedulable"}
        )
    return operations


def _of_mapping(path: str, before: Object, after: Object) -> Patch:
    """Single keys, because trimmed nodes lack some annotations."""
    changed: Patch = [
        {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}
        for key, value in after.items()
        if before.get(key) != value
    ]
    gone = [key for key in before if key not in after]
    return changed + [{"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in gone]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
