# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python launcher.py REPORT COMMAND…`: run a command and append its usage to a file.

The kernel counts the memory of the starting process as the program's, so this process is small.
Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(report: str, command: list[str]) -> int:
    """Append one line of JSON; return the command's exit code.

    `peak_bytes` is that of the largest process among the command and the children that it waited
    for.
    """
    started = time.monotonic()
    process = os.posix_spawnp(command[0], command, os.environ)
    _process, status, used = os.wait4(process, 0)
    code = os.waitstatus_to_exitcode(status)
    entry = {
        "command": command,
        "seconds": time.monotonic() - started,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss * 1024,
        "exit_code": code,
    }
    with Path(report).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
