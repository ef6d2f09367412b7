# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Feasible nodes of a pod, by the rules and in the words of kube-scheduler's filters.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/ and the pages below it.
"""

from __future__ import annotations

import typing as t

from .model import Constraints, DiskUse, HostPort, Node, Quantities, Taint, Toleration

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
UNSCHEDULABLE = "node(s) were unschedulable"
NOT_READY = "node(s) were not ready"
NOT_ELIGIBLE = "node(s) didn't belong to the pod's fleet"
NO_CURVE = "node(s) had no power curve"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
CLAIM_ELSEWHERE = "resourceclaim not available on the node"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
DISK_TAKEN = "node(s) had no available disk"
TOO_MANY_VOLUMES = "node(s) exceed max volume count"
VOLUME_ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_STORAGE = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
VOLUME_ZONE = "node(s) had no available volume zone"
ATTACHABLE_VOLUMES = "attachable volumes of "
EVERY_ADDRESS = "0.0.0.0"
_REPELLING_EFFECTS = ("NoSchedule", "NoExecute")


def obstacle(constraints: Constraints, node: Node) -> str | None:
    """Why the pod may not run on the node, apart from resources; None if it may.

    PreferNoSchedule is a preference and excludes nothing.
    """
    if not node.eligible:
        return NOT_ELIGIBLE
    if node.unschedulable and not _tolerated(UNSCHEDULABLE_TAINT, constraints.tolerations):
        return UNSCHEDULABLE
    if constraints.node_name not in ("", node.name):
        return "node(s) didn't match the requested node name"
    for taint in node.taints:
        if taint.effect in _REPELLING_EFFECTS and not _tolerated(taint, constraints.tolerations):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    if not node.ready:
        return NOT_READY
    if not is_selected(constraints, node):
        return "node(s) didn't match Pod's node affinity/selector"
    if any(
        in_each_others_way(port, taken)
        for port in constraints.ports
        for taken in node.ports_by_number.get(port[:2], ())
    ):
        return PORTS_TAKEN
    if constraints.device_nodes is not None and node.name not in constraints.device_nodes:
        return CLAIM_ELSEWHERE
    if node.name in constraints.anti_affinity_nodes:
        return "node(s) didn't satisfy existing pods anti-affinity rules"
    return next(iter(volume_obstacles(constraints, node)), None)


def volume_obstacles(constraints: Constraints, node: Node) -> list[str]:
    """Why the pod's volumes exclude the node: the reasons of the first filter that rejects."""
    if any(are_apart(disk, taken) for disk in constraints.disks for taken in node.disks):
        return [DISK_TAKEN]
    missed = [
        demand.reason
        for demand in constraints.volumes
        if not any(term.admits(node.name, node.labels) for term in demand.terms)
    ]
    if NO_VOLUME in missed:
        # The first one ends the filter.
        missed = [reason for reason in missed if reason != NO_STORAGE]
    first = min(map(_filter_of, missed), default=0)
    return list(dict.fromkeys(reason for reason in missed if _filter_of(reason) == first))


def _filter_of(reason: str) -> int:
    """The position of a reason's filter in kube-scheduler's order."""
    return {CLAIM_IN_USE: 0, VOLUME_ZONE: 2}.get(reason, 1)


def shortages(requests: t.Iterable[tuple[str, int]], free: Quantities) -> list[str]:
    """Resources that the node lacks; a request of 0 always fits."""
    missing = [name for name, amount in requests if amount > 0 and amount > free.get(name, 0)]
    return list(dict.fromkeys(_shortage(name) for name in missing))


def _shortage(resource: str) -> str:
    if resource.startswith(ATTACHABLE_VOLUMES):
        return TOO_MANY_VOLUMES
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}"


def in_each_others_way(first: HostPort, second: HostPort) -> bool:
    """Whether two host ports conflict."""
    return first[:2] == second[:2] and (
        first.address == second.address or EVERY_ADDRESS in (first.address, second.address)
    )


def are_apart(first: DiskUse, second: DiskUse) -> bool:
    """Whether pods with these disks cannot be on one node."""
    return first.disk == second.disk and (first.alone or second.alone)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration matches the taint."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    # An empty key stands for all keys only with Exists.
    return toleration.key == taint.key and toleration.value == taint.value


def _tolerated(taint: Taint, tolerations: t.Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def is_tolerated(constraints: Constraints, node: Node) -> bool:
    """Whether no taint of the node repels the pod."""
    return all(
        _tolerated(taint, constraints.tolerations)
        for taint in node.taints
        if taint.effect in _REPELLING_EFFECTS
    )


def is_selected(constraints: Constraints, node: Node) -> bool:
    """Whether the pod's node selector and required node affinity allow the node."""
    if any(node.labels.get(key) != value for key, value in constraints.node_selector):
        return False
    terms = constraints.node_terms
    return terms is None or any(term.admits(node.name, node.labels) for term in terms)


def availability_message(reasons: t.Mapping[str, int], nodes: int) -> str:
    """The sentence why none of the nodes takes a pod, in kube-scheduler's words."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {listed}."
