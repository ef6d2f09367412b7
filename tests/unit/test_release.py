# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of a release that need no tools: versions, archives, the workflow and the labels."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from pathlib import Path

import pytest
import yaml

from scripts.collection_tree import listed_files
from scripts.release import archives, collection, version
from scripts.release.source import version_of
from support.dockerfile import ROOT, stages

WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
TIME = 1_700_000_000


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The files that have a version."""
    for name in version.PLACES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((ROOT / name).read_text())
    return tmp_path


def test_a_version_is_written_to_every_place(repository: Path) -> None:
    version.write("7.8.9", repository)
    assert version_of(repository) == "7.8.9"
    for name in version.PLACES:
        lines = zip(
            (ROOT / name).read_text().splitlines(),
            (repository / name).read_text().splitlines(),
            strict=True,
        )
        [(_old, new)] = [pair for pair in lines if pair[0] != pair[1]]
        assert "7.8.9" in new


def test_a_version_that_is_not_semantic_is_refused(repository: Path) -> None:
    with pytest.raises(ValueError, match="v1"):
        version.write("v1", repository)
    assert version_of(repository) == version_of(ROOT)


def test_no_other_shipped_file_has_the_version() -> None:
    """Apart from the release in which an option came. Pages name the version in commands."""
    number = re.compile(rf"(?<![\d.v]){re.escape(version_of(ROOT))}(?![\d.])")
    shipped = ("plugins/", "roles/", "playbooks/", "operator/", "meta/", "galaxy.yml", "schemas/")
    found = {
        path
        for path in listed_files(ROOT)
        if path.startswith(shipped)
        for line in (ROOT / path).read_text().splitlines()
        if number.search(line) and "version_added" not in line
    }
    assert found == set(version.PLACES)


def draft(path: Path, names: list[str]) -> Path:
    """An archive as ansible-galaxy builds it, in the order of the names."""
    listed = [{"name": name, "ftype": "file"} for name in names]
    contents = {
        "FILES.json": json.dumps({"files": listed}).encode(),
        "MANIFEST.json": json.dumps({"file_manifest_file": {"chksum_sha256": "old"}}).encode(),
        **{name: name.encode() for name in names},
    }
    with tarfile.open(path, "w:gz") as tar:
        folder = tarfile.TarInfo("b")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in contents.items():
            source = path.with_name("one")
            source.write_bytes(content)
            tar.add(source, name)
    return path


def test_repacked_archives_depend_on_their_files_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "1.tar.gz", tmp_path / "2.tar.gz"
    collection.repack(draft(tmp_path / "x", ["b/c", "a"]), first, TIME)
    collection.repack(draft(tmp_path / "y", ["a", "b/c"]), second, TIME)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as tar:
        assert tar.getnames() == ["FILES.json", "MANIFEST.json", "a", "b", "b/c"]
        assert {member.mtime for member in tar} == {TIME}
        files, manifest = (tar.extractfile(name) for name in ("FILES.json", "MANIFEST.json"))
        assert files is not None and manifest is not None
        digest = json.load(manifest)["file_manifest_file"]["chksum_sha256"]
        assert digest == hashlib.sha256(files.read()).hexdigest()


def test_programs_stay_executable(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, mode in (("program", 0o755), ("text", 0o600)):
        (tmp_path / "folder" / name).touch()
        (tmp_path / "folder" / name).chmod(mode)
    archives.write_folders(tmp_path / "a.tar.gz", tmp_path, ["folder"], "to", TIME)
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        modes = {member.name: oct(member.mode) for member in tar}
    assert modes == {"to/folder/program": "0o755", "to/folder/text": "0o644"}


def test_the_workflow_runs_what_a_person_runs() -> None:
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    commands = "\n".join(step.get("run", "") for step in steps)
    targets = set(re.findall(r"^make ([a-z-]+)", commands, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text()
    assert targets == {"setup", "release"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert ".ci/run" in commands
    noxfile = (ROOT / "noxfile.py").read_text()
    for tag in (*WORKFLOW["jobs"]["gates"]["strategy"]["matrix"]["tag"], "test-deep"):
        assert re.search(rf'^@gate\(.*"{tag}"', noxfile, re.MULTILINE)


def test_a_release_of_the_workflow_needs_all_gates() -> None:
    release = WORKFLOW["jobs"]["release"]
    assert release["needs"] == "gates" and "refs/tags/v" in release["if"]
    assert WORKFLOW["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("name", ["operator", "execution-environment"])
def test_an_image_says_what_it_is(name: str) -> None:
    [labels] = stages()[name].of("LABEL")
    prefix = "org.opencontainers.image."
    named = {"title", "description", "licenses", "source", "version", "revision", "base.name"}
    assert named <= set(re.findall(rf"{re.escape(prefix)}([\w.]+)=", labels))
