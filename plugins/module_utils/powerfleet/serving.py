# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The metrics endpoint, which serves the measurements of all fleets' runs over HTTP.

ansible-operator's own endpoint has no custom labels, so its metrics cannot name a node or fleet.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import os
import signal
import sys
import time
import types
import typing as t
from pathlib import Path

from ..base import metrics
from ..base.errors import InvalidInput
from ..serving import http_server
from . import exposition

PORT, HEALTH_PORT = 9090, 9091
RUNS_VARIABLE = "WATTWISE_RUNS"
# Prometheus uses one connection, and waits ten seconds.
_METRICS = http_server.Bounds(connections=8, request_seconds=10.0, idle_seconds=75.0)
_HEALTH = http_server.Bounds(connections=64, request_seconds=1.0)


def _is_alive() -> bool:
    """Whether a program that has nothing else to do is alive: it answers."""
    return True


class MetricsServer:
    """Serves metrics and health until ``stop`` is called, in one thread with an event loop.

    ``collect`` gives the metrics, in a thread of its own. ``checks`` are by the path of the probe.
    """

    def __init__(
        self,
        collect: t.Callable[[], str],
        checks: t.Mapping[str, t.Callable[[], bool]] = types.MappingProxyType(
            {"/healthz": _is_alive}
        ),
    ) -> None:
        self._collect, self._checks = collect, checks
        self._stopped = asyncio.Event()
        # The run folders are read once for all clients that wait, and health does not wait for it.
        self._reader = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._collecting: asyncio.Future[bytes] | None = None

    def stop(self) -> None:
        """Accept nothing more, and end."""
        self._stopped.set()

    async def run(
        self, address: str, ports: tuple[int, int], began: t.Callable[[int, int], None]
    ) -> None:
        """Serve metrics on the first port and health on the second one. Raises InvalidInput.

        ``began`` gets both ports.
        """
        servers = (
            http_server.HttpServer(self._serve_metrics, _METRICS),
            http_server.HttpServer(self._serve_health, _HEALTH),
        )
        try:
            began(servers[0].start(address, ports[0]), servers[1].start(address, ports[1]))
            await self._stopped.wait()
        finally:
            await asyncio.gather(*(server.close() for server in servers))
            self._reader.shutdown(wait=False)

    async def _serve_metrics(self, request: http_server.Request) -> http_server.Reply:
        if request.method not in ("GET", "HEAD"):
            return http_server.sentence(405, "Send GET.")
        if request.path != "/metrics":
            return http_server.sentence(404, "There is nothing here; the metrics are at /metrics.")
        if self._collecting is None or self._collecting.done():
            loop = asyncio.get_running_loop()
            self._collecting = loop.run_in_executor(self._reader, self._collected)
        content = await asyncio.shield(self._collecting)
        return http_server.Reply(200, content, metrics.CONTENT_TYPE)

    def _collected(self) -> bytes:
        return self._collect().encode()

    async def _serve_health(self, request: http_server.Request) -> http_server.Reply:
        if request.method not in ("GET", "HEAD"):
            return http_server.sentence(405, "Send GET.")
        check = self._checks.get(request.path)
        if check is None:
            places = " and ".join(self._checks)
            return http_server.sentence(404, f"There is nothing here; health is at {places}.")
        return http_server.sentence(200, "ok") if check() else http_server.sentence(503, "failing")


def main(arguments: t.Sequence[str] | None = None) -> int:
    """The container's program: 0 after a signal to end, 1 if it cannot listen."""
    parser = argparse.ArgumentParser(prog="metrics", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--address", default="", help="where to listen (everywhere)")
    parser.add_argument("--port", type=int, default=PORT, help="for metrics (%(default)s)")
    parser.add_argument(
        "--health-port", type=int, default=HEALTH_PORT, help="for health (%(default)s)"
    )
    text = "leave out files that are older (%(default)s)"
    parser.add_argument(
        "--max-age", type=float, default=exposition.MAX_AGE_SECONDS, metavar="SECONDS", help=text
    )
    chosen = parser.parse_args(arguments)
    if not os.environ.get(RUNS_VARIABLE):
        return _complain(f"${RUNS_VARIABLE} does not say where the run folders are; set it")
    runs = Path(os.environ[RUNS_VARIABLE])
    try:
        asyncio.run(_serve(chosen, runs))
    except InvalidInput as error:
        return _complain(str(error))
    return 0


async def _serve(chosen: argparse.Namespace, runs: Path) -> None:
    server = MetricsServer(lambda: exposition.collect(runs, time.time(), chosen.max_age))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop)

    def began(port: int, health_port: int) -> None:
        text = f"serving the metrics of {runs} on port {port}, health on port {health_port}"
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    await server.run(chosen.address, (chosen.port, chosen.health_port), began)


def _complain(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
