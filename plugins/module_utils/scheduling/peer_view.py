# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Requests of pods and nodes by the rules of the placers in power/baselines.

Sources: wao-scheduler's MinimizePower, scheduler-plugins' PEAKS (``PredictUtilisation``) and
kube-scheduler's NodeResourcesFit (``NonMissingContainerRequests``), as of Kubernetes 1.37.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.fields.strict import mapping, mappings
from ..base.json_types import Object
from .amounts import amount

# kube-scheduler's amounts of a container without a request in scores.
COUNTED_IF_MISSING: t.Mapping[str, int] = {"cpu": 100, "memory": 200 * 2**20}
_PEAKS_MILLICORES_IF_MISSING = 1000
# More than any node has; scores are computed in 64 bits.
_MAX_COUNTED = 1 << 50


@dataclass(frozen=True)
class PeerPod:
    """CPU in millicores by MinimizePower and PEAKS; ``counted_…`` by kube-scheduler."""

    minimize_power_millicores: int = 0
    peaks_millicores: int = 0
    counted_millicores: int = 0
    counted_bytes: int = 0


@dataclass(frozen=True)
class PeerNode:
    """CPU and memory of a node, and kube-scheduler's amounts of its running pods."""

    capacity_millicores: int = 0
    allocatable_millicores: int = 0
    allocatable_bytes: int = 0
    counted_millicores: int = 0
    counted_bytes: int = 0


def peer_pod(spec: Object, counted: t.Mapping[str, int]) -> PeerPod:
    """A pod by its ``spec`` and by kube-scheduler's amounts. Raises InvalidField."""
    overhead = mapping(spec.get("overhead"), "spec.overhead")
    minimize_power = peaks = 0
    for index, container in enumerate(mappings(spec.get("containers"), "spec.containers")):
        path = f"spec.containers[{index}].resources"
        requested, limit = _cpu(container, "requests", path), _cpu(container, "limits", path)
        minimize_power += requested or limit or 0
        present = [value for value in (requested, limit) if value is not None]
        peaks += present[0] if present else _PEAKS_MILLICORES_IF_MISSING
    return PeerPod(
        minimize_power_millicores=min(minimize_power, _MAX_COUNTED),
        peaks_millicores=min(
            peaks + amount("cpu", overhead.get("cpu", 0), "spec.overhead"), _MAX_COUNTED
        ),
        counted_millicores=min(counted.get("cpu", 0), _MAX_COUNTED),
        counted_bytes=min(counted.get("memory", 0), _MAX_COUNTED),
    )


def lacks_requests(spec: Object) -> bool:
    """Whether kube-scheduler's amounts exceed a pod's requests."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any(
        name not in (resources.get("requests") or {})
        and name not in (resources.get("limits") or {})
        for resources in (container.get("resources") or {} for container in containers)
        for name in COUNTED_IF_MISSING
    )


def _cpu(container: Object, part: str, path: str) -> int | None:
    """Millicores of a container's requests or limits; None if it has none."""
    resources = mapping(mapping(container.get("resources"), path).get(part), f"{path}.{part}")
    return amount("cpu", resources["cpu"], f"{path}.{part}") if "cpu" in resources else None
