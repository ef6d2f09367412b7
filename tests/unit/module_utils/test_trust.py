# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tls_fingerprint_info's function: certificates for review, without any credentials sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible.module_utils.common.parameters import env_fallback

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.trust import (
    SPEC,
    fetch_fingerprints,
)
from support.certificates import self_signed
from support.https_server import HttpsServer
from support.recording_server import RecordingServer
from support.snapshots import with_targets

CERTIFICATE = self_signed(common_name="bmc-7")


def test_a_certificate_is_described_and_nothing_is_sent() -> None:
    with RecordingServer(CERTIFICATE) as server:
        targets = [{"name": "node-1", "endpoint": f"{server.endpoint}/redfish/v1"}]
        result = fetch_fingerprints({"targets": targets}, Context())
    assert server.received == [b""]
    (found,) = result["certificates"]
    assert found == {
        "name": "node-1",
        "endpoint": targets[0]["endpoint"],
        "sha256": CERTIFICATE.fingerprint,
        "key_sha256": CERTIFICATE.key_fingerprint,
        "subject": "CN=bmc-7",
        "issuer": "CN=bmc-7",
        "not_after": CERTIFICATE.certificate.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "self_signed": True,
    }
    assert (result["errors"], result["changed"]) == ([], False)


def test_names_in_a_certificate_cannot_command_a_terminal() -> None:
    hostile = self_signed(common_name="bmc\x1b[2J\u202e\n\x9b31m")
    with RecordingServer(hostile) as server:
        targets = [{"name": "node-1", "endpoint": server.endpoint}]
        (found,) = fetch_fingerprints({"targets": targets}, Context())["certificates"]
    assert found["subject"] == found["issuer"] == r"CN=bmc\x1b[2J\u202e\n\x9b31m"


def test_machines_that_show_none_are_named() -> None:
    steps: list[tuple[int, int, int]] = []

    def progress(done: int, total: int, failed: int) -> None:
        steps.append((done, total, failed))

    with HttpsServer({}, certificate=None) as plain, HttpsServer({}) as good:
        targets = [
            {"name": "plain", "endpoint": plain.endpoint.replace("http:", "https:")},
            {"name": "http", "endpoint": plain.endpoint},
            {"name": "dead", "endpoint": "https://127.0.0.1:9"},
            {"name": "bad", "endpoint": "127.0.0.1"},
            {"name": "good", "endpoint": good.endpoint},
        ]
        result = fetch_fingerprints({"targets": targets}, Context(progress=progress))
        assert good.total == 0
    assert [(error["name"], error["reason"]) for error in result["errors"]] == [
        ("plain", "tls"),
        ("http", "tls"),
        ("dead", "unreachable"),
        ("bad", "malformed"),
    ]
    assert [entry["name"] for entry in result["certificates"]] == ["good"]
    assert steps[-1] == (5, 5, 4)


def test_too_few_answers_fail_with_those_that_came() -> None:
    targets = [{"name": "dead", "endpoint": "https://127.0.0.1:9"}]
    with pytest.raises(WattwiseError, match="dead"):
        fetch_fingerprints({"targets": targets, "on_error": "fail"}, Context())


def test_nothing_to_look_at_is_said() -> None:
    validator = ModuleArgumentSpecValidator(**SPEC.to_keywords(env_fallback))
    [message] = validator.validate({}).error_messages
    assert message == "one of the following is required: targets, snapshot"


def test_each_bmc_of_a_snapshot_is_looked_at_once(tmp_path: Path) -> None:
    with HttpsServer({}) as server:
        redfish = {"type": "Redfish", "endpoint": server.endpoint}
        fake = {"type": "Fake", "endpoint": ""}
        body = {
            "document": "wattwise.kube/snapshot/v1",
            "time": "2026-11-21T12:00:00Z",
            "cluster": {},
            "nodes": [{"metadata": {"name": name}} for name in ("a", "b")],
            "node_configs": [
                {
                    "apiVersion": "wao.bitmedia.co.jp/v1beta1",
                    "kind": "NodeConfig",
                    "metadata": {"name": name, "namespace": "wao-system"},
                    "spec": {
                        "nodeName": name,
                        "metricsCollector": {"inletTemp": term, "deltaP": fake},
                        "predictor": {"powerConsumptionEndpointProvider": term},
                    },
                }
                for name, term in (("a", redfish), ("b", fake))
            ],
        }
        path = tmp_path / "snapshot.json"
        path.write_text(json.dumps(with_targets(body)))
        result = fetch_fingerprints({"snapshot": str(path)}, Context())
    assert [entry["name"] for entry in result["certificates"]] == ["a"]
