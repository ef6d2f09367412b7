# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs containerd, kubelet and a way to the API server, and puts the machine back afterwards.

`python -m lab.real_node.supervisor FOLDER KUBELET API_PORT` runs until its standard input ends,
which also happens when the starting process is killed. Pods have a bridge of their own, from which
they reach two addresses of this process: the Service of the API server, and a server of DNS.

kubelet and the bridge change settings of the kernel, and containers outlive kubelet and containerd;
so this process ends the containers and restores the settings. It has a namespace of mounts of its
own, with which all mounts below FOLDER end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lab.controlplane.credentials import SERVICE_ADDRESS
from lab.real_node.configuration import BRIDGE, CLUSTER_DOMAIN, DNS_ADDRESS

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
HTTPS_PORT = 443
END_SECONDS = 20.0
_CHUNK_BYTES = 65536


def main(folder: Path, kubelet: str, api_port: int) -> int:
    """Run everything until standard input ends; then restore the machine."""
    before = {name: Path("/proc/sys", name).read_text() for name in KERNEL_SETTINGS}
    groups_before = set(_control_groups())
    # The end of standard input is the only signal; Ctrl-C reaches the starting process too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    commands = {
        "containerd": ["containerd", f"--config={folder / 'containerd.toml'}"],
        "kubelet": [kubelet, *(folder / "kubelet.options").read_text().split("\n")],
        "dnsmasq": [
            *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv"),
            *("--no-hosts", "--bind-interfaces", f"--listen-address={DNS_ADDRESS}"),
            f"--local=/{CLUSTER_DOMAIN}/",
            f"--address=/kubernetes.default.svc.{CLUSTER_DOMAIN}/{SERVICE_ADDRESS}",
        ],
    }
    processes = []
    try:
        for address in (SERVICE_ADDRESS, DNS_ADDRESS):
            _ip("address", "add", f"{address}/32", "dev", "lo")
        for name, command in commands.items():
            with (folder / f"{name}.log").open("ab") as log:
                processes.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        # containerd finds runc there.
                        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
                        start_new_session=True,
                    )
                )
        asyncio.run(_forward_until_input_ends(api_port))
    finally:
        for process in reversed(processes):
            end(process)
        end_containers(folder)
        for address in (SERVICE_ADDRESS, DNS_ADDRESS):
            _ip("address", "delete", f"{address}/32", "dev", "lo")
        _ip("link", "delete", BRIDGE)
        for group in set(_control_groups()) - groups_before:
            with contextlib.suppress(OSError):  # another containerd uses it
                group.rmdir()
        for name, text in before.items():
            Path("/proc/sys", name).write_text(text)
    return 0


def _ip(*words: str) -> None:
    """Change the network; something that is missing already is none of its errors."""
    subprocess.run(["ip", *words], capture_output=True, check=False)


def _control_groups() -> Iterator[Path]:
    """The parents of containerd's groups, in cgroup v1 one for each controller."""
    for pattern in ("k8s.io", "*/k8s.io"):
        yield from Path("/sys/fs/cgroup").glob(pattern)


async def _forward_until_input_ends(api_port: int) -> None:
    """Serve the API server at the address of its Service."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", api_port)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))

    async with await asyncio.start_server(forward, SERVICE_ADDRESS, HTTPS_PORT):
        print("ready", flush=True)
        await ended.wait()


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
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
