# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files are complete and on disk, folders have one writer, and killed writers leave nothing."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import whole_files
from ansible_collections.wattwise.kube.plugins.module_utils.base.whole_files import FolderBusy

# Holds the folder's lock with a partial file in it, and signals this.
HOLDER = """
import sys, time
from pathlib import Path
from ansible_collections.wattwise.kube.plugins.module_utils.base import whole_files
folder = Path(sys.argv[1])
with whole_files.locked(folder):
    (folder / ".wattwise-partial-abcdefgh").write_text("half a docu")
    print("locked", flush=True)
    time.sleep(600)
"""


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def holder(tmp_path: Path) -> t.Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_file_and_folder_are_on_the_disk_before_and_after_the_name_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = tmp_path / "plan.json"
    seen: list[tuple[str, bool]] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        if kind == "file":
            assert os.pread(handle, 100, 0) == b"whole"
        seen.append((kind, destination.exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    whole_files.replace(destination, b"whole")
    assert seen == [("file", False), ("folder", True)]
    assert destination.read_bytes() == b"whole" and names(tmp_path) == ["plan.json"]
    assert stat.S_IMODE(destination.stat().st_mode) == 0o600


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_what_cannot_be_brought_to_the_disk_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    destination = tmp_path / "plan.json"
    destination.write_bytes(b"old")

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="No space left"):
        whole_files.replace(destination, b"new")
    assert destination.read_bytes() == b"old" and names(tmp_path) == ["plan.json"]


def test_a_link_takes_the_place_of_an_old_one(tmp_path: Path) -> None:
    source, destination = tmp_path / "a", tmp_path / "b"
    source.write_text("first")
    for text in ("first", "first", "second"):
        if text == "second":
            source.unlink()
            source.write_text(text)
        whole_files.link(source, destination)
        assert destination.samefile(source) and destination.read_text() == text
        assert names(tmp_path) == ["a", "b"]


def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    order: list[str] = []
    inside = threading.Event()

    def first() -> None:
        with whole_files.locked(tmp_path):
            inside.set()
            while not waits.is_set():
                waits.wait(0.01)
            order.append("first")

    waits = threading.Event()
    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()

    def sleep(_seconds: float) -> None:
        waits.set()
        thread.join(1.0)

    with whole_files.locked(tmp_path, sleep=sleep):
        order.append("second")
    assert order == ["first", "second"] and names(tmp_path) == []


def test_a_writer_that_does_not_end_is_named(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    waited: list[float] = []
    with (
        pytest.raises(FolderBusy, match=rf"Process {holder.pid} on .* writes to the folder .* 3 s"),
        whole_files.locked(tmp_path, wait_seconds=3.0, sleep=waited.append),
    ):
        pass
    assert 2.9 < sum(waited) < 3.1
    assert (tmp_path / ".wattwise-partial-abcdefgh").exists()


def test_of_a_killed_writer_neither_lock_nor_partial_file_stays(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert len(names(tmp_path)) == 2
    with whole_files.locked(tmp_path, wait_seconds=0.0):
        assert names(tmp_path) == [f".wattwise-{os.getuid()}.lock"]
    assert names(tmp_path) == []


def test_a_lock_whose_file_was_removed_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening and the locking of its file, the holder ended and removed it."""
    path = tmp_path / f".wattwise-{os.getuid()}.lock"
    flock, removals = fcntl.flock, [path]

    def late(handle: int, operation: int) -> None:
        if removals:
            removals.pop().unlink()
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with whole_files.locked(tmp_path, sleep=lambda _seconds: None):
        assert path.exists() and not removals


def test_only_abandoned_partial_files_of_ours_are_swept(tmp_path: Path) -> None:
    old = [".wattwise-partial-abcdefgh", ".wattwise-partial-abc", ".plan.json.abcdefgh", "x"]
    for name in old:
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1.0, 1.0))
    (tmp_path / ".wattwise-partial-12345678").write_text("at work")
    (tmp_path / ".wattwise-partial-folder__").mkdir()
    (tmp_path / ".wattwise-partial-linklink").symlink_to(tmp_path / "x")
    before = names(tmp_path)
    whole_files.sweep(tmp_path)
    assert names(tmp_path) == [name for name in before if name != old[0]]


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("content")
    (tmp_path / f".wattwise-{os.getuid()}.lock").symlink_to(target)
    with pytest.raises(OSError), whole_files.locked(tmp_path):
        pass
    assert target.read_text() == "content"
