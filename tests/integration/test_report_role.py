# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role and playbook report, and their module fleet_report, on documents in a folder."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from support.playbook import PlaybookRun, run_playbook
from support.report_documents import Case, write

# Braces would be evaluated if Ansible took what the cluster says for a template.
HOSTILE = "-{{ 6 * 7 }}{% raw %}<script>"


def play(folder: Path, *arguments: str, as_json: bool = False) -> PlaybookRun:
    inventory = folder / "inventory.yml"
    clusters = {"hosts": {"hall-1": {"wattwise_run_dir": str(folder)}}}
    inventory.write_text(json.dumps({"clusters": clusters}))
    return run_playbook(
        "wattwise.kube.report", folder, "-i", str(inventory), *arguments, as_json=as_json
    )


@pytest.mark.parametrize("arguments", [(), ("--check", "--diff")])
def test_page_data_and_summary_are_written_and_nothing_is_changed(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    folder = write(tmp_path / "hall-1", Case(suffix=HOSTILE))
    done = play(tmp_path, *arguments, as_json=True)
    assert done.returncode == 0, done.output
    assert done.stats()["hall-1"]["changed"] == 0
    [said] = done.results("Say what the fleet draws")
    summary = json.loads((folder / "summary.json").read_text())
    assert said["msg"] == summary["lines"]
    assert summary["report"] == str(folder / "report.html")
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>\n")
    assert page.endswith("</html>\n")
    assert "r1-n01-{{ 6 * 7 }}{% raw %}&lt;script&gt;" in page
    for name in ("report.html", "report.json", "summary.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_equal_documents_give_equal_files_and_the_page_goes_where_it_is_wanted(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "hall-1")
    wanted = tmp_path / "index.html"
    assert play(tmp_path).returncode == 0
    before = (folder / "report.html").read_bytes()
    assert play(tmp_path, "-e", f"report_path={wanted}").returncode == 0
    assert wanted.read_bytes() == before


def test_a_folder_without_documents_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "hall-1").mkdir()
    done = play(tmp_path)
    assert done.returncode != 0
    assert "There is nothing to report in" in done.output
    assert "run wattwise.kube.observe" in done.output
    assert "Traceback" not in done.output
