# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BMCs and pressure sensors in a thread of a test, without a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import bmc, faults, pki, pressure
from lab.machines import Machine, build_machines
from lab.process import free_port
from lab.serving import in_thread
from lab.state import LabSettings, LabState


@dataclass(frozen=True)
class EmbeddedLab:
    """A running simulator. With six machines or more, every vendor's BMC is among them."""

    state: LabState
    settings: LabSettings
    machines: tuple[Machine, ...]

    def machine(self, vendor: str) -> Machine:
        """The first machine with a BMC of this vendor."""
        return next(machine for machine in self.machines if machine.vendor == vendor)

    def endpoint(self, machine: Machine) -> str:
        return f"https://{machine.bmc_address}:{self.settings.ports['bmc']}"

    @property
    def pressure_endpoint(self) -> str:
        return f"http://127.0.0.1:{self.settings.ports['pressure']}"

    @property
    def ca_path(self) -> Path:
        return self.state.pki / "ca.pem"

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the admin API of lab/bmc/admin.py; JSON in and out."""
        return faults.call(self.settings, method, path, body)


@contextlib.contextmanager
def embedded_lab(
    folder: Path, nodes: int = 6, racks: int = 1, seed: int = 1
) -> Iterator[EmbeddedLab]:
    """Run a simulator in the folder, which must be empty; answers have no added delay at first."""
    state = LabState(folder)
    state.create()
    pki.create_authority(state.pki)
    names = (*bmc.PORTS, *pressure.PORTS, "predictor")
    ports = {name: free_port() for name in names}
    parts = ("bmc", "pressure")
    settings = LabSettings(nodes, racks, seed, ports, parts, power_time_factor=1.0)
    state.write_settings(settings)
    machines = tuple(build_machines(nodes, racks, seed))
    with (
        in_thread(bmc.serving(state, settings)),
        in_thread(pressure.serving(state, settings)),
    ):
        running = EmbeddedLab(state, settings, machines)
        running.admin("POST", "/latency", {"seconds": [0, 0]})
        yield running
