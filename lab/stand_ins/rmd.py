# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated RMD daemon in a pod of this machine, with the options and files of a real one.

The cache has the CPUs of this machine, and its ways exist only in the simulation. The daemon makes
a group in the host's resctrl and a file beside its database at its start, as a real one does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import tomllib
from pathlib import Path

from lab.pki import KeyPair
from lab.rmd.certificates import Certificates
from lab.rmd.daemon import Daemon
from lab.rmd.fleet import Fleet
from lab.rmd.host import SKYLAKE_WAYS, Configuration, Host

NAME = "rmd"
_RESCTRL = Path("/sys/fs/resctrl")


def certificates(default: dict[str, str], access: dict[str, str]) -> Certificates:
    """The certificates in the folders of rmd.toml, of which a client has no key here."""
    folder = Path(default["certpath"])
    server = KeyPair(folder / "rmd-cert.pem", folder / "rmd-key.pem")
    [client] = Path(access["admincert"]).glob("*.pem")
    clients = KeyPair(client, client)
    authority = KeyPair(Path(default["clientcapath"]) / "ca.pem", server.key)
    return Certificates(authority, server, clients, clients)


def check_host(database: Path) -> None:
    """Raises OSError if a daemon could not work on this host."""
    group = _RESCTRL / "wattwise-check"
    group.mkdir(exist_ok=True)
    group.rmdir()
    database.touch()


async def serve(folder: Path) -> None:
    """Serve until the process is ended."""
    text = (folder / "rmd.toml").read_text()
    document = tomllib.loads(text)
    default, debug = document["default"], document["debug"]
    check_host(Path(document["database"]["transport"]))
    cpus = tuple(range(os.cpu_count() or 1))
    host = Host({0: cpus}, ways=SKYLAKE_WAYS, architecture="skylake")
    address = socket.gethostbyname(socket.gethostname())
    daemons = {NAME: (address, Daemon(host, Configuration.from_toml(text)))}
    files = certificates(default, document["acl"])
    async with Fleet(daemons, debug["debugport"], default["tlsport"], files).serving():
        print(f"serves at {address}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="rmd", description=__doc__)
    parser.add_argument("--conf-dir", type=Path, required=True)
    parser.add_argument("--address", required=True)
    asyncio.run(serve(parser.parse_args().conf_dir))


if __name__ == "__main__":
    main()
