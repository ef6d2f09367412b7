# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readiness of API objects: pure predicates for ``wait``."""

from __future__ import annotations

import typing as t

from ..base.json_types import Object


def condition_is_true(obj: Object, condition_type: str) -> bool:
    """Whether ``status.conditions`` has this condition with status True."""
    conditions = obj.get("status", {}).get("conditions") or []
    return any(
        item.get("type") == condition_type and item.get("status") == "True" for item in conditions
    )


def _observed(obj: Object) -> bool:
    return bool(
        obj.get("status", {}).get("observedGeneration", 0) >= obj["metadata"].get("generation", 0)
    )


def _has_replicas(obj: Object, count: str) -> bool:
    """Whether all replicas are of the present template, and as many are in this count."""
    wanted, status = obj["spec"].get("replicas", 1), obj.get("status", {})
    return _observed(obj) and all(
        status.get(name, 0) >= wanted for name in ("updatedReplicas", count)
    )


def _daemon_set_is_ready(obj: Object) -> bool:
    status = obj.get("status", {})
    wanted = status.get("desiredNumberScheduled")
    return (
        _observed(obj)
        and wanted is not None
        and (
            status.get("updatedNumberScheduled", 0) >= wanted
            and status.get("numberAvailable", 0) >= wanted
        )
    )


_PREDICATES: t.Mapping[str, t.Callable[[Object], bool]] = {
    "CustomResourceDefinition": lambda obj: condition_is_true(obj, "Established"),
    "Namespace": lambda obj: obj.get("status", {}).get("phase") == "Active",
    "Deployment": lambda obj: _has_replicas(obj, "availableReplicas"),
    "StatefulSet": lambda obj: _has_replicas(obj, "readyReplicas"),
    "DaemonSet": _daemon_set_is_ready,
    "Job": lambda obj: condition_is_true(obj, "Complete"),
    "Pod": lambda obj: condition_is_true(obj, "Ready"),
}


def is_ready(obj: Object) -> bool:
    """Whether the object is ready; kinds without readiness are ready once they exist."""
    predicate = _PREDICATES.get(obj["kind"])
    return predicate is None or predicate(obj)
