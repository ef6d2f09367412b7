# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs containerd, kubelet and a way to the API server, and puts the machine back afterwards.

`python -m lab.real_node.supervisor FOLDER KUBELET` runs until its standard input ends, which also
happens when the starting process is killed. Pods have a bridge of their own, from which they reach
some addresses of this process: a server of DNS, and the places in FOLDER.

kubelet and the bridge change settings of the kernel, and containers outlive kubelet and containerd;
so this process ends the containers and restores the settings. It has a namespace of mounts of its
own, with which all mounts end. There /run is empty, and /sys/fs/resctrl exists as with Intel RDT.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from lab.real_node.configuration import BRIDGE, CLUSTER_DOMAIN, DNS_ADDRESS, Place, read_places

# Settings that kubelet writes at its start (k8s.io/kubernetes pkg/kubelet/cm, setupKernelTunables),
# and the one of the bridge.
KERNEL_SETTINGS = (
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
GROUPS = ("k8s.io", "kubepods")
END_SECONDS = 20.0
_CHUNK_BYTES = 65536


def main(folder: Path, kubelet: str) -> int:
    """Run everything until standard input ends; then restore the machine."""
    # The end of standard input is the only signal; Ctrl-C reaches the starting process too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    starter, places = os.getppid(), read_places(folder)
    # The machine's mounts, where nothing is mounted below the folder.
    machine = os.open(f"/proc/{starter}/ns/mnt", os.O_RDONLY)
    _mount(folder)
    with _machine_restored(places):
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for name, command in _commands(folder, kubelet, places).items():
                processes.append(_started(folder, name, command))
            asyncio.run(_forward_until_input_ends(places))
        finally:
            for process in reversed(processes):
                end(process)
            end_containers(folder)
    if os.getppid() != starter:
        # It was killed, so nobody else removes the folder.
        remove = ["nsenter", f"--mount=/proc/self/fd/{machine}", "rm", "-rf", str(folder)]
        subprocess.run(remove, pass_fds=[machine], check=True)
    return 0


def _mount(folder: Path) -> None:
    """Mounts of the node alone, of which this process has a private copy of the machine's."""
    system, kept = Path("/sys/fs"), folder / "sys-fs"
    kept.mkdir()
    _run("mount", "--rbind", str(system), str(kept))
    _run("mount", "-t", "tmpfs", "node", str(system))
    for path in kept.iterdir():
        (system / path.name).mkdir()
        _run("mount", "--rbind", str(path), str(system / path.name))
    _run("umount", "--recursive", "--lazy", str(kept))
    (system / "resctrl").mkdir(exist_ok=True)
    _run("mount", "-t", "tmpfs", "node", "/run")
    # Containers see mounts of the node, as on a machine with systemd.
    _run("mount", "--make-rshared", "/")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _commands(folder: Path, kubelet: str, places: Sequence[Place]) -> dict[str, list[str]]:
    return {
        "containerd": ["containerd", f"--config={folder / 'containerd.toml'}"],
        "kubelet": [kubelet, *(folder / "kubelet.options").read_text().split("\n")],
        "dnsmasq": [
            *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv"),
            *("--no-hosts", "--bind-interfaces", f"--listen-address={DNS_ADDRESS}"),
            f"--local=/{CLUSTER_DOMAIN}/",
            *(f"--address=/{place.name}/{place.address}" for place in places),
        ],
    }


def _started(folder: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # containerd finds runc there.
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
            start_new_session=True,
        )


@contextlib.contextmanager
def _machine_restored(places: Sequence[Place]) -> Iterator[None]:
    """Give this machine the addresses; at the end take back all that changed."""
    before = {name: Path("/proc/sys", name).read_text() for name in KERNEL_SETTINGS}
    groups_before = set(control_groups())
    addresses = [f"{address}/32" for address in (DNS_ADDRESS, *(each.address for each in places))]
    for address in addresses:
        _ip("address", "add", address, "dev", "lo")
    try:
        yield
    finally:
        for address in addresses:
            _ip("address", "delete", address, "dev", "lo")
        _delete_network()
        for group in set(control_groups()) - groups_before:
            _remove_group(group)
        for name, text in before.items():
            Path("/proc/sys", name).write_text(text)


def _ip(*words: str) -> None:
    """Change the network; something that is missing already is none of its errors."""
    subprocess.run(["ip", *words], capture_output=True, check=False)


def _delete_network() -> None:
    """Delete the bridge with the pods' links, which the kernel would only delete some time later.

    A link ends with its pod's network namespace, and that one after this process, which holds its
    mount.
    """
    links = subprocess.run(
        ["ip", "-json", "link", "show", "master", BRIDGE],
        capture_output=True,
        text=True,
        check=False,  # without a pod, there is no bridge
    )
    for link in json.loads(links.stdout or "[]"):
        _ip("link", "delete", link["ifname"])
    _ip("link", "delete", BRIDGE)


def control_groups() -> Iterator[Path]:
    """The parents of the groups of containers, in cgroup v1 one for each controller."""
    for name in GROUPS:
        for pattern in (name, f"*/{name}"):
            yield from Path("/sys/fs/cgroup").glob(pattern)


def _remove_group(group: Path) -> None:
    for folder, _folders, _files in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):  # another containerd uses it
            Path(folder).rmdir()


async def _forward_until_input_ends(places: Sequence[Place]) -> None:
    """Serve the programs at their places."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    for place in places:
        await asyncio.start_server(_forwarder(place), place.address, place.port)
    print("ready", flush=True)
    # The loop's end closes the servers without waiting for their clients.
    await ended.wait()


def _forwarder(
    place: Place,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection(place.target, place.target_port)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))

    return forward


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(_CHUNK_BYTES):
            writer.write(part)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_containers(folder: Path) -> None:
    """Kill the containers of this containerd with their shims, which outlive it."""
    deadline = time.monotonic() + END_SECONDS
    while shims := list(_shims(str(folder / "containerd.sock"))):
        for shim in shims:
            for pid in (*_descendants(shim), shim):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise SystemExit(f"processes {shims} of containers do not end")
        time.sleep(0.1)


def _shims(socket: str) -> Iterator[int]:
    """The processes that containerd started for this socket, one for each pod."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if "containerd-shim" in words[0] and socket in words:
                yield int(path.parent.name)


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from _descendants(int(child))
            yield int(child)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
