# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What the placers of baselines.py see of pods and nodes: each counts requests in its own way.

Sources: wao-scheduler's MinimizePower, scheduler-plugins' PEAKS (``PredictUtilisation``) and
kube-scheduler's NodeResourcesFit (``NonMissingContainerRequests``), as of Kubernetes 1.34.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import (
    Object,
    amount,
    mapping,
    mappings,
)

# kube-scheduler takes a container without a request for so much when it scores nodes.
COUNTED_IF_MISSING: t.Mapping[str, int] = {"cpu": 100, "memory": 200 * 2**20}
_PEAKS_MILLICORES_IF_MISSING = 1000


@dataclass(frozen=True)
class PeerPod:
    """CPU in millicores as MinimizePower and PEAKS count it; ``counted_…`` as kube-scheduler."""

    minimize_power_millicores: int = 0
    peaks_millicores: int = 0
    counted_millicores: int = 0
    counted_bytes: int = 0


@dataclass(frozen=True)
class PeerNode:
    """CPU and memory of a node, and what kube-scheduler counts for the pods that run there."""

    capacity_millicores: int = 0
    allocatable_millicores: int = 0
    allocatable_bytes: int = 0
    counted_millicores: int = 0
    counted_bytes: int = 0


def peer_pod(spec: Object, counted: t.Mapping[str, int], where: str) -> PeerPod:
    """A pod by its ``spec`` and by what kube-scheduler counts for it. Raises InvalidInput."""
    containers = mappings(spec.get("containers"), f"{where}: spec.containers")
    overhead = mapping(spec.get("overhead"), f"{where}: spec.overhead")
    minimize_power = peaks = 0
    for container in containers:
        requested, limit = _cpu(container, "requests", where), _cpu(container, "limits", where)
        minimize_power += requested or limit or 0
        present = [value for value in (requested, limit) if value is not None]
        peaks += present[0] if present else _PEAKS_MILLICORES_IF_MISSING
    return PeerPod(
        minimize_power_millicores=minimize_power,
        peaks_millicores=peaks + amount("cpu", overhead.get("cpu", 0), f"{where}: spec.overhead"),
        counted_millicores=counted.get("cpu", 0),
        counted_bytes=counted.get("memory", 0),
    )


def lacks_requests(spec: Object) -> bool:
    """Whether kube-scheduler counts more for a pod than it requests."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any(
        name not in (resources.get("requests") or {})
        and name not in (resources.get("limits") or {})
        for resources in (container.get("resources") or {} for container in containers)
        for name in COUNTED_IF_MISSING
    )


def _cpu(container: Object, part: str, where: str) -> int | None:
    """Millicores of a container's requests or limits; None where it names none."""
    path = f"{where}: container {container.get('name')} resources"
    resources = mapping(mapping(container.get("resources"), path).get(part), f"{path}.{part}")
    return amount("cpu", resources["cpu"], f"{path}.{part}") if "cpu" in resources else None
