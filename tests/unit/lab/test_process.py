# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from lab import process
from lab.errors import LabError
from lab.process import Service
from lab.state import LabState

LISTEN = "import socket; s = socket.create_server(('127.0.0.1', {port})); s.accept(); s.accept()"
# It runs until it is stopped; no test waits for it.
WAIT = "import time; time.sleep(600)"
DEAF = "import pathlib, signal, time; signal.signal(15, signal.SIG_IGN); "


@pytest.fixture
def state(tmp_path: Path) -> Iterator[LabState]:
    state = LabState(tmp_path / "lab")
    yield state
    process.stop(state)


def python(
    name: str,
    code: str,
    ready: Callable[[], bool] = lambda: True,
    ready_timeout: float = 20.0,
    **environment: str,
) -> Service:
    return Service(name, (sys.executable, "-c", code), ready, environment, ready_timeout)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def lives(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_service_runs_when_start_returns_and_is_gone_when_stop_returns(state: LabState) -> None:
    port = process.free_port()
    service = python("server", LISTEN.format(port=port), ready=lambda: listens(port))
    process.start([service], state)
    pid = process.process_id(state, "server")
    assert pid is not None
    assert lives(pid)
    assert process.running(state) == {"server": True}
    process.stop(state)
    assert not lives(pid)
    assert process.running(state) == {}
    assert process.process_id(state, "server") is None


def test_a_service_is_gone_only_when_its_last_thread_has_let_go_of_its_port(
    state: LabState,
) -> None:
    port = process.free_port()
    code = f"""
import ctypes, platform, socket, threading, time
server = socket.create_server(("127.0.0.1", {port}))
threading.Thread(target=time.sleep, args=(600,)).start()
exit_of_one_thread = {{"x86_64": 60, "aarch64": 93}}[platform.machine()]
ctypes.CDLL(None).syscall(exit_of_one_thread, 0)
"""
    process.start([python("ending", code, ready=lambda: listens(port))], state)
    pid = process.process_id(state, "ending")
    assert pid is not None
    process.wait_until(lambda: not lives(pid), 20.0, "the first thread's end")
    assert process.running(state) == {"ending": True}
    process.stop(state)
    socket.create_server(("127.0.0.1", port)).close()


def test_a_running_service_is_not_started_again(state: LabState) -> None:
    service = python("one", WAIT)
    process.start([service], state)
    pid = process.process_id(state, "one")
    process.start([service, python("two", WAIT)], state)
    assert process.process_id(state, "one") == pid
    assert process.running(state) == {"one": True, "two": True}


def test_stopping_one_leaves_the_others(state: LabState) -> None:
    process.start([python("one", WAIT), python("two", WAIT)], state)
    process.stop(state, ["two", "unknown"])
    assert process.running(state) == {"one": True}


def test_a_service_gets_its_own_environment_and_no_secrets_of_the_user(
    state: LabState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    code = "import json, os; json.dump([dict(os.environ), os.getcwd()], open('seen', 'w'))"
    seen = state.run / "seen"

    def ready() -> bool:
        return seen.exists() and seen.read_text().endswith("]")

    process.start([python("env", f"{code}; {WAIT}", ready, MODE="lab")], state)
    environment, folder = json.loads(seen.read_text())
    assert environment["MODE"] == "lab"
    assert "SECRET_TOKEN" not in environment
    assert folder == str(state.run)


def test_a_service_that_ends_early_shows_its_log_and_takes_the_others_along(
    state: LabState,
) -> None:
    code = "print(*range(90), sep='\\n'); print('port is taken'); raise SystemExit(3)"
    broken = python("broken", code, ready=lambda: False)
    with pytest.raises(LabError, match="broken ended before it was ready") as caught:
        process.start([python("good", WAIT), broken], state)
    lines = str(caught.value).splitlines()
    assert str(state.logs / "broken.log") in lines[0]
    assert lines[1:] == [str(number) for number in range(71, 90)] + ["port is taken"]
    assert process.running(state) == {}


def test_a_failure_leaves_what_ran_before(state: LabState) -> None:
    old = python("old", WAIT)
    process.start([old], state)
    with pytest.raises(LabError, match="ended before"):
        process.start([old, python("broken", "", ready=lambda: False)], state)
    assert process.running(state) == {"old": True}


def test_a_service_that_never_gets_ready_is_stopped(state: LabState) -> None:
    slow = python("slow", WAIT, ready=lambda: False, ready_timeout=0.2)
    with pytest.raises(LabError, match=r"slow was not ready in 0.2 s. Its log"):
        process.start([slow], state)
    assert process.running(state) == {}


def test_a_missing_program_is_named(state: LabState) -> None:
    missing = Service("etcd", ("/no/such/etcd",), lambda: True)
    with pytest.raises(LabError, match=r"Cannot start etcd \(/no/such/etcd\): No such file"):
        process.start([python("good", WAIT), missing], state)
    assert process.running(state) == {}


def test_an_interrupt_while_waiting_leaves_nothing(state: LabState) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.start([python("one", WAIT), python("two", WAIT, ready=interrupt)], state)
    assert process.running(state) == {}


def test_an_interrupt_while_starting_leaves_nothing(state: LabState) -> None:
    class Interrupting(Mapping[str, str]):
        """Read at the start of the service."""

        def __getitem__(self, name: str) -> str:
            raise KeyError(name)

        def __iter__(self) -> Iterator[str]:
            signal.raise_signal(signal.SIGINT)
            return iter(())

        def __len__(self) -> int:
            return 0

    service = Service("one", (sys.executable, "-c", WAIT), lambda: False, Interrupting())
    with pytest.raises(KeyboardInterrupt):
        process.start([service], state)
    assert process.running(state) == {}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_services_can_be_started_from_a_thread(state: LabState) -> None:
    thread = threading.Thread(target=process.start, args=([python("one", WAIT)], state))
    thread.start()
    thread.join()
    assert process.running(state) == {"one": True}


def test_a_service_that_ignores_the_request_is_killed(state: LabState) -> None:
    deaf = python("deaf", f"{DEAF} pathlib.Path('up').touch(); {WAIT}", (state.run / "up").exists)
    process.start([deaf], state)
    pid = process.process_id(state, "deaf")
    assert pid is not None
    process.stop(state, timeout=0.1)
    assert not lives(pid)


@pytest.mark.parametrize("end", ["worker.wait()", "os._exit(0)"])
def test_workers_of_a_service_go_with_it(end: str, state: LabState) -> None:
    code = f"""
import os, pathlib, subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", {WAIT!r}])
pathlib.Path("new").write_text(str(worker.pid))
os.rename("new", "worker")
{end}
"""
    found = state.run / "worker"
    process.start([python("pool", code, found.exists)], state)
    process.stop(state)
    assert not lives(int(found.read_text()))


def test_a_process_that_got_an_old_id_is_never_stopped(state: LabState) -> None:
    process.start([python("old", WAIT)], state)
    file = state.pids / "old.json"
    identity = json.loads(file.read_text())
    file.write_text(json.dumps({**identity, "start_ticks": identity["start_ticks"] - 1}))
    try:
        assert process.running(state) == {"old": False}
        process.stop(state)
        assert lives(identity["pid"])
        assert process.running(state) == {}
    finally:
        file.write_text(json.dumps(identity))


@pytest.mark.parametrize("text", ["", "[1]", '{"pid": 1}'])
def test_a_broken_pid_file_counts_as_not_running(text: str, state: LabState) -> None:
    state.create()
    (state.pids / "old.json").write_text(text)
    assert process.running(state) == {"old": False}
    process.stop(state)
    assert process.running(state) == {}


def test_a_stop_without_a_lab_does_nothing(state: LabState) -> None:
    process.stop(state)
    assert not state.root.exists()


def test_free_ports_are_free_and_nobody_gets_them_by_chance() -> None:
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with contextlib.ExitStack() as stack:
        for _index in range(20):
            port = process.free_port()
            assert 1024 < port < ephemeral
            stack.enter_context(socket.create_server(("127.0.0.1", port)))


def test_waiting_ends_when_the_condition_holds() -> None:
    answers = iter([False, False, True])
    process.wait_until(lambda: next(answers), 10.0, "the third answer", interval=0.0)


def test_waiting_in_vain_says_for_what() -> None:
    before = time.monotonic()
    with pytest.raises(LabError, match=r"Timed out after 0.1 s waiting for Godot\."):
        process.wait_until(lambda: False, 0.1, "Godot")
    assert time.monotonic() - before < 5


def test_reading_a_process_name_with_parentheses(state: LabState) -> None:
    name = ") Z (1 2"
    code = f"import ctypes; ctypes.CDLL(None).prctl(15, {name!r}.encode()); open('named', 'w')"
    process.start([python("odd", f"{code}; {WAIT}", (state.run / "named").exists)], state)
    pid = process.process_id(state, "odd")
    assert pid is not None
    assert Path(f"/proc/{pid}/comm").read_text().strip() == name
    assert os.getpgid(pid) == pid
