# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin bare_metal_hosts on the lab's API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import bare_metal
from lab.api import Api
from lab.machines import Machine, build_machines
from lab.state import LabSettings
from support.inventory import run_inventory
from support.lab import RunningLab

SETTINGS = LabSettings(48, 8, 3, bare_metal_hosts=24)


@pytest.fixture(scope="module")
def machines(lab: RunningLab) -> Iterator[list[Machine]]:
    """The machines that have a BareMetalHost; the CRD is deleted at the end."""
    machines = build_machines(SETTINGS.nodes, SETTINGS.racks, SETTINGS.seed)
    with Api(lab.state.kubeconfig) as api:
        bare_metal.create(api, machines, SETTINGS)
        # As `up` does on a running lab.
        bare_metal.create(api, machines, SETTINGS)
        try:
            yield bare_metal.choose(machines, SETTINGS)
        finally:
            bare_metal.delete(api)


def test_the_hosts_are_the_machines_that_have_one(
    lab: RunningLab, machines: list[Machine], tmp_path: Path
) -> None:
    run = run_inventory(
        tmp_path,
        "bare_metal_hosts.yml",
        plugin="bare_metal_hosts",
        kubeconfig=lab.kubeconfig,
        namespaces=[bare_metal.NAMESPACE],
    )
    assert run.returncode == 0, run.messages
    assert "WARNING" not in run.messages
    names = sorted(machine.name for machine in machines)
    assert run.members("bare_metal_hosts") == names
    for machine in machines:
        host, built = run.hosts[machine.name], machine.hardware
        assert host["ansible_host"] == machine.internal_address
        assert host["host_boot_mac"] == built.macs[0]
        assert host["host_serial_number"] == built.serial_number
        assert host["host_processors"]["count"] == built.threads
        assert machine.name in run.members(f"rack_{machine.rack}")
    sriov = [one for one in machines if one.hardware.sriov_enabled]
    able = [one.name for one in sriov if one.hardware.adapter.virtual_functions]
    assert run.members("sriov") == sorted(able)
    assert run.members("qat") == sorted(one.name for one in machines if one.hardware.has_qat)
    assert run.members("gpu") == sorted(one.name for one in machines if one.hardware.gpus)
    states = {*run.members("state_available"), *run.members("state_provisioned")}
    assert states == set(names)
