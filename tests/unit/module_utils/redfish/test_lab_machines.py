# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers against the lab's simulated BMCs and pressure API: six vendors, every fault."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.observe.pressure import read_pressure
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.models import read_models
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from lab.bmc.vendors import TREES
from lab.embedded import EmbeddedLab, embedded_lab
from lab.machines import SERVER_TYPES, Machine

VENDORS = sorted(TREES)
NODES = 12
Result = dict[str, t.Any]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab"), nodes=NODES) as lab:
        lab.admin("PUT", "/loads", {machine.name: 8.0 for machine in lab.machines})
        yield lab


@pytest.fixture
def lab(running: EmbeddedLab) -> Iterator[EmbeddedLab]:
    # Clearing the faults also resets the clock.
    running.admin("POST", "/clock", {"frozen": True})
    yield running
    running.admin("DELETE", "/faults")
    running.admin("DELETE", "/requests")


def parameters(lab: EmbeddedLab, *machines: Machine, **more: t.Any) -> Result:
    targets = [
        {
            "name": machine.name,
            "endpoint": lab.endpoint(machine),
            "username": machine.bmc_username,
            "password": machine.bmc_password,
        }
        for machine in machines or lab.machines
    ]
    return {"targets": targets, "ca_path": str(lab.ca_path), **more}


def truth(lab: EmbeddedLab) -> dict[str, dict[str, float]]:
    return {name: entry["shown"] for name, entry in lab.admin("GET", "/truth").items()}


def lab_signed(lab: EmbeddedLab) -> list[Machine]:
    return [machine for machine in lab.machines if machine.certificate == "lab-ca"]


def test_every_machine_s_values_are_read_as_it_shows_them(lab: EmbeddedLab) -> None:
    shown = truth(lab)
    result = read_thermal(parameters(lab, *lab_signed(lab)), Context())
    assert result["errors"] == []
    assert {entry["name"]: entry["inlet_celsius"] for entry in result["readings"]} == {
        machine.name: shown[machine.name]["inlet_celsius"] for machine in lab_signed(lab)
    }
    assert {entry["name"]: entry["power_watts"] for entry in result["readings"]} == {
        machine.name: shown[machine.name]["power_watts"] for machine in lab_signed(lab)
    }


@pytest.mark.parametrize("vendor", VENDORS)
def test_each_vendor_s_sensor_is_found_and_then_read_at_once(lab: EmbeddedLab, vendor: str) -> None:
    machine = next(item for item in lab_signed(lab) if item.vendor == vendor)
    answers = TREES[machine.vendor].answers
    first = read_thermal(parameters(lab, machine), Context())
    (reading,) = first["readings"]
    assert reading["source_uri"] == answers.inlet_uri.rstrip("/")
    assert reading["sensor_name"] == answers.inlet_name
    assert reading["power_uri"] == answers.power_uri.rstrip("/")
    lab.admin("DELETE", "/requests")
    again = parameters(lab, machine)
    again["targets"][0]["sensors"] = first["sensors"][0]
    (second,) = read_thermal(again, Context())["readings"]
    assert second["inlet_celsius"] == reading["inlet_celsius"]
    assert second["rule"] == "known_sensor"
    traffic = lab.admin("GET", "/requests")["nodes"][machine.name]
    assert traffic["peak_in_flight"] == 1
    assert traffic["requests"] == len({answers.inlet_uri, answers.power_uri})


def test_every_machine_tells_what_published_measurements_are_matched_by(lab: EmbeddedLab) -> None:
    machines = lab_signed(lab)
    found = {
        entry["name"]: entry["system"]
        for entry in read_thermal(parameters(lab, *machines), Context())["sensors"]
    }
    for machine in machines:
        kind = SERVER_TYPES[machine.server_type]
        told = {key: found[machine.name][key] for key in ("model", "processor", "sockets", "cores")}
        assert list(told.values()) == [kind.model, kind.processor, kind.sockets, kind.cores]
        assert found[machine.name]["manufacturer"]


def test_every_machine_names_its_model(lab: EmbeddedLab) -> None:
    result = read_models(parameters(lab, *lab_signed(lab)), Context())
    assert result["errors"] == []
    endpoints = [model["power_consumption"]["endpoint"] for model in result["models"]]
    assert len(endpoints) == len(lab_signed(lab))
    assert all(endpoint.endswith("/infer") for endpoint in endpoints)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"kind": "dead-bmc"}, "unreachable"),
        ({"kind": "dead-bmc", "silent": True}, "unreachable"),
        ({"kind": "slow-bmc", "seconds": 60}, "timeout"),
        ({"kind": "unauthorized"}, "unauthorized"),
        ({"kind": "locked-account"}, "unauthorized"),
        ({"kind": "unavailable", "seconds": 60}, "throttled"),
        ({"kind": "malformed-json"}, "malformed"),
        ({"kind": "null-reading"}, "no_sensor"),
        ({"kind": "wrong-certificate"}, "tls"),
        ({"kind": "changed-certificate"}, "tls"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())),
)
def test_each_fault_has_its_reason_and_leaves_the_others_alone(
    lab: EmbeddedLab, fault: Result, reason: str
) -> None:
    broken, *others = lab_signed(lab)
    lab.admin("POST", "/faults", [{**fault, "node": broken.name}])
    options = parameters(lab, broken, *others, gather=["inlet"], timeout=3.0)
    result = read_thermal(options, Context())
    assert [(error["name"], error["reason"]) for error in result["errors"]] == [
        (broken.name, reason)
    ]
    values = {entry["name"]: entry["inlet_celsius"] for entry in result["readings"]}
    assert values.get(broken.name) is None
    assert {values[machine.name] for machine in others} != {None}


def test_pressures_are_those_of_the_room(lab: EmbeddedLab) -> None:
    endpoint = lab.pressure_endpoint
    targets = [{"name": machine.name, "endpoint": endpoint} for machine in lab.machines]
    lab.admin("POST", "/faults", [{"kind": "pressure-empty", "node": lab.machines[0].name}])
    result = read_pressure({"targets": targets}, Context())
    assert [error["reason"] for error in result["errors"]] == ["no_sensor"]
    assert len(result["readings"]) == NODES - 1
