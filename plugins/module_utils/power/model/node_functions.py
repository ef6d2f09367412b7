# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Cost of each node as a function of its added CPU use."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...base.libraries import numpy
from ...scheduling.model import MICROCORES_PER_CORE
from ...solving.arrays import Booleans, Floats
from .costs import NodeCosts
from .problem import Problem

# (added cores, watts), by ascending cores
Points = list[tuple[float, float]]

_SLOPE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class NodeFunctions:
    """Breakpoints of all nodes' curves from their present use to the largest possible one.

    ``added[n]`` in cores ascends and begins with 0; equal neighbours are padding. ``watts[n]`` are
    its watts, for a node that is awake. Convex corners that no number of whole pods reaches are cut
    off, so the functions are exact at all loads of whole pods, and higher in between.
    """

    added: Floats
    watts: Floats

    def points(self, node: int) -> Points:
        """The breakpoints of one node, each once."""
        pairs = zip(self.added[node].tolist(), self.watts[node].tolist())
        unique: Points = []
        for cores, watts in pairs:
            if not unique or cores > unique[-1][0]:
                unique.append((cores, watts))
        return unique


def node_functions(problem: Problem) -> NodeFunctions:
    """The functions of all nodes, unpriced ones (flat) included."""
    costs = problem.costs
    nodes = numpy.arange(len(problem.instance.nodes))
    step = max(1, math.gcd(*problem.use.tolist()))
    most = (_most_added_use(problem) // step * step)[:, None]
    knots = numpy.clip(costs.knots - costs.base[:, None], 0.0, most)
    bends_up = _bends_up(costs)
    below = numpy.where(bends_up, numpy.floor(knots / step) * step, knots)
    above = numpy.where(bends_up, numpy.ceil(knots / step) * step, knots).clip(0.0, most)
    ends = [numpy.zeros_like(most), most]
    added = numpy.sort(numpy.concatenate([*ends, below, above], axis=1), axis=1)
    watts = costs.watts(nodes[:, None], costs.base[:, None] + added)
    return NodeFunctions(added / MICROCORES_PER_CORE, watts)


def _bends_up(costs: NodeCosts) -> Booleans:
    """Mask of convex knots; cutting only these off makes a function that is higher in between."""
    lengths = numpy.diff(costs.knots, axis=1)
    slopes = numpy.diff(costs.heights, axis=1) / numpy.where(lengths > 0, lengths, 1.0)
    flat = numpy.zeros((len(slopes), 1))
    before = numpy.concatenate([flat, slopes], axis=1)
    after = numpy.concatenate([slopes, flat], axis=1)
    is_padding = numpy.concatenate([flat > 0, lengths == 0], axis=1)
    found: Booleans = (before < after) & ~is_padding
    return found


def _most_added_use(problem: Problem) -> Floats:
    """Largest number of microcores that placing can add to each node."""
    together: Floats = (problem.limit * problem.use[:, None]).sum(axis=0).astype(float)
    if "cpu" not in problem.resources:
        return together
    cpu = problem.resources.index("cpu")
    asked = problem.request[:, cpu]
    # Pods without a CPU request use no CPU, so free CPU limits the use.
    per_millicore = (problem.use / numpy.maximum(asked, 1)).max(initial=0.0)
    within_free = numpy.maximum(problem.free[:, cpu], 0) * per_millicore
    found: Floats = numpy.minimum(together, within_free)
    return found


def lower_hull(points: Points) -> Points:
    """The corners of the lower convex hull of the points, which ascend in cores."""
    hull: Points = []
    for point in points:
        while len(hull) > 1 and not _turns_up(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _turns_up(
    first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]
) -> bool:
    rise, run = middle[1] - first[1], middle[0] - first[0]
    return rise * (last[0] - first[0]) < (last[1] - first[1]) * run


def nearly_convex_runs(points: Points, tolerance: float) -> list[Points]:
    """The points cut into runs on which the function is convex within a tolerance in watts.

    Each run is given by the corners of its lower hull.
    """
    runs: list[Points] = []
    start = 0
    while start < len(points) - 1:
        end = start + 2
        while end < len(points) and _bulge(points[start : end + 1]) <= tolerance:
            end += 1
        runs.append(lower_hull(points[start:end]))
        start = end - 1
    return runs or [points]


def _bulge(points: Points) -> float:
    """The largest distance in watts of the function from its lower hull."""
    cores, watts = zip(*points)
    hull_cores, hull_watts = zip(*lower_hull(points))
    return float((watts - numpy.interp(cores, hull_cores, hull_watts)).max())


def convex_runs(points: Points) -> list[Points]:
    """The points cut into the fewest runs on which the function is convex."""
    runs: list[Points] = [points[:1]]
    slope = float("-inf")
    for left, right in zip(points, points[1:]):
        next_slope = (right[1] - left[1]) / (right[0] - left[0])
        if next_slope < slope - _SLOPE_TOLERANCE:
            runs.append([left])
        runs[-1].append(right)
        slope = next_slope
    return runs
