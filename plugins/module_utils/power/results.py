# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The plan of an answer: names, reasons, power."""

from __future__ import annotations

import itertools
import math
import typing as t

from ..base.json_types import Object
from ..scheduling.model import MICROCORES_PER_CORE, Pod
from ..scheduling.plan import Placement, Plan
from .bounds.answer import Answer
from .constraints.instance import Instance
from .device_results import allocations
from .limits.enforcement import DomainPower
from .model.assignment import Assignment
from .model.repair import related_groups, related_steps
from .reasons import unplaced_pods

_DECIMALS = 6
_STEPS_PER_WATT = 1_000_000
_MIN_ADDED_WATTS = 1.0
# Relative error of sums of many floating-point numbers: rounding must not turn it into a step.
_ROUNDING = 1e-12


def plan_of(answer: Answer) -> Plan:
    """The plan of an answer, without findings, steps and comparison."""
    assignment = answer.assignment
    problem = assignment.problem
    before = Assignment(problem).watts()
    after = _rounded_up(assignment.watts())
    # The bound of placements with no more unmet preferences than this answer.
    lower_bound = min(_rounded_down(answer.lower_bound - assignment.preference_watts()), after)
    added = max(lower_bound - before, _MIN_ADDED_WATTS)
    nodes = problem.instance.nodes
    asleep = problem.costs.sleeper & (assignment.workload == 0)
    placed = bound_pods(assignment)
    return Plan(
        tuple(
            Placement(pod.namespace, pod.name, nodes[node].name, pod.uid, pod.resource_version)
            for pod, node in placed
        ),
        {"before": round(before, _DECIMALS), "after": after, "lower_bound": lower_bound},
        gap=round((after - lower_bound) / added, 9),
        proven=answer.proven,
        method=answer.method,
        stopped_by=answer.stopped_by,
        asleep=[node.name for node, sleeps in zip(nodes, asleep.tolist()) if sleeps],
        unpriced=[node.name for node in nodes if node.curve is None],
        preference_watts=round(assignment.preference_watts(), _DECIMALS),
        unplaced=unplaced_pods(assignment),
        allocations=allocations(assignment, placed),
        nodes=_node_summaries(assignment),
        limits=_limit_summaries(assignment),
        closed=_closed(problem.instance) or None,
    )


def _limit_summaries(assignment: Assignment) -> list[Object] | None:
    """The power domains before and after; None without limits."""
    problem = assignment.problem
    if not problem.instance.domains:
        return None
    power = DomainPower(problem)
    before, after = power.draw(Assignment(problem)).tolist(), power.draw(assignment).tolist()
    ready = {node.name for node in problem.instance.nodes if node.ready}
    return [
        {
            "kind": domain.kind,
            "name": domain.name,
            "nodes": list(domain.nodes),
            "not_ready": [name for name in domain.nodes if name not in ready],
            "limit_watts": domain.limit_watts,
            "beside_watts": round(domain.beside_watts, 3),
            "watts_before": round(watts_before, 3),
            "watts_after": round(watts_after, 3),
        }
        for domain, watts_before, watts_after in zip(power.domains, before, after)
    ]


def _closed(instance: Instance) -> dict[str, str]:
    """The nodes of the run that take no pod for a limit, with the reasons."""
    ours = {node.name for node in instance.nodes if node.eligible}
    return {name: reason for name, reason in instance.closed.items() if name in ours}


def outcome(strategy: str, assignment: Assignment) -> Object:
    """The result of a strategy, as documented for ``comparison``."""
    before = round(Assignment(assignment.problem).watts(), _DECIMALS)
    after = _rounded_up(assignment.watts())
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


def bound_pods(assignment: Assignment) -> list[tuple[Pod, int]]:
    """Pods and nodes, in a feasible order of binding.

    Interchangeable pods are assigned in canonical order: first the pods that keep their node of the
    last plan, then the first pods to the first nodes. Pods with rules about others come last, the
    others are in the order of the instance.
    """
    problem = assignment.problem
    waiting: dict[tuple[int, int], list[Pod]] = {}
    late = related_groups(problem)
    node_of: dict[int, int] = {}
    for index, group in enumerate(problem.groups):
        for node, dealt in _dealt(assignment, index, group.pods):
            if index in late:
                waiting[index, node] = dealt[::-1]
            else:
                node_of.update((id(pod), node) for pod in dealt)
    pods = problem.instance.pods
    first = [(pod, node_of[id(pod)]) for pod in pods if id(pod) in node_of]
    last = [
        (waiting[group, node].pop(), node)
        for group, node in related_steps(problem, assignment.counts)
    ]
    return first + last


def _dealt(
    assignment: Assignment, group: int, pods: t.Sequence[Pod]
) -> t.Iterator[tuple[int, list[Pod]]]:
    """The nodes with pods of the group, each with its pods."""
    instance, counts = assignment.problem.instance, assignment.counts[group]
    nodes = counts.nonzero()[0].tolist()
    places = {instance.nodes[node].name: int(counts[node]) for node in nodes}
    staying: dict[str, list[Pod]] = {name: [] for name in places}
    others: list[Pod] = []
    for pod in pods[: int(counts.sum())]:
        name = instance.previous.get((pod.namespace, pod.name), "")
        stays = name in places and len(staying[name]) < places[name]
        (staying[name] if stays else others).append(pod)
    left = iter(others)
    for node in nodes:
        stay = staying[instance.nodes[node].name]
        yield node, [*stay, *itertools.islice(left, int(counts[node]) - len(stay))]


def _node_summaries(assignment: Assignment) -> list[Object]:
    nodes = assignment.problem.instance.nodes
    before = Assignment(assignment.problem).cost.tolist()
    after = (assignment.cost + assignment.device_watts()).tolist()
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
