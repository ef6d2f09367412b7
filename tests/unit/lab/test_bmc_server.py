# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated BMCs over their real sockets: access, and faults on demand."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import bmc, pki, process
from lab.bmc.certificates import fingerprint, folder
from lab.embedded import EmbeddedLab, embedded_lab
from lab.errors import LabError
from lab.machines import Machine, build_machines
from lab.serving import in_thread
from lab.state import LabSettings, LabState
from support.bmc_client import BmcClient, basic

ROOT = "/redfish/v1"
SESSIONS = f"{ROOT}/SessionService/Sessions"
INLET = f"{ROOT}/Chassis/System.Embedded.1/Sensors/SystemBoardInletTemp"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab"), nodes=10) as lab:
        yield lab


@pytest.fixture
def lab(running: EmbeddedLab) -> Iterator[EmbeddedLab]:
    yield running
    running.admin("DELETE", "/faults")
    running.admin("DELETE", "/requests")
    running.admin("POST", "/latency", {"seconds": [0, 0]})


@pytest.fixture
def machine(lab: EmbeddedLab) -> Machine:
    return lab.machine("idrac9")


@pytest.fixture
def client(lab: EmbeddedLab, machine: Machine) -> Iterator[BmcClient]:
    with BmcClient(lab, machine) as client:
        yield client


def break_it(lab: EmbeddedLab, machine: Machine, kind: str, **fields: object) -> None:
    lab.admin("POST", "/faults", [{"kind": kind, "node": machine.name, **fields}])


def account(lab: EmbeddedLab, machine: Machine) -> dict[str, object]:
    found: dict[str, object] = lab.admin("GET", "/accounts")[machine.name]
    return found


def raw_connection(lab: EmbeddedLab, machine: Machine) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(lab.ca_path))
    plain = socket.create_connection((machine.bmc_address, lab.settings.ports["bmc"]), timeout=5)
    return context.wrap_socket(plain, server_hostname=machine.bmc_address)


@pytest.mark.parametrize("path", ["/redfish", "/redfish/", ROOT, ROOT + "/"])
def test_the_service_root_is_open(client: BmcClient, path: str) -> None:
    assert client.get(path, headers={}).status == 200


def test_everything_else_wants_a_password(client: BmcClient) -> None:
    answer = client.get(f"{ROOT}/Chassis", headers={})
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic")
    assert answer.body["error"]["@Message.ExtendedInfo"][0]["MessageId"].startswith("Base.")


@pytest.mark.parametrize("header", ["Basic", "Basic %%%", "Basic /w==", "Bearer abc"])
def test_a_header_that_is_no_password_counts_as_none(
    lab: EmbeddedLab, machine: Machine, client: BmcClient, header: str
) -> None:
    before = account(lab, machine)["failed_attempts"]
    assert client.get(f"{ROOT}/Chassis", {"Authorization": header}).status == 401
    assert account(lab, machine)["failed_attempts"] == before


def test_a_slash_at_the_end_changes_nothing(client: BmcClient) -> None:
    assert client.get(f"{ROOT}/Systems/").body == client.get(f"{ROOT}/Systems").body


def test_ids_may_be_percent_encoded(client: BmcClient) -> None:
    answer = client.get(f"{ROOT}/Chassis/Enclosure.Internal.0%2D1")
    assert answer.body["Id"] == "Enclosure.Internal.0-1"


def test_what_is_missing_is_named(client: BmcClient) -> None:
    answer = client.get(f"{ROOT}/Chassis/None")
    assert answer.status == 404
    error = answer.body["error"]
    assert error["code"] == "Base.1.12.ResourceMissingAtURI"
    assert f"{ROOT}/Chassis/None" in error["message"]


def test_resources_cannot_be_changed(client: BmcClient) -> None:
    answer = client.request("PATCH", f"{ROOT}/Systems", body={})
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert client.request("HEAD", f"{ROOT}/Systems").body is None


def test_three_wrong_passwords_lock_the_account_of_that_machine_alone(
    lab: EmbeddedLab, machine: Machine, client: BmcClient
) -> None:
    wrong = basic(machine.bmc_username, "wrong")
    for _index in range(3):
        assert client.get(f"{ROOT}/Chassis", wrong).status == 401
    assert account(lab, machine)["locked"] is True
    assert client.get(f"{ROOT}/Chassis").status == 401
    others = [item for item in lab.machines if item is not machine]
    assert not any(account(lab, item)["locked"] for item in others)
    lab.admin("POST", "/clock", {"offset_seconds": 31 * 60})
    assert client.get(f"{ROOT}/Chassis").status == 200


def test_a_session_from_login_to_logout(client: BmcClient, machine: Machine) -> None:
    credential = {"UserName": machine.bmc_username, "Password": machine.bmc_password}
    opened = client.request("POST", SESSIONS, {}, credential)
    assert opened.status == 201
    token = {"X-Auth-Token": opened.headers["X-Auth-Token"]}
    location = opened.headers["Location"]
    assert client.get(location, token).body["UserName"] == machine.bmc_username
    members = client.get(SESSIONS, token).body["Members"]
    assert members == [{"@odata.id": location}]
    assert client.get(f"{ROOT}/Chassis", token).status == 200
    assert client.request("DELETE", location, token).status == 204
    assert client.get(f"{ROOT}/Chassis", token).status == 401
    assert client.get(location).status == 404
    assert client.request("DELETE", location).status == 404


def test_a_full_session_table_says_503(client: BmcClient, machine: Machine) -> None:
    credential = {"UserName": machine.bmc_username, "Password": machine.bmc_password}
    opened = [client.request("POST", SESSIONS, {}, credential) for _index in range(9)]
    assert [answer.status for answer in opened] == [201] * 8 + [503]
    assert "SessionLimitExceeded" in opened[-1].body["error"]["code"]
    for answer in opened[:8]:
        client.request("DELETE", answer.headers["Location"])


@pytest.mark.parametrize(
    ("body", "status"), [({"UserName": "x"}, 401), ([], 400), ({"Password": None}, 401)]
)
def test_a_bad_login_is_refused(client: BmcClient, body: object, status: int) -> None:
    assert client.request("POST", SESSIONS, {}, body).status == status


def test_an_answer_is_one_piece(lab: EmbeddedLab, machine: Machine) -> None:
    """Headers and body in one TLS record, so that clients need not wait for a second packet."""
    with raw_connection(lab, machine) as connection:
        for _index in range(2):  # the connection is kept
            request = f"GET {ROOT} HTTP/1.1\r\nHost: {machine.bmc_address}\r\n\r\n"
            connection.sendall(request.encode())
            head, _separator, body = connection.recv(65536).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            assert json.loads(body)["Id"] == "v1"


def test_certificates_are_of_the_lab_or_self_signed(lab: EmbeddedLab) -> None:
    trusted = 0
    for item in lab.machines:
        try:
            with raw_connection(lab, item) as connection:
                presented = connection.getpeercert(binary_form=True)
            trusted += 1
            assert item.certificate == "lab-ca"
        except ssl.SSLCertVerificationError as error:
            assert "self-signed certificate" in error.verify_message
            assert item.certificate == "self-signed"
            presented = shown_certificate(lab, item)
        kept = fingerprint(folder(lab.state), item)
        assert presented is not None
        assert kept == hashlib.sha256(presented).hexdigest()
    assert trusted == 9


def shown_certificate(lab: EmbeddedLab, machine: Machine) -> bytes:
    address = (machine.bmc_address, lab.settings.ports["bmc"])
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(address))


def test_load_raises_power(lab: EmbeddedLab, machine: Machine, client: BmcClient) -> None:
    lab.admin("POST", "/clock", {"frozen": True})
    watts = []
    for cores in (0, machine.cores / 2, machine.cores, 2 * machine.cores):
        lab.admin("PUT", "/loads", {machine.name: cores})
        body = client.get(f"{ROOT}/Chassis/System.Embedded.1/Power").body
        watts.append(body["PowerControl"][0]["PowerConsumedWatts"])
    lab.admin("PUT", "/loads", {machine.name: 0})
    assert watts[0] < watts[1] < watts[2] == watts[3]


def test_requests_are_counted(lab: EmbeddedLab, machine: Machine, client: BmcClient) -> None:
    lab.admin("DELETE", "/requests")
    client.get(f"{ROOT}/Chassis")
    client.get(f"{ROOT}/Chassis", {})
    counted = lab.admin("GET", "/requests")
    assert counted["total"] == 2
    assert counted["nodes"][machine.name] == {
        "requests": 2,
        "statuses": {"200": 1, "401": 1},
        "peak_in_flight": 1,
    }


def test_requests_at_once_are_noticed(lab: EmbeddedLab, machine: Machine) -> None:
    lab.admin("POST", "/latency", {"seconds": [0.2, 0.2]})

    def ask() -> None:
        with BmcClient(lab, machine) as client:
            assert client.get(ROOT).status == 200

    threads = [threading.Thread(target=ask) for _index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lab.admin("GET", "/requests")["nodes"][machine.name]["peak_in_flight"] == 3


def test_a_dead_bmc_refuses_connections_and_drops_those_it_had(
    lab: EmbeddedLab, machine: Machine, client: BmcClient
) -> None:
    assert client.get(ROOT).status == 200
    break_it(lab, machine, "dead-bmc")
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError, ssl.SSLError)):
        client.get(ROOT)
    client.connection.close()
    with pytest.raises(ConnectionRefusedError):
        client.get(ROOT)
    lab.admin("DELETE", "/faults")
    client.connection.close()
    assert client.get(ROOT).status == 200


def test_a_silent_bmc_accepts_and_never_answers(lab: EmbeddedLab, machine: Machine) -> None:
    break_it(lab, machine, "dead-bmc", silent=True)
    address = (machine.bmc_address, lab.settings.ports["bmc"])
    with socket.create_connection(address, timeout=5):
        pass
    with BmcClient(lab, machine, timeout=0.2) as client, pytest.raises(TimeoutError):
        client.get(ROOT)
    break_it(lab, machine, "dead-bmc", silent=False)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)


def test_a_slow_bmc_takes_its_seconds(
    lab: EmbeddedLab, machine: Machine, client: BmcClient
) -> None:
    client.get(ROOT)
    break_it(lab, machine, "slow-bmc", seconds=0.3)
    started = time.monotonic()
    assert client.get(ROOT).status == 200
    assert time.monotonic() - started >= 0.3


def test_the_fault_unauthorized_refuses_the_right_password_and_locks_nothing(
    lab: EmbeddedLab, machine: Machine, client: BmcClient
) -> None:
    break_it(lab, machine, "unauthorized")
    for _index in range(4):
        assert client.get(f"{ROOT}/Chassis").status == 401
    assert account(lab, machine)["locked"] is False
    credential = {"UserName": machine.bmc_username, "Password": machine.bmc_password}
    assert client.request("POST", SESSIONS, {}, credential).status == 401


def test_an_unavailable_bmc_says_when_to_come_back(
    lab: EmbeddedLab, machine: Machine, client: BmcClient
) -> None:
    break_it(lab, machine, "unavailable", seconds=7)
    answer = client.get(f"{ROOT}/Chassis")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "7")
    assert "ServiceTemporarilyUnavailable" in answer.body["error"]["code"]


def test_malformed_json_comes_with_200(
    lab: EmbeddedLab, machine: Machine, client: BmcClient
) -> None:
    break_it(lab, machine, "malformed-json")
    client.connection.request("GET", f"{ROOT}/Chassis", headers=client.credential)
    answer = client.connection.getresponse()
    assert answer.status == 200
    assert answer.getheader("Content-Type", "").startswith("application/json")
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.read())


@pytest.mark.parametrize("vendor", ["idrac9", "idrac10", "hpe", "lenovo", "supermicro", "openbmc"])
def test_null_readings_leave_no_temperature_and_no_watts(lab: EmbeddedLab, vendor: str) -> None:
    machine = lab.machine(vendor)
    break_it(lab, machine, "null-reading")
    with BmcClient(lab, machine) as client:
        answers = client.crawl(f"{ROOT}/Chassis").values()
    bodies = [answer.body for answer in answers if answer.status == 200]
    thermal = [entry for body in bodies for entry in body.get("Temperatures", [])]
    metrics = [entry for body in bodies for entry in body.get("TemperatureReadingsCelsius", [])]
    sensors = [
        body
        for body in bodies
        if body["@odata.type"].startswith("#Sensor.")
        and body.get("ReadingType", "Temperature") in ("Temperature", "Power")
    ]
    control = [entry for body in bodies for entry in body.get("PowerControl", [])]
    environment = [body["PowerWatts"] for body in bodies if "PowerWatts" in body]
    readings = [entry["ReadingCelsius"] for entry in thermal]
    readings += [entry["Reading"] for entry in (*metrics, *sensors, *environment)]
    readings += [entry["PowerConsumedWatts"] for entry in control]
    assert None in readings
    # Unplugged parts still read 0.
    assert set(readings) <= {None, 0}


@pytest.mark.parametrize(
    ("kind", "words"),
    [("wrong-certificate", "IP address mismatch"), ("changed-certificate", "self-signed")],
)
def test_certificate_faults_hit_at_once_and_go_away(
    lab: EmbeddedLab, machine: Machine, client: BmcClient, kind: str, words: str
) -> None:
    usual = shown_certificate(lab, machine)
    assert client.get(ROOT).status == 200
    break_it(lab, machine, kind)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError, ssl.SSLError)):
        client.get(ROOT)
    client.connection.close()
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        client.get(ROOT)
    assert words in refused.value.verify_message
    lab.admin("DELETE", "/faults")
    client.connection.close()
    assert client.get(ROOT).status == 200
    assert shown_certificate(lab, machine) == usual


def test_a_locked_account_stays_locked_until_the_fault_is_cleared(
    lab: EmbeddedLab, machine: Machine, client: BmcClient
) -> None:
    break_it(lab, machine, "locked-account")
    lab.admin("POST", "/clock", {"offset_seconds": 86_400})
    assert account(lab, machine)["locked"] is True
    assert client.get(f"{ROOT}/Chassis").status == 401
    lab.admin("DELETE", "/faults")
    assert client.get(f"{ROOT}/Chassis").status == 200


def test_the_clock_can_be_moved_and_stopped(lab: EmbeddedLab) -> None:
    lab.admin("POST", "/clock", {"offset_seconds": 600, "frozen": True})
    first, second = lab.admin("GET", "/truth"), lab.admin("GET", "/truth")
    assert first == second
    assert lab.admin("POST", "/clock", {})["now"] == pytest.approx(time.time(), abs=5)
    assert lab.admin("GET", "/truth") != first


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "/faults", {"kind": "fire", "node": "r1-n01"}, "is not a fault; its kind is one"),
        ("POST", "/faults", ["dead-bmc"], "is not a fault"),
        ("POST", "/faults", {"kind": "dead-bmc", "node": "r9-n01"}, "no machine 'r9-n01'"),
        (
            "POST",
            "/faults",
            {"kind": "slow-bmc", "node": "r1-n01", "seconds": "long"},
            "are not a number",
        ),
        (
            "POST",
            "/faults",
            {"kind": "slow-bmc", "node": "r1-n01", "seconds": -1},
            "not negative",
        ),
        ("PUT", "/loads", {"r9-n01": 1}, "no machine 'r9-n01'"),
        ("PUT", "/loads", {"r1-n01": "many"}, "not a number"),
        ("PUT", "/loads", [], "not a JSON object"),
        ("POST", "/clock", {"offset_seconds": True}, "not a number"),
        ("POST", "/latency", {"seconds": 1}, "least, most"),
    ],
)
def test_bad_input_is_one_sentence(
    lab: EmbeddedLab, method: str, path: str, body: object, words: str
) -> None:
    with pytest.raises(LabError, match=words):
        lab.admin(method, path, body)
    assert lab.admin("GET", "/faults") == []


def test_a_taken_address_is_named(lab: EmbeddedLab, tmp_path: Path) -> None:
    state = LabState(tmp_path)
    state.create()
    pki.create_authority(state.pki)
    ports = {"bmc": lab.settings.ports["bmc"], "bmc_admin": process.free_port(), "predictor": 1}
    settings = LabSettings(nodes=1, racks=1, ports=ports)
    with (
        pytest.raises(LabError, match=r"r1-n01 cannot listen on 127\.71\.1\.1:"),
        in_thread(bmc.serving(state, settings)),
    ):
        pass


def test_certificates_outlive_a_restart(tmp_path: Path) -> None:
    state = LabState(tmp_path)
    state.create()
    pki.create_authority(state.pki)
    settings = LabSettings(
        10, 1, ports={name: process.free_port() for name in ("bmc", "bmc_admin", "predictor")}
    )
    machines = build_machines(10, 1, 1)

    def fingerprints() -> list[str]:
        with in_thread(bmc.serving(state, settings)):
            return [fingerprint(folder(state), machine) for machine in machines]

    before = fingerprints()
    assert fingerprints() == before
    pki.create_authority(state.pki)
    kept = [one == other for one, other in zip(before, fingerprints(), strict=True)]
    assert kept == [machine.certificate == "self-signed" for machine in machines]


def test_the_service_starts_as_a_process_and_stops(tmp_path: Path) -> None:
    state = LabState(tmp_path / "lab")
    state.create()
    pki.create_authority(state.pki)
    ports = {name: process.free_port() for name in ("bmc", "bmc_admin", "predictor")}
    settings = LabSettings(nodes=6, racks=1, ports=ports)
    state.write_settings(settings)
    (service,) = bmc.services(state, settings)
    assert service.command[0] == sys.executable
    assert not service.ready()
    process.start([service], state)
    try:
        assert service.ready()
    finally:
        process.stop(state)
    assert not service.ready()
    assert "Traceback" not in (state.logs / "bmc.log").read_text()
