# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as one run sees it: lists that were just read, and one view of each machine."""

from __future__ import annotations

import functools
import time
import typing as t
from dataclasses import dataclass, field

from ...base.boundary import Finding, Subject, guarded, subject_of
from ...base.errors import ApiError
from ...base.fields.lenient import member, objects, text
from ...base.json_types import MutableObject, Object
from ...base.units import parse_time
from ...kube.client import Kube
from ...kube.source import read_source
from ...snapshot.snapshot import SOURCES
from ..machine import Phase
from .bmcs import Power
from .guards import Peers, is_ready
from .lifecycle import NodeView
from .node_changes import TAINT, is_cordoned, is_excluded
from .record import NodeRecord, is_held, read_record

# A kubelet that answers so long after a phase began has surely answered since.
_LONG_AGO_SECONDS = 300.0
_PARTS = ("nodes", "pods", "pod_disruption_budgets")
_AUTOSCALER = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
_NODE_HEALTH_CHECKS = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
_MACHINE_HEALTH_CHECKS = (
    "/apis/cluster.x-k8s.io/v1beta1/machinehealthchecks",
    "/apis/machine.openshift.io/v1beta1/machinehealthchecks",
)
_ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"


@dataclass(frozen=True)
class Lists:
    """Nodes by name, pods, budgets, and the seconds that reading them took."""

    nodes: t.Mapping[str, MutableObject]
    parts: t.Mapping[str, list[MutableObject]]
    seconds: float = 0.0

    @property
    def pods(self) -> list[MutableObject]:
        return self.parts["pods"]


def read_lists(kube: Kube) -> Lists:
    """All three lists, concurrently. Raises ApiError for an incomplete one."""
    began = time.monotonic()
    found = kube.in_parallel(lambda part: read_source(kube, SOURCES[part], None)[0], _PARTS, 3)
    parts = dict(zip(_PARTS, found))
    nodes = {text(member(node, "metadata", "name")): node for node in parts["nodes"]}
    return Lists(nodes, parts, time.monotonic() - began)


def read_peers(kube: Kube) -> Peers:
    """Programs in the cluster that would undo a sleep. Raises ApiError."""
    checks = _optional(kube, _NODE_HEALTH_CHECKS)
    running = [
        text(member(one, "metadata", "name"))
        for one in checks
        if not member(one, "spec", "pauseRequests")
    ]
    return Peers(
        kube.find(_AUTOSCALER) is not None,
        tuple(sorted(running)),
        any(_optional(kube, path) for path in _MACHINE_HEALTH_CHECKS),
    )


def nodes_with_volumes(kube: Kube) -> set[str]:
    """Nodes to which volumes are attached. Raises ApiError."""
    found = _optional(kube, _ATTACHMENTS)
    return {
        text(member(one, "spec", "nodeName")) for one in found if member(one, "status", "attached")
    }


def _optional(kube: Kube, path: str) -> list[MutableObject]:
    """A list that the cluster may not serve, or not show to this account."""
    try:
        return kube.list(path)
    except ApiError as error:
        if error.status in (403, 404):
            return []
        raise


@dataclass
class Records:
    """The records of all Nodes, and findings about those that cannot be read."""

    records: dict[str, NodeRecord] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, nodes: t.Mapping[str, Object], now: float) -> Records:
        """An unreadable record counts as none, and its machine is kept as it is.

        A kubelet may write the annotation of its Node, but not the taint. So a record counts only
        with the taint of its phase. A Node with one of both counts as asleep, which switches
        nothing off: it is awake if it is ready, and can be woken.
        """
        found = cls()
        for name, node in nodes.items():
            read = guarded(Subject("Node", name), functools.partial(read_record, node, now))
            if isinstance(read, Finding):
                found.findings.append(read)
                found.unreadable.add(name)
                read = None
            told = tainted_phase(node)
            if read is None and told is not None:
                read = NodeRecord(Phase.ASLEEP, now - _LONG_AGO_SECONDS, "", True, True)
                found.unreadable.discard(name)
            elif read is not None and read.phase.value != told:
                read = NodeRecord(Phase.ASLEEP, now - _LONG_AGO_SECONDS, "")
            if read is not None:
                found.records[name] = read
        return found

    def view(self, node: Object, power: Power, pods: t.Sequence[str], blocked: str) -> NodeView:
        """One machine, with the pods that must leave it and the reason not to switch it off."""
        name = text(member(node, "metadata", "name"))
        return NodeView(
            name,
            self.records.get(name),
            is_ready(node),
            _answered_at(node),
            power.state,
            tuple(pods),
            is_held(node) or name in self.unreadable,
            blocked,
            is_cordoned(node),
            is_excluded(node),
        )


def pods_to_leave(pods: t.Iterable[Object]) -> dict[str, list[str]]:
    """Pods by node that must leave before the machine is switched off."""
    return {node: [str(one) for one in its.values()] for node, its in leaving_pods(pods).items()}


def leaving_pods(pods: t.Iterable[Object]) -> dict[str, dict[str, Subject]]:
    """Pods by node and uid that must leave before the machine is switched off.

    Daemons and static pods end with their machine, and come back with it. An unreadable pod stays.
    """
    found: dict[str, dict[str, Subject]] = {}
    for pod in pods:
        node = text(member(pod, "spec", "nodeName"))
        if node and member(pod, "status", "phase") not in ("Succeeded", "Failed"):
            owners = objects(member(pod, "metadata", "ownerReferences"))
            kinds = {one.get("kind") for one in owners if one.get("controller")}
            if not kinds & {"DaemonSet", "Node"}:
                subject = subject_of(pod, "Pod")
                uid = text(member(pod, "metadata", "uid")) or str(subject)
                found.setdefault(node, {})[uid] = subject
    return found


def tainted_phase(node: Object) -> str | None:
    """The value of our taint; None without it."""
    taints = objects(member(node, "spec", "taints"))
    return next((str(one.get("value")) for one in taints if one.get("key") == TAINT), None)


def _answered_at(node: Object) -> float:
    """The last heartbeat or change of the condition Ready; 0 if unknown."""
    conditions = objects(member(node, "status", "conditions"))
    ready = next((one for one in conditions if one.get("type") == "Ready"), {})
    given = [ready.get("lastHeartbeatTime"), ready.get("lastTransitionTime")]
    found = [guarded(Subject("Node", ""), functools.partial(_seconds, one)) for one in given]
    return max((one for one in found if isinstance(one, float)), default=0.0)


def _seconds(given: t.Any) -> float:
    return parse_time(given).timestamp()
