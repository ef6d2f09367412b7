# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def file_lock(path: Path, say: Callable[[str], None], holder: str) -> Iterator[IO[str]]:
    """Hold the lock file; prints that it waits for `holder` while another process has it.

    The holder of the lock may delete the file, or its folder. A process that inherits the open file
    holds the lock too.
    """
    while True:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"waiting for {holder}, which holds {path}")
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_still(path, file):
                yield file
                return


def is_held(path: Path) -> bool:
    """Whether a process holds the lock file at this moment."""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _is_still(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
