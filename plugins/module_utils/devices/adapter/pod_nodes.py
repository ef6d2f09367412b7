# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods that wait for devices: the nodes with room for them, and the binding to a node.

A pod waits for this run in two cases. A pod with our ``schedulerName`` is bound. A pod with our
gate (``spec.schedulingGates``) gets its node affinity narrowed to the node and its gate removed in
one write, because the affinity of a pod may be narrowed only while it is gated; its own scheduler
then binds it. A pod that has a node already gets its devices there. Any other pod is skipped,
because its scheduler ignores our reservations and may choose any node.
"""

from __future__ import annotations

import copy
import typing as t
from dataclasses import dataclass, field, replace

from ...base.context import Context
from ...base.errors import ApiError
from ...base.json_types import MutableObject
from ...bind.bind_time_check import CURRENT_LOADS
from ...bind.binding import Outcome, bind_all
from ...bind.volume_binding import VOLUME_TIMEOUT
from ...kube.client import MERGE_CONTENT_TYPE, Kube
from ...scheduling.anti_affinity import RunningAntiAffinity
from ...scheduling.feasibility import obstacle, shortages
from ...scheduling.intake import Intake, has_node
from ...scheduling.model import Node, Shape
from ...scheduling.node_reader import Occupancy, occupancies, read_node
from ...scheduling.plan import Placement
from ...scheduling.pod_fields import DEVICE_CLAIMS_ANNOTATION, POD_GROUP_LABEL, VOLUME_FIELDS
from ...scheduling.pod_reader import identity, is_pending, read_pod
from ..model.findings import ApiObject, Defect, Findings, Key
from ..model.model import Unit
from ..model.task import Task
from .cluster import Pods, Report

NOT_OURS = (
    "nobody keeps the pod from being scheduled without its devices; give it the schedulerName "
    "{scheduler_name} or the scheduling gate {gate}"
)
NOT_PLANNED = "node(s) were not planned for the pod's volumes"
NOT_WITHIN_LIMITS = "node(s) with a power limit were not planned for the pod"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Fields for the objects that this run handles.
_UNDERSTOOD = (
    DEVICE_CLAIMS_ANNOTATION,
    "spec.resourceClaims",
    "spec.containers.resources.claims",
    "spec.initContainers.resources.claims",
)


def trimmed(
    obj: MutableObject, kind: str, trim: t.Callable[[MutableObject], MutableObject]
) -> MutableObject:
    """A Node or Pod trimmed; unchanged if it cannot be read, because Room finds its defect."""
    given = {"apiVersion": "v1", "kind": kind, **obj}
    found = ApiObject(given).attempt(lambda _obj: trim(given))
    return given if isinstance(found, Defect) else found


def is_gated(pod: MutableObject, gate: str) -> bool:
    """Whether our gate is the only scheduling gate of the pod."""
    return [item["name"] for item in pod["spec"].get("schedulingGates") or []] == [gate]


def hindrance(pod: MutableObject, pods: Pods) -> str:
    """Why a pod must get no devices now; "" if it may."""
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return "the pod is being deleted"
    if spec.get("nodeName") or is_gated(pod, pods.gate):
        return ""
    if spec.get("schedulingGates"):
        return "the pod has other scheduling gates"
    if not is_pending(pod, pods.scheduler_name):
        return NOT_OURS.format(scheduler_name=pods.scheduler_name, gate=pods.gate)
    unsupported = [
        field
        for field in read_pod(pod, CURRENT_LOADS.assumption, frozenset()).shape.unsupported
        if field not in _UNDERSTOOD
        # Binding waits for volumes; a plan knows which nodes reach them.
        and not (field in VOLUME_FIELDS and identity(pod) in pods.planned)
    ]
    unsupported += _rules_between_pods(pod)
    return f"unsupported: {', '.join(unsupported)}" if unsupported else ""


def _rules_between_pods(pod: MutableObject) -> t.Iterator[str]:
    """Constraints of the pod on other pods, which binding alone does not know."""
    spec = pod["spec"]
    for name in ("podAffinity", "podAntiAffinity"):
        if ((spec.get("affinity") or {}).get(name) or {}).get(_REQUIRED):
            yield f"spec.affinity.{name}.{_REQUIRED}"
    spreading = spec.get("topologySpreadConstraints") or []
    if any(item.get("whenUnsatisfiable") == "DoNotSchedule" for item in spreading):
        yield "spec.topologySpreadConstraints with DoNotSchedule"
    if POD_GROUP_LABEL in (pod["metadata"].get("labels") or {}):
        yield f"the label {POD_GROUP_LABEL}"


def beyond_limits(key: Key, pods: Pods) -> dict[str, str]:
    """Reasons by the names of nodes that limits of power and heat keep from the pod.

    A plan knows the power of the pods that it places, so such a pod gets no other node with a limit
    in W. Pods with our gate are in no plan. Their own scheduler asks for limits when it binds them.
    """
    planned = pods.planned.get(key)
    if planned is None and is_gated(pods.by_key[key], pods.gate):
        return dict(pods.closed)
    others = {name: NOT_WITHIN_LIMITS for name in pods.limited if name != planned}
    return {**others, **pods.closed}


class Room:
    """Nodes that take each pod now, by all rules of binding.

    ``manifests`` are all nodes as they were read. ``findings`` are about nodes and pods that cannot
    be read. Such a node takes nothing.
    """

    def __init__(self, nodes: t.Sequence[MutableObject], pods: Pods) -> None:
        self.manifests = nodes
        intake = Intake()
        sound = intake.nodes(nodes)
        allocatable = {name: node.allocatable for name, node in sound.items()}
        on_nodes = [pod for pod in pods.by_key.values() if has_node(pod)]
        running = intake.running(on_nodes, allocatable)
        occupied = occupancies(running)
        self.findings = Findings(
            [Defect(one.subject, one.field, one.problem) for one in intake.findings]
        )
        self._pods = pods
        self._nodes = [
            replace(
                read_node(node.given, occupied.get(name, Occupancy()), CURRENT_LOADS, None),
                eligible=pods.scope is None or name in pods.scope.nodes,
            )
            for name, node in sound.items()
        ]
        self._by_shape: dict[Shape, dict[str, str]] = {}
        self._anti_affinity = RunningAntiAffinity(running, self.labels)

    @property
    def names(self) -> list[str]:
        """The names of all nodes."""
        return [node.name for node in self._nodes]

    @property
    def labels(self) -> dict[str, t.Mapping[str, str]]:
        """The labels of all nodes, by name."""
        return {node.name: node.labels for node in self._nodes}

    def why_not(self, key: Key) -> t.Mapping[str, str]:
        """Reasons in kube-scheduler's words, by the names of nodes that do not take the pod.

        No node takes an unreadable pod.
        """
        found = self.findings.read(ApiObject(self._pods.by_key[key]), self._why_not)
        if isinstance(found, Defect):
            return dict.fromkeys(self.names, f"node(s) had no room for what {found}")
        return found

    def _why_not(self, obj: ApiObject) -> t.Mapping[str, str]:
        pod = obj.manifest
        closed = self._anti_affinity.nodes_closed_to(pod)
        shape = read_pod(pod, CURRENT_LOADS.assumption, closed).shape
        if shape not in self._by_shape:
            reasons = {node.name: _reason(shape, node) for node in self._nodes}
            self._by_shape[shape] = {name: reason for name, reason in reasons.items() if reason}
        found = {**beyond_limits(obj.key, self._pods), **self._by_shape[shape]}
        planned = self._pods.planned.get(obj.key)
        if planned is None or VOLUME_FIELDS.isdisjoint(shape.unsupported):
            return found
        others = {name: NOT_PLANNED for name in self.names if name != planned}
        return {**others, **found}

    def nodes_for(self, pod: ApiObject) -> frozenset[str] | None:
        """The names of the nodes; None for a pod that has its node. Raises InvalidInput."""
        if pod.manifest["spec"].get("nodeName"):
            return None
        return frozenset(self.names).difference(self._why_not(pod))

    def restrict(self, task: Task) -> Task:
        """The task with every unit limited to nodes that take each of its pods."""

        def allowed(unit: Unit, pods: t.Sequence[Key]) -> frozenset[str] | None:
            nodes = unit.nodes
            for key in pods:
                room = self.findings.read(ApiObject(self._pods.by_key[key]), self.nodes_for)
                if isinstance(room, Defect):
                    room = frozenset()
                if room is not None:
                    nodes = room if nodes is None else nodes & room
            return nodes

        return _with_nodes(task, allowed)


def _with_nodes(
    task: Task, nodes_of: t.Callable[[Unit, t.Sequence[Key]], frozenset[str] | None]
) -> Task:
    """The task with other nodes of its units, by the unit and its pods."""
    instance = task.instance
    units = [
        replace(unit, nodes=nodes_of(unit, pods)) for unit, pods in zip(instance.units, task.pods)
    ]
    return replace(task, instance=replace(instance, units=tuple(units)))


def prefer(task: Task, planned: t.Mapping[Key, str], *, only: bool = False) -> Task:
    """The task with units limited to the planned node of their pods, where they may be there.

    With ``only`` a unit that may not be there, or whose pods have several planned nodes, has none.
    """

    def preferred(unit: Unit, pods: t.Sequence[Key]) -> frozenset[str] | None:
        wanted = frozenset(planned[key] for key in pods if key in planned)
        if not wanted or (only and unit.nodes is None):
            return unit.nodes
        fits = len(wanted) == 1 and (unit.nodes is None or wanted <= unit.nodes)
        return wanted if fits else frozenset() if only else unit.nodes

    return _with_nodes(task, preferred)


def _reason(shape: Shape, node: Node) -> str:
    return obstacle(shape.constraints, node) or ", ".join(shortages(shape.requests, node.free))


@dataclass
class SendOutcome:
    """Pods that certainly were not bound.

    Subsets are ``skipped``, pods for which another attempt may help, and ``reasons``, pods whose
    condition gets the reason.
    """

    report: Report
    refused: list[Key] = field(default_factory=list)
    skipped: list[Key] = field(default_factory=list)
    reasons: dict[Key, str] = field(default_factory=dict)

    def refuse(self, key: Key, reason: str) -> None:
        """The pod was not bound and will not be."""
        self.report.refuse("Pod", key, reason)
        self.refused.append(key)

    def take(self, outcome: Outcome) -> None:
        """Outcome of one binding."""
        key = outcome.placement.namespace, outcome.placement.pod
        if outcome.fate == "bound":
            self.report.change("bound", "Pod", key, after=f"on node {outcome.placement.node}")
        elif outcome.fate == "skipped":
            self.refuse(key, outcome.reason)
            # Another attempt would wait for the same volumes again.
            if outcome.is_told:
                self.reasons[key] = outcome.reason
            else:
                self.skipped.append(key)
        elif outcome.fate == "failed":
            # An answer may be lost while the binding took effect, so the devices stay the pod's.
            self.report.refuse("Pod", key, outcome.reason)


def send_to_nodes(
    kube: Kube,
    context: Context,
    report: Report,
    pods: Pods,
    nodes: t.Mapping[Key, str],
    volume_timeout: float = VOLUME_TIMEOUT,
) -> SendOutcome:
    """Bind or pin pods; pods that have their node already are left as they are."""
    sent = SendOutcome(report)
    placements: list[Placement] = []
    for key, node in nodes.items():
        pod = pods.by_key[key]
        if pod["spec"].get("nodeName"):
            continue
        if not is_gated(pod, pods.gate):
            placements.append(Placement(*key, node, pod["metadata"]["uid"]))
            continue
        try:
            _pin(kube, context, pod, node, pods.gate)
            report.change("pinned", "Pod", key, after=f"on node {node}")
        except ApiError as error:
            if error.status in (404, 409, 422):
                sent.refuse(key, str(error))
            else:
                report.refuse("Pod", key, str(error))
    outcomes = bind_all(kube, context, placements, have_devices=True, volume_timeout=volume_timeout)
    for outcome in outcomes:
        sent.take(outcome)
    return sent


def _pin(kube: Kube, context: Context, pod: MutableObject, node: str, gate: str) -> None:
    """Narrow the node affinity and open the gate, in one write. Raises ApiError."""
    if context.check_mode:
        return
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    affinity = narrowed((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}, node)
    gates = [item for item in pod["spec"]["schedulingGates"] if item["name"] != gate]
    body = {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        "spec": {"affinity": {"nodeAffinity": affinity}, "schedulingGates": gates},
    }
    kube.request("PATCH", path, body, MERGE_CONTENT_TYPE)


def narrowed(node_affinity: MutableObject, node: str) -> MutableObject:
    """The node affinity with the node's name in every term; terms are alternatives."""
    result = copy.deepcopy(node_affinity)
    required = result.setdefault(_REQUIRED, {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or []), field]} for term in terms
    ]
    return result
