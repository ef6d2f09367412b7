# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real node beside KWOK's: this machine, with a real kubelet and Debian's containerd.

It needs root. Pods have a network of their own, from which they reach the API server, and nothing
beyond this machine.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from lab.api import Api
from lab.controlplane.programs import kubelet
from lab.errors import LabError
from lab.gotools import Say, build, cache_folder
from lab.locks import file_lock
from lab.process import REPOSITORY, wait_until
from lab.real_node.configuration import (
    NAME,
    NODE_SELECTOR,
    PAUSE_IMAGE,
    write_configuration,
    write_places,
)
from lab.state import LabState

__all__ = ["NAME", "NODE_SELECTOR", "PAUSE_IMAGE", "RealNode", "running"]

READY_SECONDS = 120.0
END_SECONDS = 90.0


@dataclass(frozen=True)
class RealNode:
    """The node, ready for pods of the imported images."""

    folder: Path

    @property
    def logs(self) -> str:
        """The end of each container's log."""
        return "\n".join(
            f"{path.relative_to(self.folder)}:\n{_end_of(path)}"
            for path in sorted((self.folder / "logs").rglob("*.log"))
        )

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    def import_images(self, archive: Path) -> None:
        """Import the images of an archive, as `podman save` writes it."""
        self.ctr("images", "import", str(archive))

    def ctr(self, *words: str) -> str:
        """Output of containerd's client. Raises LabError."""
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"`{' '.join(command)}` failed: {done.stderr.strip()}.")
        return done.stdout

    def kill(self, container_id: str) -> None:
        """Kill the main process of a container, as the kernel does when memory is short."""
        self.ctr("tasks", "kill", "--signal", "SIGKILL", container_id)


@contextlib.contextmanager
def running(
    state: LabState,
    archives: Sequence[Path],
    say: Say,
    programs: Mapping[str, tuple[str, int]] = MappingProxyType({}),
) -> Iterator[RealNode]:
    """Start the node, import images and wait until it is Ready; at the end nothing is left of it.

    One of the images is PAUSE_IMAGE. Pods reach `programs`, by name their addresses on loopback, at
    these names and the same ports. Raises LabError.
    """
    program = build(kubelet(), say) / "kubelet"
    # A machine is one node at a time.
    lock = file_lock(cache_folder() / "real-node.lock", say, "the real node of another lab")
    with lock as file, _started(state, program, archives, say, programs, file) as node:
        yield node


@contextlib.contextmanager
def _started(
    state: LabState,
    program: Path,
    archives: Sequence[Path],
    say: Say,
    programs: Mapping[str, tuple[str, int]],
    lock: IO[str],
) -> Iterator[RealNode]:
    # The path of containerd's socket may have 104 characters.
    folder = Path(tempfile.mkdtemp(prefix="wattwise-node-"))
    try:
        port = state.read_settings().ports["kube-apiserver"]
        write_configuration(state, folder, port)
        write_places(folder, port, programs)
        with _supervised(folder, str(program), lock), Api(state.kubeconfig) as api:
            node = RealNode(folder)
            try:
                wait_until(node.socket.exists, READY_SECONDS, "containerd's socket")
                for archive in archives:
                    node.import_images(archive)
                wait_until(lambda: _is_ready(api), READY_SECONDS, f"node {NAME} to be Ready")
                yield node
            except LabError:
                for name in ("kubelet", "containerd"):
                    say(f"the end of {name}'s log:\n{_end_of(folder / f'{name}.log')}")
                raise
        with Api(state.kubeconfig) as api, contextlib.suppress(LabError):
            api.request("DELETE", f"/api/v1/nodes/{NAME}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _supervised(folder: Path, program: str, lock: IO[str]) -> Iterator[None]:
    """Run the node's programs, which end with the supervisor's standard input.

    The supervisor holds the lock too, until this machine is restored.
    """
    apart = ("unshare", "--mount", "--propagation", "private")
    command = [*apart, sys.executable, "-m", "lab.real_node.supervisor", str(folder), program]
    with (
        (folder / "supervisor.log").open("w") as log,
        subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            pass_fds=[lock.fileno()],
        ) as supervisor,
    ):
        assert supervisor.stdin and supervisor.stdout
        if supervisor.stdout.readline() != "ready\n":
            raise LabError(f"The real node did not start: {_end_of(folder / 'supervisor.log')}")
        try:
            yield
        finally:
            supervisor.stdin.close()
            supervisor.wait(END_SECONDS)


def _end_of(path: Path) -> str:
    return path.read_text(errors="replace")[-3000:] if path.exists() else ""


def _is_ready(api: Api) -> bool:
    found = api.find(f"/api/v1/nodes/{NAME}") or {}
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
