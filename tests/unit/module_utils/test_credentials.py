# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credential and trust of each target; a missing one is never omitted silently."""

from __future__ import annotations

import base64
import threading
import typing as t
from collections.abc import Mapping

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.credentials import (
    Access,
    CredentialReference,
    Credentials,
    with_environment,
)
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import (
    BearerToken,
    Credential,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.certificates import self_signed
from support.https_server import SHARED_CERTIFICATE, HttpsServer
from support.redfish_trees import one_server, temperature, thermal
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

ADMIN = {"username": "admin", "password": "pw"}
OTHER = {"username": "other", "password": "pw2"}


def secret(data: Mapping[str, str], version: str = "7") -> Reply:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return Reply({"metadata": {"resourceVersion": version}, "data": encoded})


class Secrets:
    """An API server with these Secrets, by ``namespace/name``."""

    def __init__(self, replies: Mapping[str, Reply]) -> None:
        self._replies = {
            "/api/v1/namespaces/{}/secrets/{}".format(*name.split("/")): reply
            for name, reply in replies.items()
        }
        self.asked: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked.path)
        return self._replies.get(asked.path, status_reply(404, "not found"))


def resolve(
    named: CredentialReference, entries: Mapping[str, t.Any] | None = None, **secrets: Reply
) -> tuple[Access, list[str]]:
    """The access, and the passwords registered as secret."""
    protected: list[str] = []
    script = Secrets({name.replace("__", "/"): reply for name, reply in secrets.items()})
    with ScriptedApi(script) as api:

        def connect() -> Kube:
            return Kube.connect({"host": api.url, "api_key": "token"})

        credentials = Credentials(entries, [named], connect, Context(protect=protected.append))
        return credentials.resolve(named), protected


def username(access: Access) -> str | None:
    return access.credential.username if isinstance(access.credential, Credential) else None


@pytest.mark.parametrize(
    ("named", "entries", "expected"),
    [
        (CredentialReference("own", "pw", key="a"), {"a": ADMIN, "default": OTHER}, "own"),
        (CredentialReference(key="a"), {"a": ADMIN, "default": OTHER}, "admin"),
        (CredentialReference(), {"default": OTHER}, "other"),
        (CredentialReference(), {"a": ADMIN}, None),
        (CredentialReference(), None, None),
        (CredentialReference(key="ns/bmc"), {"ns/bmc": ADMIN}, "admin"),
        (CredentialReference(key="ns/bmc"), {"default": ADMIN}, "from secret"),
        (CredentialReference(secret=("ns", "bmc")), {"ns/bmc": ADMIN}, "admin"),
        (CredentialReference(secret=("ns", "bmc")), {"default": ADMIN}, "from secret"),
    ],
)
def test_order_of_sources(
    named: CredentialReference, entries: Mapping[str, t.Any] | None, expected: str | None
) -> None:
    stored = secret({"username": "from secret", "password": "pw3"})
    assert username(resolve(named, entries, ns__bmc=stored)[0]) == expected


def test_passwords_are_named_as_secrets_and_shown_nowhere() -> None:
    stored = secret({"username": "admin", "password": "s3cr3t"})
    access, protected = resolve(CredentialReference(secret=("ns", "bmc")), ns__bmc=stored)
    assert protected == ["s3cr3t"]
    assert "s3cr3t" not in repr(access)
    assert (access.version, access.source) == ("7", "the Secret ns/bmc")


@pytest.mark.parametrize(
    ("named", "entries", "words"),
    [
        (CredentialReference("admin", None), {}, ["the target", "password"]),
        (CredentialReference(None, "pw"), {}, ["the target", "username"]),
        (CredentialReference(key="a"), {"b": ADMIN}, ["credentials", "'a'"]),
        (CredentialReference(key="default"), {}, ["'default'"]),
        (CredentialReference(key="a"), {"a": {"username": "admin"}}, ["credentials.a", "password"]),
        (
            CredentialReference(key="a"),
            {"a": "admin"},
            ["credentials.a", "username and no password"],
        ),
        (
            CredentialReference(key="a"),
            {"a": {"username": "a:b", "password": "c"}},
            ["credentials.a", "colon"],
        ),
        (CredentialReference(key="ns/no"), {}, ["Secret ns/no", "does not exist"]),
        (CredentialReference(secret=("ns", "no")), {}, ["Secret ns/no", "does not exist"]),
        (
            CredentialReference(secret=("ns", "empty")),
            {},
            ["Secret ns/empty", "username and no password"],
        ),
        (
            CredentialReference(secret=("ns", "hidden")),
            {},
            ["Secret ns/hidden", "may not be read", "allow"],
        ),
    ],
)
def test_what_is_named_but_missing_is_an_error(
    named: CredentialReference, entries: Mapping[str, t.Any], words: list[str]
) -> None:
    with pytest.raises(TargetFailure) as caught:
        resolve(named, entries, ns__empty=secret({}), ns__hidden=status_reply(403, "not allowed"))
    assert caught.value.reason == "credential"
    assert all(word in caught.value.detail for word in words)


def test_an_api_server_that_refuses_us_altogether_ends_the_run() -> None:
    with pytest.raises(ApiError):
        resolve(
            CredentialReference(secret=("ns", "bmc")), ns__bmc=status_reply(401, "Unauthorized")
        )


def test_without_a_secret_the_api_server_is_not_asked() -> None:
    def connect() -> Kube:
        raise AssertionError("connected")

    Credentials(
        {"a": ADMIN},
        [CredentialReference(key="a"), CredentialReference(), CredentialReference("u", "p")],
        connect,
        Context(),
    )


def test_each_secret_is_read_once() -> None:
    script = Secrets({"ns/bmc": secret(ADMIN)})
    with ScriptedApi(script) as api:
        named = [
            CredentialReference(secret=("ns", "bmc")),
            CredentialReference(key="ns/bmc"),
            CredentialReference(secret=("ns", "bmc")),
        ]
        connection = Kube.connect({"host": api.url, "api_key": "token"})
        credentials = Credentials({}, named, lambda: connection, Context())
        assert [username(credentials.resolve(item)) for item in named] == ["admin"] * 3
    assert len(script.asked) == 1


def test_a_token_replaces_user_name_and_password() -> None:
    access, protected = resolve(CredentialReference(key="a"), {"a": {"token": "abc.def\n"}})
    assert access.credential == BearerToken("abc.def")
    assert protected == ["abc.def"]
    assert "abc.def" not in repr(access)
    stored = secret({"token": "xyz", "ca.crt": "PEM"})
    access, _protected = resolve(CredentialReference(key="ns/prometheus"), ns__prometheus=stored)
    assert (access.credential, access.ca) == (BearerToken("xyz"), "PEM")
    for token in ("a b", "a\nb", "ä"):
        with pytest.raises(TargetFailure, match="HTTP cannot carry"):
            resolve(CredentialReference(key="a"), {"a": {"token": token}})


def test_a_node_config_sends_no_token_of_its_namespace() -> None:
    named = CredentialReference(secret=("ns", "token"), namespace="ns")
    with pytest.raises(TargetFailure, match="has no username and no password"):
        resolve(named, ns__token=secret({"token": "xyz"}))


def test_trust_comes_with_the_credential() -> None:
    pins = f"{'ab' * 32}, {'cd' * 32}"
    stored = secret({**ADMIN, "ca.crt": "PEM", "tls_fingerprint": pins})
    access, _asked = resolve(CredentialReference(secret=("ns", "bmc")), ns__bmc=stored)
    assert (access.ca, access.fingerprints) == ("PEM", ("ab" * 32, "cd" * 32))
    access, _asked = resolve(
        CredentialReference(key="a"), {"a": {**ADMIN, "tls_fingerprint": ["x", "y"]}}
    )
    assert access.fingerprints == ("x", "y")


class TestEnvironment:
    """The environment fills the entry ``default``, and only that."""

    def entries(self, environment: dict[str, str], given: t.Any) -> t.Any:
        work = with_environment(lambda parameters, _context: dict(parameters), environment)
        return work({"credentials": given}, Context())["credentials"]

    def test_it_is_the_default(self) -> None:
        environment = {"WATTWISE_REDFISH_USERNAME": "u", "WATTWISE_REDFISH_PASSWORD": "p"}
        default = {"default": {"username": "u", "password": "p"}}
        assert self.entries(environment, None) == default
        assert self.entries(environment, {"a": ADMIN}) == {**default, "a": ADMIN}

    def test_a_default_that_is_given_counts(self) -> None:
        environment = {"WATTWISE_REDFISH_USERNAME": "u", "WATTWISE_REDFISH_PASSWORD": "p"}
        assert self.entries(environment, {"default": ADMIN}) == {"default": ADMIN}

    @pytest.mark.parametrize("name", ["WATTWISE_REDFISH_USERNAME", "WATTWISE_REDFISH_PASSWORD"])
    def test_half_of_it_is_nothing(self, name: str) -> None:
        assert self.entries({name: "x"}, None) is None


class TestTrust:
    """Sources of a target's trust: its own fields, its credential's, the global ones."""

    STRANGER = self_signed().fingerprint

    def reasons(self, target: dict[str, t.Any], **parameters: t.Any) -> list[str]:
        with HttpsServer(one_server(thermal(temperature("Inlet", 22)))) as server:
            one = {"name": "n", "endpoint": server.endpoint, **target}
            given = {"targets": [one], "gather": ["inlet"], **parameters}
            return [error["reason"] for error in read_thermal(given, Context())["errors"]]

    def test_nothing_said_is_the_system_s_authorities(self) -> None:
        assert self.reasons({}) == ["tls"]

    def test_a_file_of_authorities(self, tmp_path: t.Any) -> None:
        path = tmp_path / "ca.pem"
        path.write_text(SHARED_CERTIFICATE.pem)
        assert self.reasons({}, ca_path=str(path)) == []
        assert self.reasons({"ca_path": str(path)}, tls_fingerprint=[self.STRANGER]) == []
        assert self.reasons({"ca_path": "/no/such.pem"}, ca_path=str(path)) == ["tls"]

    def test_the_target_s_own_pin_beats_all_others(self) -> None:
        right, wrong = [SHARED_CERTIFICATE.fingerprint], [self.STRANGER]
        assert self.reasons({"tls_fingerprint": right}, tls_fingerprint=wrong) == []
        assert self.reasons({"tls_fingerprint": wrong}, tls_fingerprint=right) == ["tls"]
        assert self.reasons({"tls_fingerprint": ["x"]}, tls_fingerprint=right) == ["tls"]

    def test_a_credential_s_trust_beats_that_for_all(self) -> None:
        wrong = [self.STRANGER]
        for more in (
            {"tls_fingerprint": SHARED_CERTIFICATE.fingerprint},
            {"ca": SHARED_CERTIFICATE.pem},
        ):
            credentials = {"a": {**ADMIN, **more}}
            target = {"credential": "a"}
            assert self.reasons(target, credentials=credentials, tls_fingerprint=wrong) == []

    def test_verification_may_be_switched_off_for_one_or_for_all(self) -> None:
        assert self.reasons({"validate_certs": False}) == []
        assert self.reasons({}, validate_certs=False) == []

    def test_and_switched_on_again_for_one(self) -> None:
        assert self.reasons({"validate_certs": True}, validate_certs=False) == ["tls"]
