# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from scripts.collection_tree import listed_files, synchronize
from support.pages import ROOT


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "roles" / "crds").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    (folder / ".gitignore").write_text("/build/\n*.log\n")
    (folder / "galaxy.yml").write_text("name: kube\n")
    (folder / "roles" / "crds" / "README.md").write_text("CRDs\n")
    (folder / "lab.log").write_text("made by a tool\n")
    return folder


def test_mirror_holds_what_git_does_not_ignore(repository: Path, tmp_path: Path) -> None:
    mirror = synchronize(repository, tmp_path / "build" / "kube")
    assert listed_files(mirror) == {".gitignore", "galaxy.yml", "roles/crds/README.md"}
    assert (mirror / "galaxy.yml").read_text() == "name: kube\n"
    assert not (mirror / "lab.log").exists()


def test_changes_and_removals_follow(repository: Path, tmp_path: Path) -> None:
    mirror = synchronize(repository, tmp_path / "kube")
    (repository / "galaxy.yml").write_text("name: other\n")
    (repository / "roles" / "crds" / "README.md").unlink()
    (mirror / "tool.log").write_text("made by a tool in the mirror\n")
    (mirror / "left.yml").write_text("from nowhere\n")
    synchronize(repository, mirror)
    assert (mirror / "galaxy.yml").read_text() == "name: other\n"
    assert not (mirror / "roles").exists()
    assert not (mirror / "left.yml").exists()
    assert (mirror / "tool.log").exists()


def test_file_that_did_not_change_is_not_written(repository: Path, tmp_path: Path) -> None:
    mirror = synchronize(repository, tmp_path / "kube")
    before = (mirror / "galaxy.yml").stat()
    synchronize(repository, mirror)
    assert (mirror / "galaxy.yml").stat().st_ino == before.st_ino


def test_mode_follows(repository: Path, tmp_path: Path) -> None:
    mirror = synchronize(repository, tmp_path / "kube")
    (repository / "galaxy.yml").chmod(0o755)
    synchronize(repository, mirror)
    assert os.access(mirror / "galaxy.yml", os.X_OK)


def test_several_at_once_do_not_disturb_each_other(repository: Path, tmp_path: Path) -> None:
    for number in range(100):
        (repository / f"{number}.yml").write_text(f"{number}\n")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: synchronize(repository, tmp_path / "kube"), range(8)))
    assert listed_files(tmp_path / "kube") == listed_files(repository)


def test_an_archive_built_in_a_used_clone_holds_nothing_that_git_ignores() -> None:
    """`ansible-galaxy collection build` knows nothing of git; a lab's state has passwords."""
    ignored = [
        line.strip("/")
        for line in (ROOT / ".gitignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    left_out = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
    assert not set(ignored) - set(left_out)
