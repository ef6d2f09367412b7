# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m bench.kit.call MODULE:FUNCTION PARAMETERS REPORT [LIBRARY…]`: time calls.

PARAMETERS is a JSON file `{common, variants}`: the function is called with `common` and each of the
variants. REPORT is the JSON file to write, a list. The imports of the module and of the libraries,
which it would import lazily, are timed separately. Each call has a process of its own, forked after
the imports, so no call finds the leftovers of another in memory.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tempfile
import time
import typing as t
from collections.abc import Callable
from pathlib import Path

Json = dict[str, t.Any]


def main(target: str, parameters_file: str, report_file: str, *libraries: str) -> int:
    """Return 1 if a call failed; stderr then has its traceback."""
    module, _colon, name = target.partition(":")
    started = time.monotonic()
    for library in libraries:
        importlib.import_module(library)
    function = getattr(importlib.import_module(module), name)
    imported = time.monotonic() - started
    given = json.loads(Path(parameters_file).read_text(encoding="utf-8"))
    reports = []
    with tempfile.TemporaryDirectory() as folder:
        for number, variant in enumerate(given["variants"]):
            path = Path(folder) / f"{number}.json"
            if not _in_a_fork(function, {**given["common"], **variant}, path):
                return 1
            report = json.loads(path.read_text(encoding="utf-8"))
            reports.append({**report, "import_seconds": imported})
    Path(report_file).write_text(json.dumps(reports), encoding="utf-8")
    return 0


def _in_a_fork(function: Callable[[Json], object], parameters: Json, report: Path) -> bool:
    """Whether the call completed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            report.write_text(json.dumps(_timed(function, parameters)), encoding="utf-8")
            code = 0
        except Exception:  # noqa: BLE001 - the parent must not go on in this process
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    _child, status = os.waitpid(child, 0)
    return status == 0


def _timed(function: Callable[[Json], object], parameters: Json) -> Json:
    before = memory("VmRSS")
    started, cpu = time.monotonic(), sum(os.times()[:2])
    result = function(parameters)
    seconds, cpu_seconds = time.monotonic() - started, sum(os.times()[:2]) - cpu
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "loaded_bytes": before,
        "peak_bytes": memory("VmHWM"),
        "result": result,
    }


def memory(field: str) -> int:
    """A memory figure of this process in bytes: VmRSS is the current one, VmHWM the peak."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found.group(1)) * 1024


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
