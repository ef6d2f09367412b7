# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The fleet of a snapshot as the decision reads it, and the pods behind its counts.

Pods that an eviction would bring back to this collection are counted in the assignment, as in
``power.rebalance``. All others hold the room of their nodes, and keep the machine awake unless they
are daemons, which end with their machine and come back with it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base.boundary import guarded, subject_of
from ...base.errors import InvalidInput
from ...base.fields.lenient import member, objects
from ...base.json_types import Object
from ...base.libraries import numpy
from ...base.units import parse_time
from ...power.constraints.instance import Instance
from ...power.model.assignment import Assignment
from ...power.model.problem import build_problem, hopeless
from ...power.rebalance import Key, surely_movable
from ...power.sources import Source, instance_of, source_of_snapshot
from ...power.steps import PodMove, Step
from ...scheduling.pod_reader import identity, is_daemon, is_finished
from ...scheduling.scope import Scope
from ..machine import Machine
from ..state import Budget, FleetState, PlannedMove
from .guards import control_plane_pod

if t.TYPE_CHECKING:
    from ...base.context import Parameters
    from ...scheduling.model import Pod
    from ..rules import SleepRules

_MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True)
class FleetReading:
    """The state of the fleet; ``names`` are the nodes by index, ``pods`` those of the counts."""

    state: FleetState
    names: tuple[str, ...]
    pods: t.Mapping[tuple[int, int], list[Pod]]
    idle_watts: t.Mapping[str, float]

    def steps(self, moves: t.Sequence[PlannedMove]) -> dict[str, Step]:
        """The planned moves as steps of the eviction, by the node that they empty."""
        left = {key: list(pods) for key, pods in self.pods.items()}
        found: dict[str, list[PodMove]] = {}
        for move in moves:
            pods = left.get((move.group, move.source))
            if not pods:
                continue
            pod, ends = pods.pop(0), (self.names[move.source], self.names[move.target])
            found.setdefault(ends[0], []).append(
                PodMove(pod.namespace, pod.name, *ends, pod.uid, None)
            )
        return {name: Step(1, tuple(its), (name,)) for name, its in found.items()}


def staying_pods(pods: t.Iterable[Object], movable: t.Collection[Key] = ()) -> dict[str, list[str]]:
    """Pods by node that are neither daemons nor finished, nor among the movable ones.

    An unreadable pod stays.
    """
    found: dict[str, list[str]] = {}
    for pod in pods:
        node = member(pod, "spec", "nodeName")
        if not isinstance(node, str) or not node:
            continue
        subject = subject_of(pod, "Pod")
        if guarded(subject, lambda pod=pod: _leaves(pod, movable)) is True:
            continue
        found.setdefault(node, []).append(f"{subject.namespace}/{subject.name}")
    return found


def _leaves(pod: Object, movable: t.Collection[Key]) -> bool:
    """Whether the pod does not keep its machine awake."""
    if is_finished(pod):
        return True
    if _MIRROR in (member(pod, "metadata", "annotations") or {}):
        return not control_plane_pod(pod)
    return is_daemon(pod) or identity(pod) in movable


class FleetReader:
    """Reads the fleet of one run."""

    def __init__(
        self, snapshot: Object, curves: Object, parameters: Parameters, scope: Scope | None
    ) -> None:
        """``snapshot`` describes sleeping machines as if awake; ``parameters`` place pods."""
        if "pod_disruption_budgets" not in snapshot:
            raise InvalidInput(
                "sleep: the snapshot has no pod_disruption_budgets, which say what may be moved; "
                "include them in the snapshot"
            )
        self._parameters = {**parameters, "allow_power_off": False}
        self._scope = scope
        self._source = source_of_snapshot(snapshot, curves, (), self._parameters, scope)
        budgets, source = self._source.budgets, self._source
        self._movable: dict[Key, Object] = {
            identity(pod): pod
            for pod in source.running
            if surely_movable(pod, parameters["scheduler_name"])
            and (scope is None or scope.has_pod(pod))
            and budgets.refusal([pod]) is None
        }
        self._instance = self._released()
        is_hopeless = hopeless(self._instance)
        staying = {
            (pod.namespace, pod.name) for pod in self._instance.pods if is_hopeless(pod.shape)
        }
        if staying & self._movable.keys():
            self._movable = {
                key: pod for key, pod in self._movable.items() if key not in staying
            }
            self._instance = self._released()
        #: Pods that keep their machines awake, by node.
        self.staying = staying_pods(snapshot.get("pods") or (), self._movable)
        #: Nodes with a power curve.
        self.priced = {node.name for node in self._instance.nodes if node.curve is not None}

    def _released(self) -> Instance:
        """The task of placing the waiting and the movable pods."""
        source: Source = self._source
        task = replace(
            source,
            pods=[*source.pods, *(_without_node(pod) for pod in self._movable.values())],
            running=[pod for pod in source.running if identity(pod) not in self._movable],
        )
        instance = instance_of(task, self._parameters)
        if self._parameters["usage_source"] == "requests":
            return instance
        # A measured use contains that of the movable pods.
        leaving: dict[str, int] = {}
        for pod in instance.pods:
            moved = self._movable.get((pod.namespace, pod.name))
            if moved is not None:
                node = moved["spec"]["nodeName"]
                leaving[node] = leaving.get(node, 0) + pod.shape.use_microcores
        return replace(
            instance,
            nodes=tuple(
                replace(node, use_microcores=max(0, node.use_microcores - leaving[node.name]))
                if node.name in source.measured and node.name in leaving
                else node
                for node in instance.nodes
            ),
        )

    def read(
        self, machines: t.Mapping[str, Machine], rules: SleepRules, now: float
    ) -> FleetReading:
        """The state with these machines by node. Raises MissingLibrary."""
        problem = build_problem(self._instance)
        names = tuple(node.name for node in self._instance.nodes)
        index_of = {name: index for index, name in enumerate(names)}
        home = numpy.zeros_like(problem.limit)
        waiting = numpy.zeros(len(problem.groups), dtype=numpy.int64)
        waited = numpy.zeros(len(problem.groups))
        joules = numpy.zeros(len(problem.groups))
        pods: dict[tuple[int, int], list[Pod]] = {}
        budgets: dict[int, set[int]] = {}
        created = {identity(pod): _created(pod, now) for pod in self._source.pods}
        given = {identity(pod): pod for pod in self._source.pods}
        for group, its in enumerate(problem.groups):
            for pod in its.pods:
                key = pod.namespace, pod.name
                moved = self._movable.get(key)
                joules[group] = rules.eviction_joules[_quality_of_service(moved or given[key])]
                if moved is None:
                    waiting[group] += 1
                    waited[group] = max(waited[group], now - created[key])
                    continue
                node = index_of[moved["spec"]["nodeName"]]
                home[group, node] += 1
                pods.setdefault((group, node), []).append(pod)
                budget = self._source.budgets.budget_of(moved)
                if budget is not None:
                    budgets.setdefault(budget, set()).add(group)
        problem = replace(problem, limit=numpy.maximum(problem.limit, home))
        allowed = self._source.budgets.allowed()
        assignment = Assignment(problem, home)
        idle = problem.costs.watts(assignment.all_nodes, problem.costs.base.astype(float))
        state = FleetState(
            tuple(machines.get(name, Machine(name, protection="It is unknown.")) for name in names),
            assignment,
            home,
            waiting,
            waited,
            joules,
            tuple(
                Budget(frozenset(groups), allowed[index])
                for index, groups in sorted(budgets.items())
            ),
        )
        return FleetReading(state, names, pods, dict(zip(names, map(float, idle))))


def _without_node(pod: Object) -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": ""}}


def _created(pod: Object, now: float) -> float:
    """The creation of a pod, now if unreadable; never in the future."""
    created = member(pod, "metadata", "creationTimestamp")
    found = guarded(subject_of(pod, "Pod"), lambda: parse_time(created).timestamp())
    return min(now, found) if isinstance(found, float) else now


def _quality_of_service(pod: Object) -> str:
    """The class of a pod: guaranteed, burstable or best_effort, by cpu and memory."""
    resources = [
        member(one, "resources") or {}
        for part in ("initContainers", "containers")
        for one in objects(member(pod, "spec", part))
    ]
    if not any(one.get("requests") or one.get("limits") for one in resources):
        return "best_effort"

    def is_fixed(one: Object) -> bool:
        limits = one.get("limits") or {}
        requests = {**limits, **(one.get("requests") or {})}
        return all(name in limits and requests[name] == limits[name] for name in ("cpu", "memory"))

    return "guaranteed" if all(map(is_fixed, resources)) else "burstable"
