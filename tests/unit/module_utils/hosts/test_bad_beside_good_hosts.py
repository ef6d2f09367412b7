# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hostile BareMetalHost, BMC or Provisioning changes nothing about the hosts beside it."""

from __future__ import annotations

import ipaddress
import json
import random
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.bare_metal_host import read_hosts
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host import Host
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.redfish_hardware import (
    host_of,
    read_hardware,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.role_assignment import assign
from support.bare_metal import bare_metal_host, nic
from support.examples import each_seed, seeds
from support.https_server import SHARED_CERTIFICATE, HttpsServer, Reply
from support.odd_values import bounded, odd_value, spoilt

GOOD = [bare_metal_host(f"good-{number}") for number in range(2)]
ALONE = read_hosts(GOOD)
BAD = bare_metal_host(
    "bad",
    labels={
        "wattwise.github.io/rack": "r1",
        "wattwise.github.io/gpus": "2",
        "feature.node.kubernetes.io/pci-0b40_8086.present": "true",
    },
    annotations={"wattwise.github.io/pci-devices": "8086:37c8"},
    spec={"consumerRef": {"kind": "Metal3Machine", "namespace": "a", "name": "b"}},
)
ENTRY: dict[str, t.Any] = {
    "name": "bad",
    "endpoint": "https://10.0.0.101",
    "manufacturer": "HPE",
    "product": "ProLiant",
    "serial_number": "1",
    "is_on": True,
    "rack": "r1",
    "processors": {"count": 8, "model": "m", "architecture": "x86_64"},
    "memory_mib": 1024,
    "network_interfaces": [
        {"name": "1", "mac": "02:00:00:00:00:01", "ip": "10.0.0.1", "pci_id": "8086:1572"}
    ],
    "disks": [{"name": "d", "size_bytes": 10**12, "kind": "NVME"}],
    "pci_devices": [{"pci_id": "8086:37c8", "name": "QAT"}],
    "has_qat": True,
    "gpus": 1,
    "sriov_enabled": False,
    "findings": [],
}


def require_checked(host: Host) -> None:
    """Every fact of any host has the required form and size."""
    for mac in host.macs:
        assert re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac)
    whole = host.hardware
    assert len(whole.network_interfaces) <= 256 and len(whole.disks or ()) <= 1024
    for port in whole.network_interfaces:
        assert port.ip is None or not ipaddress.ip_address(port.ip).is_loopback
        assert port.name.isprintable()
    for disk in whole.disks or ():
        assert disk.kind in (None, "HDD", "SSD", "NVME")
        assert disk.size_bytes is None or 0 < disk.size_bytes < 2**63
    for number in (whole.memory_mib, whole.processors.count, whole.gpus):
        assert number is None or (type(number) is int and number >= 0)
    for sentence in host.findings:
        assert sentence.isprintable() and len(sentence) < 1000
    assert len(host.findings) <= 21
    texts = [dict(host.labels), dict(host.annotations), host.state, host.error_message]
    json.dumps(texts, ensure_ascii=False).encode()


@each_seed(60)
def test_all_other_hosts_are_as_without_the_bad_one(seed: int) -> None:
    source = random.Random(seed)
    odd: t.Any = spoilt(source, BAD)
    if source.randrange(10) == 0:
        odd = source.choice([odd_value(source), {"metadata": odd_value(source)}])
    with bounded():
        hosts, findings = read_hosts([GOOD[0], odd, GOOD[1]])
    assert [host for host in hosts if host.name.startswith("good-")] == ALONE.hosts
    assert all(finding.subject.name not in ("good-0", "good-1") for finding in findings)
    for host in hosts:
        require_checked(host)


@each_seed(60)
def test_a_spoilt_host_that_was_taken_stays_taken(seed: int) -> None:
    odd = spoilt(random.Random(seed), BAD, keep=[("metadata", "name"), ("spec", "consumerRef")])
    for host in read_hosts([odd]).hosts:
        spec_is_read = isinstance(odd.get("spec"), dict)
        assert host.consumer == "Metal3Machine/a/b" if spec_is_read else host.consumer is None
        assert spec_is_read or host.operational_status == "error"


@each_seed(60)
def test_a_spoilt_result_of_redfish_is_a_checked_host(seed: int) -> None:
    odd = spoilt(random.Random(seed), ENTRY, keep=[("name",)])
    with bounded():
        require_checked(host_of(odd))


SYSTEM, CHASSIS = "/redfish/v1/Systems/1", "/redfish/v1/Chassis/1"


def ref(uri: str) -> dict[str, str]:
    return {"@odata.id": uri}


def tree() -> dict[str, t.Any]:
    """A BMC's tree with one resource of each kind."""
    lists = {
        "/redfish/v1/Systems": [SYSTEM],
        f"{SYSTEM}/Processors": [f"{SYSTEM}/Processors/1"],
        f"{SYSTEM}/Memory": [f"{SYSTEM}/Memory/1"],
        f"{SYSTEM}/EthernetInterfaces": [f"{SYSTEM}/EthernetInterfaces/1"],
        f"{SYSTEM}/Storage": [f"{SYSTEM}/Storage/1"],
        f"{CHASSIS}/NetworkAdapters": [f"{CHASSIS}/NetworkAdapters/1"],
    }
    function = {"VendorId": "0x8086", "DeviceId": "0x37c8", "ClassCode": "0x0b4000"}
    system = {
        "Manufacturer": "Dell Inc.",
        "SKU": "7XK2LM3",
        "PowerState": "On",
        "ProcessorSummary": {"Count": 1, "CoreCount": 8, "Model": "m"},
        "MemorySummary": {"TotalSystemMemoryGiB": 15.9},
        "Links": {"Chassis": [ref(CHASSIS)]},
        "PCIeFunctions": [ref(f"{SYSTEM}/PCIeFunctions/1")],
        "Bios": ref(f"{SYSTEM}/Bios"),
        "Oem": {"Hpe": {"Links": {"SmartStorage": ref(f"{SYSTEM}/SmartStorage")}}},
        **{uri.rpartition("/")[2]: ref(uri) for uri in lists if uri.startswith(SYSTEM)},
    }
    interface = {
        "MACAddress": "02:00:00:00:00:01",
        "SpeedMbps": 1000,
        "IPv4Addresses": [{"Address": "10.0.0.1"}],
    }
    adapter = {"Controllers": [{"Links": {"PCIeDevices": [ref(f"{SYSTEM}/PCIeFunctions/1")]}}]}
    bodies: dict[str, t.Any] = {
        "/redfish/v1": {"Systems": ref("/redfish/v1/Systems")},
        SYSTEM: system,
        CHASSIS: {
            "Location": {"Placement": {"Rack": "r1"}},
            "NetworkAdapters": ref(f"{CHASSIS}/NetworkAdapters"),
        },
        f"{SYSTEM}/Processors/1": {"TotalThreads": 16, "TotalCores": 8, "InstructionSet": "x86-64"},
        f"{SYSTEM}/Memory/1": {"CapacityMiB": 16384},
        f"{SYSTEM}/EthernetInterfaces/1": interface,
        f"{SYSTEM}/Storage/1": {"Drives": [ref(f"{SYSTEM}/Storage/1/Drives/1")]},
        f"{SYSTEM}/Storage/1/Drives/1": {"CapacityBytes": 10**12, "Protocol": "NVMe"},
        f"{SYSTEM}/PCIeFunctions/1": function,
        f"{SYSTEM}/Bios": {"Attributes": {"SriovGlobalEnable": "Enabled"}},
        f"{CHASSIS}/NetworkAdapters/1": adapter,
        **{uri: {"Members": [ref(item) for item in items]} for uri, items in lists.items()},
    }
    return {uri: {"@odata.id": uri, **body} for uri, body in bodies.items()}


def test_a_hostile_bmc_gives_a_checked_host_and_leaves_the_other_alone() -> None:
    good = tree()
    with HttpsServer(good) as one, HttpsServer(good) as other:
        targets = [
            {"name": name, "endpoint": server.endpoint}
            for name, server in (("bad", one), ("good", other))
        ]
        given = {"targets": targets, "tls_fingerprint": [SHARED_CERTIFICATE.fingerprint]}
        first, alone = read_hardware(given, Context())["hardware"]
        assert {**first, "name": "", "endpoint": ""} == {**alone, "name": "", "endpoint": ""}
        assert alone["has_qat"] is True and alone["memory_mib"] == 16384
        assert (alone["rack"], alone["disks"][0]["kind"]) == ("r1", "NVME")
        for seed in seeds(25):
            odd = spoilt(random.Random(seed), good, keep=[("/redfish/v1",)])
            one.documents = {
                uri: body if isinstance(body, dict) else Reply(body=body)
                for uri, body in odd.items()
            }
            with bounded():
                result = read_hardware(given, Context())
            json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
            assert result["hardware"][-1] == alone
            assert all(error["name"] == "bad" for error in result["errors"])
            for entry in result["hardware"]:
                require_checked(host_of(entry))


PROVISIONING: dict[str, t.Any] = {
    "metadata": {"name": "other", "namespace": "metal3"},
    "status": {"assignments": [{"role": "master", "label": "m", "host": "gone"}]},
}
TAKEN: dict[str, t.Any] = {
    "metadata": {"name": "third", "namespace": "metal3"},
    "status": {
        "assignments": [{"role": "master", "label": "m", "host": "good-1", "namespace": "metal3"}]
    },
}
FLEET = [
    bare_metal_host(
        f"good-{number}",
        spec={"bootMACAddress": f"02:00:00:00:01:0{number}"},
        hardware={
            "nics": [nic("eth0", f"02:00:00:00:01:0{number}", f"192.168.7.{number + 1}", pxe=True)]
        },
    )
    for number in range(3)
]


def assigned(**given: t.Any) -> dict[str, t.Any]:
    request = {"metadata": {"name": "own", "namespace": "metal3"}, "spec": {"master": {}}}
    return assign({"hosts": FLEET, "request": request, **given})


def roles(result: dict[str, t.Any]) -> list[tuple[str, str]]:
    return [(each["role"], each["host"]) for each in result["assignments"]]


@each_seed(60)
def test_an_odd_provisioning_leaves_the_assignment_and_other_reservations_alone(seed: int) -> None:
    source = random.Random(seed)
    odd: t.Any = spoilt(source, PROVISIONING)
    if source.randrange(10) == 0:
        odd = odd_value(source)
    with bounded():
        result = assigned(provisionings=[odd, TAKEN])
    assert roles(result) == roles(assigned(provisionings=[TAKEN]))
    reasons = {each["host"]: each["reason"] for each in result["unassigned"]}
    assert reasons["good-1"] == "is reserved by Provisioning metal3/third"


@pytest.mark.parametrize(
    ("metadata", "name"), [(None, "provisionings[0]"), ({"name": 5}, "provisionings[0]")]
)
def test_readable_reservations_of_an_odd_provisioning_count(metadata: t.Any, name: str) -> None:
    result = assigned(provisionings=[{**TAKEN, "metadata": metadata}])
    reasons = {each["host"]: each["reason"] for each in result["unassigned"]}
    assert reasons["good-1"] == f"is reserved by Provisioning {name}"


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"port": "22; reboot"}, "ssh.hosts.good-0.port"),
        ({"password": "x"}, "ssh.hosts.good-0.password"),
        ({"host_keys": ["no key"]}, "ssh.hosts.good-0.host_keys[0]"),
        (["root"], "ssh.hosts.good-0"),
        ("root", "ssh.hosts.good-0"),
    ],
)
def test_an_odd_ssh_entry_leaves_the_other_hosts_alone(entry: t.Any, field: str) -> None:
    warnings: list[str] = []
    request = {"spec": {"master": {"count": 1}, "worker": {}}}
    hosts = {"good-0": entry, "good-1": {"user": "ops", "port": 2222}}
    result = assign(
        {"hosts": FLEET, "request": request, "ssh": {"hosts": hosts}},
        Context(warn=warnings.append),
    )
    found = result["inventory"]["all"]["hosts"]
    assert (found["good-1"]["ansible_user"], found["good-1"]["ansible_port"]) == ("ops", 2222)
    assert (found["good-0"]["ansible_user"], found["good-0"]["ansible_port"]) == ("root", 22)
    assert [(each["name"], each["field"]) for each in result["findings"]] == [("good-0", field)]
    assert any(field in each for each in warnings)


def test_an_odd_curve_leaves_the_other_hosts_alone(tmp_path: Path) -> None:
    good = {"cpu": [0, 64], "watts": [100, 300]}
    odd = {"cpu": [8, 2], "watts": [1, 2]}
    path = str(tmp_path / "curves.json")
    curves = {"good-0": odd, "good-1": good, "good-2": {**good, "watts": [900, 950]}}
    documents.write(path, "curves", {"curves": curves})
    result = assigned(curves=path)
    assert roles(result) == [("master", "good-1"), ("worker", "good-1")]
    assert [(each["kind"], each["name"]) for each in result["findings"]] == [("Curve", "good-0")]
