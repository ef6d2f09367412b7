# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of real BMCs and mockups, served over HTTPS: redfish_thermal_info must read them right.

Samples whose publishers state no licence are not in this repository: they are read from the
reference folder, and their tests skip if it is absent. A URI without a file answers 404.
"""

from __future__ import annotations

import random
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, folder_documents
from support.reference import require_reference

HERE = Path(__file__).resolve().parent / "redfish"
EXPECTED: dict[str, dict[str, t.Any]] = yaml.safe_load((HERE / "expected.yaml").read_text())
ANSWER = ("inlet_celsius", "source_uri", "sensor_name", "rule", "power_watts", "power_uri")

# Only one resource of these was published, below a chassis whose name cannot be guessed.
WITHOUT_WAY_IN = (
    "hpe-oneview-blade",
    "hpe-oneview-enclosure",
    "hpe-oneview-rack",
    "openstack-sushy",
)


def sample(name: str) -> dict[str, Document]:
    folder = HERE / "samples" / name
    documents = folder_documents(
        folder if folder.is_dir() else require_reference("redfish", "samples", name)
    )
    if name in WITHOUT_WAY_IN:
        members = [{"@odata.id": path.rpartition("/")[0]} for path in documents]
        documents["/redfish/v1/Chassis"] = {"Members": members}
    return documents


def read(server: HttpsServer, **target: t.Any) -> dict[str, t.Any]:
    one = {"name": "node-1", "endpoint": server.endpoint, **target}
    parameters = {"targets": [one], "tls_fingerprint": [SHARED_CERTIFICATE.fingerprint]}
    return read_thermal(parameters, Context())


def answer(result: dict[str, t.Any]) -> dict[str, t.Any]:
    return {name: result["readings"][0][name] for name in ANSWER}


@pytest.mark.parametrize("name", EXPECTED)
def test_sample_is_read_right(name: str) -> None:
    with HttpsServer(sample(name)) as server:
        result = read(server)
    assert answer(result) == EXPECTED[name]
    given = {"inlet_celsius", "power_watts"} - {k for k, v in answer(result).items() if v is None}
    assert len(result["errors"]) == 2 - len(given)
    assert all(error["reason"] in ("no_sensor", "implausible") for error in result["errors"])


@pytest.mark.parametrize("name", EXPECTED)
def test_sample_is_read_the_same_whatever_the_order_of_its_lists(name: str) -> None:
    documents = sample(name)
    shuffled = {path: _shuffled(body, random.Random(name)) for path, body in documents.items()}
    with HttpsServer(shuffled) as server:
        assert answer(read(server)) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_steady_poll_is_one_request_for_each_quantity(name: str) -> None:
    with HttpsServer(sample(name)) as server:
        first = read(server)
        server.forget()
        second = read(server, sensors=first["sensors"][0])
        expected = EXPECTED[name]
        values = ("inlet_celsius", "power_watts")
        assert all(answer(second)[value] == expected[value] for value in values)
        if all(expected[value] is not None for value in values):
            assert server.total == 2


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in WITHOUT_WAY_IN])
def test_expanded_collections_give_the_same(name: str) -> None:
    documents = sample(name)
    root = documents.get("/redfish/v1", {"@odata.id": "/redfish/v1"})
    assert isinstance(root, dict)
    features = {"ExpandQuery": {"NoLinks": True, "MaxLevels": 1}}
    documents["/redfish/v1"] = {**root, "ProtocolFeaturesSupported": features}
    with HttpsServer(documents, expand=True) as server:
        assert answer(read(server)) == EXPECTED[name]


def test_samples_of_this_repository_say_where_they_come_from() -> None:
    for folder in (HERE / "samples").iterdir():
        source = (folder / "SOURCE.txt").read_text()
        assert "repository: https://" in source
        assert "licence: none" not in source


def _shuffled(value: t.Any, chance: random.Random) -> t.Any:
    if isinstance(value, dict):
        return {name: _shuffled(item, chance) for name, item in value.items()}
    if isinstance(value, list):
        return [_shuffled(item, chance) for item in chance.sample(value, len(value))]
    return value
