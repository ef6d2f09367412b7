# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""redfish_power on the lab: machines by their NodeConfigs, with the Secret that may switch."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import faults
from lab.machines import Machine, build_machines
from support.lab import RunningLab
from support.playbook import run_playbook

Json = dict[str, t.Any]
# Not of a BMC that refuses to switch on for a minute after a power-off.
VENDORS = ("lenovo", "openbmc")
QUICK = {"boot": 0.2, "power_on": 0.1, "shutdown": 0.1, "force_off": 0.1}


@pytest.fixture
def configured(whole_lab: RunningLab, tmp_path: Path) -> Iterator[RunningLab]:
    """The lab with its NodeConfigs, and machines that switch quickly."""
    arguments = ("-i", str(whole_lab.state.inventory), "-e", f"wattwise_run_dir={tmp_path}")
    run = run_playbook("wattwise.kube.site", tmp_path, *arguments, "--tags", "crds,node_configs")
    assert run.returncode == 0, run.output
    nodes = [machine.name for machine in chosen(whole_lab)]
    usual = faults.call(whole_lab.settings, "GET", "/power")
    faults.call(whole_lab.settings, "PUT", "/power", dict.fromkeys(nodes, QUICK))
    yield whole_lab
    times = {node: {name: usual[node][name] for name in QUICK} for node in nodes}
    faults.call(whole_lab.settings, "PUT", "/power", times)


def chosen(lab: RunningLab) -> list[Machine]:
    """One machine of each vendor, in the order of their names."""
    machines = build_machines(lab.settings.nodes, lab.settings.racks, lab.settings.seed)
    firsts = [next(one for one in machines if one.vendor == vendor) for vendor in VENDORS]
    return sorted(firsts, key=lambda machine: machine.name)


def test_nodes_are_switched_by_the_secret_of_their_annotation(
    configured: RunningLab, tmp_path: Path
) -> None:
    nodes = [machine.name for machine in chosen(configured)]
    snapshot = str(tmp_path / "snapshot.json")
    shared = {
        "snapshot": snapshot,
        "node_selector": f"kubernetes.io/hostname in ({','.join(nodes)})",
        "ca_path": str(configured.state.ca_certificate),
        "timeout": 60,
    }
    include = ["node_configs", "bare_metal_hosts"]
    tasks: list[Json] = [
        {
            "name": "snapshot",
            "wattwise.kube.fleet_snapshot_info": {"path": snapshot, "include": include},
        },
        {"name": "off", "wattwise.kube.redfish_power": {**shared, "state": "off"}},
        {"name": "states", "wattwise.kube.redfish_power_info": shared},
        {"name": "on", "wattwise.kube.redfish_power": {**shared, "state": "on"}},
    ]
    play = {
        "hosts": "c",
        "connection": "local",
        "gather_facts": False,
        "module_defaults": {"group/wattwise.kube.wattwise": {"kubeconfig": configured.kubeconfig}},
        "tasks": tasks,
    }
    run = run_playbook([play], tmp_path, "-i", "c,", as_json=True)
    assert run.returncode == 0, run.output
    [off], [states], [on] = (run.results(name) for name in ("off", "states", "on"))
    assert [entry["name"] for entry in off["results"]] == nodes
    assert [state["power_state"] for state in states["states"]] == ["Off", "Off"]
    assert [entry["action"] for entry in on["results"]] == ["switched_on", "switched_on"]
    assert off["errors"] == states["errors"] == on["errors"] == []
    for machine in chosen(configured):
        assert machine.power_password not in run.output
        assert machine.bmc_password not in run.output
