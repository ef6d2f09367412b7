# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of a timer and its service; tests/integration/test_installed_collection.py runs them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support import systemd_units

UNITS = sorted(path.name for path in systemd_units.FOLDER.iterdir())


def test_the_timer_starts_the_service_of_its_name() -> None:
    assert UNITS == ["wattwise.service", "wattwise.timer"]
    timer = systemd_units.settings("wattwise.timer")
    assert "Unit" not in timer and timer["WantedBy"] == ["timers.target"]
    assert timer["OnCalendar"] == ["*:0/5"]


def test_the_service_is_one_run_without_permissions_that_writes_to_one_folder() -> None:
    service = systemd_units.settings("wattwise.service")
    assert service["Type"] == ["oneshot"] and service["User"] == ["wattwise"]
    assert service["ProtectSystem"] == ["strict"] and service["NoNewPrivileges"] == ["true"]
    [folder] = service["WorkingDirectory"]
    assert folder == f"/var/lib/{service['StateDirectory'][0]}"
    variables = systemd_units.environment("wattwise.service")
    assert variables["HOME"] == folder and variables["ANSIBLE_HOME"].startswith(folder)
    assert f"wattwise_run_dir={folder}/runs" in systemd_units.command("wattwise.service")


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """systemd-analyze knows every setting and parses the calendar; it is not on this machine."""
    program = shutil.which("systemd-analyze")
    if program is None:
        # Containers have no systemd. The tests above check the main settings all the same.
        pytest.skip("systemd-analyze, which knows all settings, is not on PATH")
    [ansible, *_arguments] = systemd_units.command("wattwise.service")
    for name in UNITS:
        text = (systemd_units.FOLDER / name).read_text()
        (tmp_path / name).write_text(text.replace(ansible, "/bin/sh"))
    paths = [str(tmp_path / name) for name in UNITS]
    done = subprocess.run([program, "verify", *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
