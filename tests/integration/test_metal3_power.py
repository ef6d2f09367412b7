# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that Metal3 manages are switched by its own field, on a real API server."""

from __future__ import annotations

import asyncio
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import Pace
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.metal3 import (
    HostHand,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.planning import (
    Answer,
    Send,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.switching import (
    switch_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.system import (
    ExpectedMachine,
)
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from lab import bare_metal
from lab.api import Api
from lab.machines import Machine, build_machines
from lab.state import LabSettings
from support.lab import RunningLab
from support.snapshots import write_snapshot
from support.wao import node_config

Json = dict[str, t.Any]
SETTINGS = LabSettings(6, 2, 3, bare_metal_hosts=6)
PAUSED = "baremetalhost.metal3.io/paused"


@pytest.fixture(scope="module")
def machines(lab: RunningLab) -> Iterator[list[Machine]]:
    machines = build_machines(SETTINGS.nodes, SETTINGS.racks, SETTINGS.seed)
    with Api(lab.state.kubeconfig) as api:
        bare_metal.create(api, machines, SETTINGS)
        try:
            yield machines
        finally:
            bare_metal.delete(api)


@dataclass
class Operator:
    """Metal3's operator: with each pause of the switch, the power follows ``spec.online``."""

    kube: Kube
    names: list[str]
    seconds: float = 0.0
    is_idle: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def pace(self) -> Pace:
        return Pace(clock=lambda: self.seconds, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.seconds += seconds
        if not self.is_idle:
            self.follow()

    def follow(self) -> None:
        for name in self.names:
            online = self.host(name)["spec"]["online"]
            self.patch(name, {"status": {"poweredOn": online}}, "/status")

    def host(self, name: str) -> Json:
        return self.kube.get(f"{bare_metal.COLLECTION}/{name}")

    def patch(self, name: str, body: Json, part: str = "") -> None:
        path = f"{bare_metal.COLLECTION}/{name}{part}"
        self.kube.request("PATCH", path, body, MERGE_CONTENT_TYPE)

    def switch(self, kubeconfig: str, *names: str, check_mode: bool = False, **more: t.Any) -> Json:
        targets = [
            {
                "name": name,
                # Nobody listens there; Metal3 alone knows its BMCs.
                "endpoint": "https://127.0.0.1:9",
                "bare_metal_host": f"{bare_metal.NAMESPACE}/{name}",
            }
            for name in names
        ]
        given = {"targets": targets, "kubeconfig": kubeconfig, **more}
        if "snapshot" in more:
            del given["targets"]
        context = Context(check_mode=check_mode, warn=self.warnings.append)
        return switch_power(given, context, self.pace)


@pytest.fixture
def operator(kube: Kube, machines: list[Machine]) -> Iterator[Operator]:
    """All hosts on and unpaused before and after."""
    operator = Operator(kube, [machine.name for machine in machines])
    yield operator
    for name in operator.names:
        annotations = {PAUSED: None, "reboot.metal3.io/us": None}
        spec = {"online": True, "disablePowerOff": None}
        operator.patch(name, {"metadata": {"annotations": annotations}, "spec": spec})
    operator.follow()


def test_a_host_is_switched_off_and_on_by_its_field(kubeconfig: str, operator: Operator) -> None:
    name = operator.names[0]
    off = operator.switch(kubeconfig, name, state="off")
    assert off["errors"] == []
    [entry] = off["results"]
    assert (entry["by"], entry["action"], entry["power_state"]) == ("metal3", "switched_off", "Off")
    assert [(one["parameter"], one["value"]) for one in entry["requests"]] == [
        ("spec.online", "false")
    ]
    assert operator.host(name)["spec"]["online"] is False
    assert "mode has no effect" in operator.warnings[0]
    version = operator.host(name)["metadata"]["resourceVersion"]
    assert not operator.switch(kubeconfig, name, state="off")["changed"]
    assert operator.host(name)["metadata"]["resourceVersion"] == version
    on = operator.switch(kubeconfig, name, state="on")
    assert on["results"][0]["action"] == "switched_on"
    assert operator.host(name)["status"]["poweredOn"] is True


def test_check_mode_writes_nothing(kubeconfig: str, operator: Operator) -> None:
    name = operator.names[1]
    version = operator.host(name)["metadata"]["resourceVersion"]
    result = operator.switch(kubeconfig, name, state="off", check_mode=True)
    assert result["changed"]
    assert result["diff"][0]["after"] == {name: "Off"}
    assert operator.host(name)["metadata"]["resourceVersion"] == version


def test_an_operator_that_does_nothing_is_an_error_of_its_machine(
    kubeconfig: str, operator: Operator
) -> None:
    operator.is_idle = True
    result = operator.switch(kubeconfig, operator.names[0], state="off", timeout=60)
    [error] = result["errors"]
    assert (error["reason"], result["changed"]) == ("timeout", True)
    assert "spec.online: false" in error["detail"]
    assert "PoweringOff" in error["detail"]


def test_a_paused_host_is_switched_by_its_bmc(kubeconfig: str, operator: Operator) -> None:
    name = operator.names[2]
    operator.patch(name, {"metadata": {"annotations": {PAUSED: ""}}})
    result = operator.switch(kubeconfig, name, state="off")
    # The BMC is asked, and does not answer.
    assert result["errors"][0]["reason"] == "unreachable"
    assert operator.host(name)["spec"]["online"] is True


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({"spec": {"disablePowerOff": True}}, "off", "disablePowerOff"),
        (
            {"metadata": {"annotations": {"reboot.metal3.io/us": ""}}},
            "cycle",
            "reboot.metal3.io/us",
        ),
    ],
)
def test_a_host_that_metal3_would_not_switch_is_an_error(
    kubeconfig: str, operator: Operator, change: Json, state: str, words: str
) -> None:
    name = operator.names[3]
    operator.patch(name, change)
    result = operator.switch(kubeconfig, name, state=state)
    [error] = result["errors"]
    assert error["reason"] == "refused"
    assert words in error["detail"]
    assert operator.host(name)["spec"]["online"] is True


def test_a_host_that_does_not_exist_stops_no_other(kubeconfig: str, operator: Operator) -> None:
    result = operator.switch(kubeconfig, "nobody", operator.names[4], state="off")
    assert [entry["action"] for entry in result["results"]] == ["switched_off"]
    [error] = result["errors"]
    assert (error["name"], error["reason"]) == ("nobody", "not_found")


class TestHostThatChanges:
    """Another writer between the look and the request."""

    async def send(self, operator: Operator, change: Json) -> Answer:
        name = operator.names[5]
        hand = HostHand(operator.kube, (bare_metal.NAMESPACE, name), "off", ExpectedMachine())
        seen = await hand.look()
        assert seen.action is not None
        operator.patch(name, change)
        return await hand.send(Send(seen.action, "false", "graceful_off"))

    def test_the_field_is_written_on_the_new_version(self, operator: Operator) -> None:
        labels = {"metadata": {"labels": {"changed": "meanwhile"}}}
        assert asyncio.run(self.send(operator, labels)).kind == "accepted"
        host = operator.host(operator.names[5])
        assert host["spec"]["online"] is False
        assert host["metadata"]["labels"]["changed"] == "meanwhile"

    def test_a_host_that_was_paused_is_left_alone(self, operator: Operator) -> None:
        paused = {"metadata": {"annotations": {PAUSED: ""}}}
        assert asyncio.run(self.send(operator, paused)).kind == "not_now"
        assert operator.host(operator.names[5])["spec"]["online"] is True


@pytest.mark.parametrize(
    "identity",
    [{"serial_number": "ANOTHER"}, {"system_uuid": "11111111-2222-3333-4444-555555555555"}],
)
def test_a_host_without_the_given_identity_gets_no_change(
    kubeconfig: str, operator: Operator, identity: Json
) -> None:
    name = operator.names[0]
    target = {
        "name": name,
        "endpoint": "https://127.0.0.1:9",
        "bare_metal_host": f"{bare_metal.NAMESPACE}/{name}",
        **identity,
    }
    result = operator.switch(kubeconfig, state="off", targets=[target])
    assert result["errors"][0]["reason"] == "conflict"
    assert operator.host(name)["spec"]["online"] is True


def test_a_snapshot_tells_the_host_of_each_node(
    kubeconfig: str, kube: Kube, operator: Operator, tmp_path: Path
) -> None:
    taken = snapshot.take({"include": ["bare_metal_hosts"]}, kube=kube)["snapshot"]
    hosts = taken["bare_metal_hosts"]
    assert {host["metadata"]["name"] for host in hosts} == set(operator.names)
    one, other = operator.names[:2]
    nodes = [
        {
            "metadata": {"name": "node-1"},
            "spec": {"providerID": f"metal3://{bare_metal.NAMESPACE}/{one}/machine"},
        },
        {"metadata": {"name": other}, "spec": {}},
        {
            "metadata": {"name": "node-3"},
            "spec": {"providerID": "metal3://elsewhere/gone/machine"},
        },
    ]
    configs = []
    for node in nodes:
        name = node["metadata"]["name"]
        config = node_config(name, name)
        term = {"type": "Redfish", "endpoint": "https://127.0.0.1:9"}
        config["spec"]["metricsCollector"] = {"inletTemp": term}
        configs.append(config)
    path = write_snapshot(tmp_path, nodes=nodes, node_configs=configs, bare_metal_hosts=hosts)
    result = operator.switch(kubeconfig, state="off", snapshot=path)
    assert [(entry["name"], entry["by"]) for entry in result["results"]] == [
        ("node-1", "metal3"),
        (other, "metal3"),
    ]
    [error] = result["errors"]
    assert (error["name"], "machine of Metal3" in error["detail"]) == ("node-3", True)
    assert operator.host(one)["spec"]["online"] is False
