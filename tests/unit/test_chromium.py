# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installation of a browser for the report's tests; apt-get is a script here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import chromium

APT_GET = """#!/bin/sh
echo "$@" >> "$0.log"
case "$*" in *install*) touch "${0%/*}/chromium"; chmod +x "${0%/*}/chromium";; esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of programs besides the system's shell and tools, with an apt-get."""
    path = tmp_path / "apt-get"
    path.write_text(APT_GET)
    path.chmod(0o755)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "touch", "chmod"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{tools}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def test_ci_installs_the_browser_and_its_font(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    assert chromium.install() == chromium.find() == str(programs / "chromium")
    asked = (programs / "apt-get.log").read_text().splitlines()
    assert asked[0].endswith("update")
    assert asked[1].endswith("chromium fonts-inter")


@pytest.mark.parametrize("why_not", ["a person's machine", "another user", "no apt"])
def test_nothing_is_installed_elsewhere(
    programs: Path, monkeypatch: pytest.MonkeyPatch, why_not: str
) -> None:
    monkeypatch.setenv("CI", "" if why_not == "a person's machine" else "true")
    if why_not == "another user":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if why_not == "no apt":
        (programs / "apt-get").unlink()
    assert chromium.install() is None
    assert not (programs / "apt-get.log").exists()


@pytest.mark.parametrize(("ci", "result"), [("true", "failed"), ("", "skipped")])
def test_a_run_without_a_browser_says_that_no_page_was_looked_at(
    tmp_path: Path, ci: str, result: str
) -> None:
    variables = {**os.environ, "PATH": str(tmp_path), "CI": ci, "WATTWISE_MIRROR_IS_CURRENT": "1"}
    variables.pop("WATTWISE_RELEASE", None)
    noxfile = Path(os.environ["WATTWISE_REPOSITORY"]) / "noxfile.py"
    command = (sys.executable, "-m", "nox", "--no-venv", "-f", str(noxfile), "-s", "browser")
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert "no page of the report was looked at" in done.stderr
    assert (done.returncode == 0) == (result == "skipped")
