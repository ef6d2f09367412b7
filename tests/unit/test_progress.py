# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import time
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.plugin_utils.progress import ProgressReader


class Screen:
    """Records the progress that is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, bool]] = []

    def show(self, text: str, newline: bool) -> None:
        self.shown.append((text, newline))

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 5
        while len(self.shown) < count:
            assert time.monotonic() < deadline, f"only {self.shown} was shown"


def append(path: Path, done: int, failed: int = 0) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"done": done, "total": 9, "failed": failed}) + "\n")


def reader(path: Path, screen: Screen, is_line: bool) -> ProgressReader:
    path.touch()
    return ProgressReader(path, "read [c]", is_line, screen.show, 0.001)


def test_a_moving_line_is_rewritten_in_place_and_completed(tmp_path: Path) -> None:
    path, screen = tmp_path / "p", Screen()
    following = reader(path, screen, is_line=True)
    following.start()
    append(path, 3)
    screen.wait_for(1)
    append(path, 9, failed=2)
    following.finish()
    assert screen.shown[0] == ("\rread [c]: 3 of 9 done", False)
    assert screen.shown[-2:] == [("\rread [c]: 9 of 9 done, 2 failed", False), ("\n", False)]


def test_a_log_has_whole_lines_with_the_seconds_and_none_without_progress(tmp_path: Path) -> None:
    path, screen = tmp_path / "p", Screen()
    following = reader(path, screen, is_line=False)
    following.start()
    append(path, 3)
    screen.wait_for(1)
    following.finish()
    assert screen.shown == [("read [c]: 3 of 9 done (0 s)", True)]


def test_a_line_that_is_only_half_written_is_left_for_later(tmp_path: Path) -> None:
    path, screen = tmp_path / "p", Screen()
    following = reader(path, screen, is_line=True)
    path.write_text('{"done": 3, "tot')
    following.start()
    following.finish()
    assert screen.shown == []
