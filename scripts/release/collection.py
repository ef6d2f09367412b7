# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive of the collection, as ansible-galaxy builds it, in a form that can be repeated."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

import yaml

from scripts.release import archives
from scripts.release.source import ReleaseError, Source


def build(source: Source, folder: Path) -> Path:
    """Write the archive; its path. Raises ReleaseError."""
    _write_changelog(source)
    with tempfile.TemporaryDirectory() as built:
        _run(source, "ansible-galaxy", "collection", "build", "--output-path", built)
        [draft] = Path(built).glob("*.tar.gz")
        archive = folder / draft.name
        repack(draft, archive, source.time)
    return archive


def _write_changelog(source: Source) -> None:
    """Turn fragments into the notes of the version, unless `make version` has."""
    path = source.tree / "changelogs" / "changelog.yaml"
    known = yaml.safe_load(path.read_text(encoding="utf-8"))["releases"] if path.exists() else ()
    if source.version in known:
        return
    day = datetime.datetime.fromtimestamp(source.time, datetime.UTC).date().isoformat()
    _run(source, "antsibull-changelog", "release", "--version", source.version, "--date", day)


def repack(draft: Path, archive: Path, time: int) -> None:
    """Copy an archive of ansible-galaxy with sorted files and the time of the commit.

    Its FILES.json lists files in the order of the file system; MANIFEST.json has its checksum.
    """
    contents: dict[str, bytes] = {}
    folders, programs = [], []
    with tarfile.open(draft) as tar:
        for member in tar:
            file = tar.extractfile(member)
            if file is None:
                folders.append(member.name)
                continue
            contents[member.name] = file.read()
            if member.mode & 0o100:
                programs.append(member.name)
    listed = json.loads(contents["FILES.json"])
    listed["files"].sort(key=lambda entry: entry["name"])
    contents["FILES.json"] = json.dumps(listed, indent=True).encode()
    manifest = json.loads(contents["MANIFEST.json"])
    digest = hashlib.sha256(contents["FILES.json"]).hexdigest()
    manifest["file_manifest_file"]["chksum_sha256"] = digest
    contents["MANIFEST.json"] = json.dumps(manifest, indent=True).encode()
    archives.write(archive, {**dict.fromkeys(folders), **contents}, time, programs)


def _run(source: Source, *command: str) -> None:
    """Run a tool of Ansible, which finds no other copy of the collection."""
    root = source.tree.parents[2]
    variables = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(root)}
    done = subprocess.run(
        command, cwd=source.tree, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ReleaseError(f"`{' '.join(command)}` failed:\n{(done.stdout + done.stderr).strip()}")
