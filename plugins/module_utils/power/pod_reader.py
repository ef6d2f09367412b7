# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes pods, and their short forms, as the placer sees them."""

from __future__ import annotations

import typing as t
from decimal import ROUND_HALF_EVEN, Decimal
from types import MappingProxyType

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.feasibility import (
    EVERY_ADDRESS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    CacheRun,
    Constraints,
    Expression,
    HostPort,
    NodeTerm,
    Pod,
    PodRelations,
    Preference,
    Shape,
    Toleration,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.peer_view import (
    COUNTED_IF_MISSING,
    lacks_requests,
    peer_pod,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_fields import (
    CLAIM_FIELDS,
    unsupported_fields,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import (
    Object,
    amount,
    kubernetes_words,
    mapping,
    mappings,
    quantities,
    required_text,
)

if t.TYPE_CHECKING:
    from ansible_collections.wattwise.kube.plugins.module_utils.power.device_claims import PodClaims

_SHORT_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "labels", "annotations", "deletionTimestamp"),
)
_FINISHED = ("Succeeded", "Failed")
_MICROCORES_PER_MILLICORE = 1000
_NO_RELATIONS = PodRelations()


def as_kubernetes_pods(given: t.Any, where: str) -> list[Object]:
    """Pods as Kubernetes writes them; of a short form with ``count`` n the n copies."""
    pods: list[Object] = []
    for index, item in enumerate(mappings(given, where)):
        if "metadata" in item:
            pods.append(item)
        else:
            pods += _from_short_form(item, f"{where}[{index}]")
    return pods


def _from_short_form(short: Object, where: str) -> list[Object]:
    name = required_text(short.get("name"), f"{where}.name")
    count = short.get("count")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
        raise InvalidInput(f"{where}.count: {count!r} is not a number of pods")
    words = kubernetes_words({key: value for key, value in short.items() if key != "count"})
    metadata = {key: words.pop(key) for key in _SHORT_METADATA if key in words}
    metadata["ownerReferences"] = words.pop("ownerReferences", [])
    container = {"name": "main", "resources": {"requests": words.pop("requests", {})}}
    spec = {"containers": [container], **words}
    names = [name] if count is None else [f"{name}-{number}" for number in range(count)]
    return [{"metadata": {**metadata, "name": each}, "spec": spec} for each in names]


def identity(pod: Object, where: str) -> tuple[str, str]:
    """Namespace and name of a pod. Raises InvalidInput."""
    metadata = mapping(pod.get("metadata"), f"{where}.metadata")
    name = required_text(metadata.get("name"), f"{where}.metadata.name")
    return metadata.get("namespace") or "default", name


def describe(namespace: str, name: str) -> str:
    """How messages call a pod."""
    return f"pod {namespace}/{name}"


def is_pending(pod: Object, scheduler_name: str) -> bool:
    """Whether the pod waits for this scheduler to find it a node."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    return (
        (spec.get("schedulerName") or "default-scheduler") == scheduler_name
        and not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not metadata.get("deletionTimestamp")
        and not is_finished(pod)
    )


def is_finished(pod: Object) -> bool:
    """Whether the pod has given its resources back."""
    return (pod.get("status") or {}).get("phase") in _FINISHED


def is_daemon(pod: Object) -> bool:
    """Whether a DaemonSet owns the pod: it comes with the node and is no workload."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or []
    return any(owner.get("kind") == "DaemonSet" for owner in owners)


def read_pod(
    pod: Object,
    usage_assumption: Decimal,
    repelled_by: frozenset[str],
    relations: PodRelations = _NO_RELATIONS,
    also_unsupported: tuple[str, ...] = (),
    cache_runs: tuple[CacheRun, ...] = (),
    claims: PodClaims | None = None,
) -> Pod:
    """A pod to be placed. Raises InvalidInput for what no API server would accept."""
    namespace, name = identity(pod, "pods")
    where = describe(namespace, name)
    metadata, spec = pod["metadata"], mapping(pod.get("spec"), f"{where}: spec")
    requests = effective_requests(spec, where)
    priority = spec.get("priority") or 0
    if not isinstance(priority, int):
        raise InvalidInput(f"{where}: spec.priority: {priority!r} is not a whole number")
    shape = Shape(
        requests=tuple(sorted({**requests, "pods": 1}.items())),
        use_microcores=assumed_use(requests.get("cpu", 0), usage_assumption),
        priority=priority,
        constraints=_constraints(spec, where, repelled_by, claims),
        is_daemon=is_daemon(pod),
        unsupported=(*_not_understood(pod, claims), *also_unsupported),
        relations=relations,
        preferences=_preferences(spec, where),
        cache_runs=cache_runs,
        device_claims=claims.keys if claims else (),
    )
    return Pod(
        namespace,
        name,
        shape,
        metadata.get("uid"),
        metadata.get("resourceVersion"),
        peer_pod(spec, counted_requests(spec, requests, where), where),
    )


def assumed_use(millicores: int, usage_assumption: Decimal) -> int:
    """Microcores that pods requesting so much are assumed to use."""
    use = millicores * usage_assumption * _MICROCORES_PER_MILLICORE
    return int(use.to_integral_value(rounding=ROUND_HALF_EVEN))


def counted_requests(
    spec: Object, requests: t.Mapping[str, int], where: str
) -> t.Mapping[str, int]:
    """What kube-scheduler counts for a pod with these effective requests when it scores nodes."""
    if not lacks_requests(spec):
        return requests
    return effective_requests(spec, where, COUNTED_IF_MISSING)


def effective_requests(
    spec: Object, where: str, if_missing: t.Mapping[str, int] = MappingProxyType({})
) -> dict[str, int]:
    """What a pod takes of its node while it starts or runs, whichever is more.

    A container that does not name a resource counts with what ``if_missing`` has of it.

    Sidecars (init containers that restart always) run beside the init containers after them and
    beside all containers. Requests for the pod as a whole stand in for those of its containers.
    Source: https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
    #resource-sharing-within-containers, and concepts/configuration/manage-resources-containers/.
    """
    running: dict[str, int] = {}
    for container in mappings(spec.get("containers"), f"{where}: spec.containers"):
        _add(running, container_requests(container, where, if_missing))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in mappings(spec.get("initContainers"), f"{where}: spec.initContainers"):
        requests = container_requests(container, where, if_missing)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(starting, requests)
    _add(running, sidecars)
    _raise_to(running, starting)
    running.update(_pod_level_requests(spec, running, where))
    _add(running, quantities(spec.get("overhead"), f"{where}: spec.overhead"))
    return running


def container_requests(
    container: Object, where: str, if_missing: t.Mapping[str, int] = MappingProxyType({})
) -> dict[str, int]:
    """What one container requests. Raises InvalidInput."""
    path = f"{where}: container {container.get('name')} resources"
    resources = mapping(container.get("resources"), path)
    # Where only a limit is given, the API server takes it for the request too.
    limits = quantities(resources.get("limits"), f"{path}.limits")
    requests = quantities(resources.get("requests"), f"{path}.requests")
    return {**if_missing, **limits, **requests}


def _pod_level_requests(
    spec: Object, of_containers: t.Mapping[str, int], where: str
) -> dict[str, int]:
    path = f"{where}: spec.resources"
    resources = mapping(spec.get("resources"), path)
    requests = quantities(resources.get("requests"), f"{path}.requests")
    for name, limit in mapping(resources.get("limits"), f"{path}.limits").items():
        if name not in requests:
            requests[name] = of_containers.get(name) or amount(name, limit, f"{path}.limits")
    return requests


def _add(total: dict[str, int], more: t.Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: dict[str, int], least: t.Mapping[str, int]) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, 0), value)


def _not_understood(pod: Object, claims: PodClaims | None) -> tuple[str, ...]:
    """Fields, less those about claims where the claims are known, and what is wrong with these."""
    fields = unsupported_fields(pod)
    if claims is None:
        return fields
    return (*(field for field in fields if field not in CLAIM_FIELDS), *claims.unsupported)


def _constraints(
    spec: Object, where: str, repelled_by: frozenset[str], claims: PodClaims | None
) -> Constraints:
    selector = mapping(spec.get("nodeSelector"), f"{where}: spec.nodeSelector")
    tolerations = mappings(spec.get("tolerations"), f"{where}: spec.tolerations")
    affinity = mapping(spec.get("affinity"), f"{where}: spec.affinity")
    node_affinity = mapping(affinity.get("nodeAffinity"), f"{where}: spec.affinity.nodeAffinity")
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return Constraints(
        node_name=spec.get("nodeName") or "",
        node_selector=tuple(sorted((key, str(value)) for key, value in selector.items())),
        node_terms=None if required is None else _node_terms(required, where),
        tolerations=tuple(
            Toleration(
                item.get("key") or "",
                item.get("operator") or "Equal",
                item.get("value") or "",
                item.get("effect") or "",
            )
            for item in tolerations
        ),
        ports=host_ports(spec, where),
        repelled_by=repelled_by,
        device_nodes=claims.nodes if claims else None,
    )


def host_ports(spec: Object, where: str) -> tuple[HostPort, ...]:
    """Ports of the node that a pod opens while it runs: those of containers and sidecars.

    On the host's network each port is one of the node; the API server says so in hostPort.
    """
    found = set()
    for part in ("containers", "initContainers"):
        for container in mappings(spec.get(part), f"{where}: spec.{part}"):
            if part == "initContainers" and container.get("restartPolicy") != "Always":
                continue
            for port in mappings(container.get("ports"), f"{where}: spec.{part}.ports"):
                number = port.get("hostPort")
                if not number and spec.get("hostNetwork"):
                    number = port.get("containerPort")
                if number:
                    found.add(_host_port(port, number, f"{where}: spec.{part}.ports"))
    return tuple(sorted(found))


def _host_port(port: Object, number: t.Any, where: str) -> HostPort:
    if not isinstance(number, int):
        raise InvalidInput(f"{where}: {number!r} is not the number of a port")
    return HostPort(port.get("protocol") or "TCP", number, port.get("hostIP") or EVERY_ADDRESS)


def _preferences(spec: Object, where: str) -> tuple[Preference, ...]:
    affinity = mapping(spec.get("affinity"), f"{where}: spec.affinity")
    node_affinity = mapping(affinity.get("nodeAffinity"), f"{where}: spec.affinity.nodeAffinity")
    path = f"{where}: spec.affinity.nodeAffinity, preferred terms"
    wishes = mappings(node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution"), path)
    found = []
    for wish in wishes:
        weight = wish.get("weight")
        if not isinstance(weight, int) or isinstance(weight, bool) or weight < 1:
            raise InvalidInput(f"{path}: weight {weight!r} is not a whole number of 1 or more")
        found.append(Preference(weight, _node_term(mapping(wish.get("preference"), path), path)))
    return tuple(found)


def _node_terms(required: t.Any, where: str) -> tuple[NodeTerm, ...]:
    path = f"{where}: spec.affinity.nodeAffinity, required terms"
    terms = mappings(mapping(required, path).get("nodeSelectorTerms"), path)
    return tuple(_node_term(term, path) for term in terms)


def _node_term(term: Object, path: str) -> NodeTerm:
    return NodeTerm(
        _expressions(term.get("matchExpressions"), path),
        _expressions(term.get("matchFields"), path),
    )


def _expressions(given: t.Any, where: str) -> tuple[Expression, ...]:
    return tuple(
        Expression(
            required_text(item.get("key"), f"{where}: key"),
            str(item.get("operator")),
            tuple(map(str, item.get("values") or ())),
        )
        for item in mappings(given, where)
    )
