# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives whose bytes depend on their files alone: sorted names, one time, no owner."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
import typing as t
from collections.abc import Iterable, Mapping
from pathlib import Path


def write(
    archive: Path, files: Mapping[str, bytes | None], time: int, programs: Iterable[str] = ()
) -> None:
    """A .tar, or else a .tar.gz; ``programs`` names the executable files. None is a folder."""
    executable = set(programs)
    with contextlib.ExitStack() as stack:
        output: t.IO[bytes] = stack.enter_context(archive.open("wb"))
        if archive.suffix != ".tar":
            # A gzip header with a name and a time would differ from run to run.
            compressed = gzip.GzipFile(filename="", mode="wb", fileobj=output, mtime=time)
            output = t.cast("t.IO[bytes]", stack.enter_context(compressed))
        tar = stack.enter_context(tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT))
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.mtime = time
            if content is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            else:
                member.size, member.mode = len(content), 0o755 if name in executable else 0o644
            tar.addfile(member, io.BytesIO(content or b""))


def write_folders(archive: Path, root: Path, paths: Iterable[str], prefix: str, time: int) -> None:
    """The files of these paths, which are files or folders of ``root``, below ``prefix``."""
    chosen = [
        path
        for each in map(root.joinpath, paths)
        for path in ([each] if each.is_file() else sorted(each.rglob("*")))
        if path.is_file()
    ]
    names = {path: f"{prefix}/{path.relative_to(root).as_posix()}" for path in chosen}
    programs = [names[path] for path in chosen if path.stat().st_mode & 0o100]
    write(archive, {names[path]: path.read_bytes() for path in chosen}, time, programs)
