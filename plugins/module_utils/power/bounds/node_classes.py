# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Classes of similar nodes, so that a linear model of a large fleet stays small.

A model of node classes is approximate if the nodes of a class differ. It gives prices and a start,
which are evaluated on the real nodes afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.libraries import numpy
from ...scheduling.model import MICROCORES_PER_CORE
from ...solving.arrays import Floats, Integers
from ..model.node_functions import NodeFunctions, Points, nearly_convex_runs
from ..model.problem import Problem

# The power draw of two nodes of a node class differs by at most this share of the power draw at
# full use.
_UNLIKE_WATTS = 0.1
_POINTS_COMPARED = 5
# Bulges of a curve up to this share of its range count as straight.
_TOLERATED_BULGE = 0.01


@dataclass(frozen=True)
class NodeClass:
    """Nodes that count as copies of their median node.

    ``runs`` are its watts over added cores, cut into convex parts, relative to the power draw
    without added load.
    """

    nodes: Integers
    middle: int
    runs: tuple[Points, ...]


def find_node_classes(problem: Problem, functions: NodeFunctions, wanted: int) -> list[NodeClass]:
    """About ``wanted`` node classes; more if nodes admit different pods."""
    signatures, keys, profile = _features(problem, functions)
    order = numpy.lexsort(keys.T[::-1])
    largest = -(-len(order) // max(wanted, 1))
    node_classes: list[list[int]] = []
    for node in order.tolist():
        if not node_classes or not _belongs(
            node_classes[-1], node, largest, (signatures, keys, profile)
        ):
            node_classes.append([])
        node_classes[-1].append(node)
    return [_node_class(problem, functions, numpy.array(nodes)) for nodes in node_classes]


def _features(problem: Problem, functions: NodeFunctions) -> tuple[Integers, Floats, Floats]:
    """Admitted pods of a node, the order of nodes, and watts at some points of their curves."""
    costs = problem.costs
    opened = (problem.limit > 0).T
    if problem.preference is not None:
        opened = numpy.concatenate([opened, problem.preference.T], axis=1)
    signatures = numpy.unique(opened, axis=0, return_inverse=True)[1].reshape(-1)
    points = numpy.linspace(0, costs.heights.shape[1] - 1, _POINTS_COMPARED).astype(int)
    profile = costs.heights[:, points]
    keys = numpy.concatenate(
        [
            numpy.stack([~costs.priced, signatures, costs.sleeper], axis=1),
            costs.knots[:, -1:],
            profile[:, -1:] - profile[:, :1],
            functions.added[:, -1:],
            problem.free,
        ],
        axis=1,
    )
    return signatures, keys, profile


def _belongs(
    node_class: list[int], node: int, largest: int, features: tuple[Integers, Floats, Floats]
) -> bool:
    signatures, keys, profile = features
    first, last = node_class[0], node_class[-1]
    if len(node_class) >= largest and (keys[node] != keys[last]).any():
        return False
    difference = abs(profile[node] - profile[first]).max()
    return bool(
        signatures[node] == signatures[first]
        and (keys[node, :4] == keys[first, :4]).all()
        and difference <= _UNLIKE_WATTS * profile[first].max()
    )


def _node_class(problem: Problem, functions: NodeFunctions, nodes: Integers) -> NodeClass:
    middle = int(nodes[len(nodes) // 2])
    points = functions.points(middle)
    idle = points[0][1]
    points = [(cores, watts - idle) for cores, watts in points]
    heights = [watts for _cores, watts in points]
    bulge = _TOLERATED_BULGE * (max(heights) - min(heights))
    return NodeClass(nodes, middle, tuple(nearly_convex_runs(points, bulge)))


def run_limits(problem: Problem, node_class: NodeClass) -> list[tuple[float, float]]:
    """Range of use in microcores of each run of a node class, including the present use.

    Together the runs cover the whole range.
    """
    base = float(problem.costs.base[node_class.middle])
    ends = [base + run[-1][0] * MICROCORES_PER_CORE for run in node_class.runs[:-1]]
    return list(zip([float("-inf"), *ends], [*ends, float("inf")]))
