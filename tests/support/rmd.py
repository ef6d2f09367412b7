# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RMD daemons for tests: in a thread, on real sockets, with a configurable host each."""

from __future__ import annotations

import asyncio
import contextlib
import typing as t
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab import pki
from lab.conditions import Fault
from lab.process import free_port
from lab.rmd.certificates import Certificates, certificates
from lab.rmd.daemon import Daemon
from lab.rmd.fleet import Fleet
from lab.rmd.host import Configuration, Host
from lab.serving import in_thread

BROADWELL = Host({0: tuple(range(22)), 1: tuple(range(22, 44))})
Result = t.TypeVar("Result")


@dataclass
class RmdDaemons:
    """Running daemons by name; tests may read and change their state directly."""

    fleet: Fleet
    files: Certificates
    loops: list[asyncio.AbstractEventLoop] = field(default_factory=list)

    def __getitem__(self, name: str) -> Daemon:
        return self.fleet.stations[name].daemon

    @property
    def targets(self) -> list[dict[str, str]]:
        return [{"name": name, "endpoint": self.endpoint(name)} for name in self.fleet.stations]

    @property
    def endpoints(self) -> dict[str, str]:
        return {name: self.endpoint(name) for name in self.fleet.stations}

    @property
    def tls(self) -> dict[str, str]:
        """Options of a client with all permissions."""
        return {
            "ca_path": str(self.files.authority.certificate),
            "client_cert": str(self.files.admin.certificate),
            "client_key": str(self.files.admin.key),
        }

    def endpoint(self, name: str) -> str:
        return self.fleet.endpoint(name)

    def writes(self) -> int:
        """Number of requests so far that change something."""
        return sum(
            station.requests[method]
            for station in self.fleet.stations.values()
            for method in ("POST", "PATCH", "DELETE")
        )

    def restart(self, name: str, loses_database: bool = True) -> None:
        self._run(self.fleet.restart(name, loses_database=loses_database))

    def break_it(self, name: str, kind: str, seconds: float = 0.0, silent: bool = False) -> None:
        self._run(self.fleet.inject([Fault(kind, name, seconds, silent)]))

    def mend(self) -> None:
        self._run(self.fleet.clear())

    def _run(self, coroutine: Coroutine[t.Any, t.Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loops[0]).result(timeout=30)


@contextlib.contextmanager
def rmd_daemons(
    folder: Path,
    configurations: Mapping[str, Configuration] | Sequence[str],
    host: Host = BROADWELL,
    hosts: Mapping[str, Host] | None = None,
) -> Iterator[RmdDaemons]:
    """Run daemons with these configurations, or with the usual one for a list of names."""
    if not isinstance(configurations, Mapping):
        configurations = dict.fromkeys(configurations, Configuration())
    folder.mkdir(parents=True, exist_ok=True)
    files = certificates(pki.create_authority(folder), folder / "rmd")
    daemons = {
        name: (
            f"127.73.{number // 250}.{number % 250 + 1}",
            Daemon((hosts or {}).get(name, host), configuration),
        )
        for number, (name, configuration) in enumerate(configurations.items())
    }
    running = RmdDaemons(Fleet(daemons, free_port(), free_port(), files), files)

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[None]:
        running.loops.append(asyncio.get_running_loop())
        async with running.fleet.serving():
            yield

    with in_thread(serving()):
        try:
            yield running
        finally:
            running.loops.clear()
