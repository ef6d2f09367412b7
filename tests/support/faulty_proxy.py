# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proxies of an API server that kill a run or lose an answer, and the runs themselves.

A run is a process of its own, so that it can be killed. Faults are counted by the writes of a run,
excluding the renewals of its Lease, which come at any time.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import multiprocessing
import os
import signal
import threading
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

import urllib3

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.devices.reconciliation import reconcile
from ansible_collections.wattwise.kube.plugins.module_utils.kube import lease
from support.carried_out_plans import bind, move_pods

Json = dict[str, t.Any]
Fault = t.Literal["killed_before", "killed_after", "request_lost", "answer_lost"]
FAULTS: tuple[Fault, ...] = t.get_args(Fault)
WORKS: dict[str, t.Callable[[Json], Json]] = {
    "bind": bind,
    "move_pods": move_pods,
    "reconcile": reconcile,
}
# A Lease of a killed run is taken over after this time.
LEASE_SECONDS = 4
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__, "kubernetes.config", "kubernetes.client"])


@dataclass
class Door:
    """The connection of one run to the server. ``fault`` happens at write ``number``, from 1."""

    url: str = ""
    fault: Fault | None = None
    number: int = 0
    # Called with the number of each write before it is passed on.
    before_write: t.Callable[[int], object] = lambda _number: None
    pid: int = 0
    written: list[str] = field(default_factory=list)
    succeeded: list[str] = field(default_factory=list)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def count(self, method: str, path: str, body: bytes | None) -> int:
        """The number of a write; 0 for a request that is not counted."""
        if method == "GET" or (method == "PUT" and self._is_renewal(path, body)):
            return 0
        with self._counting:
            self.written.append(f"{method} {path}")
            return len(self.written)

    def _is_renewal(self, path: str, body: bytes | None) -> bool:
        if "/leases/" not in path or body is None:
            return False
        spec = json.loads(body)["spec"]
        return bool(spec["holderIdentity"]) and spec["acquireTime"] != spec["renewTime"]


@contextlib.contextmanager
def door(kubeconfig_server: str, ca_path: str, **options: t.Any) -> Iterator[Door]:
    """Open a proxy; clients connect without TLS and with their own token."""
    pool = urllib3.PoolManager(ca_certs=ca_path, maxsize=32, retries=False)
    made = Door(**options)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _forward(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            number = made.count(self.command, self.path, body)
            fault = made.fault if number and number == made.number else None
            if number:
                made.before_write(number)
            if fault in ("killed_before", "request_lost"):
                self._end(fault)
                return
            headers = {
                key: value
                for key, value in self.headers.items()
                if key.lower() not in ("host", "content-length", "accept-encoding", "connection")
            }
            url = kubeconfig_server + self.path
            answer = pool.request(self.command, url, body=body, headers=headers)
            if answer.status < 300 and number:
                made.succeeded.append(f"{self.command} {self.path}")
            if fault is not None:
                self._end(fault)
                return
            self.send_response(answer.status)
            for name in ("Content-Type", "Retry-After"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(answer.data)

        def _end(self, fault: Fault) -> None:
            if fault.startswith("killed"):
                os.kill(made.pid, signal.SIGKILL)
            self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in its parent
            """Log nothing."""

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    made.url = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
        pool.clear()


@dataclass
class Run:
    """A run in a process of its own; ``end`` waits for it."""

    process: t.Any
    answers: t.Any

    def end(self) -> Json:
        """The run's result; ``{"error": …}`` if it failed, ``{}`` if it was killed."""
        self.process.join(120.0)
        assert self.process.exitcode is not None, "the run does not come to an end"
        result: Json = {}
        with contextlib.suppress(EOFError):
            result = self.answers.recv()
        self.answers.close()
        self.process.close()
        return result


def start(work: str, parameters: Json, through: Door) -> Run:
    """Start a run through a proxy; it may write only when the proxy knows its process."""
    answers, sender = _PROCESSES.Pipe(duplex=False)
    begin, starter = _PROCESSES.Pipe(duplex=False)
    given = {**parameters, "host": through.url}
    process = _PROCESSES.Process(target=_run, args=(work, given, begin, sender))
    process.start()
    sender.close()
    begin.close()
    through.pid = process.pid or 0
    starter.send(None)
    starter.close()
    return Run(process, answers)


def _run(work: str, parameters: Json, begin: t.Any, answers: t.Any) -> None:
    lease.DURATION_SECONDS = LEASE_SECONDS
    begin.recv()
    try:
        answers.send(WORKS[work](parameters))
    except WattwiseError as error:
        answers.send({"error": str(error)})
