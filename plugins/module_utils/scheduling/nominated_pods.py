# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods that kube-scheduler has nominated for a node, where they wait for evicted pods to end.

A nominated pod counts on its node for pods of the same and of lower priority. Filters must accept
such a pod with the nominated ones and without them, because these may still go elsewhere. Source:
RunFilterPluginsWithNominatedPods in pkg/scheduler/framework/runtime/framework.go of Kubernetes
v1.37.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.fields.strict import mapping, required_text
from ..base.json_types import Object
from .anti_affinity import RunningAntiAffinity, check_anti_affinity
from .model import Labels, Node, NominatedMember, PodRelations, Promise
from .node_reader import Occupancy
from .peers import Namespaces, PodFacts, pod_facts
from .pod_reader import is_finished, priority_of


@dataclass(frozen=True)
class NominatedPod:
    """A nominated pod, in the form that it has when it runs on its node."""

    node: str
    facts: PodFacts
    promise: Promise
    given: Object


def has_nomination(pod: t.Any) -> bool:
    """Whether an unchecked pod without a node is nominated for one."""
    if not isinstance(pod, dict):
        return False
    spec, status = pod.get("spec"), pod.get("status")
    return (
        isinstance(status, dict)
        and bool(status.get("nominatedNodeName"))
        and not (isinstance(spec, dict) and spec.get("nodeName"))
        and not is_finished(pod)
    )


def read_nominated(pod: Object) -> NominatedPod:
    """A pod for which ``has_nomination`` holds. Raises InvalidField."""
    spec, status = mapping(pod.get("spec"), "spec"), mapping(pod.get("status"), "status")
    node = required_text(status.get("nominatedNodeName"), "status.nominatedNodeName")
    there = {**pod, "spec": {**spec, "nodeName": node}}
    occupancy, facts = Occupancy(), pod_facts(pod)
    occupancy.add(there)
    check_anti_affinity(there, facts)
    promise = Promise(
        priority_of(spec),
        tuple(sorted(occupancy.requests.items())),
        frozenset(occupancy.ports),
        frozenset(occupancy.disks),
    )
    return NominatedPod(node, facts, promise, there)


class ExistingAntiAffinity:
    """Required anti-affinity between waiting pods, and running and nominated ones.

    kube-scheduler looks at a nominated pod only when it asks about that pod's node.
    """

    def __init__(
        self,
        running: t.Iterable[Object],
        nominated: t.Iterable[NominatedPod],
        labels_of: t.Mapping[str, Labels],
        namespaces: Namespaces,
    ) -> None:
        self._labels_of = labels_of
        self._running = RunningAntiAffinity(running, labels_of, namespaces)
        self._nominated = [
            (pod, RunningAntiAffinity([pod.given], {pod.node: labels_of[pod.node]}, namespaces))
            for pod in nominated
            if pod.node in labels_of
        ]

    def nodes_closed_to(self, pod: Object, priority: int) -> frozenset[str]:
        """Names of the nodes that other pods' terms close to a pod of this priority."""
        closed = self._running.nodes_closed_to(pod)
        for nominated, rules in self._nominated:
            if nominated.promise.priority >= priority:
                closed |= rules.nodes_closed_to(pod)
        return closed

    def nodes_refused_by(
        self, relations: PodRelations, nominated: t.Iterable[NominatedMember], priority: int
    ) -> frozenset[str]:
        """Names of the nodes whose nominated pods the pod's own terms refuse."""
        return frozenset(
            member.node
            for member in nominated
            if member.priority >= priority
            and any(
                term.peers in member.member_of and term.topology_key in self._labels_of[member.node]
                for term in relations.anti_affinity
            )
        )

    def members_of(self, sets_of: t.Callable[[PodFacts], frozenset[int]]) -> list[NominatedMember]:
        """The nominated pods with the sets of pods to which they belong."""
        return [
            NominatedMember(pod.node, pod.promise.priority, sets_of(pod.facts))
            for pod, _rules in self._nominated
        ]


def with_promises(node: Node, nominated: t.Iterable[NominatedPod]) -> Node:
    """The node with the pods that are nominated for it."""
    promised = tuple(pod.promise for pod in nominated if pod.node == node.name)
    return replace(node, promised=promised) if promised else node
