# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's inference server: approximately correct models, on a real MLServer."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import predictor, process
from lab.errors import LabError
from lab.machines import SERVER_TYPES
from lab.physics import nominal_watts
from lab.state import LabSettings, LabState
from support.predictions import predict_queries

FIRST_TYPE = next(iter(SERVER_TYPES))


@dataclass(frozen=True)
class Running:
    state: LabState
    port: int
    said: list[str]


@pytest.fixture(scope="module")
def environment() -> Path:
    try:
        return predictor.environment_python()
    except LabError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def running(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The predictor as `lab up` starts it, with models trained from an empty cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        state = LabState.chosen(tmp_path_factory.mktemp("lab"))
        settings = LabSettings(ports={"predictor": process.free_port()})
        said: list[str] = []
        predictor.prepare(state, settings, said.append)
        process.start(predictor.services(state, settings), state)
        try:
            yield Running(state, settings.ports["predictor"], said)
        finally:
            process.stop(state)


def infer(url: str, rows: list[list[float]]) -> tuple[int, Any]:
    tensor = {
        "name": "predict-prob",
        "shape": [len(rows), 3],
        "datatype": "FP32",
        "data": rows,
    }
    request = urllib.request.Request(
        url,
        json.dumps({"inputs": [tensor]}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None


@pytest.mark.parametrize("server_type", SERVER_TYPES)
def test_each_server_type_is_predicted_nearly_right(running: Running, server_type: str) -> None:
    rows = [[float(cpu), inlet, 8.0] for cpu in range(0, 101, 5) for inlet in (19.0, 24.0, 29.0)]
    status, answer = infer(predictor.infer_url(running.port, server_type), rows)
    assert status == 200
    (output,) = answer["outputs"]
    assert output["shape"] == [len(rows), 1]
    for (cpu, inlet, delta_p), watts in zip(rows, output["data"], strict=True):
        true = nominal_watts(server_type, cpu / 100, inlet, delta_p)
        assert watts == pytest.approx(true, rel=0.03)


def test_each_model_is_asked_in_one_request(running: Running) -> None:
    """Step predict can use the lab's server."""
    queries = [
        {
            "name": f"{server_type}-{number}",
            "endpoint": predictor.infer_url(running.port, server_type),
            "cpu_capacity": kind.cores,
            "inlet_celsius": 19.5 + number,
            "delta_p_pascal": 7.25,
        }
        for server_type, kind in SERVER_TYPES.items()
        for number in range(5)
    ]
    result = predict_queries(queries)
    assert result["errors"] == []
    assert result["requests"] == len(SERVER_TYPES)
    for asked, prediction in zip(queries, result["predictions"], strict=True):
        assert len(prediction["watts"]) == 21
        server_type = prediction["name"].rpartition("-")[0]
        inlet = float(str(asked["inlet_celsius"]))
        idle, full = (nominal_watts(server_type, load, inlet, 7.25) for load in (0.0, 1.0))
        assert prediction["watts"][0] == pytest.approx(idle, rel=0.03)
        assert prediction["watts"][-1] == pytest.approx(full, rel=0.03)


def test_answer_has_upstreams_shape(running: Running) -> None:
    """The fields that WAO's client reads, by name and type."""
    _status, answer = infer(predictor.infer_url(running.port, FIRST_TYPE), [[10, 22, 0.2]])
    assert answer["model_name"] == FIRST_TYPE
    assert answer["model_version"] == "v0.1.0"
    (output,) = answer["outputs"]
    assert (output["name"], output["shape"], output["datatype"]) == ("predict", [1, 1], "FP64")
    assert isinstance(output["data"][0], float)


def test_unknown_model_and_version_are_not_found(running: Running) -> None:
    known = predictor.infer_url(running.port, FIRST_TYPE)
    assert infer(known.replace(FIRST_TYPE, "nowhere"), [[10, 22, 0.2]])[0] == 404
    assert infer(known.replace("v0.1.0", "v9"), [[10, 22, 0.2]])[0] == 404


def test_errors_on_unseen_samples_lie_between_1_and_10_percent(running: Running) -> None:
    accuracy = json.loads(predictor.accuracy_file(running.state).read_text())
    assert accuracy.keys() == SERVER_TYPES.keys()
    assert all(1.0 <= errors["error_percent"] <= 10.0 for errors in accuracy.values())
    (said,) = running.said
    assert all(f"{server_type} " in said for server_type in SERVER_TYPES)


def test_second_training_takes_the_models_from_the_cache(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first, second = (LabState(tmp_path / name) for name in ("first", "second"))
    said = predictor.train(first, seed=7)
    (cached,) = (tmp_path / "cache" / "wattwise").iterdir()
    trained_at = {path.name: path.stat().st_mtime_ns for path in cached.iterdir()}
    assert predictor.train(second, seed=7) == said
    assert {path.name: path.stat().st_mtime_ns for path in cached.iterdir()} == trained_at
    assert predictor.train(second, seed=8) != said


def test_missing_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_PREDICTOR_PYTHON", str(tmp_path / "python"))
    state = LabState(tmp_path / "lab")
    with pytest.raises(LabError, match="LAB_PREDICTOR_PYTHON"):
        predictor.services(state, LabSettings(ports={"predictor": 1}))


def test_failed_training_shows_the_end_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no such library' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("LAB_PREDICTOR_PYTHON", str(broken))
    with pytest.raises(LabError, match="no such library"):
        predictor.train(LabState(tmp_path / "lab"), seed=1)
