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
# Entries of the table of exchanges (groups × groups × nodes), 32 MB, and of the part of it that is
# computed at once.
_EXCHANGE_TABLE = 4_000_000
_EXCHANGE_CHUNK = 250_000


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
    exchanges: _Exchanges | None = None
    for _round in range(rounds):
        if limits.expired():
            return False
        steps = _moves(assignment)
        if not steps:
            exchanges = exchanges or _Exchanges(assignment, limits.seed)
            steps = exchanges.steps()
        if not steps:
            return True
        touched = _carry_out(assignment, steps)
        if exchanges is not None:
            exchanges.forget(touched)
    return False


def _carry_out(assignment: Assignment, steps: list[Step]) -> set[int]:
    """Carry out the best steps that touch different nodes; return those nodes."""
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
    return touched


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


class _Exchanges:
    """What every node costs more when a pod of one group takes the place of one of another.

    ``_costs[i, j, n]``: group ``j`` enters node ``n`` and ``i`` leaves it; infinite where that
    cannot be. Of many groups a random part is looked at.
    """

    def __init__(self, assignment: Assignment, seed: int) -> None:
        self._numpy = numpy = require("numpy")
        self._assignment = assignment
        nodes = assignment.all_nodes
        groups = assignment.counts.sum(axis=1).nonzero()[0]
        most = max(2, int((_EXCHANGE_TABLE / max(len(nodes), 1)) ** 0.5))
        if len(groups) > most:
            random = numpy.random.default_rng(seed)
            groups = numpy.sort(random.choice(groups, size=most, replace=False))
        self._groups: Integers = groups
        self._costs: Floats = numpy.empty((len(groups), len(groups), len(nodes)))
        self._stale: set[int] = set(nodes.tolist())

    def forget(self, nodes: set[int]) -> None:
        """The costs of these nodes have changed."""
        self._stale |= nodes

    def steps(self) -> list[Step]:
        """The best exchange of each pair of groups that has one."""
        numpy = self._numpy
        self._refresh()
        if not len(self._groups):
            return []
        cheapest = self._costs.min(axis=2)
        promising = numpy.triu(cheapest + cheapest.T < -_LEAST_GAIN_WATTS, k=1)
        steps = []
        for leaving, entering in zip(*promising.nonzero()):
            step = _best_pair(
                numpy,
                int(self._groups[leaving]),
                int(self._groups[entering]),
                (self._assignment.all_nodes, self._costs[leaving, entering]),
                (self._assignment.all_nodes, self._costs[entering, leaving]),
            )
            if step is not None:
                steps.append(step)
        return steps

    def _refresh(self) -> None:
        numpy = self._numpy
        stale = numpy.array(sorted(self._stale), dtype=numpy.int64)
        size = max(1, _EXCHANGE_CHUNK // max(1, len(self._groups) ** 2))
        for start in range(0, len(stale), size):
            nodes = stale[start : start + size]
            self._costs[:, :, nodes] = self._costs_at(nodes)
        self._stale.clear()

    def _costs_at(self, nodes: Integers) -> Floats:
        numpy, assignment, groups = self._numpy, self._assignment, self._groups
        problem = assignment.problem
        request, use = problem.request[groups], problem.use[groups]
        workload = problem.is_workload[groups].astype(numpy.int64)
        there = assignment.counts[numpy.ix_(groups, nodes)] > 0
        allowed = problem.limit[numpy.ix_(groups, nodes)] > 0
        possible = there[:, None, :] & allowed[None, :, :]
        for resource in range(request.shape[1]):
            asked = request[:, resource]
            room = assignment.free[nodes, resource] + asked[:, None]
            fits = room[:, None, :] >= asked[None, :, None]
            possible &= fits | (asked == 0)[None, :, None]
        costs = assignment.change(
            nodes,
            (use[None, :] - use[:, None])[:, :, None],
            0,
            (workload[None, :] - workload[:, None])[:, :, None],
        )
        return t.cast("Floats", numpy.where(possible, costs, numpy.inf))
