# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wire format of WAO's predictor client, as in upstream's own tests, and our deviations.

Vectors of wao-estimator pkg/estimator/predictor_pc_mlserver_test.go and of wao-core's V2 client.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import TargetFailure
from ansible_collections.wattwise.kube.plugins.module_utils.inference import wire

UPSTREAM_ANSWER: dict[str, Any] = {
    "model_name": "model1",
    "model_version": "v0.1.0",
    "id": "c0d61974-f9bd-48ac-9af8-9c1e6d9a07e6",
    "parameters": {"content_type": None, "headers": None},
    "outputs": [
        {
            "name": "predict",
            "shape": [1, 1],
            "datatype": "FP64",
            "parameters": None,
            "data": [94.76267448501928],
        }
    ],
}


@pytest.mark.parametrize(
    ("point", "body"),
    [
        (
            (10, 22, 0.2),
            '{"inputs":[{"name":"predict-prob","shape":[1,3],"datatype":"FP32",'
            '"data":[[10,22,0.2]]}]}',
        ),
        (
            (99.9, 99.9, 99.9),
            '{"inputs":[{"name":"predict-prob","shape":[1,3],"datatype":"FP32",'
            '"data":[[99.9,99.9,99.9]]}]}',
        ),
    ],
)
def test_request_is_upstreams_to_the_byte(point: tuple[float, float, float], body: str) -> None:
    cpu, inlet, delta_p = point
    assert wire.request_body(wire.rows([cpu], inlet, delta_p)) == body.encode()


@pytest.mark.parametrize(
    ("value", "text"), [(0.1 + 0.2, "0.3"), (3.3333333333, "3.3333333"), (1e-7, "1e-7")]
)
def test_numbers_are_the_shortest_of_float32(value: float, text: str) -> None:
    assert wire.float32_text(value) == text


@pytest.mark.parametrize("data", [94.76267448501928, 15])
def test_watts_come_from_the_first_output(data: float) -> None:
    output = {**UPSTREAM_ANSWER["outputs"][0], "data": [data]}
    (value,) = wire.read_outputs({**UPSTREAM_ANSWER, "outputs": [output]}, 1)
    assert wire.check_watts(value) == data


@pytest.mark.parametrize("suffix", ["", "/", "/infer"])
def test_forms_of_an_endpoint(suffix: str) -> None:
    versioned = "http://localhost:8080/v2/models/model1/versions/v0.1.0"
    assert wire.infer_url(versioned + suffix) == f"{versioned}/infer"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (
            "http://10.0.0.1:8080/v2/models/myModel/versions/v0.1.0/infer",
            "http://10.0.0.1:8080/v2/models/myModel/versions/v0.1.0/infer",
        ),
        ("http://h/v2/models/m", "http://h/v2/models/m/infer"),
    ],
)
def test_url_that_is_asked(endpoint: str, url: str) -> None:
    assert wire.infer_url(endpoint) == url


@pytest.mark.parametrize(
    "endpoint", ["h/v2/models/m", "https://fake-endpoint", "localhost:8080/v2/models/m"]
)
def test_endpoint_without_scheme_or_model_is_an_error(endpoint: str) -> None:
    with pytest.raises(TargetFailure):
        wire.infer_url(endpoint)


def test_deviation_b9_base_path_is_kept() -> None:
    """Upstream requests http://h/v2/models/m/infer, which is another service behind a gateway."""
    url = wire.infer_url("http://h/base/v2/models/m/infer")
    assert url == "http://h/base/v2/models/m/infer"


def test_deviation_b8_empty_version_is_no_version() -> None:
    """Upstream's provider makes …/versions/infer of it, then requests …/versions/infer/infer."""
    assert wire.model_url("http://10.0.0.20", "PC", "") == "http://10.0.0.20/v2/models/PC/infer"
    made_by_upstream = "http://10.0.0.20/v2/models/PC/versions/infer"
    assert wire.infer_url(made_by_upstream) == "http://10.0.0.20/v2/models/PC/infer"


def test_endpoint_of_a_machine_learning_model() -> None:
    url = wire.model_url("http://10.0.0.20", "PC-PowerEdgeR650xs-2CPU", "v0.1.0")
    assert url == ("http://10.0.0.20/v2/models/PC-PowerEdgeR650xs-2CPU/versions/v0.1.0/infer")
