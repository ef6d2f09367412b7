# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trains a power model from recorded samples; needs the predictor's environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import joblib
import numpy as np

from lab.errors import LabError
from lab.predictor.recorded import Sample
from lab.predictor.repository import model_file
from lab.predictor.training import Samples, fit, measure

MIN_SAMPLES = 100
MIN_CPU_SPAN = 20.0
HELD_BACK = 5  # one in this many samples judges the model instead of training it


def train(samples: Sequence[Sample], server_type: str, folder: Path) -> str:
    """Write the model of this type into MLServer's folder; return a line that judges it.

    Raises LabError if the samples are too few, or all of the same load.
    """
    chosen = [sample for sample in samples if sample.server_type == server_type]
    if len(chosen) < MIN_SAMPLES:
        raise LabError(
            f"There are {len(chosen)} samples of {server_type}, too few to train with; record"
            f" {MIN_SAMPLES} or more."
        )
    cpu = [sample.cpu_percent for sample in chosen]
    if max(cpu) - min(cpu) < MIN_CPU_SPAN:
        raise LabError(
            f"All samples of {server_type} are between {min(cpu):.0f} and {max(cpu):.0f} % CPU use,"
            " which gives no information about other loads; record while the machines do different"
            " work."
        )
    judging = chosen[HELD_BACK - 1 :: HELD_BACK]
    training = [sample for number, sample in enumerate(chosen, 1) if number % HELD_BACK]
    # A flat end would suggest to the placer that further load costs nothing.
    model = fit(_arrays(training), beyond_cpu="linear")
    joblib.dump(model, model_file(folder, server_type))
    return (
        f"{server_type}: {len(chosen)} samples from {min(cpu):.0f} to {max(cpu):.0f} % CPU use,"
        f" mean error on unseen ones {measure(model, _arrays(judging)).error_percent:.1f} %"
    )


def _arrays(samples: Sequence[Sample]) -> Samples:
    rows = [(item.cpu_percent, item.inlet_celsius, item.delta_p_pascal) for item in samples]
    watts = np.array([sample.power_watts for sample in samples])
    return Samples(np.array(rows), watts, watts)
