# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment of a bench: sizes, folders, measured processes and the labs that benches share."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import yaml

from bench.kit import launcher
from bench.kit.rows import Json
from support.playbook import COLLECTIONS, environment

MIB = 2**20
MAX_SECONDS = 1800.0
TESTS = Path(__file__).resolve().parents[2]
SEARCHED = {"PYTHONPATH": f"{COLLECTIONS}{os.pathsep}{TESTS}"}
Value = t.TypeVar("Value")


class BenchError(Exception):
    """A process that was to be measured failed."""


@dataclass(frozen=True)
class Usage:
    """Usage of one run; `peak_bytes` is that of its largest process."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str = field(default="", repr=False)


@dataclass(frozen=True)
class Call:
    """One call of a library function in a process of its own, after its imports.

    `loaded_bytes` is the memory of the process before the call, parameters included.
    """

    seconds: float
    cpu_seconds: float
    import_seconds: float
    loaded_bytes: int
    peak_bytes: int
    result: t.Any = field(repr=False)


class Stage:
    """Given to every bench. With `smoke`, everything is small and the figures mean nothing."""

    def __init__(self, smoke: bool, resources: contextlib.ExitStack) -> None:
        self.smoke = smoke
        self.resources = resources
        self.longest_seconds = MAX_SECONDS
        self._shared: dict[str, t.Any] = {}
        self._failed: dict[str, Exception] = {}
        self._numbers = itertools.count()
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """Print progress."""
        print(f"[{time.monotonic() - self._started:6.1f} s] {text}", flush=True)

    def size(self, real: int, smoke: int) -> int:
        """The size of something, or the smaller one in a smoke test."""
        return smoke if self.smoke else real

    def runs(self, count: int) -> range:
        """The numbers of the runs; one in a smoke test."""
        return range(1 if self.smoke else count)

    def folder(self) -> Path:
        """A new empty folder that is removed when the benches end."""
        path = self._folders / str(next(self._numbers))
        path.mkdir()
        return path

    @cached_property
    def _folders(self) -> Path:
        return Path(self.resources.enter_context(tempfile.TemporaryDirectory(prefix="wattwise-")))

    def shared(self, name: str, make: t.Callable[[Stage], Value]) -> Value:
        """A value that several benches use, made by the first of them.

        A failure is not retried: each bench would wait for minutes and fail in the same way.
        """
        if name in self._failed:
            raise BenchError(f"there is no {name}, see above") from self._failed[name]
        if name not in self._shared:
            try:
                self._shared[name] = make(self)
            except Exception as error:
                self._failed[name] = error
                raise
        return t.cast("Value", self._shared[name])

    def command(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None
    ) -> Usage:
        """Run a command to its end. Raises BenchError with the end of its output."""
        report = self.folder() / "usage.json"
        with subprocess.Popen(
            [sys.executable, "-I", launcher.__file__, str(report), *command],
            cwd=folder,
            env=environment(**{**SEARCHED, **(variables or {})}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _none = process.communicate(timeout=self.longest_seconds)
            except BaseException as error:
                # Its children would otherwise run on during all later measurements.
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    limit = f"{self.longest_seconds:g} s"
                    raise BenchError(f"{' '.join(command)} took more than {limit}") from None
                raise
        if process.returncode != 0:
            end = "\n".join(output.splitlines()[-25:])
            raise BenchError(f"{' '.join(command)} ended with {process.returncode}:\n{end}")
        [used] = usages(report)
        return Usage(used["seconds"], used["cpu_seconds"], used["peak_bytes"], output)

    def playbook(
        self,
        playbook: str | list[Json],
        *arguments: str,
        variables: Mapping[str, str] | None = None,
    ) -> Usage:
        """Run a playbook, given by FQCN or as plays, from ansible-playbook's start to its end."""
        folder = self.folder()
        name = playbook
        if isinstance(playbook, list):
            path = folder / "playbook.yml"
            path.write_text(yaml.safe_dump(playbook), encoding="utf-8")
            name = str(path)
        command = [sys.executable, "-m", "ansible", "playbook", str(name), *arguments]
        return self.command(command, folder, variables)

    def call(self, function: str, parameters: Json, libraries: Sequence[str] = ()) -> Call:
        """Call `module:function`, with the module below plugins/module_utils or in the benches.

        `libraries` are imported before the call, because the library imports them lazily.
        """
        [call] = self.calls(function, parameters, [{}], libraries)
        return call

    def calls(
        self,
        function: str,
        parameters: Json,
        variants: Sequence[Json],
        libraries: Sequence[str] = (),
    ) -> list[Call]:
        """As `call`, for each of the variants in turn, added to the parameters."""
        folder = self.folder()
        given = {"common": parameters, "variants": variants}
        (folder / "parameters.json").write_text(json.dumps(given), encoding="utf-8")
        target = f"ansible_collections.wattwise.kube.plugins.module_utils.{function}"
        if function.startswith("bench."):
            target = function
        files = (str(folder / "parameters.json"), str(folder / "report.json"))
        command = [sys.executable, "-m", "bench.kit.call", target, *files, *libraries]
        self.command(command, folder)
        reports = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return [Call(**report) for report in reports]


def usages(report: Path) -> list[Json]:
    """The launcher's entries in the file, one per process."""
    return [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]


@contextlib.contextmanager
def open_stage(smoke: bool) -> Iterator[Stage]:
    """A stage that removes its labs and folders at the end."""
    with contextlib.ExitStack() as resources:
        yield Stage(smoke, resources)
