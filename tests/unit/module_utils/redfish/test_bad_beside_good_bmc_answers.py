# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever one BMC answers, another one is read as if it were alone."""

from __future__ import annotations

import datetime
import random
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import Budget
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.models import read_models
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.examples import each_seed
from support.https_server import Document, HttpsServer
from support.odd_answers import assert_fit_for_documents, spoilt_documents
from support.odd_values import bounded, odd_value, spoilt
from support.redfish_trees import ROOT, SERVER, collection, one_server, ref, sensor, temperature
from support.snapshots import with_targets

Json = dict[str, t.Any]
# A stopped clock, so that results with their times can be compared.
AT_NOON = Context(now=lambda: datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC))
SENSORS = {
    **sensor(f"{SERVER}/Sensors/Inlet_1", "Inlet 1", 21.5, PhysicalContext="Intake"),
    **sensor(f"{SERVER}/Sensors/Inlet_2", "Inlet 2", 22.5, PhysicalContext="Intake"),
    **sensor(f"{SERVER}/Sensors/CPU_1", "CPU 1", 60, RelatedItem=[ref(f"{ROOT}/Systems/1")]),
}
TREE: Json = {
    **one_server(),
    f"{SERVER}/Sensors": collection(*SENSORS),
    **SENSORS,
    f"{SERVER}/Thermal": {
        "Temperatures": [
            temperature("Inlet Temp", 23.5, "Intake", MemberId="0"),
            temperature("PSU Inlet", 35, "PowerSupply", MemberId="1"),
        ],
        "Temperatures@odata.nextLink": f"{SERVER}/Thermal2",
    },
    f"{SERVER}/Thermal2": {"Temperatures": [temperature("Ambient", 24, "Intake", MemberId="2")]},
    f"{SERVER}/EnvironmentMetrics": {"PowerWatts": {"DataSourceUri": f"{SERVER}/Sensors/Power"}},
    f"{SERVER}/Power": {
        "PowerControl": [{"Name": "System Power", "PowerConsumedWatts": 300}],
        "PowerSupplies": [{"PowerInputWatts": 150, "Status": {"State": "Enabled"}}],
    },
    f"{ROOT}/Systems/1/MachineLearningModel": {
        "PowerConsumptionModel": {
            "Name": "model",
            "Url": "http://predictor:8080",
            "Type": "V2InferenceProtocol",
            "Version": "v0.1.0",
        }
    },
}
ACCOUNT = ("monitor", "secret")
WORKS = {"thermal": read_thermal, "models": read_models}


class Pair(t.NamedTuple):
    """A healthy BMC, and one whose answers are replaced."""

    good: HttpsServer
    bad: HttpsServer


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    options: Json = {"certificate": None, "account": ACCOUNT, "expand": True}
    with HttpsServer(TREE, **options) as good, HttpsServer(TREE, **options) as bad:
        yield Pair(good, bad)


def read(work: str, servers: t.Sequence[tuple[str, HttpsServer]]) -> Json:
    username, password = ACCOUNT
    targets = [
        {"name": name, "endpoint": server.endpoint, "username": username, "password": password}
        for name, server in servers
    ]
    given = {"targets": targets, "timeout": 4.0, "allow_plain_http": True}
    return WORKS[work](given, AT_NOON)


def of_good(result: Json) -> list[t.Any]:
    """The parts of the result about the healthy machine."""
    return [
        [item for item in result.get(part, []) if item["name"] == "good"]
        for part in ("readings", "sensors", "models", "authentication", "errors")
    ]


@pytest.fixture(scope="module")
def alone(pair: Pair) -> dict[str, list[t.Any]]:
    found = {work: of_good(read(work, [("good", pair.good)])) for work in WORKS}
    assert found["thermal"][0][0]["inlet_celsius"] == 21.5
    assert found["thermal"][0][0]["power_watts"] == 300
    assert found["models"][2]
    return found


@each_seed(65)
def test_a_machine_is_read_as_if_it_were_alone(
    pair: Pair, alone: dict[str, list[t.Any]], seed: int
) -> None:
    source = random.Random(seed)
    documents_of_bad: dict[str, Document] = spoilt_documents(source, TREE)
    pair.bad.documents = documents_of_bad
    pair.bad.forget()
    work = source.choice(["thermal", "thermal", "models"])
    with bounded():
        result = read(work, [("bad", pair.bad), ("good", pair.good)])
    assert of_good(result) == alone[work]
    assert_fit_for_documents(result)
    assert pair.bad.total <= Budget().requests


def test_a_machine_with_endless_pages_is_given_up_after_its_bytes(
    pair: Pair, alone: dict[str, list[t.Any]]
) -> None:
    blob = "x" * 60_000
    pages = {
        f"{SERVER}/Page{number}": {
            "Temperatures": [temperature("Outlet", 30, Oem=blob) for _entry in range(3)],
            "Temperatures@odata.nextLink": f"{SERVER}/Page{number + 1}",
        }
        for number in range(60)
    }
    without_sensors = {key: body for key, body in TREE.items() if "/Sensors" not in key}
    pair.bad.documents = {**without_sensors, f"{SERVER}/Thermal": pages[f"{SERVER}/Page0"], **pages}
    pair.bad.forget()
    result = read("thermal", [("bad", pair.bad), ("good", pair.good)])
    assert of_good(result) == alone["thermal"]
    [error, *_others] = [item for item in result["errors"] if item["name"] == "bad"]
    assert (error["reason"], "more than 2 MiB in all" in error["detail"]) == ("malformed", True)
    # Eleven pages of 180 kB are within the budget; after the twelfth only the power is requested,
    # which is a separate reading.
    fetched = [path for path in pair.bad.requests if "/Page" in path]
    assert len(fetched) == Budget().size // 180_000


def as_stored(value: t.Any) -> t.Any:
    """The value as Kubernetes can store it, with integers of 64 bits."""
    if isinstance(value, dict):
        return {key: as_stored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_stored(item) for item in value]
    is_huge = isinstance(value, int) and not -(2**63) <= value < 2**63
    return 2**63 - 1 if is_huge else value


@each_seed(25)
def test_a_status_of_anything_hinders_no_other_machine(
    pair: Pair, tmp_path: Path, seed: int
) -> None:
    source = random.Random(seed)
    status: Json = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "readings": {"inletTemp": {"celsius": 21.5, "time": "2026-01-31T12:00:00Z"}},
        "sensors": {"inletTemp": {"uri": f"{SERVER}/Thermal", "name": "Inlet Temp"}, "vendor": "X"},
        "authentication": {
            "failures": 1,
            "lastAttempt": "2026-01-31T12:00:00Z",
            "secretResourceVersion": "1",
        },
    }
    is_whole = source.randrange(8) == 0
    odd = as_stored(odd_value(source) if is_whole else spoilt(source, status))

    def config(name: str, server: HttpsServer, **more: t.Any) -> Json:
        term = {"type": "Redfish", "endpoint": server.endpoint}
        return {
            "metadata": {"name": name, "namespace": "wao-system"},
            "spec": {"nodeName": name, "metricsCollector": {"inletTemp": term}},
            **more,
        }

    pair.bad.documents = dict(TREE)
    results = []
    given: Json = {
        "credentials": {"default": dict(zip(("username", "password"), ACCOUNT, strict=True))},
        "default_credential_namespaces": ["wao-system"],
        "allow_plain_http": True,
    }
    for configs in (
        [config("good", pair.good)],
        [config("bad", pair.bad, status=odd), config("good", pair.good)],
    ):
        names = [{"metadata": {"name": item["spec"]["nodeName"]}} for item in configs]
        body = {"cluster": {}, "nodes": names, "node_configs": configs}
        path = tmp_path / f"{len(configs)}.json"
        documents.write(str(path), "snapshot", with_targets(body))
        with bounded():
            result = read_thermal(given | {"snapshot": str(path)}, AT_NOON)
        results.append(of_good(result))
        assert_fit_for_documents(result)
    assert results[0] == results[1]
