# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trains the power models of a lab; for the interpreter of the predictor's environment."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from lab.machines import SERVER_TYPES
from lab.predictor.cache import trained_models
from lab.predictor.repository import ACCURACY_FILE, install, models_folder
from lab.state import LabState


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.predictor", description=__doc__)
    parser.add_argument("command", choices=["train"])
    parser.add_argument("--state", type=Path, required=True, help="the lab's folder")
    parser.add_argument("--seed", type=int, default=1, help="of the samples (default: 1)")
    options = parser.parse_args(arguments)
    state = LabState.chosen(options.state)
    state.create()
    folder = models_folder(state)
    install(trained_models(options.seed), list(SERVER_TYPES), folder)
    errors = json.loads((folder / ACCURACY_FILE).read_text())
    shown = [f"{name} {error['error_percent']:.1f} %" for name, error in errors.items()]
    print(f"error of the power models on unseen samples: {', '.join(shown)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
