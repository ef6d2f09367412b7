# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's BareMetalHosts follow their CRD and describe the machines."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.hosts.bare_metal_host import read_hosts
from ansible_collections.wattwise.kube.plugins.module_utils.kube.crd_schema import CrdValidator
from lab.bare_metal import DEFINITION, choose, host_object
from lab.errors import LabError
from lab.machines import build_machines
from lab.state import LabSettings

MACHINES = build_machines(200, 8, 1)
SETTINGS = LabSettings(200, 8, 1, bare_metal_hosts=100)


def test_half_of_two_hundred_machines_have_one() -> None:
    chosen = choose(MACHINES, SETTINGS)
    assert len(chosen) == len(set(chosen)) == 100
    assert chosen == choose(MACHINES, SETTINGS)
    assert chosen == sorted(chosen, key=MACHINES.index)
    assert {machine.vendor for machine in chosen} == {machine.vendor for machine in MACHINES}
    assert choose(MACHINES, LabSettings(200, 8, 1)) == []


@pytest.mark.parametrize("count", [-1, 201])
def test_a_lab_has_no_more_of_them_than_machines(count: int) -> None:
    with pytest.raises(LabError, match="0 to 200"):
        choose(MACHINES, LabSettings(200, 8, 1, bare_metal_hosts=count))


def test_they_follow_the_definition_and_are_read_as_the_machines_are_built() -> None:
    validator = CrdValidator(yaml.safe_load(DEFINITION.read_text()))
    objects = [host_object(machine, 8443) for machine in MACHINES]
    assert [problem for problem in map(validator.problem, objects) if problem] == []
    hosts, findings = read_hosts(objects)
    assert findings == []
    assert len(hosts) == len(MACHINES)
    for machine, host in zip(MACHINES, hosts, strict=True):
        built = machine.hardware
        assert (host.name, host.rack) == (machine.name, machine.rack)
        assert host.boot_mac == built.macs[0]
        assert host.macs == set(built.macs)
        assert host.hardware.processors.count == built.threads
        assert host.hardware.memory_mib == machine.memory_gib * 1024
        ports = host.hardware.network_interfaces
        assert ports[0].ip == machine.internal_address
        assert {port.can_sriov for port in ports} == {built.adapter.virtual_functions}
        assert host.hardware.sriov_enabled is built.sriov_enabled
        assert host.hardware.has_qat is (True if built.has_qat else None)
        assert host.hardware.gpus == (built.gpus or None)
        assert (host.consumer is None) == (host.state == "available")
    assert {host.operational_status for host in hosts} == {"OK", "error"}
    assert {host.state for host in hosts} == {"available", "provisioned"}


@pytest.mark.parametrize(
    "change",
    [
        {"errorType": ""},
        {"errorType": "cooling error"},
        {"errorCount": None},
        {"errorMessage": None},
        {"poweredOn": None},
        {"provisioningFailCount": None},
        {"operationalStatus": "fine"},
        {"provisioning": {"state": "available"}},
        {"hardware": {"storage": [{"name": "/dev/sda", "type": "TAPE"}]}},
    ],
)
def test_the_definition_refuses_what_metal3_refuses(change: dict[str, t.Any]) -> None:
    validator = CrdValidator(yaml.safe_load(DEFINITION.read_text()))
    given = host_object(MACHINES[0], 8443)
    assert validator.problem(given) is None
    status = {**given["status"], **change}
    given["status"] = {name: value for name, value in status.items() if value is not None}
    assert "status" in str(validator.problem(given))
