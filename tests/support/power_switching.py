# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switching of the lab's simulated machines in simulated time."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import Pace
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.info import (
    read_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.limiting import (
    limit_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.switching import (
    switch_power,
)
from lab.embedded import EmbeddedLab
from lab.machines import Machine

Json = dict[str, t.Any]


@dataclass
class SwitchedLab:
    """A lab whose clock moves only by the pauses of the switch; ``slept`` are these pauses."""

    lab: EmbeddedLab
    seconds: float = 0.0
    slept: list[float] = field(default_factory=list)
    context: Context = field(default_factory=Context)

    def __post_init__(self) -> None:
        self._show()

    def machine(self, vendor: str) -> Machine:
        return self.lab.machine(vendor)

    @property
    def pace(self) -> Pace:
        return Pace(clock=lambda: self.seconds, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        self._show()

    def _show(self) -> None:
        self.lab.admin("POST", "/clock", {"offset_seconds": self.seconds})

    def parameters(self, *machines: Machine, **more: t.Any) -> Json:
        """Parameters for machines of one rack, which share their accounts."""
        return {
            "targets": [self.target(machine) for machine in machines],
            "credentials": accounts(machines[0]),
            "ca_path": str(self.lab.ca_path),
            **more,
        }

    def target(self, machine: Machine, **more: t.Any) -> Json:
        """The target of a machine with its account for reading and the one for changes."""
        return {
            "name": machine.name,
            "endpoint": self.lab.endpoint(machine),
            "credential": "reader",
            "power_credential": "switcher",
            **more,
        }

    def switch(self, *machines: Machine, **more: t.Any) -> Json:
        return switch_power(self.parameters(*machines, **more), self.context, self.pace)

    def limit(self, *machines: Machine, **more: t.Any) -> Json:
        return limit_power(self.parameters(*machines, **more), self.context, self.pace)

    def info(self, *machines: Machine, **more: t.Any) -> Json:
        given = self.parameters(*machines, **more)
        for target in given["targets"]:
            target.pop("power_credential", None)
        return read_power(given, self.context)

    def power(self, machine: Machine) -> Json:
        """The true power of a machine: is_on, is_up, resets, cap_watts, seconds."""
        found: Json = self.lab.admin("GET", "/power")[machine.name]
        return found

    def trouble(self, machine: Machine, kind: str, **fields: t.Any) -> None:
        self.lab.admin("POST", "/faults", [{"kind": kind, "node": machine.name, **fields}])

    def requests(self, machine: Machine) -> int:
        """Requests to the BMC of the machine since the last call."""
        count: int = self.lab.admin("GET", "/requests")["nodes"][machine.name]["requests"]
        self.lab.admin("DELETE", "/requests")
        return count


def accounts(machine: Machine) -> Json:
    return {
        "reader": {"username": machine.bmc_username, "password": machine.bmc_password},
        "switcher": {"username": machine.power_username, "password": machine.power_password},
    }
