# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Admin API of the simulated BMCs, on loopback; real machines have none.

- `GET /truth`: node → the physical state, and the values that its BMC shows
- `GET /loads`: cores in use by node, and whether all pods of the cluster are counted
- `PUT /loads`: set them, `{node: cores}`, if no cluster determines them
- `PUT /hardware`: change `{node: {memory_gib, has_qat, gpus, sriov_enabled}}`, any of them
- `GET /power`: node → on, up, accepted resets, limit, seconds
- `PUT /power`: set seconds, `{node: {boot, power_on, shutdown, force_off}}`, any of them
- `POST /power`: press the power buttons of `[node]` that are off, as a person at their front
- `DELETE /power`: every machine is on, has booted, and has its usual times
- `GET /requests`: node → requests, answers by status, most requests at once; in all
- `DELETE /requests`: start counting again
- `GET /accounts`: node → locked, failed attempts, open sessions
- `GET /faults`; `POST /faults`: `[{kind, node, seconds, silent}]`
- `DELETE /faults`: back to normal: no faults, the clock right, no account locked
- `POST /clock`: `{offset_seconds, frozen}`
- `POST /latency`: `{seconds: [least, most]}`
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from lab.bmc.fleet import Fleet
from lab.bmc.pods import PodLoads
from lab.bmc.power import MachinePower, Times
from lab.conditions import Conditions, Fault
from lab.errors import LabError
from lab.serving import serving_on_loopback

_HARDWARE = frozenset(("memory_gib", "has_qat", "gpus", "sriov_enabled"))


class Admin:
    """`loads` is None if no cluster determines them."""

    def __init__(self, fleet: Fleet, loads: PodLoads | None) -> None:
        self._fleet = fleet
        self._loads = loads
        self._file = fleet.room.conditions_file

    @contextlib.asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[None]:
        application = web.Application(middlewares=[errors_as_json])
        application.add_routes(
            [
                web.get("/truth", self._truth),
                web.get("/loads", self._get_loads),
                web.put("/loads", self._put_loads),
                web.put("/hardware", self._put_hardware),
                web.get("/power", self._get_power),
                web.put("/power", self._put_power),
                web.post("/power", self._press_buttons),
                web.delete("/power", self._restore_power),
                web.get("/requests", self._requests),
                web.delete("/requests", self._forget_requests),
                web.get("/accounts", self._accounts),
                web.get("/faults", self._faults),
                web.post("/faults", self._add_faults),
                web.delete("/faults", self._clear),
                web.post("/clock", self._clock),
                web.post("/latency", self._latency),
            ]
        )
        async with serving_on_loopback(application, port):
            yield

    async def _truth(self, _request: web.Request) -> web.Response:
        room = self._fleet.room
        answer = {}
        conditions = self._file.read()
        for node, board in self._fleet.boards.items():
            truth = room.truth(node)
            live = board.live(truth, conditions)
            shown = board.tree.answers.shown(live)
            answer[node] = {**dataclasses.asdict(live.truth), "shown": shown}
        return web.json_response(answer)

    async def _get_loads(self, _request: web.Request) -> web.Response:
        loads = self._loads
        return web.json_response(
            {
                "synchronised": loads is None or loads.synchronised,
                "pods": None if loads is None else loads.pods,
                "cores": self._fleet.room.load_cores,
            }
        )

    async def _put_loads(self, request: web.Request) -> web.Response:
        if self._loads is not None:
            raise LabError("The pods of the cluster decide on the loads; bind or delete pods.")
        body = await _json_object(request)
        unknown = body.keys() - self._fleet.boards.keys()
        if unknown:
            raise LabError(f"There is no machine {min(unknown)!r} in this lab.")
        self._fleet.room.load_cores.update(
            {node: number(cores, "cores") for node, cores in body.items()}
        )
        return await self._get_loads(request)

    async def _put_hardware(self, request: web.Request) -> web.Response:
        body = await _json_object(request)
        for node, given in body.items():
            board = self._fleet.boards.get(node)
            if board is None or not isinstance(given, dict) or given.keys() - _HARDWARE:
                raise LabError(
                    f"{node!r} is not a machine, or has no hardware that can be changed."
                )
            parts = {name: value for name, value in given.items() if name != "memory_gib"}
            board.machine = dataclasses.replace(
                board.machine,
                memory_gib=given.get("memory_gib", board.machine.memory_gib),
                hardware=dataclasses.replace(board.machine.hardware, **parts),
            )
        return web.json_response({})

    async def _get_power(self, _request: web.Request) -> web.Response:
        now = self._fleet.room.now()
        return web.json_response(
            {
                node: {
                    "is_on": board.power.is_on(now),
                    "is_up": board.power.is_up(now),
                    "resets": board.power.resets,
                    "cap_watts": board.cap.effective,
                    **dataclasses.asdict(board.power.times),
                }
                for node, board in self._fleet.boards.items()
            }
        )

    async def _put_power(self, request: web.Request) -> web.Response:
        body = await _json_object(request)
        for node, given in body.items():
            board = self._fleet.boards.get(node)
            names = {field.name for field in dataclasses.fields(Times)}
            if board is None or not isinstance(given, dict) or given.keys() - names:
                raise LabError(f"{node!r} is not a machine, or its power has no such time.")
            seconds = {name: number(value, name) for name, value in given.items()}
            board.power.times = dataclasses.replace(board.power.times, **seconds)
        return await self._get_power(request)

    async def _press_buttons(self, request: web.Request) -> web.Response:
        body = await json_body(request)
        for node in body if isinstance(body, list) else [body]:
            board = self._fleet.boards.get(str(node))
            if board is None:
                raise LabError(f"There is no machine {node!r} in this lab.")
            board.press_button(self._file.read())
        return await self._get_power(request)

    async def _restore_power(self, request: web.Request) -> web.Response:
        for board in self._fleet.boards.values():
            board.power = MachinePower.of(board.machine.server_type, board.power.factor)
        return await self._get_power(request)

    async def _requests(self, _request: web.Request) -> web.Response:
        by_node = {
            node: {
                "requests": board.traffic.requests,
                "statuses": board.traffic.statuses,
                "peak_in_flight": board.traffic.peak_in_flight,
            }
            for node, board in self._fleet.boards.items()
        }
        total = sum(board.traffic.requests for board in self._fleet.boards.values())
        return web.json_response({"total": total, "nodes": by_node})

    async def _forget_requests(self, request: web.Request) -> web.Response:
        for board in self._fleet.boards.values():
            board.traffic.reset()
        return await self._requests(request)

    async def _accounts(self, _request: web.Request) -> web.Response:
        now = self._fleet.room.now()
        return web.json_response(
            {
                node: {
                    "locked": board.account.locked(now),
                    "failed_attempts": board.account.failed_attempts,
                    "sessions": len(board.account.sessions),
                }
                for node, board in self._fleet.boards.items()
            }
        )

    async def _faults(self, _request: web.Request) -> web.Response:
        faults = self._file.read().faults
        return web.json_response([dataclasses.asdict(fault) for fault in faults])

    async def _add_faults(self, request: web.Request) -> web.Response:
        body = await json_body(request)
        asked = body if isinstance(body, list) else [body]
        conditions = self._file.read()
        found = {(fault.kind, fault.node): fault for fault in conditions.faults}
        parsed = [Fault.parse(document, self._fleet.boards) for document in asked]
        found |= {(fault.kind, fault.node): fault for fault in parsed}
        await self._change(dataclasses.replace(conditions, faults=tuple(found.values())))
        return await self._faults(request)

    async def _clear(self, request: web.Request) -> web.Response:
        await self._change(Conditions())
        for board in self._fleet.boards.values():
            board.account.unlock()
            board.power_account.unlock()
        return await self._faults(request)

    async def _clock(self, request: web.Request) -> web.Response:
        body = await _json_object(request)
        offset = number(body.get("offset_seconds", 0.0), "offset_seconds")
        moved = dataclasses.replace(self._file.read(), offset_seconds=offset, frozen_at=None)
        frozen_at = moved.now() if body.get("frozen") else None
        await self._change(dataclasses.replace(moved, frozen_at=frozen_at))
        return web.json_response({"now": self._fleet.room.now()})

    async def _latency(self, request: web.Request) -> web.Response:
        body = await _json_object(request)
        seconds = body.get("seconds")
        if not isinstance(seconds, list) or len(seconds) != 2:
            raise LabError('The latency is {"seconds": [least, most]}.')
        least, most = (number(value, "seconds") for value in seconds)
        self._fleet.latency_seconds = (least, most)
        return web.json_response({"seconds": [least, most]})

    async def _change(self, conditions: Conditions) -> None:
        self._file.write(conditions)
        await self._fleet.apply_conditions()


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except LabError as error:
        return web.json_response({"error": str(error)}, status=400)


async def json_body(request: web.Request) -> Any:
    try:
        return await request.json()
    except ValueError:
        raise LabError("The body is not JSON.") from None


async def _json_object(request: web.Request) -> dict[str, Any]:
    body = await json_body(request)
    if not isinstance(body, dict):
        raise LabError("The body is not a JSON object.")
    return body


def number(value: Any, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise LabError(f"{field} is {value!r}, not a number.")
    return float(value)
