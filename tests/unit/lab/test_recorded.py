# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A power model from recordings of real machines: record, train, serve, predict."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab import predictor, process
from lab.errors import LabError
from lab.physics import nominal_watts
from lab.predictor import recorded
from lab.predictor.repository import write_server_settings
from lab.process import REPOSITORY, Service
from lab.state import LabState
from support.predictions import predict_queries
from support.recorded_samples import TIME, run_folder, write_samples

SERVER_TYPE = "epyc-9654p-96c"


def test_each_reading_becomes_one_sample_however_often_it_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    assert recorded.record(run_folder(tmp_path), path) == 1
    assert recorded.record(tmp_path, path) == 0
    later = "2026-01-31T12:01:00Z"
    assert recorded.record(run_folder(tmp_path, time=later, power_watts=312.0), path) == 1
    assert recorded.read(path) == [
        recorded.Sample(TIME, "n1", "r650", 25.0, 22.5, 7.0, 310.0),
        recorded.Sample(later, "n1", "r650", 25.0, 22.5, 7.0, 312.0),
    ]


@pytest.mark.parametrize("changes", [{"power_watts": None}, {"stale": True}])
def test_what_was_not_read_is_no_sample(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert recorded.record(run_folder(tmp_path, **changes), tmp_path / "samples.csv") == 0


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    path.write_text("node,watts\n")
    with pytest.raises(LabError, match="other columns; its first line must be time,node,"):
        recorded.read(path)
    path.write_text(",".join(recorded.COLUMNS) + "\nt,n,r650,much,1,1,1\n")
    with pytest.raises(LabError, match="line 2: .*much.*correct the line"):
        recorded.read(path)


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return predictor.environment_python()
    except LabError as error:
        pytest.skip(str(error))


def fit(python: Path, folder: Path, server_type: str = SERVER_TYPE) -> Any:
    options = ["--samples", str(folder / "samples.csv"), "--type", server_type]
    models = ["--models", str(folder / "models")]
    command = [str(python), "-m", "lab.predictor", "fit", *options, *models]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_a_model_of_recorded_samples_is_served_and_nearly_right(
    python: Path, tmp_path: Path
) -> None:
    write_samples(tmp_path / "samples.csv", SERVER_TYPE, 600, most_cpu=70)
    done = fit(python, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "600 samples from 0 to 70 % CPU use, mean error on unseen ones 1." in done.stdout
    port = process.free_port()
    models, state = tmp_path / "models", LabState.chosen(tmp_path / "lab")
    write_server_settings(models, port)
    command = (str(python.with_name("mlserver")), "start", str(models))
    ready = functools.partial(predictor.serves, port, [SERVER_TYPE])
    process.start([Service("own", command, ready)], state)
    try:
        query: dict[str, Any] = {"name": "n1", "endpoint": predictor.infer_url(port, SERVER_TYPE)}
        query |= {"cpu_capacity": 96, "inlet_celsius": 23, "delta_p_pascal": 5}
        [prediction] = predict_queries([query])["predictions"]
    finally:
        process.stop(state)
    points = list(zip(prediction["cpu"], prediction["watts"], strict=True))
    for cpu, watts in points:
        if cpu <= 0.7 * 96:
            true = nominal_watts(SERVER_TYPE, cpu / 96, 23, 5)
            assert watts == pytest.approx(true, rel=0.03)
    # Unseen inputs are extrapolated, but load must not appear free there.
    unseen = [watts for cpu, watts in points if cpu > 0.7 * 96]
    assert unseen == sorted(set(unseen))


def test_samples_that_cannot_tell_are_refused(python: Path, tmp_path: Path) -> None:
    write_samples(tmp_path / "samples.csv", SERVER_TYPE, 120, most_cpu=10)
    done = fit(python, tmp_path)
    assert done.returncode == 1
    assert "between 0 and 10 % CPU use" in done.stderr
    done = fit(python, tmp_path, "r650")
    assert "There are 0 samples of r650" in done.stderr


def test_recording_needs_no_environment_of_its_own(tmp_path: Path) -> None:
    run_folder(tmp_path)
    options = ["--documents", str(tmp_path), "--samples", str(tmp_path / "samples.csv")]
    command = [sys.executable, "-m", "lab.predictor", "record", *options]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("1 samples added"), done.stderr
