# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Strategy first_fit: unit by unit, nodes in name order, on each the answer of upstream's search.

Without an answer upstream's search takes exponential time; here counting and a solver end it. They
never change the answer.
"""

from __future__ import annotations

import typing as t

from ...solving.limits import Limits
from ..model.model import Allocation, ClaimAllocation, Instance, Outcome, Unit
from .node_solver import STEPS_OF_SEARCH, solve_node
from .search import OutOfTime, Search, SelectorFailed, State, first_failing, shape_of


def solve(instance: Instance, limits: Limits) -> Allocation:
    """Allocate devices unit by unit; a unit that gets none does not stop the next.

    ``infeasible`` means that some unit found no node with the devices that the units before it left
    free.
    """
    return _FirstFit(instance, limits).run()


class _FirstFit:
    def __init__(self, instance: Instance, limits: Limits) -> None:
        self._instance = instance
        self._limits = limits
        self._state = State.of(instance)
        self._search = Search(self._state, limits, strict=True)
        self._errors: dict[int, str] = {}
        # Free devices only decrease, so if one unit failed, an equal one fails too.
        self._failed: dict[t.Hashable, set[str]] = {}
        self._outcome: Outcome = "allocated"

    def run(self) -> Allocation:
        found: list[ClaimAllocation | None] = [None] * len(self._instance.claims)
        for unit in self._instance.units:
            for claim, allocation in zip(unit.claims, self._first_node(unit) or ()):
                found[claim] = allocation
        stopped_by = "wall_clock" if self._outcome == "unknown" else "completed"
        return Allocation(self._outcome, tuple(found), stopped_by=stopped_by, errors=self._errors)

    def _first_node(self, unit: Unit) -> tuple[ClaimAllocation, ...] | None:
        failed = self._failed.setdefault(shape_of(self._instance, unit), set())
        outcome: Outcome = "infeasible"
        for node in self._instance.nodes_of(unit):
            if node.name in failed:
                continue
            try:
                found = self._on_node(unit, node.name)
            except OutOfTime:
                outcome = "unknown"
                break
            except SelectorFailed as error:
                # Kubernetes tries no further node then either.
                self._errors[error.claim] = str(error)
                break
            if found is not None:
                return found
            failed.add(node.name)
        if self._outcome != "unknown":
            self._outcome = outcome
        return None

    def _on_node(self, unit: Unit, node: str) -> tuple[ClaimAllocation, ...] | None:
        """The answer of the search; feasibility is decided first if the search gets long."""
        try:
            return self._search.run(unit, node, STEPS_OF_SEARCH)
        except OutOfTime:
            if self._limits.expired():
                raise
        answer = solve_node(self._state, unit, node, self._limits)
        if answer != "infeasible":
            return self._search.run(unit, node)
        failing = first_failing(self._state, unit, node)
        if failing is not None:
            raise failing
        return None
