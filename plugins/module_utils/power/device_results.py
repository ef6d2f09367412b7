# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Devices of the placed pods, in the terms of each API.

The placement is fixed, so every node is a separate task for the allocator, and so are pods that
compete for devices of several nodes. The allocator also leaves large partitions free and keeps
devices close to each other. If its power exceeds that of the placement, the feasibility check's own
answer stands.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.json_types import Object
from ..scheduling.model import Pod
from ..solving.limits import Limits
from .constraints.device_claims import ClaimTask
from .model.assignment import Assignment

if t.TYPE_CHECKING:
    from ..devices.model.model import ClaimAllocation, Instance

# Time limit of the allocator for one task.
_ALLOCATION_SECONDS = 10.0


def allocations(assignment: Assignment, placed: t.Iterable[tuple[Pod, int]]) -> list[Object]:
    """Allocation of each claim of the placed pods, in the order of the claims of each API."""
    claims = assignment.problem.instance.claims
    nodes = assignment.problem.instance.nodes
    unpriced = frozenset(node.name for node in nodes if node.curve is None)
    node_of = {(pod.namespace, pod.name): nodes[node].name for pod, node in placed}
    found: list[Object] = []
    for task in claims.tasks if claims else ():
        units: dict[str, list[int]] = {}
        for unit, pods in enumerate(task.task.pods):
            there = [node_of[pod] for pod in pods if pod in node_of]
            if there:
                units.setdefault(there[0], []).append(unit)
        given = _given(task, units, unpriced)
        instance = task.task.instance
        found += [
            {
                "namespace": instance.claims[claim].namespace,
                "name": instance.claims[claim].name,
                "uid": instance.claims[claim].uid,
                "node": given[claim].node,
                "allocation": task.task.result(claim, given[claim]),
            }
            for claim in sorted(given)
        ]
    return found


def _given(
    task: ClaimTask, units: t.Mapping[str, list[int]], unpriced: frozenset[str]
) -> dict[int, ClaimAllocation]:
    found: dict[int, ClaimAllocation] = {}
    alone = set(range(len(task.task.pods)))
    for fleet in task.fleets:
        coupled = {unit for key in fleet for unit in task.units[key]}
        alone -= coupled
        places = _only(units, coupled)
        counted = task.joint_feasibility.on_nodes(places, unpriced).allocations
        # The allocator cannot ignore the power draw of devices on some nodes.
        priced = unpriced.isdisjoint(places)
        found.update(_refined(task, places, counted) if priced else counted)
    for node, its_units in sorted(_only(units, alone).items()):
        counted = task.joint_feasibility.on_node(node, its_units).allocations
        found.update(_refined(task, {node: its_units}, counted))
    return found


def _only(units: t.Mapping[str, list[int]], wanted: t.AbstractSet[int]) -> dict[str, list[int]]:
    """The wanted units of each node; nodes without any are left out."""
    kept = {
        node: [unit for unit in its_units if unit in wanted] for node, its_units in units.items()
    }
    return {node: its_units for node, its_units in kept.items() if its_units}


def _refined(
    task: ClaimTask,
    places: t.Mapping[str, t.Sequence[int]],
    counted: t.Mapping[int, ClaimAllocation],
) -> t.Mapping[int, ClaimAllocation]:
    """The best answer by all levels of device_allocation, if it is as good as the placement's."""
    from ..devices.model.objective import Objective
    from ..devices.solve import optimal

    instance = _placed(task.task.instance, places)
    answer = optimal.solve(instance, Limits(_ALLOCATION_SECONDS)).claims
    mine = [counted.get(claim) for claim in range(len(instance.claims))]
    values = Objective(instance).values
    best = min(mine, list(answer), key=values)
    return {claim: given for claim, given in enumerate(best) if given is not None}


def _placed(instance: Instance, places: t.Mapping[str, t.Sequence[int]]) -> Instance:
    """The instance with only these units, each on its node."""
    return dataclasses.replace(
        instance,
        units=tuple(
            dataclasses.replace(instance.units[unit], nodes=frozenset([node]))
            for node, units in places.items()
            for unit in units
        ),
    )
