# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Added CPU use in whole steps, the greatest common divisor of all pods' use.

Requests are round numbers, so a node has few possible loads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ...base.libraries import numpy
from ...solving.arrays import Floats, Integers
from ..model.problem import Problem

# Tables of all nodes together have at most so many entries.
_MAX_ENTRIES = 2_000_000


@dataclass(frozen=True)
class Loads:
    """``step`` in microcores, ``units[g]`` steps for each pod of a group, and ``most[n]`` the steps
    for which the resources of each node have room."""

    problem: Problem
    step: int
    units: Integers
    most: Integers

    def watts(self, node: int, present: int, most: int, *, awake: bool) -> Floats:
        """Watts with ``present`` steps and 0 to ``most`` more.

        Without added steps a node that may sleep does so, unless it is kept ``awake``.
        """
        costs = self.problem.costs
        steps = numpy.arange(most + 1)
        workload = steps + int(awake)
        nodes = numpy.full(most + 1, node)
        return costs.of(nodes, (present + steps) * self.step, steps, workload)


def loads_of(problem: Problem) -> Loads | None:
    """None if the steps are too small."""
    step = math.gcd(*problem.use.tolist())
    if not step:
        return None
    units = problem.use // step
    most = _most_steps(problem, units)
    if (most + 1).sum() > _MAX_ENTRIES:
        return None
    return Loads(problem, step, units, numpy.maximum(most, 0))


def _most_steps(problem: Problem, units: Integers) -> Integers:
    """Steps of all pods that the node admits, or less if a resource binds first."""
    most = problem.limit.T @ units
    uses = units > 0
    for resource in range(problem.request.shape[1]):
        request = problem.request[uses, resource]
        if len(request) and (request > 0).all():
            # What the most frugal pods take for a step, without rounding.
            least = min(map(Fraction, request.tolist(), units[uses].tolist()))
            free = numpy.maximum(problem.free[:, resource], 0)
            fitting = numpy.array([int(each / least) for each in free.tolist()], dtype=object)
            most = numpy.minimum(most, fitting)
    return most.astype(numpy.int64)
