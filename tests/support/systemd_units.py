# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The testable parts of the example units."""

from __future__ import annotations

import shlex
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples" / "systemd"


def settings(name: str) -> dict[str, list[str]]:
    """The values of each setting of a unit, in their order."""
    found: dict[str, list[str]] = {}
    for line in (FOLDER / name).read_text().splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith(("#", "[")):
            found.setdefault(key, []).append(value)
    return found


def environment(name: str) -> dict[str, str]:
    """The variables that a service sets."""
    pairs = [value.partition("=") for value in settings(name)["Environment"]]
    return {variable: value for variable, _equals, value in pairs}


def command(name: str) -> list[str]:
    """The only command of a service."""
    [line] = settings(name)["ExecStart"]
    return shlex.split(line)
