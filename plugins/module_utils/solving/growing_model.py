# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A linear program with columns added between its solutions, for column generation.

GLOP continues from its last basis, while HiGHS would start from scratch; a solution then takes a
tenth of the time. Columns are never negative.
"""

from __future__ import annotations

import datetime
import typing as t

from ..base.libraries import mathopt
from .limits import Limits
from .linear import is_internal_error


class Optimum(t.NamedTuple):
    """The value of each column and the dual of each row, in the order in which they were added."""

    values: tuple[float, ...]
    duals: tuple[float, ...]


class GrowingModel:
    """Minimise the costs of columns, each at least 0, within the bounds of rows."""

    def __init__(self) -> None:
        self._model = mathopt.Model()
        self._rows: list[t.Any] = []
        self._columns: list[t.Any] = []
        self._solver: t.Any = None

    def row(self, lower: float, upper: float) -> int:
        """Add a row without columns and return its index."""
        self._rows.append(self._model.add_linear_constraint(lb=lower, ub=upper))
        return len(self._rows) - 1

    def column(self, cost: float, coefficients: t.Iterable[tuple[int, float]]) -> int:
        """Add a column with its coefficient in each row and return its index."""
        column = self._model.add_variable(lb=0.0)
        self._model.objective.set_linear_coefficient(column, cost)
        for row, coefficient in coefficients:
            self._rows[row].set_coefficient(column, coefficient)
        self._columns.append(column)
        return len(self._columns) - 1

    def solve(self, limits: Limits) -> Optimum | None:
        """The optimum with the present columns; None if the limits or GLOP end without one."""
        if limits.expired():
            return None
        if self._solver is None:
            self._solver = mathopt.IncrementalSolver(self._model, mathopt.SolverType.GLOP)
        seconds = datetime.timedelta(seconds=max(limits.patience(), 0.001))
        parameters = mathopt.SolveParameters(time_limit=seconds, threads=1)
        try:
            result = self._solver.solve(params=parameters)
        except (AttributeError, RuntimeError) as error:
            if not is_internal_error(error):
                raise
            return None
        if result.termination.reason != mathopt.TerminationReason.OPTIMAL:
            limits.expired()  # remembers whether the clock ended it
            return None
        return Optimum(
            tuple(result.variable_values(self._columns)), tuple(result.dual_values(self._rows))
        )
