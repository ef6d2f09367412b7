# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commit of a release: its files in a folder of their own, its version and its time."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path


class ReleaseError(Exception):
    """Reason why nothing can be released, and the remedy."""


@dataclass(frozen=True)
class Source:
    """Files of a commit in ``tree``; ``time`` is the commit's, in seconds of Unix time."""

    tree: Path
    version: str
    commit: str
    time: int


def stage(repository: Path, version: str, folder: Path) -> Source:
    """Extract the current commit below the folder. Raises ReleaseError.

    Changes that are not committed would be missing, or have no time.
    """
    if _git(repository, "status", "--porcelain").strip():
        raise ReleaseError("The work tree has changes that are not committed; commit or stash them")
    commit, time = _git(repository, "log", "-1", "--format=%H %ct").split()
    tree = folder / "ansible_collections" / "wattwise" / "kube"
    shutil.rmtree(folder, ignore_errors=True)
    tree.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=repository, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(tree, filter="tar")
    found = version_of(tree)
    if version != found:
        raise ReleaseError(
            f"galaxy.yml has version {found}, and not {version}; run `make version"
            f" VERSION={version}` and commit the changes"
        )
    return Source(tree, version, commit, int(time))


def version_of(tree: Path) -> str:
    """The version in galaxy.yml."""
    galaxy = (tree / "galaxy.yml").read_text(encoding="utf-8")
    [version] = re.findall(r"^version: (\S+)$", galaxy, re.MULTILINE)
    return str(version)


def _git(repository: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=repository, check=True, capture_output=True, text=True
    ).stdout
