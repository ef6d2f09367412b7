# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The extender's HTTP server: calls of kube-scheduler over TLS, and health and metrics.

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

from ansible_collections.wattwise.kube.plugins.module_utils.base import metrics
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import aiohttp_web as web
from ansible_collections.wattwise.kube.plugins.module_utils.base.texts import shown_text
from ansible_collections.wattwise.kube.plugins.module_utils.extender import wire
from ansible_collections.wattwise.kube.plugins.module_utils.extender.answering import Extender
from ansible_collections.wattwise.kube.plugins.module_utils.extender.call_metrics import CallMetrics
from ansible_collections.wattwise.kube.plugins.module_utils.extender.cluster_state import (
    MEASURED_SECONDS,
    ClusterState,
)
from ansible_collections.wattwise.kube.plugins.module_utils.extender.feed import Feed
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube

PORT, PLAIN_PORT = 8443, 9090
NAMESPACE = "wattwise-system"
FILTER, PRIORITIZE = "filter", "prioritize"
# Longer than kube-scheduler waits for an answer.
_BODY_SECONDS = 2.0
# kube-scheduler schedules one pod at a time; each further body costs memory.
_BODIES_AT_ONCE = 16
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
        self._bodies = asyncio.Semaphore(_BODIES_AT_ONCE)
        self._said_at = float("-inf")
        self.ports: tuple[int, int] = (0, 0)

    def stop(self) -> None:
        """Accept no new calls, and end after the running calls."""
        self._stopped.set()

    async def run(
        self, address: str | None, ports: tuple[int, int], certificates: Certificates
    ) -> None:
        """Serve calls on the first port and health and metrics on the second one.

        Raises InvalidInput, and the error of a failed thread of the feed.
        """
        context = certificates.context()
        calls = await self._listen(self._calls(), address, ports[0], context)
        plain = await self._listen(self._plain(), address, ports[1], None)
        self._feed.start()
        self.ports = calls.addresses[0][1], plain.addresses[0][1]
        plainly = f"health and metrics on port {self.ports[1]}"
        self._say(f"serving kube-scheduler on port {self.ports[0]}, {plainly}")
        try:
            await self._until_stopped(context, certificates)
        finally:
            self._feed.stop.set()
            await asyncio.gather(calls.cleanup(), plain.cleanup())
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

    async def _listen(
        self, app: t.Any, address: str | None, port: int, context: ssl.SSLContext | None
    ) -> t.Any:
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=_END_SECONDS
        )
        await runner.setup()
        site = web.TCPSite(runner, address, port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            raise InvalidInput(
                f"Cannot listen on port {port} ({error}); give a free one"
            ) from error
        return runner

    def _calls(self) -> t.Any:
        app = web.Application(client_max_size=wire.LARGEST_BODY)
        for verb in self._answers:
            app.router.add_post(f"/{verb}", self._answer)
        self._add_health(app)
        return app

    def _plain(self) -> t.Any:
        app = web.Application()
        self._add_health(app)
        app.router.add_get("/metrics", self._serve_metrics)
        return app

    def _add_health(self, app: t.Any) -> None:
        app.router.add_get("/healthz", self._serve_health)
        app.router.add_get("/readyz", self._serve_readiness)

    async def _serve_health(self, _request: t.Any) -> t.Any:
        return web.Response(text="ok\n")

    async def _serve_readiness(self, _request: t.Any) -> t.Any:
        if self._feed.is_ready:
            return web.Response(text="ok\n")
        return web.Response(text="Nodes, Pods and publications are not listed yet.\n", status=503)

    async def _serve_metrics(self, _request: t.Any) -> t.Any:
        state = self._extender.state
        text = self._metrics.render(state.counts(), state.measured_age(), self._feed.is_ready)
        return web.Response(body=text.encode(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def _answer(self, request: t.Any) -> t.Any:
        verb, began, status = request.path.strip("/"), time.monotonic(), 200
        try:
            body = await self._body(request)
            began = time.monotonic()
            reply = self._answers[verb](body)
        except _Refusal as error:
            reply, status = str(error), error.status
        except InvalidInput as error:
            reply, status = str(error), 400
        except Exception as error:  # noqa: BLE001 - the boundary: one call may not stop the others
            status = 500
            reply = f"The call cannot be answered ({type(error).__name__}); report this as a bug"
        outcome = "answered" if status == 200 else "refused"
        self._metrics.count(verb, outcome, time.monotonic() - began)
        if status != 200:
            self._tell(f"refused {verb}: {reply}")
            reply = wire.filter_reply([], {}, reply)
        return web.Response(text=reply, status=status, content_type="application/json")

    async def _body(self, request: t.Any) -> bytes:
        """The whole body. Raises _Refusal."""
        async with self._bodies:
            try:
                return t.cast("bytes", await asyncio.wait_for(request.read(), _BODY_SECONDS))
            except web.HTTPRequestEntityTooLarge:
                text = f"The body has more than {wire.LARGEST_BODY} bytes"
                raise _Refusal(f"{text}; set nodeCacheCapable: true", 413) from None
            except asyncio.TimeoutError:
                text = f"The body did not arrive within {_BODY_SECONDS:g} s; send it faster"
                raise _Refusal(text, 408) from None
            except (web.RequestPayloadError, ConnectionError, ValueError):
                text = "The body is incomplete; send as many bytes as Content-Length says"
                raise _Refusal(text, 400) from None

    def _tell(self, text: str) -> None:
        """Log less than every pod, because a faulty client fails many times a second."""
        if time.monotonic() - self._said_at >= _SAY_SECONDS:
            self._said_at = time.monotonic()
            self._say(text)


class _Refusal(Exception):
    """A sentence and its HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


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
    parser.add_argument(
        "--plain-port", type=_port, default=PLAIN_PORT, help="for health and metrics (%(default)s)"
    )
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
    await server.run(chosen.address, (chosen.port, chosen.plain_port), certificates)


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
