# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""RmdWorkloads for pods that request cache ways, from their containers and annotations.

A container requests them by a limit of ``intel.com/l3_cache_ways``. Annotations of the pod that
begin with the container's name and an underscore are further settings: ``nginx1_policy``,
``nginx1_cache_min``, ``nginx1_pstate_ratio``, ``nginx1_pstate_monitoring``,
``nginx1_mba_percentage`` and ``nginx1_mba_mbps``. Source: rmd-operator v0.1.1 (names, annotations)
and v0.2 (bandwidth, several containers).
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, InvalidField, guarded, shown, shown_text, subject_of
from ..base.errors import InvalidInput
from ..base.json_types import MutableObject, Object
from ..base.units import parse_quantity
from .node.exclusive import ExclusiveContainer, exclusive_containers

CACHE_WAYS = "intel.com/l3_cache_ways"
API_VERSION = "intel.com/v1alpha1"
_SEPARATOR = "-rmd-workload-"
_MAX_NAME_LENGTH = 253
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_WHOLE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Refusal:
    """A container that requested ways and gets none, with the reason."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    message: str


def asks_for_ways(pod: Object) -> bool:
    """Whether a container of the pod has a limit of cache ways other than zero."""
    return bool(_asking(pod))


def workload_names(pod: Object) -> list[str]:
    """Possible names of RmdWorkloads of the pod's containers."""
    asking = _asking(pod)
    alone = len(asking) == 1
    return [workload_name(pod["metadata"]["name"], each["name"], alone) for each in asking]


def workloads_of_pod(
    pod: Object, cpus: t.Mapping[str, t.Sequence[int]]
) -> tuple[list[MutableObject], list[Refusal]]:
    """RmdWorkloads of the pod's containers, and refused containers.

    ``cpus`` has the exclusive CPUs by container name. A container that is missing there, because it
    was not started or could not be read, gives neither. Raises InvalidInput for a pod without name
    or UID.
    """
    asking = _asking(pod)
    exclusive = {each.name: each for each in exclusive_containers(pod)}
    subject = subject_of(pod, "Pod")
    workloads: list[MutableObject] = []
    refusals: list[Refusal] = []

    def read(container: Object) -> MutableObject | None:
        name = container["name"]
        if name not in exclusive:
            raise InvalidInput(
                "it requests cache ways, which only containers of Guaranteed pods with whole"
                " CPUs get; make requests equal limits, and CPUs a whole number"
            )
        alone = len(asking) == 1
        own = cpus.get(name)
        return None if own is None else _workload(pod, container, exclusive[name], own, alone)

    for container in asking:
        found = guarded(subject, lambda container=container: read(container))  # type: ignore[misc]
        if isinstance(found, Finding):
            refusals.append(_refusal(pod, container["name"], found.said))
        elif found is not None:
            workloads.append(found)
    return workloads, refusals


def _workload(
    pod: Object,
    container: Object,
    exclusive: ExclusiveContainer,
    cpus: t.Sequence[int],
    alone: bool,
) -> MutableObject:
    annotations = _annotations(pod, exclusive.name)
    cache = _cache(exclusive.name, _ways(container), annotations)
    spec: MutableObject = {
        "coreIds": [str(cpu) for cpu in sorted(cpus)],
        "nodes": [pod["spec"]["nodeName"]],
    }
    mba = {
        field: _whole(annotations[f"mba_{field}"], f"annotation {exclusive.name}_mba_{field}")
        for field in ("percentage", "mbps")
        if f"mba_{field}" in annotations
    }
    spec.update({"rdt": {"cache": cache, "mba": mba}} if mba else {"cache": cache})
    pstate = {
        field: annotations[f"pstate_{field}"]
        for field in ("ratio", "monitoring")
        if f"pstate_{field}" in annotations
    }
    if pstate:
        spec["pstate"] = pstate
    if "policy" in annotations:
        spec["policy"] = annotations["policy"]
    return {
        "apiVersion": API_VERSION,
        "kind": "RmdWorkload",
        "metadata": {
            "name": _workload_name(exclusive, alone),
            "namespace": exclusive.namespace,
            "ownerReferences": [_owner(exclusive)],
        },
        "spec": spec,
    }


def _workload_name(container: ExclusiveContainer, alone: bool) -> str:
    if not alone and _SEPARATOR in container.name:
        raise InvalidField("name", f"it must not contain {_SEPARATOR}; rename the container")
    name = workload_name(container.pod, container.name, alone)
    if _NAME.fullmatch(name) is None:
        raise InvalidField("name", f"{shown(name)} is not a name for an RmdWorkload")
    if len(name) > _MAX_NAME_LENGTH:
        raise InvalidField("name", "its RmdWorkload's would be too long; rename the pod")
    return name


def workload_name(pod: str, container: str, alone: bool) -> str:
    """The name of a container's RmdWorkload; ``alone``: no other of its pod requests ways."""
    return f"rmd-workload-{pod}" if alone else f"{pod}{_SEPARATOR}{container}"


def _owner(container: ExclusiveContainer) -> MutableObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": container.pod,
        "uid": container.pod_uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _annotations(pod: Object, container: str) -> dict[str, str]:
    """The pod's annotations about this container, by the rest of their names."""
    given = (pod.get("metadata") or {}).get("annotations") or {}
    names = ("policy", "cache_min", "pstate_ratio", "pstate_monitoring")
    found = {}
    for name in (*names, "mba_percentage", "mba_mbps"):
        value = str(given.get(f"{container}_{name}") or "").strip()
        if value:
            found[name] = value
    return found


def _cache(container: str, ways: int, annotations: t.Mapping[str, str]) -> MutableObject:
    least = ways
    if "cache_min" in annotations:
        where = f"annotation {container}_cache_min"
        least = _whole(annotations["cache_min"], where)
        if not 1 <= least <= ways:
            raise InvalidField(where, f"{least} is not between 1 and its {ways} ways")
    return {"max": ways, "min": least}


def _ways(container: Object) -> int:
    where = f"its limit of {CACHE_WAYS}"
    quantity = parse_quantity(_limit(container), where)
    if quantity <= 0 or quantity != int(quantity):
        raise InvalidField(where, f"{shown(_limit(container))} is not a whole number above 0")
    return int(quantity)


def _whole(text: str, where: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise InvalidField(where, f"{shown(text)} is not a whole number such as 2")
    return int(text)


def _asking(pod: Object) -> list[Object]:
    return [each for each in _containers(pod) if _limit(each) not in (None, 0, "0")]


def _limit(container: Object) -> t.Any:
    resources = container.get("resources") or {}
    return (resources.get("limits") or {}).get(CACHE_WAYS)


def _containers(pod: Object) -> list[Object]:
    spec = pod.get("spec") or {}
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _refusal(pod: Object, container: str, message: str) -> Refusal:
    metadata = pod["metadata"]
    namespace = metadata.get("namespace") or "default"
    text = shown_text(f"container {container}: {message}")
    return Refusal(namespace, metadata["name"], metadata["uid"], container, text)
