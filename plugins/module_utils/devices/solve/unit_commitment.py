# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Unit commitment: the nodes to use for thousands of plain claims at the least power.

A node in use offers its devices to all claims equally. So the model has a number for each pair of a
kind of claims and a kind of devices, independent of nodes, and one binary for each node. With the
binaries fixed the rest is a flow, which has integral optimal solutions.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ...solving.limits import Limits
from ...solving.linear import LinearModel, solve

# Nodes of HiGHS' search: counted, so that equal input gives an equal answer.
_BRANCHING_NODES = 300


@dataclass(frozen=True)
class DeviceKind:
    """Devices that the same claims may use, with the ranks of the groups, and their nodes."""

    members: tuple[tuple[int, int], ...]
    milliwatts: int
    by_node: t.Mapping[str, int]


@dataclass(frozen=True)
class Demand:
    """Number of claims of each group, its priority, and number of satisfied claims by priority.

    ``rank`` is the allowed sum of ranks.
    """

    sizes: t.Sequence[int]
    priorities: t.Sequence[int]
    satisfied: t.Mapping[int, int]
    rank: int


def nodes_to_wake(
    kinds: t.Sequence[DeviceKind], wake: t.Mapping[str, int], demand: Demand, limits: Limits
) -> tuple[frozenset[str] | None, int, bool]:
    """The nodes, including those in use already; a bound in mW; and whether it is reached.

    ``wake`` has the milliwatts of each node, 0 for a node in use. Without nodes there was no answer
    within the limit.
    """
    model, awake = _model(kinds, wake, demand)
    solution = solve(model, limits, _BRANCHING_NODES)
    bound = max(0, math.floor(solution.bound)) if solution.bound > -math.inf else 0
    if not solution.values:
        return None, bound, False
    chosen = frozenset(node for node, column in awake.items() if solution.values[column] > 0.5)
    return chosen, round(solution.bound) if solution.is_optimal else bound, solution.is_optimal


def _model(
    kinds: t.Sequence[DeviceKind], wake: t.Mapping[str, int], demand: Demand
) -> tuple[LinearModel, dict[str, int]]:
    """The model, and the column of each node."""
    model = LinearModel()
    awake = {
        node: model.column(0 if cost else 1, 1, cost, integer=True) for node, cost in wake.items()
    }
    by_group: list[list[tuple[int, float]]] = [[] for _group in demand.sizes]
    ranks: list[tuple[int, float]] = []
    for kind in kinds:
        offered: list[tuple[int, float]] = [
            (awake[node], -count) for node, count in kind.by_node.items()
        ]
        for group, rank in kind.members:
            most = min(demand.sizes[group], sum(kind.by_node.values()))
            column = model.column(0, most, kind.milliwatts)
            by_group[group].append((column, 1))
            ranks.append((column, rank))
            offered.append((column, 1))
        model.at_most(offered, 0)
    for group, terms in enumerate(by_group):
        model.at_most(terms, demand.sizes[group])
    for priority, count in demand.satisfied.items():
        of_priority = [
            term
            for group, terms in enumerate(by_group)
            if demand.priorities[group] == priority
            for term in terms
        ]
        model.equal(of_priority, count)
    model.at_most(ranks, demand.rank)
    return model, awake
