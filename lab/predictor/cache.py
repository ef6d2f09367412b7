# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trained models in the user's cache, under a hash of all their inputs."""

from __future__ import annotations

import hashlib
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path

from lab.gotools import cache_folder

LAB = Path(__file__).resolve().parent.parent
SOURCES = ("predictor/training.py", "physics.py", "machines.py", "data/server_power_curves.csv")
LIBRARIES = ("scikit-learn", "numpy", "joblib")


def trained_models(seed: int) -> Path:
    """The folder of the models that `training.train` makes with this seed, created if missing."""
    folder = cache_folder() / f"power-models-{_fingerprint(seed)}"
    if folder.exists():
        return folder
    from lab.predictor import training  # scikit-learn takes seconds to import

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="training-") as temporary:
        partial = Path(temporary) / "models"
        partial.mkdir()
        training.train(partial, seed)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.exists():  # it exists if another lab was quicker with the same
                raise
    return folder


def _fingerprint(seed: int) -> str:
    versions = [platform.python_version(), *(version(library) for library in LIBRARIES)]
    digest = hashlib.sha256(f"{seed} {' '.join(versions)}".encode())
    for source in SOURCES:
        digest.update((LAB / source).read_bytes())
    return digest.hexdigest()[:16]
