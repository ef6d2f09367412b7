# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""redfish_hardware_info's function: six vendors' trees over TLS, and trees with defects."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.redfish_hardware import (
    SPEC,
    host_of,
    read_hardware,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.redfish_hardware import (
    read as read_targets,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import PollTarget
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.hardware import facts
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.hardware.walk import Bus
from lab.bmc.vendors import TREES
from lab.embedded import EmbeddedLab, embedded_lab
from lab.machines import Machine
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, Reply

VENDORS = sorted(TREES)
NODES = 24
LIST_THE_BUS = ("idrac9", "idrac10")
TELL_THE_RACK = ("idrac9", "idrac10", "hpe", "lenovo")
Result = dict[str, t.Any]

ROOT, SYSTEM = "/redfish/v1", "/redfish/v1/Systems/1"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab"), nodes=NODES) as running:
        yield running


@pytest.fixture(scope="module")
def machines(lab: EmbeddedLab) -> list[Machine]:
    return [machine for machine in lab.machines if machine.certificate == "lab-ca"]


@pytest.fixture(scope="module")
def read_once(lab: EmbeddedLab, machines: list[Machine]) -> Result:
    return read_hardware(parameters(lab, machines), Context())


def parameters(lab: EmbeddedLab, machines: t.Sequence[Machine], **more: t.Any) -> Result:
    targets = [
        {
            "name": machine.name,
            "endpoint": lab.endpoint(machine),
            "username": machine.bmc_username,
            "password": machine.bmc_password,
        }
        for machine in machines
    ]
    return {"targets": targets, "ca_path": str(lab.ca_path), "timeout": 60, **more}


@pytest.mark.parametrize("vendor", VENDORS)
def test_each_vendor_s_hosts_are_what_they_are_built_of(
    read_once: Result, machines: list[Machine], vendor: str
) -> None:
    assert read_once["errors"] == []
    entries = {entry["name"]: entry for entry in read_once["hardware"]}
    chosen = [machine for machine in machines if machine.vendor == vendor]
    assert chosen
    for machine in chosen:
        entry, built = entries[machine.name], machine.hardware
        assert entry["findings"] == []
        assert entry["product"] == machine.model
        assert entry["serial_number"] == built.serial_number
        assert entry["is_on"] is True
        assert entry["rack"] == (machine.rack if vendor in TELL_THE_RACK else None)
        assert entry["processors"]["count"] == built.threads
        assert entry["processors"]["cores"] == machine.cores
        architecture = "aarch64" if machine.architecture == "arm64" else "x86_64"
        assert entry["processors"]["architecture"] == architecture
        assert entry["memory_mib"] == machine.memory_gib * 1024
        ports = entry["network_interfaces"]
        assert [port["mac"] for port in ports] == list(built.macs)
        assert {port["pci_id"] for port in ports} == {built.adapter.pci_id}
        assert {port["can_sriov"] for port in ports} == {built.adapter.virtual_functions}
        assert [(disk["kind"], disk["size_bytes"] // 2**20) for disk in entry["disks"]] == [
            (drive.kind, drive.size_bytes // 2**20) for drive in built.drives
        ]
        assert entry["gpus"] == built.gpus
        no_qat = False if vendor in LIST_THE_BUS else None
        assert entry["has_qat"] is (True if built.has_qat else no_qat)
        assert entry["sriov_enabled"] is (None if vendor == "openbmc" else built.sriov_enabled)


def test_the_machines_differ_in_everything_that_is_told(machines: list[Machine]) -> None:
    built = [machine.hardware for machine in machines]
    assert {item.has_qat for item in built} == {item.sriov_enabled for item in built}
    assert {item.gpus for item in built} >= {0, 1}
    assert {item.adapter.virtual_functions for item in built} == {True, False}
    assert len({mac for item in built for mac in item.macs}) == 2 * len(built)


def test_a_host_is_made_of_the_result(read_once: Result, machines: list[Machine]) -> None:
    [machine] = [item for item in machines if item.vendor == "idrac9"][:1]
    [entry] = [item for item in read_once["hardware"] if item["name"] == machine.name]
    # Results are stored in files on their way.
    host = host_of(json.loads(json.dumps(entry)))
    assert (host.name, host.source, host.bmc_address) == (
        *(machine.name, "Redfish"),
        entry["endpoint"],
    )
    assert host.macs == set(machine.hardware.macs)
    assert host.boot_mac == machine.hardware.macs[0]
    assert host.rack == machine.rack
    assert host.hardware.processors.count == machine.hardware.threads
    assert host.hardware.gpus == machine.hardware.gpus
    assert host.hardware.has_qat is machine.hardware.has_qat
    assert (host.is_online, host.findings) == (True, ())


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"kind": "dead-bmc"}, "unreachable"),
        ({"kind": "unauthorized"}, "unauthorized"),
        ({"kind": "malformed-json"}, "malformed"),
        ({"kind": "slow-bmc", "seconds": 60}, "timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["kind"],
)
def test_a_broken_bmc_is_one_error_and_leaves_the_others_alone(
    lab: EmbeddedLab, machines: list[Machine], read_once: Result, fault: Result, reason: str
) -> None:
    broken, other = machines[:2]
    lab.admin("POST", "/faults", [{**fault, "node": broken.name}])
    try:
        given = parameters(lab, [broken, other], timeout=2, min_success=0.6)
        with pytest.raises(WattwiseError, match=f"Only 1 of 2 .* {broken.name}") as caught:
            read_hardware(given, Context())
    finally:
        lab.admin("DELETE", "/faults")
    result = caught.value.fields
    assert [(error["name"], error["reason"]) for error in result["errors"]] == [
        (broken.name, reason)
    ]
    [entry] = result["hardware"]
    assert entry == next(one for one in read_once["hardware"] if one["name"] == other.name)


def test_each_bmc_is_asked_in_turn_over_one_connection(
    lab: EmbeddedLab, machines: list[Machine]
) -> None:
    lab.admin("DELETE", "/requests")
    # Not the machine whose abandoned requests may still be in flight.
    latest = machines[::-1]
    chosen = [next(item for item in latest if item.vendor == vendor) for vendor in VENDORS]
    read_hardware(parameters(lab, chosen), Context())
    traffic = lab.admin("GET", "/requests")["nodes"]
    for machine in chosen:
        assert traffic[machine.name]["peak_in_flight"] == 1
        assert traffic[machine.name]["requests"] <= 60


def ref(uri: str) -> Result:
    return {"@odata.id": uri}


def listed(uri: str, **members: Document) -> dict[str, Document]:
    """A collection with its members."""
    entries = {f"{uri}/{name}": body for name, body in members.items()}
    return {uri: {"@odata.id": uri, "Members": [ref(path) for path in entries]}, **entries}


def read(documents: dict[str, Document], **system: t.Any) -> Result:
    """The result for one BMC whose system has these properties."""
    tree: dict[str, Document] = {
        ROOT: {"@odata.id": ROOT, "Systems": ref(f"{ROOT}/Systems")},
        **listed(f"{ROOT}/Systems", **{"1": {"@odata.id": SYSTEM, **system}}),
        **documents,
    }
    with HttpsServer(tree) as server:
        target = {"name": "host-1", "endpoint": server.endpoint}
        pins = [SHARED_CERTIFICATE.fingerprint]
        return read_hardware({"targets": [target], "tls_fingerprint": pins}, Context())


def test_a_system_that_tells_nothing_has_unknown_hardware() -> None:
    result = read({})
    [entry] = result["hardware"]
    assert result["errors"] == []
    told = ("name", "endpoint", "system_uri", "network_interfaces", "processors", "findings")
    assert {key: value for key, value in entry.items() if key not in told} == dict.fromkeys(
        entry.keys() - set(told)
    )
    assert set(entry["processors"].values()) == {None}
    assert host_of(entry).hardware == type(host_of(entry).hardware)()


def test_a_resource_out_of_order_leaves_its_facts_unknown_and_is_an_error() -> None:
    processors = listed(
        f"{SYSTEM}/Processors",
        one={"TotalThreads": 64, "TotalCores": 32},
        two=Reply(500),
    )
    result = read(
        processors,
        Processors=ref(f"{SYSTEM}/Processors"),
        MemorySummary={"TotalSystemMemoryGiB": 64},
    )
    [entry], [error] = result["hardware"], result["errors"]
    assert entry["processors"]["count"] is None
    assert entry["memory_mib"] == 65536
    assert error["reason"] == "server_error"
    assert "Processors/two" in error["detail"]


def test_a_port_has_addresses_of_both_versions() -> None:
    interfaces = listed(
        f"{SYSTEM}/EthernetInterfaces",
        a={
            "MACAddress": "02:00:00:00:00:01",
            "IPv4Addresses": [{"Address": "10.0.0.1"}],
            "IPv6Addresses": [{"Address": "fe80::1"}, {"Address": "2001:db8::1"}],
        },
        b={"MACAddress": "02:00:00:00:00:02", "IPv6Addresses": [{"Address": "2001:db8::2"}]},
    )
    [entry] = read(interfaces, EthernetInterfaces=ref(f"{SYSTEM}/EthernetInterfaces"))["hardware"]
    ports = [(port["ip"], port["ip6"]) for port in entry["network_interfaces"]]
    assert ports == [("10.0.0.1", "2001:db8::1"), ("2001:db8::2", None)]
    read_back = host_of(entry).hardware.network_interfaces
    assert [(port.ip, port.ip6) for port in read_back] == ports


def test_hostile_values_are_findings() -> None:
    interfaces = listed(
        f"{SYSTEM}/EthernetInterfaces",
        a={"MACAddress": "{{ lookup('pipe', 'id') }}"},
        b={"MACAddress": "02:00:00:00:00:01", "IPv4Addresses": [{"Address": "-oProxyCommand=id"}]},
        c={"MACAddress": "02:00:00:00:00:02", "SpeedMbps": "1e999", "Id": "\u202eevil"},
        d={"MACAddress": ["x"] * 1000},
    )
    result = read(interfaces, EthernetInterfaces=ref(f"{SYSTEM}/EthernetInterfaces"))
    [entry] = result["hardware"]
    assert {port["mac"] for port in entry["network_interfaces"]} == {
        "02:00:00:00:00:01",
        "02:00:00:00:00:02",
    }
    assert all(port["ip"] is None for port in entry["network_interfaces"])
    assert all(port["name"].isprintable() for port in entry["network_interfaces"])
    assert len(entry["findings"]) == 3


def test_a_bus_beyond_its_limit_is_not_known_whole() -> None:
    bus = Bus()
    bridge = {"VendorId": "0x8086", "DeviceId": "0x1572", "ClassCode": "0x060400"}
    for number in range(facts.MAX_PCI_DEVICES + 1):
        assert bus.is_complete
        for _again in range(2):
            bus.add(f"/f/{number}", "/d", bridge)
    assert len(bus.functions) == facts.MAX_PCI_DEVICES
    assert not bus.is_complete and not bus.is_whole


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"SriovGlobalEnable": "Enabled"}, True),
        ({"Sriov": "Disabled"}, False),
        ({"DevicesandIOPorts_SRIOV": "Enable"}, True),
        ({"DevicesandIOPorts.SRIOV": "Disable"}, False),
        ({"SR_IOVSupport_002B": "Enabled"}, True),
        ({"SR-IOVSupport": "Disabled"}, False),
        ({"SriovSlot3": "Enabled"}, None),
        ({"SriovGlobalEnable": "Auto"}, None),
        ({"SriovGlobalEnable": {"a": 1}}, None),
        ("none", None),
    ],
)
def test_the_switch_in_the_bios_of_each_vendor(attributes: t.Any, expected: bool | None) -> None:
    result = read({f"{SYSTEM}/Bios": {"Attributes": attributes}}, Bios=ref(f"{SYSTEM}/Bios"))
    assert result["hardware"][0]["sriov_enabled"] is expected


def test_accelerators_and_memory_as_hgx_and_older_firmware_have_them() -> None:
    memory = listed(
        f"{SYSTEM}/Memory",
        one={"CapacityMiB": 32768},
        two={"CapacityMiB": 32768},
        three={"Status": {"State": "Absent"}, "CapacityMiB": 32768},
        four={"CapacityMiB": 0},
    )
    board = "/redfish/v1/Systems/HGX_Baseboard_0"
    gpu = {"ProcessorType": "GPU"}
    tree: dict[str, Document] = {
        **memory,
        **listed(f"{board}/Processors", one=gpu, two=gpu),
        board: {
            "@odata.id": board,
            "SystemType": "Physical",
            "Processors": ref(f"{board}/Processors"),
        },
        f"{ROOT}/Systems": {"Members": [ref(board), ref(SYSTEM)]},
    }
    result = read(
        tree, Memory=ref(f"{SYSTEM}/Memory"), MemorySummary={"TotalSystemMemoryGiB": 61.035}
    )
    [entry] = result["hardware"]
    assert (entry["system_uri"], entry["gpus"], entry["memory_mib"]) == (SYSTEM, 2, 65536)


@pytest.mark.parametrize(
    ("path", "product", "gpus"), [("2", "second", 1), ("2/", "second", 1), ("1", "first", None)]
)
def test_a_bmc_of_several_servers_is_read_about_the_one_that_is_named(
    path: str, product: str, gpus: int | None
) -> None:
    systems: dict[str, t.Any] = {
        "1": {"Model": "first"},
        "2": {"Model": "second", "Processors": ref(f"{ROOT}/Systems/2/Processors")},
    }
    tree: dict[str, Document] = {
        ROOT: {"@odata.id": ROOT, "Systems": ref(f"{ROOT}/Systems")},
        **listed(f"{ROOT}/Systems", **systems),
        **listed(f"{ROOT}/Systems/2/Processors", one={"ProcessorType": "GPU"}),
    }
    with HttpsServer(tree) as server:
        options = SPEC.complete(
            {"targets": [], "tls_fingerprint": [SHARED_CERTIFICATE.fingerprint]}
        )

        def read_system(system: str) -> Result:
            extra = {"system": f"{ROOT}/Systems/{system}"}
            target = PollTarget("h", server.endpoint, "Redfish", "test", extra=extra)
            return read_targets([target], options)

        [entry] = read_system(path)["hardware"]
        assert (entry["product"], entry["gpus"]) == (product, gpus)
        [error] = read_system("3")["errors"]
        assert "has no computer system /redfish/v1/Systems/3" in error["detail"]


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"2": {}}, "2 computer systems (/redfish/v1/Systems/1, /redfish/v1/Systems/2)"),
        ({name: {"SystemType": "Physical"} for name in "23456"}, "6 computer systems"),
        ({"HGX_Baseboard_0": {}, "Bluefield": {}, "DPU1": {}}, None),
        ({"vm": {"SystemType": "Virtual"}, "card": {"SystemType": "DPU"}}, None),
    ],
)
def test_a_bmc_of_several_servers_is_not_read_if_none_is_named(
    others: dict[str, t.Any], told: str | None
) -> None:
    tree = listed(f"{ROOT}/Systems", **{"1": {"Model": "first"}}, **others)
    with HttpsServer({ROOT: {"Systems": ref(f"{ROOT}/Systems")}, **tree}) as server:
        target = {"name": "h", "endpoint": server.endpoint}
        options = {"targets": [target], "tls_fingerprint": [SHARED_CERTIFICATE.fingerprint]}
        result = read_hardware({**options, "min_success": 0})
    if told is None:
        assert [entry["product"] for entry in result["hardware"]] == ["first"]
    else:
        [error] = result["errors"]
        assert told in error["detail"] and "append the path of one" in error["detail"]


@pytest.mark.parametrize("path", ["/redfish/v1/Systems/2", "/redfish/v1/Systems/2/"])
def test_the_path_of_the_endpoint_may_name_the_system(path: str) -> None:
    systems = {"1": {"Model": "first"}, "2": {"Model": "second"}}
    tree = {ROOT: {"Systems": ref(f"{ROOT}/Systems")}, **listed(f"{ROOT}/Systems", **systems)}
    with HttpsServer(tree) as server:
        target = {"name": "h", "endpoint": f"{server.endpoint}{path}"}
        pins = [SHARED_CERTIFICATE.fingerprint]
        [entry] = read_hardware({"targets": [target], "tls_fingerprint": pins})["hardware"]
    assert (entry["product"], entry["endpoint"]) == ("second", server.endpoint)


@pytest.mark.parametrize("members", [[], [ref(SYSTEM)]])
def test_a_collection_in_another_form_tells_nothing(members: t.Any) -> None:
    """Neither that a host has no disk, nor that what it links is a processor."""
    [entry] = read({}, Storage=members, Processors=members, Memory=members)["hardware"]
    assert (entry["disks"], entry["memory_mib"], entry["processors"]["sockets"]) == (None,) * 3


def test_older_storage_and_processors_without_threads() -> None:
    disks = {"Devices": [{"Name": "sda", "CapacityBytes": 10**12}, {"Status": {"State": "Absent"}}]}
    result = read(
        listed(f"{SYSTEM}/SimpleStorage", one=disks),
        SimpleStorage=ref(f"{SYSTEM}/SimpleStorage"),
        ProcessorSummary={"Count": 2, "CoreCount": 16, "Model": "Old"},
    )
    [entry] = result["hardware"]
    assert entry["disks"] == [{"name": "sda", "size_bytes": 10**12, "kind": None}]
    assert (entry["processors"]["count"], entry["processors"]["model"]) == (16, "Old")
    assert entry["findings"] == ["processors: the BMC reports no threads, so cores are counted"]
