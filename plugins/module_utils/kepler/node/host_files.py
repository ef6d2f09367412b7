# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rooted, bounded reads of plain files below one folder, without links that lead out of it.

Below a mounted root the kernel would resolve an absolute link on the container's own root. Names
and contents come from a host that may be hostile; a named pipe would block a reader forever.
"""

from __future__ import annotations

import errno
import os
import stat
import typing as t
from pathlib import Path

_MAX_LINKS = 40  # the kernel's own limit
_MAX_COMPONENTS = 256
_MAX_ENTRIES = 4096
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_FILE_LENGTH = 64 * 1024


class HostFiles:
    """Files below ``root``. All paths are relative to it; all methods raise OSError only."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def text(self, path: str, longest: int = MAX_FILE_LENGTH) -> str:
        """The first bytes of a plain file, as a text; bytes that are not UTF-8 are replaced."""
        with os.fdopen(self._opened_file(path), "rb", buffering=0) as file:
            parts: list[bytes] = []
            left = longest
            # Files in /proc return a page at a time.
            while left > 0 and (part := file.read(left)):
                parts.append(part)
                left -= len(part)
        return str(b"".join(parts), "utf-8", "replace")

    def line(self, path: str) -> str:
        """The first line of a file without blanks around it; NUL ends it, as in device trees."""
        first = self.text(path, 4096).partition("\0")[0].strip().splitlines()
        return first[0].strip() if first else ""

    def entries(self, path: str) -> list[str]:
        """Sorted names in a folder, bounded in number."""
        handle = self._opened(path, _FOLDER)
        try:
            names: list[str] = []
            with os.scandir(handle) as found:
                for entry in found:
                    names.append(entry.name)
                    if len(names) >= _MAX_ENTRIES:
                        break
            return sorted(names)
        finally:
            os.close(handle)

    def is_file(self, path: str) -> bool:
        """Whether there is a plain file."""
        return self._is(path, stat.S_ISREG)

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""
        return self._is(path, stat.S_ISDIR)

    def _is(self, path: str, is_kind: t.Callable[[int], bool]) -> bool:
        try:
            handle = self._opened(path, _PATH)
        except OSError:
            return False
        try:
            return is_kind(os.fstat(handle).st_mode)
        finally:
            os.close(handle)

    def _opened_file(self, path: str) -> int:
        """A descriptor for reading. A device is not opened, because opening may start it."""
        handle = self._opened(path, _PATH)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "no plain file", path)
            return os.open(f"/proc/self/fd/{handle}", _FILE)
        finally:
            os.close(handle)

    def _opened(self, path: str, flags: int) -> int:
        """A descriptor of the file. Each component is opened from its folder, without links."""
        folders = [os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        try:
            return self._walk(folders, path, flags)
        finally:
            for handle in folders:
                os.close(handle)

    def _walk(self, folders: list[int], path: str, flags: int) -> int:
        waiting = _components(path)
        links = steps = 0
        while waiting:
            name = waiting.pop()
            steps += 1
            if steps > _MAX_COMPONENTS or len(waiting) > _MAX_COMPONENTS:
                raise OSError(errno.ENAMETOOLONG, "too many components", path)
            if name == "..":
                if len(folders) > 1:
                    os.close(folders.pop())
                continue
            target = _target(folders[-1], name)
            if target is not None:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, "too many links", path)
                if target.startswith("/"):
                    while len(folders) > 1:
                        os.close(folders.pop())
                waiting += _components(target)
            elif waiting:
                folders.append(os.open(name, _FOLDER, dir_fd=folders[-1]))
            else:
                return os.open(name, flags, dir_fd=folders[-1])
        return os.open(".", flags, dir_fd=folders[-1])


def _components(path: str) -> list[str]:
    """Components of a path, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _target(folder: int, name: str) -> str | None:
    """The target of a link, or None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
