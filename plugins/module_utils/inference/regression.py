# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Ridge regression of measured power on load, inlet temperature and differential pressure.

    ln watts = constant + slopes · load + inlet effect · (inlet - mean) + pressure effect · …

The load has one nonnegative slope for each tenth of the capacity. By the logarithm, effects of the
air are factors of the power draw, and the least squares are of relative errors.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.libraries import numpy

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats

_SEGMENT = 0.1
_FOLDS = 5
# Penalties are (noise of a sample / usual size of the term)², for a noise of 2 %: slopes of
# neighbours differ by 1 for a whole load, air changes the power by 1 % per °C and 0.3 % per Pa.
_SLOPE_PENALTY = (0.02 / 1.0) ** 2
_AIR_PENALTIES = ((0.02 / 0.01) ** 2, (0.02 / 0.003) ** 2)
# Huber weights: a residual above twice the usual one counts linearly.
_REWEIGHTINGS, _USUAL_RESIDUALS, _MIN_RESIDUAL = 2, 2.0, 0.002


@dataclass(frozen=True)
class Table:
    """Samples in columns of equal length; an unknown inlet or pressure is NaN.

    ``load`` is a share of the capacity, ``weights`` are positive.
    """

    load: Floats
    inlet_celsius: Floats
    delta_p_pascal: Floats
    watts: Floats
    weights: Floats

    def __len__(self) -> int:
        return len(self.load)

    def where(self, chosen: Booleans) -> Table:
        return Table(*(column[chosen] for column in vars(self).values()))

    @classmethod
    def joined(cls, tables: t.Iterable[Table]) -> Table:
        """All samples of one or more tables."""
        columns = zip(*(vars(table).values() for table in tables))
        return cls(*(numpy.concatenate(column) for column in columns))


@dataclass(frozen=True)
class _Air:
    """The recorded values of one quantity of the air, and its effect on ln watts."""

    least: float
    mean: float
    most: float
    effect: float = 0.0

    def on(self, value: float | None) -> float:
        """The effect of a value, clamped to the recorded values."""
        if value is None:
            return 0.0
        return self.effect * (min(max(value, self.least), self.most) - self.mean)


@dataclass(frozen=True)
class Fit:
    """Watts over the recorded loads, from ``knots[0]`` to ``knots[-1]``."""

    knots: Floats
    log_watts: Floats
    inlet: _Air
    pressure: _Air
    watts_range: tuple[float, float]

    @property
    def loads(self) -> tuple[float, float]:
        """The smallest and the largest recorded load."""
        return float(self.knots[0]), float(self.knots[-1])

    def continued(self, other: Fit) -> Fit:
        """This fit, continued above its loads by the relative rise of the other one."""
        end = self.knots[-1]
        above = numpy.concatenate([[end], other.knots[other.knots > end]])
        rise = numpy.interp(above, other.knots, other.log_watts)
        after = self.log_watts[-1] + (rise - rise[0])[1:]
        most = float(numpy.exp(after[-1])) if len(after) else 0.0
        return Fit(
            numpy.concatenate([self.knots, above[1:]]),
            numpy.concatenate([self.log_watts, after]),
            self.inlet,
            self.pressure,
            (self.watts_range[0], max(self.watts_range[1], most)),
        )

    def watts(
        self, load: Floats, inlet_celsius: float | None, delta_p_pascal: float | None
    ) -> Floats:
        """Watts at these loads, which never fall with the load; clamped to recorded loads and watts."""
        air = self.inlet.on(inlet_celsius) + self.pressure.on(delta_p_pascal)
        watts = numpy.exp(numpy.interp(load, self.knots, self.log_watts) + air)
        return numpy.clip(watts, *self.watts_range)


@dataclass(frozen=True)
class _Problem:
    """The regression of a table: one row for each sample, and the penalties of coefficients."""

    knots: Floats
    airs: tuple[_Air, ...]
    matrix: Floats
    target: Floats
    penalty: Floats

    @classmethod
    def of(cls, table: Table) -> _Problem:
        knots = _knots(float(table.load.min()), float(table.load.max()))
        airs = tuple(map(_air, (table.inlet_celsius, table.delta_p_pascal)))
        matrix = _matrix(table, knots, airs)
        return cls(knots, airs, matrix, numpy.log(table.watts), _penalty(len(knots) - 1))


def fit(table: Table) -> Fit:
    """Fit at least two samples with different loads and watts above 0."""
    problem = _Problem.of(table)
    solution = _robust(problem.matrix, problem.target, table.weights, problem.penalty)
    rises = solution[1:-2] * numpy.diff(problem.knots)
    inlet, pressure = (
        _Air(air.least, air.mean, air.most, float(effect))
        for air, effect in zip(problem.airs, solution[-2:])
    )
    return Fit(
        problem.knots,
        solution[0] + numpy.concatenate(([0.0], numpy.cumsum(rises))),
        inlet,
        pressure,
        (float(table.watts.min()), float(table.watts.max())),
    )


def _robust(matrix: Floats, target: Floats, weights: Floats, penalty: Floats) -> Floats:
    """Coefficients with less weight for outliers."""
    solution = _solve(matrix, target, weights, penalty)
    for _round in range(_REWEIGHTINGS):
        residuals = numpy.abs(target - matrix @ solution)
        usual = max(1.4826 * float(numpy.median(residuals)), _MIN_RESIDUAL)
        doubted = numpy.maximum(residuals, _USUAL_RESIDUALS * usual)
        lessened = weights * _USUAL_RESIDUALS * usual / doubted
        solution = _solve(matrix, target, lessened, penalty)
    return solution


def relative_errors(found: Fit, table: Table) -> Floats:
    """Predicted over measured power, minus 1, of each sample at its own air."""
    air = sum(
        one.effect * (_filled(values, one.mean).clip(one.least, one.most) - one.mean)
        for one, values in (
            (found.inlet, table.inlet_celsius),
            (found.pressure, table.delta_p_pascal),
        )
    )
    watts = numpy.exp(numpy.interp(table.load, found.knots, found.log_watts) + air)
    return numpy.clip(watts, *found.watts_range) / table.watts - 1.0


def cross_validated(table: Table) -> Floats:
    """Relative errors of all samples, each by the fit of four fifths without it.

    The folds alternate by load, so that each spans all loads.
    """
    problem = _Problem.of(table)
    fold = numpy.empty(len(table), dtype=int)
    fold[numpy.argsort(table.load, kind="stable")] = numpy.arange(len(table)) % _FOLDS
    errors = numpy.zeros(len(table))
    for number in range(min(_FOLDS, len(table))):
        unseen, seen = fold == number, fold != number
        solution = _robust(
            problem.matrix[seen], problem.target[seen], table.weights[seen], problem.penalty
        )
        errors[unseen] = problem.matrix[unseen] @ solution - problem.target[unseen]
    return numpy.expm1(errors)


def _knots(low: float, high: float) -> Floats:
    """Both ends and the tenths between them, without segments much shorter than a tenth."""
    inner = numpy.arange(1, 1 + int(high / _SEGMENT)) * _SEGMENT
    least = _SEGMENT / 4
    inner = inner[(inner > low + least) & (inner < high - least)]
    return numpy.concatenate(([low], inner, [high]))


def _air(values: Floats) -> _Air:
    known = values[~numpy.isnan(values)]
    if not len(known):
        return _Air(0.0, 0.0, 0.0)
    return _Air(float(known.min()), float(known.mean()), float(known.max()))


def _filled(values: Floats, mean: float) -> Floats:
    return numpy.where(numpy.isnan(values), mean, values)


def _matrix(table: Table, knots: Floats, airs: t.Sequence[_Air]) -> Floats:
    """Columns: constant, the part of the load in each segment, inlet and pressure less their means."""
    parts = numpy.clip(table.load[:, None] - knots[:-1], 0.0, numpy.diff(knots))
    air = [
        _filled(values, one.mean) - one.mean
        for one, values in zip(airs, (table.inlet_celsius, table.delta_p_pascal))
    ]
    return numpy.column_stack([numpy.ones(len(table)), parts, *air])


def _penalty(segments: int) -> Floats:
    """The matrix of the squared penalties of all coefficients; the constant has none."""
    differences = numpy.diff(numpy.eye(segments), axis=0)
    penalty = numpy.zeros((segments + 3, segments + 3))
    penalty[1:-2, 1:-2] = _SLOPE_PENALTY * (differences.T @ differences)
    # Without it a segment without samples would have any slope.
    penalty[1:-2, 1:-2] += 1e-9 * numpy.eye(segments)
    penalty[-2:, -2:] = numpy.diag(_AIR_PENALTIES)
    return penalty


def _solve(matrix: Floats, target: Floats, weights: Floats, penalty: Floats) -> Floats:
    """Least squares with nonnegative slopes.

    While slopes are negative, the lowest becomes zero and the others are fitted again.
    """
    weighted = matrix * weights[:, None]
    normal, right = weighted.T @ matrix + penalty, weighted.T @ target
    kept = numpy.ones(len(right), dtype=bool)
    while True:
        solution = numpy.zeros(len(right))
        solution[kept] = numpy.linalg.solve(normal[numpy.ix_(kept, kept)], right[kept])
        slopes = solution[1:-2]
        if not len(slopes) or slopes.min() >= 0.0:
            return solution
        kept[1 + int(slopes.argmin())] = False
