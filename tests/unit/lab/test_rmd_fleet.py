# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated RMD daemons over their sockets: TLS, permissions, faults, the process."""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import faults, inventory, pki, process, rmd
from lab.machines import build_machines
from lab.pki import KeyPair
from lab.rmd.certificates import Certificates
from lab.rmd.host import Configuration
from lab.state import LabSettings, LabState
from support.rmd import RmdDaemons, rmd_daemons

WORKLOAD = {"core_ids": ["1", "2"], "cache": {"max": 2, "min": 2}, "uuid": "a"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmdDaemons]:
    tls = Configuration(debug=False)
    configurations = {
        "debug": Configuration(),
        "signature": tls,
        "role": tls.with_(authorization="role"),
        "username": tls.with_(authorization="username"),
        "given": tls.with_(client_auth="challenge_given"),
        "any": tls.with_(client_auth="require_any"),
        "pam": tls.with_(client_auth="no", users={"admin": "secret", "user": "secret"}),
    }
    with rmd_daemons(tmp_path_factory.mktemp("rmd"), configurations) as daemons:
        yield daemons


@pytest.fixture
def daemons(running: RmdDaemons) -> Iterator[RmdDaemons]:
    yield running
    running.mend()
    for name in running.endpoints:
        running.restart(name)


def connect(
    daemons: RmdDaemons, name: str, client: KeyPair | None = None
) -> http.client.HTTPConnection:
    scheme, _slashes, place = daemons.endpoint(name).partition("://")
    if scheme == "http":
        return http.client.HTTPConnection(place, timeout=5)
    context = ssl.create_default_context(cafile=str(daemons.files.authority.certificate))
    context.check_hostname = False
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return http.client.HTTPSConnection(place, timeout=5, context=context)


def ask(
    daemons: RmdDaemons,
    name: str,
    method: str = "GET",
    path: str = "/v1/workloads",
    client: KeyPair | None = None,
    headers: dict[str, str] | None = None,
    body: Any = None,
) -> tuple[int, str]:
    connection = connect(daemons, name, client)
    content = None if body is None else json.dumps(body)
    given = {"Content-Type": "application/json"} if content else {}
    try:
        connection.request(method, path, content, {**given, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_debug_mode_is_plain_http_for_everybody(daemons: RmdDaemons) -> None:
    assert ask(daemons, "debug") == (200, "[]")
    assert ask(daemons, "debug", "POST", body=WORKLOAD)[0] == 201
    address = daemons.fleet.stations["debug"].address
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(address, daemons.fleet.tls_port, timeout=5).request("GET", "/")


def test_tls_is_that_of_the_daemon(daemons: RmdDaemons) -> None:
    connection = connect(daemons, "signature", daemons.files.admin)
    connection.connect()
    assert isinstance(connection.sock, ssl.SSLSocket)
    assert connection.sock.version() == "TLSv1.2"
    cipher = connection.sock.cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    shown = connection.sock.getpeercert() or {}
    assert ("DNS", "rmd-nameserver") in shown["subjectAltName"]
    connection.close()


def stranger(files: Certificates, folder: Path) -> KeyPair:
    """A client with a certificate of the same authority that no daemon knows."""
    authority = pki.load_authority(files.authority.certificate.parent)
    return pki.issue(authority, "Mallory", [], [], folder, client=True, units=["Visitor"])


def test_the_signature_decides(daemons: RmdDaemons, tmp_path: Path) -> None:
    files = daemons.files
    assert ask(daemons, "signature", client=files.user) == (200, "[]")
    assert ask(daemons, "signature", "POST", client=files.user, body=WORKLOAD) == (
        403, 'User "Cert Client User" is not authorized to access this resource\n',
    )  # fmt: skip
    assert ask(daemons, "signature", "GET", "/v1/mba", client=files.user)[0] == 403
    assert ask(daemons, "signature", "POST", client=files.admin, body=WORKLOAD)[0] == 201
    assert ask(daemons, "signature", "GET", "/v1/mba", client=files.admin)[0] == 200
    unknown = stranger(files, tmp_path)
    assert ask(daemons, "signature", client=unknown) == (401, "Mallory is not authorized")
    assert ask(daemons, "signature", path="/v1/cache/zzz", client=unknown)[0] == 401


def test_a_role_or_a_name_decides(daemons: RmdDaemons, tmp_path: Path) -> None:
    files = daemons.files
    assert ask(daemons, "role", "POST", client=files.admin, body=WORKLOAD)[0] == 201
    assert ask(daemons, "role", client=files.user)[0] == 200
    unknown = stranger(files, tmp_path)
    assert ask(daemons, "role", client=unknown) == (401, "OU: Visitor is not authorized")
    assert ask(daemons, "role", "POST", "/v1/hospitality", client=files.admin, body={})[0] == 401
    forbidden = 'User "Alice" is not authorized to access this resource\n'
    assert ask(daemons, "username", client=files.admin) == (403, forbidden)


@pytest.mark.parametrize("name", ["signature", "role", "any"])
def test_no_certificate_is_no_connection(daemons: RmdDaemons, name: str) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(daemons, name)


def test_a_certificate_of_another_authority_is_no_connection(
    daemons: RmdDaemons, tmp_path: Path
) -> None:
    authority = pki.create_authority(tmp_path)
    other = pki.issue(authority, "Alice", [], [], tmp_path, client=True)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(daemons, "signature", client=other)


def test_levels_below_the_challenge_ask_for_no_permissions(daemons: RmdDaemons) -> None:
    assert ask(daemons, "given", "POST", body=WORKLOAD)[0] == 201
    assert ask(daemons, "any", "POST", client=daemons.files.user, body=WORKLOAD)[0] == 201


@pytest.mark.parametrize(
    ("account", "status", "text"),
    [
        (None, 400, "Malformed credentials\n"),
        ("admin:wrong", 401, "Authentication failure\n"),
        ("nobody:x", 401, "User not known to the underlying authentication module\n"),
        ("user:secret", 403, 'User "user" is not authorized to access this resource\n'),
    ],
)
def test_passwords(daemons: RmdDaemons, account: str | None, status: int, text: str) -> None:
    headers = {}
    if account:
        headers["Authorization"] = "Basic " + base64.b64encode(account.encode()).decode()
    assert ask(daemons, "pam", "POST", headers=headers, body=WORKLOAD) == (status, text)


def test_a_panic_closes_the_connection(daemons: RmdDaemons) -> None:
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        ask(daemons, "debug", "POST", body={**WORKLOAD, "core_ids": ["abc"]})
    assert ask(daemons, "debug") == (200, "[]")


def test_faults_come_and_go(daemons: RmdDaemons) -> None:
    daemons.break_it("debug", "rmd-dead")
    with pytest.raises(ConnectionRefusedError):
        ask(daemons, "debug")
    daemons.mend()
    daemons.break_it("debug", "rmd-garbage")
    ask(daemons, "debug", "POST", body=WORKLOAD)
    with pytest.raises(ValueError, match=r"."):
        json.loads(ask(daemons, "debug")[1])
    daemons.mend()
    assert len(json.loads(ask(daemons, "debug")[1])) == 1


def test_an_exhausted_pool_has_room_again(daemons: RmdDaemons) -> None:
    daemons.break_it("debug", "rmd-pool-exhausted")
    assert ask(daemons, "debug", "POST", body=WORKLOAD) == (
        500, "Not enough cache left on cache_id 0",
    )  # fmt: skip
    daemons.mend()
    assert ask(daemons, "debug", "POST", body=WORKLOAD)[0] == 201


def test_the_lab_s_daemons_run_as_a_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = LabState(tmp_path / "lab")
    state.create()
    pki.create_authority(state.pki)
    state.ca_certificate.write_bytes((state.pki / "ca.pem").read_bytes())
    ports = {name: process.free_port() for name in rmd.PORTS}
    settings = LabSettings(nodes=6, racks=2, ports=ports, parts=("rmd",))
    state.write_settings(settings)
    machines = build_machines(6, 2, 1)
    (service,) = rmd.services(state, settings)
    assert service.command[0] == sys.executable
    process.start([service], state)
    try:
        found = faults.call(settings, "GET", "/daemons", port=faults.RMD_ADMIN)
        variables = inventory.inventory(state, settings, machines)["clusters"]["hosts"]["lab"]
        assert {name: daemon["endpoint"] for name, daemon in found.items()} == variables[
            "rmd_endpoints"
        ]
        assert {daemon["wire"] for daemon in found.values()} == {"0.2", "0.3"}
        assert {daemon["endpoint"].split(":")[0] for daemon in found.values()} == {"http", "https"}
        assert Path(variables["rmd_workloads_client_key"]).exists()
        parser = argparse.ArgumentParser()
        faults.add_arguments(parser)
        words = ["rmd-database-lost", "--node", machines[0].name]
        assert faults.run(parser.parse_args(words), state) == 0
        words = ["rmd-slow", "--count", "1", "--seconds", "1"]
        assert faults.run(parser.parse_args(words), state) == 0
        assert faults.call(settings, "GET", "/faults", port=faults.RMD_ADMIN) == [
            {"kind": "rmd-slow", "node": machines[0].name, "seconds": 1.0, "silent": False}
        ]
        faults.clear(state, settings)
        assert faults.call(settings, "GET", "/faults", port=faults.RMD_ADMIN) == []
    finally:
        process.stop(state)
    assert not service.ready()
    assert capsys.readouterr().out.startswith("rmd-database-lost: r1-n")


def test_a_daemon_boots_on_every_machine_of_the_lab() -> None:
    for machine in build_machines(60, 4, 1):
        rmd.machine_configuration(machine).check(rmd.machine_host(machine))
