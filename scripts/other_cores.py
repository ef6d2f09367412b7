# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments with the oldest and the newest supported ansible-core beside the locked one.

Libraries have the locked versions; only ansible-core's own requirements may be newer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from scripts.ansible_test_home import interpreter_folders

# Suitable versions of Python for each, the best first.
OTHER_CORES = {"2.18": ("3.11", "3.12"), "2.21": ("3.13", "3.12")}
# Requirements of ansible-core whose versions are not taken from the lock.
_NOT_OF_THE_LOCK = ("ansible", "resolvelib")


class CoreEnvironment(NamedTuple):
    """The folder of its commands, and the version of its Python."""

    tools: Path
    version: str


def python_for(core: str) -> tuple[str, Path] | None:
    """Version and path of the best interpreter; None if there is none."""
    folders = interpreter_folders()
    found = [version for version in OTHER_CORES[core] if version in folders]
    return (found[0], folders[found[0]] / f"python{found[0]}") if found else None


def make(
    core: str, folder: Path, requirements: Path, uv: tuple[str, ...], run: Callable[..., None]
) -> CoreEnvironment | None:
    """Make or renew the environment in the folder; None if there is no interpreter for it.

    `requirements` is the lock of the controller, `run` runs a command in the collection's folder.
    """
    found = python_for(core)
    if found is None:
        return None
    version, base = found
    if not (folder / "bin" / "python").exists():
        run(*uv, "venv", "--quiet", "--clear", "--python", str(base), str(folder))
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(_pins(requirements.read_text())) + "\n")
    packages = (f"ansible-core~={core}.0", "-r", "requirements.txt", "-c", str(constraints))
    run(*uv, "pip", "install", "--quiet", *packages, VIRTUAL_ENV=str(folder))
    return CoreEnvironment(folder / "bin", version)


def _pins(locked: str) -> list[str]:
    pins = re.findall(r"^([^#\s]+==.*?) \\$", locked, re.MULTILINE)
    return [pin for pin in pins if not pin.startswith(_NOT_OF_THE_LOCK)]
