# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook advise, on documents of a folder and on those of a run of the lab."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from lab.inventory import CLUSTER
from support.advised_fleets import documents, node, trace
from support.lab import RunningLab
from support.playbook import PlaybookRun, run_playbook

NODES = (node("a", "new"), node("b", "middle"), node("c", "old"))


def advise(folder: Path, cluster: str, *arguments: str) -> PlaybookRun:
    inventory = folder / "inventory.yml"
    hosts = {"hosts": {cluster: {"wattwise_run_dir": str(folder)}}}
    inventory.write_text(json.dumps({"clusters": hosts}))
    return run_playbook(
        "wattwise.kube.advise", folder, "-i", str(inventory), *arguments, as_json=True
    )


@pytest.mark.parametrize("arguments", [(), ("--check", "--diff")])
def test_the_playbook_writes_page_and_document(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    folder = tmp_path / "hall-1"
    folder.mkdir()
    documents(folder, NODES)
    demand = trace(tmp_path, (0, 24, 20000, 1024))
    done = advise(tmp_path, "hall-1", "-e", f"advise_trace={demand}", *arguments)
    assert done.returncode == 0, done.output
    assert done.stats()["hall-1"]["changed"] == 0
    [said] = done.results("Say which machines could be retired")
    assert said["msg"][0].startswith("2 of 3 machines could be retired, which saves ")
    for name in ("advice.html", "advice.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_without_demand_the_error_names_both_options(tmp_path: Path) -> None:
    folder = tmp_path / "hall-1"
    folder.mkdir()
    documents(folder, NODES)
    done = advise(tmp_path, "hall-1")
    assert done.returncode != 0
    assert "one of the following is required: trace, prometheus" in done.output


def test_the_lab_needs_few_of_its_machines(whole_lab: RunningLab, tmp_path: Path) -> None:
    """Its nodes, and power curves of its predictor, under demand for one machine.

    The folder is empty, as in a job container, so that the playbook observes first.
    """
    demand = trace(tmp_path, (0, 2, 2000, 1024), (1, 2, 1000, 512))
    done = run_playbook(
        "wattwise.kube.advise",
        tmp_path,
        *("-i", str(whole_lab.state.inventory)),
        *("-e", f"wattwise_run_dir={tmp_path}", "-e", f"advise_trace={demand}"),
        as_json=True,
    )
    assert done.returncode == 0, done.output
    found = json.loads((tmp_path / CLUSTER / "advice.json").read_text())
    machines = [each["name"] for each in found["machines"]]
    assert len(machines) > 1
    retired = [each["name"] for each in found["retirement"]]
    assert set(retired) < set(machines)
    assert len(retired) == len(machines) - 1
    assert all(each["kwh_a_year"] > 0 for each in found["retirement"])
