# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates, kubeconfigs and commands of the control plane, without running it."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from lab import cluster, controlplane, pki
from lab.api import Api, ApiError, standalone_kubeconfig
from lab.controlplane.credentials import folder, kubeconfig_of, write_credentials
from lab.errors import LabError
from lab.releases import RELEASES
from lab.state import LabSettings, LabState
from support.scripted_api import Reply, Script, ScriptedApi, in_turn, status_reply

NAMES = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
SETTINGS = LabSettings(ports={name: 20_000 + number for number, name in enumerate(NAMES)})


@pytest.fixture
def state(tmp_path: Path) -> LabState:
    state = LabState(tmp_path / "lab")
    state.create()
    pki.create_authority(state.pki)
    return state


def handshake(server: pki.KeyPair, trust: Path, client: pki.KeyPair | None = None) -> str:
    """The server's view of a client that connects to 127.0.0.1: its subject, or nothing."""
    accepting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(trust))
    accepting.load_cert_chain(server.certificate, server.key)
    accepting.verify_mode = ssl.CERT_OPTIONAL
    asking = ssl.create_default_context(cafile=str(trust))
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    if client:
        asking.load_cert_chain(client.certificate, client.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        seen: list[str] = []

        def accept() -> None:
            raw, _address = listener.accept()
            with (
                raw,
                contextlib.suppress(ssl.SSLError),
                accepting.wrap_socket(raw, server_side=True) as tls,
            ):
                seen.append(str((tls.getpeercert() or {}).get("subject", "")))
                tls.sendall(b"x")

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname()) as raw,
                asking.wrap_socket(raw, server_hostname="127.0.0.1") as tls,
            ):
                tls.recv(1)
        finally:
            thread.join()
    return seen[0]


def test_clients_and_servers_of_the_authority_trust_each_other(state: LabState) -> None:
    authority = pki.load_authority(state.pki)
    server = pki.issue(authority, "bmc", ["127.0.0.1"], ["bmc.lab"], state.pki)
    client = pki.issue(authority, "system:me", [], [], state.pki, True, ["group"])
    assert client.certificate.name == "system-me.pem"
    subject = handshake(server, authority.files.certificate, client)
    assert "'commonName', 'system:me'" in subject
    assert "'organizationName', 'group'" in subject


def test_a_server_for_another_address_or_of_another_authority_is_refused(
    state: LabState, tmp_path: Path
) -> None:
    authority = pki.load_authority(state.pki)
    elsewhere = pki.issue(authority, "elsewhere", ["127.0.0.2"], [], state.pki)
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        handshake(elsewhere, authority.files.certificate)
    stranger = pki.issue(pki.create_authority(tmp_path), "bmc", ["127.0.0.1"], [], tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        handshake(stranger, authority.files.certificate)


def test_private_files_are_the_owners_only(state: LabState) -> None:
    write_credentials(state, 6443)
    private = [*state.root.rglob("*-key.pem"), *state.root.rglob("*kubeconfig")]
    assert len(private) >= 12
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}


def test_each_component_has_a_kubeconfig_of_its_own(state: LabState) -> None:
    write_credentials(state, 6443)
    for name, user in (
        ("kube-scheduler", "system:kube-scheduler"),
        ("kube-controller-manager", "system:kube-controller-manager"),
        ("lab-admin", "lab-admin"),
    ):
        document = yaml.safe_load(kubeconfig_of(state, name).read_text())
        assert document["users"][0]["name"] == user
        assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
        certificate = base64.b64decode(document["users"][0]["user"]["client-certificate-data"])
        assert b"BEGIN CERTIFICATE" in certificate
    assert state.kubeconfig.read_text() == kubeconfig_of(state, "lab-admin").read_text()


def test_header_names_are_trusted_from_the_front_proxy_only(state: LabState) -> None:
    write_credentials(state, 6443)
    authority = (folder(state) / "front-proxy" / "ca.pem").read_bytes()
    assert authority != (state.pki / "ca.pem").read_bytes()


def test_every_service_listens_on_loopback_with_its_own_port(state: LabState) -> None:
    services = controlplane.services(state, SETTINGS)
    assert [service.name for service in services] == [name for name in NAMES if name != "etcd-peer"]
    for service in services:
        text = " ".join(service.command)
        assert str(SETTINGS.ports[service.name]) in text
        assert "127.0.0.1" in text
        assert "0.0.0.0" not in text
        assert not service.ready()


@pytest.mark.parametrize("minor", ["", *RELEASES])
def test_a_release_opens_its_own_gates_and_apis(minor: str, state: LabState) -> None:
    settings = dataclasses.replace(SETTINGS, kubernetes=minor)
    services = {one.name: one.command for one in controlplane.services(state, settings)}
    release = RELEASES[minor or "1.37"]
    gates = ",".join(f"{name}=true" for name in release.features)
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert f"--feature-gates={gates}" in services[name]
    served = [one for one in services["kube-apiserver"] if one.startswith("--runtime-config=")]
    assert served == [f"--runtime-config={api}=true" for api in release.apis]


def test_an_existing_cluster_needs_no_services_and_is_not_restarted(state: LabState) -> None:
    settings = LabSettings(existing_cluster=True)
    assert controlplane.services(state, settings) == []
    state.write_settings(settings)
    with pytest.raises(LabError, match="not the lab's own"):
        controlplane.restart_apiserver(state)


@contextlib.contextmanager
def asking(script: Script, tmp_path: Path) -> Iterator[tuple[ScriptedApi, Api]]:
    """A scripted server, and a client made from the kubeconfig of a user with a token."""
    with ScriptedApi(script) as server:
        document = {
            "clusters": [{"name": "c", "cluster": {"server": f"{server.url}/"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        with Api(path) as api:
            yield server, api


def test_requests_carry_the_token_and_json(tmp_path: Path) -> None:
    with asking(lambda asked: Reply({"got": asked.body}), tmp_path) as (server, api):
        assert api.request("POST", "/api/v1/nodes", {"a": 1}) == {"got": {"a": 1}}
    assert server.asked[0].headers["Authorization"] == "Bearer t"
    assert server.asked[0].path == "/api/v1/nodes"


@pytest.mark.parametrize(
    ("reply", "status", "text"),
    [
        (status_reply(403, "nodes is forbidden"), 403, "HTTP 403: nodes is forbidden"),
        (Reply(b"oops", 500), 500, "HTTP 500: Internal Server Error"),
        (Reply(drop=True), 0, "Cannot reach the Kubernetes API"),
    ],
)
def test_an_error_says_what_the_server_said(
    reply: Reply, status: int, text: str, tmp_path: Path
) -> None:
    with (
        asking(lambda _asked: reply, tmp_path) as (_client, api),
        pytest.raises(ApiError, match=text) as caught,
    ):
        api.request("GET", "/version")
    assert caught.value.status == status
    assert "/version" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is not a kubeconfig"),
        ("{", "Cannot read the kubeconfig"),
        ("{}", "has no complete current context"),
        ("{current-context: x, contexts: [], clusters: [], users: []}", "no complete current"),
    ],
)
def test_a_bad_kubeconfig_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(LabError, match=message) as caught:
        Api(path)
    assert str(path) in str(caught.value)


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=f"Cannot read the kubeconfig {tmp_path}/none"):
        Api(tmp_path / "none")


def test_a_kubeconfig_can_be_moved_without_its_files(state: LabState, tmp_path: Path) -> None:
    write_credentials(state, 6443)
    document = yaml.safe_load(state.kubeconfig.read_text())
    user = document["users"][0]["user"]
    for field in ("client-certificate", "client-key"):
        (tmp_path / field).write_bytes(base64.b64decode(user.pop(f"{field}-data")))
        user[field] = field
    source = tmp_path / "kubeconfig"
    source.write_text(yaml.safe_dump(document))
    moved = json.loads(standalone_kubeconfig(source))
    assert moved == yaml.safe_load(state.kubeconfig.read_text())


MACHINE = SimpleNamespace(
    name="r1-n01",
    rack="r1",
    position=7,
    server_type="epyc-7702p-64c",
    internal_address="10.71.1.1",
    cores=64,
    memory_gib=256,
    architecture="arm64",
)


def test_a_node_says_what_its_machine_is() -> None:
    node = cluster.node_object(MACHINE, "here", "v1.37.2")
    labels = node["metadata"]["labels"]
    assert labels["kubernetes.io/arch"] == "arm64"
    assert labels["topology.kubernetes.io/zone"] == labels["wattwise.github.io/rack"] == "r1"
    assert labels["wattwise.github.io/rack-unit"] == "7"
    assert labels["node.kubernetes.io/instance-type"] == "epyc-7702p-64c"
    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert node["status"]["capacity"]["cpu"] == "64"
    assert node["status"]["capacity"]["memory"] == "256Gi"
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.37.2"
    assert {"type": "InternalIP", "address": "10.71.1.1"} in node["status"]["addresses"]


@pytest.mark.parametrize(
    ("call", "reply"),
    [
        (
            lambda api: cluster.create_nodes(api, [MACHINE], "lab", "v1.37.2"),
            status_reply(409, "exists"),
        ),
        (lambda api: cluster.delete_nodes(api, "lab"), status_reply(404, "not found")),
    ],
)
def test_nodes_that_are_there_or_gone_already_are_no_error(
    call: Callable[[Api], None], reply: Reply, tmp_path: Path
) -> None:
    node = cluster.node_object(MACHINE, "lab", "v1.37.2")
    listed = Reply({"items": [node]})
    script: Script = lambda asked: listed if asked.method == "GET" else reply  # noqa: E731 - short
    with asking(script, tmp_path) as (server, api):
        call(api)
    assert server.asked[-1].method in {"POST", "DELETE"}


def test_only_nodes_of_the_same_lab_are_deleted(tmp_path: Path) -> None:
    nodes = [cluster.node_object(MACHINE, "other", "v1.37.2"), {"metadata": {"name": "real"}}]
    with asking(lambda _: Reply({"items": nodes}), tmp_path) as (server, api):
        cluster.delete_nodes(api, "lab")
    assert [asked.method for asked in server.asked] == ["GET"]


def test_waiting_for_nodes_sees_conditions_and_taints(tmp_path: Path) -> None:
    def nodes(status: str, taints: list[object]) -> Reply:
        node = {
            "metadata": {"name": "a"},
            "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        }
        return Reply({"items": [node]})

    replies = (Reply({"items": []}), nodes("Unknown", []), nodes("True", [{}]), nodes("True", []))
    with asking(in_turn(*replies), tmp_path) as (server, api):
        cluster.wait_for_nodes(api, ["a"], timeout=20.0)
        assert len(server.asked) == 4
        with pytest.raises(LabError, match="2 nodes to become Ready"):
            cluster.wait_for_nodes(api, ["a", "b"], timeout=0.0)
