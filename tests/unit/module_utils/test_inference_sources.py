# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Predictions of the nodes of a run: the model for each node."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from support.inference_server import InferenceServer, Model, linear_watts
from support.predictions import predict_nodes
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply
from support.snapshots import with_targets
from support.wao import fake, node, node_config

FORMAT_ANNOTATION = "wattwise.github.io/cpu-usage-format"
READING = {"inlet_celsius": 22.0, "delta_p_pascal": 8.0, "power_watts": None}


@dataclass
class Run:
    """A snapshot and readings of a few nodes of 64 cores."""

    server: InferenceServer
    nodes: list[MutableObject] = field(default_factory=list)
    node_configs: list[MutableObject] = field(default_factory=list)
    readings: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, predictor: MutableObject, **annotations: str) -> None:
        """A node with readings, and a NodeConfig with this predictor for it."""
        added = node(name, labels={"hall": name[-1]})
        added["status"]["capacity"] = {"cpu": "64", "memory": "1Gi"}
        self.nodes.append(added)
        config = node_config(f"c-{name}", name, annotations=annotations)
        config["spec"]["predictor"] = predictor
        self.node_configs.append(config)
        self.readings[name] = dict(READING)

    def predict(self, **options: Any) -> dict[str, Any]:
        body = {"cluster": {}, "nodes": self.nodes, "node_configs": self.node_configs}
        return predict_nodes(with_targets(body), self.readings, **options)

    def model(self, secret: str | None = None) -> MutableObject:
        """The endpoint of the model m."""
        term: MutableObject = {"type": "V2InferenceProtocol", "endpoint": self.server.endpoint("m")}
        return {**term, **({"basicAuthSecret": {"name": secret}} if secret else {})}


@pytest.fixture
def run() -> Iterator[Run]:
    with InferenceServer({"m": Model(), "machine": Model()}) as server:
        yield Run(server)


def names(entries: Sequence[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


def test_a_curve_for_every_configured_node(run: Run) -> None:
    for name in ("n2", "n1"):
        run.add(name, {"powerConsumption": run.model()})
    run.nodes.append(node("n3"))
    result = run.predict()
    assert names(result["predictions"]) == ["n1", "n2"]
    assert result["errors"] == result["without_predictor"] == []
    curve = result["predictions"][0]
    assert curve["cpu"] == pytest.approx([3.2 * step for step in range(21)])
    assert curve["watts"] == [linear_watts(5 * step, 22, 8) for step in range(21)]


def test_node_that_is_gone_and_node_without_predictor_are_no_errors(run: Run) -> None:
    run.add("gone", {"powerConsumption": run.model()})
    run.nodes.clear()
    run.add("n1", {})
    result = run.predict()
    assert result["predictions"] == result["errors"] == []
    assert result["without_predictor"] == ["n1"]


@pytest.mark.parametrize("quantity", ["inlet_celsius", "delta_p_pascal"])
def test_missing_reading_is_that_nodes_error(run: Run, quantity: str) -> None:
    for name in ("n1", "n2", "n3"):
        run.add(name, {"powerConsumption": run.model()})
    run.readings["n1"][quantity] = None
    del run.readings["n2"]
    result = run.predict()
    assert names(result["predictions"]) == ["n3"]
    assert [error["reason"] for error in result["errors"]] == ["no_sensor", "no_sensor"]


def test_annotation_overrides_the_format(run: Run) -> None:
    for name, usage_format in (("n1", "Raw"), ("n2", "x")):
        run.add(name, {"powerConsumption": run.model()}, **{FORMAT_ANNOTATION: usage_format})
    result = run.predict(cpu_usage_format="percent")
    assert max(row[0] for row in run.server.requests[0].rows) == 64
    (error,) = result["errors"]
    assert (error["name"], error["reason"]) == ("n2", "malformed")
    assert "'x'" in error["detail"]


def test_node_without_capacity(run: Run) -> None:
    run.add("n1", {"powerConsumption": run.model()})
    del run.nodes[0]["status"]["capacity"]
    (error,) = run.predict()["errors"]
    assert (error["name"], error["reason"]) == ("n1", "malformed")


def test_type_fake(run: Run) -> None:
    run.add("n1", {"powerConsumption": fake()})
    run.add("n2", {"powerConsumptionEndpointProvider": fake()})
    del run.readings["n2"]
    result = run.predict()
    assert [set(each["watts"]) for each in result["predictions"]] == [{3.14}, {3.14}]
    assert run.server.requests == []


def test_provider_gives_the_endpoint(run: Run) -> None:
    provider = {"type": "Redfish", "endpoint": "https://10.0.0.100"}
    run.add("n1", {"powerConsumption": run.model(), "powerConsumptionEndpointProvider": provider})
    run.add("n2", {"powerConsumptionEndpointProvider": provider})
    url = run.server.address
    named = {"name": "machine", "url": url, "type": "V2InferenceProtocol", "version": ""}
    endpoint = run.server.endpoint("machine")
    models: Any = [
        {"name": "n1", "power_consumption": {**named, "endpoint": endpoint}},
        {"name": "n2", "power_consumption": named},
    ]
    assert names(run.predict(models=models)["predictions"]) == ["n1", "n2"]
    paths = {request.path for request in run.server.requests}
    assert paths == {"/v2/models/machine/versions/v0.1.0/infer", "/v2/models/machine/infer"}


@pytest.mark.parametrize("models", [None, [], [{"name": "n1", "power_consumption": None}]])
def test_provider_without_a_model(run: Run, models: Any) -> None:
    provider = {"type": "Redfish", "endpoint": "https://10.0.0.100"}
    run.add("n1", {"powerConsumptionEndpointProvider": provider})
    (error,) = run.predict(models=models)["errors"]
    assert (error["reason"], error["endpoint"]) == ("not_found", "https://10.0.0.100")
    assert "wao-system/c-n1" in error["detail"]
    assert "redfish_ml_model_info" in error["detail"]


def test_model_of_an_unknown_type(run: Run) -> None:
    provider = {"type": "Redfish", "endpoint": "https://10.0.0.100"}
    run.add("n1", {"powerConsumptionEndpointProvider": provider})
    named = {"name": "m", "url": run.server.address, "type": "TFServing", "version": "1"}
    (error,) = run.predict(models=[{"name": "n1", "power_consumption": named}])["errors"]
    assert (error["reason"], "'TFServing'" in error["detail"]) == ("malformed", True)


@pytest.mark.parametrize(
    ("term", "sentence"),
    [
        ({"type": "Tensor", "endpoint": "http://h/v2/models/m"}, "'Tensor'"),
        ({"type": "", "endpoint": ""}, "powerConsumptionEndpointProvider"),
        ({"type": "V2InferenceProtocol", "endpoint": "h/v2"}, "spec.predictor.powerConsumption"),
        ({"type": "V2InferenceProtocol", "endpoint": "http://h/"}, "names no model"),
    ],
)
def test_node_config_that_names_no_usable_model(
    run: Run, term: MutableObject, sentence: str
) -> None:
    run.add("n1", {"powerConsumption": term})
    (error,) = run.predict()["errors"]
    assert (error["name"], error["reason"]) == ("n1", "malformed")
    assert sentence in error["detail"]


def secrets(asked: Asked) -> Reply:
    if asked.path != "/api/v1/namespaces/wao-system/secrets/models":
        return status_reply(404, "not found")
    data = {"username": "reader", "password": "t0p-Secret"}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": "models", "resourceVersion": "7"}
    return Reply({"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "data": encoded})


def test_secret_of_the_node_config_is_sent_also_where_a_provider_gives_the_endpoint(
    run: Run,
) -> None:
    run.server.models["m"] = Model(login=("reader", "t0p-Secret"))
    provider = {"type": "Redfish", "endpoint": "https://10.0.0.100"}
    empty = {"type": "", "endpoint": "", "basicAuthSecret": {"name": "models"}}
    run.add("n1", {"powerConsumption": run.model(secret="models")})
    run.add("n2", {"powerConsumption": empty, "powerConsumptionEndpointProvider": provider})
    run.add("n3", {"powerConsumption": run.model(secret="absent")})
    named = {"type": "V2InferenceProtocol", "endpoint": run.server.endpoint("m")}
    with ScriptedApi(secrets) as api:
        result = run.predict(
            host=api.url,
            models=[{"name": "n2", "power_consumption": named}],
            allow_plain_http=True,
        )
    assert names(result["predictions"]) == ["n1", "n2"]
    (error,) = result["errors"]
    assert (error["name"], error["reason"]) == ("n3", "credential")
    assert "wao-system/absent does not exist" in error["detail"]
    assert "t0p-Secret" not in json.dumps(result)
    assert result["requests"] == 1


def test_entry_in_credentials_takes_the_place_of_the_secret(run: Run) -> None:
    run.server.models["m"] = Model(login=("reader", "t0p-Secret"))
    run.add("n1", {"powerConsumption": run.model(secret="models")})
    entry = {"username": "reader", "password": "t0p-Secret"}
    result = run.predict(credentials={"wao-system/models": entry}, allow_plain_http=True)
    assert names(result["predictions"]) == ["n1"]
