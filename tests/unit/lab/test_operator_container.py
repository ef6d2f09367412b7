# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for ansible-operator's container; a shell script replaces the operator."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.operator import container as operator_container
from lab.process import REPOSITORY, wait_until
from support.operator_ports import require_operator_ports

# The test's ports and paths replace the fixed ones of the computer.
START = """
import sys
from pathlib import Path
from lab.operator import container
container.PORTS = ({port},)
container.RUNNER_FOLDER = Path({folder!r}) / "tmp" / "ansible-operator" / "runner"
container.RUN_SOCKETS = Path({folder!r}) / "tmp"
container.HOSTS = Path({hosts!r})
sys.exit(container.main(sys.argv[1:]))
"""
# A run in a session of its own, as ansible-runner starts it, with a waiting parent.
WITH_A_RUN = "setsid sh -c 'echo $$ > run; exec sleep 600' & echo started; exec sleep 600"


class Container:
    """Containers of one computer, all of which end with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.hosts = folder, operator_container.HOSTS
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, script: str, name: str = "lab", address: str = operator_container.LOCALHOST
    ) -> subprocess.Popen[str]:
        directory = self.folder / name
        directory.mkdir()
        code = START.format(port=self.port, folder=str(self.folder), hosts=str(self.hosts))
        arguments = (str(directory), address, str(directory), "sh", "-c", script)
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env={
                **os.environ,
                "PYTHONPATH": str(REPOSITORY),
                "XDG_CACHE_HOME": str(self.folder / "cache"),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def run_of(self, name: str = "lab") -> int:
        path = self.folder / name / "run"
        wait_until(lambda: path.exists() and path.read_text() != "", 20, "the run to start")
        return int(path.read_text())

    def operator_of(self, name: str = "lab") -> int:
        path = self.folder / name / "pid"
        wait_until(lambda: path.exists() and path.read_text() != "", 20, "the operator to start")
        return int(path.read_text())


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def test_the_exit_status_is_that_of_the_operator(container: Container) -> None:
    assert container.start("exit 7").wait(20) == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_runs_end_with_the_operator_however_it_ends(
    container: Container, number: signal.Signals
) -> None:
    process = container.start(WITH_A_RUN)
    run = container.run_of()
    os.kill(container.operator_of(), number)
    process.wait(20)
    assert not lives(run)


def test_an_operator_that_does_not_listen_is_killed(container: Container) -> None:
    process = container.start("trap '' TERM; echo deaf; while :; do sleep 1; done")
    assert line_of(process) == "deaf\n"
    process.terminate()
    assert process.wait(20) == -signal.SIGKILL % 256


def test_the_operator_is_not_left_behind_when_the_container_is_killed(container: Container) -> None:
    process = container.start("exec sleep 600")
    operator = container.operator_of()
    process.kill()
    wait_until(lambda: not lives(operator), 20, "the operator to end")


def test_the_second_one_waits_for_the_first(container: Container) -> None:
    first = container.start("echo one; exec sleep 600", "first")
    assert line_of(first) == "one\n"
    second = container.start("echo two; exec sleep 600", "second")
    assert line_of(second).startswith("waiting for the operator of another lab")
    assert not (container.folder / "second" / "pid").exists()
    first.terminate()
    assert line_of(second) == "two\n"


def test_a_port_that_something_else_has_is_named(container: Container) -> None:
    with socket.create_server(("127.0.0.1", container.port)):
        process = container.start("exit 0")
        assert process.wait(20) == 1
    assert f"Port {container.port} of localhost is taken" in line_of(process)


def test_tests_of_the_operator_are_refused_once_before_they_start(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_container, "PORTS", (container.port,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(container.folder / "cache"))
    needs = ["tests/unit/test_a.py::test_b", "tests/integration/test_operator.py::test_c"]
    require_operator_ports(needs)
    with socket.create_server(("127.0.0.1", container.port)):
        require_operator_ports(needs[:1])
        with pytest.raises(pytest.UsageError, match=f"Port {container.port} of localhost is"):
            require_operator_ports(needs)
    # A lab's own operator is no problem, because the next one waits for its end.
    running = container.start("echo one; exec sleep 600")
    assert line_of(running) == "one\n"
    with socket.create_server(("127.0.0.1", container.port)):
        require_operator_ports(needs)


def test_files_of_runs_lie_in_the_lab_and_nothing_is_left_elsewhere(container: Container) -> None:
    traces = container.folder / "tmp"
    traces.mkdir()
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as used:
        dead.bind(str(traces / "ansibleoperator-1"))
        used.bind(str(traces / "ansibleoperator-2"))
        used.listen()
        link = traces / "ansible-operator" / "runner" / "wattwise.github.io"
        process = container.start(f"echo extra > {link}/vars; echo written; read line")
        assert line_of(process) == "written\n"
        process.communicate("\n", 20)
        assert [path.name for path in traces.iterdir()] == ["ansibleoperator-2"]
    assert (container.folder / "lab" / "runner" / "vars").read_text() == "extra\n"


def test_a_second_one_with_an_address_of_its_own_runs_beside_the_first(
    container: Container,
) -> None:
    fixed = container.folder / "tmp" / "ansible-operator"
    link = fixed / "runner" / "wattwise.github.io"
    write = f"echo $0 > {link}/vars; grep localhost /etc/hosts; read line; cat {link}/vars"
    first = container.start("echo one; exec sleep 600", "first")
    assert line_of(first) == "one\n"
    second = container.start(write, "second", "127.0.0.2")
    assert line_of(second) == "127.0.0.2 localhost\n"
    assert lives(container.operator_of("first"))
    assert not (container.folder / "first" / "runner" / "vars").exists()
    # The end of the first one takes nothing of the second away.
    first.terminate()
    first.wait(20)
    output, _none = second.communicate("go on\n", 20)
    assert (output, second.returncode) == ("sh\n", 0)
    assert (container.folder / "second" / "runner" / "vars").read_text() == "sh\n"
    assert not fixed.exists()


def test_a_computer_that_refuses_namespaces_is_told(container: Container) -> None:
    container.hosts = container.folder / "missing"
    process = container.start("exit 0", address="127.0.0.2")
    output, _none = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "A second operator needs namespaces of users and mounts" in output
    assert "Traceback" not in output
