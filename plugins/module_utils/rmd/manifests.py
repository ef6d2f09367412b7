# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The resources of rmd-operator, as they are in a cluster: what is wanted, where, of which daemon.

The shapes of v0.1.1 (``cache``, ``pstate``) and of v0.3 (``rdt``, ``plugins``) mean the same.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.loose_json import member, number
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.workload import (
    Desired,
    Known,
    desired_of,
)

Object = t.Mapping[str, t.Any]

API_VERSION = "intel.com/v1alpha1"
TLS_PORT = 8443
STATE_PREFIX = "rmd-node-state-"
# Node Feature Discovery's label, which upstream's manifests select.
DEFAULT_SELECTOR = {"feature.node.kubernetes.io/cpu-rdt.RDTL3CA": "true"}


@dataclass(frozen=True)
class Daemon:
    """A node's daemon; without an endpoint ``problem`` says why it cannot be asked."""

    node: str
    endpoint: str = ""
    problem: str = ""


def desired_of_manifest(workload: Object) -> Desired:
    """What an RmdWorkload wants. Raises InvalidInput, which names the object."""
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    all_cores = bool(spec.get("allCores"))
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
        f"RmdWorkload {metadata.get('namespace') or 'default'}/{metadata['name']}: spec",
    )


def nodes_of(workload: Object, nodes: t.Sequence[Object], configs: t.Sequence[Object]) -> list[str]:
    """The nodes that an RmdWorkload is for: those it selects, else those it names.

    A selector works together with that of RmdConfig; nodes that are named are beside it.
    """
    spec = workload.get("spec") or {}
    selector = spec.get("nodeSelector") or {}
    if not selector:
        return list(dict.fromkeys(spec.get("nodes") or ()))
    wanted = dict(selector)
    for config in configs:
        wanted.update((config.get("spec") or {}).get("rmdNodeSelector") or {})
    return _labelled(nodes, wanted)


def nodes_of_config(config: Object, nodes: t.Sequence[Object]) -> list[str]:
    """The nodes that an RmdConfig selects for daemons."""
    selector = (config.get("spec") or {}).get("rmdNodeSelector")
    return _labelled(nodes, selector or DEFAULT_SELECTOR)


def _labelled(nodes: t.Sequence[Object], labels: t.Mapping[str, str]) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in nodes
        if labels.items() <= (node["metadata"].get("labels") or {}).items()
    ]


def daemons_of(
    nodes: t.Sequence[Object],
    pods: t.Sequence[Object],
    endpoints: t.Mapping[str, str],
    namespace: str,
) -> dict[str, Daemon]:
    """The daemon of each node that has one: as ``endpoints`` say, else by its pod.

    Only pods of ``namespace`` count: anybody may give a pod the label, and its owner references.
    """
    names = {node["metadata"]["name"] for node in nodes}
    found: dict[str, Daemon] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if pod["metadata"].get("namespace") != namespace:
            continue
        if node in names and (node not in found or not found[node].endpoint):
            found[node] = _daemon_of_pod(node, pod)
    for node, endpoint in endpoints.items():
        if node in names:
            found[node] = Daemon(node, endpoint)
    return found


def _daemon_of_pod(node: str, pod: Object) -> Daemon:
    """Address and first port of a pod that is ready; port 8443 speaks TLS."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    ready = any(
        item.get("type") == "Ready" and item.get("status") == "True"
        for item in status.get("conditions") or []
    )
    if not ready:
        return Daemon(node, problem=f"its pod {name} is not ready; look at the pod's log")
    address = status.get("podIP") or member((status.get("podIPs") or [{}])[0], "ip")
    containers = pod["spec"].get("containers") or [{}]
    port = member((containers[0].get("ports") or [{}])[0], "containerPort")
    if not address or not port:
        return Daemon(node, problem=f"its pod {name} has no address or no port; give rmd_endpoints")
    host = f"[{address}]" if ":" in address else address
    return Daemon(node, f"{'https' if port == TLS_PORT else 'http'}://{host}:{port}")


def told_caches(state: Object) -> list[Object]:
    """The caches in an RmdNodeState; none where its daemon did not answer when last asked."""
    status = state.get("status") or {}
    lost = any(
        item.get("type") == "Reachable" and item.get("status") != "True"
        for item in status.get("conditions") or []
    )
    return [] if lost else list(status.get("caches") or [])


def managed_of(state: Object | None) -> list[str]:
    """The uuids of workloads on a node that were made for RmdWorkloads."""
    return list(member(state, "status", "managed") or ())


def known_of(state: Object | None) -> list[Known]:
    """Workloads of ours that a node's daemon had when it was last asked."""
    shown = member(state, "status", "workloads") or {}
    found: list[Known] = []
    for uuid in managed_of(state):
        entry = shown.get(uuid) or {}
        most, least = number(entry.get("Cache Max")), number(entry.get("Cache Min"))
        core_ids = tuple(filter(None, (entry.get("Core IDs") or "").split(",")))
        if core_ids and most is not None and least is not None:
            found.append(Known(uuid, core_ids, (int(most), int(least))))
    return found


def readable(workloads: t.Sequence[Object]) -> tuple[dict[str, Desired], dict[str, str]]:
    """What RmdWorkloads want, and why some cannot be understood, by ``namespace/name``."""
    desired: dict[str, Desired] = {}
    problems: dict[str, str] = {}
    for workload in workloads:
        try:
            desired[key_of(workload)] = desired_of_manifest(workload)
        except InvalidInput as error:
            problems[key_of(workload)] = str(error)
    return desired, problems


def key_of(workload: Object) -> str:
    """``namespace/name`` of an object."""
    metadata = workload["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
