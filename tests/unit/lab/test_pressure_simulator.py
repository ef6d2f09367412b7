# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import pressure, process
from lab.embedded import EmbeddedLab, embedded_lab
from lab.pressure import BasicAuth, sensor_id
from lab.serving import in_thread
from lab.state import LabSettings, LabState
from support.bmc_client import basic


def get(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab")) as running:
        running.admin("POST", "/clock", {"offset_seconds": 5000, "frozen": True})
        yield running


@pytest.fixture
def port(lab: EmbeddedLab) -> int:
    return lab.settings.ports["pressure"]


def test_a_sensor_is_found_in_three_ways_and_tells_the_truth(lab: EmbeddedLab, port: int) -> None:
    machine = lab.machines[2]
    truth = lab.admin("GET", "/truth")[machine.name]
    expected = {
        "pressure": round(truth["delta_p_pascal"], 2),
        "sensorid": sensor_id(machine),
        "temperature": round(truth["inlet_celsius"], 2),
    }
    for path in (
        f"/api/sensor/{sensor_id(machine)}",
        f"/api/sensor/by_nodename/{machine.name}",
        f"/api/sensor/by_nodeaddress/{machine.internal_address}",
    ):
        assert get(port, path) == (200, {"code": 200, "sensor": [expected]})


def test_all_sensors_are_in_one_list(lab: EmbeddedLab, port: int) -> None:
    status, body = get(port, "/api/sensors")
    assert (status, body["code"]) == (200, 200)
    ids = [sensor["sensorid"] for sensor in body["sensors"]]
    assert ids == [sensor_id(machine) for machine in lab.machines]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "path", ["/api/sensor/FFFFFFF", "/api/sensor/by_nodename/x", "/api/sensor/by_nodeaddress/::1"]
)
def test_what_is_unknown_is_an_empty_list(port: int, path: str) -> None:
    assert get(port, path) == (200, {"code": 200, "sensor": []})


def test_the_fault_empties_the_answer(lab: EmbeddedLab, port: int) -> None:
    broken, whole = lab.machines[:2]
    lab.admin("POST", "/faults", {"kind": "pressure-empty", "node": broken.name})
    assert get(port, f"/api/sensor/by_nodename/{broken.name}")[1]["sensor"] == []
    assert get(port, f"/api/sensor/by_nodename/{whole.name}")[1]["sensor"] != []
    assert len(get(port, "/api/sensors")[1]["sensors"]) == 5
    lab.admin("DELETE", "/faults")
    assert get(port, f"/api/sensor/by_nodename/{broken.name}")[1]["sensor"] != []


def test_a_password_can_be_wanted(tmp_path: Path) -> None:
    state = LabState(tmp_path)
    state.create()
    settings = LabSettings(nodes=1, racks=1, ports={"pressure": process.free_port()})
    path, port = "/api/sensor/by_nodename/r1-n01", settings.ports["pressure"]
    with in_thread(pressure.serving(state, settings, BasicAuth("user", "secret"))):
        assert get(port, path)[0] == 401
        assert get(port, path, basic("user", "wrong"))[0] == 401
        assert get(port, path, basic("user", "secret"))[0] == 200


def test_the_service_starts_as_a_process_and_stops(tmp_path: Path) -> None:
    state = LabState(tmp_path / "lab")
    state.create()
    settings = LabSettings(nodes=2, racks=1, ports={"pressure": process.free_port()})
    state.write_settings(settings)
    (service,) = pressure.services(state, settings)
    assert service.command[0] == sys.executable
    process.start([service], state)
    try:
        assert service.ready()
    finally:
        process.stop(state)
    assert not service.ready()
