# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m bench.kit.call MODULE:FUNCTION PARAMETERS REPORT [LIBRARY…]`: time one call.

PARAMETERS is a JSON file with the function's parameters, REPORT the JSON file to write. The import
is timed apart, with that of the libraries, which ours imports only when it needs them.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import time
from pathlib import Path


def main(target: str, parameters_file: str, report_file: str, *libraries: str) -> None:
    module, _colon, name = target.partition(":")
    started = time.monotonic()
    for library in libraries:
        importlib.import_module(library)
    function = getattr(importlib.import_module(module), name)
    imported = time.monotonic() - started
    parameters = json.loads(Path(parameters_file).read_text(encoding="utf-8"))
    before = memory("VmRSS")
    started, cpu = time.monotonic(), sum(os.times()[:2])
    result = function(parameters)
    seconds, cpu_seconds = time.monotonic() - started, sum(os.times()[:2]) - cpu
    report = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "import_seconds": imported,
        "loaded_bytes": before,
        "peak_bytes": memory("VmHWM"),
        "result": result,
    }
    Path(report_file).write_text(json.dumps(report), encoding="utf-8")


def memory(field: str) -> int:
    """A figure of this process in bytes: VmRSS is the present one, VmHWM the highest."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found.group(1)) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
