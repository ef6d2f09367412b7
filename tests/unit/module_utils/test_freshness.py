# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings younger than the fetchInterval of their NodeConfig are not read again."""

from __future__ import annotations

import datetime
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.observe.pressure import read_pressure
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.https_server import SHARED_CERTIFICATE, HttpsServer
from support.redfish_trees import SERVER, one_server, ref
from support.snapshots import with_targets

Json = dict[str, t.Any]
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
PRESSURE = "/api/sensor/by_nodename/n1"
DOCUMENTS: Json = {
    **one_server(Thermal=ref(f"{SERVER}/Thermal"), Power=ref(f"{SERVER}/Power")),
    f"{SERVER}/Thermal": {
        "Temperatures": [{"Name": "Inlet", "PhysicalContext": "Intake", "ReadingCelsius": 22}]
    },
    f"{SERVER}/Power": {"PowerControl": [{"PowerConsumedWatts": 300}]},
    PRESSURE: {"code": 200, "sensor": [{"sensorid": "s", "pressure": 4.5}]},
}


@pytest.fixture
def server() -> Iterator[HttpsServer]:
    with HttpsServer(DOCUMENTS) as one:
        yield one


def snapshot(folder: Path, server: HttpsServer, interval: str, status: Json | None = None) -> str:
    def term(kind: str) -> Json:
        return {"type": kind, "endpoint": server.endpoint, "fetchInterval": interval}

    collector = {"inletTemp": term("Redfish"), "deltaP": term("DifferentialPressureAPI")}
    config = {
        "apiVersion": "wao.bitmedia.co.jp/v1beta1",
        "kind": "NodeConfig",
        "metadata": {"name": "n1", "namespace": "wao-system"},
        "spec": {"nodeName": "n1", "metricsCollector": collector, "predictor": {}},
        "status": status or {},
    }
    path = folder / "snapshot.json"
    nodes = [{"metadata": {"name": "n1"}}]
    body = {"cluster": {}, "nodes": nodes, "node_configs": [config]}
    documents.write(str(path), "snapshot", with_targets(body))
    return str(path)


def previous(folder: Path, seconds: float, source: str = "read", **values: float | None) -> str:
    moment = (NOON - datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    given = {"inlet_celsius": 20.0, "delta_p_pascal": 3.0, "power_watts": 250.0, **values}
    known = [name for name, value in given.items() if value is not None]
    entry = {
        **given,
        "time": moment,
        "times": dict.fromkeys(known, moment),
        "source": dict.fromkeys(known, source),
        "stale": False,
    }
    path = folder / "readings.json"
    documents.write(str(path), "readings", {"readings": {"n1": entry}, "errors": []})
    return str(path)


def read(work: t.Callable[..., Json], **parameters: t.Any) -> Json:
    parameters["tls_fingerprint"] = [SHARED_CERTIFICATE.fingerprint]
    return work(parameters, Context(now=lambda: NOON))


@pytest.mark.parametrize(
    ("interval", "age", "source", "requests"),
    [
        ("15s", 14, "read", 0),
        ("15s", 15, "read", 1),
        ("5m", 299, "kept", 0),
        ("5m", 299, "last", 0),
        ("5m", 299, "fallback", 1),
        ("15s", -60, "read", 1),
    ],
)
def test_a_reading_younger_than_the_interval_is_not_read_again(
    server: HttpsServer, tmp_path: Path, interval: str, age: float, source: str, requests: int
) -> None:
    given = {
        "snapshot": snapshot(tmp_path, server, interval),
        "previous": previous(tmp_path, age, source),
    }
    pressure = read(read_pressure, **given)
    assert server.requests[PRESSURE] == requests
    [reading] = pressure["readings"]
    thermal = read(read_thermal, **given)
    [bmc] = thermal["readings"]
    assert pressure["errors"] == thermal["errors"] == []
    assert bool(server.requests[f"{SERVER}/Power"]) == bool(requests)
    if requests:
        assert (reading["pascals"], bmc["inlet_celsius"], bmc["power_watts"]) == (4.5, 22, 300)
        assert "kept" not in reading
        assert "kept" not in bmc
    else:
        assert server.total == 0
        assert (reading["pascals"], bmc["inlet_celsius"], bmc["power_watts"]) == (3.0, 20.0, 250.0)
        moment = (NOON - datetime.timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert reading["kept"] == {"pascals": moment}
        assert bmc["kept"] == {"inlet_celsius": moment, "power_watts": moment}


def test_refresh_reads_what_is_young(server: HttpsServer, tmp_path: Path) -> None:
    given = {"snapshot": snapshot(tmp_path, server, "1h"), "previous": previous(tmp_path, 1)}
    [reading] = read(read_thermal, **given, refresh=True)["readings"]
    assert reading["inlet_celsius"] == 22
    assert read(read_pressure, **given, refresh=True)["readings"][0]["pascals"] == 4.5


def test_only_the_quantity_that_is_due_is_asked_for(server: HttpsServer, tmp_path: Path) -> None:
    given = {
        "snapshot": snapshot(tmp_path, server, "1h"),
        "previous": previous(tmp_path, 1, power_watts=None),
    }
    [reading] = read(read_thermal, **given)["readings"]
    assert (reading["inlet_celsius"], reading["power_watts"]) == (20.0, 300)
    assert list(reading["kept"]) == ["inlet_celsius"]
    assert server.requests[f"{SERVER}/Thermal"] == 0


def test_a_young_temperature_stands_while_the_machine_does_not_answer(tmp_path: Path) -> None:
    with HttpsServer(DOCUMENTS) as gone:
        path = snapshot(tmp_path, gone, "1h")
    before = previous(tmp_path, 1, power_watts=None)
    result = read(read_thermal, snapshot=path, previous=before, timeout=2.0)
    assert [item["inlet_celsius"] for item in result["readings"]] == [20.0]
    assert [error["reason"] for error in result["errors"]] == ["unreachable"]


def test_the_status_says_how_young_a_reading_is_too(server: HttpsServer, tmp_path: Path) -> None:
    status = {
        "readings": {
            "inletTemp": {"celsius": 19.5, "time": "2026-01-31T11:59:50Z"},
            "power": {"watts": 200, "time": "2026-01-31T11:59:50Z"},
            "deltaP": {"pascals": 2.5, "time": "9999-12-31T23:59:59-12:00"},
        },
        "sensors": {"inletTemp": {"uri": f"{SERVER}/Thermal", "name": "Inlet"}, "vendor": "X"},
    }
    path = snapshot(tmp_path, server, "15s", status)
    [reading] = read(read_thermal, snapshot=path)["readings"]
    assert server.total == 0
    assert (reading["inlet_celsius"], reading["power_watts"]) == (19.5, 200.0)
    assert (reading["sensor_name"], reading["vendor"]) == ("Inlet", "X")
    assert read(read_pressure, snapshot=path)["readings"][0]["pascals"] == 4.5


@pytest.mark.parametrize("content", ["{", "[]", '{"readings": {"n1": 7}}'])
def test_a_document_that_cannot_be_read_makes_everything_due(
    server: HttpsServer, tmp_path: Path, content: str
) -> None:
    (tmp_path / "readings.json").write_text(content)
    path = snapshot(tmp_path, server, "1h")
    given = {"snapshot": path, "previous": str(tmp_path / "readings.json")}
    assert read(read_thermal, **given)["readings"][0]["inlet_celsius"] == 22


def test_literal_targets_have_no_interval(server: HttpsServer, tmp_path: Path) -> None:
    targets = [{"name": "n1", "endpoint": server.endpoint}]
    result = read(read_thermal, targets=targets, previous=previous(tmp_path, 1))
    assert result["readings"][0]["inlet_celsius"] == 22
