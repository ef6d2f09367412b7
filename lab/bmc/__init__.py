# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated BMCs: Redfish over TLS at an address for each machine, in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from lab import pki
from lab.process import Service
from lab.room import Room
from lab.serving import answers, simulator_process
from lab.state import LabSettings, LabState

PORTS = ("bmc", "bmc_admin")
READY_SECONDS_A_BMC = 0.05


def services(state: LabState, settings: LabSettings) -> list[Service]:
    """One process for all machines; ready when every BMC listens."""
    admin_port = settings.ports["bmc_admin"]
    for other in ("bmc", "predictor"):  # asked for now, so that the process finds them
        settings.ports[other]
    process = simulator_process("bmc", state, lambda: answers(admin_port, "/faults"))
    timeout = process.ready_timeout + READY_SECONDS_A_BMC * settings.nodes
    return [replace(process, ready_timeout=timeout)]


@contextlib.asynccontextmanager
async def serving(state: LabState, settings: LabSettings) -> AsyncIterator[None]:
    """Serve the BMCs and their admin API; with a kubeconfig, the load comes from pods.

    Raises LabError.
    """
    from lab.bmc.admin import Admin
    from lab.bmc.certificates import folder
    from lab.bmc.fleet import Fleet
    from lab.bmc.kubelets import NOTICE_SECONDS, Kubelets
    from lab.bmc.pods import PodLoads, connection, follow

    room = Room.of(state, settings)
    authority = pki.load_authority(state.pki)
    fleet = Fleet(room, authority, folder(state), settings)
    loads = None
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(fleet.serving())
        if state.kubeconfig.exists():
            loads = PodLoads(room.load_cores)
            api = connection(state.kubeconfig)
            notice_seconds = NOTICE_SECONDS * settings.power_time_factor
            kubelets = Kubelets(fleet.boards, room.now, notice_seconds)
            for following in (follow(api, loads), kubelets.follow(api)):
                stack.push_async_callback(_cancel, asyncio.create_task(following))
        await stack.enter_async_context(Admin(fleet, loads).serving(settings.ports["bmc_admin"]))
        yield


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
