# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of processes and their descendants, sampled while they work."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PERIOD_SECONDS = 0.1
_PROPORTIONAL = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
_HIGHEST = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass
class Seen:
    """Bytes: the peak of each process, and the highest total, which counts shared pages once."""

    peaks: dict[int, int] = field(default_factory=dict)
    together: int = 0


@contextlib.contextmanager
def watching(roots: Sequence[int]) -> Iterator[Seen]:
    """Sample these processes and their descendants until the end of the block."""
    seen, done = Seen(), threading.Event()
    thread = threading.Thread(target=_watch, args=(roots, seen, done), daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _watch(roots: Sequence[int], seen: Seen, done: threading.Event) -> None:
    while not done.wait(PERIOD_SECONDS):
        total = 0
        for pid in _tree(roots):
            total += _kibibytes(pid, "smaps_rollup", _PROPORTIONAL)
            highest = _kibibytes(pid, "status", _HIGHEST)
            seen.peaks[pid] = max(seen.peaks.get(pid, 0), highest)
        seen.together = max(seen.together, total)


def _tree(roots: Sequence[int]) -> list[int]:
    """The processes and their descendants."""
    found = list(roots)
    for pid in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _kibibytes(pid: int, name: str, pattern: re.Pattern[str]) -> int:
    """Memory in bytes; 0 if the process is gone."""
    with contextlib.suppress(OSError):
        if found := pattern.search(Path(f"/proc/{pid}/{name}").read_text(errors="replace")):
            return int(found[1]) * 1024
    return 0
