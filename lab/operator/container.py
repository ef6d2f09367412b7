# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for ansible-operator's container: in every case its runs end with it.

`python -m lab.operator.container FOLDER ADDRESS DIRECTORY PROGRAM ARGUMENT…` waits until no other
operator of this computer has the address, starts the program in the directory and ends with its exit
status. FOLDER is for the runs' files and the program's process id. ADDRESS is the one of `localhost`
for the program and its runs. Any other than 127.0.0.1 needs namespaces of its own, in which a name
and a folder mean others.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from lab.gotools import cache_folder
from lab.locks import file_lock, is_held

# These are hard-coded in the operator: ports of `localhost`, and paths.
PORTS = (8888, 5050)
RUNNER_FOLDER = Path("/tmp/ansible-operator/runner")
RUN_SOCKETS = Path("/tmp")
HOSTS = Path("/etc/hosts")
LOCALHOST = "127.0.0.1"
GROUP = "wattwise.github.io"
# Less than the lab's wait before it kills this process.
GRACE_SECONDS = 3
_PARENT_DEATH_SIGNAL, _SUBREAPER = 1, 36
_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_BIND, _DETACH = 4096, 2


def main(arguments: Sequence[str]) -> int:
    folder, address, directory, command = Path(arguments[0]), *arguments[1:3], arguments[3:]
    # Orphaned descendants become children of this process, which ends them.
    _prctl(_SUBREAPER, 1)
    with file_lock(ports_lock(address), _say, "the operator of another lab"):
        if problem := _problem_of_ports(address):
            _say(problem)
            return 1
        own = _namespaces(folder, address) if address != LOCALHOST else contextlib.nullcontext()
        with own:
            _link_runner_folder(folder / "runner")
            try:
                return _run(command, directory, folder / "pid")
            finally:
                _end_children()
                _remove_traces()


def foreign_program() -> str:
    """The problem of a port that another program than a lab's operator has; empty without one."""
    return "" if is_held(ports_lock()) else _problem_of_ports(LOCALHOST)


def ports_lock(address: str = LOCALHOST) -> Path:
    return cache_folder() / f"operator-ports-{address}.lock"


def _problem_of_ports(address: str) -> str:
    taken = [port for port in PORTS if not _is_free(address, port)]
    if not taken:
        return ""
    return (
        f"Port {taken[0]} of localhost is taken, and ansible-operator can use no other;"
        " stop the program that listens there."
    )


@contextlib.contextmanager
def _namespaces(folder: Path, address: str) -> Iterator[None]:
    """Namespaces in which `localhost` is the address and the fixed folder another one.

    No permission is necessary, unless the computer is set up otherwise. Raises SystemExit.
    """
    hosts = folder / "hosts"
    hosts.write_text(f"{address} localhost\n")
    fixed = RUNNER_FOLDER.parent
    # An operator without namespaces leaves a folder that is not empty, and so this mount point.
    own = fixed / address
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        _unshare({hosts: HOSTS, own: fixed})
    except OSError as error:
        raise SystemExit(
            "A second operator needs namespaces of users and mounts, which this computer refuses:"
            f" {error}. Allow them, or run as root."
        ) from error
    try:
        yield
    finally:
        _call("umount2", str(fixed).encode(), _DETACH)
        for path in (own, fixed):
            with contextlib.suppress(OSError):  # it contains something of another operator
                path.rmdir()


def _unshare(mounts: Mapping[Path, Path]) -> None:
    """Enter namespaces with these mounts, of a source on a target. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", _NEW_USER | _NEW_MOUNTS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    for source, target in mounts.items():
        _call("mount", str(source).encode(), str(target).encode(), None, _BIND, None)


def _run(command: Sequence[str], directory: str, pid_file: Path) -> int:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    started: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        for process in started:
            process.terminate()
        signal.alarm(GRACE_SECONDS)

    # Before the operator starts, because a reader of the id may end it at once.
    signal.signal(signal.SIGALRM, lambda _number, _frame: started[0].kill())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    operator = subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        start_new_session=True,
        # If this process is killed, no other process would end the operator.
        preexec_fn=lambda: _prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL),
    )
    started.append(operator)
    if asked:
        operator.terminate()
    pid_file.write_text(str(operator.pid))
    while True:
        pid, status = os.wait()
        if pid == operator.pid:
            signal.alarm(0)
            operator.returncode = os.waitstatus_to_exitcode(status)
            return operator.returncode % 256


def _end_children() -> None:
    """Kill and collect all descendants: each becomes a child when its own parent is gone."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.wait()


def _children() -> list[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in path.read_text().split()]


def _link_runner_folder(target: Path) -> None:
    """Link the runs' files, whose path is fixed per group of kinds, into the lab's folder."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    RUNNER_FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    link = RUNNER_FOLDER / GROUP
    link.unlink(missing_ok=True)
    link.symlink_to(target, target_is_directory=True)


def _remove_traces() -> None:
    """Remove the link, and the sockets of interrupted runs; the lock is still held."""
    (RUNNER_FOLDER / GROUP).unlink(missing_ok=True)
    for folder in (RUNNER_FOLDER, RUNNER_FOLDER.parent):
        with contextlib.suppress(OSError):  # it contains something of another operator
            folder.rmdir()
    for path in RUN_SOCKETS.glob("ansibleoperator-*"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            if path.stat().st_uid == os.getuid() and probe.connect_ex(str(path)) != 0:
                path.unlink()


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) != 0


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, value, 0, 0, 0)


def _call(name: str, *arguments: object) -> None:
    """Call a function of the C library. Raises OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
