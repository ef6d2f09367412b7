# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reasons why pods stay without a node, counted over the nodes and in kube-scheduler's words.

As in kube-scheduler, a node counts with the reasons of the first filter that rejects it: properties
of the node, then its resources, then rules between pods. Resources and other pods are those after
the plan.
"""

from __future__ import annotations

import functools
import typing as t
from collections import Counter
from dataclasses import replace

from ..scheduling.feasibility import (
    CLAIM_IN_USE,
    DISK_TAKEN,
    NO_CURVE,
    TOO_MANY_VOLUMES,
    availability_message,
    obstacle,
    shortages,
    volume_obstacles,
)
from ..scheduling.model import Node, Pod, Shape
from ..scheduling.plan import UnplacedPod
from .constraints import cache_runs, device_checks
from .constraints.instance import Instance
from .constraints.relation_reader import OUT_OF_TIME
from .limits.enforcement import DomainPower
from .model.assignment import Assignment

INCOMPLETE_GANG = "node(s) could not take all pods of the pod group"


def unplaced_pods(assignment: Assignment) -> tuple[UnplacedPod, ...]:
    """Every pod without a node, in the order of the instance."""
    explain = functools.lru_cache(maxsize=None)(_Explainer(assignment).explain)
    return tuple(
        UnplacedPod(pod.namespace, pod.name, message, pod.uid, reasons, fits_empty_fleet)
        for pod in _without_node(assignment)
        for message, reasons, fits_empty_fleet in [explain(pod.shape)]
    )


def _without_node(assignment: Assignment) -> list[Pod]:
    """The last ones of interchangeable pods, because the first ones were placed."""
    placed: set[tuple[str, str]] = set()
    for group, number in zip(assignment.problem.groups, assignment.counts.sum(axis=1).tolist()):
        placed.update((pod.namespace, pod.name) for pod in group.pods[:number])
    pods = assignment.problem.instance.pods
    return [pod for pod in pods if (pod.namespace, pod.name) not in placed]


class _Explainer:
    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._instance: Instance = assignment.problem.instance
        self._group = {group.shape: index for index, group in enumerate(assignment.problem.groups)}
        resources = assignment.problem.resources
        self._free = [
            {**node.free, **dict(zip(resources, left))}
            for node, left in zip(self._instance.nodes, assignment.free.tolist())
        ]
        self._power = DomainPower(assignment.problem) if self._instance.domains else None

    def explain(self, shape: Shape) -> tuple[str, t.Mapping[str, int], bool | None]:
        """The message, the reasons, and whether an empty fleet has a node."""
        counted: Counter[str] = Counter()
        related = self._related_reasons(shape)
        for index, (node, free, reason) in enumerate(
            zip(self._instance.nodes, self._free, related)
        ):
            counted.update(
                self._reasons_of_node(shape, node, free, reason)
                or self._power_reasons(shape, index)
            )
        reasons = dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
        fits_empty_fleet = None if shape.refusals else self._fits_empty_fleet(shape)
        return self._message(shape, reasons), reasons, fits_empty_fleet

    def _message(self, shape: Shape, reasons: t.Mapping[str, int]) -> str:
        """A reason of the pod itself appears once, without a number of nodes."""
        nodes = len(self._instance.nodes)
        if shape.refusals == (shape.unready,) and nodes:
            return f"0/{nodes} nodes are available: {shape.unready}."
        return availability_message(reasons, nodes)

    def _related_reasons(self, shape: Shape) -> list[str | None]:
        nodes = len(self._instance.nodes)
        related = self._assignment.related
        if related is None or shape not in self._group:
            return [None] * nodes
        reasons = related.reasons(self._group[shape])
        if shape.relations.gang:
            return [reason or INCOMPLETE_GANG for reason in reasons]
        return reasons

    def _reasons_of_node(
        self, shape: Shape, node: Node, free: t.Mapping[str, int], related: str | None
    ) -> list[str]:
        if shape.refusals:
            return list(shape.refusals)
        if self._group.get(shape) in self._assignment.problem.unread:
            return [f"unsupported: {OUT_OF_TIME}"]
        held = node.promises_to(shape.priority)
        node = node.seen_by(shape.priority)
        for promise in held:
            free = {**free, **{name: free.get(name, 0) - most for name, most in promise.requests}}
        reason = obstacle(replace(shape.constraints, volumes=(), disks=()), node)
        if reason is not None:
            return [reason]
        if node.name in self._instance.closed:
            return [self._instance.closed[node.name]]
        if node.curve is None and not self._instance.rules.use_unpriced:
            return [NO_CURVE]
        missing = shortages(shape.requests, free)
        volumes = volume_obstacles(shape.constraints, node)
        in_order = (
            [reason for reason in missing if reason != TOO_MANY_VOLUMES],
            [reason for reason in volumes if reason in (DISK_TAKEN, CLAIM_IN_USE)],
            missing,
            volumes,
            [related] if related is not None else [],
        )
        return next(filter(None, in_order), [])

    def _power_reasons(self, shape: Shape, node: int) -> list[str]:
        """The power limit that a pod would exceed on a node that has room for it."""
        group = self._group.get(shape)
        if self._power is None or group is None:
            return []
        reason = self._power.reason(self._assignment, group, node)
        return [] if reason is None else [reason]

    def _fits_empty_fleet(self, shape: Shape) -> bool:
        """Whether a node that the pod may run on is large enough for it, apart from other pods."""
        constraints = replace(
            shape.constraints, anti_affinity_nodes=frozenset(), ports=(), disks=()
        )
        usable = self._instance.rules.use_unpriced
        return any(
            obstacle(constraints, node) is None
            and (usable or node.curve is not None)
            and not shortages(shape.requests, node.allocatable)
            and cache_runs.fits_empty_node(shape.cache_runs, node.cache_pools)
            and device_checks.fits_empty_node(self._instance.claims, shape, node)
            for node in self._instance.nodes
        )
