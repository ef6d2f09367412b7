# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The fewest nodes that must stay awake to hold the placed pods.

The linear relaxation wakes parts of nodes. If ten nodes are awake, rounding up to whole nodes is
worth several per cent of the power draw.
"""

from __future__ import annotations

from ...base.libraries import numpy
from ...solving.arrays import Integers
from ..model.problem import Problem


def fewest_awake(problem: Problem, placed: Integers) -> int:
    """Number of nodes that could sleep, but must host some of ``placed[g]`` pods of each group.

    Each resource needs a number of nodes, those with the most of it first; the largest one counts.
    """
    sleeper = problem.costs.sleeper
    free = numpy.maximum(problem.free, 0)
    workload = numpy.where(problem.is_workload, placed, 0)
    lacking = workload @ problem.request - free[~sleeper].sum(axis=0)
    if not (lacking > 0).any():
        return 0
    most_free_first = -numpy.sort(-free[sleeper], axis=0)
    too_few = numpy.cumsum(most_free_first, axis=0) < lacking
    return min(int(too_few.sum(axis=0).max()) + 1, int(sleeper.sum()))
