# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot belongs to one run as long as the process of that run lives."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import utc_now
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot.run_owner import (
    claim,
    process_identity,
)

OURS = process_identity(os.getpid())


@pytest.fixture
def other() -> t.Iterator[subprocess.Popen[bytes]]:
    """Another run, which waits until it is ended."""
    waits = [sys.executable, "-c", "input()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_second_run_is_refused_until_the_first_has_ended(
    tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    path = str(tmp_path / "snapshot.json")
    claim(path, process_identity(other.pid), utc_now())
    with pytest.raises(InvalidInput, match=rf"Another run \(process {other.pid} on ") as caught:
        claim(path, OURS, utc_now())
    assert "\n" not in str(caught.value) and path in str(caught.value)
    claim(path, process_identity(other.pid), utc_now())
    claim(str(tmp_path / "rmd-nodes.json"), OURS, utc_now())
    other.kill()
    other.wait()
    claim(path, OURS, utc_now())
    claim(path, OURS, utc_now())


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"process": 7}',
        '{"process": "x", "since": ""}',
        '{"process": "elsewhere 1 2 PID 3", "since": "then"}',
    ],
)
def test_a_marker_that_stands_for_no_process_of_this_host_hinders_nobody(
    tmp_path: Path, content: str
) -> None:
    """On this machine the number belongs to another process."""
    marker = tmp_path / ".snapshot.json.run"
    marker.write_text(content.replace("PID", str(os.getppid())))
    claim(str(tmp_path / "snapshot.json"), OURS, utc_now())
    assert OURS in marker.read_text()


def test_a_process_is_known_by_more_than_its_number() -> None:
    assert OURS.split(" ")[3] == str(os.getpid())
    assert process_identity(os.getppid()) != OURS
    assert process_identity(0) == ""


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="make the folder"):
        claim(str(tmp_path / "none" / "snapshot.json"), OURS, utc_now())
