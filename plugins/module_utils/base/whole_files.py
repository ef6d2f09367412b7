# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Files that are there whole or not at all, after a power failure too, and folders of them.

A writer makes a partial file beside the destination, brings it to the disk, renames it, and brings
the folder to the disk. A killed one leaves its partial file, which the next writer sweeps.
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

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput

_PREFIX = ".wattwise-partial-"
# What tempfile puts behind the prefix.
_PARTIAL = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}")
# In a folder without a lock: no writer takes that long.
_ABANDONED_SECONDS = 3600.0
_LONGEST_WAIT_SECONDS, _PAUSE_SECONDS = 10.0, 0.02


class FolderBusy(InvalidInput):
    """Another process writes to the folder, and does not come to an end."""


def replace(destination: Path, content: bytes, mode: int = 0o600) -> None:
    """Write the file whole, on the disk when this returns. Raises OSError."""
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


def link(source: Path, destination: Path) -> None:
    """Make the destination a hard link of the source, in place of its old one. Raises OSError."""
    partial = destination.parent / f"{_PREFIX}{secrets.token_hex(4)}"
    os.link(source, partial)
    # Renaming one link of a file to another link of it would leave both.
    destination.unlink(missing_ok=True)
    partial.replace(destination)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for the user alone. Raises InvalidInput."""
    try:
        for each in reversed([folder, *folder.parents]):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"Cannot make the folder {folder} ({error.strerror}); name one in which this user may "
            "write"
        ) from error


def sync(folder: Path) -> None:
    """Bring names that were added to a folder to the disk. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path, abandoned_seconds: float = _ABANDONED_SECONDS) -> None:
    """Remove partial files of killed writers that are at least so old."""
    oldest = time.time() - abandoned_seconds
    for entry in os.scandir(folder):
        if _PARTIAL.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime <= oldest:
                    Path(entry.path).unlink()


@contextlib.contextmanager
def locked(
    folder: Path,
    wait_seconds: float = _LONGEST_WAIT_SECONDS,
    sleep: t.Callable[[float], None] = time.sleep,
) -> t.Iterator[None]:
    """Be the only writer of this user in the folder, which is swept before.

    The kernel frees the lock of a process that ends, however it ends. Raises FolderBusy, OSError.
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
        # Every partial file of the folder is made under this lock.
        sweep(folder, abandoned_seconds=0.0)
        yield
    finally:
        # Removed while it is held: whoever opened it before sees that it is another file now.
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
