# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""From an answer to the module's result: names, reasons, watts."""

from __future__ import annotations

import math
import typing as t
from collections import Counter

from ansible_collections.wattwise.kube.plugins.module_utils.power.answer import Answer, watts_of
from ansible_collections.wattwise.kube.plugins.module_utils.power.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.feasibility import (
    NO_CURVE,
    obstacle,
    shortages,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    MICROCORES_PER_CORE,
    Instance,
    Node,
    Pod,
    Shape,
)

Entry = dict[str, t.Any]

_DECIMALS = 6
_STEPS_PER_WATT = 1_000_000
_SMALLEST_ADDED_WATTS = 1.0
# Relative error of sums of many floating-point numbers: rounding must not turn it into a step.
_ROUNDING = 1e-12


def describe_answer(answer: Answer) -> Entry:
    """The result of the module, as documented there."""
    assignment = answer.assignment
    problem = assignment.problem
    before = watts_of(Assignment(problem))
    after = _rounded_up(watts_of(assignment))
    # Of what meets preferences no worse than this answer.
    lower_bound = min(_rounded_down(answer.lower_bound - assignment.preference_watts()), after)
    added = max(lower_bound - before, _SMALLEST_ADDED_WATTS)
    nodes = problem.instance.nodes
    asleep = problem.costs.sleeper & (assignment.workload == 0)
    return {
        "placements": _placements(assignment),
        "watts": {
            "before": round(before, _DECIMALS),
            "after": after,
            "lower_bound": lower_bound,
        },
        "gap": round((after - lower_bound) / added, 9),
        "proven": answer.proven,
        "method": answer.method,
        "stopped_by": answer.stopped_by,
        "asleep": [node.name for node, sleeps in zip(nodes, asleep.tolist()) if sleeps],
        "unpriced": [node.name for node in nodes if node.curve is None],
        "unplaced": _unplaced(assignment),
        "nodes": _node_summaries(assignment),
    }


def describe_comparison(found: t.Iterable[tuple[str, Assignment]]) -> list[Entry]:
    """What strategies made of one problem, as documented for ``comparison``."""
    return [_outcome(strategy, assignment) for strategy, assignment in found]


def _outcome(strategy: str, assignment: Assignment) -> Entry:
    before = round(watts_of(Assignment(assignment.problem)), _DECIMALS)
    after = _rounded_up(watts_of(assignment))
    placed = int(assignment.pods.sum())
    return {
        "strategy": strategy,
        "watts_after": after,
        "watts_added": round(after - before, _DECIMALS),
        "placed": placed,
        "unplaced": len(assignment.problem.instance.pods) - placed,
        "placed_unpriced": int(assignment.pods[~assignment.problem.costs.priced].sum()),
    }


def _rounded_up(watts: float) -> float:
    scaled = watts * _STEPS_PER_WATT
    return math.ceil(scaled - abs(scaled) * _ROUNDING) / _STEPS_PER_WATT


def _rounded_down(watts: float) -> float:
    scaled = watts * _STEPS_PER_WATT
    return math.floor(scaled + abs(scaled) * _ROUNDING) / _STEPS_PER_WATT


def _placed_pods(assignment: Assignment) -> dict[tuple[str, str], tuple[Pod, str]]:
    """Pod and node name by namespace and name.

    Interchangeable pods are dealt out in canonical order: the first pods to the first nodes.
    """
    nodes = assignment.problem.instance.nodes
    placed: dict[tuple[str, str], tuple[Pod, str]] = {}
    for index, group in enumerate(assignment.problem.groups):
        pods = iter(group.pods)
        for node in assignment.counts[index].nonzero()[0].tolist():
            for _number in range(int(assignment.counts[index, node])):
                pod = next(pods)
                placed[pod.namespace, pod.name] = (pod, nodes[node].name)
    return placed


def _placements(assignment: Assignment) -> list[Entry]:
    placed = _placed_pods(assignment)
    return [
        {
            "namespace": pod.namespace,
            "pod": pod.name,
            "uid": pod.uid,
            "resource_version": pod.resource_version,
            "node": placed[pod.namespace, pod.name][1],
        }
        for pod in assignment.problem.instance.pods
        if (pod.namespace, pod.name) in placed
    ]


def _unplaced(assignment: Assignment) -> list[Entry]:
    instance = assignment.problem.instance
    placed = _placed_pods(assignment)
    free = _free(assignment)
    known: dict[Shape, dict[str, int]] = {}
    unplaced = []
    for pod in instance.pods:
        if (pod.namespace, pod.name) in placed:
            continue
        if pod.shape not in known:
            known[pod.shape] = _reasons(pod.shape, instance, free)
        unplaced.append(
            {
                "namespace": pod.namespace,
                "pod": pod.name,
                "uid": pod.uid,
                "reasons": known[pod.shape],
                "message": _message(known[pod.shape], len(instance.nodes)),
            }
        )
    return unplaced


def _free(assignment: Assignment) -> list[dict[str, int]]:
    """What every node has left once the plan is carried out."""
    resources = assignment.problem.resources
    return [
        {**node.free, **dict(zip(resources, left))}
        for node, left in zip(assignment.problem.instance.nodes, assignment.free.tolist())
    ]


def _reasons(
    shape: Shape, instance: Instance, free: t.Sequence[t.Mapping[str, int]]
) -> dict[str, int]:
    """How many nodes stand against the pod for each reason; the most frequent first."""
    counted: Counter[str] = Counter()
    for node, left in zip(instance.nodes, free):
        counted.update(_reasons_of_node(shape, node, left, instance.rules.use_unpriced))
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _reasons_of_node(
    shape: Shape, node: Node, left: t.Mapping[str, int], use_unpriced: bool
) -> list[str]:
    if shape.unsupported:
        return [f"unsupported: {field}" for field in shape.unsupported]
    reason = obstacle(shape.constraints, node)
    if reason is not None:
        return [reason]
    if node.curve is None and not use_unpriced:
        return [NO_CURVE]
    return shortages(shape.requests, left)


def _message(reasons: t.Mapping[str, int], nodes: int) -> str:
    if nodes == 0:
        return "no nodes available to schedule pods"
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {listed}."


def _node_summaries(assignment: Assignment) -> list[Entry]:
    nodes = assignment.problem.instance.nodes
    before = Assignment(assignment.problem).cost.tolist()
    after = assignment.cost.tolist()
    return [
        {
            "name": node.name,
            "cpu_before": node.use_microcores / MICROCORES_PER_CORE,
            "cpu_after": (node.use_microcores + added) / MICROCORES_PER_CORE,
            "watts_before": None if node.curve is None else round(watts_before, 3),
            "watts_after": None if node.curve is None else round(watts_after, 3),
        }
        for node, added, watts_before, watts_after in zip(
            nodes, assignment.use.tolist(), before, after
        )
    ]
