# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readers of rmd-operator's resources, and where they and the pods of daemons are read.

The shapes of v0.1.1 (``cache``, ``pstate``) and of v0.3 (``rdt``, ``plugins``) mean the same.
"""

from __future__ import annotations

import functools
import ipaddress
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, InvalidField, guarded, shown, subject_of
from ..base.fields.lenient import member, number, objects
from ..base.json_types import MutableObject, Object
from ..kube.source import Source, identified, selected_fields, trim_custom
from .daemon.workload import DEFAULT_NAMESPACE, Desired, FormerWorkload, desired_of

API_VERSION = "intel.com/v1alpha1"
TLS_PORT = 8443
_MAX_PORT = 65_535
STATE_PREFIX = "rmd-node-state-"
# Node Feature Discovery's label, which upstream's manifests select.
DEFAULT_SELECTOR = {"feature.node.kubernetes.io/cpu-rdt.RDTL3CA": "true"}


@dataclass(frozen=True)
class Daemon:
    """A node's daemon; without an endpoint ``problem`` is the reason."""

    node: str
    endpoint: str = ""
    problem: str = ""


def desired_of_manifest(workload: Object) -> Desired:
    """The desired workload of an RmdWorkload. Raises InvalidInput, which names the field."""
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    all_cores = spec.get("allCores") or False
    if not isinstance(all_cores, bool):
        raise InvalidField("spec.allCores", f"{shown(all_cores)} is not true or false")
    return desired_of(
        {
            "name": metadata["name"],
            "namespace": metadata.get("namespace"),
            "core_ids": [] if all_cores else spec.get("coreIds"),
            "all_cores": all_cores,
            "reserved_core_ids": spec.get("reservedCoreIds") if all_cores else [],
            "policy": spec.get("policy"),
            "cache": member(spec, "rdt", "cache") or spec.get("cache"),
            "mba": member(spec, "rdt", "mba"),
            "pstate": member(spec, "plugins", "pstate") or spec.get("pstate"),
        },
        "spec",
    )


def nodes_of(workload: Object, nodes: t.Iterable[Object], configs: t.Sequence[Object]) -> list[str]:
    """The nodes of an RmdWorkload: those it selects, else those it names.

    A selector is combined with that of RmdConfig; named nodes are independent of it.
    """
    spec = workload.get("spec") or {}
    selector = spec.get("nodeSelector") or {}
    if not selector:
        named = spec.get("nodes") or []
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            raise InvalidField("spec.nodes", f"{shown(named)} is not a list of names of nodes")
        return list(dict.fromkeys(named))
    wanted = dict(labels_of(selector, "spec.nodeSelector"))
    for config in configs:
        wanted.update((config.get("spec") or {}).get("rmdNodeSelector") or {})
    return _labelled(nodes, wanted)


def labels_of(value: t.Any, where: str) -> t.Mapping[str, str]:
    """Labels that select nodes; empty without any. Raises InvalidField."""
    labels = value or {}
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in labels.values()):
        raise InvalidField(where, f"{shown(value)} does not hold labels")
    return labels


def nodes_of_config(config: Object, nodes: t.Iterable[Object]) -> list[str]:
    """The nodes that an RmdConfig selects for daemons."""
    selector = (config.get("spec") or {}).get("rmdNodeSelector")
    return _labelled(nodes, selector or DEFAULT_SELECTOR)


def _labelled(nodes: t.Iterable[Object], labels: t.Mapping[str, str]) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in nodes
        if labels.items() <= (node["metadata"].get("labels") or {}).items()
    ]


def daemons_of(
    nodes: t.Iterable[Object],
    pods: t.Sequence[Object],
    endpoints: t.Mapping[str, str],
    namespace: str,
) -> dict[str, Daemon]:
    """The daemon of each node that has one, by ``endpoints``, else by its pod.

    Only pods of ``namespace`` count, because any user can set the label and owner references of a
    pod. An unreadable pod with a known node is a daemon without an endpoint.
    """
    names = {node["metadata"]["name"] for node in nodes}
    found: dict[str, Daemon] = {}
    for pod in pods:
        node = member(pod, "spec", "nodeName")
        if not isinstance(node, str) or node not in names:
            continue
        if subject_of(pod, "Pod").namespace != namespace:
            continue
        if node not in found or not found[node].endpoint:
            read = guarded(subject_of(pod, "Pod"), functools.partial(_daemon_of_pod, node, pod))
            if isinstance(read, Finding):
                read = Daemon(node, problem=str(read))
            found[node] = read
    for node, endpoint in endpoints.items():
        if node in names:
            found[node] = Daemon(node, endpoint)
    return found


def _daemon_of_pod(node: str, pod: Object) -> Daemon:
    """Address and first port of a ready pod; port 8443 uses TLS."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    ready = any(
        item.get("type") == "Ready" and item.get("status") == "True"
        for item in status.get("conditions") or []
    )
    if not ready:
        return Daemon(node, problem=f"its pod {name} is not ready; check the pod's log")
    address = status.get("podIP") or member((status.get("podIPs") or [{}])[0], "ip")
    containers = pod["spec"].get("containers") or [{}]
    port = member((containers[0].get("ports") or [{}])[0], "containerPort")
    if not address or not port:
        return Daemon(node, problem=f"its pod {name} has no address or no port; give rmd_endpoints")
    host = _host(address)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port <= _MAX_PORT:
        raise InvalidField("spec.containers[0].ports[0]", f"{shown(port)} is no port")
    return Daemon(node, f"{'https' if port == TLS_PORT else 'http'}://{host}:{port}")


def _host(address: t.Any) -> str:
    """The host part of a URL for the address of a pod, which a kubelet reports."""
    try:
        parsed = ipaddress.ip_address(address if isinstance(address, str) else "")
    except ValueError:
        raise InvalidField("status.podIP", f"{shown(address)} is not an IP address") from None
    if parsed.is_multicast or parsed.is_unspecified or getattr(parsed, "scope_id", None):
        raise InvalidField("status.podIP", f"{shown(address)} is not an address of a pod")
    return f"[{parsed}]" if parsed.version == 6 else str(parsed)


def told_caches(state: Object) -> list[Object]:
    """The caches in an RmdNodeState; none if its daemon did not answer the last time."""
    lost = any(
        item.get("type") == "Reachable" and item.get("status") != "True"
        for item in objects(member(state, "status", "conditions"))
    )
    return [] if lost else objects(member(state, "status", "caches"))


def managed_of(state: Object | None) -> list[str]:
    """The uuids of workloads on a node that were made for RmdWorkloads."""
    managed = member(state, "status", "managed") or []
    if not isinstance(managed, list) or not all(isinstance(uuid, str) for uuid in managed):
        raise InvalidField("status.managed", f"{shown(managed)} is not a list of texts")
    return managed


def known_of(state: Object | None) -> list[FormerWorkload]:
    """Our workloads on a node's daemon at its last answer."""
    shown = member(state, "status", "workloads") or {}
    found: list[FormerWorkload] = []
    for uuid in managed_of(state):
        entry = shown.get(uuid) or {}
        most, least = number(entry.get("Cache Max")), number(entry.get("Cache Min"))
        core_ids = tuple(filter(None, (entry.get("Core IDs") or "").split(",")))
        if core_ids and most is not None and least is not None:
            found.append(FormerWorkload(uuid, core_ids, (int(most), int(least))))
    return found


def name_of(obj: Object) -> str:
    """The name of an object. Raises InvalidField for an unusable one."""
    return _name(obj["metadata"].get("name"), "metadata.name")


def identity_of(obj: Object) -> tuple[str, str]:
    """Namespace and name of an object. Raises InvalidField for an unusable one."""
    given = obj["metadata"].get("namespace")
    namespace = DEFAULT_NAMESPACE if given in (None, "") else _name(given, "metadata.namespace")
    return namespace, name_of(obj)


def key_of(obj: Object) -> str:
    """``namespace/name`` of an object. Raises InvalidField for an unusable one."""
    return "/".join(identity_of(obj))


def _name(value: t.Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidField(where, f"{shown(value)} is not a name")
    return value


_PATH = "/apis/intel.com/v1alpha1"


def trim_daemon(pod: MutableObject) -> MutableObject:
    """Address and readiness of the daemon in a pod."""
    status = pod.get("status", {})
    containers = [
        selected_fields(container, "name", "ports")
        for container in pod["spec"].get("containers") or []
    ]
    return identified(
        pod,
        spec={**selected_fields(pod["spec"], "nodeName", "hostNetwork"), "containers": containers},
        status=selected_fields(status, "phase", "podIP", "podIPs", "conditions"),
    )


RMD_WORKLOADS = Source((f"{_PATH}/rmdworkloads",), trim_custom, {}, optional=True)
RMD_NODE_STATES = Source((f"{_PATH}/rmdnodestates",), trim_custom, {}, optional=True)
RMD_CONFIGS = Source((f"{_PATH}/rmdconfigs",), trim_custom, {}, optional=True)
# Upstream label of the daemons' pods.
RMD_PODS = Source(("/api/v1/pods",), trim_daemon, {"labelSelector": "name=rmd-pod"}, optional=False)
