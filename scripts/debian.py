# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installation of Debian's packages where this is allowed: on a CI machine with apt, as root."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

# apt-get fails where another one runs; two gates may install at once.
_LOCK = Path("/run/lock/wattwise-apt.lock")


def install_packages(packages: Iterable[str]) -> None:
    """Install these packages in CI, and nothing anywhere else."""
    chosen = list(packages)
    allowed = os.environ.get("CI") and os.geteuid() == 0 and shutil.which("apt-get")
    if not chosen or not allowed:
        return
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *chosen]):
            subprocess.run(["apt-get", "--quiet", *command], env=variables, check=False)
