# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Feasibility of claims together on one node: by counting, a short search, then a solver."""

from __future__ import annotations

import typing as t

from ...base.libraries import cp_model
from ...solving.limits import Limits
from ..model.model import ClaimAllocation, Unit
from .counting import counted_out
from .node_model import NodeModel, new_solver
from .search import OutOfTime, Search, State

# Devices that are tried before a search counts as hard.
STEPS_OF_SEARCH = 1000
_SECONDS_OF_SEARCH = 60.0
# Work of CP-SAT for each second of the limit: its deterministic time is close to seconds.
_WORK_FOR_A_SECOND = 1.0

ClaimAllocations = tuple[ClaimAllocation, ...]


def solve_node(
    state: State, unit: Unit, node: str, limits: Limits
) -> ClaimAllocations | t.Literal["infeasible", "unknown"]:
    """Allocation of a unit's claims on a node, or infeasible, or unknown.

    The use of devices stays.
    """
    if counted_out(state, unit, node):
        return "infeasible"
    found = _searched(state, unit, node)
    if found is not None:
        return found
    model = NodeModel(state, [(unit, node)])
    solver = new_solver(limits.seed, _WORK_FOR_A_SECOND * limits.left(), limits.patience())
    status = solver.solve(model.model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return model.allocations(lambda variable: int(solver.value(variable)))
    return "infeasible" if status == cp_model.INFEASIBLE else "unknown"


def _searched(
    state: State, unit: Unit, node: str
) -> ClaimAllocations | t.Literal["infeasible"] | None:
    """Answer of a short search: most tasks are easy, and a model takes longer to build."""
    search = Search(state, Limits(_SECONDS_OF_SEARCH))
    try:
        found = search.run(unit, node, STEPS_OF_SEARCH)
    except OutOfTime:
        return None
    if found is None:
        return "infeasible"
    for allocation, claim in zip(found, unit.claims):
        state.usage.change(state.instance.claims[claim], allocation, taken=False)
    return found
