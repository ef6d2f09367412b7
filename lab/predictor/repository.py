# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder that MLServer serves: its settings, and a folder with settings for each model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from lab.state import LabState

MODEL_VERSION = "v0.1.0"
ACCURACY_FILE = "accuracy.json"


def models_folder(state: LabState) -> Path:
    return state.run / "predictor"


def install(trained: Path, server_types: Sequence[str], folder: Path) -> None:
    """Copy the trained models into MLServer's layout, and their accuracy beside them."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for server_type in server_types:
        shutil.copyfile(trained / f"{server_type}.joblib", model_file(folder, server_type))
    shutil.copyfile(trained / ACCURACY_FILE, folder / ACCURACY_FILE)


def model_file(folder: Path, name: str) -> Path:
    """Create the folder of a model with its settings; return the path of its file."""
    model = folder / name
    model.mkdir(parents=True, exist_ok=True)
    settings = {
        "name": name,
        "implementation": "mlserver_sklearn.SKLearnModel",
        "parameters": {"uri": "./model.joblib", "version": MODEL_VERSION},
    }
    (model / "model-settings.json").write_text(json.dumps(settings, indent=2) + "\n")
    return model / "model.joblib"


def write_server_settings(folder: Path, port: int) -> None:
    """Settings for MLServer on loopback only; it cannot do without gRPC, which takes any port."""
    settings = {
        "host": "127.0.0.1",
        "http_port": port,
        "grpc_port": 0,
        "metrics_endpoint": None,
        "parallel_workers": 0,
        "debug": False,
    }
    (folder / "settings.json").write_text(json.dumps(settings, indent=2) + "\n")
