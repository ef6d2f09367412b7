# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Waits until applied objects are ready, and until the kinds of CRDs are served."""

from __future__ import annotations

import time
import typing as t

from ...base.errors import WattwiseError
from ...base.json_types import MutableObject, Object
from ...base.manifests import Manifest
from ..client import Kube
from ..resource.conditions import has_condition
from .patches import READY_POLL_SECONDS


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
    "CustomResourceDefinition": lambda obj: has_condition(obj, "Established"),
    "Namespace": lambda obj: obj.get("status", {}).get("phase") == "Active",
    "Deployment": lambda obj: _has_replicas(obj, "availableReplicas"),
    "StatefulSet": lambda obj: _has_replicas(obj, "readyReplicas"),
    "DaemonSet": _daemon_set_is_ready,
    "Job": lambda obj: has_condition(obj, "Complete"),
    "Pod": lambda obj: has_condition(obj, "Ready"),
}


def is_ready(obj: Object) -> bool:
    """Whether the object is ready; kinds without readiness are ready once they exist."""
    predicate = _PREDICATES.get(obj["kind"])
    return predicate is None or predicate(obj)


def wait_until_ready(kube: Kube, paths: t.Sequence[str], timeout: float) -> None:
    """Wait until every object is ready. Raises WattwiseError, which names unready ones."""
    deadline = time.monotonic() + timeout
    waiting = list(paths)
    while True:
        objects: list[MutableObject | None] = kube.in_parallel(kube.find, waiting)
        waiting = [path for path, obj in zip(waiting, objects) if obj is None or not is_ready(obj)]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise WattwiseError(
                f"Not ready after {timeout:g} s: {', '.join(waiting[:5])}; check their "
                "status and events, or raise wait_timeout"
            )
        time.sleep(READY_POLL_SECONDS)


def wait_until_served(kube: Kube, definitions: t.Sequence[Manifest], timeout: float) -> None:
    """Wait until discovery lists the kinds, which happens some time after `Established`.

    Kinds that are not served in time are no error here; their objects fail later.
    """
    kinds = [
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
        for spec in (definition["spec"] for definition in definitions)
        for version in spec["versions"]
        if version.get("served")
    ]
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        kube.forget_resources()
        if all(kube.serves(*kind) for kind in kinds):
            return
        time.sleep(READY_POLL_SECONDS)
