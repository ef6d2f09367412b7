# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Admin API of the RMD daemons, on loopback; real machines have none.

GET    /daemons    node → endpoint, wire, workloads, resctrl groups, requests by method DELETE
/requests   start counting again POST   /restart    [{node, loses_database, clean}]; clean is as
after the first boot GET    /faults     POST /faults [{kind, node, seconds, silent}] DELETE /faults
back to normal; a lost database stays lost POST   /latency    {seconds}
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from lab.bmc.admin import errors_as_json, json_body, number
from lab.conditions import RMD_FAULTS, Fault
from lab.errors import LabError
from lab.rmd.bitmaps import bits_of, list_text
from lab.rmd.fleet import Fleet, Station
from lab.serving import serving_on_loopback


class Admin:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    @contextlib.asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[None]:
        application = web.Application(middlewares=[errors_as_json])
        application.add_routes(
            [
                web.get("/daemons", self._daemons),
                web.delete("/requests", self._forget_requests),
                web.post("/restart", self._restart),
                web.get("/faults", self._faults),
                web.post("/faults", self._add_faults),
                web.delete("/faults", self._clear),
                web.post("/latency", self._latency),
            ]
        )
        async with serving_on_loopback(application, port):
            yield

    async def _daemons(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {
                name: {
                    "endpoint": self._fleet.endpoint(name),
                    "wire": station.daemon.configuration.wire,
                    "workloads": _workloads(station),
                    "groups": groups(station),
                    "requests": dict(station.requests),
                }
                for name, station in self._fleet.stations.items()
            }
        )

    async def _forget_requests(self, request: web.Request) -> web.Response:
        for station in self._fleet.stations.values():
            station.requests.clear()
        return await self._daemons(request)

    async def _restart(self, request: web.Request) -> web.Response:
        for asked in await json_body(request):
            if asked.get("node") not in self._fleet.stations:
                raise LabError(f"There is no machine {asked.get('node')!r} in this lab.")
            loses_database = bool(asked.get("loses_database", False))
            if asked.get("clean"):
                self._fleet.stations[asked["node"]].daemon.hardware.resctrl.clear()
                loses_database = True
            await self._fleet.restart(asked["node"], loses_database=loses_database)
        return await self._daemons(request)

    async def _faults(self, _request: web.Request) -> web.Response:
        faults = [
            dataclasses.asdict(fault)
            for station in self._fleet.stations.values()
            for fault in station.faults.values()
        ]
        return web.json_response(faults)

    async def _add_faults(self, request: web.Request) -> web.Response:
        body = await json_body(request)
        asked = body if isinstance(body, list) else [body]
        faults = [Fault.parse(item, self._fleet.stations, RMD_FAULTS) for item in asked]
        await self._fleet.inject(faults)
        return await self._faults(request)

    async def _clear(self, request: web.Request) -> web.Response:
        await self._fleet.clear()
        return await self._faults(request)

    async def _latency(self, request: web.Request) -> web.Response:
        self._fleet.latency_seconds = number((await json_body(request)).get("seconds"), "seconds")
        return web.json_response({"seconds": self._fleet.latency_seconds})


def groups(station: Station) -> dict[str, Any]:
    """The machine's resctrl groups: CPUs as a list, ways in hexadecimal by cache id."""
    return {
        name: {
            "cpus": list_text(bits_of(group.cpus)),
            "masks": {str(cache): f"{mask:x}" for cache, mask in group.masks.items()},
        }
        for name, group in station.daemon.hardware.resctrl.groups.items()
    }


def _workloads(station: Station) -> list[Any]:
    wire = station.daemon.configuration.wire
    return [workload.document(wire) for workload in station.daemon.workloads.values()]
