# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moves of one pod and exchanges of two, as long as they save watts.

Nodes' costs are independent of each other, so the best move of a group is the best departure plus
the best arrival, and an exchange likewise. In one round every candidate is found on the same state
and those that touch different nodes are carried out together.
"""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.power.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits import Limits

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]
    Integers = NDArray[numpy.int64]

_LEAST_GAIN_WATTS = 1e-6
# Entries of the table of exchanges (groups × groups × nodes): 32 MB.
_EXCHANGE_TABLE = 4_000_000


class Step(t.NamedTuple):
    """One pod of ``group`` goes from ``source`` to ``target``, one of ``back`` the other way."""

    cost: float
    group: int
    source: int
    target: int
    back: int | None = None


def improve(assignment: Assignment, limits: Limits, rounds: int) -> bool:
    """Search for at most so many rounds; True when nothing better is in reach.

    The assignment stays feasible, and as many pods of each group are placed as before.
    """
    numpy = require("numpy")
    random = numpy.random.default_rng(limits.seed)
    for _round in range(rounds):
        if limits.expired():
            return False
        steps = _moves(assignment)
        if not steps:
            steps = _exchanges(assignment, random)
        if not steps:
            return True
        _carry_out(assignment, steps)
    return False


def _carry_out(assignment: Assignment, steps: list[Step]) -> None:
    touched: set[int] = set()
    for step in sorted(steps):
        if step.source in touched or step.target in touched:
            continue
        touched |= {step.source, step.target}
        assignment.place(step.group, step.source, -1)
        if step.back is not None:
            assignment.place(step.back, step.target, -1)
            assignment.place(step.back, step.source)
        assignment.place(step.group, step.target)


def _moves(assignment: Assignment) -> list[Step]:
    """The best move of each group that has one."""
    numpy = require("numpy")
    nodes = assignment.all_nodes
    steps = []
    for group in range(len(assignment.problem.groups)):
        sources = assignment.counts[group].nonzero()[0]
        targets = assignment.fits(group, nodes).nonzero()[0]
        if not len(sources) or not len(targets):
            continue
        departure = assignment.added_cost(group, sources, -1)
        arrival = assignment.added_cost(group, targets)
        step = _best_pair(numpy, group, None, (sources, departure), (targets, arrival))
        if step is not None:
            steps.append(step)
    return steps


def _best_pair(
    numpy: t.Any,
    group: int,
    back: int | None,
    departure: tuple[Integers, Floats],
    arrival: tuple[Integers, Floats],
) -> Step | None:
    """The cheapest pair of different nodes, if it saves watts."""
    best: Step | None = None
    for source, leaving in _two_cheapest(numpy, *departure):
        for target, entering in _two_cheapest(numpy, *arrival):
            cost = leaving + entering
            if source != target and cost < (-_LEAST_GAIN_WATTS if best is None else best.cost):
                best = Step(cost, group, source, target, back)
    return best


def _two_cheapest(numpy: t.Any, nodes: Integers, costs: Floats) -> list[tuple[int, float]]:
    first = int(costs.argmin())
    pairs = [(int(nodes[first]), float(costs[first]))]
    if len(costs) > 1:
        others = costs.copy()
        others[first] = numpy.inf
        second = int(others.argmin())
        pairs.append((int(nodes[second]), float(costs[second])))
    return pairs


def _exchanges(assignment: Assignment, random: t.Any) -> list[Step]:
    """The best exchange of each pair of groups that has one; of many groups a random part."""
    numpy = require("numpy")
    groups = assignment.counts.sum(axis=1).nonzero()[0]
    most = max(2, int((_EXCHANGE_TABLE / max(len(assignment.all_nodes), 1)) ** 0.5))
    if len(groups) > most:
        groups = numpy.sort(random.choice(groups, size=most, replace=False))
    table = {
        (int(leaving), int(entering)): _exchange_costs(assignment, int(entering), int(leaving))
        for leaving in groups
        for entering in groups
        if leaving != entering
    }
    steps = []
    for (group, back), departure in table.items():
        arrival = table[back, group]
        if group < back and len(departure[0]) and len(arrival[0]):
            step = _best_pair(numpy, group, back, departure, arrival)
            if step is not None:
                steps.append(step)
    return steps


def _exchange_costs(assignment: Assignment, entering: int, leaving: int) -> tuple[Integers, Floats]:
    """Nodes where one pod of ``entering`` can take the place of one of ``leaving``; the costs."""
    problem = assignment.problem
    nodes = assignment.fits_instead(entering, leaving).nonzero()[0]
    costs = assignment.change(
        nodes,
        problem.use[entering] - problem.use[leaving],
        0,
        int(problem.is_workload[entering]) - int(problem.is_workload[leaving]),
    )
    return nodes, costs
