# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Linear and mixed-integer models, and HiGHS to solve them.

HiGHS is called through OR-Tools' MathOpt. OR-Tools' ModelBuilder would not suffice: it returns
neither solution nor bound when a limit ends the search, the objective in place of the bound, and
row activities in place of duals (its issues 5016 and 5372).
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import math
import os
import typing as t
from dataclasses import dataclass, field

from ..base.libraries import highs_pb2, mathopt, model_pb2
from .limits import Limits

# The optimum of an integer model is an integer, or watts with a precision of 1 mW.
ABSOLUTE_GAP = 5e-4

Terms = t.Sequence[tuple[int, float]]

_STDOUT = 1
# Codes of absl::Status: INVALID_ARGUMENT, FAILED_PRECONDITION, UNIMPLEMENTED.
_REFUSALS = frozenset((3, 9, 12))


@dataclass
class LinearModel:
    """Minimise the costs of the columns, within the bounds of columns and rows."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    row_of: list[int] = field(default_factory=list)
    column_of: list[int] = field(default_factory=list)
    coefficient: list[float] = field(default_factory=list)

    def column(
        self, lower: float, upper: float, cost: float = 0.0, *, integer: bool = False
    ) -> int:
        """Add a variable and return its index."""
        self.lower.append(lower)
        self.upper.append(upper)
        self.cost.append(cost)
        self.integer.append(integer)
        return len(self.cost) - 1

    def row(self, terms: Terms, lower: float, upper: float) -> int:
        """Add ``lower ≤ Σ coefficient × column ≤ upper`` and return its index."""
        index = len(self.row_lower)
        self.row_lower.append(lower)
        self.row_upper.append(upper)
        for column, coefficient in terms:
            self.row_of.append(index)
            self.column_of.append(column)
            self.coefficient.append(coefficient)
        return index

    def at_most(self, terms: Terms, upper: float) -> int:
        return self.row(terms, -math.inf, upper)

    def at_least(self, terms: Terms, lower: float) -> int:
        return self.row(terms, lower, math.inf)

    def equal(self, terms: Terms, value: float) -> int:
        return self.row(terms, value, value)


@dataclass(frozen=True)
class Solution:
    """Answer of HiGHS: ``values`` is empty without a solution, ``duals`` for integer models.

    ``bound`` is a proven lower bound on the cost.
    """

    is_optimal: bool
    values: tuple[float, ...]
    duals: tuple[float, ...]
    bound: float


def solve(
    model: LinearModel,
    limits: Limits,
    branching_nodes: int | None = None,
    absolute_gap: float = ABSOLUTE_GAP,
) -> Solution:
    """Solve with one thread; equal models give equal answers unless the clock ends the search."""
    if limits.expired():
        return Solution(False, (), (), -math.inf)
    options = highs_pb2.HighsOptionsProto()
    options.string_options["parallel"] = "off"
    options.int_options["threads"] = 1
    options.int_options["random_seed"] = limits.seed
    options.double_options["mip_rel_gap"] = 0.0
    options.double_options["mip_abs_gap"] = absolute_gap
    if branching_nodes is not None:
        options.int_options["mip_max_nodes"] = branching_nodes
    parameters = mathopt.SolveParameters(
        time_limit=datetime.timedelta(seconds=max(limits.patience(), 0.001)), highs=options
    )
    prepared = mathopt.Model.from_model_proto(_proto(model))
    try:
        with kept_off_stdout():
            result = mathopt.solve(prepared, mathopt.SolverType.HIGHS, params=parameters)
    except (AttributeError, RuntimeError) as error:
        if not is_internal_error(error):
            raise
        return Solution(False, (), (), -math.inf)
    return _solution(result, limits)


def _proto(model: LinearModel) -> t.Any:
    proto = model_pb2.ModelProto()
    columns = range(len(model.cost))
    proto.variables.ids.extend(columns)
    proto.variables.lower_bounds.extend(model.lower)
    proto.variables.upper_bounds.extend(model.upper)
    proto.variables.integers.extend(model.integer)
    priced = [column for column in columns if model.cost[column]]
    proto.objective.linear_coefficients.ids.extend(priced)
    proto.objective.linear_coefficients.values.extend(model.cost[column] for column in priced)
    proto.linear_constraints.ids.extend(range(len(model.row_lower)))
    proto.linear_constraints.lower_bounds.extend(model.row_lower)
    proto.linear_constraints.upper_bounds.extend(model.row_upper)
    order = sorted(range(len(model.row_of)), key=lambda i: (model.row_of[i], model.column_of[i]))
    proto.linear_constraint_matrix.row_ids.extend(model.row_of[i] for i in order)
    proto.linear_constraint_matrix.column_ids.extend(model.column_of[i] for i in order)
    proto.linear_constraint_matrix.coefficients.extend(model.coefficient[i] for i in order)
    return proto


def _solution(result: t.Any, limits: Limits) -> Solution:
    termination = result.termination
    is_optimal = termination.reason == mathopt.TerminationReason.OPTIMAL
    if not is_optimal:
        limits.expired()  # remembers whether the clock ended it
    values: tuple[float, ...] = ()
    duals: tuple[float, ...] = ()
    if result.has_primal_feasible_solution():
        values = _by_id(result.variable_values())
    if result.has_dual_feasible_solution():
        duals = _by_id(result.dual_values())
    return Solution(is_optimal, values, duals, termination.objective_bounds.dual_bound)


def _by_id(values: t.Mapping[t.Any, float]) -> tuple[float, ...]:
    return tuple(value for _key, value in sorted(values.items(), key=lambda item: item[0].id))


@contextlib.contextmanager
def kept_off_stdout() -> t.Iterator[None]:
    """Discard the output of native code, because a module's standard output is its result.

    HiGHS prints a line of debugging for some improved solutions, regardless of its options. C has a
    separate buffer, which is flushed before and after.
    """
    flush = ctypes.CDLL(None).fflush
    flush(None)
    try:
        kept = os.dup(_STDOUT)
    except OSError:
        # Without a standard output there is nothing to protect.
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    try:
        yield
    finally:
        flush(None)
        os.dup2(kept, _STDOUT)
        os.close(kept)
        os.close(nowhere)


def is_internal_error(error: Exception) -> bool:
    """Whether the solver itself failed; a status that refuses the model is a defect of ours.

    HiGHS rarely fails on integer models, and GLOP on badly conditioned programs (``ABNORMAL``). A
    caller treats that as no answer. OR-Tools 9.15 raises another error for every error status
    (``canonical_code``), with the status as its context.
    """
    if isinstance(error, mathopt.InternalMathOptError):
        return True
    status = getattr(error.__context__, "status", None)
    if "canonical_code" not in str(error) or status is None:
        return False
    return bool(status.raw_code() not in _REFUSALS)
