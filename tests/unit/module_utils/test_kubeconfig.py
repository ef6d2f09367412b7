# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way to reach and authenticate to an API server; the oracle is ``kubernetes``."""

from __future__ import annotations

import base64
import contextlib
import datetime
import http.server
import json
import os
import ssl
import threading
import typing as t
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from kubernetes import client
from kubernetes.config import incluster_config, kube_config

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    InvalidInput,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.connection.access import (
    Access,
    Pem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.connection.kubeconfig import (
    ExecPlugin,
    read_kubeconfig,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.connection.pool import (
    access_of,
    pool_of,
)
from support.certificates import Certificate, self_signed
from support.scripted_api import Reply, ScriptedApi, in_turn

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
SERVER = self_signed()
CLIENT = self_signed(common_name="client")
V1 = "client.authentication.k8s.io/v1"


def private_key(certificate: Certificate) -> str:
    return certificate.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(
    user: MutableObject, cluster: MutableObject | None = None, server: str = ""
) -> MutableObject:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": server or "https://10.9.8.7:6443", **(cluster or {})},
            }
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "k", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "k",
    }


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a kubeconfig's files, and a plugin that prints the content of a file."""
    (tmp_path / "ca.pem").write_text(SERVER.pem)
    (tmp_path / "cert.pem").write_text(CLIENT.pem)
    (tmp_path / "key.pem").write_text(private_key(CLIENT))
    (tmp_path / "token").write_text("of-a-file")
    plugin = tmp_path / "plugin"
    plugin.write_text(
        '#!/bin/sh\nfolder=$(dirname "$0")\necho "$KUBERNETES_EXEC_INFO" > "$folder/asked"\n'
        'echo run >> "$folder/runs"\ncat "$folder/answer"\n'
    )
    plugin.chmod(0o700)
    return tmp_path


def write(folder: Path, config: MutableObject) -> str:
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def answer(folder: Path, **status: t.Any) -> None:
    body = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    (folder / "answer").write_text(json.dumps(body))


def content(pem: Pem | None) -> str | None:
    return pem.read_text() if isinstance(pem, Path) else pem


def facts(access: Access) -> MutableObject:
    credential = access.credential()
    return {
        "host": access.host,
        "authorization": credential.authorization,
        "ca": content(access.ca),
        "certificate": content(access.certificate or credential.certificate),
        "key": content(access.key or credential.key),
        "verify": access.verify,
        "server_name": access.server_name,
        "proxy": access.proxy,
    }


def facts_of_library(configuration: t.Any) -> MutableObject:
    def read(path: str | None) -> str | None:
        return Path(path).read_text() if path else None

    return {
        "host": configuration.host,
        "authorization": configuration.get_api_key_with_prefix("BearerToken"),
        "ca": read(configuration.ssl_ca_cert),
        "certificate": read(configuration.cert_file),
        "key": read(configuration.key_file),
        "verify": configuration.verify_ssl,
        "server_name": configuration.tls_server_name,
        "proxy": configuration.proxy,
    }


EXEC = {
    "exec": {"apiVersion": V1, "command": "./plugin", "args": ["x"], "interactiveMode": "Never"}
}


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({}, {}),
        ({"token": "t0ken"}, {}),
        ({"tokenFile": "token"}, {}),
        ({"username": "eve", "password": "p:ss"}, {}),
        ({"token": "t0ken", "username": "eve", "password": "p"}, {}),
        (EXEC, {}),
        ({"token": "t0ken", **EXEC}, {}),
        ({"client-certificate": "cert.pem", "client-key": "key.pem"}, {}),
        (
            {
                "client-certificate-data": encoded(CLIENT.pem),
                "client-key-data": encoded(private_key(CLIENT)),
            },
            {},
        ),
        ({}, {"certificate-authority": "ca.pem"}),
        ({}, {"certificate-authority-data": encoded(SERVER.pem)}),
        ({}, {"certificate-authority": "no.pem", "certificate-authority-data": encoded("x")}),
        ({}, {"insecure-skip-tls-verify": True}),
        ({}, {"insecure-skip-tls-verify": False, "tls-server-name": "kubernetes.default"}),
        ({}, {"proxy-url": "http://127.0.0.1:3128"}),
        ({}, {"server": "https://hall.example/k8s/clusters/c-1/"}),
        ({}, {"server": "http://127.0.0.1:8080"}),
    ],
)
def test_a_kubeconfig_means_what_the_kubernetes_library_reads_in_it(
    files: Path, monkeypatch: pytest.MonkeyPatch, user: MutableObject, cluster: MutableObject
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    answer(files, token="of-a-plugin")
    path = write(files, kubeconfig(user, cluster))
    expected = client.Configuration()
    kube_config.load_kube_config(path, client_configuration=expected, persist_config=False)
    assert facts(access_of({"kubeconfig": path})) == facts_of_library(expected)


def test_several_files_are_merged_and_the_first_counts(files: Path) -> None:
    second = files / "second"
    second.mkdir()
    (second / "token").write_text("of-the-second")
    other = kubeconfig({"tokenFile": "token"}, server="https://second:6443")
    other["users"][0]["name"] = other["contexts"][0]["context"]["user"] = "v"
    other["contexts"][0]["name"] = other["current-context"] = "l"
    both = os.pathsep.join(
        [
            write(files, kubeconfig({"tokenFile": "token"}, server="https://first:6443")),
            str(files / "nowhere"),
            write(second, other),
        ]
    )
    first = read_kubeconfig(None, None, {"KUBECONFIG": both})
    assert (first.host, first.headers()) == (
        "https://first:6443",
        [("Authorization", "Bearer of-a-file")],
    )
    # The cluster c of the first file, the user and the folder of the second.
    chosen = access_of({"kubeconfig": both, "context": "l"})
    assert (chosen.host, chosen.headers()) == (
        "https://first:6443",
        [("Authorization", "Bearer of-the-second")],
    )


def test_a_pod_uses_its_service_account_as_the_kubernetes_library_does(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-pod")
    (tmp_path / "ca.crt").write_text(SERVER.pem)
    for host in ("10.96.0.1", "fd00::1"):
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
        expected = client.Configuration()
        incluster_config.InClusterConfigLoader(
            str(tmp_path / "token"), str(tmp_path / "ca.crt"), environ=environment
        ).load_and_set(expected)
        access = access_of({}, environment, tmp_path)
        assert (access.host, content(access.ca)) == (expected.host, SERVER.pem)
    # The token rotates.
    assert access.headers() == [("Authorization", "Bearer of-the-pod")]
    (tmp_path / "token").write_text("renewed\n")
    assert access.headers() == [("Authorization", "Bearer renewed")]
    (tmp_path / "token").unlink()
    with pytest.raises(InvalidInput, match=r"Cannot read the token .*/token \(No such file"):
        access.headers()
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(InvalidInput, match="Cannot find out how .*the pod has no"):
        access_of({}, environment, tmp_path)


def test_outside_a_pod_the_default_kubeconfig_counts(files: Path) -> None:
    path = write(files, kubeconfig({"token": "t"}))
    assert access_of({}, {"KUBECONFIG": path}).host == "https://10.9.8.7:6443"
    nowhere = str(files / "none")
    with pytest.raises(InvalidInput, match="Cannot find out how .*there is no file .*none"):
        access_of({}, {"KUBECONFIG": nowhere})


def test_options_take_the_place_of_what_the_kubeconfig_says(files: Path) -> None:
    path = write(files, kubeconfig(EXEC, {"proxy-url": "http://127.0.0.1:1"}))
    access = access_of(
        {
            "kubeconfig": path,
            "api_key": "given",
            "ca_cert": str(files / "ca.pem"),
            "client_cert": str(files / "cert.pem"),
            "client_key": str(files / "key.pem"),
            "verify_ssl": False,
            "proxy": "http://127.0.0.1:2",
            "impersonate_user": "eve",
            "impersonate_groups": ["a", "b"],
        }
    )
    assert facts(access) == {
        "host": "https://10.9.8.7:6443",
        "authorization": "Bearer given",
        "ca": SERVER.pem,
        "certificate": CLIENT.pem,
        "key": private_key(CLIENT),
        "verify": False,
        "server_name": None,
        "proxy": "http://127.0.0.1:2",
    }
    assert not (files / "runs").exists()
    groups = (("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    assert access.impersonation == (("Impersonate-User", "eve"), *groups)


def test_a_user_acts_as_another_one_with_all_groups() -> None:
    user = {
        "token": "t",
        "as": "eve",
        "as-uid": "7",
        "as-groups": ["ops", "night"],
        "as-user-extra": {"acme.com/hall": ["2"]},
    }
    received: list[tuple[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.extend(self.headers.items())
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002 - its signature
            """Log nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        Kube.connect({"kubeconfig": kubeconfig(user, server=url)}).get("/x")
        thread.join()
    assert [item for item in received if item[0].startswith(("Auth", "Impersonate"))] == [
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "eve"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Group", "night"),
        ("Impersonate-Extra-acme.com%2Fhall", "2"),
    ]


def plugin_of(folder: Path, now: list[datetime.datetime], **settings: t.Any) -> ExecPlugin:
    known = {"apiVersion": V1, "command": "./plugin", **settings}
    return ExecPlugin(known, folder, {"server": "https://x"}, lambda: now[0])


def test_an_exec_plugin_runs_again_when_its_token_ends(files: Path) -> None:
    now = [NOON]
    plugin = plugin_of(files, now)
    answer(files, token="one", expirationTimestamp="2026-01-31T12:10:00Z")
    assert [plugin().authorization for _again in range(2)] == ["Bearer one"] * 2
    answer(files, token="two")
    now[0] += datetime.timedelta(minutes=9, seconds=29)
    assert plugin().authorization == "Bearer one"
    now[0] += datetime.timedelta(seconds=1)
    assert plugin().authorization == "Bearer two"
    now[0] += datetime.timedelta(days=1)
    assert plugin().authorization == "Bearer two"
    assert (files / "runs").read_text() == "run\n" * 2


def test_an_exec_plugin_is_told_of_the_cluster_where_it_asks(files: Path) -> None:
    answer(files, token="x")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {
        "certificate-authority": "ca.pem",
        "tls-server-name": "kubernetes",
        "extensions": [{"name": "other", "extension": 1}, extension],
    }
    for asks in (False, True):
        user = {"exec": {**EXEC["exec"], "provideClusterInfo": asks}}
        access_of({"kubeconfig": write(files, kubeconfig(user, cluster))}).headers()
        asked = json.loads((files / "asked").read_text())
        assert (asked["apiVersion"], asked["kind"]) == (V1, "ExecCredential")
        told = {
            "server": "https://10.9.8.7:6443",
            "tls-server-name": "kubernetes",
            "certificate-authority-data": encoded(SERVER.pem),
            "config": {"audience": "a"},
        }
        assert asked["spec"] == {"interactive": False, **({"cluster": told} if asks else {})}


def test_an_exec_plugin_gets_its_variables(files: Path) -> None:
    (files / "plugin").write_text(
        '#!/bin/sh\nprintf \'{"apiVersion":"%s","kind":"ExecCredential","status":'
        '{"token":"%s"}}\' "$1" "$WANTED"\n'
    )
    variables = [{"name": "WANTED", "value": "hall"}]
    assert plugin_of(files, [NOON], args=[V1], env=variables)().authorization == "Bearer hall"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo no such profile >&2; exit 3", r"ended with status 3 \(no such profile\); run it"),
        ("echo hunter2", "prints no ExecCredential; run it by hand"),
        ("echo '[]'", "prints no ExecCredential"),
        (f'echo \'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{}}}}\'', "neither a"),
        ('echo \'{"apiVersion":"v0","kind":"ExecCredential","status":{}}\'', "another apiVersion"),
    ],
)
def test_an_exec_plugin_that_fails_is_named_and_its_answer_not_quoted(
    files: Path, script: str, problem: str
) -> None:
    (files / "plugin").write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(InvalidInput, match=rf"^The exec plugin .*/plugin .*{problem}") as refusal:
        plugin_of(files, [NOON])()
    assert "hunter2" not in str(refusal.value)


def test_an_exec_plugin_that_is_missing_comes_with_its_hint(files: Path) -> None:
    with pytest.raises(InvalidInput, match="aws-iam-none .*is not installed .*; brew install it"):
        plugin_of(files, [NOON], command="aws-iam-none", installHint="brew install it")()
    (files / "plugin").chmod(0o600)
    with pytest.raises(InvalidInput, match=r"cannot be run \(Permission denied\)"):
        plugin_of(files, [NOON])()


def test_an_openid_token_is_sent_and_another_auth_provider_refused() -> None:
    provider = {"name": "oidc", "config": {"id-token": "a.b.c"}}
    access = read_kubeconfig(kubeconfig({"auth-provider": provider}), None)
    assert access.headers() == [("Authorization", "Bearer a.b.c")]
    with pytest.raises(InvalidInput, match="auth-provider 'gcp' gives no token; configure an exec"):
        read_kubeconfig(kubeconfig({"auth-provider": {"name": "gcp"}}), None)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"current-context": None}, "no current-context"),
        ({"current-context": "z"}, "there is no context 'z'"),
        ({"users": []}, "there is no user 'u'"),
        ({"clusters": [{"name": "c"}, {"name": "c"}]}, "two of the clusters are called 'c'"),
        ({"clusters": [{"name": "c", "cluster": {"server": 3}}]}, "this is not a kubeconfig"),
        (
            {
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {"server": "https://h", "insecure-skip-tls-verify": "false"},
                    }
                ]
            },
            "insecure-skip-tls-verify is not true or false",
        ),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "x:1"}}]},
            "'x:1' is not a URL of a Kubernetes API; write server as",
        ),
        (
            {
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://x", "certificate-authority": "z"}}
                ]
            },
            r"the file z of certificate-authority cannot be read \(No such file",
        ),
    ],
)
def test_a_kubeconfig_that_leads_nowhere_says_why(change: MutableObject, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        read_kubeconfig({**kubeconfig({}), **change}, None)


class TlsApi:
    """An API server that requires a client certificate and reports its subject."""

    def __enter__(self) -> TlsApi:
        received = self.received = list[str]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                connection = t.cast("ssl.SSLSocket", self.connection)
                subject = t.cast("t.Any", connection.getpeercert() or {}).get("subject", ())
                received.append(dict(pair for part in subject for pair in part)["commonName"])
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002 - its signature
                """Log nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = SERVER.server_context()
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=CLIENT.pem)
        self.server.socket = context.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        return self

    def __exit__(self, *_details: t.Any) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.server_port}"


def test_client_certificates_from_files_texts_and_plugins_are_sent_and_left_nowhere(
    files: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    key = private_key(CLIENT)
    answer(files, clientCertificateData=CLIENT.pem, clientKeyData=key)
    trusted = {"certificate-authority-data": encoded(SERVER.pem)}
    with TlsApi() as api:
        for user, cluster in (
            ({"client-certificate": "cert.pem", "client-key": "key.pem"}, trusted),
            (
                {"client-certificate-data": encoded(CLIENT.pem), "client-key-data": encoded(key)},
                {"certificate-authority": "ca.pem"},
            ),
            (EXEC, {"insecure-skip-tls-verify": True}),
            (EXEC, {**trusted, "tls-server-name": "localhost"}),
        ):
            path = write(files, kubeconfig(user, cluster, api.url))
            with (
                pytest.warns()
                if "insecure-skip-tls-verify" in cluster
                else contextlib.nullcontext()
            ):
                Kube.connect({"kubeconfig": path}).get("/x")
        assert api.received == ["client"] * 4
        assert list(temporary.iterdir()) == []
        wrong = kubeconfig(user, {**trusted, "tls-server-name": "other.example"}, api.url)
        with pytest.raises(ApiError, match="is not trusted"):
            Kube.connect({"kubeconfig": write(files, wrong)}, patience_seconds=0.0).get("/x")


def test_connections_change_nothing_in_the_tls_context_that_they_share(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[t.Sequence[str]] = []
    inherited = ssl.SSLContext.set_alpn_protocols

    def set_alpn_protocols(context: ssl.SSLContext, protocols: t.Sequence[str]) -> None:
        given.append(protocols)
        inherited(context, protocols)

    monkeypatch.setattr(ssl.SSLContext, "set_alpn_protocols", set_alpn_protocols)
    trusted = {"certificate-authority-data": encoded(SERVER.pem)}
    user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
    with TlsApi() as api:
        kube = Kube.connect({"kubeconfig": write(files, kubeconfig(user, trusted, api.url))})
        # The server ends each connection after its answer.
        kube.in_parallel(kube.get, ["/x"] * 8)
        assert len(api.received) == 8
    assert len(given) == 1


def test_a_certificate_that_is_none_or_has_another_key_is_told(files: Path) -> None:
    other = kubeconfig(
        {"client-certificate": "cert.pem", "client-key-data": encoded(private_key(SERVER))}
    )
    with pytest.raises(InvalidInput, match="cannot be used together; check client_cert"):
        Kube.connect({"kubeconfig": write(files, other)})
    (files / "ca.pem").write_text("none")
    with pytest.raises(InvalidInput, match=r"no certificates in PEM .* in the file .*/ca\.pem"):
        Kube.connect({"host": "https://x", "ca_cert": str(files / "ca.pem")})
    bad = kubeconfig({}, {"certificate-authority-data": encoded("none")})
    with pytest.raises(InvalidInput, match="no certificates in PEM .* certificate-authority-data"):
        Kube.connect({"kubeconfig": bad})


def test_requests_go_through_the_proxy_with_its_account() -> None:
    with ScriptedApi(in_turn(Reply({"a": 1}), Reply({"a": 2}))) as proxy:
        url = proxy.url.replace("http://", "http://eve:p%40ss@")
        Kube.connect({"host": "http://hall.example:8080", "proxy": url}).get("/x")
        Kube.connect({"kubeconfig": kubeconfig({}, {"proxy-url": url}, "http://hall.example")}).get(
            "/y"
        )
        assert [asked.path for asked in proxy.asked] == [
            "http://hall.example:8080/x",
            "http://hall.example/y",
        ]
        wanted = f"Basic {encoded('eve:p@ss')}"
        assert {asked.headers["proxy-authorization"] for asked in proxy.asked} == {wanted}
    with pytest.raises(InvalidInput, match="proxy of the Kubernetes API is not a URL"):
        Kube.connect({"host": "http://x", "proxy": "ftp://y"})


@pytest.fixture
def proxy_variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Patches of the environment, which has no proxies at first."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("host", "rules", "is_used"),
    [  # as golang.org/x/net/http/httpproxy 0.62.0 answers
        ("https://10.1.2.3:6443", "", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.2.0.0/16,example", True),
        ("https://10.1.2.3:6443", "10.0.0.0/255.0.0.0", True),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", False),
        ("https://10.1.2.3:6443", "10.1.2.3:1", True),
        ("https://10.1.2.3", "10.1.2.3:443", False),
        ("https://10.1.2.3:6443", "10.1.2", True),
        ("https://10.1.2.3:6443", "*.*, *", False),
        ("https://api.hall.example", ".hall.example", False),
        ("https://hall.example", ".hall.example", True),
        ("https://hall.example", "*.hall.example", True),
        ("https://api.hall.example", "*.hall.example", False),
        ("https://hall.example", "hall.example:443", False),
        ("https://hall.example:6443", "hall.example:443", True),
        ("https://api.hall.example", "x, HALL.example", False),
        ("https://api.hall.example", "all.example", True),
        ("https://api.hall.example", "*", False),
        ("https://api.hall.example", ":443,,[]:1,a:b:c,/8", True),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://[fd00::1]:6443", "fd00::1", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://[fd00::1]:6443", "[fd00::1]:1", True),
        ("https://[fd00::1]:6443", "0.0.0.0/0", True),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://127.9.8.7", "", False),
        ("https://[::1]:6443", "", False),
        ("https://[::ffff:127.0.0.1]:6443", "", False),
        ("https://localhost.example", "", True),
        ("https://0.0.0.0:6443", "", True),
        ("https://128.0.0.1", "", True),
    ],
)
@pytest.mark.parametrize("proxy", ["http://127.0.0.1:3128", "127.0.0.1:3128"])
def test_the_proxy_of_the_environment_is_used_as_by_kubectl(
    proxy_variables: pytest.MonkeyPatch, host: str, rules: str, is_used: bool, proxy: str
) -> None:
    proxy_variables.setenv("https_proxy", "")
    proxy_variables.setenv("HTTPS_PROXY", proxy)
    proxy_variables.setenv("no_proxy", rules)
    pool = pool_of(Access(host))
    assert (type(pool).__name__ == "ProxyManager") is is_used


@pytest.mark.parametrize(
    "proxy", ["http://[::1", "http://h:99999", "http://u:secret@h:abc", "http://a b", "ftp://h"]
)
def test_a_proxy_that_is_no_url_is_told_without_its_account(
    proxy_variables: pytest.MonkeyPatch, proxy: str
) -> None:
    proxy_variables.setenv("HTTPS_PROXY", proxy)
    proxy_variables.setenv("https_proxy", proxy)
    proxy_variables.setenv("no_proxy", "")
    with pytest.raises(InvalidInput, match="the proxy .* is not a URL") as caught:
        pool_of(Access("https://10.1.2.3:6443"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("https://h:99999", "is not a URL"),
        ("https://[::1", "is not a URL"),
        ("https://fd00::1:6443", "is not a URL"),
        ("https://u:secret@h", "host holds a user name or password"),
    ],
)
def test_a_host_that_is_no_url_is_told(host: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        Kube.connect({"host": host, "api_key": "t"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
def test_an_api_server_of_this_host_is_asked_without_the_proxy(
    proxy_variables: pytest.MonkeyPatch, files: Path, address: str
) -> None:
    user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
    with ScriptedApi(in_turn()) as proxy, TlsApi() as api:
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY"):
            proxy_variables.setenv(name, proxy.url)
        url = api.url.replace("127.0.0.1", address)
        given = kubeconfig(user, {"certificate-authority": "ca.pem"}, url)
        assert Kube.connect({"kubeconfig": write(files, given)}).get("/x") == {}
        assert (api.received, proxy.asked) == (["client"], [])


NAMES = "# Főtanúsítvány – lab root\n"
OTHER = self_signed(common_name="other")
SURROUNDINGS: dict[str, t.Callable[[str], bytes]] = {
    "names": lambda pem: f"{NAMES}{pem}{NAMES}".encode(),
    "names in latin": lambda pem: "# hall Zürich\n".encode("latin-1") + pem.encode(),
    "line ends of windows": lambda pem: pem.replace("\n", "\r\n").encode(),
    "byte order mark": lambda pem: b"\xef\xbb\xbf" + pem.encode(),
    "byte order mark and names": lambda pem: f"\ufeff{NAMES}{pem}".encode(),
    "no last line end": lambda pem: pem.strip().encode(),
    "openssl's text": lambda pem: f"Certificate:\n    Data:\n  Issuer: CN={NAMES}{pem}".encode(),
}
OF_BUNDLES: dict[str, t.Callable[[str], bytes]] = {
    **SURROUNDINGS,
    "another certificate": lambda pem: (OTHER.pem + NAMES + pem).encode(),
    "a key": lambda pem: (private_key(OTHER) + pem).encode(),
    "a block that is none": lambda pem: pem.replace("MII", "AAA", 1).encode() + pem.encode(),
    "a block that is no base64": lambda pem: pem.replace("MII", "%", 1).encode() + pem.encode(),
    "a block that has no end": lambda pem: pem.split("-----END")[0].encode() + b"\n" + pem.encode(),
    "a trusted certificate": lambda pem: (
        OTHER.pem.replace("CERTIFICATE", "TRUSTED CERTIFICATE") + pem
    ).encode(),
    "twice": lambda pem: (pem + pem).encode(),
}


@pytest.mark.parametrize("around", OF_BUNDLES.values(), ids=list(OF_BUNDLES))
def test_authorities_are_found_among_other_text(
    files: Path, around: t.Callable[[str], bytes]
) -> None:
    bundle = around(SERVER.pem)
    (files / "bundle.pem").write_bytes(bundle)
    user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
    data = base64.b64encode(bundle).decode()
    with TlsApi() as api:
        for cluster in (
            {"certificate-authority": "bundle.pem"},
            {"certificate-authority-data": data},
        ):
            given = kubeconfig(user, cluster, api.url)
            assert Kube.connect({"kubeconfig": write(files, given)}).get("/x") == {}


@pytest.mark.parametrize("around", SURROUNDINGS.values(), ids=list(SURROUNDINGS))
def test_a_client_certificate_is_found_among_other_text(
    files: Path, around: t.Callable[[str], bytes]
) -> None:
    pair = (around(CLIENT.pem), around(private_key(CLIENT)))
    (files / "c.pem").write_bytes(pair[0])
    (files / "k.pem").write_bytes(pair[1])
    data = [base64.b64encode(each).decode() for each in pair]
    with TlsApi() as api:
        for user in (
            {"client-certificate": "c.pem", "client-key": "k.pem"},
            {"client-certificate-data": data[0], "client-key-data": data[1]},
        ):
            given = kubeconfig(user, {"certificate-authority": "ca.pem"}, api.url)
            assert Kube.connect({"kubeconfig": write(files, given)}).get("/x") == {}
        assert api.received == ["client"] * 2


@pytest.mark.parametrize(
    "bundle",
    [
        b"",
        NAMES.encode(),
        b"\xff\xfe",
        SERVER.pem.replace("CERTIFICATE", "TRUSTED CERTIFICATE").encode(),
        SERVER.pem.replace("CERTIFICATE-----\n", "CERTIFICATE-----\nName: x\n\n", 1).encode(),
        SERVER.pem.replace("MII", "AAA", 1).encode(),
        private_key(SERVER).encode(),
    ],
)
def test_a_bundle_without_a_certificate_is_one_error(files: Path, bundle: bytes) -> None:
    (files / "bundle.pem").write_bytes(bundle)
    with pytest.raises(InvalidInput, match=r"no certificates in PEM .* file .*/bundle\.pem"):
        Kube.connect({"host": "https://x", "ca_cert": str(files / "bundle.pem")})
    if not bundle:
        return  # without data, the certificates of the system count
    given = {"certificate-authority-data": base64.b64encode(bundle).decode()}
    with pytest.raises(InvalidInput, match="no certificates in PEM .* certificate-authority-data"):
        Kube.connect({"kubeconfig": kubeconfig({}, given)})
