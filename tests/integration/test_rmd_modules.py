# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rmd_workload and rmd_info as tasks of a playbook, against simulated daemons."""

from __future__ import annotations

import typing as t
from pathlib import Path

from lab.rmd.host import Configuration
from support.playbook import run_playbook
from support.rmd import rmd_daemons

WORKLOAD = {"name": "a", "core_ids": [1, "2-3"], "cache": {"max": 2, "min": 2}}


def test_a_workload_from_check_mode_to_its_end(tmp_path: Path) -> None:
    configurations = {"n1": Configuration(), "n2": Configuration(wire="0.3", debug=False)}
    with rmd_daemons(tmp_path / "rmd", configurations) as daemons:
        shared = {"targets": daemons.targets, **daemons.tls}
        task = {"wattwise.kube.rmd_workload": {**shared, "workload": WORKLOAD}}
        absent = {"wattwise.kube.rmd_workload": {**shared, "workload": {"name": "a"}}}
        absent["wattwise.kube.rmd_workload"]["state"] = "absent"
        steps: list[tuple[str, dict[str, t.Any]]] = [
            ("checked", {**task, "check_mode": True, "diff": True}),
            ("made", task),
            ("again", task),
            ("read", {"wattwise.kube.rmd_info": {**shared, "gather": ["workloads"]}}),
            ("deleted", absent),
            ("still gone", absent),
        ]
        tasks = [{"name": name, **step} for name, step in steps]
        play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
        run = run_playbook([play], tmp_path, as_json=True)
    assert run.returncode == 0, run.output
    found = {name: run.results(name)[0] for name, _step in steps}
    assert {name: result["changed"] for name, result in found.items()} == {
        "checked": True, "made": True, "again": False, "read": False, "deleted": True,
        "still gone": False,
    }  # fmt: skip
    after = {"core_ids": ["1", "2-3"], "cache": {"max": 2, "min": 2}}
    assert found["checked"]["diff"][0]["after"] == {"n1: a": after, "n2: a": after}
    assert [item["cos_name"] for item in found["made"]["results"]] == ["1_2-3-guarantee", "COS2"]
    assert [item["workloads"][0]["cpus"] for item in found["read"]["daemons"]] == [[1, 2, 3]] * 2
