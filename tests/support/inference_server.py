# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A V2 inference server on loopback whose models behave or misbehave as the test specifies."""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

INFER_PATH = re.compile(r"(?:/base)?/v2/models/([^/]+)(?:/versions/([^/]+))?/infer")


def linear_watts(cpu: float, inlet_celsius: float, delta_p_pascal: float) -> float:
    return 90 + 0.5 * cpu + 0.25 * inlet_celsius - 0.125 * delta_p_pascal


@dataclass(frozen=True)
class Model:
    """The behaviour of one model.

    `batch_status` is the HTTP status of a request of several rows, `batch_outputs` the number of
    outputs returned for it (None: all). More than `most_rows` rows, or one that `fails`, are
    answered with 500. `raw` replaces the whole body.
    """

    watts: Callable[[float, float, float], Any] = linear_watts
    fails: Callable[[float, float, float], bool] = lambda *_: False
    most_rows: int = sys.maxsize
    batch_status: int = 200
    batch_outputs: int | None = None
    status: int = 200
    nested: bool = False
    raw: bytes | None = None
    delay_seconds: float = 0.0
    login: tuple[str, str] | None = None


@dataclass(frozen=True)
class Request:
    """A received request."""

    path: str
    model: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def rows(self) -> list[list[float]]:
        rows: list[list[float]] = json.loads(self.body)["inputs"][0]["data"]
        return rows


class InferenceServer:
    """Serves the models while its `with` block lasts; `requests` grows in order of arrival."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self.models = dict(models)
        self.requests: list[Request] = []
        self.closing = threading.Event()
        inference_server = self

        class Handler(_Handler):
            owner = inference_server

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def endpoint(self, model: str) -> str:
        return f"{self.address}/v2/models/{model}/versions/v0.1.0/infer"

    def __enter__(self) -> InferenceServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: Request) -> tuple[int, bytes]:
        model = self.models.get(request.model)
        if model is None:
            return 404, json.dumps({"error": f"Model {request.model} not found"}).encode()
        if model.login and request.headers.get("authorization") != _basic(*model.login):
            return 401, b'{"error":"unauthorized"}'
        self.closing.wait(model.delay_seconds)
        status = model.batch_status if len(request.rows) > 1 else model.status
        too_many = len(request.rows) > model.most_rows
        if status == 200 and (too_many or any(model.fails(*row) for row in request.rows)):
            status = 500
        if status != 200:
            return status, b'{"error":"refused"}'
        return 200, model.raw if model.raw is not None else _infer(model, request)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # with fewer, a burst of connections waits for a second


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: InferenceServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        found = INFER_PATH.fullmatch(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, found[1] if found else "", headers, body)
        self.owner.requests.append(request)
        status, answer = self.owner.answer(request)
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except ConnectionError:
            self.close_connection = True  # the client did not wait

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing."""


def _infer(model: Model, request: Request) -> bytes:
    watts: Sequence[Any] = [model.watts(*row) for row in request.rows]
    if len(watts) > 1 and model.batch_outputs is not None:
        watts = watts[: model.batch_outputs]
    data = [[value] for value in watts] if model.nested else watts
    output = {"name": "predict", "shape": [len(watts), 1], "datatype": "FP64", "data": data}
    return json.dumps({"model_name": request.model, "outputs": [output]}).encode()


def _basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
