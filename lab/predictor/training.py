# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trains the power models; imported only by the interpreter of the predictor's environment.

A model learns the results of a maker's test bench: the server type's nominal power, with noise,
over CPU use in percent, inlet temperature in °C and differential pressure in Pa. It knows neither
the bias of a single machine nor its rack.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer

from lab.machines import SERVER_TYPES
from lab.physics import nominal_watts
from lab.predictor.repository import ACCURACY_FILE

Array = NDArray[np.float64]

TRAINING_SAMPLES = 4000
UNSEEN_SAMPLES = 1000
NOISE = 0.025  # standard deviation of a sample, relative
CPU_PERCENT = (0.0, 100.0)
INLET_CELSIUS = (10.0, 45.0)
DELTA_P_PASCAL = (-10.0, 30.0)
CPU_KNOTS, INLET_KNOTS, DELTA_P_KNOTS = 11, 5, 2


@dataclass(frozen=True)
class Accuracy:
    """Mean absolute errors of one model in percent, on samples that it was not trained with.

    `error_percent` is against the noisy samples, `nominal_error_percent` against the true curve.
    """

    error_percent: float
    nominal_error_percent: float


@dataclass(frozen=True)
class Samples:
    """Inputs, one row (CPU percent, °C, Pa) per sample, with the noisy and the true power."""

    inputs: Array
    measured_watts: Array
    nominal_watts: Array


def train(folder: Path, seed: int) -> None:
    """Write `<server type>.joblib` for each type and accuracy.json (type → Accuracy)."""
    errors = {}
    for server_type in SERVER_TYPES:
        generator = np.random.default_rng([seed, zlib.crc32(server_type.encode())])
        model = fit(draw_samples(server_type, TRAINING_SAMPLES, generator))
        joblib.dump(model, folder / f"{server_type}.joblib")
        unseen = draw_samples(server_type, UNSEEN_SAMPLES, generator)
        errors[server_type] = dataclasses.asdict(measure(model, unseen))
    (folder / ACCURACY_FILE).write_text(json.dumps(errors, indent=2) + "\n")


def draw_samples(server_type: str, count: int, generator: np.random.Generator) -> Samples:
    """Samples evenly spread over the range in which the machines are used."""
    ranges = (CPU_PERCENT, INLET_CELSIUS, DELTA_P_PASCAL)
    inputs = np.column_stack([generator.uniform(low, high, count) for low, high in ranges])
    nominal = np.array(
        [nominal_watts(server_type, cpu / 100, inlet, delta_p) for cpu, inlet, delta_p in inputs]
    )
    measured = nominal * (1 + NOISE * generator.standard_normal(count))
    return Samples(inputs, measured, nominal)


def fit(samples: Samples, beyond_cpu: str = "constant") -> Any:
    """A continuous regressor, since power is continuous: trees would give the placer false steps.

    `beyond_cpu` is its extrapolation past the samples' CPU use, in SplineTransformer's terms.
    Inputs that are the same in all samples are ignored.
    """
    knots = ((CPU_KNOTS, beyond_cpu), (INLET_KNOTS, "constant"), (DELTA_P_KNOTS, "constant"))
    inputs = [
        (SplineTransformer(n_knots=count, degree=1, extrapolation=beyond), [column])
        for column, (count, beyond) in enumerate(knots)
        if np.ptp(samples.inputs[:, column]) > 0
    ]
    model = make_pipeline(
        make_column_transformer(*inputs),
        PolynomialFeatures(degree=2, interaction_only=True, include_bias=False),
        Ridge(alpha=0.01),
    )
    return model.fit(samples.inputs, samples.measured_watts)


def measure(model: Any, unseen: Samples) -> Accuracy:
    predicted = model.predict(unseen.inputs)
    return Accuracy(
        error_percent=_mean_percent(predicted, unseen.measured_watts),
        nominal_error_percent=_mean_percent(predicted, unseen.nominal_watts),
    )


def _mean_percent(predicted: Array, true: Array) -> float:
    return round(float(np.mean(np.abs(predicted - true) / true)) * 100, 2)
