# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lexicographic optimisation: each level is optimised with the earlier levels fixed."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field

from ...base.libraries import cp_model
from ...solving.limits import Limits
from ..model.model import ClaimAllocation
from .fleet_model import FleetModel
from .node_model import new_solver

# Share of the remaining work that one level may use; unused work is left to later levels.
_SHARE_OF_A_LEVEL = 0.5


@dataclass
class Work:
    """Budget of CP-SAT's deterministic time, about seconds, and whether it was enough."""

    left: float
    limits: Limits
    enough: bool = True

    def solve(self, model: t.Any, most: float) -> tuple[t.Any, t.Any]:
        """A solver after its work of at most ``most``, and the status."""
        solver = new_solver(
            self.limits.seed, max(most, 1e-3), self.limits.patience(), presolve=True
        )
        status = solver.solve(model)
        self.left = max(0.0, self.left - solver.response_proto.deterministic_time)
        return solver, status


@dataclass
class Descent:
    """Solves the levels of a model from a known answer.

    ``floors`` are lower bounds of levels; a level at its floor needs no solve. ``bounds`` has the
    proven bound of each level, in the integers of ``terms`` and constants.
    """

    fleet: FleetModel
    work: Work
    floors: t.Sequence[int]
    bounds: list[int] = field(default_factory=list)

    def run(
        self,
        claims: t.Sequence[ClaimAllocation | None],
        values: t.Callable[[t.Sequence[ClaimAllocation | None]], t.Sequence[int]],
    ) -> list[ClaimAllocation | None]:
        """The best answer found; ``values`` are the levels of an answer."""
        best = list(claims)
        self.fleet.hint(best)
        model = self.fleet.model
        constants = self.fleet.constants()
        for index, term in enumerate(self.fleet.terms):
            value = values(best)[index]
            floor = self.floors[index]
            if isinstance(term, int):
                bound = value
            elif value <= floor:
                bound = floor
            else:
                bound, found = self._solve(term, constants[index], value, floor)
                if found is not None:
                    best = [found.get(claim, old) for claim, old in enumerate(best)]
                    value = values(best)[index]
            self.bounds.append(min(bound, value))
            if not isinstance(term, int):
                model.add(term <= value - constants[index])
        return best

    def _solve(
        self, term: t.Any, constant: int, value: int, floor: int
    ) -> tuple[int, dict[int, ClaimAllocation | None] | None]:
        """The bound of one level, and an answer better than ``value`` if there is one."""
        model = self.fleet.model
        model.minimize(term)
        solver, status = self.work.solve(model, _SHARE_OF_A_LEVEL * self.work.left)
        self.work.enough = self.work.enough and status == cp_model.OPTIMAL
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return floor, None
        bound = max(floor, math.ceil(solver.best_objective_bound - 1e-6) + constant)
        if round(solver.objective_value) + constant > value:
            return bound, None
        self._start_from(list(solver.response_proto.solution))
        found = self.fleet.allocations(lambda variable: int(solver.value(variable)))
        return bound, found

    def _start_from(self, solution: t.Sequence[int]) -> None:
        hint = self.fleet.model.proto.solution_hint
        hint.vars.clear()
        hint.values.clear()
        hint.vars.extend(range(len(solution)))
        hint.values.extend(solution)
