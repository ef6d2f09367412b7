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
    """A pod with a container that requested ways and gets none, and the reason."""

    namespace: str
    pod: str
    pod_uid: str
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
    asking, exclusive = _asking(pod), {each.name: each for each in exclusive_containers(pod)}
    metadata, subject = pod["metadata"], subject_of(pod, "Pod")
    workloads: list[MutableObject] = []
    refusals: list[Refusal] = []

    def read(container: Object) -> MutableObject | None:
        name = container["name"]
        if name not in exclusive:
            raise InvalidInput(
                "it requests cache ways, which only containers of Guaranteed pods with whole"
                " CPUs get; make requests equal limits, and CPUs a whole number"
            )
        if name not in cpus:
            return None
        spec = _spec(pod, container, cpus[name])
        return _workload(spec, exclusive[name], len(asking) == 1)

    for container in asking:
        found = guarded(subject, lambda container=container: read(container))  # type: ignore[misc]
        if isinstance(found, Finding):
            message = shown_text(f"container {container['name']}: {found.said}")
            namespace = metadata.get("namespace") or "default"
            refusals.append(Refusal(namespace, metadata["name"], metadata["uid"], message))
        elif found is not None:
            workloads.append(found)
    return workloads, refusals


def _workload(spec: Object, exclusive: ExclusiveContainer, alone: bool) -> MutableObject:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": exclusive.pod,
        "uid": exclusive.pod_uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    place = {"name": _workload_name(exclusive, alone), "namespace": exclusive.namespace}
    metadata = {**place, "ownerReferences": [owner]}
    return {"apiVersion": API_VERSION, "kind": "RmdWorkload", "metadata": metadata, "spec": spec}


def _spec(pod: Object, container: Object, cpus: t.Sequence[int]) -> MutableObject:
    name, most = container["name"], _ways(container)
    annotations = _annotations(pod, name)

    def whole(setting: str) -> int:
        return _whole(annotations[setting], f"annotation {name}_{setting}")

    least = whole("cache_min") if "cache_min" in annotations else most
    if not 1 <= least <= most:
        problem = f"{least} is not between 1 and its {most} ways"
        raise InvalidField(f"annotation {name}_cache_min", problem)
    cache = {"max": most, "min": least}
    cores = [str(cpu) for cpu in sorted(cpus)]
    spec: MutableObject = {"coreIds": cores, "nodes": [pod["spec"]["nodeName"]]}
    mba = {
        field: whole(f"mba_{field}")
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
    return spec


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
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return [each for each in containers if _limit(each) not in (None, 0, "0")]


def _limit(container: Object) -> t.Any:
    resources = container.get("resources") or {}
    return (resources.get("limits") or {}).get(CACHE_WAYS)
