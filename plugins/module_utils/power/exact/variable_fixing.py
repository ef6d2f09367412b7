# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What cannot be part of a better placement: at these prices it costs more than there is to gain.

Each node's part of the Lagrangian bound is compared with what it becomes when the node has to take
a pod, a run of its curve, or sleep. If the bound rises above the best placement known, no better
one does so.
"""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import numpy
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.lagrangian_subproblem import (
    Prices,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.bounds.lower_bound import (
    LowerBounds,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.exact.mixed_integer_model import (
    Candidates,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.node_functions import (
    convex_runs,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.instance import (
    MICROCORES_PER_CORE,
)

if t.TYPE_CHECKING:
    from ansible_collections.wattwise.kube.plugins.module_utils.solving.arrays import (
        Integers,
    )


# So many pods of a group on a node are told apart.
_MOST_FORCED = 4


def fix_variables(
    bounds: LowerBounds, prices: Prices, placed: Integers, unpriced_pods: int, cost: float
) -> Candidates:
    """What may be part of a placement of the same pods that costs at most so much."""
    problem = bounds.problem
    pieces, runs = _exact_pieces(bounds, prices)
    pieces = bounds.tighten(pieces, placed)
    least = bounds.subproblem.solve(pieces, placed).least
    awake = bounds.of_nodes(pieces, least)
    asleep = bounds.asleep(pieces.pod, placed)
    of_node = numpy.where(problem.costs.sleeper, numpy.minimum(awake, asleep), awake)
    to_gain = cost - bounds.total(of_node, pieces.pod, placed, unpriced_pods)
    alive = least <= of_node[pieces.node] + to_gain
    may_sleep = problem.costs.sleeper & (asleep <= of_node + to_gain)
    most = numpy.minimum(problem.limit, placed[:, None])
    for group in range(len(problem.groups)):
        open_to = problem.costs.priced & ~(may_sleep & ~problem.is_workload[group])
        for number in range(1, _MOST_FORCED + 1):
            trying = open_to & (most[group] >= number)
            if not trying.any():
                break
            some = (alive & trying[pieces.node]).nonzero()[0]
            loads = bounds.subproblem.solve(pieces.of(some), placed, (group, number))
            forced = bounds.of_nodes(pieces.of(some), loads.least)
            dead = trying & (forced > of_node + to_gain)
            most[group, dead] = number - 1
    return Candidates(
        most,
        frozenset(runs[piece] for piece in alive.nonzero()[0].tolist()),
        frozenset(may_sleep.nonzero()[0].tolist()),
    )


def _exact_pieces(bounds: LowerBounds, prices: Prices) -> tuple[Prices, list[tuple[int, int]]]:
    """The prices for pieces that are the convex runs of each node, and (node, run) of each."""
    costs = bounds.problem.costs
    names: list[tuple[int, int]] = []
    rows: list[tuple[float, float, int]] = []
    for node in costs.priced.nonzero()[0].tolist():
        base, mine = float(costs.base[node]), (prices.node == node).nonzero()[0]
        runs = convex_runs(bounds.functions.points(node))
        ends = [base + run[-1][0] * MICROCORES_PER_CORE for run in runs[:-1]]
        for index, (low, high) in enumerate(zip([-numpy.inf, *ends], [*ends, numpy.inf])):
            middle = (max(low, base) + min(high, base + runs[-1][-1][0] * MICROCORES_PER_CORE)) / 2
            inside = (prices.low[mine] <= middle) & (middle <= prices.high[mine])
            names.append((node, index))
            rows.append((low, high, int(mine[inside.argmax()])))
    source = numpy.array([row[2] for row in rows], dtype=numpy.int64)
    return (
        Prices(
            prices.pod,
            numpy.array([node for node, _run in names], dtype=numpy.int64),
            numpy.array([row[0] for row in rows], dtype=float),
            numpy.array([row[1] for row in rows], dtype=float),
            prices.resource[source],
        ),
        names,
    )
