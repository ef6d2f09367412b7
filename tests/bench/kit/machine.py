# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine and the program versions behind the figures."""

from __future__ import annotations

import os
import platform
import re
import time
from importlib.metadata import version
from pathlib import Path

SETTLING_SECONDS = 180.0
PROGRAMS = ("ansible-core", "aiohttp", "kubernetes", "ortools")


def describe() -> dict[str, str]:
    """A description without anything that identifies this machine."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} logical processors",
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "programs": ", ".join(f"{name} {version(name)}" for name in PROGRAMS),
    }


def load() -> float:
    """Load average of the last minute."""
    return os.getloadavg()[0]


def settled_load() -> float:
    """The load once half of the processors are free, or after the longest wait.

    The row before leaves a load that fades within a minute or two.
    """
    end = time.monotonic() + SETTLING_SECONDS
    while load() > (os.cpu_count() or 1) / 2 and time.monotonic() < end:
        time.sleep(1.0)
    return load()


def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
