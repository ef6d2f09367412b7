# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""power_prediction_info on literal queries: watts, curves, and one sentence for each error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference.prediction import (
    predict_power,
)
from support.inference_server import InferenceServer, Model, linear_watts

Query = dict[str, Any]


@pytest.fixture
def server() -> Iterator[InferenceServer]:
    with InferenceServer({"m": Model()}) as running:
        yield running


def query(server: InferenceServer, **changes: Any) -> Query:
    return {
        "name": "worker-0",
        "endpoint": server.endpoint("m"),
        "cpu_usage": [0, 16, 32],
        "cpu_capacity": 64,
        "inlet_celsius": 22,
        "delta_p_pascal": 8,
        **changes,
    }


def only_error(result: dict[str, Any]) -> dict[str, str]:
    assert result["predictions"] == []
    (error,) = result["errors"]
    return dict(error)


@pytest.mark.parametrize(("usage_format", "sent"), [("percent", [0, 25, 50]), ("raw", [0, 16, 32])])
def test_models_are_asked_in_percent_or_cores(
    server: InferenceServer, usage_format: str, sent: list[float]
) -> None:
    result = predict_power({"queries": [query(server)], "cpu_usage_format": usage_format})
    assert result == {
        "predictions": [
            {
                "name": "worker-0",
                "cpu": [0, 16, 32],
                "watts": [linear_watts(cpu, 22, 8) for cpu in sent],
            }
        ],
        "errors": [],
        "requests": 1,
        "changed": False,
    }
    assert [row[0] for row in server.requests[0].rows] == sent


def test_default_points_are_21_from_0_to_the_capacity(server: InferenceServer) -> None:
    result = predict_power({"queries": [query(server, cpu_usage=None)]})
    (prediction,) = result["predictions"]
    assert prediction["cpu"] == pytest.approx([3.2 * step for step in range(21)])
    assert [row[0] for row in server.requests[0].rows] == [5 * step for step in range(21)]


def test_raw_use_needs_no_capacity(server: InferenceServer) -> None:
    asked = query(server, cpu_capacity=None)
    result = predict_power({"queries": [asked], "cpu_usage_format": "raw"})
    assert result["errors"] == []


def test_base_path_of_a_gateway_is_kept(server: InferenceServer) -> None:
    endpoint = f"{server.address}/base/v2/models/m"
    assert predict_power({"queries": [query(server, endpoint=endpoint)]})["errors"] == []
    assert server.requests[0].path == "/base/v2/models/m/infer"


def test_equal_points_are_asked_once_and_all_in_one_request(server: InferenceServer) -> None:
    queries = [query(server, name=f"worker-{number}") for number in range(30)]
    result = predict_power({"queries": queries})
    assert [each["name"] for each in result["predictions"]] == [each["name"] for each in queries]
    assert len({tuple(each["watts"]) for each in result["predictions"]}) == 1
    assert result["requests"] == len(server.requests) == 1
    assert len(server.requests[0].rows) == 3


def test_type_fake_is_flat_and_asks_nothing(server: InferenceServer) -> None:
    asked = query(server, type="Fake", inlet_celsius=None, endpoint="https://fake-endpoint")
    result = predict_power({"queries": [asked]})
    assert result["predictions"][0]["watts"] == [3.14, 3.14, 3.14]
    assert server.requests == []


@pytest.mark.parametrize(
    ("changes", "reason", "sentence"),
    [
        ({"inlet_celsius": None}, "no_sensor", "no inlet temperature is known for node worker-0"),
        ({"inlet_celsius": math.nan}, "no_sensor", "no inlet temperature"),
        ({"delta_p_pascal": None}, "no_sensor", "no differential pressure is known"),
        ({"inlet_celsius": 1e39}, "malformed", "not a finite number of 32 bits"),
        ({"cpu_capacity": None}, "malformed", "give cpu_capacity"),
        ({"cpu_capacity": 0}, "malformed", "give cpu_capacity"),
        ({"cpu_usage": None, "cpu_capacity": math.inf}, "malformed", "give cpu_capacity"),
        ({"cpu_usage": [-1]}, "malformed", "write cpu_usage in cores"),
        ({"cpu_usage": [math.nan]}, "malformed", "write cpu_usage in cores"),
        ({"endpoint": "h/v2/models/m"}, "malformed", "lacks http"),
        ({"endpoint": "https://fake-endpoint"}, "malformed", "names no model"),
        ({"type": "Redfish"}, "malformed", "write V2InferenceProtocol or Fake"),
        ({"credential": "nobody"}, "credential", "no entry 'nobody'"),
        ({"username": "reader"}, "credential", "no password"),
    ],
)
def test_query_that_cannot_be_asked(
    server: InferenceServer, changes: Query, reason: str, sentence: str
) -> None:
    result = predict_power({"queries": [query(server, name="worker-1"), query(server, **changes)]})
    assert [each["name"] for each in result["predictions"]] == ["worker-1"]
    (error,) = result["errors"]
    assert (error["name"], error["reason"]) == ("worker-0", reason)
    assert sentence in error["detail"]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("value", "reason", "sentence"),
    [
        (math.nan, "malformed", "predicted null"),
        (-3.5, "implausible", "predicted -3.5 W"),
        (None, "malformed", "predicted null"),
        ("94.7", "malformed", "predicted str"),
    ],
)
def test_one_bad_value_is_the_error_of_its_node_only(
    server: InferenceServer, value: Any, reason: str, sentence: str
) -> None:
    server.models["m"] = Model(watts=lambda cpu, *_: value if cpu == 50 else 100.0)
    good = query(server, name="worker-1", cpu_usage=[0, 16])
    result = predict_power({"queries": [query(server), good]})
    assert [each["name"] for each in result["predictions"]] == ["worker-1"]
    (error,) = result["errors"]
    assert (error["name"], error["reason"]) == ("worker-0", reason)
    assert sentence in error["detail"]


def test_a_failed_request_is_the_error_of_each_of_its_nodes(server: InferenceServer) -> None:
    server.models["m"] = Model(login=("reader", "t0p-Secret"))
    queries = [query(server, name=name) for name in ("worker-0", "worker-1")]
    errors = predict_power({"queries": queries})["errors"]
    assert [(error["name"], error["reason"]) for error in errors] == [
        ("worker-0", "unauthorized"),
        ("worker-1", "unauthorized"),
    ]
    assert all(error["endpoint"] == server.endpoint("m") for error in errors)


def test_credentials_of_a_query(server: InferenceServer) -> None:
    server.models["m"] = Model(login=("reader", "t0p-Secret"))
    protected: list[str] = []
    result = predict_power(
        {
            "queries": [
                query(server, name="own", username="reader", password="t0p-Secret"),
                query(server, name="by-key", credential="models"),
            ],
            "credentials": {"models": {"username": "reader", "password": "t0p-Secret"}},
            "allow_plain_http": True,
        },
        Context(protect=protected.append),
    )
    assert [each["name"] for each in result["predictions"]] == ["own", "by-key"]
    assert set(protected) == {"t0p-Secret"}


def test_default_credential_is_not_sent_to_models(server: InferenceServer) -> None:
    """It belongs to the BMCs; a model's server, often without TLS, must not see it."""
    account = {"username": "root", "password": "calvin"}
    predict_power({"queries": [query(server)], "credentials": {"default": account}})
    assert "authorization" not in server.requests[0].headers


def test_curves_document_has_ascending_points_each_once(
    server: InferenceServer, tmp_path: Path
) -> None:
    path = tmp_path / "curves.json"
    asked = query(server, cpu_usage=[32, 0, 16, 32])
    broken = query(server, name="worker-1", inlet_celsius=None)
    result = predict_power({"queries": [asked, broken], "path": str(path)})
    document = documents.load(str(path), "curves")
    assert document["curves"] == {
        "worker-0": {
            "source": "predictor",
            "cpu": [0, 16, 32],
            "watts": [linear_watts(cpu, 22, 8) for cpu in (0, 25, 50)],
        }
    }
    assert [error["name"] for error in document["errors"]] == ["worker-1"]
    assert result["path"] == str(path)
    assert len(result["sha256"]) == 64
    assert result["predictions"][0]["cpu"] == [32, 0, 16, 32]


@pytest.mark.parametrize("demand", [{"on_error": "fail"}, {"min_success": 0.6}])
def test_too_many_failures_fail_with_all_results_and_write_nothing(
    server: InferenceServer, tmp_path: Path, demand: dict[str, Any]
) -> None:
    path = tmp_path / "curves.json"
    queries = [query(server), query(server, name="worker-1", inlet_celsius=None)]
    with pytest.raises(WattwiseError, match="Only 1 of 2 .* worker-1 .*inlet") as caught:
        predict_power({"queries": queries, "path": str(path), **demand})
    assert [each["name"] for each in caught.value.fields["predictions"]] == ["worker-0"]
    assert [each["name"] for each in caught.value.fields["errors"]] == ["worker-1"]
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_rows": 0}, "batch_rows: 0 is too small"),
        ({"timeout": 0.0}, "timeout: .* is not a duration; give seconds above 0"),
        ({"concurrency": 0}, "concurrency: 0 is too small"),
        ({"min_success": 1.5}, "min_success: 1.5 is not between 0 and 1"),
        ({"ca_path": "/nowhere/ca.pem"}, "Cannot read certificate authorities"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        predict_power(options)


def test_a_node_may_stand_in_one_query_only(server: InferenceServer) -> None:
    with pytest.raises(InvalidInput, match="node 'worker-0' is listed twice"):
        predict_power({"queries": [query(server), query(server)]})


def test_models_that_are_not_verified_are_counted_in_one_warning() -> None:
    warnings: list[str] = []
    queries = [
        {
            "name": f"worker-{number}",
            "endpoint": f"https://127.0.0.1:9/v2/models/m{number}",
            "cpu_usage": [1],
            "inlet_celsius": 20,
            "delta_p_pascal": 5,
        }
        for number in range(3)
    ]
    options = {"queries": queries, "cpu_usage_format": "raw", "validate_certs": False}
    errors = predict_power(options, Context(warn=warnings.append))["errors"]
    assert {error["reason"] for error in errors} == {"unreachable"}
    assert len(warnings) == 1
    assert "The certificates of 3 " in warnings[0]


def test_credential_brings_the_trust_of_its_server(server: InferenceServer) -> None:
    entries = {
        "bad-pin": {"username": "u", "password": "p", "tls_fingerprint": "12:34"},
        "bad-ca": {"username": "u", "password": "p", "ca": "not PEM"},
    }
    endpoint = "https://127.0.0.1:9/v2/models/m"
    queries = [query(server, name=key, credential=key, endpoint=endpoint) for key in entries]
    errors = predict_power({"queries": queries, "credentials": entries})["errors"]
    assert [error["name"] for error in errors] == ["bad-pin", "bad-ca"]
    assert errors[0]["reason"] == "tls"
    assert "not a SHA-256 fingerprint" in errors[0]["detail"]
    assert "Cannot read certificate authorities" in errors[1]["detail"]


def test_progress_is_told_after_each_request(server: InferenceServer) -> None:
    told: list[tuple[int, int, int]] = []
    server.models["other"] = Model()
    queries = [query(server), query(server, name="worker-1", endpoint=server.endpoint("other"))]
    context = Context(progress=lambda done, total, failed: told.append((done, total, failed)))
    predict_power({"queries": queries}, context)
    assert told == [(1, 2, 0), (2, 2, 0)]


def test_result_is_plain_json(server: InferenceServer) -> None:
    queries = [query(server), query(server, name="worker-1", inlet_celsius=None)]
    result = predict_power({"queries": queries})
    assert json.loads(json.dumps(result)) == result
