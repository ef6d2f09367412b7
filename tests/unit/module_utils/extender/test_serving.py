# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extender's program over real sockets: TLS, calls, bodies of all kinds, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import utc_now
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.extender import feed, serving, wire
from lab import pki
from lab.process import wait_until
from support.certificates import issued, self_signed
from support.extender import Json, arguments, config_map, linear, node, pod, published
from support.extender_program import ExtenderProgram, ExtenderThread, plain_kubeconfig
from support.watch_api import WatchApi

CONFIG_MAPS = "/api/v1/namespaces/wattwise-system/configmaps"
NAMES = ["cheap", "dear"]


class Running(ExtenderThread):
    """The server with its API server, for pods of scheduler watts."""

    def __init__(self, folder: Path, api: WatchApi) -> None:
        super().__init__(folder, plain_kubeconfig(api.url), ["watts"])
        self.api = api

    def raw(self, data: bytes, *, waits: bool = True) -> bytes:
        """The answer to these bytes; nothing if it is not waited for."""
        plain = socket.create_connection(("127.0.0.1", self.ports.calls), timeout=20)
        with self.context().wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(data)
            return connection.recv(65536) if waits else b""


def serve_fleet(api: WatchApi, **plan: t.Any) -> None:
    measured = {
        "metadata": {"name": "dear", "resourceVersion": "1"},
        "timestamp": format_time(utc_now()),
        "window": "15s",
        "usage": {"cpu": "1500m"},
    }
    api.serve(feed.METRICS, measured, {"metadata": {"name": "odd"}, "usage": {"cpu": "many"}})
    api.serve(feed.NODES, *map(node, NAMES))
    api.serve(feed.PODS)
    curves = {"cheap": linear(5.0), "dear": linear(20.0)}
    api.serve(CONFIG_MAPS, config_map(published(curves, plan)))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with WatchApi() as api:
        serve_fleet(api)
        folder = tmp_path_factory.mktemp("extender")
        with Running(folder, api) as program:
            program.wait_ready()
            yield program


def watts_pod(name: str = "new", **spec: t.Any) -> Json:
    return pod(name, schedulerName="watts", **spec)


def test_kube_schedulers_calls_are_answered_with_what_the_watches_told(running: Running) -> None:
    status, found = running.post("/prioritize", arguments(watts_pod(), [*NAMES, "unknown"]))
    assert status == 200
    assert found == [
        {"Host": "cheap", "Score": 10},
        {"Host": "dear", "Score": 0},
        {"Host": "unknown", "Score": 0},
    ]
    status, found = running.post("/filter", arguments(watts_pod(), [*NAMES, "unknown"]))
    assert (status, found) == (200, json.loads(wire.filter_reply([*NAMES, "unknown"], {})))
    # The cheap node no longer exists.
    running.api.send(feed.NODES, "DELETED", node("cheap"))
    scores: list[int] = []

    def is_gone() -> bool:
        answered = running.post("/prioritize", arguments(watts_pod("next"), NAMES))[1]
        scores[:] = [one["Score"] for one in answered]
        return scores == [0, 10]

    wait_until(is_gone, 20.0, "the end of the node", interval=0.02)
    running.api.send(feed.NODES, "ADDED", node("cheap"))


def test_a_node_beyond_its_limit_fails_until_a_binding_elsewhere_is_seen(tmp_path: Path) -> None:
    rack = {
        **{"kind": "rack", "name": "r1", "nodes": ["cheap"]},
        **{"limit_watts": 104.0, "beside_watts": 0.0, "not_ready": []},
    }
    with WatchApi() as api:
        serve_fleet(api, limits=[rack])
        with Running(tmp_path, api) as program:
            program.wait_ready()

            def failed(name: str) -> Json:
                found: Json = program.post("/filter", arguments(watts_pod(name), NAMES))[1]
                assert found["FailedNodes"] == {} and found["Error"] == ""
                reasons: Json = found["FailedAndUnresolvableNodes"]
                assert sorted([*found["NodeNames"], *reasons]) == NAMES
                return reasons

            assert failed("first") == {}
            reason = "node(s) in rack r1 (104 W of 104 W; this pod adds at least 4 W)"
            assert failed("second") == {"cheap": reason}
            assert 'passed_pods"} 2\n' in program.get("/metrics")[1]
            api.send(feed.PODS, "ADDED", pod("first", on="dear", schedulerName="watts"))
            wait_until(lambda: not failed("second"), 20.0, "the binding", interval=0.02)
        assert "Traceback" not in program.said


def test_pods_of_other_schedulers_pass_without_an_opinion(running: Running) -> None:
    status, found = running.post("/prioritize", arguments(pod("other"), NAMES))
    assert (status, [one["Score"] for one in found]) == (200, [0, 0])
    assert running.post("/filter", arguments(pod("other"), NAMES))[1]["NodeNames"] == NAMES


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The body is not JSON"),
        (b'{"Pod": {', "The body is not JSON"),
        (b"[" * 100_000, "nested"),
        (b"[1]", "The body is not a JSON object"),
        (b'{"Pod": null, "NodeNames": []}', "Pod is missing"),
        (arguments(watts_pod(), None, {"items": [node("a")]}), "nodeCacheCapable: true"),
        (arguments(watts_pod(), None), "NodeNames is not a list of names"),
        (arguments(watts_pod(), ["a", 7]), "NodeNames is not a list of names"),
        (arguments({"metadata": {"name": "x"}, "spec": 7}, ["a"]), "spec"),
        (arguments(watts_pod(containers=[{"resources": 3}]), ["a"]), "resources"),
        (arguments(watts_pod(), ["n" * 250] * 17_000), "more than 4194304 bytes"),
    ],
)
def test_each_odd_body_is_refused_with_one_sentence(
    running: Running, body: bytes, message: str
) -> None:
    for verb in ("filter", "prioritize"):
        status, found = running.post(f"/{verb}", body)
        assert status in (400, 413) and message in found["Error"]
        assert found["Error"].count("\n") == 0 and found["NodeNames"] == []
    assert "Traceback" not in running.said
    assert running.post("/prioritize", arguments(watts_pod(), NAMES))[0] == 200


def test_half_a_body_is_refused_or_cut_off_and_hinders_nobody(running: Running) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
    found: list[bytes] = []
    slow = [
        threading.Thread(target=lambda: found.append(running.raw(head + b"{"))) for _one in range(9)
    ]
    for thread in slow:
        thread.start()
    running.raw(head + b'{"Pod"', waits=False)
    assert running.post("/prioritize", arguments(watts_pod(), NAMES))[0] == 200
    for thread in slow:
        thread.join()
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in found) and len(found) == 9
    assert running.raw(b"\x00\x01\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert running.post("/prioritize", arguments(watts_pod(), NAMES))[0] == 200
    assert "Traceback" not in running.said


def test_measured_use_is_asked_for(running: Running) -> None:
    """metrics.k8s.io does not support watches."""
    wait_until(
        lambda: running.state.counts()["measured_nodes"] == 1, 30.0, "the use", interval=0.05
    )
    assert "wattwise_extender_measurement_age_seconds " in running.get("/metrics")[1]


def test_a_publication_that_cannot_be_read_is_said_and_the_others_stay(running: Running) -> None:
    odd = config_map(published({}), "wattwise-extender-odd")
    odd["binaryData"] = {}
    running.api.send(CONFIG_MAPS, "ADDED", odd)
    wait_until(lambda: "wattwise-extender-odd" in running.said, 20.0, "the sentence")
    assert running.state.counts()["publications"] == 1


def test_whoever_speaks_no_tls_is_cut_off(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.ports.calls), timeout=20) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert not connection.recv(1024).startswith(b"HTTP")
    assert "Traceback" not in running.said


def test_health_and_metrics_are_served_without_tls(running: Running) -> None:
    running.post("/prioritize", arguments(watts_pod(), NAMES))
    running.post("/filter", b"odd")
    assert running.get("/healthz") == (200, "ok\n")
    assert running.get("/prioritize")[0] == 404
    status, text = running.get("/metrics")
    assert status == 200
    counted = re.findall(r'calls_total\{verb="prioritize",outcome="\w+"\} (\d+)', text)
    assert int(counted[0]) >= 1
    assert re.search(r'calls_total\{verb="filter",outcome="refused"\} [1-9]', text)
    assert 'wattwise_extender_objects{kind="priced_nodes"} 2' in text
    total = sum(map(int, counted))
    assert f'call_seconds_bucket{{verb="prioritize",le="+Inf"}} {total}\n' in text


def test_it_is_not_ready_before_all_is_listed_and_ends_when_told(tmp_path: Path) -> None:
    with WatchApi() as api:
        serve_fleet(api)
        api.collections[CONFIG_MAPS].status = 403
        with ExtenderProgram(tmp_path, plain_kubeconfig(api.url)) as program:
            assert program.get("/readyz")[0] == 503 and program.get("/healthz")[0] == 200
            # Missing data is not an obstacle.
            status, found = program.post("/prioritize", arguments(pod("new"), NAMES))
            assert (status, [one["Score"] for one in found]) == (200, [0, 0])
            program.process.send_signal(signal.SIGTERM)
            assert program.process.wait(20) == 0
    assert "Traceback" not in program.said


def test_a_client_without_a_certificate_of_the_authority_is_not_served(running: Running) -> None:
    context = running.context(with_certificate=False)
    with pytest.raises(OSError):
        plain = socket.create_connection(("127.0.0.1", running.ports.calls), timeout=20)
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not connection.recv(1024)
            raise ConnectionResetError
    assert "Traceback" not in running.said


def test_clients_of_an_intermediate_authority_are_served(tmp_path: Path) -> None:
    authority = issued(self_signed(common_name="company"), "cluster")
    paths = {name: str(tmp_path / name) for name in ("server", "client", "ca")}
    for name in ("server", "client"):
        certificate = issued(authority, name)
        Path(paths[name]).write_text(certificate.pem + certificate.key_pem)
    Path(paths["ca"]).write_text(authority.pem)
    context = serving.Certificates(paths["server"], paths["server"], paths["ca"]).context()
    asking = ssl.create_default_context()
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    asking.load_cert_chain(paths["client"])
    ours, theirs = socket.socketpair()

    def ask() -> None:
        with theirs, asking.wrap_socket(theirs) as connection, contextlib.suppress(OSError):
            connection.sendall(b"x")

    thread = threading.Thread(target=ask)
    thread.start()
    with ours, context.wrap_socket(ours, server_side=True) as connection:
        assert connection.recv(1) == b"x"
    thread.join()


def test_renewed_files_are_taken_for_new_connections(tmp_path: Path) -> None:
    authority = pki.create_authority(tmp_path, "test CA")
    server = pki.issue(authority, "server", ["127.0.0.1"], [], tmp_path)
    files = serving.Certificates(str(server.certificate), str(server.key))
    context, before = files.context(), files.state()
    trusting = ssl.create_default_context(cafile=authority.files.certificate)

    def name_of_server() -> str:
        ours, theirs = socket.socketpair()

        def answer() -> None:
            with ours, context.wrap_socket(ours, server_side=True) as connection:
                connection.sendall(b"x")

        thread = threading.Thread(target=answer)
        thread.start()
        with trusting.wrap_socket(theirs, server_hostname="127.0.0.1") as connection:
            assert connection.recv(1) == b"x"
            certificate = x509.load_der_x509_certificate(connection.getpeercert(True) or b"")
        thread.join()
        return certificate.subject.rfc4514_string()

    assert name_of_server() == "CN=server"
    folder = tmp_path / "renewed"
    folder.mkdir()
    renewed = pki.issue(authority, "renewed", ["127.0.0.1"], [], folder)
    renewed.certificate.replace(server.certificate)
    renewed.key.replace(server.key)
    os.utime(server.key, (1, 1))
    assert files.state() != before
    files.load(context)
    assert name_of_server() == "CN=renewed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--certificate=/nowhere", "--key=/nowhere"], "Cannot use /nowhere, /nowhere"),
        (["--certificate={0}", "--key={0}"], "Cannot use"),
        (["--certificate={1}", "--key={2}", "--port={3}"], "Cannot listen on port"),
    ],
)
def test_what_it_cannot_begin_with_is_one_sentence(
    tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no certificate")
    server = pki.issue(pki.create_authority(tmp_path, "test CA"), "server", [], [], tmp_path)
    with pytest.MonkeyPatch().context() as patch:
        path = tmp_path / "kubeconfig"
        patch.setenv("WATTWISE_KUBECONFIG", str(path))
        path.write_text(plain_kubeconfig("http://127.0.0.1:1"))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            files = (tmp_path / "file", server.certificate, server.key)
            given = [one.format(*files, port) for one in options]
            assert serving.main(["--address=127.0.0.1", *given]) == 1
    said = capsys.readouterr().out
    assert message in said and said.count("\n") == 1


def test_a_port_beyond_the_last_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The system would take the remainder."""
    with pytest.raises(SystemExit):
        serving.main(["--certificate=/nowhere", "--key=/nowhere", "--port=99999"])
    assert "invalid port from 0 to 65535 value: '99999'" in capsys.readouterr().err
