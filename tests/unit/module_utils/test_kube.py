# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
import ssl
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    InvalidInput,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.version import USER_AGENT
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube, UnknownKind
from ansible_collections.wattwise.kube.plugins.module_utils.kube.connection.transport import (
    STARTING_SECONDS,
    Authorizer,
)
from support.https_server import SHARED_CERTIFICATE, HttpsServer
from support.scripted_api import Asked, Reply, ScriptedApi, in_turn, status_reply

# Messages of a kube-apiserver: from its authorizer, and from an admission plugin.
LACKS_RIGHT = (
    'pods is forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope'
)
OVER_QUOTA = 'pods "a" is forbidden: exceeded quota: small, requested: pods=1, limited: pods=0'


def connect(api: ScriptedApi, **options: t.Any) -> tuple[Kube, list[float]]:
    pauses: list[float] = []
    kube = Kube.connect({"host": api.url, "api_key": "t0ken"}, sleep=pauses.append, **options)
    return kube, pauses


def page(names: list[str], token: str = "") -> Reply:
    items = [{"metadata": {"name": name}} for name in names]
    return Reply(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": token}, "items": items}
    )


def test_the_token_and_the_version_are_sent_and_the_answer_decoded() -> None:
    with ScriptedApi(in_turn(Reply({"kind": "Pod"}))) as api:
        kube, _pauses = connect(api)
        assert kube.get("/api/v1/pods/a", {"limit": 5}) == {"kind": "Pod"}
        assert api.asked[0].headers["Authorization"] == "Bearer t0ken"
        assert api.asked[0].headers["User-Agent"] == USER_AGENT
        assert api.asked[0].path == "/api/v1/pods/a?limit=5"


def test_lists_follow_pages_and_give_each_item_its_kind() -> None:
    with ScriptedApi(in_turn(page(["a", "b"], "next"), page(["c"]))) as api:
        kube, _pauses = connect(api)
        items = kube.list("/api/v1/pods")
    assert [item["metadata"]["name"] for item in items] == ["a", "b", "c"]
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("v1", "Pod")}
    assert "continue=next" in api.asked[1].path


def test_a_list_that_expires_between_pages_begins_again_and_has_no_item_twice() -> None:
    expired = status_reply(410, "The provided continue parameter is too old")
    with ScriptedApi(in_turn(page(["a"], "x"), expired, page(["a"], "y"), page(["b"]))) as api:
        kube, _pauses = connect(api)
        assert [item["metadata"]["name"] for item in kube.list("/api/v1/pods")] == ["a", "b"]


def test_a_list_that_never_completes_is_an_error_and_not_a_part() -> None:
    def script(asked: Asked) -> Reply:
        return status_reply(410, "old") if "continue" in asked.path else page(["a"], "x")

    with ScriptedApi(script) as api:
        kube, _pauses = connect(api)
        with pytest.raises(ApiError, match="expired three times"):
            kube.list("/api/v1/pods")


def test_a_server_that_asks_to_wait_is_asked_again_after_that_time() -> None:
    busy = Reply(status_reply(429, "busy").body, 429, {"Retry-After": "1"})
    with ScriptedApi(in_turn(busy, Reply({"ok": True}))) as api:
        kube, pauses = connect(api)
        assert kube.get("/x") == {"ok": True}
    assert pauses == [1.0]


def test_a_server_that_restarts_is_waited_for_once_it_has_answered() -> None:
    away = [Reply(drop=True)] * 4
    with ScriptedApi(in_turn(Reply({}), *away, Reply({"ok": True}))) as api:
        kube, pauses = connect(api)
        kube.get("/x")
        assert kube.request("PATCH", "/x", {}) == {"ok": True}
    assert len(pauses) == 4


def test_a_post_whose_answer_is_lost_is_not_sent_again() -> None:
    with ScriptedApi(in_turn(Reply({}), Reply(drop=True))) as api:
        kube, _pauses = connect(api)
        kube.get("/x")
        with pytest.raises(ApiError) as caught:
            kube.request("POST", "/x", {})
        assert [asked.method for asked in api.asked] == ["GET", "POST"]
    assert caught.value.status == 0


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (status_reply(401, "Unauthorized"), "does not accept the credentials .* expired"),
        (status_reply(403, LACKS_RIGHT), 'Not allowed .* cannot list resource "pods".*; grant'),
        (status_reply(403, OVER_QUOTA), 'GET /x at .*: pods "a" is forbidden: exceeded quota'),
        (status_reply(422, "spec.x: Invalid value"), "GET /x at .*: spec.x: Invalid value"),
        (status_reply(403, OVER_QUOTA, details="none"), "GET /x at .*: pods .* exceeded quota"),
        (status_reply(403, OVER_QUOTA, details={"causes": ["?"]}), "GET /x at .*: pods .* quota"),
        (Reply(b"<html>", 200), "the answer is not JSON; is a proxy"),
        (Reply(b'{"spec": NaN}', 200), "the answer is not JSON.* holds NaN.*; is a proxy"),
        (Reply(b"<html>", 500), "GET /x at .*: HTTP 500"),
    ],
)
def test_an_answer_that_is_no_success_becomes_one_sentence(reply: Reply, message: str) -> None:
    with ScriptedApi(in_turn(reply)) as api:
        kube, _pauses = connect(api)
        with pytest.raises(ApiError, match=message):
            kube.get("/x")


def test_an_object_with_a_number_that_is_none_is_not_sent() -> None:
    with ScriptedApi(in_turn(Reply())) as api:
        kube, _pauses = connect(api)
        with pytest.raises(InvalidInput, match="POST /x: the object is not JSON"):
            kube.request("POST", "/x", {"a": float("nan")})
        assert api.asked == []


def test_an_unreachable_server_is_named_with_what_to_check() -> None:
    with ScriptedApi(in_turn(Reply())) as api:
        url = api.url
    kube = Kube.connect({"host": url}, sleep=lambda _seconds: None)
    with pytest.raises(ApiError, match=f"Cannot reach the Kubernetes API at {url} .*check kube"):
        kube.get("/x")


def test_a_server_that_speaks_no_tls_and_a_host_without_scheme_are_told_apart() -> None:
    with ScriptedApi(in_turn(Reply())) as api:
        kube = Kube.connect({"host": api.url.replace("http:", "https:")})
        with pytest.raises(ApiError, match="handshake .* failed .*; check that the port speaks"):
            kube.get("/x")
    with pytest.raises(InvalidInput, match="write host as https://address:port"):
        Kube.connect({"host": "10.0.0.1:6443"})


def test_a_handshake_that_a_restart_cuts_off_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted = []

        def hang_up() -> None:
            for _handshake in range(3):
                connection, _address = listener.accept()
                with connection:
                    accepted.append(connection.recv(4096)[:1])
                    # An end of the stream rather than a reset: all received bytes were read.
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(4096)

        thread = threading.Thread(target=hang_up)
        thread.start()
        pauses: list[float] = []
        host = f"https://127.0.0.1:{listener.getsockname()[1]}"
        kube = Kube.connect({"host": host}, sleep=pauses.append, patience_seconds=0.35)
        with pytest.raises(ApiError, match="ended the TLS handshake; check that the server runs"):
            kube.get("/x")
        thread.join()
    assert accepted == [b"\x16"] * 3
    assert pauses == [0.1, 0.2]


def test_a_certificate_that_nobody_vouches_for_is_not_asked_again() -> None:
    pauses: list[float] = []
    with HttpsServer() as server:
        kube = Kube.connect({"host": server.endpoint}, sleep=pauses.append)
        with pytest.raises(ApiError, match="is not trusted .*self.signed.*; set ca_cert"):
            kube.get("/x")
    assert pauses == []


def test_a_server_that_wants_a_client_certificate_is_told_from_one_that_goes_away(
    tmp_path: Path,
) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text(SHARED_CERTIFICATE.pem)
    context = SHARED_CERTIFICATE.server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=SHARED_CERTIFICATE.pem)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _address = listener.accept()
            with context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            ) as guarded:
                with contextlib.suppress(ssl.SSLError):
                    guarded.do_handshake()
                # Closing a socket with unread bytes resets it, and the alert would be lost.
                while os.read(guarded.fileno(), 4096):
                    pass

        thread = threading.Thread(target=refuse)
        thread.start()
        host = f"https://127.0.0.1:{listener.getsockname()[1]}"
        kube = Kube.connect({"host": host, "ca_cert": str(authority)})
        with pytest.raises(ApiError, match="refused the TLS handshake .*; check the client cert"):
            kube.get("/x")
        thread.join()


def test_an_object_beyond_the_limits_is_not_asked_for_again() -> None:
    deep: t.Any = {}
    for _level in range(300):
        deep = {"x": deep}
    with ScriptedApi(in_turn(Reply({}), Reply(deep))) as api:
        kube, pauses = connect(api)
        kube.get("/x")
        with pytest.raises(ApiError, match="nested more than 250 deep; delete it or make it"):
            kube.get("/x")
    assert pauses == []


def test_find_tells_absence_from_failure() -> None:
    with ScriptedApi(in_turn(status_reply(404, "no"), status_reply(500, "boom"))) as api:
        kube, _pauses = connect(api)
        assert kube.find("/x") is None
        with pytest.raises(ApiError, match="boom"):
            kube.find("/x")


def test_kinds_are_found_by_discovery_which_can_be_renewed() -> None:
    first = {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]}
    second = {
        "resources": [
            {"name": "pods", "kind": "Pod", "namespaced": True},
            {"name": "pods/status", "kind": "Pod", "namespaced": True},
            {"name": "nodes", "kind": "Node", "namespaced": False},
        ]
    }
    with ScriptedApi(in_turn(Reply(first), Reply(first), Reply(second))) as api:
        kube, _pauses = connect(api)
        assert kube.resource("v1", "Pod").path("a", "n") == "/api/v1/namespaces/n/pods/a"
        with pytest.raises(UnknownKind, match="serves no Node of v1; install"):
            kube.resource("v1", "Node")
        kube.forget_resources()
        assert kube.resource("v1", "Node").path("a", "ignored") == "/api/v1/nodes/a"
        assert len(api.asked) == 3


def test_a_kind_of_kubernetes_itself_is_not_for_anybody_to_install() -> None:
    served = {"name": "validatingadmissionpolicies", "kind": "ValidatingAdmissionPolicy"}
    with ScriptedApi(in_turn(Reply({"resources": [{**served, "namespaced": False}]}))) as api:
        kube, _pauses = connect(api)
        with pytest.raises(UnknownKind, match="older than this API, or has switched it off"):
            kube.resource("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy")


def test_secrets_are_decoded_and_come_with_their_version() -> None:
    data = {"username": base64.b64encode(b"root").decode(), "blob": "/w==", "broken": "*"}
    secret = {"metadata": {"resourceVersion": "7"}, "data": data}
    with ScriptedApi(in_turn(Reply(secret), status_reply(404, "no"))) as api:
        kube, _pauses = connect(api)
        assert kube.read_secret("n", "s") == ({"username": "root"}, "7")
        assert kube.read_secret("n", "s") is None


def test_kubeconfigs_are_taken_as_mapping_and_as_file_and_refused_with_a_remedy(
    tmp_path: Path,
) -> None:
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.9.8.7:6443"}}],
        "users": [{"name": "u", "user": {"token": "x"}}],
        "contexts": [{"name": "k", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "k",
    }
    assert Kube.connect({"kubeconfig": kubeconfig}).host == "https://10.9.8.7:6443"
    for broken in ({"kind": "Config"}, {**kubeconfig, "clusters": []}):
        with pytest.raises(InvalidInput, match="Cannot find out how to reach .* K8S_AUTH_KUBECON"):
            Kube.connect({"kubeconfig": broken})
    with pytest.raises(InvalidInput, match="Cannot find out"):
        Kube.connect({"kubeconfig": kubeconfig, "context": "none"})


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"hunter2",
        b"- token: hunter2",
        b"token: hunter2\n  x: {",
        b"\xff\xfe",
        b"clusters: 3\ncontexts: [3]\ncurrent-context: x",
    ],
)
def test_a_kubeconfig_that_is_none_is_named_by_its_path_and_not_quoted(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=re.escape(str(path))) as refusal:
        Kube.connect({"kubeconfig": str(path)})
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("option", ["ca_cert", "client_cert", "client_key"])
def test_a_missing_certificate_is_named_by_its_option_and_path(option: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{option}: .* /nowhere/a\.pem"):
        Kube.connect({"host": "https://127.0.0.1:1", option: "/nowhere/a.pem"})


def starting(seconds: float) -> t.Callable[[Asked], Reply]:
    """A server whose authorizer refuses everything until this time has passed."""
    ends = time.monotonic() + seconds

    def script(_asked: Asked) -> Reply:
        if time.monotonic() < ends:
            return status_reply(403, LACKS_RIGHT)
        return Reply({"kind": "PodList", "items": []})

    return script


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_a_refusal_of_a_server_that_just_started_is_repeated(method: str) -> None:
    with ScriptedApi(starting(0.5)) as api:
        kube = Kube.connect({"host": api.url})
        kube.request(method, "/api/v1/pods", {} if method != "GET" else None)
    assert len(api.asked) >= 3


def test_a_right_that_is_missing_is_waited_for_once_a_run() -> None:
    with ScriptedApi(starting(3600)) as api:
        kube = Kube.connect({"host": api.url})
        began = time.monotonic()
        for _request in range(20):
            with pytest.raises(ApiError, match="grant the permission in RBAC"):
                kube.metadata_only().get("/api/v1/pods")
        assert time.monotonic() - began < 6


def test_after_a_restart_refusals_are_repeated_once_more() -> None:
    authorizer = Authorizer(clock=lambda: now[0])
    now, lacks = [0.0], ApiError("", 403, lacks_permission=True)
    assert authorizer.is_starting(lacks)
    now[0] = STARTING_SECONDS + 1
    assert not authorizer.is_starting(lacks)
    for status in (0, 502, 503, 504):
        assert not authorizer.is_starting(ApiError("", status))
        assert authorizer.is_starting(lacks)
        now[0] += STARTING_SECONDS + 1
        assert not authorizer.is_starting(lacks)


@pytest.mark.parametrize(
    "message",
    [
        OVER_QUOTA,
        'pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged',
        'pods "a" is forbidden: ValidatingAdmissionPolicy "p" with binding "b" denied request: no',
        'admission webhook "w.example.org" denied the request: no',
        'clusterroles.rbac.authorization.k8s.io "a" is forbidden: user "x" (groups=["g"]) is '
        "attempting to grant RBAC permissions not currently held",
    ],
)
def test_a_refusal_of_an_admission_plugin_is_final_and_asks_for_no_right(message: str) -> None:
    with ScriptedApi(lambda _asked: status_reply(403, message)) as api:
        with pytest.raises(ApiError) as caught:
            Kube.connect({"host": api.url}).request("POST", "/api/v1/pods", {})
        assert len(api.asked) == 1
    assert "grant" not in str(caught.value).replace("to grant RBAC", "")
