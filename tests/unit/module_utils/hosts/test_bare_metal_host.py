# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BareMetalHosts as hosts: used facts, and the handling of broken ones."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.hosts.bare_metal_host import (
    HARDWARE_DETAILS,
    read_hosts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host import Host
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.hardware import pci
from support.bare_metal import GIB, bare_metal_host, hardware, nic

NFD = "feature.node.kubernetes.io/"


def host(**parts: t.Any) -> Host:
    [found], _findings = read_hosts([bare_metal_host(**parts)])
    return found


def sriov(found: Host) -> list[bool | None]:
    return [port.can_sriov for port in found.hardware.network_interfaces]


def test_everything_that_inspection_writes() -> None:
    found = host(labels={"wattwise.github.io/rack": "r1"})
    assert (found.name, found.namespace, found.uid, found.resource_version) == (
        *("host-1", "metal3"),
        *("uid-host-1", "7"),
    )
    assert (found.state, found.operational_status, found.is_online) == ("available", "OK", True)
    assert found.boot_mac == "08:00:27:00:ab:2c"
    assert found.macs == {"08:00:27:00:ab:2c", "08:00:27:00:ab:1c"}
    assert found.bmc_address == "redfish-virtualmedia://10.0.0.101/redfish/v1/Systems/1"
    assert (found.bmc_credentials_name, found.user_data_secret) == (
        "host-1-bmc",
        "host-1-user-data",
    )
    assert (found.rack, found.consumer, found.findings) == ("r1", None, ())
    whole = found.hardware
    assert (whole.processors.count, whole.processors.architecture) == (64, "x86_64")
    assert whole.processors.flags == frozenset({"aes", "vmx", "avx512f"})
    assert whole.memory_mib == 196608
    first = whole.network_interfaces[0]
    assert (first.name, first.ip, first.pci_id, first.boots, first.can_sriov, first.gigabits) == (
        *("eth3", "192.168.50.63", "8086:1572"),
        *(True, True, None),
    )
    assert [(disk.name, disk.size_bytes, disk.kind) for disk in whole.disks or ()] == [
        ("/dev/sda", 480 * GIB, "SSD"),
        ("/dev/sdb", 4000 * GIB, "HDD"),
    ]
    assert whole.sriov_enabled is True
    assert (whole.manufacturer, whole.serial_number) == ("Dell Inc.", "7XK2LM3")


def test_what_nobody_told_is_not_known() -> None:
    bare = {"metadata": {"name": "new"}, "spec": {"online": True}}
    [found], findings = read_hosts([bare])
    assert findings == []
    assert found.hardware == type(found.hardware)()
    assert (found.boot_mac, found.rack, found.is_online, found.consumer) == (None,) * 4
    # Inspection does not see the PCI bus.
    assert (host().hardware.has_qat, host().hardware.gpus, host().hardware.pci_devices) == (
        *(None, None),
        None,
    )


def test_hardware_of_an_inspection_elsewhere_counts_where_there_is_no_other() -> None:
    details = {HARDWARE_DETAILS: json.dumps({**hardware(), "ramMebibytes": 1024})}
    alone = host(annotations=details, status={"hardware": None})
    assert alone.hardware.memory_mib == 1024
    assert HARDWARE_DETAILS not in alone.annotations
    assert host(annotations=details).hardware.memory_mib == 196608
    broken = host(annotations={HARDWARE_DETAILS: "{"}, status={"hardware": None})
    assert broken.hardware.memory_mib is None
    assert HARDWARE_DETAILS in broken.findings[0]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({f"{NFD}pci-0b40_8086.present": "true"}, {"has_qat": True}),
        ({f"{NFD}pci-0b40_8086_37c8.present": "true"}, {"has_qat": True}),
        ({f"{NFD}pci-0b40_8086_1111.present": "true"}, {"has_qat": None}),
        ({f"{NFD}pci-0200_8086.present": "true"}, {"has_qat": None, "gpus": None}),
        ({"intel.feature.node.kubernetes.io/qat": "true"}, {"has_qat": True}),
        ({f"{NFD}pci-0302_10de.present": "true"}, {"gpus": 1}),
        ({f"{NFD}pci-0300_1a03.present": "true"}, {"gpus": None}),
        ({f"{NFD}pci-0302_10de.present": "true", "nvidia.com/gpu.count": "8"}, {"gpus": 8}),
        ({"wattwise.github.io/qat": "true"}, {"has_qat": True}),
        (
            {"wattwise.github.io/qat": "false", f"{NFD}pci-0b40_8086.present": "true"},
            {"has_qat": False},
        ),
        ({"wattwise.github.io/gpus": "0", f"{NFD}pci-0302_10de.present": "true"}, {"gpus": 0}),
        ({"wattwise.github.io/gpus": "-1"}, {"gpus": None}),
        ({"wattwise.github.io/sriov": "false"}, {"sriov_enabled": False}),
        ({"wattwise.github.io/sriov": "maybe"}, {"sriov_enabled": True}),
    ],
)
def test_labels_tell_what_inspection_does_not_see(
    labels: dict[str, str], expected: dict[str, t.Any]
) -> None:
    found = host(labels=labels).hardware
    assert {name: getattr(found, name) for name in expected} == expected


def test_flags_that_nfd_saw_are_added() -> None:
    found = host(labels={f"{NFD}cpu-cpuid.AMXTILE": "true", f"{NFD}cpu-cpuid.SGX": "false"})
    assert found.hardware.processors.flags == frozenset({"aes", "vmx", "avx512f", "amxtile"})


def test_an_annotation_lists_the_pci_bus() -> None:
    listed = host(annotations={"wattwise.github.io/pci-devices": "8086:37c8, 0x10de 0x20b5"})
    assert [device.pci_id for device in listed.hardware.pci_devices or ()] == [
        "8086:37c8",
        "10de:20b5",
    ]
    assert listed.hardware.has_qat is True
    without = host(annotations={"wattwise.github.io/pci-devices": "10de:20b5"})
    assert without.hardware.has_qat is False
    wrong = host(annotations={"wattwise.github.io/pci-devices": "8086:37c8, <id>"})
    assert wrong.hardware.pci_devices is None
    assert "'<id>'" in wrong.findings[0]


def test_sriov_is_of_the_adapter_and_labels_of_the_host() -> None:
    unknown = {"nics": [nic("a", "02:00:00:00:00:01", None, model="Mystery 9000")]}
    assert sriov(host(hardware=unknown)) == [None]
    assert sriov(host(hardware=unknown, labels={f"{NFD}network-sriov.capable": "true"})) == [True]
    assert sriov(host(hardware=unknown, labels={f"{NFD}pci-0200_8086.sriov.capable": "true"})) == [
        True
    ]
    assert sriov(host(hardware=unknown, labels={"wattwise.github.io/sriov": "true"})) == [True]
    without = {"nics": [nic("a", "02:00:00:00:00:01", None, model="0x8086 0x1533")]}
    assert sriov(host(hardware=without)) == [False]
    assert sriov(host(hardware=without, labels={f"{NFD}network-sriov.capable": "true"})) == [False]
    assert sriov(host(hardware=without, labels={"wattwise.github.io/sriov": "true"})) == [True]
    assert sriov(host(labels={"wattwise.github.io/sriov": "false"})) == [False, False]
    none = host(hardware={"nics": []}, labels={"wattwise.github.io/sriov": "true"})
    assert none.findings == (
        "wattwise.github.io/sriov: no network interface is known to which it could apply",
    )


def test_a_port_with_two_addresses_is_one_port() -> None:
    mac = "02:00:00:00:00:01"
    found = host(hardware={"nics": [nic("a", mac, "fd00::1"), nic("a", mac, "10.0.0.7")]})
    assert [port.ip for port in found.hardware.network_interfaces] == ["10.0.0.7"]


def test_an_address_of_one_link_replaces_none_that_others_reach() -> None:
    mac = "02:00:00:00:00:01"
    for first, second in (("2001:db8::1", "fe80::1"), ("169.254.0.1", "2001:db8::1")):
        found = host(hardware={"nics": [nic("a", mac, first), nic("a", mac, second)]})
        assert [port.ip for port in found.hardware.network_interfaces] == ["2001:db8::1"]


def test_user_data_of_another_namespace_is_not_read() -> None:
    found = host(spec={"userData": {"name": "data", "namespace": "other"}})
    assert found.user_data_secret is None
    assert found.findings[0].startswith("spec.userData.namespace: 'other' is not the namespace")
    assert host(spec={"userData": {"name": "data", "namespace": "metal3"}}).user_data_secret


@pytest.mark.parametrize(
    "mac",
    [
        *("<pn4-IF2-mac>", "08:00:27:00:ab", "08:00:27:00:ab:2g", "08:00-27:00:ab:2c", ""),
        *("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", 8, ["a"], None),
        "08:00:27:00:ab:2c\n-o",
    ],
)
def test_what_is_no_mac_address_names_no_host(mac: t.Any) -> None:
    found = host(spec={"bootMACAddress": mac}, hardware={"nics": [nic("a", mac, "10.0.0.7")]})
    assert found.macs == frozenset()
    assert found.hardware.network_interfaces[0].ip == "10.0.0.7"
    assert bool(found.findings) == (mac not in ("", None))


@pytest.mark.parametrize("mac", ["0C-42-A1-00-00-01", "0c42a1000001", " 0C:42:A1:00:00:01 "])
def test_mac_addresses_are_compared_in_one_form(mac: str) -> None:
    assert host(spec={"bootMACAddress": mac}).boot_mac == "0c:42:a1:00:00:01"


@pytest.mark.parametrize(
    "ip", ["-oProxyCommand=id", "127.0.0.1", "::1", "10.0.0.300", "fe80::1%eth0", 7, "0.0.0.0"]
)
def test_what_is_no_address_of_another_machine_is_a_finding(ip: t.Any) -> None:
    found = host(hardware={"nics": [nic("a", "02:00:00:00:00:01", ip)]})
    assert found.hardware.network_interfaces[0].ip is None
    assert found.findings[0].startswith("status.hardware.nics[0].ip: ")


def test_a_host_without_an_address_has_no_finding() -> None:
    assert host(hardware={"nics": [nic("a", "02:00:00:00:00:01", None)]}).findings == ()


@pytest.mark.parametrize(
    ("parts", "field", "expected"),
    [
        ({"spec": {"consumerRef": "mine"}}, "consumer", "unreadable"),
        ({"spec": {"consumerRef": {}}}, "consumer", "//"),
        (
            {"spec": {"consumerRef": {"kind": "Metal3Machine", "namespace": "a", "name": "b"}}},
            *("consumer", "Metal3Machine/a/b"),
        ),
        ({"status": {"operationalStatus": ["OK"]}}, "operational_status", "error"),
        ({"status": {"provisioning": "available"}}, "state", "unreadable"),
        (
            {"annotations": {"baremetalhost.metal3.io/detached": "{}"}},
            *("operational_status", "detached"),
        ),
    ],
)
def test_what_decides_whether_a_host_is_free_never_turns_to_free(
    parts: dict[str, t.Any], field: str, expected: str
) -> None:
    assert getattr(host(**parts), field) == expected


def test_huge_lists_are_cut_and_said() -> None:
    many = [nic(f"eth{number}", "x", None) for number in range(100_000)]
    found = host(hardware={"nics": many, "storage": [{}] * 100_000})
    assert len(found.hardware.network_interfaces) == 256
    assert len(found.hardware.disks or ()) == 1024
    assert "only the first 256 of 100000 entries are read" in found.findings[0]
    assert len(found.findings) <= 21


def test_an_object_without_a_usable_name_is_no_host() -> None:
    good = bare_metal_host("good")
    names: list[t.Any] = [None, "../x", "A B", 7, "localhost/x"]
    bad = [{**good, "metadata": {**good["metadata"], "name": name}} for name in names]
    hosts, findings = read_hosts([*bad, good, "text", None])
    assert [found.name for found in hosts] == ["good"]
    assert len(findings) == len(names) + 2


def test_an_address_of_a_bmc_holds_no_password() -> None:
    address = "redfish://root:s3cr3t@10.0.0.1/redfish/v1/Systems/1"
    found = host(spec={"bmc": {"address": address}})
    assert found.bmc_address == "redfish://10.0.0.1/redfish/v1/Systems/1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x8086 0x1572", "8086:1572"),
        ("8086:37C8", "8086:37c8"),
        ("Intel X710", None),
        ("0x8086", None),
        ("0x8086 0x1572 0x0001", None),
        (None, None),
    ],
)
def test_pci_identifiers_in_texts(text: t.Any, expected: str | None) -> None:
    assert pci.pci_id(text) == expected


@pytest.mark.parametrize(
    ("vendor", "device", "expected"),
    [
        ("0x8086", "0x1572", "8086:1572"),
        ("8086", "1572", "8086:1572"),
        (32902, 5490, "8086:1572"),
        ("0xffff", "0xffff", None),
        ("0x0000", "0x0000", None),
        (True, 1, None),
        ("0x12345", "1", None),
        (-1, 1, None),
    ],
)
def test_pci_identifiers_in_two_values(vendor: t.Any, device: t.Any, expected: str | None) -> None:
    assert pci.pci_id_of(vendor, device) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *(("0x020000", "020000"), ("0x0b40", "0b4000"), ("12", "120000"), (0x030200, "030200")),
        *(("", ""), (None, ""), ("network", ""), ("0x0200000000", ""), (-1, "")),
    ],
)
def test_classes_of_pci_devices(value: t.Any, expected: str) -> None:
    assert pci.class_code(value) == expected


@pytest.mark.parametrize("device", ["0434", "0435", "37c8", "6f54", "19e2"])
def test_the_devices_that_kud_takes_for_quick_assist(device: str) -> None:
    assert pci.is_quick_assist(f"8086:{device}")
    assert not pci.is_quick_assist(f"10de:{device}")
