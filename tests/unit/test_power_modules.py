# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""redfish_power, redfish_power_info and redfish_power_limit as tasks of a play."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.embedded import embedded_lab
from support.playbook import run_playbook
from support.power_switching import SwitchedLab

Json = dict[str, t.Any]
QUICK = {"boot": 0.2, "power_on": 0.1, "shutdown": 0.1, "force_off": 0.1}


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab")) as running:
        running.admin("PUT", "/power", {machine.name: QUICK for machine in running.machines})
        yield SwitchedLab(running)


def test_a_play_switches_and_limits_and_its_second_run_changes_nothing(
    lab: SwitchedLab, tmp_path: Path
) -> None:
    machines = [lab.machine("lenovo"), lab.machine("idrac9")]
    lab.trouble(lab.machine("hpe"), "dead-bmc")
    shared = lab.parameters(*machines, lab.machine("hpe"))
    for_reading = [
        {name: value for name, value in one.items() if name != "power_credential"}
        for one in shared["targets"]
    ]

    def task(name: str, module: str, arguments: Json, **more: t.Any) -> Json:
        return {"name": name, f"wattwise.kube.{module}": {**shared, **arguments}, **more}

    off = {"state": "off", "timeout": 60}
    tasks = [
        task("limits", "redfish_power_limit", {"limit_watts": 400}),
        task("trial", "redfish_power", off, check_mode=True, diff=True),
        task("off", "redfish_power", off),
        task("again", "redfish_power", off),
        task("states", "redfish_power_info", {"targets": for_reading}),
    ]
    play = [{"hosts": "c", "connection": "local", "gather_facts": False, "tasks": tasks}]
    run = run_playbook(play, tmp_path, "-i", "c,", as_json=True)
    assert run.returncode == 0, run.output
    [limits], [trial], [switched], [again], [states] = (
        run.results(name) for name in ("limits", "trial", "off", "again", "states")
    )
    assert [entry["limit_watts"] for entry in limits["limits"]] == [400, 400]
    assert (trial["changed"], switched["changed"], again["changed"]) == (True, True, False)
    assert trial["diff"][0]["after"] == {machine.name: "Off" for machine in machines}
    assert [entry["power_state"] for entry in states["states"]] == ["Off", "Off"]
    assert all(len(result["errors"]) == 1 for result in (limits, trial, switched, again, states))
    assert [lab.power(machine)["resets"] for machine in machines] == [["GracefulShutdown"]] * 2
    for machine in machines:
        assert machine.power_password not in run.output
        assert machine.bmc_password not in run.output
