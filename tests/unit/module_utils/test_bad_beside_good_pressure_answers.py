# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever one pressure server answers, the nodes of another one are read as if it were alone."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.observe.pressure import read_pressure
from support.examples import each_seed
from support.https_server import HttpsServer
from support.odd_answers import assert_fit_for_documents, spoilt_documents
from support.odd_values import TEXTS, bounded

Json = dict[str, t.Any]
SENSOR = {"sensorid": "101037B", "pressure": 4.5, "temperature": 26.02, "nodename": "n"}
TREE: Json = {
    f"/api/sensor/by_nodename/{name}": {"code": 200, "sensor": [SENSOR, {**SENSOR, "pressure": 9}]}
    for name in ("good", "same", "bad")
}
GOOD = {"name": "good", "pascals": 4.5, "sensor_id": "101037B", "temperature_celsius": 26.02}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[HttpsServer, HttpsServer]]:
    with HttpsServer(TREE, certificate=None) as good, HttpsServer(certificate=None) as bad:
        yield good, bad


@each_seed(65)
def test_a_node_is_read_as_if_it_were_alone(
    servers: tuple[HttpsServer, HttpsServer], seed: int
) -> None:
    source = random.Random(seed)
    good, bad = servers
    # On the same server one answer is spoilt, on the other possibly all.
    spoilt = spoilt_documents(source, TREE)
    good.documents = {**TREE, "/api/sensor/by_nodename/bad": spoilt["/api/sensor/by_nodename/bad"]}
    bad.documents = spoilt
    targets = [
        {"name": "bad", "endpoint": good.endpoint},
        {"name": "same", "endpoint": bad.endpoint},
        {"name": "odd", "endpoint": bad.endpoint, "sensor": source.choice(TEXTS)},
        {"name": "good", "endpoint": good.endpoint},
    ]
    with bounded():
        result = read_pressure({"targets": targets, "timeout": 4.0}, Context())
    assert [item for item in result["readings"] if item["name"] == "good"] == [GOOD]
    assert not [error for error in result["errors"] if error["name"] == "good"]
    assert_fit_for_documents(result)
