# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Bind-time check of a node."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ..base.boundary import Finding, InvalidField
from ..base.json_types import MutableObject
from ..kube.client import Kube
from ..kube.source import without_bulk
from ..scheduling.feasibility import NOT_READY, UNSCHEDULABLE, obstacle, shortages
from ..scheduling.intake import Intake
from ..scheduling.model import Node, Shape
from ..scheduling.node_reader import Loads, Occupancy, occupancies, read_node
from ..scheduling.nominated_pods import (
    ExistingAntiAffinity,
    NominatedPod,
    has_nomination,
    with_promises,
)
from ..scheduling.peers import Namespaces
from ..scheduling.pod_reader import priority_of, read_pod

# Only requests count for binding.
CURRENT_LOADS = Loads("requests", Decimal(1), {})
_NOMINATED = {"fieldSelector": "spec.nodeName=,status.nominatedNodeName!="}


def nominated_pods(kube: Kube) -> list[NominatedPod]:
    """The pods of other schedulers that wait for a node which is chosen. Raises ApiError."""
    found = kube.list("/api/v1/pods", _NOMINATED, without_bulk)
    return Intake().nominated(pod for pod in found if has_nomination(pod))


@dataclass
class OpenNode:
    """A node as just read, with the pods bound to it since."""

    node: Node
    anti_affinity: ExistingAntiAffinity
    pods: list[t.Mapping[str, t.Any]] = field(default_factory=list)
    # The last checked pod, so that check and binding parse it only once.
    _last: tuple[MutableObject, Shape] | None = None

    @classmethod
    def read(
        cls,
        kube: Kube,
        name: str,
        nominated: t.Sequence[NominatedPod],
        without: t.Collection[str] = (),
    ) -> OpenNode | None:
        """The node with these nominated pods, without the pods of these uids; None if it is gone.

        Raises ApiError, and InvalidField.
        """
        given = kube.find(f"/api/v1/nodes/{name}")
        if given is None:
            return None
        selector = f"spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed"
        refused: list[Finding] = []
        query = {"fieldSelector": selector}
        listed = kube.list("/api/v1/pods", query, without_bulk, refused.append)
        if refused:
            # Nothing says how much of the node it takes.
            raise InvalidField("pods", str(refused[0]))
        pods = [pod for pod in listed if pod["metadata"]["uid"] not in without]
        return cls.of(given, name, pods, nominated)

    @classmethod
    def of(
        cls,
        given: MutableObject,
        name: str,
        pods: t.Sequence[MutableObject],
        nominated: t.Sequence[NominatedPod] = (),
    ) -> OpenNode:
        """The node with these pods on it, or nominated for it. Raises InvalidField."""
        allocatable = read_node(given, Occupancy(), CURRENT_LOADS, None).allocatable
        running = Intake().running(pods, {name: allocatable})
        occupancy = occupancies(running).get(name, Occupancy())
        there = {pod["metadata"].get("uid") for pod in running}
        waiting = [pod for pod in nominated if pod.given["metadata"].get("uid") not in there]
        node = with_promises(read_node(given, occupancy, CURRENT_LOADS, None), waiting)
        anti_affinity = ExistingAntiAffinity(running, waiting, {name: node.labels}, Namespaces())
        return cls(node, anti_affinity, running)

    def refusal(self, pod: MutableObject) -> str | None:
        """Reason why the node does not accept the pod now; None if it does."""
        shape, name = self._shape_of(pod), self.node.name
        node = self.node.seen_by(shape.priority)
        reason = obstacle(shape.constraints, node)
        if reason == UNSCHEDULABLE:
            return f"node {name} is cordoned"
        if reason == NOT_READY:
            return f"node {name} is not ready"
        if reason is not None:
            return reason.replace("node(s)", f"node {name}")
        missing = shortages(shape.requests, node.free)
        return f"node {name} is full: {', '.join(missing)}" if missing else None

    def take(self, pod: MutableObject) -> None:
        """Count the pod as bound to the node."""
        shape, free = self._shape_of(pod), dict(self.node.free)
        for name, amount in shape.requests:
            free[name] = free.get(name, 0) - amount
        ports = self.node.ports | set(shape.constraints.ports)
        disks = self.node.disks | set(shape.constraints.disks)
        self.node = replace(self.node, free=free, ports=ports, disks=disks)
        self.pods.append({**pod, "spec": {**pod["spec"], "nodeName": self.node.name}})

    def _shape_of(self, pod: MutableObject) -> Shape:
        """The pod in the form of a waiting one, even if it runs on another node."""
        if self._last is not None and self._last[0] is pod:
            return self._last[1]
        unbound = {**pod, "spec": {**pod["spec"], "nodeName": ""}}
        closed = self.anti_affinity.nodes_closed_to(pod, priority_of(pod["spec"]))
        shape = read_pod(unbound, CURRENT_LOADS.assumption, closed).shape
        self._last = (pod, shape)
        return shape
