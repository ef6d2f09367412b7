# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics endpoint: its output for the runs' files, and its robustness against clients."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import metrics
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import serving
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.serving import (
    MetricsServer,
    collect,
)

NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


def write(runs: Path, fleet: str, text: str, name: str = "run.prom", age: float = 0) -> Path:
    path = runs / fleet / "metrics" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    moment = NOW.timestamp() - age
    os.utime(path, (moment, moment))
    return path


def gauge(name: str, fleet: str, value: float = 1.0, **labels: str) -> str:
    return metrics.family(name, f"Text of {name}.", [(labels, value)], {"power_fleet": fleet})


def collected(runs: Path, **options: t.Any) -> list[str]:
    return collect(runs, NOW.timestamp(), **options).splitlines()


def states(lines: t.Iterable[str]) -> dict[str, int]:
    found = (re.fullmatch(r'wattwise_textfiles\{state="(\w+)"\} (\d+)', line) for line in lines)
    return {match[1]: int(match[2]) for match in found if match}


def test_a_metric_of_several_fleets_is_one_family(tmp_path: Path) -> None:
    write(tmp_path, "a/one", gauge("watts", "a/one") + gauge("celsius", "a/one"))
    write(tmp_path, "b/two", gauge("watts", "b/two", 2.5, node='a"b\\c\nd'))
    lines = collected(tmp_path)
    assert lines[:7] == [
        "# HELP celsius Text of celsius.",
        "# TYPE celsius gauge",
        'celsius{power_fleet="a/one"} 1',
        "# HELP watts Text of watts.",
        "# TYPE watts gauge",
        'watts{power_fleet="a/one"} 1',
        r'watts{node="a\"b\\c\nd",power_fleet="b/two"} 2.5',
    ]
    assert states(lines) == {"served": 2, "stale": 0, "refused": 0}


def test_no_run_folder_is_no_error(tmp_path: Path) -> None:
    assert states(collected(tmp_path / "none")) == {"served": 0, "stale": 0, "refused": 0}


def test_files_of_fleets_that_are_no_more_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a/one", gauge("watts", "a/one"), age=10)
    write(tmp_path, "a/gone", gauge("watts", "a/gone"), age=4000)
    lines = collected(tmp_path)
    assert 'watts{power_fleet="a/one"} 1' in lines
    assert "gone" not in str(lines)
    assert states(lines) == {"served": 1, "stale": 1, "refused": 0}
    assert states(collected(tmp_path, max_age_seconds=5)) == {"served": 0, "stale": 2, "refused": 0}


@pytest.mark.parametrize(
    "text",
    [
        "no metric\n",
        "watts NaN\n",
        "watts{node=a} 1\n",
        'watts{node="a} 1\n',
        'watts{node="a"}1\n',
        "watts 1 2 3\n",
        "watts \u0661\n",
        "# EVIL watts\n",
        "# TYPE watts\n",
        'watts{node="a"} 1\rother 2\n',
        "watts 1\x00\n",
        "\ud800",
    ],
)
def test_what_is_no_metric_is_refused_with_its_file_and_no_other(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "a/bad", "")
    path.write_bytes(b"good 1\n" + text.encode("utf-8", "surrogatepass"))
    write(tmp_path, "a/one", gauge("watts", "a/one"))
    lines = collect(tmp_path, 0).splitlines()
    assert 'watts{power_fleet="a/one"} 1' in lines
    assert "good 1" not in lines
    assert states(lines) == {"served": 1, "stale": 0, "refused": 1}


def test_a_series_is_there_once(tmp_path: Path) -> None:
    write(tmp_path, "a/one", "watts 1\nwatts 2\n")
    write(tmp_path, "a/two", "watts 3\n")
    assert [line for line in collected(tmp_path) if line.startswith("watts ")] == ["watts 1"]


def test_files_have_a_largest_size_each_and_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MAX_FILE", 30)
    monkeypatch.setattr(serving, "MAX_TOTAL", 50)
    write(tmp_path, "a/1", "".join(f"one{number} 1\n" for number in range(9)))
    for number in range(2, 6):
        write(tmp_path, f"a/{number}", f"watts{number} 1\nmore{number} 1\n")
    # The first is too large by itself; two of the others fit.
    assert states(collected(tmp_path)) == {"served": 2, "stale": 0, "refused": 3}


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("secret 1\n")
    runs = tmp_path / "runs"
    folder = runs / "a" / "one" / "metrics"
    folder.mkdir(parents=True)
    (folder / "link.prom").symlink_to(secret)
    (folder / "folder.prom").mkdir()
    os.mkfifo(folder / "pipe.prom")
    lines = collect(runs, 0).splitlines()
    assert "secret 1" not in lines
    assert states(lines) == {"served": 0, "stale": 0, "refused": 3}


class Running:
    """A server in a thread of this process, until the context ends."""

    def __init__(self, runs: Path, address: str = "127.0.0.1") -> None:
        self._runs, self._address = runs, address
        self._loop = asyncio.new_event_loop()
        self._began = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))

    async def _run(self) -> None:
        self._server = MetricsServer(lambda: collect(self._runs, time.time()))
        await self._server.run(self._address, (0, 0), self._note)

    def _note(self, port: int, health_port: int) -> None:
        self.port, self.health_port = port, health_port
        self._began.set()

    def __enter__(self) -> t.Self:
        self._thread.start()
        assert self._began.wait(20)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def server(tmp_path: Path) -> t.Iterator[Running]:
    with Running(tmp_path) as running:
        yield running


class Answer(t.NamedTuple):
    status: int
    headers: t.Mapping[str, str]
    body: str


def ask(port: int, path: str, method: str = "GET") -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())


def test_what_is_measured_is_served(server: Running, tmp_path: Path) -> None:
    write(tmp_path, "a/one", gauge("watts", "a/one"))
    os.utime(tmp_path / "a" / "one" / "metrics" / "run.prom")
    found = ask(server.port, "/metrics?name=x")
    assert found.status == 200
    assert found.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'watts{power_fleet="a/one"} 1\n' in found.body
    assert "Python" not in found.headers["Server"]
    assert ask(server.port, "/metrics", "HEAD").body == ""


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/healthz", "GET", 404),
        ("/", "GET", 404),
        ("/../../etc/passwd", "GET", 404),
        ("/metrics/../x", "GET", 404),
        ("/metrics", "POST", 405),
        ("/" + "x" * 70_000, "GET", 431),
    ],
)
def test_nothing_else_is_served(server: Running, path: str, method: str, status: int) -> None:
    assert ask(server.port, path, method).status == status


def test_clients_that_say_nothing_keep_nobody_out(server: Running) -> None:
    with contextlib.ExitStack() as silent:
        for _number in range(40):
            silent.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert ask(server.port, "/metrics").status == 200
        assert ask(server.health_port, "/healthz").body == "ok\n"


def start(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", serving.__name__, *arguments],
        env={**os.environ, "WATTWISE_RUNS": str(tmp_path), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_program_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    with start(tmp_path, "--address=127.0.0.1", "--port=0", "--health-port=0") as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            port = int(said.split()[-1])
            assert ask(int(said.split()[-5].strip(",")), "/metrics").status == 200
            assert ask(port, "/healthz").body == "ok\n"
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert time.monotonic() - began < 5
        finally:
            process.kill()


def test_the_program_listens_on_both_families(tmp_path: Path) -> None:
    with Running(tmp_path, "") as listening:
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            if family == socket.AF_INET or socket.has_dualstack_ipv6():
                with socket.socket(family) as client:
                    assert client.connect_ex((address, listening.port)) == 0


def test_the_program_says_in_a_sentence_why_it_cannot_begin(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, environment, expected in (
            ((), {"WATTWISE_RUNS": ""}, "$WATTWISE_RUNS does not say"),
            (("--address=127.0.0.1", f"--port={port}"), {}, f"Cannot listen on port {port}"),
            (("--port=99999",), {}, "Cannot listen on port 99999"),
        ):
            with start(tmp_path, *arguments, **environment) as process:
                output, _ = process.communicate(timeout=20)
            assert process.returncode == 1
            assert output.startswith(expected)
            assert output.count("\n") == 1
