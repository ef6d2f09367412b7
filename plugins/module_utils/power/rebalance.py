# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moves of running pods that save watts, once the waiting pods are where the plan puts them.

A move is an eviction: the pod's controller makes another one, which this collection then binds. So
only pods move that have such a controller and our scheduler name, and only as many as budgets let
go. Each move is feasible and saves its watts after those before it, so the list can be carried out
in part.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.wattwise.kube.plugins.module_utils.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.power.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.budgets import Budgets
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import Instance, Pod
from ansible_collections.wattwise.kube.plugins.module_utils.power.peers import (
    PodFacts,
    pod_facts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_fields import (
    POD_GROUP_LABEL,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_reader import (
    identity,
    is_finished,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.problem import build_problem
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import Object
from ansible_collections.wattwise.kube.plugins.module_utils.power.results import bound_pods
from ansible_collections.wattwise.kube.plugins.module_utils.power.sources import (
    Parameters,
    Source,
    instance_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pods import asks_for_ways

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.int64]

# A Job's pod would begin its work anew.
_REPLACING_CONTROLLERS = ("ReplicaSet", "ReplicationController", "StatefulSet")
_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_TARGETS_TRIED = 3
_DECIMALS = 6

Key = tuple[str, str]


@dataclass(frozen=True)
class Move:
    """A running pod that had better be on another node, by ``watts``."""

    pod: Pod
    source: str
    target: str
    watts: float

    def as_dict(self) -> dict[str, t.Any]:
        return {
            "namespace": self.pod.namespace,
            "pod": self.pod.name,
            "uid": self.pod.uid,
            "from_node": self.source,
            "to_node": self.target,
            "gain_watts": round(self.watts, _DECIMALS),
        }


def is_movable(pod: Object, scheduler_name: str) -> bool:
    """Whether a running pod comes back to us when it is evicted, and may be."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    owners = metadata.get("ownerReferences") or []
    controller = next((owner.get("kind") for owner in owners if owner.get("controller")), None)
    phase = (pod.get("status") or {}).get("phase") or "Running"
    return (
        bool(spec.get("nodeName"))
        and spec.get("schedulerName") == scheduler_name
        and controller in _REPLACING_CONTROLLERS
        and phase == "Running"
        and not is_finished(pod)
        and not metadata.get("deletionTimestamp")
        and (metadata.get("annotations") or {}).get(_SAFE_TO_EVICT) != "false"
        and POD_GROUP_LABEL not in (metadata.get("labels") or {})
        # What cache ways and devices would be free without them is not known.
        and not asks_for_ways(pod)
        and not spec.get("resourceClaims")
    )


def propose(source: Source, parameters: Parameters, planned: Assignment) -> list[Move]:
    """The moves, in the order in which they are to be carried out. Raises InvalidInput."""
    known = {node.name for node in planned.problem.instance.nodes}
    movable = {
        identity(pod, "running"): pod
        for pod in source.running
        if is_movable(pod, parameters["scheduler_name"]) and pod["spec"]["nodeName"] in known
    }
    instance = _released(source, parameters, planned, movable)
    not_understood = {(pod.namespace, pod.name) for pod in instance.pods if pod.shape.unsupported}
    if not_understood:
        movable = {key: pod for key, pod in movable.items() if key not in not_understood}
        instance = _released(source, parameters, planned, movable)
    return _Rebalancing(instance, movable, Budgets(source.budgets), parameters).moves()


def _released(
    source: Source,
    parameters: Parameters,
    planned: Assignment,
    movable: t.Mapping[Key, Object],
) -> Instance:
    """The task of placing the movable pods, while all others are where they are or will be."""
    nodes = planned.problem.instance.nodes
    target = {(pod.namespace, pod.name): nodes[node].name for pod, node in bound_pods(planned)}
    waiting = [
        _on(pod, target[identity(pod, "pods")])
        for pod in source.pods
        if identity(pod, "pods") in target
    ]
    staying = [pod for pod in source.running if identity(pod, "running") not in movable]
    task = replace(
        source,
        pods=[_on(pod, "") for pod in movable.values()],
        running=[*staying, *waiting],
    )
    instance = instance_of(task, parameters)
    leaving: dict[str, int] = {}
    for pod in instance.pods:
        node = movable[pod.namespace, pod.name]["spec"]["nodeName"]
        leaving[node] = leaving.get(node, 0) + pod.shape.use_microcores
    # Present use is what the plan says; where less was measured than pods are assumed to use, it is
    # negative without them, which curves take for 0.
    use_after = {
        node.name: node.use_microcores + int(added)
        for node, added in zip(nodes, planned.use.tolist())
    }
    return replace(
        instance,
        nodes=tuple(
            replace(node, use_microcores=use_after[node.name] - leaving.get(node.name, 0))
            for node in instance.nodes
        ),
    )


def _on(pod: Object, node: str) -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


class _Candidate(t.NamedTuple):
    cost: float
    group: int
    source: int
    target: int


class _Rebalancing:
    """The movable pods where they run, and one move after the other."""

    def __init__(
        self,
        instance: Instance,
        movable: t.Mapping[Key, Object],
        budgets: Budgets,
        parameters: Parameters,
    ) -> None:
        self._numpy = numpy = require("numpy")
        problem = build_problem(instance)
        self._budgets = budgets
        self._least_gain = float(parameters["min_gain_watts"])
        self._max_moves = int(parameters["max_moves"])
        index_of = {node.name: index for index, node in enumerate(instance.nodes)}
        self._facts: dict[Key, PodFacts] = {}
        self._left: dict[tuple[int, int], list[Pod]] = {}
        counts: Integers = numpy.zeros_like(problem.limit)
        for group, its in enumerate(problem.groups):
            for pod in its.pods:
                given = movable[pod.namespace, pod.name]
                node = index_of[given["spec"]["nodeName"]]
                counts[group, node] += 1
                self._left.setdefault((group, node), []).append(pod)
                self._facts[pod.namespace, pod.name] = pod_facts(given, "running")
        self._assignment = Assignment(problem, counts)

    def moves(self) -> list[Move]:
        found: list[Move] = []
        while len(found) < self._max_moves:
            move = next(filter(None, map(self._carry_out, sorted(self._candidates()))), None)
            if move is None:
                break
            found.append(move)
        return found

    def _candidates(self) -> t.Iterator[_Candidate]:
        """Of each pod's kind and node the best targets that promise enough."""
        numpy, assignment = self._numpy, self._assignment
        for group, node in sorted(self._left):
            if self._next(group, node) is None:
                continue
            at = assignment.all_nodes[node : node + 1]
            leaving = float(assignment.added_cost(group, at, -1)[0])
            targets = assignment.fits(group, assignment.all_nodes)
            targets[node] = False
            open_nodes = targets.nonzero()[0]
            costs = leaving + assignment.added_cost(group, open_nodes)
            for best in numpy.argsort(costs, kind="stable")[:_TARGETS_TRIED]:
                if costs[best] <= -self._least_gain:
                    yield _Candidate(float(costs[best]), group, node, int(open_nodes[best]))

    def _next(self, group: int, node: int) -> Pod | None:
        """The first pod of a kind on a node that its budget lets go."""
        for pod in self._left.get((group, node), ()):
            if self._budgets.permit(self._facts[pod.namespace, pod.name]):
                return pod
        return None

    def _carry_out(self, candidate: _Candidate) -> Move | None:
        _cost, group, node, target = candidate
        assignment, pod = self._assignment, self._next(group, node)
        before = assignment.watts()
        changes = [(group, node, -1), (group, target, 1)]
        if pod is None or not assignment.try_changes(changes, self._least_gain):
            return None
        self._left[group, node].remove(pod)
        self._budgets.take(self._facts[pod.namespace, pod.name])
        names = [each.name for each in assignment.problem.instance.nodes]
        return Move(pod, names[node], names[target], before - assignment.watts())
