# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Which containers of a pod have CPUs to themselves, as kubelet's CPU manager decides it.

Source: https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/ (policy static:
containers of Guaranteed pods that ask for whole CPUs).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import InvalidField
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import parse_quantity

Object = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class ExclusiveContainer:
    """A container that asks for whole CPUs of its own; ``id`` is empty until it was started."""

    pod_uid: str
    namespace: str
    pod: str
    name: str
    id: str
    cpu_count: int


def exclusive_containers(pod: Object) -> list[ExclusiveContainer]:
    """The containers of a pod that get CPUs of their own; sidecars among them.

    Raises InvalidField where the pod has no name or UID, or a quantity is none.
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
    """Sidecars, which start first, and containers; other init containers are gone soon."""
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container
    yield from spec.get("containers") or ()


def _container_ids(status: Object) -> dict[str, str]:
    """Ids by container name, less the runtime that stands before them: ``containerd://…``."""
    return {
        each["name"]: (each.get("containerID") or "").rpartition("://")[2]
        for part in ("initContainerStatuses", "containerStatuses")
        for each in status.get(part) or ()
    }


def _whole_cpus(container: Object) -> int:
    """How many CPUs the container asks for; 0 where it asks for a part of one or for none."""
    requested = _requested(container, "cpu")
    if requested is None:
        return 0
    cpus = parse_quantity(requested, f"cpu of container {container['name']}")
    return int(cpus) if cpus == int(cpus) else 0


def _requested(container: Object, resource: str) -> t.Any:
    """The request, which is the limit where only that is given."""
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
