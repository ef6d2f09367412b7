# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the program `kepler` in a pod.

Its energy is that of a simulated machine. Everything else is real: it reads the configuration and
the certificates that it names, and at each scrape the processes of the host, whose executables need
SYS_PTRACE. Like Kepler it ends if it cannot read its files.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import ssl
import time
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from lab.kepler import Meter
from lab.machines import build_machines
from lab.physics import Truth

_TRUTH = Truth(inlet_celsius=22.0, delta_p_pascal=5.0, power_watts=200.0, cpu_cores=1.0)


def read_processes(folder: Path) -> int:
    """Read what Kepler needs of each process; their number.

    Raises PermissionError if most cannot be read, as without SYS_PTRACE. Kepler itself needs all,
    but the first process of a virtual machine may be protected even from root.
    """
    read, refused = 0, 0
    for process in folder.glob("[0-9]*"):
        # Processes end meanwhile, and threads of the kernel have no executable file.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            try:
                (process / "stat").read_bytes()
                (process / "cgroup").read_bytes()
                (process / "exe").readlink()
                read += 1
            except PermissionError:
                refused += 1
    if refused > read:
        raise PermissionError(f"{refused} of {refused + read} processes cannot be read")
    return read


def tls(web_file: str) -> ssl.SSLContext | None:
    """TLS as the file of the Prometheus exporter toolkit says; None without a file."""
    if not web_file:
        return None
    server = yaml.safe_load(Path(web_file).read_text())["tls_server_config"]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server["cert_file"], server["key_file"])
    if "client_ca_file" in server:
        context.load_verify_locations(server["client_ca_file"])
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def serve(configuration: dict[str, Any], node: str) -> None:
    """Serve the metrics until the process is ended."""
    processes = Path(configuration["host"]["procfs"])
    list(Path(configuration["host"]["sysfs"], "devices").iterdir())
    machine = dataclasses.replace(build_machines(1, 1, 1)[0], name=node)
    meter = Meter(machine, time.monotonic())

    async def metrics(_request: web.Request) -> web.Response:
        read_processes(processes)
        meter.sample(time.monotonic(), _TRUTH, ())
        return web.Response(text=meter.text())

    application = web.Application()
    application.add_routes([web.get("/metrics", metrics)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    options = configuration["web"]
    for address in options["listenAddresses"]:
        host, _colon, port = address.rpartition(":")
        site = web.TCPSite(runner, host or None, int(port), ssl_context=tls(options["configFile"]))
        await site.start()
    interval = configuration["monitor"]["interval"]
    print(f"{read_processes(processes)} processes, interval {interval}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="kepler", description=__doc__)
    parser.add_argument("--config.file", dest="file", type=Path, required=True)
    parser.add_argument("--kube.enable", dest="enable", action="store_true")
    parser.add_argument("--kube.node-name", dest="node", required=True)
    chosen = parser.parse_args()
    asyncio.run(serve(yaml.safe_load(chosen.file.read_text()), chosen.node))


if __name__ == "__main__":
    main()
