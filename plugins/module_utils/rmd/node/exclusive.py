# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Containers of a pod with exclusive CPUs, by the rules of the kubelet's CPU manager.

Source: https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/ (policy static:
containers of Guaranteed pods that request whole CPUs).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.boundary import InvalidField
from ...base.json_types import Object
from ...base.units import parse_quantity


@dataclass(frozen=True)
class ExclusiveContainer:
    """A container with exclusive CPUs; ``id`` is empty until its start."""

    pod_uid: str
    namespace: str
    pod: str
    name: str
    id: str
    cpu_count: int


def exclusive_containers(pod: Object) -> list[ExclusiveContainer]:
    """The containers of a pod that get exclusive CPUs, including sidecars.

    Raises InvalidField for a pod without name or UID, or an invalid quantity.
    """
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    namespace, name = metadata.get("namespace") or "default", metadata.get("name") or ""
    texts = (namespace, name, metadata.get("uid"))
    if not all(isinstance(text, str) and text for text in texts):
        raise InvalidField(
            "metadata", "it has no name or no uid; give pods as the API returns them"
        )
    if not _is_guaranteed(pod):
        return []
    ids = _container_ids(pod.get("status") or {})
    counts = {each["name"]: _whole_cpus(each) for each in _long_running(spec)}
    return [
        ExclusiveContainer(metadata["uid"], namespace, name, each, ids.get(each, ""), count)
        for each, count in counts.items()
        if count
    ]


def _long_running(spec: Object) -> t.Iterator[Object]:
    """Sidecars, which start first, and containers; other init containers end soon."""
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container
    yield from spec.get("containers") or ()


def _container_ids(status: Object) -> dict[str, str]:
    """Ids by container name, without the runtime's prefix: ``containerd://…``."""
    return {
        each["name"]: (each.get("containerID") or "").rpartition("://")[2]
        for part in ("initContainerStatuses", "containerStatuses")
        for each in status.get(part) or ()
    }


def _whole_cpus(container: Object) -> int:
    """Number of requested CPUs; 0 for a fraction or no request."""
    requested = _requested(container, "cpu")
    if requested is None:
        return 0
    cpus = parse_quantity(requested, f"cpu of container {container['name']}")
    return int(cpus) if cpus == int(cpus) else 0


def _requested(container: Object, resource: str) -> t.Any:
    """The request, else the limit."""
    resources = container.get("resources") or {}
    limit = (resources.get("limits") or {}).get(resource)
    return (resources.get("requests") or {}).get(resource, limit)


def _is_guaranteed(pod: Object) -> bool:
    known = (pod.get("status") or {}).get("qosClass")
    if known:
        return bool(known == "Guaranteed")
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return bool(containers) and all(
        _is_limited_to_its_request(container, resource)
        for container in containers
        for resource in ("cpu", "memory")
    )


def _is_limited_to_its_request(container: Object, resource: str) -> bool:
    limit = ((container.get("resources") or {}).get("limits") or {}).get(resource)
    if limit is None:
        return False
    place = f"{resource} of container {container.get('name')}"
    return parse_quantity(limit, place) == parse_quantity(_requested(container, resource), place)
