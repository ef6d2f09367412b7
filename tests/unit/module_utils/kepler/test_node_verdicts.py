# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts from Node objects, BMCs and versions, and from facts that another client wrote."""

from __future__ import annotations

import copy
import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import InvalidField
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.facts import (
    MAX_ITEMS,
    HwmonSensor,
    NodeFacts,
    RaplZone,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import Evidence
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node_objects import (
    bmcs_of,
    bmcs_of_node_configs,
    facts_of_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.verdict import (
    Bmc,
    KeplerVersion,
    judge,
)
from support.examples import each_seed
from support.odd_values import bounded, odd_value, spoilt

Json = dict[str, t.Any]
NEW, OLD = KeplerVersion.parse("0.11.4"), KeplerVersion.parse("v0.9.0")
NFD = "feature.node.kubernetes.io/"
FEATURES = {
    f"{NFD}cpu-model.vendor_id": "Intel",
    f"{NFD}cpu-model.family": "6",
    f"{NFD}cpu-model.id": "143",
    f"{NFD}cpu-cpuid.AVX512F": "true",
}
BMC = Bmc("NodeConfig wao-system/a")


def node(labels: Json | None = None, provider: str = "", **info: str) -> Json:
    given = {"architecture": "amd64", "operatingSystem": "linux", "kernelVersion": "5.14.0", **info}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "uid": "u", "labels": labels or {}},
        "spec": {"providerID": provider} if provider else {},
        "status": {"nodeInfo": given},
    }


OF_NODES: list[tuple[Json, KeplerVersion, Bmc | None, bool, str, str]] = [
    (node(FEATURES), NEW, None, True, "rapl", "not probed"),
    (node(FEATURES), OLD, None, True, "rapl", "not probed"),
    (node({**FEATURES, f"{NFD}cpu-cpuid.HYPERVISOR": "true"}), NEW, None, False, "none", "vm-oth"),
    (node(), NEW, None, False, "none", "whether the node is bare metal is unknown"),
    (node(), NEW, BMC, True, "rapl", "the BMC of NodeConfig wao-system/a meters the machine, too"),
    (node(provider="aws:///eu-1/i-1"), NEW, None, False, "none", "virtual machine (amazon)"),
    (node(provider="aws:///eu-1/i-1"), OLD, None, True, "model", "estimates"),
    (
        node({"node.kubernetes.io/instance-type": "m5.metal"}, "aws:///eu-1/i-1"),
        *(NEW, None, True, "rapl", "bare metal"),
    ),
    (node(provider="metal3://b/c/d"), NEW, None, True, "rapl", "bare metal"),
    (node(architecture="arm64"), NEW, BMC, False, "redfish", "exits without a CPU meter"),
    (node(architecture="arm64"), OLD, BMC, True, "redfish", "meters the machine"),
    (node(kernelVersion="3.10.0"), OLD, BMC, False, "none", "kernel 3.10.0 may lack BTF"),
    (node(operatingSystem="windows"), NEW, BMC, False, "none", "the node has windows"),
    (node(architecture=""), NEW, None, False, "none", "architecture is not visible"),
]


@pytest.mark.parametrize(("given", "version", "bmc", "supported", "meter", "reason"), OF_NODES)
def test_verdicts_from_the_node_object_alone(
    given: Json, version: KeplerVersion, bmc: Bmc | None, supported: bool, meter: str, reason: str
) -> None:
    verdict = judge(facts_of_node(given), version, bmc)
    assert (verdict.supported, verdict.meter) == (supported, meter), verdict.reasons
    assert reason in "; ".join(verdict.reasons)


def test_processor_features_name_the_microarchitecture() -> None:
    facts = facts_of_node(node(FEATURES))
    assert (facts.microarchitecture, facts.is_bare_metal) == ("sapphirerapids", True)


ARM = NodeFacts("host", "arm64", virtualization="none", rapl_zones=(), hwmon_sensors=(), btf=True)


@pytest.mark.parametrize(
    ("version", "bmc", "fake", "supported", "meter"),
    [
        ("0.11.4", BMC, False, False, "redfish"),
        ("0.11.4", BMC, True, True, "redfish"),
        ("0.10.2", BMC, True, False, "redfish"),
        ("0.9.0", BMC, False, True, "redfish"),
        ("0.9.0", Bmc("BareMetalHost a/b", redfish=False), False, True, "model"),
        ("0.11.4", Bmc("BareMetalHost a/b", redfish=False), True, False, "none"),
        ("0.11.4", None, True, False, "none"),
    ],
)
def test_a_bmc_meters_by_version_and_fake_meter(
    version: str, bmc: Bmc | None, fake: bool, supported: bool, meter: str
) -> None:
    verdict = judge(ARM, KeplerVersion.parse(version), bmc, fake)
    assert (verdict.supported, verdict.meter) == (supported, meter), verdict.reasons


def test_headers_that_a_container_does_not_see_are_not_taken_as_missing() -> None:
    facts = NodeFacts("host", "amd64", kernel="4.18.0", btf=False, rapl_zones=())
    [reason] = judge(facts, OLD).reasons
    assert reason.startswith("kernel 4.18.0 has no BTF, and its headers are not visible; probe the")


def test_readable_zones_count_before_sensors_and_sensors_before_a_bmc() -> None:
    zone = RaplZone("intel-rapl:0", "package-0", 1, True)
    sensor = HwmonSensor("hwmon0/power1_input", "xgene", "CPU", "power", "component", True)
    bad = RaplZone("intel-rapl:1", "package-1", None, False, "permission denied")
    for zones, sensors, meter in (
        ((zone,), (sensor,), "rapl"),
        ((zone, bad), (sensor,), "hwmon"),
        ((), (sensor,), "hwmon"),
        ((zone, bad), (), "redfish"),
    ):
        facts = NodeFacts(
            "host", "amd64", virtualization="kvm", rapl_zones=zones, hwmon_sensors=sensors
        )
        assert judge(facts, NEW, BMC, fake_cpu_meter=True).meter == meter


@pytest.mark.parametrize("text", ["", "1", "a.b", "0.11.4 ", "0.11.4;id", "9" * 400, "٣.١"])
def test_texts_that_are_no_versions_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a version of Kepler"):
        KeplerVersion.parse(text)


@pytest.mark.parametrize("text", ["0.11", "v0.11.4", "0.10.0-rc1", "latest", "1.0.0+build.1"])
def test_tags_of_images_are_versions(text: str) -> None:
    assert not KeplerVersion.parse(text).uses_ebpf


def host(name: str, address: str, uid: str = "u1") -> Json:
    metadata = {"namespace": "metal", "name": name, "uid": uid}
    return {"metadata": metadata, "spec": {"bmc": {"address": address}}}


@pytest.mark.parametrize(
    ("provider", "found"),
    [
        ("metal3://metal/host-1/machine-1", "BareMetalHost metal/host-1"),
        ("metal3://u2", "BareMetalHost metal/a"),
        ("baremetalhost:///metal/host-1/u1", "BareMetalHost metal/host-1"),
        ("metal3://other/host-1/machine-1", None),
        ("aws:///eu-1/i-1", None),
        ("", "BareMetalHost metal/a"),
    ],
)
def test_bare_metal_hosts_are_found_by_provider_and_name(provider: str, found: str | None) -> None:
    hosts = bmcs_of([host("host-1", "ipmi://10.0.0.7"), host("a", "redfish://b/c", "u2")])
    bmc = hosts.of_node(node(provider=provider))
    assert (bmc.source if bmc else None) == found
    assert bmc is None or bmc.redfish == (found == "BareMetalHost metal/a")


@pytest.mark.parametrize(
    ("address", "redfish"),
    [
        ("redfish+http://a/b", True),
        ("redfish-virtualmedia://a/b", True),
        ("idrac-virtualmedia+https://a/b", True),
        ("ilo5-redfish://a/b", True),
        ("idrac://a", False),
        ("a.example", False),
    ],
)
def test_drivers_of_metal3_that_speak_redfish(address: str, redfish: bool) -> None:
    bmc = bmcs_of([host("a", address)]).of_node(node())
    assert bmc is not None and bmc.redfish is redfish


def test_only_redfish_services_of_node_configs_are_bmcs() -> None:
    def config(kind: str) -> Json:
        spec = {"metricsCollector": {"inletTemp": {"type": kind}}}
        return {"metadata": {"namespace": "wao-system", "name": "a"}, "spec": spec}

    assert bmcs_of_node_configs({"a": config("Redfish"), "b": config("Fake")}) == {"a": BMC}


FACTS = {
    **NodeFacts("host", "amd64", virtualization="none").as_dict(),
    "rapl_zones": [RaplZone("intel-rapl:0", "package-0", 1, True).__dict__],
    "hwmon_sensors": [],
    "gpus": [],
    "btf": True,
}


def test_facts_of_a_result_are_read_and_its_other_members_are_not() -> None:
    facts = NodeFacts.from_dict({**FACTS, "changed": False, "supported": True, "meter": "psychic"})
    assert judge(facts, NEW).meter == "rapl"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"source": "psychic"}, "source"),
        ({"architecture": "a\nb"}, "architecture"),
        ({"cpu_model": "x" * 201}, "cpu_model"),
        ({"btf": 1}, "btf"),
        ({"rapl_zones": {}}, "rapl_zones"),
        ({"rapl_zones": [{}]}, "rapl_zones[0].path"),
        ({"rapl_zones": FACTS["rapl_zones"] * (MAX_ITEMS + 1)}, "rapl_zones"),
        ({"problems": ["a\x1b[2J"]}, "problems[0]"),
        ({"gpus": [None]}, "gpus[0]"),
    ],
)
def test_facts_that_break_the_schema_are_refused(change: Json, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        NodeFacts.from_dict({**FACTS, **change})
    assert caught.value.field == field


def test_a_host_that_was_not_reached_is_judged_by_its_node() -> None:
    probes = {"a": {"unreachable": True, "msg": "no route to host"}}
    grounds = Evidence(NEW, False, probes, {}, bmcs_of([]))
    judged, findings = grounds.judge(node(FEATURES))
    assert (judged.facts.source, judged.verdict.meter, findings) == ("node", "rapl", [])


@each_seed(150)
def test_odd_facts_are_the_finding_of_their_node_alone(seed: int) -> None:
    source = random.Random(seed)
    odd = odd_value(source, finite=False) if seed % 3 == 0 else spoilt(source, FACTS, finite=False)
    grounds = Evidence(NEW, False, {"a": odd, "b": FACTS}, {}, bmcs_of([odd]))
    good = copy.deepcopy(node())
    good["metadata"]["name"] = "b"
    with bounded():
        judged, findings = grounds.judge(node())
        assert judged.verdict.reasons and judged.manifest(node())["metadata"]["labels"]
        assert not findings or not judged.verdict.supported
        assert grounds.judge(good)[0].verdict == judge(NodeFacts.from_dict(FACTS), NEW)
