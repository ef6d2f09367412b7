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
from .record import ANNOTATION, PAUSES, NodeRecord

TAINT = ASLEEP_TAINT
EXCLUDED = "node.kubernetes.io/exclude-disruption"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_JSON_PATCH = "application/json-patch+json"
# The control plane sets it with the cordon.
_OF_CORDON = "node.kubernetes.io/unschedulable"

Patch = list[dict[str, t.Any]]


class _Parts(t.NamedTuple):
    """The parts of a Node that a transition changes."""

    annotations: dict[str, t.Any]
    labels: dict[str, t.Any]
    taints: list[dict[str, t.Any]]
    is_closed: bool


def is_cordoned(node: Object) -> bool:
    return member(node, "spec", "unschedulable") is True


def is_excluded(node: Object) -> bool:
    return member(node, "metadata", "labels", EXCLUDED) is not None


def is_detached(node: Object) -> bool:
    """Whether the control plane detaches its volumes by force."""
    return any(one.get("key") == OUT_OF_SERVICE for one in _taints(node))


def patch_to_record(node: Object, record: NodeRecord, is_out_of_service: bool = False) -> Patch:
    """The patch to a phase other than awake: annotation, taint, cordon and marks.

    ``is_out_of_service`` lets the control plane detach volumes at once; the machine must be off.
    """
    pauses = {
        part: {name: "true" for name in record.paused if PAUSES[name] == part}
        for part in ("annotations", "labels")
    }
    annotations = {**_mapping(node, "annotations"), **pauses["annotations"]}
    annotations[ANNOTATION] = record.as_annotation()
    labels = {EXCLUDED: "true", **_mapping(node, "labels"), **pauses["labels"]}
    taints = [one for one in _taints(node) if one.get("key") not in (TAINT, OUT_OF_SERVICE)]
    taints.append({"key": TAINT, "value": record.phase.value, "effect": "NoSchedule"})
    if is_out_of_service:
        taints.append({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"})
    return _patch(node, _Parts(annotations, labels, taints, True))


def patch_to_awake(node: Object, record: NodeRecord) -> Patch:
    """The patch that takes all of it away; a cordon or mark that is not ours stays."""
    return _patch(node, _awake(node, record))


def awakened(node: Object, record: NodeRecord) -> MutableObject:
    """The Node after that patch, which the decision counts with; its readiness is as before."""
    parts = _awake(node, record)
    taints = [one for one in parts.taints if parts.is_closed or one.get("key") != _OF_CORDON]
    return {
        **node,
        "metadata": {
            **node["metadata"],
            "annotations": parts.annotations,
            "labels": parts.labels,
        },
        "spec": {**node["spec"], "taints": taints, "unschedulable": parts.is_closed},
    }


def _awake(node: Object, record: NodeRecord) -> _Parts:
    annotations, labels = _mapping(node, "annotations"), _mapping(node, "labels")
    annotations.pop(ANNOTATION, None)
    if record.excluded:
        labels.pop(EXCLUDED, None)
    for name in record.paused:
        (labels if PAUSES[name] == "labels" else annotations).pop(name, None)
    taints = [one for one in _taints(node) if one.get("key") not in (TAINT, OUT_OF_SERVICE)]
    return _Parts(annotations, labels, taints, is_cordoned(node) and not record.cordoned)


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


def _patch(node: Object, after: _Parts) -> Patch:
    """Only the members that the transition changes, after the test of the version."""
    operations: Patch = [
        {
            "op": "test",
            "path": "/metadata/resourceVersion",
            "value": node["metadata"]["resourceVersion"],
        }
    ]
    for part, wanted in (("annotations", after.annotations), ("labels", after.labels)):
        if member(node, "metadata", part) is None:
            operations.append({"op": "add", "path": f"/metadata/{part}", "value": wanted})
            continue
        operations += _of_mapping(f"/metadata/{part}", _mapping(node, part), wanted)
    if after.taints != _taints(node):
        operations.append({"op": "add", "path": "/spec/taints", "value": after.taints})
    if after.is_closed != is_cordoned(node):
        operations.append(
            {"op": "add", "path": "/spec/unschedulable", "value": True}
            if after.is_closed
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
