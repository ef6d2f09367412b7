# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes pods, and their short forms, as input of the placer."""

from __future__ import annotations

import typing as t
from decimal import ROUND_HALF_EVEN, Decimal
from types import MappingProxyType

from ..base.fields.strict import (
    mapping,
    mappings,
    object_name,
    required_mapping,
    required_text,
    text,
    text_mapping,
    texts,
    whole_number,
)
from ..base.json_types import Object
from ..base.label_selector import Requirement
from .amounts import quantities
from .feasibility import EVERY_ADDRESS
from .model import (
    MAX_CORES,
    CacheRun,
    Constraints,
    HostPort,
    NodeTerm,
    Pod,
    Preference,
    Shape,
    Toleration,
)
from .peer_view import COUNTED_IF_MISSING, lacks_requests, peer_pod
from .pod_fields import unsupported_fields
from .volumes.inline_disks import disk_uses

_SHORT_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "labels", "annotations", "deletionTimestamp"),
)
_FINISHED = ("Succeeded", "Failed")
# Limit of one short form; larger fleets are untested.
_MAX_COPIES = 100_000
_MAX_PORT = 65_535
# A weight of 1 to 100 in the API.
MAX_WEIGHT = 100
_MICROCORES_PER_MILLICORE = 1000
_MILLICORES_PER_CORE = 1000
_CONTAINER_STATUSES = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}
_RESOURCE_STATUSES = frozenset({"resources", "allocatedResources", *_CONTAINER_STATUSES.values()})


def from_short_form(short: Object) -> list[Object]:
    """A short form in Kubernetes' form; with ``count`` n its n copies.

    Raises InvalidField. Copies differ only in their names.
    """
    name = required_text(short.get("name"), "name")
    count = short.get("count")
    number = None if count is None else whole_number(count, "count", 0, _MAX_COPIES)
    words = _kubernetes_words({key: value for key, value in short.items() if key != "count"})
    metadata = {key: words.pop(key) for key in _SHORT_METADATA if key in words}
    metadata["ownerReferences"] = words.pop("ownerReferences", [])
    container = {"name": "main", "resources": {"requests": words.pop("requests", {})}}
    spec = {"containers": [container], **words}
    names = [name] if number is None else [f"{name}-{index}" for index in range(number)]
    return [{"metadata": {**metadata, "name": each}, "spec": spec} for each in names]


def identity(pod: Object) -> tuple[str, str]:
    """Namespace and name of a pod. Raises InvalidField for names that no API server accepts."""
    metadata = mapping(pod.get("metadata"), "metadata")
    namespace = object_name(metadata.get("namespace") or "default", "metadata.namespace")
    return namespace, object_name(metadata.get("name"), "metadata.name")


def is_pending(pod: Object, scheduler_name: str) -> bool:
    """Whether the pod waits for a node from this scheduler."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    return (
        (spec.get("schedulerName") or "default-scheduler") == scheduler_name
        and not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not metadata.get("deletionTimestamp")
        and not is_finished(pod)
    )


def is_finished(pod: Object) -> bool:
    """Whether the pod has released its resources."""
    return (pod.get("status") or {}).get("phase") in _FINISHED


def priority_of(spec: Object) -> int:
    """The priority of a pod, 0 by default. Raises InvalidField."""
    given = spec.get("priority")
    return 0 if given is None else whole_number(given, "spec.priority")


def is_daemon(pod: Object) -> bool:
    """Whether a DaemonSet owns the pod, so that it is no workload."""
    return any(owner.get("kind") == "DaemonSet" for owner in owners_of(pod))


def owners_of(pod: Object) -> t.Sequence[Object]:
    """The objects that own the pod. Raises InvalidField."""
    metadata = mapping(pod.get("metadata"), "metadata")
    return mappings(metadata.get("ownerReferences"), "metadata.ownerReferences")


def controller_of(pod: Object) -> Object:
    """The owner that controls the pod; empty without one. Raises InvalidField."""
    return next((owner for owner in owners_of(pod) if owner.get("controller")), {})


def labels_of(pod: Object) -> t.Mapping[str, str]:
    """The labels of the pod. Raises InvalidField."""
    metadata = mapping(pod.get("metadata"), "metadata")
    return text_mapping(metadata.get("labels"), "metadata.labels")


def read_pod(
    pod: Object,
    usage_assumption: Decimal,
    anti_affinity_nodes: frozenset[str],
    cache_runs: tuple[CacheRun, ...] = (),
) -> Pod:
    """A pod to place, which has a spec. Raises InvalidField for values that no API server accepts."""
    namespace, name = identity(pod)
    metadata, spec = pod["metadata"], required_mapping(pod.get("spec"), "spec")
    requests = effective_requests(spec)
    shape = Shape(
        requests=tuple(sorted({**requests, "pods": 1}.items())),
        use_microcores=assumed_use(requests.get("cpu", 0), usage_assumption),
        priority=priority_of(spec),
        constraints=_constraints(spec, anti_affinity_nodes),
        is_daemon=is_daemon(pod),
        unsupported=unsupported_fields(pod),
        preferences=_preferences(spec),
        cache_runs=cache_runs,
    )
    return Pod(
        namespace,
        name,
        shape,
        text(metadata.get("uid"), "metadata.uid") or None,
        text(metadata.get("resourceVersion"), "metadata.resourceVersion") or None,
        peer_pod(spec, counted_requests(spec, requests)),
    )


def refused_pod(pod: Object, field: str) -> Pod:
    """A pod that is unreadable by this field. Raises InvalidField if its name is unreadable too."""
    return unread_pod(pod, Shape(requests=(), use_microcores=0, invalid=field or "spec"))


def unread_pod(pod: Object, shape: Shape) -> Pod:
    """A pod with a shape that refuses it. Raises InvalidField if its name is unreadable."""
    namespace, name = identity(pod)
    uid = pod["metadata"].get("uid")
    return Pod(namespace, name, shape, uid if isinstance(uid, str) and uid else None)


def assumed_use(millicores: int, usage_assumption: Decimal) -> int:
    """Assumed use in microcores of pods with this request, at most that of a whole machine."""
    counted = min(millicores, MAX_CORES * _MILLICORES_PER_CORE)
    use = counted * usage_assumption * _MICROCORES_PER_MILLICORE
    return int(use.to_integral_value(rounding=ROUND_HALF_EVEN))


def counted_requests(spec: Object, requests: t.Mapping[str, int]) -> t.Mapping[str, int]:
    """kube-scheduler's amounts in scores for a pod with these effective requests."""
    if not lacks_requests(spec):
        return requests
    return effective_requests(spec, COUNTED_IF_MISSING)


def effective_requests(
    spec: Object, if_missing: t.Mapping[str, int] = MappingProxyType({})
) -> dict[str, int]:
    """Effective requests of a pod: the maximum of starting and running.

    A container without a resource counts with the amount in ``if_missing``. Pod-level requests
    replace those of containers. Source:
    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/.
    """
    requests = _of_containers(spec, if_missing)
    requests.update(_pod_level_requests(spec, requests))
    _add(requests, quantities(spec.get("overhead"), "spec.overhead"))
    return requests


def _of_containers(spec: Object, if_missing: t.Mapping[str, int]) -> dict[str, int]:
    """Requests of all containers together.

    Sidecars (init containers that restart always) run beside the init containers after them and
    beside all containers. Source:
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
    #resource-sharing-within-containers.
    """
    running: dict[str, int] = {}
    for path, container in containers_of(spec, "containers"):
        _add(running, container_requests(container, path, if_missing))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for path, container in containers_of(spec, "initContainers"):
        requests = container_requests(container, path, if_missing)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(starting, requests)
    _add(running, sidecars)
    _raise_to(running, starting)
    return running


def held_requests(
    pod: Object, if_missing: t.Mapping[str, int] = MappingProxyType({})
) -> dict[str, int]:
    """Resources that a pod holds on its node, as kube-scheduler counts them.

    Requested, allocated and actual amounts differ during an in-place resize, and the maximum
    counts. The request does not count while the kubelet calls the resize infeasible. Source:
    PodRequests of k8s.io/component-helpers/resource, v0.37, with the gates of Kubernetes 1.37.
    """
    spec, status = mapping(pod.get("spec"), "spec"), mapping(pod.get("status"), "status")
    if not status.keys() & _RESOURCE_STATUSES and not resize_is_infeasible(status):
        return effective_requests(spec, if_missing)
    requested = _of_containers(spec, if_missing)
    allocated, actual = _told(status, "status")
    views = [allocated, actual]
    if allocated is None or actual is None:
        views = [
            _of_containers(_as_told(spec, status, in_force), if_missing)
            for in_force in (False, True)
        ]
    held: dict[str, int] = {}
    for view in views if resize_is_infeasible(status) else [requested, *views]:
        _raise_to(held, view or {})
    held.update(_held_by_the_whole(spec, status, requested))
    _add(held, quantities(spec.get("overhead"), "spec.overhead"))
    return held


def resize_is_infeasible(status: Object) -> bool:
    """Whether the kubelet says that the node can never have the pod's new requests."""
    conditions = mappings(status.get("conditions"), "status.conditions")
    pending = (each for each in conditions if each.get("type") == "PodResizePending")
    return next(pending, {}).get("reason") == "Infeasible"


def _held_by_the_whole(
    spec: Object, status: Object, of_containers: t.Mapping[str, int]
) -> dict[str, int]:
    """Resources that a pod with pod-level requests holds, and its containers do not decide."""
    requested = _pod_level_requests(spec, of_containers)
    if not requested or status.get("resources") is None:
        return requested
    held = {} if resize_is_infeasible(status) else dict(requested)
    for view in _told(status, "status"):
        _raise_to(held, view or {})
    return {name: value for name, value in held.items() if _is_of_the_whole(name)}


def _is_of_the_whole(resource: str) -> bool:
    """Whether pods as a whole can request this resource."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _as_told(spec: Object, status: Object, in_force: bool) -> Object:
    """The spec with the requests that the kubelet has allocated or applied."""
    view = dict(spec)
    for part, told in _CONTAINER_STATUSES.items():
        path = f"status.{told}"
        statuses = {str(item.get("name")): item for item in mappings(status.get(told), path)}
        view[part] = [
            {
                **container,
                **_resources_in(
                    statuses.get(str(container.get("name"))) or {},
                    path,
                    in_force,
                    counts_spec=not resize_is_infeasible(status),
                ),
            }
            for container in mappings(spec.get(part), f"spec.{part}")
        ]
    return view


def _resources_in(status: Object, path: str, in_force: bool, counts_spec: bool) -> Object:
    """Resources of a container by its status; without any, its spec decides, or they are none."""
    resources = mapping(status.get("resources"), f"{path}.resources")
    told = status.get("allocatedResources")
    if in_force and resources.get("requests") is not None:
        told = resources["requests"]
    if told is None and counts_spec:
        return {}
    return {"resources": {"requests": told}}


def _told(status: Object, path: str) -> tuple[dict[str, int] | None, dict[str, int] | None]:
    """Allocated and actual amounts of a whole pod; None if its status has none."""
    resources = mapping(status.get("resources"), f"{path}.resources")
    allocated, actual = status.get("allocatedResources"), resources.get("requests")
    return (
        None if allocated is None else quantities(allocated, f"{path}.allocatedResources"),
        None if actual is None else quantities(actual, f"{path}.resources.requests"),
    )


def containers_of(spec: Object, part: str) -> t.Iterator[tuple[str, Object]]:
    """The path and the content of each container in this part of a pod. Raises InvalidField."""
    path = f"spec.{part}"
    for index, container in enumerate(mappings(spec.get(part), path)):
        yield f"{path}[{index}]", container


def container_requests(
    container: Object, path: str, if_missing: t.Mapping[str, int] = MappingProxyType({})
) -> dict[str, int]:
    """Requests of one container. Raises InvalidField."""
    path = f"{path}.resources"
    resources = mapping(container.get("resources"), path)
    # The API server uses a limit without a request as the request too.
    limits = quantities(resources.get("limits"), f"{path}.limits")
    requests = quantities(resources.get("requests"), f"{path}.requests")
    return {**if_missing, **limits, **requests}


def _pod_level_requests(spec: Object, of_containers: t.Mapping[str, int]) -> dict[str, int]:
    path = "spec.resources"
    resources = mapping(spec.get("resources"), path)
    requests = quantities(resources.get("requests"), f"{path}.requests")
    for name, limit in quantities(resources.get("limits"), f"{path}.limits").items():
        if name not in requests:
            requests[name] = of_containers.get(name) or limit
    return requests


def _add(total: dict[str, int], more: t.Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: dict[str, int], least: t.Mapping[str, int]) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, 0), value)


def _constraints(spec: Object, anti_affinity_nodes: frozenset[str]) -> Constraints:
    selector = text_mapping(spec.get("nodeSelector"), "spec.nodeSelector")
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    required = _node_affinity(spec).get(name)
    return Constraints(
        node_name=text(spec.get("nodeName"), "spec.nodeName"),
        node_selector=tuple(sorted(selector.items())),
        node_terms=(
            None if required is None else node_terms(required, f"spec.affinity.nodeAffinity.{name}")
        ),
        tolerations=tuple(
            _toleration(item, f"spec.tolerations[{index}]")
            for index, item in enumerate(mappings(spec.get("tolerations"), "spec.tolerations"))
        ),
        ports=host_ports(spec),
        disks=disk_uses(spec),
        anti_affinity_nodes=anti_affinity_nodes,
    )


def _toleration(given: Object, path: str) -> Toleration:
    key, operator, value, effect = (
        text(given.get(name), f"{path}.{name}") for name in ("key", "operator", "value", "effect")
    )
    return Toleration(key, operator or "Equal", value, effect)


def _node_affinity(spec: Object) -> Object:
    affinity = mapping(spec.get("affinity"), "spec.affinity")
    return mapping(affinity.get("nodeAffinity"), "spec.affinity.nodeAffinity")


def host_ports(spec: Object) -> tuple[HostPort, ...]:
    """Host ports of a running pod, from containers and sidecars.

    On the host's network each port is a host port; the API server sets hostPort.
    """
    found = set()
    for part in ("containers", "initContainers"):
        for path, container in containers_of(spec, part):
            if part == "initContainers" and container.get("restartPolicy") != "Always":
                continue
            for index, port in enumerate(mappings(container.get("ports"), f"{path}.ports")):
                number = port.get("hostPort")
                if not number and spec.get("hostNetwork"):
                    number = port.get("containerPort")
                if number:
                    found.add(_host_port(port, number, f"{path}.ports[{index}]"))
    return tuple(sorted(found))


def _host_port(port: Object, number: t.Any, path: str) -> HostPort:
    return HostPort(
        text(port.get("protocol"), f"{path}.protocol") or "TCP",
        whole_number(number, f"{path}.hostPort", 1, _MAX_PORT),
        text(port.get("hostIP"), f"{path}.hostIP") or EVERY_ADDRESS,
    )


def _preferences(spec: Object) -> tuple[Preference, ...]:
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    path = f"spec.affinity.nodeAffinity.{name}"
    found = []
    for index, preferred in enumerate(mappings(_node_affinity(spec).get(name), path)):
        place = f"{path}[{index}]"
        weight = whole_number(preferred.get("weight"), f"{place}.weight", 1, MAX_WEIGHT)
        term = mapping(preferred.get("preference"), f"{place}.preference")
        found.append(Preference(weight, _node_term(term, f"{place}.preference")))
    return tuple(found)


def node_terms(given: t.Any, path: str) -> tuple[NodeTerm, ...]:
    """The terms of a node selector at this place of an object. Raises InvalidField."""
    terms = mapping(given, path).get("nodeSelectorTerms")
    path = f"{path}.nodeSelectorTerms"
    return tuple(
        _node_term(term, f"{path}[{index}]") for index, term in enumerate(mappings(terms, path))
    )


def _node_term(term: Object, path: str) -> NodeTerm:
    return NodeTerm(
        _requirements(term.get("matchExpressions"), f"{path}.matchExpressions"),
        _requirements(term.get("matchFields"), f"{path}.matchFields"),
    )


def _requirements(given: t.Any, path: str) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            required_text(item.get("key"), f"{path}[{index}].key"),
            text(item.get("operator"), f"{path}[{index}].operator"),
            frozenset(texts(item.get("values"), f"{path}[{index}].values")),
        )
        for index, item in enumerate(mappings(given, path))
    )


def _kubernetes_words(short: Object) -> dict[str, t.Any]:
    """A short form's snake_case keys in Kubernetes' camelCase, at every depth.

    Keys that users choose (labels, resource names) stay as they are.
    """
    return {
        _camel_case(key): value if _camel_case(key) in _FREE_KEYS else _in_kubernetes_words(value)
        for key, value in short.items()
    }


_FREE_KEYS = frozenset(
    {"annotations", "labels", "limits", "matchLabels", "nodeSelector", "overhead", "requests"}
)
# hostIP, hostIPC and hostPID.
_ACRONYMS = frozenset({"ip", "ipc", "pid"})


def _in_kubernetes_words(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return _kubernetes_words(value)
    if isinstance(value, list):
        return [_in_kubernetes_words(item) for item in value]
    return value


def _camel_case(key: t.Any) -> str:
    first, *others = str(key).split("_")
    return first + "".join(
        part.upper() if part in _ACRONYMS else part[:1].upper() + part[1:] for part in others
    )
