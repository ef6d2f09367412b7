# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power models: a lab's, and those of real machines from recorded readings."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from lab.errors import LabError
from lab.machines import SERVER_TYPES
from lab.predictor import recorded
from lab.predictor.cache import trained_models
from lab.predictor.repository import ACCURACY_FILE, install, models_folder
from lab.state import LabState


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        print(options.command(options))
    except LabError as error:
        print(f"lab.predictor: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.predictor", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    train = commands.add_parser("train", help="the models of a lab")
    train.add_argument("--state", type=Path, required=True, help="the lab's folder")
    train.add_argument("--seed", type=int, default=1, help="of the samples (default: 1)")
    train.set_defaults(command=_train)
    record = commands.add_parser("record", help="append the last readings to a CSV file")
    record.add_argument("--documents", type=Path, required=True, help="a cluster's run folder")
    record.add_argument("--samples", type=Path, required=True, help="the CSV file")
    record.set_defaults(command=_record)
    fit = commands.add_parser("fit", help="train a model from a CSV file, for MLServer")
    fit.add_argument("--samples", type=Path, required=True, help="the CSV file")
    fit.add_argument("--type", required=True, help="server type, the model's name")
    fit.add_argument("--models", type=Path, required=True, help="MLServer's folder of models")
    fit.set_defaults(command=_fit)
    return parser


def _train(options: argparse.Namespace) -> str:
    state = LabState.chosen(options.state)
    state.create()
    folder = models_folder(state)
    install(trained_models(options.seed), list(SERVER_TYPES), folder)
    errors = json.loads((folder / ACCURACY_FILE).read_text())
    shown = [f"{name} {error['error_percent']:.1f} %" for name, error in errors.items()]
    return f"error of the power models on unseen samples: {', '.join(shown)}"


def _record(options: argparse.Namespace) -> str:
    count = recorded.record(options.documents, options.samples)
    return f"{count} samples added to {options.samples}"


def _fit(options: argparse.Namespace) -> str:
    from lab.predictor import fitting  # scikit-learn, which recording does not need

    return fitting.train(recorded.read(options.samples), options.type, options.models)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
