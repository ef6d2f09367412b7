# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""redfish_ml_model_info's function against BMCs on loopback."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.models import read_models
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, Reply
from support.redfish_trees import ROOT, collection, ref
from support.snapshots import with_targets

SYSTEM = f"{ROOT}/Systems/System.Embedded.1"
POWER = {
    "Name": "PC-PowerEdgeR650xs-2CPU",
    "Url": "http://10.0.0.20",
    "Type": "V2InferenceProtocol",
    "Version": "v0.1.0",
}
RESPONSE = {**POWER, "Name": "RT-PowerEdgeR650xs-2CPU"}
ENDPOINT = "http://10.0.0.20/v2/models/PC-PowerEdgeR650xs-2CPU/versions/v0.1.0/infer"


def tree(*models: t.Any, system: str = SYSTEM) -> dict[str, Document]:
    names = ("PowerConsumptionModel", "ResponseTimeModel")
    body = {"Name": "Machine Learning Model", **dict(zip(names, models, strict=False))}
    return {f"{ROOT}/Systems": collection(system), f"{system}/MachineLearningModel": body}


def read(documents: dict[str, Document], **server_options: t.Any) -> dict[str, t.Any]:
    with HttpsServer(documents, **server_options) as server:
        parameters = {
            "targets": [{"name": "node-1", "endpoint": server.endpoint}],
            "tls_fingerprint": [SHARED_CERTIFICATE.fingerprint],
        }
        return {**read_models(parameters, Context()), "asked": server.requests}


def test_both_models_in_two_requests() -> None:
    result = read(tree(POWER, RESPONSE))
    assert result["errors"] == []
    (model,) = result["models"]
    assert model["name"] == "node-1"
    assert model["power_consumption"] == {
        "name": "PC-PowerEdgeR650xs-2CPU",
        "url": "http://10.0.0.20",
        "type": "V2InferenceProtocol",
        "version": "v0.1.0",
        "endpoint": ENDPOINT,
    }
    assert model["response_time"]["name"] == "RT-PowerEdgeR650xs-2CPU"
    assert sum(result["asked"].values()) == 2


def endpoint(power: dict[str, t.Any]) -> str:
    result = read(tree({**POWER, **power}))
    assert result["errors"] == []
    return str(result["models"][0]["power_consumption"]["endpoint"])


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, ENDPOINT),
        ({"Url": "http://10.0.0.20/"}, ENDPOINT),
        ({"Url": "http://h:8080/base"}, ENDPOINT.replace("10.0.0.20", "h:8080/base")),
        ({"Version": ""}, ENDPOINT.replace("/versions/v0.1.0", "")),
        ({"Version": " "}, ENDPOINT.replace("/versions/v0.1.0", "")),
        ({"Name": "a/b c"}, ENDPOINT.replace("PC-PowerEdgeR650xs-2CPU", "a%2Fb%20c")),
    ],
)
def test_the_endpoint_is_built_from_the_members(members: dict[str, t.Any], expected: str) -> None:
    assert endpoint(members) == expected


@pytest.mark.parametrize("member", ["Name", "Url", "Type", "Version"])
@pytest.mark.parametrize("value", [None, 7, "absent"])
def test_a_model_without_all_its_members_is_refused(member: str, value: t.Any) -> None:
    power = {**POWER, member: value}
    if value == "absent":
        del power[member]
    result = read(tree(power))
    assert result["models"] == []
    assert result["errors"][0]["reason"] == "malformed"
    assert member in result["errors"][0]["detail"]


@pytest.mark.parametrize("member", ["Name", "Url", "Type"])
def test_a_model_with_an_empty_member_is_refused(member: str) -> None:
    assert read(tree({**POWER, member: ""}))["errors"][0]["reason"] == "malformed"


@pytest.mark.parametrize("url", ["10.0.0.20", "ftp://h", "http://u:p@h"])
def test_a_model_s_url_must_be_one(url: str) -> None:
    assert read(tree({**POWER, "Url": url}))["errors"][0]["reason"] == "malformed"


@pytest.mark.parametrize("model", [None, [], "x", {}])
def test_no_power_model_is_malformed(model: t.Any) -> None:
    assert read(tree(model))["errors"][0]["reason"] == "malformed"


def test_an_incomplete_response_time_model_is_left_out() -> None:
    result = read(tree(POWER, {**RESPONSE, "Url": None}))
    assert "response_time" not in result["models"][0]
    assert result["errors"] == []


def test_names_of_members_may_be_in_any_case() -> None:
    lower = {name.lower(): value for name, value in POWER.items()}
    documents = tree()
    documents[f"{SYSTEM}/MachineLearningModel"] = {"powerConsumptionModel": lower}
    assert read(documents)["models"][0]["power_consumption"]["endpoint"] == ENDPOINT


def test_an_answer_that_is_not_called_json_is_read_and_nothing_panics() -> None:
    documents = tree(POWER)
    body = documents[f"{SYSTEM}/MachineLearningModel"]
    headers = {"Content-Type": "text/plain"}
    documents[f"{SYSTEM}/MachineLearningModel"] = Reply(body=body, headers=headers)
    assert read(documents)["models"][0]["power_consumption"]["endpoint"] == ENDPOINT


def test_the_first_system_that_has_models_is_taken() -> None:
    documents = tree(POWER)
    documents[f"{ROOT}/Systems"] = collection(f"{ROOT}/Systems/HGX", f"{SYSTEM}/")
    assert read(documents)["models"][0]["power_consumption"]["endpoint"] == ENDPOINT


def test_the_system_s_link_is_followed_where_the_usual_place_is_empty() -> None:
    documents = tree(POWER)
    documents[f"{ROOT}/Oem/Models"] = documents.pop(f"{SYSTEM}/MachineLearningModel")
    documents[SYSTEM] = {"MachineLearningModel": ref(f"{ROOT}/Oem/Models")}
    assert read(documents)["models"][0]["power_consumption"]["endpoint"] == ENDPOINT


def test_the_root_says_where_the_systems_are() -> None:
    documents = tree(POWER)
    documents[f"{ROOT}/Elsewhere"] = documents.pop(f"{ROOT}/Systems")
    documents[ROOT] = {"Systems": ref(f"{ROOT}/Elsewhere")}
    assert read(documents)["models"][0]["power_consumption"]["endpoint"] == ENDPOINT


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ({f"{ROOT}/Systems": collection()}, "not_found"),
        ({f"{ROOT}/Systems": collection(SYSTEM)}, "not_found"),
        ({}, "not_found"),
        ({f"{ROOT}/Systems": Reply(401)}, "unauthorized"),
        ({f"{ROOT}/Systems": Reply(body=b"<html>")}, "malformed"),
        ({f"{ROOT}/Systems": collection(SYSTEM), **dict.fromkeys([SYSTEM], Reply(501))}, None),
    ],
)
def test_what_is_missing_is_named(documents: dict[str, Document], reason: str | None) -> None:
    result = read(documents)
    assert result["models"] == []
    assert result["errors"][0]["reason"] == (reason or "server_error")


def test_fakes_answer_without_http(tmp_path: Path) -> None:
    fake = {"type": "Fake", "endpoint": ""}
    config = {
        "apiVersion": "wao.bitmedia.co.jp/v1beta1",
        "kind": "NodeConfig",
        "metadata": {"name": "n", "namespace": "wao-system"},
        "spec": {
            "nodeName": "n",
            "metricsCollector": {"inletTemp": fake, "deltaP": fake},
            "predictor": {"powerConsumptionEndpointProvider": fake},
        },
    }
    snapshot = {
        "document": "wattwise.kube/snapshot/v1",
        "time": "2026-11-21T12:00:00Z",
        "cluster": {},
        "nodes": [{"metadata": {"name": "n"}}],
        "node_configs": [config],
    }
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(with_targets(snapshot)))
    model = read_models({"snapshot": str(path)}, Context())["models"][0]["power_consumption"]
    assert (model["type"], model["endpoint"]) == ("Fake", "https://fake-endpoint")
