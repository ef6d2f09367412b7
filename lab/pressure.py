# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differential pressure API that WAO's collectors use; `python -m lab.pressure --state DIR`.

    GET /api/sensor/{sensor id}
    GET /api/sensor/by_nodename/{node}
    GET /api/sensor/by_nodeaddress/{InternalIP}
    GET /api/sensors

An unknown sensor is not an HTTP error: the answer is 200 with an empty list.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from lab.conditions import PRESSURE_EMPTY
from lab.machines import Machine
from lab.process import Service
from lab.room import Room
from lab.serving import answers, run, serving_on_loopback, simulator_process
from lab.state import LabSettings, LabState

PORTS = ("pressure",)


@dataclass(frozen=True)
class BasicAuth:
    """The one account of a server with authentication; None permits all clients."""

    username: str
    password: str

    def accepts(self, header: str) -> bool:
        encoded = base64.b64encode(f"{self.username}:{self.password}".encode())
        return hmac.compare_digest(header.encode(), b"Basic " + encoded)


def services(state: LabState, settings: LabSettings) -> list[Service]:
    """One process; ready when it answers."""
    port = settings.ports["pressure"]
    return [simulator_process("pressure", state, lambda: answers(port, "/api/sensor/none"))]


@contextlib.asynccontextmanager
async def serving(
    state: LabState, settings: LabSettings, account: BasicAuth | None = None
) -> AsyncIterator[None]:
    """Serve on loopback over plain HTTP, as the sensors' gateways do."""
    application = web.Application(middlewares=[_guard(account)] if account else [])
    application.add_routes(_Sensors(Room.of(state, settings)).routes())
    async with serving_on_loopback(application, settings.ports["pressure"]):
        yield


def sensor_id(machine: Machine) -> str:
    """Seven characters, like the ids of the real sensors, from the machine's address."""
    rack, place = machine.internal_address.split(".")[2:]
    return f"10{int(rack):02X}{int(place):03X}"


class _Sensors:
    def __init__(self, room: Room) -> None:
        self._room = room
        machines = room.machines.values()
        self._by_id = {sensor_id(machine): machine for machine in machines}
        self._by_address = {machine.internal_address: machine for machine in machines}

    def routes(self) -> list[web.RouteDef]:
        def of(machines: Mapping[str, Machine]) -> Handler:
            async def respond(request: web.Request) -> web.Response:
                machine = machines.get(request.match_info["key"])
                return self._answer("sensor", [machine] if machine else [])

            return respond

        return [
            web.get("/api/sensor/by_nodename/{key}", of(self._room.machines)),
            web.get("/api/sensor/by_nodeaddress/{key}", of(self._by_address)),
            web.get("/api/sensor/{key}", of(self._by_id)),
            web.get("/api/sensors", self._all),
        ]

    async def _all(self, _request: web.Request) -> web.Response:
        return self._answer("sensors", self._room.machines.values())

    def _answer(self, key: str, machines: Iterable[Machine]) -> web.Response:
        conditions = self._room.conditions_file.read()
        readings = [
            self._reading(machine)
            for machine in machines
            if conditions.fault(PRESSURE_EMPTY, machine.name) is None
        ]
        return web.json_response({"code": 200, key: readings})

    def _reading(self, machine: Machine) -> dict[str, float | str]:
        truth = self._room.truth(machine.name)
        return {
            "pressure": round(truth.delta_p_pascal, 2),
            "sensorid": sensor_id(machine),
            "temperature": round(truth.inlet_celsius, 2),
        }


def _guard(account: BasicAuth) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if account.accepts(request.headers.get("Authorization", "")):
            return await handler(request)
        headers = {"WWW-Authenticate": 'Basic realm="sensors"'}
        return web.json_response({"code": 401}, status=401, headers=headers)

    return check


if __name__ == "__main__":
    sys.exit(run(serving, "lab.pressure", __doc__))
