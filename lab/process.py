# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that outlive the command that started them and are found again by pid files."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import LabError
from lab.state import LabState

__all__ = [
    "LabError",
    "Service",
    "free_port",
    "process_id",
    "running",
    "start",
    "stop",
    "wait_until",
]

LOG_LINES_SHOWN = 20
# The last two are Go's: memory that its programs take before they collect garbage.
_INHERITED = ("HOME", "PATH", "GOGC", "GOMEMLIMIT")
STOP_TIMEOUT_SECONDS = 5.0
# For services whose data is removed with them. An API server with open watches ends as late as it
# may.
DISCARD_TIMEOUT_SECONDS = 0.5
REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Service:
    """A long-running command; `name` is that of its log and pid file.

    `ready` is polled until it is true and must not raise. The command runs in the lab's `run`
    folder, in a session of its own, with `environment` added to a minimal one.
    """

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready_timeout: float = 60.0


@dataclass(frozen=True)
class _Identity:
    """A process; its start time (clock ticks) distinguishes it from a later one with its id."""

    pid: int
    start_ticks: int


def start(services: Sequence[Service], state: LabState) -> None:
    """Start the missing services, all at once, then wait until each is ready.

    On any error (also Ctrl-C), the services that this call started are stopped again. Raises
    LabError with the end of the service's log.
    """
    state.create()
    started: list[str] = []
    try:
        with _signals_deferred():
            for service in services:
                if _alive(state, service.name) is None:
                    started.append(service.name)
                    _spawn(service, state)
        for service in services:
            _wait_ready(service, state)
    except BaseException:
        stop(state, started)
        raise


def stop(
    state: LabState,
    names: Sequence[str] | None = None,
    timeout: float = STOP_TIMEOUT_SECONDS,
) -> None:
    """Stop the named services (all by default): SIGTERM, wait, SIGKILL the rest.

    The whole session is signalled, so that workers of a service end with it. Services that do not
    run, or whose pid now belongs to another process, are only forgotten.
    """
    chosen = [path.stem for path in state.pids.glob("*.json")] if names is None else names
    identities = [found for name in chosen if (found := _read_identity(state, name))]
    _signal(_members(identities), signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while left := _members(identities):
        if time.monotonic() > deadline:
            _signal(left, signal.SIGKILL)
        time.sleep(0.02)
    for name in chosen:
        _pid_file(state, name).unlink(missing_ok=True)


def running(state: LabState) -> dict[str, bool]:
    """Whether the process lives, for every service that was started and not stopped, by name."""
    names = sorted(path.stem for path in state.pids.glob("*.json"))
    return {name: _alive(state, name) is not None for name in names}


def process_id(state: LabState, name: str) -> int | None:
    """Process id of the service; None if it does not run."""
    identity = _alive(state, name)
    return identity.pid if identity else None


def free_port(address: str = "127.0.0.1") -> int:
    """A free TCP port at `address`.

    Taken from below the kernel's ephemeral range: a port from within it can become the source port
    of another process's outgoing connection before the service listens.
    """
    ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    highest = max(int(ephemeral[0]) - 1, 20_000)
    for port in random.sample(range(10_000, highest), k=200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            return port
    raise LabError(f"No TCP port between 10000 and {highest} is free on {address}; free some.")


def wait_until(
    condition: Callable[[], bool], timeout: float, what: str, interval: float = 0.05
) -> None:
    """Poll until `condition` holds; `what` completes "Waited N s for …" in the LabError."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"Timed out after {timeout:g} s waiting for {what}.")
        time.sleep(interval)


def _spawn(service: Service, state: LabState) -> None:
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment |= {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"} | dict(
        service.environment
    )
    with _log_file(state, service.name).open("ab") as log:
        try:
            process = subprocess.Popen(
                service.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=state.run,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise LabError(
                f"Cannot start {service.name} ({service.command[0]}): {error.strerror};"
                " check that the program is there and may be executed."
            ) from error
    # The service outlives this object; without a return code Popen would warn about that.
    process.returncode = 0
    stat = _stat(process.pid)
    identity = {"pid": process.pid, "start_ticks": stat.start_ticks if stat else 0}
    _pid_file(state, service.name).write_text(json.dumps(identity))


def _wait_ready(service: Service, state: LabState) -> None:
    deadline = time.monotonic() + service.ready_timeout
    while not service.ready():
        if _alive(state, service.name) is None:
            raise LabError(f"{service.name} ended before it was ready. {_log_end(service, state)}")
        if time.monotonic() > deadline:
            raise LabError(
                f"{service.name} was not ready in {service.ready_timeout:g} s."
                f" {_log_end(service, state)}"
            )
        time.sleep(0.05)


def _log_end(service: Service, state: LabState) -> str:
    path = _log_file(state, service.name)
    lines = path.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    return "\n".join([f"Its log {path} ends with:", *lines])


def _log_file(state: LabState, name: str) -> Path:
    return state.logs / f"{name}.log"


def _pid_file(state: LabState, name: str) -> Path:
    return state.pids / f"{name}.json"


def _read_identity(state: LabState, name: str) -> _Identity | None:
    try:
        return _Identity(**json.loads(_pid_file(state, name).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _alive(state: LabState, name: str) -> _Identity | None:
    identity = _read_identity(state, name)
    if identity is None:
        return None
    _reap(identity.pid)
    found = _stat(identity.pid)
    return identity if found and found.lives and found.start_ticks == identity.start_ticks else None


@dataclass(frozen=True)
class _Stat:
    """/proc's data of a process; `start_ticks` counts from boot.

    A zombie counts as alive while it has living threads: an ending program may be a zombie before
    its last thread has closed its sockets.
    """

    session: int
    start_ticks: int
    lives: bool


def _stat(pid: int) -> _Stat | None:
    try:
        # The command's name may contain blanks and parentheses, so fields are counted from the last
        # one.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return _Stat(
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        lives=fields[0] not in "ZX" or int(fields[17]) > 1,
    )


def _members(identities: Sequence[_Identity]) -> list[int]:
    """The living processes of the services' sessions, except for reused ids."""
    sessions = set()
    for identity in identities:
        _reap(identity.pid)
        leader = _stat(identity.pid)
        if leader is None or leader.start_ticks == identity.start_ticks:
            sessions.add(identity.pid)
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    stats = {pid: found for pid in pids if (found := _stat(pid)) is not None}
    return [pid for pid, stat in stats.items() if stat.session in sessions and stat.lives]


def _reap(pid: int) -> None:
    """Reap an ended process if it is a child of this one."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Delay Ctrl-C and similar signals: a process without a pid file would be lost."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    handlers = {
        number: signal.signal(number, lambda caught, _frame: arrived.append(caught))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for caught in arrived:
            signal.raise_signal(caught)
