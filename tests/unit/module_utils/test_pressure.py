# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""differential_pressure_info's function against a server on loopback."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.observe.pressure import read_pressure
from support.examples import examples
from support.https_server import Document, HttpsServer, Reply
from support.snapshots import with_targets

BY_NAME = "/api/sensor/by_nodename/node-1"
SENSOR = {"pressure": 0.01, "sensorid": "101037B", "temperature": 26.02}


def answer(*entries: t.Any, code: t.Any = 200) -> dict[str, t.Any]:
    return {"code": code, "sensor": list(entries)}


def read(documents: dict[str, Document], **target: t.Any) -> dict[str, t.Any]:
    with HttpsServer(documents, certificate=None) as server:
        one = {"name": "node-1", "endpoint": server.endpoint, **target}
        return read_pressure({"targets": [one]}, Context())


def error_of(document: Document) -> dict[str, str]:
    result = read({BY_NAME: document})
    assert result["readings"] == []
    return t.cast("dict[str, str]", result["errors"][0])


@pytest.mark.parametrize(
    ("lookup", "path"),
    [
        ({}, BY_NAME),
        ({"node_name": "node-0"}, "/api/sensor/by_nodename/node-0"),
        ({"sensor": "2027B30"}, "/api/sensor/2027B30"),
        ({"node_ip": "10.10.0.1"}, "/api/sensor/by_nodeaddress/10.10.0.1"),
        ({"sensor": "2027B30", "node_name": "node-0"}, "/api/sensor/2027B30"),
        ({"sensor": "a b/c"}, "/api/sensor/a b/c"),
    ],
)
def test_a_sensor_is_looked_up_by_itself_or_its_node(lookup: dict[str, str], path: str) -> None:
    result = read({path: answer(SENSOR)}, **lookup)
    assert result["readings"] == [
        {
            "name": "node-1",
            "pascals": 0.01,
            "sensor_id": "101037B",
            "temperature_celsius": 26.02,
        }
    ]
    assert (result["errors"], result["changed"]) == ([], False)


def test_the_first_of_several_sensors_is_taken() -> None:
    result = read({BY_NAME: answer(SENSOR, {"pressure": 9, "sensorid": "x"})})
    assert result["readings"][0]["sensor_id"] == "101037B"


def test_the_endpoint_s_base_path_is_kept() -> None:
    with HttpsServer({f"/dp{BY_NAME}": answer(SENSOR)}, certificate=None) as server:
        targets = [{"name": "node-1", "endpoint": f"{server.endpoint}/dp/"}]
        assert len(read_pressure({"targets": targets}, Context())["readings"]) == 1


@pytest.mark.parametrize("pascals", [-10_000, 0, "7.5", 10_000])
def test_believable_pressures(pascals: t.Any) -> None:
    result = read({BY_NAME: answer({"pressure": pascals})})
    assert result["readings"][0]["pascals"] == float(pascals)
    assert result["readings"][0]["sensor_id"] is None
    assert result["readings"][0]["temperature_celsius"] is None


@pytest.mark.parametrize("pascals", [10_001, -20_000, 101_325])
def test_the_absolute_pressure_of_air_is_implausible(pascals: float) -> None:
    error = error_of(answer({**SENSOR, "pressure": pascals}))
    assert error["reason"] == "implausible"
    assert "101037B" in error["detail"]


@pytest.mark.parametrize("pascals", [None, "", "n/a", True, [], b'{"sensor":[{"pressure":NaN}]}'])
def test_a_missing_pressure_is_missing_and_never_zero(pascals: t.Any) -> None:
    document: Document = answer({**SENSOR, "pressure": pascals})
    if isinstance(pascals, bytes):
        document = Reply(body=pascals)
    error = error_of(document)
    assert error["reason"] == "no_sensor"
    assert "no pressure" in error["detail"]


def test_a_pressure_that_is_absent_is_missing() -> None:
    assert error_of(answer({"sensorid": "x"}))["reason"] == "no_sensor"


def test_an_unknown_node_is_named() -> None:
    error = error_of(answer())
    assert error["reason"] == "no_sensor"
    assert BY_NAME in error["detail"] and "register" in error["detail"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(404, "not_found"), ("401", "unauthorized"), (500, "server_error"), ("?", "malformed")],
)
def test_a_code_in_the_body_counts_like_a_status(code: t.Any, reason: str) -> None:
    error = error_of(answer(SENSOR, code=code))
    assert error["reason"] == reason
    assert repr(code) in error["detail"]


@pytest.mark.parametrize("body", [b"[]", b"7", b'{"code":200}', b'{"sensor":{}}', b"<html>"])
def test_another_shape_is_malformed(body: bytes) -> None:
    assert error_of(Reply(body=body))["reason"] == "malformed"


def test_a_code_is_optional_and_may_be_text() -> None:
    assert read({BY_NAME: {"sensor": [SENSOR]}})["errors"] == []
    assert read({BY_NAME: answer(SENSOR, code="200")})["errors"] == []


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["code", "sensor", "pressure", "sensorid", "temperature"]), inner
        ),
    ),
    max_leaves=8,
)


@examples(20)
@given(st.lists(JSON, max_size=8))
def test_any_json_is_a_reading_or_an_error(bodies: list[t.Any]) -> None:
    documents: dict[str, Document] = {
        f"/api/sensor/by_nodename/n{number}": Reply(body=json.dumps(body).encode())
        for number, body in enumerate(bodies)
    }
    with HttpsServer(documents, certificate=None) as server:
        targets = [
            {"name": f"n{number}", "endpoint": server.endpoint} for number in range(len(bodies))
        ]
        result = read_pressure({"targets": targets}, Context())
    assert len(result["readings"]) + len(result["errors"]) == len(bodies)


class TestManyNodes:
    """One server that knows all nodes."""

    def test_it_gets_at_most_four_requests_at_once(self) -> None:
        documents: dict[str, Document] = {
            f"/api/sensor/by_nodename/n{number}": answer(SENSOR) for number in range(20)
        }
        with HttpsServer(documents, certificate=None, delay_seconds=0.01) as server:
            targets = [{"name": f"n{number}", "endpoint": server.endpoint} for number in range(20)]
            result = read_pressure({"targets": targets}, Context())
            assert server.seen.most_in_flight == 4
            assert len(server.seen.peers) == 4
        assert [entry["name"] for entry in result["readings"]] == [f"n{n}" for n in range(20)]

    def test_nodes_that_share_a_sensor_cost_one_request(self) -> None:
        with HttpsServer({"/api/sensor/A": answer(SENSOR)}, certificate=None) as server:
            targets = [
                {"name": f"n{number}", "endpoint": server.endpoint, "sensor": sensor}
                for number, sensor in enumerate(["A", "A", "B", "A"])
            ]
            result = read_pressure({"targets": targets}, Context())
            assert server.requests == {"/api/sensor/A": 1, "/api/sensor/B": 1}
        assert [entry["name"] for entry in result["readings"]] == ["n0", "n1", "n3"]
        assert [(error["name"], error["reason"]) for error in result["errors"]] == [
            ("n2", "not_found")
        ]


class TestSnapshot:
    """The pressure endpoints of NodeConfigs."""

    def path(self, folder: Path, *terms: dict[str, str]) -> str:
        configs = [
            {
                "apiVersion": "wao.bitmedia.co.jp/v1beta1",
                "kind": "NodeConfig",
                "metadata": {"name": f"n{number}", "namespace": "wao-system"},
                "spec": {
                    "nodeName": f"n{number}",
                    "metricsCollector": {
                        "inletTemp": {"type": "Fake", "endpoint": ""},
                        "deltaP": term,
                    },
                    "predictor": {},
                },
            }
            for number, term in enumerate(terms)
        ]
        body = {
            "document": "wattwise.kube/snapshot/v1",
            "time": "2026-11-21T12:00:00Z",
            "cluster": {},
            "nodes": [{"metadata": {"name": f"n{number}"}} for number in range(len(terms))],
            "node_configs": configs,
        }
        path = folder / "snapshot.json"
        path.write_text(json.dumps(with_targets(body)))
        return str(path)

    def test_by_node_name_and_fake(self, tmp_path: Path) -> None:
        documents: dict[str, Document] = {"/api/sensor/by_nodename/n0": answer(SENSOR)}
        with HttpsServer(documents, certificate=None) as server:
            path = self.path(
                tmp_path,
                {"type": "DifferentialPressureAPI", "endpoint": server.endpoint},
                {"type": "Fake", "endpoint": ""},
                {"type": "Fake", "endpoint": ""},
                {"type": "Barometer", "endpoint": server.endpoint},
            )
            result = read_pressure({"snapshot": path}, Context())
        assert [entry["pascals"] for entry in result["readings"]] == [0.01, 7.5, 7.5]
        assert "Barometer" in result["errors"][0]["detail"]


def test_names_must_differ() -> None:
    targets = [{"name": "a", "endpoint": "http://h"}] * 2
    with pytest.raises(InvalidInput, match="'a'"):
        read_pressure({"targets": targets}, Context())
