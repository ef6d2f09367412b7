# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as one run sees it: lists that were just read, and one view of each machine."""

from __future__ import annotations

import functools
import time
import typing as t
from dataclasses import dataclass, field, replace

from ...base.boundary import Finding, Subject, guarded, shown_text, subject_of
from ...base.errors import ApiError
from ...base.fields.lenient import member, objects, text
from ...base.json_types import MutableObject, Object
from ...base.units import parse_time
from ...kube.client import Kube
from ...kube.source import read_source, trim_node
from ...scheduling.scope import Scope
from ...snapshot.snapshot import SOURCES
from ..machine import Phase
from .bmcs import Power
from .guards import Peers, is_ready
from .lifecycle import NodeView
from .node_changes import TAINT, is_cordoned, is_detached, is_excluded, path_of
from .record import ANNOTATION, PAUSES, NodeRecord, is_held, read_record

# A kubelet that answers so long after a phase began has surely answered since.
_LONG_AGO_SECONDS = 300.0
_PARTS = ("nodes", "pods", "pod_disruption_budgets")
_AUTOSCALER = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
_NODE_HEALTH_CHECKS = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
# By the annotation in which a Node names its Machine.
_MACHINE_HEALTH_CHECKS = {
    "cluster.x-k8s.io/machine": ("cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"),
    "machine.openshift.io/machine": ("machine.openshift.io/v1beta1",),
}
_PAUSED = "cluster.x-k8s.io/paused"
_CORDON_STAYS = "a cordon stays after the wake, use kubectl uncordon"
_NOT_TAINTED = "it is taken away if the Node is ready"
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

    def nodes_of(self, scope: Scope | None) -> dict[str, MutableObject]:
        """The Nodes of a part of the cluster."""
        nodes = self.nodes
        return {name: one for name, one in nodes.items() if scope is None or name in scope.nodes}

    def pods_of(self, scope: Scope | None) -> list[MutableObject]:
        """The pods of a part of the cluster."""
        return [pod for pod in self.pods if scope is None or scope.has_pod(pod)]


def read_lists(kube: Kube) -> Lists:
    """All three lists, concurrently. Raises ApiError for an incomplete one."""
    began = time.monotonic()
    found = kube.in_parallel(lambda part: read_source(kube, SOURCES[part], None)[0], _PARTS, 3)
    parts = dict(zip(_PARTS, found))
    nodes = {text(member(node, "metadata", "name")): node for node in parts["nodes"]}
    return Lists(nodes, parts, time.monotonic() - began)


def with_nodes_again(kube: Kube, lists: Lists, names: t.Sequence[str]) -> Lists:
    """The lists with these Nodes as they are now; a deleted one is gone. Raises ApiError."""
    nodes = dict(lists.nodes)
    found = kube.in_parallel(lambda name: kube.find(path_of(nodes[name])), names)
    for name, node in zip(names, found):
        if node is None:
            del nodes[name]
        else:
            nodes[name] = trim_node(node)
    return replace(lists, nodes=nodes)


def read_peers(kube: Kube) -> Peers:
    """Programs in the cluster that would undo a sleep. Raises ApiError."""
    checks = _optional(kube, _NODE_HEALTH_CHECKS) or []
    return Peers(
        kube.find(_AUTOSCALER) is not None,
        any(not member(one, "spec", "pauseRequests") for one in checks),
        frozenset(name for name, apis in _MACHINE_HEALTH_CHECKS.items() if _may_run(kube, apis)),
    )


def _may_run(kube: Kube, apis: t.Sequence[str]) -> bool:
    """Whether a MachineHealthCheck runs here, or in another cluster, which manages this one."""
    for api in apis:
        checks = _optional(kube, f"/apis/{api}/machinehealthchecks")
        if checks is not None:
            return any(member(one, "metadata", "annotations", _PAUSED) is None for one in checks)
    return True


def sleepers_with_volumes(
    kube: Kube, nodes: t.Mapping[str, Object], records: t.Mapping[str, NodeRecord]
) -> set[str]:
    """Nodes of sleeping machines to which volumes are attached, unless they are detached already.

    Raises ApiError.
    """
    asleep = {
        name
        for name, one in records.items()
        if one.phase is Phase.ASLEEP and not is_detached(nodes[name])
    }
    if not asleep:
        return set()
    found = _optional(kube, _ATTACHMENTS) or []
    return asleep.intersection(
        text(member(one, "spec", "nodeName")) for one in found if member(one, "status", "attached")
    )


def _optional(kube: Kube, path: str) -> list[MutableObject] | None:
    """A list; None if the cluster does not serve it, or not to this account."""
    try:
        return kube.list(path)
    except ApiError as error:
        if error.status in (403, 404):
            return None
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
        nothing off: it is awake if it is ready, and can be woken. Whose cordon it has is unknown
        then, so that the cordon stays.
        """
        found = cls()
        for name, node in nodes.items():
            read = guarded(Subject("Node", name), functools.partial(read_record, node, now))
            if isinstance(read, Finding):
                found.findings.append(read)
                found.unreadable.add(name)
                read = None
            told = tainted_phase(node)
            if told is not None and (read is None or read.phase.value != told):
                if name not in found.unreadable:
                    found.findings.append(_disagreeing(name, _CORDON_STAYS))
                found.unreadable.discard(name)
                read = NodeRecord(
                    Phase.ASLEEP,
                    now - _LONG_AGO_SECONDS,
                    "",
                    excluded=True,
                    paused=tuple(PAUSES),
                )
            elif told is None and read is not None:
                found.findings.append(_disagreeing(name, _NOT_TAINTED))
                read = NodeRecord(Phase.ASLEEP, now - _LONG_AGO_SECONDS, "")
            if read is not None:
                found.records[name] = read
        return found

    def view(
        self, node: Object, power: Power, pods: t.Sequence[str], blocked: str, **more: t.Any
    ) -> NodeView:
        """One machine, with the pods that must leave it and the reason not to switch it off.

        ``more`` are further fields of the view.
        """
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
            **more,
        )


def read_pods_to_leave(kube: Kube, names: t.Sequence[str]) -> list[list[str] | Finding]:
    """For each node the pods that must leave it at this moment, or why that is unknown.

    An unreadable pod counts as one that must leave.
    """

    def read(name: str) -> list[str] | Finding:
        source = SOURCES["pods"]
        chosen = f"spec.nodeName={name},{source.query['fieldSelector']}"
        query = {**source.query, "fieldSelector": chosen}
        try:
            pods, findings = read_source(kube, source._replace(query=query), None)
        except ApiError as error:
            told = f"its pods could not be listed, so it was not switched off: {error}"
            return Finding(Subject("Node", name), "", shown_text(told))
        return pods_to_leave(pods).get(name, []) + [str(one.subject) for one in findings]

    return kube.in_parallel(read, names)


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


def _disagreeing(name: str, consequence: str) -> Finding:
    problem = f"it is not the state of the taint; {consequence}"
    return Finding(Subject("Node", name), f"metadata.annotations[{ANNOTATION}]", problem)


def tainted_phase(node: Object) -> str | None:
    """The value of our taint; None without it."""
    taints = objects(member(node, "spec", "taints"))
    return next((str(one.get("value")) for one in taints if one.get("key") == TAINT), None)


def unready_share(nodes: t.Iterable[Object]) -> float:
    """Share of the Nodes without our taint that are not ready; those of other fleets sleep, too."""
    awake = [node for node in nodes if tainted_phase(node) is None]
    return sum(not is_ready(node) for node in awake) / max(1, len(awake))


def _answered_at(node: Object) -> float:
    """The last heartbeat or change of the condition Ready; 0 if unknown."""
    conditions = objects(member(node, "status", "conditions"))
    ready = next((one for one in conditions if one.get("type") == "Ready"), {})
    given = [ready.get("lastHeartbeatTime"), ready.get("lastTransitionTime")]
    found = [guarded(Subject("Node", ""), functools.partial(_seconds, one)) for one in given]
    return max((one for one in found if isinstance(one, float)), default=0.0)


def _seconds(given: t.Any) -> float:
    return parse_time(given).timestamp()
