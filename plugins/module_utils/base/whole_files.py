# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Atomic file writes that survive a power failure, and folders of such files.

A writer writes a partial file beside the destination, syncs it, renames it and syncs the folder.
The next writer removes the partial file of a killed one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import socket
import tempfile
import time
import typing as t
from pathlib import Path

from .errors import InvalidInput

_PREFIX = ".wattwise-partial-"
# Characters that tempfile appends to the prefix.
_PARTIAL = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}")
# Longest duration of a writer, for folders without a lock.
_ABANDONED_SECONDS = 3600.0
_MAX_WAIT_SECONDS, _PAUSE_SECONDS = 10.0, 0.02


class FolderBusy(InvalidInput):
    """Another process keeps writing to the folder."""


def replace(destination: Path, content: bytes, mode: int = 0o600) -> None:
    """Write the file atomically and sync it to the disk. Raises OSError."""
    handle, partial = tempfile.mkstemp(dir=destination.parent, prefix=_PREFIX)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(destination)
    except BaseException:
        Path(partial).unlink()
        raise
    sync(destination.parent)


def write(path: Path, content: bytes) -> None:
    """Write a file that an option names, for its owner only. Raises InvalidInput."""
    try:
        replace(path, content)
    except OSError as error:
        raise InvalidInput(
            f"Cannot write {path}: {error.strerror}; make the folder {path.parent}, or name another"
        ) from error


def link(source: Path, destination: Path) -> None:
    """Replace the destination by a hard link of the source. Raises OSError."""
    partial = destination.parent / f"{_PREFIX}{secrets.token_hex(4)}"
    os.link(source, partial)
    # Renaming a link of a file to another link of the same file leaves both.
    destination.unlink(missing_ok=True)
    partial.replace(destination)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, for the user only. Raises InvalidInput."""
    try:
        for each in reversed([folder, *folder.parents]):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"Cannot make the folder {folder} ({error.strerror}); name one in which this user may "
            "write"
        ) from error


def sync(folder: Path) -> None:
    """Sync new names in a folder to the disk. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path, abandoned_seconds: float = _ABANDONED_SECONDS) -> None:
    """Remove partial files of killed writers of at least this age."""
    oldest = time.time() - abandoned_seconds
    for entry in os.scandir(folder):
        if _PARTIAL.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime <= oldest:
                    Path(entry.path).unlink()


@contextlib.contextmanager
def locked(
    folder: Path,
    wait_seconds: float = _MAX_WAIT_SECONDS,
    sleep: t.Callable[[float], None] = time.sleep,
) -> t.Iterator[None]:
    """Lock the folder against other writers of this user, and sweep it.

    The kernel releases the lock when the process ends. Raises FolderBusy, OSError.
    """
    path = folder / f".wattwise-{os.getuid()}.lock"
    waited = 0.0
    while (handle := _try_lock(path)) is None:
        if waited >= wait_seconds:
            raise FolderBusy(
                f"{_holder(path)} writes to the folder {folder} and has not ended in "
                f"{wait_seconds:g} s; run again when it has, or end it"
            )
        sleep(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS
    try:
        os.write(handle, f"{os.getpid()} {socket.gethostname()}".encode())
        # Partial files are written under this lock only.
        sweep(folder, abandoned_seconds=0.0)
        yield
    finally:
        # Removed under the lock: a waiting process notices that the file was replaced.
        path.unlink(missing_ok=True)
        os.close(handle)


def _try_lock(path: Path) -> int | None:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), path.stat()):
            os.ftruncate(handle, 0)
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        number, host = path.read_text(encoding="utf-8").split(" ", 1)
        return f"Process {int(number)} on {host}"
    return "Another process"
