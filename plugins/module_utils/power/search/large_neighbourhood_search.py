# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Large neighbourhood search: HiGHS places the pods of a few nodes anew, again and again.

Moves and exchanges change two nodes at a time. Where memory binds or nodes may sleep, less power
often needs changes on several nodes at once (Shaw, Using constraint programming and local search
methods to solve vehicle routing problems, 1998).
"""

from __future__ import annotations

import random
import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Integers
from ...solving.limits import Limits
from ..exact.mixed_integer_model import PlacementModel
from ..model.assignment import Assignment
from ..model.node_functions import NodeFunctions

# Nodes of a neighbourhood. More nodes would take HiGHS several times as long.
_NODES = 4
# On an idle core this takes less than half of the time limit.
_NEIGHBOURHOODS_PER_SECOND = 5
_BRANCHING_NODES = 30
# Smaller gains cost more time than they are worth.
_MIN_GAIN_WATTS = 0.02


def search_neighbourhoods(
    start: Assignment, functions: NodeFunctions, enough: float, limits: Limits
) -> Assignment:
    """An assignment of the same pods that costs no more; the search ends at ``enough`` watts.

    Nodes with pods that have rules stay as they are.
    """
    problem = start.problem
    movable = problem.freely_movable
    ruled = (start.counts[~movable] > 0).any(axis=0)
    open_nodes = _efficient_first(functions, (problem.costs.priced & ~ruled).nonzero()[0])
    size = min(_NODES, len(open_nodes))
    if size < 2:
        return start
    chance = random.Random(limits.seed)
    best, cost = start, start.total_cost()
    for _number in range(int(limits.seconds * _NEIGHBOURHOODS_PER_SECOND)):
        if cost <= enough or limits.expired():
            break
        nodes = _neighbourhood(best, open_nodes, size, chance)
        counts = _placed_anew(best, functions, nodes, limits)
        if counts is None:
            continue
        found = Assignment(problem, counts)
        if found.total_cost() < cost - _MIN_GAIN_WATTS and found.is_feasible():
            best, cost = found, found.total_cost()
    return best


def _efficient_first(functions: NodeFunctions, nodes: Integers) -> list[int]:
    """The nodes by their power for a core at full load."""
    cores = numpy.maximum(functions.added[nodes, -1], 1e-9)
    order = numpy.argsort(functions.watts[nodes, -1] / cores, kind="stable")
    return [int(node) for node in nodes[order]]


def _neighbourhood(
    best: Assignment, open_nodes: t.Sequence[int], size: int, chance: random.Random
) -> list[int]:
    """Half of the nodes have pods of this placement; the others are mostly efficient ones."""
    loaded = [node for node in open_nodes if best.pods[node]]
    nodes = set(chance.sample(loaded, min(size // 2, len(loaded))))
    while len(nodes) < size:
        nodes.add(open_nodes[int(len(open_nodes) * chance.random() ** 2)])
    return sorted(nodes)


def _placed_anew(
    best: Assignment, functions: NodeFunctions, nodes: t.Sequence[int], limits: Limits
) -> Integers | None:
    """Counts (G, N) with the pods of these nodes placed anew; None without a solution."""
    pods = best.counts[:, nodes].sum(axis=1)
    if not pods.any():
        return None
    model = PlacementModel(best.problem, functions, nodes, pods)
    model.keep_placed(pods)
    model.minimize_cost()
    solution = model.solve(limits, _BRANCHING_NODES, _MIN_GAIN_WATTS)
    if not solution.values:
        return None
    counts = best.counts.copy()
    counts[:, nodes] = model.counts(solution)[:, nodes]
    return counts if (counts.sum(axis=1) == best.counts.sum(axis=1)).all() else None
