# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BMCs of the lab switch its KWOK nodes: an off machine has no kubelet, and draws standby power."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.switching import (
    switch_power,
)
from lab import faults
from lab.bmc.power import STANDBY_WATTS
from lab.controlplane.components import OFF_LABEL
from lab.errors import LabError
from lab.machines import Machine, build_machines
from lab.process import wait_until
from support.lab import RunningLab
from support.power_switching import accounts

Json = dict[str, t.Any]
UNREACHABLE = "node.kubernetes.io/unreachable"


@dataclass(frozen=True)
class Switched:
    """One machine of the lab, with its Node."""

    kube: Kube
    lab: RunningLab
    machine: Machine

    @property
    def node(self) -> Json:
        found: Json = self.kube.get(f"/api/v1/nodes/{self.machine.name}")
        return found

    @property
    def ready(self) -> str:
        conditions = self.node["status"]["conditions"]
        return next(str(one["status"]) for one in conditions if one["type"] == "Ready")

    @property
    def taints(self) -> set[tuple[str, str]]:
        return {(one["key"], one["effect"]) for one in self.node["spec"].get("taints", [])}

    @property
    def watts(self) -> float:
        """Power draw as the BMC measures it."""
        shown = self.admin("GET", "/truth")[self.machine.name]["shown"]
        return float(shown["power_watts"])

    def admin(self, method: str, path: str, body: t.Any = None) -> t.Any:
        return faults.call(self.lab.settings, method, path, body)

    def switch(self, state: str, **more: t.Any) -> Json:
        port = self.lab.settings.ports["bmc"]
        target = {
            "name": self.machine.name,
            "endpoint": f"https://{self.machine.bmc_address}:{port}",
            "credential": "reader",
            "power_credential": "switcher",
        }
        given = {
            "targets": [target],
            "credentials": accounts(self.machine),
            "ca_path": str(self.lab.state.ca_certificate),
            "state": state,
            **more,
        }
        return switch_power(given, Context())

    def wait_for_ready(self, status: str, seconds: float = 30.0) -> None:
        wait_until(lambda: self.ready == status, seconds, f"Ready to be {status}", interval=0.1)

    def wait_for_taints(self, *taints: tuple[str, str]) -> None:
        wait_until(lambda: self.taints == set(taints), 30.0, f"the taints {taints}", interval=0.1)


@pytest.fixture
def switched(kube: Kube, whole_lab: RunningLab) -> Iterator[Switched]:
    settings = whole_lab.settings
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    machine = next(each for each in machines if each.certificate == "lab-ca")
    one = Switched(kube, whole_lab, machine)
    yield one
    one.admin("DELETE", "/faults")
    one.admin("DELETE", "/power")
    one.wait_for_taints()


def test_a_machine_that_is_off_is_a_node_without_kubelet_until_its_boot_has_ended(
    switched: Switched,
) -> None:
    before = switched.watts
    assert switched.switch("off")["changed"]
    assert switched.watts == pytest.approx(STANDBY_WATTS, abs=1.0)
    assert before > 5 * STANDBY_WATTS
    switched.wait_for_ready("Unknown")
    switched.wait_for_taints((UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"))
    assert switched.node["metadata"]["labels"][OFF_LABEL] == "true"
    # As in reality, the Node stays what it is while the machine boots.
    name = switched.machine.name
    switched.admin("PUT", "/power", {name: {"boot": 3600.0}})
    assert switched.switch("on")["changed"]
    assert switched.watts > before
    assert switched.ready == "Unknown"
    switched.admin("POST", "/clock", {"offset_seconds": 3600.0})
    switched.wait_for_ready("True")
    switched.wait_for_taints()
    assert switched.watts == pytest.approx(before, rel=0.1)


def test_a_boot_that_fails_leaves_the_machine_powered_and_its_node_unknown(
    switched: Switched,
) -> None:
    name = switched.machine.name
    switched.switch("off")
    switched.wait_for_ready("Unknown")
    faults_of_boot = [{"kind": "boot-fails", "node": name}]
    switched.admin("POST", "/faults", faults_of_boot)
    switched.switch("on")
    switched.admin("POST", "/clock", {"offset_seconds": 86_400.0})
    power = switched.admin("GET", "/power")[name]
    assert (power["is_on"], power["is_up"], switched.ready) == (True, False, "Unknown")
    switched.admin("DELETE", "/faults")
    switched.switch("cycle")
    switched.wait_for_ready("True")


def test_a_hand_at_its_front_starts_a_machine_without_a_request_to_its_bmc(
    switched: Switched,
) -> None:
    name = switched.machine.name
    switched.switch("off")
    switched.wait_for_ready("Unknown")
    requests = switched.admin("GET", "/power")[name]["resets"]
    switched.admin("POST", "/power", [name])
    switched.wait_for_ready("True")
    assert switched.admin("GET", "/power")[name]["resets"] == requests
    with pytest.raises(LabError, match="no-such-machine"):
        switched.admin("POST", "/power", ["no-such-machine"])
