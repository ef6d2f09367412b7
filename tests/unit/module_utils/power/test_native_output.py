# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of native code never gets into a module's result, which uses the same stream."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ctypes
from ansible_collections.wattwise.kube.plugins.module_utils.solving.linear import (
    kept_off_stdout,
)
library = ctypes.CDLL(None)
library.printf(b"before;")
with kept_off_stdout():
    library.printf(b"stray;")
library.printf(b"after;")
library.fflush(None)
print("result")
"""


def test_only_what_is_printed_within_is_lost() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("before;after;result\n", "")


def test_without_a_standard_output_nothing_goes_wrong() -> None:
    script = SCRIPT.replace('print("result")', "")
    run = subprocess.run(
        ["/bin/sh", "-c", '"$0" -c "$1" >&-', sys.executable, script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr == ""
