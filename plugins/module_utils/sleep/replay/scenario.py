# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A trace on a fleet: one placement problem for all pods that ever come."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...power.constraints.instance import Instance, Rules
from ...power.model.problem import Problem, build_problem
from ...scheduling.model import Node, Pod, Shape
from ..machine import Machine
from .trace import QualityOfService, Trace, TracePod

# Pods of a higher class come first, and pods of two classes never share a group.
_PRIORITIES: t.Mapping[QualityOfService, int] = {
    "best_effort": 0,
    "burstable": 1,
    "guaranteed": 2,
}
_CLASSES = {priority: qos for qos, priority in _PRIORITIES.items()}
# Microcores of use for each millicore of requests and unit of the assumption.
_MICROCORES_PER_MILLICORE = 1000
USE_OF_REQUESTS = 0.8


@dataclass(frozen=True)
class Scenario:
    """``machines[n]`` is the machine of node n, at the start. ``group_of[k]`` is the group of pod k
    of the trace; None if it is larger than every machine, so that it never runs."""

    machines: tuple[Machine, ...]
    problem: Problem
    trace: Trace
    group_of: tuple[int | None, ...]

    @property
    def start(self) -> float:
        return self.trace.start

    @property
    def end(self) -> float:
        return self.trace.start + self.trace.seconds

    @property
    def oversized(self) -> int:
        """Number of pods that fit on no machine, even an empty one."""
        return self.group_of.count(None)

    def qos(self, group: int) -> QualityOfService:
        """Class of the pods of a group."""
        return _CLASSES[self.problem.groups[group].shape.priority]


def build_scenario(
    nodes: t.Sequence[Node],
    machines: t.Sequence[Machine],
    trace: Trace,
    use_of_requests: float = USE_OF_REQUESTS,
) -> Scenario:
    """The trace on these nodes, without the pods that run there.

    A pod uses the share ``use_of_requests`` of the CPU that it requests. Raises MissingLibrary.
    """
    shapes: dict[tuple[t.Any, ...], Shape] = {}
    for each in trace.pods:
        key = each.requests, each.qos
        if key not in shapes:
            shapes[key] = _shape(each, use_of_requests)
    pods = [
        Pod("trace", f"pod-{index:07d}", shapes[each.requests, each.qos])
        for index, each in enumerate(trace.pods)
    ]
    ordered = sorted(pods, key=lambda pod: (-pod.shape.priority, pod.name))
    problem = build_problem(Instance(tuple(nodes), tuple(ordered), Rules()))
    index_of = {
        group.shape: index
        for index, group in enumerate(problem.groups)
        if problem.limit[index].any()
    }
    return Scenario(tuple(machines), problem, trace, tuple(index_of.get(pod.shape) for pod in pods))


def _shape(pod: TracePod, use_of_requests: float) -> Shape:
    use = round(pod.requested("cpu") * use_of_requests * _MICROCORES_PER_MILLICORE)
    requests = tuple(sorted({**dict(pod.requests), "pods": 1}.items()))
    return Shape(requests, use, priority=_PRIORITIES[pod.qos])
