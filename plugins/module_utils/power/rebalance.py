# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moves of running pods that save power, after the waiting pods are placed by the plan.

A move is an eviction: the pod's controller makes another pod, which this collection then binds. So
only pods with such a controller and our scheduler name move, and only as many as budgets allow.
Moves that pay only together, such as the moves that empty a node, are one step. Each move is
feasible after the moves before it, and each step saves its power after the steps before it, so the
list can end after any step.
"""

from __future__ import annotations

import functools
import itertools
import typing as t
from dataclasses import replace

from ..base.boundary import guarded, subject_of
from ..base.fields.lenient import objects
from ..base.json_types import Object
from ..base.libraries import numpy
from ..rmd.pods import asks_for_ways
from ..scheduling.budgets import Budgets
from ..scheduling.plan import PlannedMove, Step
from ..scheduling.pod_fields import POD_GROUP_LABEL
from ..scheduling.pod_reader import identity, is_finished
from ..scheduling.volumes.cluster_volumes import depends_on_storage
from ..solving.arrays import Integers
from .constraints.instance import Instance
from .limits.enforcement import DomainPower
from .migration.migration import Migration, MovablePod, Move
from .migration.search import Search
from .migration.steps import Division
from .model.assignment import Assignment
from .model.problem import build_problem, hopeless
from .results import bound_pods
from .sources import Parameters, Source, instance_of

# A Job's pod would begin its work anew.
_REPLACING_CONTROLLERS = ("ReplicaSet", "ReplicationController", "StatefulSet")
_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_DECIMALS = 6

Key = tuple[str, str]


def is_movable(pod: Object, scheduler_name: str) -> bool:
    """Whether a running pod may be evicted, and its replacement waits for this collection."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    owners = objects(metadata.get("ownerReferences"))
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
        # The free cache ways and devices without these pods are unknown.
        and not asks_for_ways(pod)
        and not spec.get("resourceClaims")
        # Its volumes would have to follow it.
        and not depends_on_storage(pod)
    )


def surely_movable(pod: Object, scheduler_name: str) -> bool:
    """Like ``is_movable``; false if the pod cannot be read."""
    read = functools.partial(is_movable, pod, scheduler_name)
    return guarded(subject_of(pod, "Pod"), read) is True


def propose(source: Source, parameters: Parameters, planned: Assignment) -> tuple[Step, ...]:
    """The steps, in the order of execution. Raises InvalidInput."""
    priced = {node.name for node in planned.problem.instance.nodes if node.curve is not None}
    budgets = source.budgets
    movable = {
        identity(pod): pod
        for pod in source.running
        if surely_movable(pod, parameters["scheduler_name"])
        and (source.scope is None or source.scope.has_pod(pod))
        and pod["spec"]["nodeName"] in priced
        and budgets.refusal([pod]) is None
    }
    instance = _released(source, parameters, planned, movable)
    is_hopeless = hopeless(instance)
    staying = {(pod.namespace, pod.name) for pod in instance.pods if is_hopeless(pod.shape)}
    if staying:
        movable = {key: pod for key, pod in movable.items() if key not in staying}
        instance = _released(source, parameters, planned, movable)
    return _best_steps(_task(instance, movable, budgets, parameters))


def _best_steps(task: Migration) -> tuple[Step, ...]:
    """The steps to the best result of the search, or to the next best if it is not reachable."""
    best: tuple[Step, ...] = ()
    reached = 0.0
    for state in Search(task).run():
        if round(state.value, _DECIMALS) <= reached:
            break
        steps, gain = _described(task, _within_limits(task, Division(task, state.counts).steps()))
        if gain > reached:
            best, reached = steps, gain
    return best


def _within_limits(
    task: Migration, steps: t.Sequence[t.Sequence[Move]]
) -> t.Sequence[t.Sequence[Move]]:
    """The steps before the first one that takes a power domain above its limit."""
    if not task.problem.instance.domains:
        return steps
    power, now = DomainPower(task.problem), Assignment(task.problem, task.home)
    for number, step in enumerate(steps):
        for move in step:
            before = power.excess(now)
            for change in move.changes:
                now.place(*change)
            if (power.excess(now) > before).any():
                return steps[:number]
    return steps


def _released(
    source: Source, parameters: Parameters, planned: Assignment, movable: t.Mapping[Key, Object]
) -> Instance:
    """The task of placing the movable pods, with all others on their present or planned nodes."""
    nodes = planned.problem.instance.nodes
    target = {(pod.namespace, pod.name): nodes[node].name for pod, node in bound_pods(planned)}
    waiting = [_on(pod, target[identity(pod)]) for pod in source.pods if identity(pod) in target]
    staying = [pod for pod in source.running if identity(pod) not in movable]
    task = replace(
        source, pods=[_on(pod, "") for pod in movable.values()], running=[*staying, *waiting]
    )
    instance = instance_of(task, parameters)
    leaving: dict[str, int] = {}
    for pod in instance.pods:
        node = movable[pod.namespace, pod.name]["spec"]["nodeName"]
        leaving[node] = leaving.get(node, 0) + pod.shape.use_microcores
    # The present use is that of the plan. If less was measured than the pods' assumed use, it is
    # negative without them, which curves clamp to 0.
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
        domains=planned.problem.instance.domains,
        closed=planned.problem.instance.closed,
    )


def _on(pod: Object, node: str) -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def _task(
    instance: Instance, movable: t.Mapping[Key, Object], budgets: Budgets, parameters: Parameters
) -> Migration:
    """The movable pods on their nodes, and the limits of their moves."""
    problem = build_problem(instance)
    index_of = {node.name: index for index, node in enumerate(instance.nodes)}
    home: Integers = numpy.zeros_like(problem.limit)
    pods: dict[tuple[int, int], list[MovablePod]] = {}
    for group, its in enumerate(problem.groups):
        for pod in its.pods:
            given = movable[pod.namespace, pod.name]
            node = index_of[given["spec"]["nodeName"]]
            home[group, node] += 1
            budget = budgets.budget_of(given)
            pods.setdefault((group, node), []).append(MovablePod(pod, budget))
    return Migration(
        # A pod may stay on a node that would not admit it any more.
        replace(problem, limit=numpy.maximum(problem.limit, home)),
        home,
        pods,
        budgets.allowed(),
        float(parameters["min_gain_watts"]),
        int(parameters["max_moves"]),
    )


def _described(
    task: Migration, steps: t.Sequence[t.Sequence[Move]]
) -> tuple[tuple[Step, ...], float]:
    """The steps by name, with recomputed power, and their gain less the price of the moves."""
    nodes = task.problem.instance.nodes
    counts = task.home.copy()
    for group, source, target in itertools.chain.from_iterable(steps):
        counts[group, source] -= 1
        counts[group, target] += 1
    leaving = task.leaving(counts) or {}
    now = Assignment(task.problem, task.home)
    found: list[Step] = []
    total = 0.0
    for number, step in enumerate(steps, 1):
        before, moves, gains = now, list[PlannedMove](), list[float]()
        for move in step:
            reached = now.counts.copy()
            reached[move.group, [move.source, move.target]] += [-1, 1]
            after = Assignment(task.problem, reached)
            pod = leaving[move.group, move.source].pop(0)
            ends = nodes[move.source].name, nodes[move.target].name
            gains.append(now.watts() - after.watts())
            gain = round(gains[-1], _DECIMALS)
            moves.append(PlannedMove(pod.namespace, pod.name, *ends, gain, pod.uid))
            now = after
        saved = list(itertools.accumulate(gains))
        cost = max(0.0, -min([0.0, *saved[:-1]]))
        total += saved[-1] - task.least_gain * len(moves)
        found.append(
            Step(
                number,
                tuple(moves),
                round(saved[-1], _DECIMALS),
                round(cost, _DECIMALS),
                _fallen_asleep(before, now),
            )
        )
    return tuple(found), round(total, _DECIMALS)


def _fallen_asleep(before: Assignment, after: Assignment) -> tuple[str, ...]:
    """Nodes that may sleep after, but not before."""
    fell = after.problem.costs.sleeper & (before.workload > 0) & (after.workload == 0)
    return tuple(after.problem.instance.nodes[index].name for index in fell.nonzero()[0].tolist())
