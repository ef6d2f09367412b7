# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirror the work tree to build/ansible_collections/wattwise/kube and print that path.

Ansible's tools find a collection only under such a path, and several of them mishandle a symlinked
root, so the tools run on a copy. Only files that git tracks or would track are copied, so the copy
equals the contents of a release. The copy is a git repository of its own, because ansible-test asks
git for the list of files.
"""

from __future__ import annotations

import fcntl
import filecmp
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
MIRROR = REPOSITORY / "build" / "ansible_collections" / "wattwise" / "kube"


def listed_files(repository: Path) -> set[str]:
    """Paths, relative to the repository, of the files that git tracks or does not ignore."""
    output = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {path for path in output.split("\0") if path and (repository / path).is_file()}


def copy_if_changed(source: Path, destination: Path) -> None:
    """Copy one file with its times and mode unless the copy is current."""
    current = destination.is_file() and filecmp.cmp(source, destination, shallow=True)
    if current and os.access(source, os.X_OK) == os.access(destination, os.X_OK):
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(f".{destination.name}.partial")
    shutil.copy2(source, partial)
    partial.replace(destination)


def remove(path: Path, mirror: Path) -> None:
    """Remove a file and the folders that this leaves empty."""
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == mirror or any(folder.iterdir()):
            return
        folder.rmdir()


@contextmanager
def locked(mirror: Path) -> Iterator[None]:
    """Let one process at a time change the mirror."""
    lock = mirror.with_name(f".{mirror.name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def synchronize(repository: Path = REPOSITORY, mirror: Path = MIRROR) -> Path:
    """Make the mirror equal to the work tree, except for git's ignored files; return the mirror."""
    with locked(mirror):
        if not (mirror / ".git").exists():
            mirror.mkdir(exist_ok=True)
            subprocess.run(["git", "init", "--quiet"], cwd=mirror, check=True)
        wanted = listed_files(repository)
        for path in sorted(wanted):
            copy_if_changed(repository / path, mirror / path)
        for path in listed_files(mirror) - wanted:
            remove(mirror / path, mirror)
    return mirror


if __name__ == "__main__":
    print(synchronize())
