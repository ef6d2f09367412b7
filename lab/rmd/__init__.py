# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated RMD daemons: one on each machine, in one process.

The model follows the code of RMD v0.2; it was not compared with hardware.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from lab import pki
from lab.machines import SERVER_TYPES, Machine, build_machines
from lab.process import Service
from lab.rmd.host import SKYLAKE, SKYLAKE_WAYS, Configuration, Host
from lab.serving import answers, simulator_process
from lab.state import LabSettings, LabState

PORTS = ("rmd", "rmd_tls", "rmd_admin")


def services(state: LabState, settings: LabSettings) -> list[Service]:
    """One process for all machines; ready when every daemon listens."""
    admin_port = settings.ports["rmd_admin"]
    for other in ("rmd", "rmd_tls"):  # asked for now, so that the process finds them
        settings.ports[other]
    return [simulator_process("rmd", state, lambda: answers(admin_port, "/faults"))]


@contextlib.asynccontextmanager
async def serving(state: LabState, settings: LabSettings) -> AsyncIterator[None]:
    """Serve the daemons of all machines and their admin API. Raises LabError."""
    from lab.rmd.admin import Admin
    from lab.rmd.certificates import certificates, folder
    from lab.rmd.daemon import Daemon
    from lab.rmd.fleet import Fleet

    files = certificates(pki.load_authority(state.pki), folder(state))
    daemons = {
        machine.name: (
            address(machine),
            Daemon(machine_host(machine), machine_configuration(machine)),
        )
        for machine in build_machines(settings.nodes, settings.racks, settings.seed)
    }
    fleet = Fleet(daemons, settings.ports["rmd"], settings.ports["rmd_tls"], files)
    async with fleet.serving(), Admin(fleet).serving(settings.ports["rmd_admin"]):
        yield


def address(machine: Machine) -> str:
    """The daemon's address: the InternalIP with 127.72 in place of 10.71."""
    return machine.internal_address.replace("10.71.", "127.72.", 1)


def endpoint(machine: Machine, settings: LabSettings) -> str:
    """The URL of the machine's daemon."""
    if machine_configuration(machine).debug:
        return f"http://{address(machine)}:{settings.ports['rmd']}"
    return f"https://{address(machine)}:{settings.ports['rmd_tls']}"


def endpoints(machines: Sequence[Machine], settings: LabSettings) -> dict[str, str]:
    return {machine.name: endpoint(machine, settings) for machine in machines}


def machine_configuration(machine: Machine) -> Configuration:
    """Racks with an even number use TLS, machines with an odd one the wire format of v0.3."""
    rack, number = (int(part) for part in machine.internal_address.split(".")[2:])
    base = SKYLAKE if machine_host(machine).ways == SKYLAKE_WAYS else Configuration()
    return base.with_(
        wire="0.3" if number % 2 else "0.2", debug=rack % 2 == 1, pstate=number % 4 == 0
    )


def machine_host(machine: Machine) -> Host:
    """One cache per socket; single-socket machines have 11 ways, the others 20."""
    sockets = SERVER_TYPES[machine.server_type].sockets
    size = machine.cores // sockets
    caches = {socket: tuple(range(socket * size, (socket + 1) * size)) for socket in range(sockets)}
    if sockets == 1:
        return Host(caches, ways=SKYLAKE_WAYS, architecture="skylake", mba=True)
    return Host(caches)
