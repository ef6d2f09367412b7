# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The fleet's state from the objects of a cluster.

Pods that may move are the assignment; all others belong to their node, which they keep awake.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base.fields.lenient import objects
from ..base.json_types import Object
from ..base.libraries import numpy
from ..power.model.assignment import Assignment
from ..power.model.problem import Problem, build_problem, hopeless
from ..power.rebalance import surely_movable
from ..power.sources import Parameters, Source, instance_of
from ..scheduling.pod_reader import identity, is_finished
from .machine import Machine, Phase
from .protection import Protections
from .state import Budget, FleetState

if t.TYPE_CHECKING:
    from ..solving.arrays import Floats, Integers
    from .rules import SleepRules

Key = tuple[str, str]

# Taints of a machine that is off, which its boot removes.
_TAINTS_OF_SLEEP = frozenset(
    f"node.kubernetes.io/{name}"
    for name in ("unreachable", "not-ready", "network-unavailable", "out-of-service")
)
_CLASSES = {"Guaranteed": "guaranteed", "BestEffort": "best_effort"}


def read_state(
    source: Source,
    parameters: Parameters,
    rules: SleepRules,
    machines: t.Mapping[str, Machine],
    waited: t.Mapping[Key, float],
) -> FleetState:
    """The state of the source's nodes; a node without a machine is awake and may not sleep.

    ``waited`` are the seconds since the creation of waiting pods. Raises InvalidInput.
    """
    parameters = {**parameters, "allow_power_off": False}
    movable = _movable(source, parameters)
    instance = instance_of(_released(source, movable, machines), parameters)
    is_hopeless = hopeless(instance)
    staying = {(pod.namespace, pod.name) for pod in instance.pods if is_hopeless(pod.shape)}
    if staying & movable.keys():
        movable = {key: pod for key, pod in movable.items() if key not in staying}
        instance = instance_of(_released(source, movable, machines), parameters)
    problem = build_problem(instance)
    home = _home(problem, movable)
    problem = replace(problem, limit=numpy.maximum(problem.limit, home))
    left = [
        [pod for pod in group.pods if (pod.namespace, pod.name) not in movable]
        for group in problem.groups
    ]
    return FleetState(
        machines=_machines(source, rules, machines, problem, movable),
        assignment=Assignment(problem, home),
        movable=home.copy(),
        waiting=numpy.array([len(pods) for pods in left], dtype=numpy.int64),
        waited=numpy.array(
            [
                max((waited.get((p.namespace, p.name), 0.0) for p in pods), default=0.0)
                for pods in left
            ]
        ),
        eviction_joules=_prices(problem, movable, rules),
        budgets=_budgets(source, problem, movable),
    )


def _movable(source: Source, parameters: Parameters) -> dict[Key, Object]:
    """Running pods that may be evicted, as rebalancing decides it."""
    priced = {name for name in source.nodes if source.curves.get(name) is not None}
    return {
        identity(pod): pod
        for pod in source.running
        if surely_movable(pod, parameters["scheduler_name"])
        and (source.scope is None or source.scope.has_pod(pod))
        and pod["spec"]["nodeName"] in priced
        and source.budgets.refusal([pod]) is None
    }


def _released(
    source: Source, movable: t.Mapping[Key, Object], machines: t.Mapping[str, Machine]
) -> Source:
    """The source with the movable pods to place, and sleeping machines as after their boot."""
    asleep = {
        name for name, machine in machines.items() if machine.phase in (Phase.ASLEEP, Phase.WAKING)
    }
    free = [{**pod, "spec": {**pod["spec"], "nodeName": ""}} for pod in movable.values()]
    return replace(
        source,
        nodes={
            name: replace(node, given=_booted(node.given)) if name in asleep else node
            for name, node in source.nodes.items()
        },
        pods=[*source.pods, *free],
        running=[pod for pod in source.running if identity(pod) not in movable],
    )


def _booted(node: Object) -> Object:
    """A node that is ready again; a cordon is that of an administrator, and stays."""
    if "metadata" not in node:
        return {**node, "ready": True}
    spec, status = dict(node.get("spec") or {}), dict(node.get("status") or {})
    taints = objects(spec.get("taints"))
    spec["taints"] = [taint for taint in taints if taint.get("key") not in _TAINTS_OF_SLEEP]
    status["conditions"] = [
        {**each, "status": "True"} if each.get("type") == "Ready" else each
        for each in objects(status.get("conditions"))
    ]
    return {**node, "spec": spec, "status": status}


def _home(problem: Problem, movable: t.Mapping[Key, Object]) -> Integers:
    """Counts of the movable pods by group and node."""
    index_of = {node.name: index for index, node in enumerate(problem.instance.nodes)}
    home: Integers = numpy.zeros_like(problem.limit)
    for group, its in enumerate(problem.groups):
        for pod in its.pods:
            given = movable.get((pod.namespace, pod.name))
            if given is not None:
                home[group, index_of[given["spec"]["nodeName"]]] += 1
    return home


def _machines(
    source: Source,
    rules: SleepRules,
    machines: t.Mapping[str, Machine],
    problem: Problem,
    movable: t.Mapping[Key, Object],
) -> tuple[Machine, ...]:
    """The machines of the problem's nodes, each with its protection."""
    protections = Protections(rules)
    pods_on: dict[str, list[Object]] = {}
    for pod in source.running:
        if not is_finished(pod):
            pods_on.setdefault(pod["spec"]["nodeName"], []).append(pod)
    found = []
    for node in problem.instance.nodes:
        machine = machines.get(node.name)
        if machine is None:
            why = "Its machine is not known, so nothing could wake it."
            found.append(Machine(node.name, protection=why))
            continue
        here = source.nodes[node.name]
        # Pods of a sleeping machine are remains that its kubelet has not ended.
        pods = pods_on.get(node.name, []) if machine.phase is Phase.AWAKE else []
        why = machine.protection or protections.of(
            here.given, here.labels, pods, lambda pod: identity(pod) in movable
        )
        # A curve that is missing in one run is no reason to wake a machine.
        if not why and node.curve is None and machine.phase is not Phase.ASLEEP:
            why = "Its power curve is not known."
        found.append(replace(machine, protection=why))
    return tuple(found)


def _prices(problem: Problem, movable: t.Mapping[Key, Object], rules: SleepRules) -> Floats:
    """Joules of an eviction by group: the price of its dearest pod."""
    prices = []
    for group in problem.groups:
        classes = {
            _CLASSES.get(((movable[key].get("status") or {}).get("qosClass")) or "", "burstable")
            for key in ((pod.namespace, pod.name) for pod in group.pods)
            if key in movable
        }
        prices.append(max((rules.eviction_joules[each] for each in classes), default=0.0))
    return numpy.array(prices, dtype=float)


def _budgets(
    source: Source, problem: Problem, movable: t.Mapping[Key, Object]
) -> tuple[Budget, ...]:
    """Allowed evictions by groups; a group counts wholly for each budget of one of its pods."""
    groups: dict[int, set[int]] = {}
    for index, group in enumerate(problem.groups):
        for pod in group.pods:
            given = movable.get((pod.namespace, pod.name))
            budget = source.budgets.budget_of(given) if given is not None else None
            if budget is not None:
                groups.setdefault(budget, set()).add(index)
    allowed = source.budgets.allowed()
    return tuple(Budget(frozenset(each), allowed[index]) for index, each in sorted(groups.items()))
