# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's inference server: MLServer with a trained power model for each server type.

It runs in a Python environment of its own (requirements/predictor.txt), in which the models are
also trained: `python -m lab.predictor train`.
"""

from __future__ import annotations

import http.client
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.errors import LabError
from lab.machines import SERVER_TYPES
from lab.predictor.repository import (
    ACCURACY_FILE,
    MODEL_VERSION,
    models_folder,
    write_server_settings,
)
from lab.process import REPOSITORY, Service
from lab.state import LabSettings, LabState

__all__ = [
    "accuracy_file",
    "environment_python",
    "infer_url",
    "prepare",
    "serves",
    "services",
    "train",
]

NAME = "predictor"


def prepare(state: LabState, settings: LabSettings, say: Callable[[str], None]) -> None:
    """Put the models in place, trained or from the cache, and print their errors.

    Raises LabError if the Python environment is missing or training fails.
    """
    say(train(state, settings.seed))
    write_server_settings(models_folder(state), settings.ports[NAME])


def services(state: LabState, settings: LabSettings) -> list[Service]:
    """The inference server. Raises LabError if its Python environment is missing."""
    port = settings.ports[NAME]
    return [
        Service(
            name=NAME,
            command=(
                str(environment_python().with_name("mlserver")),
                "start",
                str(models_folder(state)),
            ),
            ready=lambda: serves(port, list(SERVER_TYPES)),
            environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    ]


def infer_url(port: int, server_type: str) -> str:
    """URL of the model of a server type."""
    return f"http://127.0.0.1:{port}/v2/models/{server_type}/versions/{MODEL_VERSION}/infer"


def accuracy_file(state: LabState) -> Path:
    """JSON: server type → the model's mean errors in percent; see `training.Accuracy`."""
    return models_folder(state) / ACCURACY_FILE


def train(state: LabState, seed: int) -> str:
    """Put a trained model for each server type into the state folder; return a line with errors.

    Quick if the user's cache has the models of this seed. Raises LabError.
    """
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    command = [str(environment_python()), "-m", "lab.predictor", "train"]
    arguments = ["--state", str(state.root), "--seed", str(seed)]
    done = subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LabError(
            "Training the predictor's models failed; remove .venvs/predictor if a library in it is"
            f" broken, `make demo` sets it up again. The output ends with:\n{done.stderr[-2000:]}"
        )
    return done.stdout.strip()


def environment_python() -> Path:
    """The interpreter of the predictor's environment.

    The one of LAB_PREDICTOR_PYTHON, else of .venvs/predictor in the repository (the environment's
    WATTWISE_REPOSITORY if the tests run on a copy). Raises LabError if there is none.
    """
    repository = Path(os.environ.get("WATTWISE_REPOSITORY") or REPOSITORY)
    default = repository / ".venvs" / "predictor" / "bin" / "python"
    python = Path(os.environ.get("LAB_PREDICTOR_PYTHON") or default)
    if not python.is_file():
        raise LabError(
            f"The predictor's Python environment is missing ({python}); make it with"
            " `make .venvs/predictor/.installed` or name an interpreter that has MLServer in"
            " LAB_PREDICTOR_PYTHON."
        )
    return python


def serves(port: int, models: Sequence[str]) -> bool:
    """Whether every model is loaded; the server reports itself ready before it loads the first."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
    try:
        for model in models:
            connection.request("GET", f"/v2/models/{model}/versions/{MODEL_VERSION}/ready")
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.HTTPStatus.OK:
                return False
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True
