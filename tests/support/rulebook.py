# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-rulebook as a user starts it. Its rules run in Java, which may be missing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.process import wait_until

PROGRAMS = Path(sys.executable).parent
OLDEST_JAVA = 17


def java_folder() -> str:
    """The folder of a suitable java; skips the test if there is none."""
    command = shutil.which("java")
    if command is None:
        pytest.skip(f"ansible-rulebook needs Java {OLDEST_JAVA}, and there is no java in PATH")
    told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found[1]) < OLDEST_JAVA:
        pytest.skip(f"ansible-rulebook needs Java {OLDEST_JAVA}; {command} is {told.strip()[:60]}")
    return str(Path(command).parent)


@dataclass(frozen=True)
class Rulebook:
    """A running program; ``log`` has all its output."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_until(self, condition: t.Callable[[], bool], what: str) -> None:
        """Wait for the effect of an action while the program runs."""

        def holds() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return condition()

        try:
            wait_until(holds, 90.0, what)
        except LabError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()}") from error


@contextlib.contextmanager
def running_rulebook(
    name: str,
    folder: Path,
    variables: Mapping[str, t.Any],
    environment: Mapping[str, str],
    *arguments: str,
) -> Iterator[Rulebook]:
    """The program with a rulebook, in a folder, until the block ends."""
    path = f"{environment['PATH']}:{java_folder()}"
    given, log = folder / "rulebook-variables.json", folder / "rulebook.log"
    given.write_text(json.dumps(variables))
    command = [f"{PROGRAMS}/ansible-rulebook", "--rulebook", name, "--vars", str(given), "-v"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            env={**environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Rulebook(process, log)
    finally:
        # A playbook that still runs would keep the folder of the lab's documents in use.
        started = _descendants(process.pid)
        process.terminate()
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not any(map(_is_alive, started)), 30.0, "the playbooks to end")


def _descendants(pid: int) -> list[int]:
    """All descendants of a process."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found[1:]


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
