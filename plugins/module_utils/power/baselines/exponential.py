# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power models of the form K0 + K1·e^(K2·x), which PEAKS and kepler-model-db use."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ...base.libraries import numpy

# Tried rates, as exponents over the width of the points: from nearly linear to a step at one end.
_FLATTEST, _STEEPEST = 1e-3, 20.0
_RATES = 40
_REFINEMENTS = 6


@dataclass(frozen=True)
class Exponential:
    """``idle`` + ``scale`` · e^(``rate`` · x)."""

    idle: float
    scale: float
    rate: float

    def at(self, x: float) -> float:
        """The value at x."""
        return self.idle + self.scale * math.exp(self.rate * x)


def fit_exponential(xs: t.Sequence[float], ys: t.Sequence[float]) -> Exponential:
    """The model with the least squared error at these two or more points; ``xs`` ascend.

    At a given rate the rest is a linear regression, so only the rate is searched: the best of a
    grid, then of finer ones around it.
    """
    steps = numpy.geomspace(_FLATTEST, _STEEPEST, _RATES)
    bends = numpy.concatenate([-steps[::-1], steps])
    # Exponents are relative to the first point, so that none overflows.
    places = (numpy.array(xs) - xs[0]) / (xs[-1] - xs[0])
    for _round in range(_REFINEMENTS):
        errors, scales = _regressions(numpy, bends, places, numpy.array(ys))
        best = int(errors.argmin())
        low, high = bends[max(best - 1, 0)], bends[min(best + 1, len(bends) - 1)]
        if low < 0 < high:
            low, high = sorted((bends[best], math.copysign(_FLATTEST, bends[best])))
        bend, scale = float(bends[best]), float(scales[best])
        bends = numpy.linspace(low, high, _RATES)
    rate = bend / (xs[-1] - xs[0])
    mean_power = float(numpy.exp(bend * places).mean())
    return Exponential(
        idle=sum(ys) / len(ys) - scale * mean_power,
        scale=scale * math.exp(-rate * xs[0]),
        rate=rate,
    )


def _regressions(numpy: t.Any, bends: t.Any, places: t.Any, ys: t.Any) -> tuple[t.Any, t.Any]:
    """Squared error and scale of the best model with each of these rates."""
    powers = numpy.exp(bends[:, None] * places)
    powers -= powers.mean(axis=1)[:, None]
    heights = ys - ys.mean()
    scales = (powers @ heights) / (powers**2).sum(axis=1)
    errors = ((scales[:, None] * powers - heights) ** 2).sum(axis=1)
    return errors, scales
