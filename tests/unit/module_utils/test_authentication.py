# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our runs never lock an account: waits between attempts, on a clock that the tests move."""

from __future__ import annotations

import base64
import datetime
import json
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import TargetFailure
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.authentication import (
    Attempts,
    Memory,
    after_attempt,
    not_before,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.models import read_models
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.https_server import SHARED_CERTIFICATE, HttpsServer
from support.redfish_trees import ROOT, collection, one_server, temperature, thermal
from support.scripted_api import Asked, ScriptedApi
from support.scripted_api import Reply as ApiReply
from support.snapshots import with_targets

START = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)


def test_the_waits_grow_from_5_to_60_minutes() -> None:
    attempts, waits = Attempts(), []
    for _index in range(7):
        changed = after_attempt(attempts, True, "1", START)
        assert changed is not None
        attempts = changed
        moment = not_before(attempts, "1")
        assert moment is not None
        waits.append((moment - START) / MINUTE)
    assert waits == [5, 10, 20, 40, 60, 60, 60]


def test_a_changed_secret_may_be_tried_at_once_and_starts_anew() -> None:
    attempts = Attempts(4, START, "1")
    assert not_before(attempts, "1") is not None
    assert not_before(attempts, "2") is None
    assert after_attempt(attempts, True, "2", START) == Attempts(1, START, "2")


def test_success_is_remembered_only_where_there_was_a_failure() -> None:
    assert after_attempt(Attempts(), False, "1", START) is None
    assert after_attempt(Attempts(2, START, "1"), False, "1", START) == Attempts(0, START, "1")


def test_an_attempt_counts_as_of_the_next_whole_second() -> None:
    moment = START + datetime.timedelta(microseconds=1)
    changed = after_attempt(Attempts(), True, "1", moment)
    assert changed is not None
    assert changed.last_attempt == START + datetime.timedelta(seconds=1)
    assert after_attempt(Attempts(), True, "1", START) == Attempts(1, START, "1")


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59Z", "2026-11-21T13:00:02Z"])
def test_a_time_that_no_clock_showed_yet_does_not_keep_a_machine_from_being_asked(
    moment: str,
) -> None:
    attempts = Attempts.from_result({"failures": 3, "last_attempt": moment})
    memory = Memory({"n": attempts})
    memory.require_patience("n", "", "the Secret", START)
    memory.note("n", True, "", START)
    assert memory.as_result(["n"])[0]["last_attempt"] == "2026-11-21T12:00:00Z"
    with pytest.raises(TargetFailure, match="no further request before"):
        memory.require_patience("n", "", "the Secret", START)


@pytest.mark.parametrize("failures", [10**400, -1, "x", [1], True, 0.5, float("nan"), None])
def test_a_count_that_is_none_is_no_memory(failures: t.Any) -> None:
    entry = {"failures": failures, "last_attempt": "2026-11-21T12:00:00Z"}
    assert Attempts.from_result(entry) == Attempts()


@given(st.integers(1, 10**6), st.text(max_size=5))
def test_what_is_written_is_read_again(failures: int, version: str) -> None:
    attempts = Attempts(failures, START, version)
    assert Attempts.from_result(attempts.as_result("n")) == attempts
    assert not_before(attempts, version) is not None


@pytest.mark.parametrize(
    "status", [None, 7, {}, {"failures": "x"}, {"failures": 3, "lastAttempt": "yesterday"}]
)
def test_a_status_that_cannot_be_read_is_no_hindrance(status: t.Any) -> None:
    assert not_before(Attempts.from_status(status), "") is None


@dataclass
class LockingAccount:
    """An account that locks for good after three failures within five minutes, bounds included."""

    failures: list[datetime.datetime] = field(default_factory=list)
    is_locked: bool = False

    def fail(self, now: datetime.datetime) -> None:
        self.failures.append(now)
        recent = [moment for moment in self.failures if now - moment <= 5 * MINUTE]
        self.is_locked = self.is_locked or len(recent) >= 3


class Operator:
    """One NodeConfig with a wrong password, and the role's work: run, then write the status."""

    def __init__(self, folder: Path, endpoint: str, api: str, sharing: bool) -> None:
        self._path = folder / "snapshot.json"
        self._endpoint = endpoint
        self._api = api
        self._sharing = sharing
        self.status: dict[str, t.Any] = {}

    def run(self, now: datetime.datetime) -> list[dict[str, t.Any]]:
        self._write()
        parameters = {
            "snapshot": str(self._path),
            "tls_fingerprint": [SHARED_CERTIFICATE.fingerprint],
            "host": self._api,
            "api_key": "token",
        }
        context = Context(now=lambda: now)
        first = read_thermal(parameters, context)
        shared = {"authentication": first["authentication"]} if self._sharing else {}
        second = read_models({**parameters, **shared}, context)
        for entry in first["authentication"]:
            self.status["authentication"] = {
                "failures": entry["failures"],
                "lastAttempt": entry["last_attempt"],
                "secretResourceVersion": entry["secret_resource_version"],
            }
        return [*first["errors"], *second["errors"]]

    def _write(self) -> None:
        term = {
            "type": "Redfish",
            "endpoint": self._endpoint,
            "basicAuthSecret": {"name": "bmc"},
        }
        config = {
            "apiVersion": "wao.bitmedia.co.jp/v1beta1",
            "kind": "NodeConfig",
            "metadata": {"name": "n", "namespace": "wao-system"},
            "spec": {
                "nodeName": "n",
                "metricsCollector": {"inletTemp": term, "deltaP": {"type": "Fake", "endpoint": ""}},
                "predictor": {"powerConsumptionEndpointProvider": term},
            },
            "status": self.status,
        }
        body = {
            "document": "wattwise.kube/snapshot/v1",
            "time": "2026-11-21T12:00:00Z",
            "cluster": {},
            "nodes": [{"metadata": {"name": "n"}}],
            "node_configs": [config],
        }
        self._path.write_text(json.dumps(with_targets(body)))


class SecretApi:
    """The Kubernetes API with one Secret, whose password may be changed."""

    def __init__(self, password: str) -> None:
        self.password = password
        self.version = 1

    def __call__(self, asked: Asked) -> ApiReply:
        assert asked.path == "/api/v1/namespaces/wao-system/secrets/bmc"
        data = {"username": "admin", "password": self.password}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        return ApiReply({"metadata": {"resourceVersion": str(self.version)}, "data": encoded})


def documents() -> dict[str, t.Any]:
    model = {"Name": "m", "Url": "http://h", "Type": "V2InferenceProtocol", "Version": "1"}
    return {
        **one_server(thermal(temperature("Inlet", 22))),
        f"{ROOT}/Systems": collection(f"{ROOT}/Systems/1"),
        f"{ROOT}/Systems/1/MachineLearningModel": {"PowerConsumptionModel": model},
    }


@pytest.mark.parametrize("sharing", [True, False], ids=["result passed on", "status only"])
@pytest.mark.large
def test_an_hour_of_runs_with_a_wrong_password_never_locks_the_account(
    tmp_path: Path, sharing: bool
) -> None:
    account = LockingAccount()
    secret = SecretApi("wrong")
    with (
        ScriptedApi(secret) as api,
        HttpsServer(documents(), account=("admin", "right")) as server,
    ):
        operator = Operator(tmp_path, server.endpoint, api.url, sharing)
        for step in range(240):
            now = START + step * datetime.timedelta(seconds=15)
            before = sum(server.seen.refused.values())
            errors = operator.run(now)
            for _index in range(sum(server.seen.refused.values()) - before):
                account.fail(now)
            assert {error["reason"] for error in errors} == {"unauthorized"}
        assert not account.is_locked
        assert len(account.failures) == (4 if sharing else 8)
        assert "before 2026-11-21T13:15" in errors[0]["detail"]
        assert "wao-system/bmc" in errors[0]["detail"]

        secret.password, secret.version = "right", 2
        assert [error["reason"] for error in operator.run(now)] == ["no_sensor"]
        assert operator.status["authentication"]["failures"] == 0
