# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The extender's HTTP servers: calls of kube-scheduler over TLS, metrics, and health.

Every refusal is one sentence. kube-scheduler treats any status except 200 as a failure and, if the
extender is ``ignorable``, continues without it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import ssl
import sys
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ..base import metrics
from ..base.errors import InvalidInput, WattwiseError
from ..base.texts import shown_text
from ..kube.client import Kube
from ..kube.connection.pem import accept_as_go
from ..serving import http_server
from . import wire
from .answering import Extender
from .call_metrics import CallMetrics
from .cluster_state import MEASURED_SECONDS, ClusterState
from .feed import Feed

PORT, METRICS_PORT, HEALTH_PORT = 8443, 9090, 9091
NAMESPACE = "wattwise-system"
FILTER, PRIORITIZE = "filter", "prioritize"
# kube-scheduler schedules one pod at a time. Two seconds are longer than it waits for an answer, and
# Go's client keeps an idle connection for 90 s. A connection with TLS takes up to 0.4 MiB.
_CALLS = http_server.Bounds(
    connections=64,
    request_seconds=2.0,
    idle_seconds=120.0,
    body=wire.MAX_BODY,
    bodies=8 * wire.MAX_BODY,
)
_METRICS = http_server.Bounds(connections=8, request_seconds=5.0, idle_seconds=75.0)
_HEALTH = http_server.Bounds(connections=64, request_seconds=1.0)
_JSON = "application/json"
_RELOAD_SECONDS = 30.0
_END_SECONDS = 5.0
_SAY_SECONDS = 10.0


@dataclass(frozen=True)
class Certificates:
    """Paths of the server's certificate and key; with ``client_ca`` clients need a certificate."""

    certificate: str
    key: str
    client_ca: str | None = None

    def context(self) -> ssl.SSLContext:
        """Raises InvalidInput."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load(context)
        if self.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            accept_as_go(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Use the present files for new connections. Raises InvalidInput."""
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca:
                context.load_verify_locations(self.client_ca)
        except OSError as error:
            raise self._unusable(error) from error

    def state(self) -> tuple[int, ...]:
        """A value that changes with the files. Raises InvalidInput."""
        try:
            return tuple(Path(path).stat().st_mtime_ns for path in self._files())
        except OSError as error:
            raise self._unusable(error) from error

    def _files(self) -> list[str]:
        return [path for path in (self.certificate, self.key, self.client_ca) if path]

    def _unusable(self, error: OSError) -> InvalidInput:
        return InvalidInput(
            f"Cannot use {', '.join(self._files())} ({error.strerror or error}); give a "
            "certificate and its key in PEM, as a Secret of type kubernetes.io/tls has them"
        )


class Ports(t.NamedTuple):
    """One port for each kind of client; 0 stands for a free one."""

    calls: int
    metrics: int
    health: int


class Server:
    """Answers until ``stop`` is called."""

    def __init__(self, extender: Extender, feed: Feed, say: t.Callable[[str], None]) -> None:
        self._extender, self._feed, self._say = extender, feed, say
        self._metrics = CallMetrics((FILTER, PRIORITIZE))
        self._answers: dict[str, t.Callable[[bytes], str]] = {
            FILTER: extender.filter,
            PRIORITIZE: extender.prioritize,
        }
        self._stopped = asyncio.Event()
        self._said_at = float("-inf")
        self.ports = Ports(0, 0, 0)

    def stop(self) -> None:
        """Accept no new calls, and end after the running calls."""
        self._stopped.set()

    async def run(self, address: str | None, ports: Ports, certificates: Certificates) -> None:
        """Serve on these ports; health has one that no client of another one can occupy.

        Raises InvalidInput, and the error of a failed thread of the feed.
        """
        context = certificates.context()
        calls = http_server.HttpServer(self._answer, _CALLS, self._refuse)
        others = (
            http_server.HttpServer(self._serve_metrics, _METRICS),
            http_server.HttpServer(self._serve_health, _HEALTH),
        )
        try:
            self.ports = Ports(
                calls.start(address, ports.calls, context),
                others[0].start(address, ports.metrics),
                others[1].start(address, ports.health),
            )
            self._feed.start()
            self._say(
                f"serving kube-scheduler on port {self.ports.calls}, metrics on port "
                f"{self.ports.metrics}, health on port {self.ports.health}"
            )
            await self._until_stopped(context, certificates)
        finally:
            self._feed.stop.set()
            await asyncio.gather(calls.close(_END_SECONDS), *(one.close() for one in others))
        if self._feed.crash is not None:
            raise self._feed.crash

    async def _until_stopped(self, context: ssl.SSLContext, certificates: Certificates) -> None:
        files, looked, is_tidy = certificates.state(), time.monotonic(), False
        while not self._stopped.is_set() and self._feed.crash is None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), 0.5)
            if self._feed.is_ready and not is_tidy:
                # Listed objects stay; garbage collection of them would delay calls.
                gc.collect()
                gc.freeze()
                is_tidy = True
            if time.monotonic() - looked >= _RELOAD_SECONDS:
                looked = time.monotonic()
                files = self._reload(context, certificates, files)

    def _reload(
        self, context: ssl.SSLContext, certificates: Certificates, files: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Load renewed files; unusable ones are tried again, and the former ones stay in use."""
        try:
            present = certificates.state()
            if present != files:
                certificates.load(context)
                self._say("took renewed certificates")
        except InvalidInput as error:
            self._say(str(error))
            return files
        return present

    async def _serve_health(self, request: http_server.Request) -> http_server.Reply:
        if request.method not in ("GET", "HEAD"):
            return http_server.sentence(405, "Send GET.")
        if request.path == "/healthz" or (request.path == "/readyz" and self._feed.is_ready):
            return http_server.sentence(200, "ok")
        if request.path == "/readyz":
            return http_server.sentence(503, "Nodes, Pods and publications are not listed yet.")
        return http_server.sentence(404, "Health is at /healthz and /readyz.")

    async def _serve_metrics(self, request: http_server.Request) -> http_server.Reply:
        if request.method not in ("GET", "HEAD"):
            return http_server.sentence(405, "Send GET.")
        if request.path != "/metrics":
            return http_server.sentence(404, "The metrics are at /metrics.")
        state = self._extender.state
        text = self._metrics.render(state.counts(), state.measured_age(), self._feed.is_ready)
        return http_server.Reply(200, text.encode(), metrics.CONTENT_TYPE)

    async def _answer(self, request: http_server.Request) -> http_server.Reply:
        verb, began = request.path.strip("/"), time.monotonic()
        if verb not in self._answers:
            return http_server.sentence(404, "Calls are at /filter and /prioritize.")
        if request.method != "POST":
            return http_server.sentence(405, "Send POST.")
        try:
            reply = self._answers[verb](request.body)
        except InvalidInput as error:
            return self._refuse(request.path, 400, str(error))
        except Exception as error:  # noqa: BLE001 - the boundary: one call may not stop the others
            text = f"The call cannot be answered ({type(error).__name__}); report this as a bug"
            return self._refuse(request.path, 500, text)
        self._metrics.count(verb, "answered", time.monotonic() - began)
        return http_server.Reply(200, reply.encode(), _JSON)

    def _refuse(self, path: str, status: int, text: str) -> http_server.Reply:
        """A refusal in the form of kube-scheduler's answers."""
        verb = path.strip("/")
        if verb not in self._answers:
            return http_server.sentence(status, text)
        if status == 413:
            text = f"{text}, by nodeCacheCapable: true"
        self._metrics.count(verb, "refused", 0.0)
        self._tell(f"refused {verb}: {text}")
        return http_server.Reply(status, wire.filter_reply([], {}, text).encode(), _JSON)

    def _tell(self, text: str) -> None:
        """Log less than every pod, because a faulty client fails many times a second."""
        if time.monotonic() - self._said_at >= _SAY_SECONDS:
            self._said_at = time.monotonic()
            self._say(text)


def _say(text: str) -> None:
    sys.stdout.write(f"{shown_text(text, 2000)}\n")
    sys.stdout.flush()


def _port(text: str) -> int:
    """Without the check, port 99999 would count as 34463."""
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError(text)
    return port


_port.__name__ = "port from 0 to 65535"


def _seconds(text: str) -> float:
    """At least the default interval of metrics-server between two measurements."""
    seconds = float(text)
    if not 15.0 <= seconds <= 86_400.0:
        raise ValueError(text)
    return seconds


_seconds.__name__ = "number of seconds from 15 to 86400"


def _arguments(given: t.Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scheduler-extender", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--address", default=None, help="where to listen (everywhere)")
    parser.add_argument("--port", type=_port, default=PORT, help="for kube-scheduler (%(default)s)")
    text = "for metrics without TLS (%(default)s)"
    parser.add_argument("--metrics-port", type=_port, default=METRICS_PORT, help=text)
    text = "for health without TLS (%(default)s)"
    parser.add_argument("--health-port", type=_port, default=HEALTH_PORT, help=text)
    parser.add_argument("--certificate", required=True, metavar="FILE", help="of the server, PEM")
    parser.add_argument("--key", required=True, metavar="FILE", help="of the server, PEM")
    text = "authority of the certificates that clients must have (none needed)"
    parser.add_argument("--client-ca", metavar="FILE", help=text)
    parser.add_argument(
        "--namespace", default=NAMESPACE, help="of the ConfigMaps that runs publish (%(default)s)"
    )
    text = "of the pods to score, once for each (all pods)"
    parser.add_argument("--scheduler-name", action="append", default=[], help=text)
    text = "for which a measured CPU use counts if no newer one comes (%(default)g)"
    parser.add_argument(
        "--measured-seconds", type=_seconds, default=MEASURED_SECONDS, metavar="S", help=text
    )
    return parser.parse_args(given)


async def _serve(chosen: argparse.Namespace) -> None:
    kube = Kube.of_program(os.environ)
    state = ClusterState(measured_seconds=chosen.measured_seconds)
    feed = Feed(kube, state, chosen.namespace, _say)
    server = Server(Extender(state, chosen.scheduler_name), feed, _say)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop)
    certificates = Certificates(chosen.certificate, chosen.key, chosen.client_ca)
    ports = Ports(chosen.port, chosen.metrics_port, chosen.health_port)
    await server.run(chosen.address, ports, certificates)


def main(arguments: t.Sequence[str] | None = None) -> int:
    """The container's program: 0 after a signal to end, 1 with one sentence if it fails.

    The kubeconfig in $WATTWISE_KUBECONFIG names the API server; a pod without it uses its own.
    """
    chosen = _arguments(arguments)
    try:
        asyncio.run(_serve(chosen))
    except WattwiseError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    # Shorter than Python's default of 5 ms, for which a call would wait for the watches' threads.
    sys.setswitchinterval(0.0005)
    raise SystemExit(main())
