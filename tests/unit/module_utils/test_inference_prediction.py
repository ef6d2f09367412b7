# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Predictions of single queries: watts, and one sentence for each error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from support.inference_server import InferenceServer, Model, linear_watts
from support.predictions import predict_queries

Query = dict[str, Any]
# 21 points from 0 to the capacity.
GRID = [64.0 * step / 20 for step in range(21)]


@pytest.fixture
def server() -> Iterator[InferenceServer]:
    with InferenceServer({"m": Model()}) as running:
        yield running


def query(server: InferenceServer, **changes: Any) -> Query:
    return {
        "name": "worker-0",
        "endpoint": server.endpoint("m"),
        "cpu_capacity": 64,
        "inlet_celsius": 22,
        "delta_p_pascal": 8,
        **changes,
    }


def only_error(result: dict[str, Any]) -> dict[str, str]:
    assert result["predictions"] == []
    (error,) = result["errors"]
    return dict(error)


@pytest.mark.parametrize(("usage_format", "factor"), [("percent", 100 / 64), ("raw", 1.0)])
def test_models_are_asked_in_percent_or_cores(
    server: InferenceServer, usage_format: str, factor: float
) -> None:
    result = predict_queries([query(server)], cpu_usage_format=usage_format)
    sent = pytest.approx([cpu * factor for cpu in GRID])
    assert [row[0] for row in server.requests[0].rows] == sent
    watts = [linear_watts(row[0], 22, 8) for row in server.requests[0].rows]
    assert result == {
        "predictions": [{"name": "worker-0", "cpu": GRID, "watts": pytest.approx(watts)}],
        "errors": [],
        "requests": 1,
    }


def test_base_path_of_a_gateway_is_kept(server: InferenceServer) -> None:
    endpoint = f"{server.address}/base/v2/models/m"
    assert predict_queries([query(server, endpoint=endpoint)])["errors"] == []
    assert server.requests[0].path == "/base/v2/models/m/infer"


def test_equal_points_are_asked_once_and_all_in_one_request(server: InferenceServer) -> None:
    queries = [query(server, name=f"worker-{number}") for number in range(30)]
    result = predict_queries(queries)
    assert [each["name"] for each in result["predictions"]] == [each["name"] for each in queries]
    assert len({tuple(each["watts"]) for each in result["predictions"]}) == 1
    assert result["requests"] == len(server.requests) == 1
    assert len(server.requests[0].rows) == 21


def test_type_fake_is_flat_and_asks_nothing(server: InferenceServer) -> None:
    asked = query(server, type="Fake", inlet_celsius=None, endpoint="https://fake-endpoint")
    result = predict_queries([asked])
    assert result["predictions"][0]["watts"] == [3.14] * 21
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
        ({"cpu_capacity": math.inf}, "malformed", "give cpu_capacity"),
        ({"cpu_capacity": 1e-9}, "malformed", "curve.cpu: the values must ascend"),
        ({"cpu_capacity": 1e6}, "malformed", "curve.cpu: 150000.0 is not from 0 to 100000"),
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
    result = predict_queries([query(server, name="worker-1"), query(server, **changes)])
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
    server.models["m"] = Model(
        watts=lambda cpu, inlet, *_: value if (cpu, inlet) == (50, 22) else 100.0
    )
    good = query(server, name="worker-1", inlet_celsius=23)
    result = predict_queries([query(server), good])
    assert [each["name"] for each in result["predictions"]] == ["worker-1"]
    (error,) = result["errors"]
    assert (error["name"], error["reason"]) == ("worker-0", reason)
    assert sentence in error["detail"]


def test_a_failed_request_is_the_error_of_each_of_its_nodes(server: InferenceServer) -> None:
    server.models["m"] = Model(login=("reader", "t0p-Secret"))
    queries = [query(server, name=name) for name in ("worker-0", "worker-1")]
    errors = predict_queries(queries)["errors"]
    assert [(error["name"], error["reason"]) for error in errors] == [
        ("worker-0", "unauthorized"),
        ("worker-1", "unauthorized"),
    ]
    assert all(error["endpoint"] == server.endpoint("m") for error in errors)


def test_credentials_of_a_query(server: InferenceServer) -> None:
    server.models["m"] = Model(login=("reader", "t0p-Secret"))
    protected: list[str] = []
    result = predict_queries(
        [
            query(server, name="own", username="reader", password="t0p-Secret"),
            query(server, name="by-key", credential="models"),
        ],
        Context(protect=protected.append),
        credentials={"models": {"username": "reader", "password": "t0p-Secret"}},
        allow_plain_http=True,
    )
    assert [each["name"] for each in result["predictions"]] == ["own", "by-key"]
    assert set(protected) == {"t0p-Secret"}


def test_default_credential_is_not_sent_to_models(server: InferenceServer) -> None:
    """It belongs to the BMCs; a model's server, often without TLS, must not see it."""
    account = {"username": "root", "password": "calvin"}
    predict_queries([query(server)], credentials={"default": account})
    assert "authorization" not in server.requests[0].headers


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
        predict_queries([], **options)


def test_models_that_are_not_verified_are_counted_in_one_warning() -> None:
    warnings: list[str] = []
    queries = [
        {
            "name": f"worker-{number}",
            "endpoint": f"https://127.0.0.1:9/v2/models/m{number}",
            "cpu_capacity": 1.0,
            "inlet_celsius": 20,
            "delta_p_pascal": 5,
        }
        for number in range(3)
    ]
    context = Context(warn=warnings.append)
    errors = predict_queries(queries, context, validate_certs=False)["errors"]
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
    errors = predict_queries(queries, credentials=entries)["errors"]
    assert [error["name"] for error in errors] == ["bad-pin", "bad-ca"]
    assert errors[0]["reason"] == "tls"
    assert "not a SHA-256 fingerprint" in errors[0]["detail"]
    assert "Cannot read certificate authorities" in errors[1]["detail"]


def test_progress_is_told_after_each_request(server: InferenceServer) -> None:
    told: list[tuple[int, int, int]] = []
    server.models["other"] = Model()
    queries = [query(server), query(server, name="worker-1", endpoint=server.endpoint("other"))]
    context = Context(progress=lambda done, total, failed: told.append((done, total, failed)))
    predict_queries(queries, context)
    assert told == [(1, 2, 0), (2, 2, 0)]


def test_result_is_plain_json(server: InferenceServer) -> None:
    queries = [query(server), query(server, name="worker-1", inlet_celsius=None)]
    result = predict_queries(queries)
    assert json.loads(json.dumps(result)) == result
