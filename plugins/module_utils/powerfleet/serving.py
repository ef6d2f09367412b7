# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The metrics endpoint, which serves the measurements of all fleets' runs over HTTP.

ansible-operator's own endpoint has no custom labels, so its metrics cannot name a node or fleet.
Runs write textfiles, of which ``collect`` makes one exposition.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import os
import re
import signal
import stat
import sys
import time
import types
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ..base import metrics
from ..base.errors import InvalidInput
from ..serving import http_server

# A thousand nodes need 1 MiB: about ten metrics, a hundred bytes each.
MAX_FILE = 8 * 1024 * 1024
MAX_TOTAL = 64 * 1024 * 1024
# A fleet that was deleted leaves its folder behind.
MAX_AGE_SECONDS = 3600.0

_LABEL = f'{metrics.LABEL_NAME}="{metrics.LABEL_VALUE}"'
_SAMPLE = re.compile(
    rf"(?P<name>{metrics.METRIC_NAME})(?P<labels>\{{{_LABEL}(?:,{_LABEL})*\}})? "
    rf"{metrics.FINITE_NUMBER}",
    re.ASCII,
)
_COMMENT = re.compile(
    rf"# (?P<kind>HELP|TYPE) (?P<name>{metrics.METRIC_NAME}) (?P<text>\S.*)", re.ASCII
)
# The names of a namespace, of a fleet, and of the folder and files that a run writes.
_FILES = "*/*/metrics/*.prom"


@dataclass
class _Family:
    """A metric: its two comments, and its samples by name and labels."""

    comments: dict[str, str] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)

    def add(self, other: _Family) -> None:
        for kind, line in other.comments.items():
            self.comments.setdefault(kind, line)
        for series, line in other.samples.items():
            self.samples.setdefault(series, line)

    def lines(self) -> t.Iterator[str]:
        yield from (self.comments[kind] for kind in ("HELP", "TYPE") if kind in self.comments)
        yield from self.samples.values()


Families = dict[str, _Family]


def collect(runs: Path, now: float, max_age_seconds: float = MAX_AGE_SECONDS) -> str:
    """The metrics of all run folders below ``runs``; never fails.

    A metric is in the files of several fleets, and the format requires all of its samples together.
    An invalid file is left out completely and counted, because a part would look complete.
    Files that were not written for ``max_age_seconds`` before ``now`` (Unix time) are left out.
    """
    families: Families = {}
    counts = dict.fromkeys(("served", "stale", "refused"), 0)
    left = MAX_TOTAL
    for path in sorted(runs.glob(_FILES)):
        state, found = _read(path, now - max_age_seconds, left)
        counts[state] += 1
        for name, family in (found or {}).items():
            families.setdefault(name, _Family()).add(family)
            left -= sum(len(line) + 1 for line in family.lines())
    own = metrics.family(
        "wattwise_textfiles",
        "Files with metrics of runs, and what became of them.",
        [({"state": state}, float(count)) for state, count in counts.items()],
        {},
    )
    lines = (line for _name, family in sorted(families.items()) for line in family.lines())
    return "".join(f"{line}\n" for line in lines) + own


def _read(path: Path, oldest: float, largest: int) -> tuple[str, Families | None]:
    """Outcome of a file, and its content if it is served."""
    try:
        # Runs write plain files; anything else could make this program wait or read elsewhere.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                return "refused", None
            if found.st_mtime < oldest:
                return "stale", None
            content = file.read(min(MAX_FILE, largest) + 1)
        if len(content) > min(MAX_FILE, largest):
            return "refused", None
        return "served", parse(content.decode())
    except (OSError, ValueError):
        return "refused", None


def parse(text: str) -> Families:
    """The metrics of one file. Raises ValueError for a line outside of the format."""
    families: Families = {}
    for line in filter(None, text.split("\n")):
        comment, sample = _COMMENT.fullmatch(line), _SAMPLE.fullmatch(line)
        if comment:
            family = families.setdefault(comment["name"], _Family())
            family.comments.setdefault(comment["kind"], line)
        elif sample:
            family = families.setdefault(sample["name"], _Family())
            family.samples.setdefault(sample["name"] + (sample["labels"] or ""), line)
        else:
            raise ValueError("a line is neither a comment nor a sample")
    return families


PORT, HEALTH_PORT = 9090, 9091
RUNS_VARIABLE = "WATTWISE_RUNS"
# Prometheus uses one connection, and waits ten seconds.
_METRICS = http_server.Bounds(connections=8, request_seconds=10.0, idle_seconds=75.0)
_HEALTH = http_server.Bounds(connections=64, request_seconds=1.0)


def _is_alive() -> bool:
    """Whether a program that has nothing else to do is alive: it answers."""
    return True


class MetricsServer:
    """Serves metrics and health until ``stop`` is called, in one thread with an event loop.

    ``collect`` gives the metrics, in a thread of its own. ``checks`` are by the path of the probe.
    """

    def __init__(
        self,
        collect: t.Callable[[], str],
        checks: t.Mapping[str, t.Callable[[], bool]] = types.MappingProxyType(
            {"/healthz": _is_alive}
        ),
    ) -> None:
        self._collect, self._checks = collect, checks
        self._stopped = asyncio.Event()
        # The run folders are read once for all clients that wait, and health does not wait for it.
        self._reader = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._collecting: asyncio.Future[bytes] | None = None

    def stop(self) -> None:
        """Accept nothing more, and end."""
        self._stopped.set()

    async def run(
        self, address: str, ports: tuple[int, int], began: t.Callable[[int, int], None]
    ) -> None:
        """Serve metrics on the first port and health on the second one. Raises InvalidInput.

        ``began`` gets both ports.
        """
        servers = (
            http_server.HttpServer(self._serve_metrics, _METRICS),
            http_server.HttpServer(self._serve_health, _HEALTH),
        )
        try:
            began(servers[0].start(address, ports[0]), servers[1].start(address, ports[1]))
            await self._stopped.wait()
        finally:
            await asyncio.gather(*(server.close() for server in servers))
            self._reader.shutdown(wait=False)

    async def _serve_metrics(self, request: http_server.Request) -> http_server.Reply:
        if request.method not in ("GET", "HEAD"):
            return http_server.sentence(405, "Send GET.")
        if request.path != "/metrics":
            return http_server.sentence(404, "There is nothing here; the metrics are at /metrics.")
        if self._collecting is None or self._collecting.done():
            loop = asyncio.get_running_loop()
            self._collecting = loop.run_in_executor(self._reader, self._collected)
        content = await asyncio.shield(self._collecting)
        return http_server.Reply(200, content, metrics.CONTENT_TYPE)

    def _collected(self) -> bytes:
        return self._collect().encode()

    async def _serve_health(self, request: http_server.Request) -> http_server.Reply:
        if request.method not in ("GET", "HEAD"):
            return http_server.sentence(405, "Send GET.")
        check = self._checks.get(request.path)
        if check is None:
            places = " and ".join(self._checks)
            return http_server.sentence(404, f"There is nothing here; health is at {places}.")
        return http_server.sentence(200, "ok") if check() else http_server.sentence(503, "failing")


def parser_of(program: str, description: str, port: int, health_port: int) -> t.Any:
    """A parser for the program of a container, with the options of its listeners."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--address", default="", help="where to listen (everywhere)")
    parser.add_argument("--port", type=int, default=port, help="for metrics (%(default)s)")
    parser.add_argument(
        "--health-port", type=int, default=health_port, help="for health (%(default)s)"
    )
    return parser


def main(arguments: t.Sequence[str] | None = None) -> int:
    """The container's program: 0 after a signal to end, 1 if it cannot listen."""
    parser = parser_of("metrics", str(__doc__).partition("\n")[0], PORT, HEALTH_PORT)
    text = "leave out files that are older (%(default)s)"
    parser.add_argument(
        "--max-age", type=float, default=MAX_AGE_SECONDS, metavar="SECONDS", help=text
    )
    chosen = parser.parse_args(arguments)
    if not os.environ.get(RUNS_VARIABLE):
        return _complain(f"${RUNS_VARIABLE} does not say where the run folders are; set it")
    runs = Path(os.environ[RUNS_VARIABLE])
    try:
        asyncio.run(_serve(chosen, runs))
    except InvalidInput as error:
        return _complain(str(error))
    return 0


async def _serve(chosen: argparse.Namespace, runs: Path) -> None:
    server = MetricsServer(lambda: collect(runs, time.time(), chosen.max_age))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop)

    def began(port: int, health_port: int) -> None:
        text = f"serving the metrics of {runs} on port {port}, health on port {health_port}"
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    await server.run(chosen.address, (chosen.port, chosen.health_port), began)


def _complain(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
