# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Limits of the load of nodes, as a resource of which each pod takes its CPU use."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ...base.libraries import numpy
from ...scheduling.curve import Curve
from ...scheduling.model import MICROCORES_PER_CORE
from ...solving.arrays import Floats, Integers
from ..constraints.instance import Instance

if t.TYPE_CHECKING:
    from .problem import Problem

_TOLERANCE_WATTS = 1e-6


def node_load_limits(instance: Instance) -> Floats:
    """Microcores that each node may get before its own power limit; infinite without one."""
    index_of = {node.name: index for index, node in enumerate(instance.nodes)}
    most: Floats = numpy.full(len(instance.nodes), numpy.inf)
    for domain in instance.domains:
        if domain.kind == "node":
            node = instance.nodes[index_of[domain.name]]
            if node.curve is not None:
                limit = domain.limit_watts - domain.beside_watts + _TOLERANCE_WATTS
                within = _use_within(node.curve, limit, node.use_microcores)
                most[index_of[domain.name]] = within - node.use_microcores
    return most


def _use_within(curve: Curve, limit: float, base: int) -> float:
    """The use in microcores, from the base on, up to which the curve keeps to the limit in W."""
    points = [(at * MICROCORES_PER_CORE, height) for at, height in zip(curve.cores, curve.watts)]
    for (left, low), (right, high) in zip(points, points[1:]):
        if right <= base or high <= limit:
            continue
        share = max(0.0, (limit - low) / (high - low)) if high > low else 0.0
        return max(float(base), left + share * (right - left))
    return numpy.inf if curve.watts[-1] <= limit else float(base)


def load_column(most: Floats, cap: int) -> Integers:
    """The limits as free amounts of a resource; ``cap`` stands for no limit."""
    found: Integers = numpy.floor(numpy.minimum(most, cap)).astype(numpy.int64)
    return found


def narrowed(problem: Problem, most: Floats) -> Problem:
    """The problem with at most these further microcores on each node."""
    free = load_column(most, 1 + int((problem.use * problem.count).sum()))
    request = numpy.column_stack([problem.request, problem.use])
    fitting = numpy.maximum(free, 0)[None, :] // numpy.maximum(problem.use, 1)[:, None]
    fitting = numpy.where(problem.use[:, None] > 0, fitting, problem.limit)
    return replace(
        problem,
        resources=(*problem.resources, "load within power limits"),
        request=request,
        free=numpy.column_stack([problem.free, free]),
        limit=numpy.minimum(problem.limit, fitting),
    )
