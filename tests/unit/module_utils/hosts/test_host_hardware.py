# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HostHardware: a BMC's report, as stored and as it completes a BareMetalHost."""

from __future__ import annotations

import datetime
import json
import typing as t
from dataclasses import replace
from types import MappingProxyType

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.bare_metal_host import (
    host_of,
    read_hosts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host import Host
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host_hardware import (
    hosts_of_bmcs,
    manifest,
    spec_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.role_assignment import assign
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.bare_metal import (
    redfish_endpoint,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.hardware.walk import (
    CORES_COUNTED,
)
from support.assignable_hosts import bare_metal_host
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

MAC, OTHER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
ADDRESS = "redfish://10.0.0.9/redfish/v1/Systems/1"
ENTRY: Json = {
    "name": "ignored",
    "rack": "r7",
    "processors": {"count": 128, "cores": 64, "sockets": 1, "model": "AMD EPYC 7702P"},
    "memory_mib": 262144,
    "network_interfaces": [
        {"name": "NIC.1", "mac": MAC, "ip": "10.9.9.9", "pci_id": "8086:1572", "can_sriov": True},
        {"name": "NIC.2", "mac": OTHER_MAC, "ip": "10.1.0.2", "boots": True, "can_sriov": True},
    ],
    "disks": [{"name": "Bay.0", "size_bytes": 10**12, "kind": "SSD"}],
    "pci_devices": [{"pci_id": "8086:37c8", "name": "QuickAssist"}],
    "has_qat": True,
    "gpus": 0,
    "sriov_enabled": False,
    "serial_number": "S1",
    "findings": [],
}


NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def inspected(
    at: datetime.datetime | None = None, labels: t.Mapping[str, str] = MappingProxyType({})
) -> Json:
    found = bare_metal_host("n-1", [{"name": "eth0", "mac": MAC, "ip": "10.1.0.1", "pxe": True}])
    found["metadata"] |= {"uid": "u-1", "labels": dict(labels)}
    found["spec"]["bmc"] = {"address": ADDRESS, "credentialsName": "bmc"}
    if at is not None:
        found["status"]["operationHistory"] = {"inspect": {"start": None, "end": format_time(at)}}
    return found


def stored(entry: Json = ENTRY, **changed: t.Any) -> Json:
    host = host_of(inspected())
    spec = spec_of(host, entry, None, NOW, is_partial=False)
    return manifest(host, {**spec, **changed})


def told(
    *objects: t.Any,
    at: datetime.datetime | None = None,
    labels: t.Mapping[str, str] = MappingProxyType({}),
) -> Host:
    known, _findings = hosts_of_bmcs(objects)
    [host] = read_hosts([inspected(at, labels)], of_bmcs=known).hosts
    return host


def test_what_a_bmc_told_completes_and_replaces_what_an_inspection_told() -> None:
    before, after = told(), told(stored())
    assert before.hardware.memory_mib != after.hardware.memory_mib == 262144
    assert before.hardware.processors.count != after.hardware.processors.count == 128
    assert (before.hardware.has_qat, after.hardware.has_qat) == (None, True)
    assert (after.hardware.gpus, after.hardware.sriov_enabled, after.rack) == (0, False, "r7")
    assert before.hardware.disks is None
    assert [disk.kind for disk in after.hardware.disks or ()] == ["SSD"]
    port, other = after.hardware.network_interfaces
    assert port == replace(
        before.hardware.network_interfaces[0], pci_id="8086:1572", can_sriov=True
    )
    assert (port.ip, other.can_sriov) == ("10.1.0.1", True)


def test_a_host_without_inspection_has_all_facts_but_addresses_of_its_bmc() -> None:
    known, _findings = hosts_of_bmcs([stored()])
    bare = inspected()
    del bare["status"]["hardware"]
    [host] = read_hosts([bare], of_bmcs=known).hosts
    assert (host.hardware.processors.count, host.hardware.memory_mib) == (128, 262144)
    assert (host.hardware.has_qat, host.hardware.serial_number) == (True, "S1")
    assert [(port.mac, port.ip) for port in host.hardware.network_interfaces] == [(None, None)] * 2
    assert any(port.can_sriov for port in host.hardware.network_interfaces)


def test_a_later_inspection_keeps_its_facts_and_lacks_none() -> None:
    before, after = told(at=NOW + HOUR), told(stored(), at=NOW + HOUR)
    assert after.hardware.memory_mib == before.hardware.memory_mib
    assert after.hardware.processors == before.hardware.processors
    assert (after.hardware.has_qat, after.hardware.gpus, after.rack) == (True, 0, "r7")
    assert told(stored(), at=NOW - HOUR).hardware.memory_mib == 262144
    # An unreadable time counts as the oldest.
    assert told(stored(readTime="soon"), at=NOW - HOUR).hardware == after.hardware
    assert told(stored(readTime=None)).hardware.memory_mib == 262144


def test_an_equal_reading_is_stored_again_only_after_an_inspection() -> None:
    def again(at: datetime.datetime | None, **changed: t.Any) -> Json:
        later, before = NOW + 9 * HOUR, stored(**changed)["spec"]
        return spec_of(host_of(inspected(at)), ENTRY, before, later, is_partial=False)

    assert again(None) == again(NOW - HOUR) == stored()["spec"]
    assert again(NOW + HOUR)["readTime"] == format_time(NOW + 9 * HOUR)
    assert again(None, rack="r1")["readTime"] == format_time(NOW + 9 * HOUR)


def test_a_role_that_needs_quick_assist_goes_to_the_host_of_which_its_bmc_tells_it() -> None:
    other = inspected()
    other["metadata"] |= {"name": "n-0", "uid": "u-0"}
    other["spec"]["bootMACAddress"] = OTHER_MAC
    other["status"]["hardware"]["nics"] = [{"name": "eth0", "mac": OTHER_MAC, "ip": "10.1.0.9"}]
    given: Json = {"hosts": [other, inspected()], "request": {"master": {"qat": True}}}
    foreign = stored()
    foreign["metadata"]["name"] = "n-0"
    found = assign({**given, "on_error": "report", "host_hardware": [foreign]})
    assert found["outcome"] != "assigned"
    found = assign({**given, "host_hardware": [foreign, {"spec": []}, stored()]})
    assert {each["host"] for each in found["assignments"]} == {"n-1"}
    assert {(each["kind"], each["name"]) for each in found["findings"]} == {
        ("HostHardware", "HostHardware[1]"),
        ("BareMetalHost", "n-0"),
    }


def test_the_disks_of_an_operating_system_are_those_of_the_inspection() -> None:
    known, _findings = hosts_of_bmcs([stored()])
    host = inspected()
    host["status"]["hardware"]["storage"] = [{"name": "/dev/sda", "sizeBytes": 5}]
    [read] = read_hosts([host], of_bmcs=known).hosts
    assert [disk.size_bytes for disk in read.hardware.disks or ()] == [5]


def test_a_bmc_gives_no_host_an_address_and_no_name_by_which_a_spec_finds_it() -> None:
    after = told(stored())
    assert "ip" not in str(stored()["spec"]["hardware"]["networkInterfaces"])
    assert OTHER_MAC not in after.macs and after.macs == told().macs
    assert [port.ip for port in after.hardware.network_interfaces] == ["10.1.0.1", None]


def test_labels_of_people_beat_a_bmc() -> None:
    assert told(stored(), labels={"wattwise.github.io/qat": "false"}).hardware.has_qat is False
    assert told(stored(), labels={"wattwise.github.io/rack": "r1"}).rack == "r1"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"hostUid": "u-2"}, "another BareMetalHost than this one: hostUid is not its uid"),
        ({"bmcAddress": "redfish://10.0.0.8"}, "another BMC than that in spec.bmc.address"),
    ],
)
def test_facts_of_another_machine_of_the_same_name_are_a_finding_and_count_for_nothing(
    changed: Json, sentence: str
) -> None:
    host = told(stored(**changed))
    [finding] = host.findings
    assert finding == f"HostHardware of the same name does not count, because it is of {sentence}"
    assert replace(host, findings=()) == told()
    assert told(stored()).findings == ()


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        "text",
        {"spec": 1},
        {"metadata": {"name": "n-1", "namespace": "metal3"}, "spec": {"hardware": []}},
        {"metadata": {"namespace": "metal3"}, "spec": {"hardware": {}}},
        {"metadata": {"name": "x"}, "spec": {"hardware": {"memoryMib": -1, "disks": {"a": 1}}}},
    ],
)
def test_a_defective_object_is_a_finding_and_changes_no_host(odd: t.Any) -> None:
    known, findings = hosts_of_bmcs([odd, stored()])
    assert findings
    assert known["metal3", "n-1"].hardware.memory_mib == 262144


def test_hostile_facts_are_stored_within_the_limits_of_the_definition() -> None:
    port = {"name": "x" * 300, "mac": MAC, "can_sriov": "yes"}
    ports = [{**port, "name": str(number)} for number in range(300)]
    hostile = {
        **ENTRY,
        "memory_mib": 10**30,
        "processors": {"count": -1, "model": "a\nb", "more": {"deep": [1]}},
        "network_interfaces": [port, 7, *ports],
        "pci_devices": [{"pci_id": "8086:37c8", "name": "y" * 999}] * 2000,
        "product": "\x1b[31m",
        "unknown": "z" * 10**6,
    }
    spec = stored(hostile)["spec"]
    assert len(json.dumps(spec)) < 100_000
    path = DEFINITIONS / "bpa.akraino.org_hosthardwares.yaml"
    [version] = yaml.safe_load(path.read_text())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert not list(violations(spec, schema, "spec"))
    assert not list(violations(stored()["spec"], schema, "spec"))
    assert "memoryMib" not in spec["hardware"] and "processors" not in spec["hardware"]


def violations(value: t.Any, schema: Json, where: str) -> t.Iterator[str]:
    """Places where a value violates the schema, as far as the CRD uses OpenAPI."""
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    kind = kinds.get(schema["type"], (int, float))
    if not isinstance(value, kind):
        yield f"{where}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        yield from (f"{where}.{name} is unknown" for name in value.keys() - schema["properties"])
        for name in value.keys() & schema["properties"].keys():
            yield from violations(value[name], schema["properties"][name], f"{where}.{name}")
    elif isinstance(value, list):
        if len(value) > schema["maxItems"]:
            yield f"{where} has {len(value)} items"
        for item in value:
            yield from violations(item, schema["items"], where)
    elif isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield f"{where} is too long"


def test_cores_do_not_replace_threads_that_the_inspection_counted() -> None:
    entry = {**ENTRY, "findings": [CORES_COUNTED]}
    assert "count" not in stored(entry)["spec"]["hardware"]["processors"]


def test_a_partial_answer_replaces_no_list() -> None:
    host, before = host_of(inspected()), stored()["spec"]
    partial = {**ENTRY, "memory_mib": 131072, "has_qat": None, "network_interfaces": []}
    spec = spec_of(host, {**partial, "rack": None}, before, NOW + HOUR, is_partial=True)
    hardware = spec["hardware"]
    assert hardware["memoryMib"] == 131072 and hardware["hasQat"] is True
    assert hardware["networkInterfaces"] == before["hardware"]["networkInterfaces"]
    assert (spec["rack"], spec["readTime"]) == ("r7", before["readTime"])


@pytest.mark.parametrize("other", [{"hostUid": "u-0"}, {"bmcAddress": "redfish://10.0.0.8"}])
def test_a_partial_answer_keeps_no_facts_of_another_machine(other: Json) -> None:
    before, partial = {**stored()["spec"], **other}, {**ENTRY, "has_qat": None, "disks": []}
    hardware = spec_of(host_of(inspected()), partial, before, NOW, is_partial=True)["hardware"]
    assert "hasQat" not in hardware and hardware["disks"] == []


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("redfish://10.0.0.9/redfish/v1/Systems/1", ("https://10.0.0.9", "/redfish/v1/Systems/1")),
        (
            "redfish+http://bmc:8000/redfish/v1/Systems/a/",
            ("http://bmc:8000", "/redfish/v1/Systems/a"),
        ),
        ("idrac-virtualmedia+https://[fd00::1]:443/s?x=1", ("https://[fd00::1]:443", "/s")),
        ("ilo5-redfish://ilo", ("https://ilo", "")),
        ("ipmi://10.0.0.9", None),
        ("10.0.0.9", None),
        ("redfish://", None),
        ("redfish+ftp://10.0.0.9", None),
        (None, None),
    ],
)
def test_an_address_of_metal3_is_an_endpoint_with_a_computer_system(
    address: str | None, expected: tuple[str, str] | None
) -> None:
    assert redfish_endpoint(address) == expected
